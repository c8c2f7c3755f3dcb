"""Passes trace headers (W3C and B3) from a request to those that its handler sends.

Spans are made only where OpenTelemetry's API is installed and set up by the handler; event.tracer
is its tracer then, and else a stand-in that does nothing.
"""
import contextlib
import contextvars
import http.client
import re
import secrets

current = contextvars.ContextVar("gitfn call")

_traceparent = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_hex16, _hex32 = re.compile("[0-9a-fA-F]{16}"), re.compile("(?:[0-9a-fA-F]{16}){1,2}")


class Call:
    """What is known of one request; its ids are made when somebody asks for them."""

    __slots__ = ("environ", "_ids", "_request_id")

    def __init__(self, environ):
        self.environ, self._ids, self._request_id = environ, None, None

    @property
    def ids(self):
        """Trace id, id of the caller's span, and "00" or "01" for sampled."""
        if self._ids is None:
            self._ids = _read(self.environ) or (secrets.token_hex(16), secrets.token_hex(8), "01")
        return self._ids

    @property
    def trace_id(self):
        return self.ids[0]

    @property
    def request_id(self):
        if self._request_id is None:
            self._request_id = self.environ.get("HTTP_X_REQUEST_ID", "")[:128] or secrets.token_hex(16)
        return self._request_id

    def headers(self):
        """What an outgoing request carries."""
        trace, span, flags = self.ids
        headers = {"traceparent": f"00-{trace}-{span}-{flags}", "x-b3-traceid": trace, "x-b3-spanid": span,
                   "x-b3-sampled": "1" if flags == "01" else "0"}
        for name in ("tracestate", "baggage"):
            value = self.environ.get("HTTP_" + name.upper())
            if value:
                headers[name] = value
        return headers


def _read(environ):
    match = _traceparent.fullmatch(environ.get("HTTP_TRACEPARENT", ""))
    if match and set(match[1]) != {"0"} and set(match[2]) != {"0"}:
        return match[1], match[2], "01" if int(match[3], 16) & 1 else "00"
    trace, span, sampled = (environ.get("HTTP_X_B3_" + n, "") for n in ("TRACEID", "SPANID", "SAMPLED"))
    if not trace and environ.get("HTTP_B3"):
        trace, span, sampled = (environ["HTTP_B3"].split("-") + ["", "", ""])[:3]
    if _hex32.fullmatch(trace) and _hex16.fullmatch(span):
        return trace.lower().rjust(32, "0"), span.lower(), "00" if sampled in ("0", "false") else "01"
    return None


def propagate():
    """Makes every client over http.client (urllib, requests) send the headers of the call in
    which it is used, unless it has its own."""
    end = http.client.HTTPConnection.endheaders

    def endheaders(self, *args, **kwargs):
        call = current.get(None)
        if call is not None:
            sent = b"\r\n".join(self._buffer).lower()
            if b"\r\ntraceparent:" not in sent:
                for name, value in call.headers().items():
                    if f"\r\n{name}:".encode() not in sent:
                        self.putheader(name, value)
        return end(self, *args, **kwargs)

    http.client.HTTPConnection.endheaders = endheaders


class _NoSpan:
    """Takes what a span takes, and forgets it."""

    def __getattr__(self, _):
        return lambda *args, **kwargs: None


class _NoTracer:
    @contextlib.contextmanager
    def start_as_current_span(self, *_, **__):
        yield _NoSpan()

    def start_span(self, *_, **__):
        return _NoSpan()


def tracer():
    """OpenTelemetry's tracer, or one that does nothing."""
    try:
        from opentelemetry import trace
    except ImportError:
        return _NoTracer()
    return trace.get_tracer("io.kyma-project.serverless")
