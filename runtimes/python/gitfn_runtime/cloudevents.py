"""CloudEvents 1.0 over HTTP: read in the structured, binary and batch form, sent structured."""
import base64
import datetime
import json
import time
import urllib.error
import urllib.request
import uuid

STRUCTURED, BATCH = "application/cloudevents+json", "application/cloudevents-batch+json"


def parse(environ, media_type, body):
    """Gives the attributes of the request's event with its data under "data"; a list of them for
    a batch; None if it is no event. ValueError says what is wrong with one."""
    if media_type == STRUCTURED:
        return _structured(_json(body))
    if media_type == BATCH:
        events = _json(body)
        if not isinstance(events, list):
            raise ValueError("a batch of CloudEvents is a JSON array")
        return [_structured(event) for event in events]
    if "HTTP_CE_TYPE" in environ and "HTTP_CE_SOURCE" in environ:
        event = {name[8:].lower().replace("_", ""): value for name, value in environ.items() if name.startswith("HTTP_CE_")}
        is_json = media_type == "application/json" or media_type.endswith("+json")
        event["data"] = (_json(body) if is_json else _text(body)) if body else None
        return event
    return None


def _structured(event):
    if not isinstance(event, dict):
        raise ValueError("a CloudEvent is a JSON object")
    if not event.get("type") or not event.get("source"):
        raise ValueError("a CloudEvent has a type and a source")
    event = dict(event)
    if "data_base64" in event:
        event["data"] = base64.b64decode(event.pop("data_base64"), validate=True)
    event.setdefault("data", None)
    return event


def _json(body):
    try:
        return json.loads(body)
    except ValueError as error:
        raise ValueError(f"the body is no JSON: {error}") from None


def _text(body):
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


def emit(address, type, source, data, attributes=None, timeout=10, attempts=3):
    """Posts an event and gives the HTTP status. An answer of 5xx or 429 and no answer at all are
    tried again; what the last try raises is raised (urllib.error.URLError)."""
    if not address:
        raise RuntimeError("events cannot be sent: PUBLISHER_PROXY_ADDRESS is not set")
    event = {"specversion": "1.0", "id": str(uuid.uuid4()), "type": type, "source": source,
             "time": datetime.datetime.now(datetime.timezone.utc).isoformat().replace("+00:00", "Z")}
    event["datacontenttype"] = "text/plain" if isinstance(data, str) else "application/json"
    event.update(attributes or {})
    if isinstance(data, (bytes, bytearray)):
        event["data_base64"] = base64.b64encode(data).decode()
        if "datacontenttype" not in (attributes or {}):
            event["datacontenttype"] = "application/octet-stream"
    else:
        event["data"] = data
    return post(address, json.dumps(event).encode(), timeout, attempts)


def post(address, body, timeout=10, attempts=3):
    """Posts a structured event; see emit."""
    for attempt in range(1, attempts + 1):
        request = urllib.request.Request(address, body, {"Content-Type": STRUCTURED}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                answer.read()
                return answer.status
        except urllib.error.HTTPError as error:
            if attempt == attempts or error.code != 429 and error.code < 500:
                raise
        except OSError:
            if attempt == attempts:
                raise
        time.sleep(0.1 * 2 ** (attempt - 1))
