/**
 * On SIGTERM: answers on for options.drainSeconds, each answer the last of its connection; then
 * refuses new connections, drops idle ones, waits for running requests and exits with 0 when
 * flush, which sends what is still to be sent, is done.
 * SIGINT, which a person at a terminal sends, does not wait; a second signal ends at once.
 */
export function stopOnSignals(server, { drainSeconds }, flush) {
  let stopping = false;
  const stop = (delay) => () => {
    if (stopping) process.exit(1);
    stopping = true;
    server.stopping();
    setTimeout(() => {
      server.http.close(() => flush().finally(() => process.exit(0)));
      // A connection whose answer began before the signal becomes idle without a word.
      setInterval(() => server.http.closeIdleConnections(), 50);
    }, delay * 1000);
  };
  process.on('SIGTERM', stop(drainSeconds));
  process.on('SIGINT', stop(0));
}
