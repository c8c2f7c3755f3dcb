import http from 'node:http';
import { bodyReader, hasBody } from './body.mjs';
import { createContext, Event } from './event.mjs';
import { preloadExpress } from './express.mjs';
import { log, logAccess } from './log.mjs';
import { Metrics } from './metrics.mjs';
import { sendCallback, sendText, sendValue } from './response.mjs';
import { inTraceOf } from './tracing.mjs';

const newest = Symbol('newest response of a connection');

/**
 * Makes the server, which does not listen yet. Until ready(main) is called /healthz is 503
 * and every call 500. stopping() makes each answer the last one of its connection.
 */
export function createServer(options) {
  const context = createContext(options);
  const readBody = bodyReader(options.bodyLimitMB);
  const metrics = new Metrics();
  const connections = new Set();
  const timeoutMs = options.timeoutSeconds * 1000;
  let main;
  let lastAnswers = false;

  const server = http.createServer((req, res) => {
    req.socket[newest] = res;
    if (lastAnswers) res.setHeader('Connection', 'close');
    if (options.accessLog) logAccess(req, res);
    res.setHeader('Access-Control-Allow-Origin', '*');
    if (req.method === 'OPTIONS') return preflight(req, res);
    switch (pathOf(req.url)) {
      case '/healthz':
        return main ? res.end('OK') : sendText(res, 503, 'handler is not loaded yet');
      case '/metrics':
        res.setHeader('Content-Type', 'text/plain; version=0.0.4; charset=utf-8');
        return res.end(metrics.text());
      case '/favicon.ico':
        res.statusCode = 204;
        return res.end();
      default:
        return main ? serve(req, res) : sendText(res, 500, 'handler is not loaded');
    }
  });
  server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  // A proxy that keeps connections must be the first to drop one, or it sends into a closed one.
  server.keepAliveTimeout = 75_000;

  function serve(req, res) {
    if (!hasBody(req)) return inTraceOf(req, call, req, res);
    limitTime(res);
    readBody(req, res, (error) => {
      if (error) return sendText(res, error.status ?? 400, error.message);
      inTraceOf(req, call, req, res);
    });
  }

  function call(req, res) {
    const start = performance.now();
    metrics.calls++;
    const succeed = (value) => {
      metrics.observe(performance.now() - start);
      sendValue(req, res, value);
      if (!res.writableEnded) limitTime(res);
    };
    const fail = (error) => {
      metrics.observe(performance.now() - start);
      metrics.failures++;
      log.error('handler failed', { error });
      sendText(res, 500, typeof error === 'string' ? error : 'Internal server error');
    };
    try {
      const event = new Event(req, res, options);
      const result = main(event, context, (body, status, headers) => sendCallback(req, res, body, status, headers));
      if (typeof result?.then !== 'function') return succeed(result);
      limitTime(res);
      result.then(succeed).then(undefined, fail);
    } catch (error) {
      fail(error);
    }
  }

  // Only calls that outlive their first turn can be timed, so only they pay for a timer.
  function limitTime(res) {
    if (res.timer) return;
    res.timer = setTimeout(() => {
      if (res.writableEnded) return;
      // An answer that is under way may take its time, as long as bytes move.
      if (res.headersSent) return res.setTimeout(timeoutMs, () => res.destroy());
      metrics.failures++;
      res.setHeader('Connection', 'close');
      sendText(res, 408, `no answer in ${options.timeoutSeconds} s`);
    }, timeoutMs);
    res.once('close', () => clearTimeout(res.timer));
  }

  return {
    http: server,
    ready(handler) {
      main = handler;
      setImmediate(preloadExpress);
    },
    stopping() {
      lastAnswers = true;
      for (const { [newest]: res } of connections) {
        if (res && !res.headersSent) res.setHeader('Connection', 'close');
      }
    },
  };
}

function preflight(req, res) {
  const { 'access-control-request-method': method, 'access-control-request-headers': headers } = req.headers;
  if (method) res.setHeader('Access-Control-Allow-Methods', method);
  if (headers) res.setHeader('Access-Control-Allow-Headers', headers);
  res.end();
}

function pathOf(url) {
  const end = url.indexOf('?');
  return end < 0 ? url : url.slice(0, end);
}
