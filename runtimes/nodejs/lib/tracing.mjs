// Carries the trace context of an incoming request to the outgoing ones its handler makes.
// Nothing is recorded here: the ids pass through as they came, or new ones are made.
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import diagnostics from 'node:diagnostics_channel';
import http from 'node:http';
import https from 'node:https';
import { createRequire, syncBuiltinESMExports } from 'node:module';

const require = createRequire(import.meta.url);
const requests = new AsyncLocalStorage();
const outgoing = Symbol('outgoing trace headers');

/** Calls fn so that outgoing requests made in it, now or later, belong to req. */
export const inTraceOf = (req, fn, ...args) => requests.run(req, fn, ...args);

let noop;

/** The tracer of the OpenTelemetry API: it records when a handler registers a provider. */
export function tracer() {
  noop ??= require('@opentelemetry/api').trace.getTracer('io.kyma-project.serverless');
  return noop;
}

/** Makes every outgoing request of this process carry the trace headers. */
export function propagateTraceContext() {
  diagnostics.subscribe('undici:request:create', ({ request }) => {
    const present = String(request.headers).toLowerCase();
    for (const [name, value] of currentHeaders()) {
      if (!present.includes(name)) request.addHeader(name, value);
    }
  });
  const major = Number.parseInt(process.versions.node, 10);
  if (major >= 22) {
    diagnostics.subscribe('http.client.request.created', ({ request }) => addTo(request));
    return;
  }
  // Node.js 20 has no such channel; this branch goes with its support.
  for (const module of [http, https]) {
    const { request } = module;
    module.request = (...args) => addTo(request(...args));
    module.get = (...args) => {
      const created = module.request(...args);
      created.end();
      return created;
    };
  }
  syncBuiltinESMExports();
}

function addTo(request) {
  if (request.headersSent) return request;
  for (const [name, value] of currentHeaders()) {
    if (!request.hasHeader(name)) request.setHeader(name, value);
  }
  return request;
}

function currentHeaders() {
  const req = requests.getStore();
  if (!req) return [];
  req[outgoing] ??= Object.entries(traceHeaders(req.headers));
  return req[outgoing];
}

/** Gives the W3C and B3 headers that say the same as the incoming ones, or a new trace. */
export function traceHeaders(headers) {
  const { trace, span, sampled } =
    fromW3C(headers.traceparent) ?? fromB3(headers) ?? fromB3Single(headers.b3) ?? newTrace();
  const result = {
    traceparent: `00-${trace}-${span}-${sampled ? '01' : '00'}`,
    'x-b3-traceid': trace,
    'x-b3-spanid': span,
    'x-b3-sampled': sampled ? '1' : '0',
  };
  if (headers.tracestate && headers.traceparent) result.tracestate = headers.tracestate;
  return result;
}

function newTrace() {
  return { trace: randomBytes(16).toString('hex'), span: randomBytes(8).toString('hex'), sampled: true };
}

function fromW3C(value) {
  const match = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(value ?? '');
  return match && ids(match[1], match[2], (Number.parseInt(match[3], 16) & 1) === 1);
}

function fromB3(headers) {
  const flag = headers['x-b3-sampled'];
  const sampled = headers['x-b3-flags'] === '1' || (flag !== '0' && flag !== 'false');
  return ids(headers['x-b3-traceid'], headers['x-b3-spanid'], sampled);
}

function fromB3Single(value) {
  const [trace, span, flag] = (value ?? '').split('-');
  return ids(trace, span, flag !== '0');
}

function ids(trace = '', span = '', sampled = true) {
  if (!/^([0-9a-f]{16}){1,2}$/i.test(trace) || !/^[0-9a-f]{16}$/i.test(span)) return undefined;
  if (/^0+$/.test(trace) || /^0+$/.test(span)) return undefined;
  return { trace: trace.toLowerCase().padStart(32, '0'), span: span.toLowerCase(), sampled };
}
