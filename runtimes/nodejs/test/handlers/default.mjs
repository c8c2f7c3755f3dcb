export default { main: () => 'default object' };
