// Express is loaded when it is first needed: it takes longer to load than everything else here.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const adopted = Symbol('adopted');
const piped = Symbol('a stream is piped into it');
let express;
let app;

/** Loads Express now, so that no request has to wait for it. */
export function preloadExpress() {
  if (app) return;
  express = require('express');
  app = express();
}

export function expressParsers() {
  preloadExpress();
  return express;
}

/**
 * Makes Express' request and response out of Node's, as its router would, without a router:
 * same objects, richer prototypes.
 */
export function adopt(req, res) {
  if (req[adopted]) return;
  preloadExpress();
  req[adopted] = true;
  req.res = res;
  res.req = req;
  req.originalUrl ??= req.url;
  req.baseUrl = '';
  req.params = {};
  req.next = (error) => {
    if (res.headersSent) return res.destroy(error);
    res.statusCode = error?.status ?? error?.statusCode ?? (error ? 500 : 404);
    res.end();
  };
  res.once('pipe', () => {
    res[piped] = true;
  });
  res.locals = Object.create(null);
  Object.setPrototypeOf(req, app.request);
  Object.setPrototypeOf(res, app.response);
}

/** True when a stream that the handler has piped into res is going to end it. */
export const isPiped = (res) => res[piped] === true;
