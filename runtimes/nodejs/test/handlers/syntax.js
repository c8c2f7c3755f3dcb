module.exports = { main: ( => 1 };
