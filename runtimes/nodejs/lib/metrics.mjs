// The metrics in Prometheus' text format: the three of the contract, whose names, spelling
// included, are what existing dashboards ask for, and those of OpenTelemetry's HTTP conventions.

const bounds = [5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000];

/** Counts of times in milliseconds. */
class Histogram {
  #buckets = new Array(bounds.length + 1).fill(0);
  #sum = 0;

  observe(milliseconds) {
    let i = 0;
    while (i < bounds.length && milliseconds > bounds[i]) i++;
    this.#buckets[i]++;
    this.#sum += milliseconds;
  }

  /** Gives the lines; labels are written `a="b",` and unit is what a millisecond is divided by. */
  text(name, labels, unit) {
    let count = 0;
    const buckets = this.#buckets.map((n, i) => {
      count += n;
      return `${name}_bucket{${labels}le="${i < bounds.length ? bounds[i] / unit : '+Inf'}"} ${count}\n`;
    });
    const braces = labels ? `{${labels.slice(0, -1)}}` : '';
    return `${buckets.join('')}${name}_sum${braces} ${this.#sum / unit}\n${name}_count${braces} ${count}\n`;
  }
}

export class Metrics {
  calls = 0;
  failures = 0;
  active = 0;
  #durations = new Histogram();
  #answers = new Map();

  /** Records that a handler took so many milliseconds. */
  observe(milliseconds) {
    this.#durations.observe(milliseconds);
  }

  /** Records an answer. Node.js accepts only known methods, so there are few pairs. */
  answered(method, status, milliseconds) {
    let byStatus = this.#answers.get(method);
    if (!byStatus) this.#answers.set(method, (byStatus = new Map()));
    let durations = byStatus.get(status);
    if (!durations) byStatus.set(status, (durations = new Histogram()));
    durations.observe(milliseconds);
  }

  /** Gives the page for /metrics. */
  text() {
    let answers = '';
    for (const [method, byStatus] of this.#answers) {
      for (const [status, durations] of byStatus) {
        const labels = `http_request_method="${method}",http_response_status_code="${status}",url_scheme="http",`;
        answers += durations.text('http_server_request_duration_seconds', labels, 1000);
      }
    }
    return (
      head('function_calls_total', 'counter', 'Number of calls to the function.') +
      `function_calls_total ${this.calls}\n` +
      head('function_failures_total', 'counter', 'Number of calls that failed.') +
      `function_failures_total ${this.failures}\n` +
      head('function_duration_miliseconds', 'histogram', 'Time of a call, until its result is there.') +
      this.#durations.text('function_duration_miliseconds', '', 1) +
      head('http_server_active_requests', 'gauge', 'Number of calls that are not answered yet.') +
      `http_server_active_requests ${this.active}\n` +
      head('http_server_request_duration_seconds', 'histogram', 'Time of a call, until its answer is complete.') +
      answers
    );
  }
}

const head = (name, type, help) => `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
