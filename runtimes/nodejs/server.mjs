// Starts the runtime: listens at once, loads the handler beside it, stops on SIGTERM. A handler
// that cannot be loaded ends the process: then the Pod is not ready, the version before it goes on
// serving, and what was thrown stands in the Pod's status, where whoever pushed can read it.
// With a handler's path as argument it is a developer's: it starts again when a file changes.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadHandler } from './lib/handler.mjs';
import { configureLog, log } from './lib/log.mjs';
import { readOptions } from './lib/options.mjs';
import { createServer } from './lib/server.mjs';
import { stopOnSignals } from './lib/shutdown.mjs';
import { propagateTraceContext, record } from './lib/tracing.mjs';
import { isWatched, watch } from './lib/watch.mjs';

if (process.argv[2] && !isWatched()) await watch(fileURLToPath(import.meta.url), process.argv[2]);

const options = readOptions(process.env);
configureLog(options);
propagateTraceContext();
const server = createServer(options);

// What a handler threw where nobody could catch it. See README.md for the rule.
process.on('uncaughtException', (error) => server.uncaught('uncaught exception', error));
process.on('unhandledRejection', (error) => server.uncaught('unhandled rejection', error));

let flush = async () => {};
stopOnSignals(server, options, () => flush());
server.http.on('error', (error) => {
  log.error('cannot listen', { host: options.host, port: options.port, error });
  process.exit(1);
});
server.http.listen(options.port, options.host, () => log.info('listening', server.http.address()));

try {
  if (options.traceCollector) {
    const recorder = (await import('./lib/recorder.mjs')).createRecorder(options);
    record(recorder);
    flush = recorder.flush;
  }
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
