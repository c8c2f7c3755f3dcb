// The three metrics of the contract in Prometheus' text format. Their names, spelling
// included, are what existing dashboards ask for.

const bounds = [5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000];

export class Metrics {
  calls = 0;
  failures = 0;
  #buckets = new Array(bounds.length + 1).fill(0);
  #sum = 0;

  /** Records that one call took so many milliseconds. */
  observe(milliseconds) {
    let i = 0;
    while (i < bounds.length && milliseconds > bounds[i]) i++;
    this.#buckets[i]++;
    this.#sum += milliseconds;
  }

  /** Gives the page for /metrics. */
  text() {
    let count = 0;
    const buckets = this.#buckets.map((n, i) => {
      count += n;
      return `function_duration_miliseconds_bucket{le="${bounds[i] ?? '+Inf'}"} ${count}\n`;
    });
    return (
      `# HELP function_calls_total Number of calls to the function.\n` +
      `# TYPE function_calls_total counter\nfunction_calls_total ${this.calls}\n` +
      `# HELP function_failures_total Number of calls that failed.\n` +
      `# TYPE function_failures_total counter\nfunction_failures_total ${this.failures}\n` +
      `# HELP function_duration_miliseconds Time of a call, until its result is there.\n` +
      `# TYPE function_duration_miliseconds histogram\n${buckets.join('')}` +
      `function_duration_miliseconds_sum ${this.#sum}\nfunction_duration_miliseconds_count ${count}\n`
    );
  }
}
