module.exports = { handler: () => 'never' };
