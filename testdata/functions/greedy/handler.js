module.exports = { main: function (event, context) { return "greedy"; } }
