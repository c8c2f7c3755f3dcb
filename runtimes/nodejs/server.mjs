// Starts the runtime: listens at once, loads the handler beside it, stops on SIGTERM. A handler
// that cannot be loaded ends the process: then the Pod is not ready, the version before it goes on
// serving, and what was thrown stands in the Pod's status, where whoever pushed can read it.
import { writeFileSync } from 'node:fs';
import { loadHandler } from './lib/handler.mjs';
import { log } from './lib/log.mjs';
import { readOptions } from './lib/options.mjs';
import { createServer } from './lib/server.mjs';
import { stopOnSignals } from './lib/shutdown.mjs';
import { propagateTraceContext } from './lib/tracing.mjs';

const options = readOptions(process.env);

// One bad promise in user code must not end the requests that run beside it.
process.on('uncaughtException', (error) => log.error('uncaught exception', { error }));
process.on('unhandledRejection', (error) => log.error('unhandled rejection', { error }));

propagateTraceContext();
const server = createServer(options);
stopOnSignals(server, options);
server.http.on('error', (error) => {
  log.error('cannot listen', { host: options.host, port: options.port, error });
  process.exit(1);
});
server.http.listen(options.port, options.host, () => log.info('listening', server.http.address()));

try {
  server.ready(await loadHandler(options.handlerPath));
  log.info('handler loaded', { path: options.handlerPath, seconds: process.uptime() });
} catch (error) {
  log.error('cannot load handler', { path: options.handlerPath, error });
  try {
    writeFileSync(options.terminationLog, reason(error));
  } catch {
    // Not in a Pod: the log has it.
  }
  process.exit(1);
}

/** What was thrown, short enough for a termination message; of a SyntaxError also where it is. */
function reason(error) {
  const text = error instanceof Error ? (error instanceof SyntaxError ? error.stack : `${error.name}: ${error.message}`) : String(error);
  return text.split('\n').filter((line) => line.trim() && !/^\s+at /.test(line)).join('\n').slice(0, 2000);
}
