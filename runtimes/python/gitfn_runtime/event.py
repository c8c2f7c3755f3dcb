"""The two arguments of handlers of python312 and python313."""
import bottle

from . import cloudevents, tracing

_PREFIXED = ("type", "source", "id", "time", "eventtypeversion", "specversion")


class Event:
    """One request. Items are read and written as in a dictionary: "data", "extensions", and of a
    CloudEvent "ce-type" and so on."""

    __slots__ = ("ceHeaders", "req", "_settings", "_tracer")

    def __init__(self, environ, settings, data):
        self.req = bottle.Request(environ)
        self.ceHeaders = {"extensions": {"request": self.req}}
        self._settings, self._tracer = settings, None
        if data is not None:
            self.ceHeaders.update(data)

    def __getitem__(self, name):
        return self.ceHeaders[name]

    def __setitem__(self, name, value):
        self.ceHeaders[name] = value

    def __contains__(self, name):
        return name in self.ceHeaders

    def get(self, name, default=None):
        """The item, or default."""
        return self.ceHeaders.get(name, default)

    @property
    def tracer(self):
        """OpenTelemetry's tracer; without OpenTelemetry one that does nothing."""
        if self._tracer is None:
            self._tracer = tracing.tracer()
        return self._tracer

    def emitCloudEvent(self, type, source, data, optionalCloudEventAttributes=None):
        """Posts an event to PUBLISHER_PROXY_ADDRESS; see cloudevents.emit."""
        return cloudevents.emit(self._settings.publisher, type, source, data, optionalCloudEventAttributes)

    def publishCloudEvent(self, event):
        """Deprecated: posts an event as it is."""
        import json

        return cloudevents.post(self._settings.publisher, json.dumps(event).encode())

    def buildResponseCloudEvent(self, event_id, event_type, event_data):
        """Deprecated: an event that answers the one of the request. KeyError without one."""
        return {
            "type": event_type, "source": self.ceHeaders["ce-source"], "eventtypeversion": self.ceHeaders["ce-eventtypeversion"],
            "specversion": self.ceHeaders["ce-specversion"], "id": event_id, "data": event_data,
            "datacontenttype": "text/plain" if isinstance(event_data, str) else "application/json",
        }


def items(environ, media_type, body):
    """What a request's body puts into its event; None for nothing. ValueError says why it cannot
    be read."""
    parsed = cloudevents.parse(environ, media_type, body)
    if isinstance(parsed, list):
        return {"data": [_prefixed(event) for event in parsed]}
    if parsed is not None:
        return _prefixed(parsed)
    if media_type == "application/json" and body:
        return {"data": cloudevents._json(body)}
    return None


def _prefixed(event):
    found = {"ce-" + name: event[name] for name in _PREFIXED if name in event}
    found["data"] = event["data"]
    return found


def context(settings):
    """What handlers may know of themselves."""
    return {
        "function-name": settings.function_name, "namespace": settings.namespace, "timeout": settings.timeout,
        "runtime": settings.runtime, "memory-limit": settings.memory_limit, "body-size-limit": settings.body_limit,
    }
