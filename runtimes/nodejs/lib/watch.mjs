import { spawn } from 'node:child_process';
import inspector from 'node:inspector';

/** True in a process that Node.js starts again when one of its files changes. */
export const isWatched = () => process.env.WATCH_REPORT_DEPENDENCIES !== undefined;

/**
 * Runs program in a process of its own that starts again whenever a file changes which the handler
 * imports. A debugger that waits for this process waits for that one instead. Ends with it.
 */
export function watch(program, handlerPath) {
  if (inspector.url()) inspector.close();
  const child = spawn(process.execPath, [...process.execArgv, '--watch', '--watch-preserve-output', program], {
    stdio: 'inherit',
    env: { SHUTDOWN_DELAY: '0', ...process.env, HANDLER_PATH: handlerPath },
  });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  return new Promise(() => child.once('exit', (code) => process.exit(code ?? 0)));
}
