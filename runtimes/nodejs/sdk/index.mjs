// The package "sdk" of the runtimes whose handlers are main(req, res), nodejs26 and later.
import { emitCloudEvent as emit, toCloudEvent } from '../lib/cloudevents.mjs';
import { readOptions } from '../lib/options.mjs';
import { signalOf } from '../lib/signal.mjs';
import { tracer } from '../lib/tracing.mjs';

const options = readOptions(process.env);

/** Gives the CloudEvent of a request, an array of them for a batch, null if it carries none or an invalid one. */
export const getCloudEvent = (req) => toCloudEvent(req);

/** Sends a CloudEvent to the publisher; resolves to the axios response. */
export const emitCloudEvent = (type, source, data, attributes) => emit(options.publisher, type, source, data, attributes);

/** Gives the OpenTelemetry tracer. It records when TRACE_COLLECTOR_ENDPOINT is set. */
export const getTracer = () => tracer();

/** Gives the AbortSignal of a request: the caller has gone, or FUNC_TIMEOUT is over. */
export const getSignal = (req) => signalOf(req.res);

export const getFunctionName = () => options.functionName;
export const getNamespace = () => options.namespace;
export const getRuntime = () => options.runtime;

/** Gives the limit of one call in seconds. */
export const getTimeout = () => options.timeoutSeconds;

/** Gives the limit of a body in MB. */
export const getBodySizeLimit = () => options.bodyLimitMB;
