// The environment as one plain object; nothing else reads process.env.

/**
 * Reads the settings of the server. A number that is absent, not a number or not positive
 * becomes its default, so that a typo never stops a Function.
 */
export function readOptions(env) {
  return {
    port: number(env.SERVER_PORT, 8080, 0),
    host: env.SERVER_HOST || undefined,
    handlerPath: env.HANDLER_PATH || './handler.js',
    // main(req, res) instead of main(event, context): the runtimes from nodejs26 on.
    sdk: env.HANDLER_API ? env.HANDLER_API === 'sdk' : env.FUNC_RUNTIME === 'nodejs26',
    timeoutSeconds: number(env.FUNC_TIMEOUT, 180),
    bodyLimitMB: number(env.REQ_MB_LIMIT ?? env.FUNC_BODY_MB_LIMIT, 1),
    functionName: env.FUNC_NAME,
    namespace: env.SERVICE_NAMESPACE,
    runtime: env.FUNC_RUNTIME,
    publisher: {
      address: env.PUBLISHER_PROXY_ADDRESS,
      timeoutSeconds: number(env.PUBLISHER_TIMEOUT, 10),
      attempts: number(env.PUBLISHER_ATTEMPTS, 3, 1),
    },
    traceCollector: env.TRACE_COLLECTOR_ENDPOINT || undefined,
    logFormat: env.LOG_FORMAT === 'text' ? 'text' : 'json',
    terminationLog: env.TERMINATION_LOG || '/dev/termination-log',
    accessLog: Boolean(env.KYMA_INTERNAL_LOGGER_ENABLED || env.SERVER_INTERNAL_LOGGER),
    // Kubernetes tells the routers that a Pod goes away while it tells the Pod, so for this
    // long new connections still come.
    drainSeconds: number(env.SHUTDOWN_DELAY, 2, 0),
  };
}

function number(text, fallback, least = Number.MIN_VALUE) {
  const value = Number.parseFloat(text);
  return Number.isFinite(value) && value >= least ? value : fallback;
}
