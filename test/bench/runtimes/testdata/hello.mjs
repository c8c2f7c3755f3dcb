export const main = () => 'hello';
