module.exports = { main: function (event, context) { return "what the script made"; } }
