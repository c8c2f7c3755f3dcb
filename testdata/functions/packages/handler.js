const _ = require("lodash");
const axios = require("axios");

module.exports = {
  main: function (event, context) {
    return _.kebabCase("Hello Packages") + " " + typeof axios.get;
  },
};
