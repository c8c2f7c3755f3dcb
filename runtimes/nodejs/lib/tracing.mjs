// Carries the trace context of an incoming request to the outgoing ones its handler makes. Without
// a collector nothing is recorded: the ids pass through as they came, or new ones are made. With
// one, a recorder (recorder.mjs) makes the ids.
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes, randomUUID } from 'node:crypto';
import diagnostics from 'node:diagnostics_channel';
import http from 'node:http';
import https from 'node:https';
import { createRequire, syncBuiltinESMExports } from 'node:module';

const require = createRequire(import.meta.url);
const requests = new AsyncLocalStorage();
const outgoing = Symbol('outgoing trace headers');
const requestId = Symbol('request id');
let recorder;
let ownTracer;

/** Calls fn(req, res) so that outgoing requests made in it, now or later, belong to req. */
export function inTraceOf(req, fn, res) {
  return recorder ? requests.run(req, recorder.serve, req, res, fn) : requests.run(req, fn, req, res);
}

/** Gives the request whose handler runs now, if any. */
export const currentRequest = () => requests.getStore();

/** Gives the id that the caller has sent, or makes one. */
export function requestIdOf(req) {
  req[requestId] ??= req.headers['x-request-id'] || randomUUID();
  return req[requestId];
}

/** Gives the trace id that the request came with or that its handler has sent on, if any. */
export function traceIdOf(req) {
  return recorder?.traceIdOf(req) ?? req[outgoing]?.[0][1].slice(3, 35) ?? incomingContext(req.headers)?.trace;
}

/** The tracer of the OpenTelemetry API. It records when there is a collector, or when a handler registers a provider. */
export function tracer() {
  ownTracer ??= require('@opentelemetry/api').trace.getTracer('io.kyma-project.serverless');
  return ownTracer;
}

/** Makes a recorder record every call and every outgoing request from now on. */
export function record(made) {
  recorder = made;
}

/** Tells the recorder of an error of a request's handler. */
export const recordError = (req, error) => recorder?.failed(req, error);

/** Makes every outgoing request of this process carry the trace headers. */
export function propagateTraceContext() {
  const fetches = new WeakMap();
  diagnostics.subscribe('undici:request:create', ({ request }) => {
    const call = begin(request.method, request.origin, request.path);
    const present = String(request.headers).toLowerCase();
    for (const [name, value] of call.headers) {
      if (!present.includes(name)) request.addHeader(name, value);
    }
    if (call.end) fetches.set(request, call);
  });
  diagnostics.subscribe('undici:request:headers', ({ request, response }) => fetches.get(request)?.end(response.statusCode));
  diagnostics.subscribe('undici:request:error', ({ request, error }) => fetches.get(request)?.end(undefined, error));
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
  const call = begin(request.method, `${request.protocol}//${request.host}`, request.path);
  for (const [name, value] of call.headers) {
    if (!request.hasHeader(name)) request.setHeader(name, value);
  }
  // Listeners of "response" and "error" would change what Node.js does for handlers that have none.
  if (call.end) request.once('close', () => call.end(request.res?.statusCode, request.errored));
  return request;
}

/** Begins an outgoing request: its headers, and with a recorder also what ends it. */
function begin(method, origin, path) {
  return recorder ? recorder.send(method, origin, path) : { headers: currentHeaders() };
}

function currentHeaders() {
  const req = requests.getStore();
  if (!req) return [];
  req[outgoing] ??= Object.entries(traceHeaders(req.headers));
  return req[outgoing];
}

/** Gives the trace, span and sampling of a request's headers, W3C before B3; undefined if there is none. */
export function incomingContext(headers) {
  if (headers.traceparent) {
    const found = fromW3C(headers.traceparent);
    if (found) return found;
  }
  if (headers['x-b3-traceid']) return fromB3(headers);
  return headers.b3 ? fromB3Single(headers.b3) : undefined;
}

/** Gives the headers of a context, in both formats. */
export function headersOf({ trace, span, sampled }) {
  return {
    traceparent: `00-${trace}-${span}-${sampled ? '01' : '00'}`,
    'x-b3-traceid': trace,
    'x-b3-spanid': span,
    'x-b3-sampled': sampled ? '1' : '0',
  };
}

/** Gives the W3C and B3 headers that say the same as the incoming ones, or a new trace. */
export function traceHeaders(headers) {
  const result = headersOf(incomingContext(headers) ?? newTrace());
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
