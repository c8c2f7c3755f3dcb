import http from 'node:http';
import { bodyReader, hasBody } from './body.mjs';
import { createContext, Event } from './event.mjs';
import { adopt, preloadExpress } from './express.mjs';
import { log, logAccess } from './log.mjs';
import { Metrics } from './metrics.mjs';
import { sendCallback, sendText, sendValue } from './response.mjs';
import { abort } from './signal.mjs';
import { currentRequest, inTraceOf, recordError, requestIdOf } from './tracing.mjs';

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
  const invoke = options.sdk ? callWithSDK : call;
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
    if (!hasBody(req)) return inTraceOf(req, invoke, res);
    limitTime(res);
    readBody(req, res, (error) => {
      if (error) return sendText(res, error.status ?? 400, error.message);
      inTraceOf(req, invoke, res);
    });
  }

  function call(req, res) {
    const { succeed, fail, wait } = begin(req, res);
    try {
      const event = new Event(req, res, options);
      const send = (body, status, headers) => sendCallback(req, res, body, status, headers, fail);
      const result = main(event, context, send);
      if (typeof result?.then !== 'function') return succeed(result);
      wait();
      result.then(succeed, fail);
    } catch (error) {
      fail(error);
    }
  }

  // The newer API: the handler answers by itself, what it returns means nothing.
  function callWithSDK(req, res) {
    const { fail, settled, wait } = begin(req, res);
    try {
      adopt(req, res);
      const result = main(req, res);
      if (typeof result?.then !== 'function') return settled();
      wait();
      result.then(settled, fail);
    } catch (error) {
      fail(error);
    }
  }

  function begin(req, res) {
    const start = performance.now();
    let done = false;
    metrics.calls++;
    metrics.active++;
    req.res = res;
    let waits = false;
    const answered = () => {
      metrics.active--;
      metrics.answered(req.method, res.statusCode, performance.now() - start);
    };
    const handled = () => {
      if (done) return false;
      done = true;
      metrics.observe(performance.now() - start);
      return true;
    };
    // From here on the end of the answer is an event, and its time is limited.
    const wait = () => {
      if (waits) return;
      waits = true;
      limitTime(res);
      res.once('close', () => {
        handled();
        answered();
      });
    };
    const settled = () => {
      if (!handled() || waits) return;
      if (res.writableEnded && !res.writableLength) answered();
      else wait();
    };
    const fail = (error) => {
      failed(req, res, 'handler failed', error);
      settled();
    };
    const succeed = (value) => {
      try {
        sendValue(req, res, value, fail);
        settled();
      } catch (error) {
        fail(error);
      }
    };
    return { succeed, fail, settled, wait };
  }

  /** Logs an error, and answers with 500 if req is not answered yet. */
  function failed(req, res, message, error) {
    log.error(message, { error });
    metrics.failures++;
    recordError(req, error);
    if (!res.headersSent) res.setHeader('X-Request-Id', requestIdOf(req));
    sendText(res, 500, typeof error === 'string' ? error : 'Internal server error');
  }

  // Only calls that outlive their first turn can be timed, so only they pay for a timer.
  function limitTime(res) {
    if (res.timer) return;
    res.timer = setTimeout(() => {
      abort(res, 'TimeoutError', `no answer in ${options.timeoutSeconds} s`);
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
    /**
     * Takes an error that no handler has caught. The request in whose course it was thrown, if that
     * is known, gets its 500; the process goes on, for one bad promise must not end the requests
     * that run beside it.
     */
    uncaught(message, error) {
      const req = currentRequest();
      if (!req?.res || req.res.writableEnded) return log.error(message, { error });
      failed(req, req.res, message, error);
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
