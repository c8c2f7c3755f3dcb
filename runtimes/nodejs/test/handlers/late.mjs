await new Promise((resolve) => setTimeout(resolve, 500));
export const main = () => 'late';
