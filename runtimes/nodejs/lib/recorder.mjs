// Records calls and outgoing requests as OpenTelemetry spans and sends them to a collector over
// OTLP/HTTP. Only a Function with a collector imports this: the packages take their time to load.
import { context, isSpanContextValid, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, TraceFlags } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { isTracingSuppressed, TraceState, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { headersOf, incomingContext, tracer } from './tracing.mjs';

const serverSpan = Symbol('span of a call');

/**
 * Makes a recorder that sends to options.traceCollector. Sampling follows the caller; a trace that
 * begins here is recorded.
 */
export function createRecorder({ traceCollector, functionName, namespace, runtime }) {
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      'service.name': functionName ?? 'function',
      'service.namespace': namespace,
      'faas.name': functionName,
      'process.runtime.name': 'nodejs',
      'process.runtime.version': process.versions.node,
      'gitfn.runtime': runtime,
    }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: traceCollector }), { scheduledDelayMillis: 500 })],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());

  return {
    /** Calls fn(req, res) within a span that ends with the answer. */
    serve(req, res, fn) {
      const parent = incomingSpan(req.headers);
      const span = tracer().startSpan(req.method, { kind: SpanKind.SERVER, attributes: attributesOf(req) }, parent);
      req[serverSpan] = span;
      res.once('close', () => {
        span.setAttribute('http.response.status_code', res.statusCode);
        if (res.statusCode >= 500 || !res.writableFinished) span.setStatus({ code: SpanStatusCode.ERROR });
        span.end();
      });
      return context.with(trace.setSpan(parent, span), fn, undefined, req, res);
    },

    /** Begins the span of an outgoing request; end(status, error) ends it. */
    send(method, origin, path) {
      const active = context.active();
      // What sends the spans must not make more of them.
      if (isTracingSuppressed(active) || !trace.getSpan(active)) return { headers: [] };
      const url = new URL(path, origin);
      const span = tracer().startSpan(method, {
        kind: SpanKind.CLIENT,
        attributes: {
          'http.request.method': method,
          'server.address': url.hostname,
          'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
          'url.full': `${url.origin}${url.pathname}`,
        },
      });
      const { traceId, spanId, traceFlags, traceState } = span.spanContext();
      const headers = headersOf({ trace: traceId, span: spanId, sampled: (traceFlags & TraceFlags.SAMPLED) !== 0 });
      if (traceState) headers.tracestate = traceState.serialize();
      return {
        headers: Object.entries(headers),
        end(status, error) {
          if (status) span.setAttribute('http.response.status_code', status);
          if (error) span.recordException(error);
          if (error || !status || status >= 400) span.setStatus({ code: SpanStatusCode.ERROR });
          span.end();
        },
      };
    },

    /** Marks the span of a call whose handler failed. */
    failed(req, error) {
      const span = req[serverSpan];
      if (!span) return;
      span.recordException(error instanceof Error ? error : String(error));
      span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.message : String(error) });
      span.setAttribute('error.type', error?.name ?? 'Error');
    },

    traceIdOf: (req) => req[serverSpan]?.spanContext().traceId,

    /** Sends what is recorded; resolves also when the collector is away. */
    flush: () => provider.shutdown().catch(() => {}),
  };
}

function attributesOf(req) {
  const end = req.url.indexOf('?');
  return {
    'http.request.method': req.method,
    'url.path': end < 0 ? req.url : req.url.slice(0, end),
    'url.scheme': 'http',
    'network.protocol.version': req.httpVersion,
    'server.address': req.headers.host,
    'user_agent.original': req.headers['user-agent'],
  };
}

function incomingSpan(headers) {
  const found = incomingContext(headers);
  if (!found) return ROOT_CONTEXT;
  const parent = {
    traceId: found.trace,
    spanId: found.span,
    traceFlags: found.sampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
    traceState: headers.traceparent && headers.tracestate ? new TraceState(headers.tracestate) : undefined,
    isRemote: true,
  };
  return isSpanContextValid(parent) ? trace.setSpanContext(ROOT_CONTEXT, parent) : ROOT_CONTEXT;
}
