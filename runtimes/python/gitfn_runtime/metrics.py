"""The three metrics of the contract in Prometheus' text format, by method."""
import threading

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)


class Metrics:
    """Counts calls. Safe for concurrent use."""

    def __init__(self, methods):
        self._lock = threading.Lock()
        self._rows = {method: _Row() for method in methods}

    def called(self, method, seconds, failed):
        """Records one call."""
        row = self._rows[method]
        place = 0
        while place < len(BOUNDS) and seconds > BOUNDS[place]:
            place += 1
        with self._lock:
            row.calls += 1
            row.failures += failed
            row.buckets[place] += 1
            row.seconds += seconds

    def text(self):
        """Gives the page for /metrics."""
        with self._lock:
            rows = [(m, r.calls, r.failures, list(r.buckets), r.seconds) for m, r in self._rows.items() if r.calls]
        lines = ["# HELP function_calls_total Number of calls to the function.", "# TYPE function_calls_total counter"]
        lines += [f'function_calls_total{{method="{m}"}} {calls}' for m, calls, *_ in rows]
        lines += ["# HELP function_failures_total Number of calls that failed.", "# TYPE function_failures_total counter"]
        lines += [f'function_failures_total{{method="{m}"}} {failures}' for m, _, failures, *_ in rows]
        lines += ["# HELP function_duration_seconds Time of a call, until its result is there.",
                  "# TYPE function_duration_seconds histogram"]
        for method, calls, _, buckets, seconds in rows:
            count = 0
            for bound, n in zip((*BOUNDS, "+Inf"), buckets):
                count += n
                lines.append(f'function_duration_seconds_bucket{{method="{method}",le="{bound}"}} {count}')
            lines.append(f'function_duration_seconds_sum{{method="{method}"}} {seconds}')
            lines.append(f'function_duration_seconds_count{{method="{method}"}} {calls}')
        return "\n".join(lines) + "\n"


class _Row:
    def __init__(self):
        self.calls, self.failures, self.seconds = 0, 0, 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)
