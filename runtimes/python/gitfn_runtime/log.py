"""One JSON object a line, for the server and for handlers that use the module logging."""
import json
import logging
import sys
import time

from . import tracing

logger = logging.getLogger("gitfn")

_standard = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JSON(logging.Formatter):
    """Writes level, time, message, the function and, during a call, its trace and request id."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def format(self, record):
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        if self.function:
            line["function"] = self.function
        call = tracing.current.get(None)
        if call is not None:
            line["trace_id"], line["request_id"] = call.trace_id, call.request_id
        for name, value in vars(record).items():
            if name not in _standard:
                line[name] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def configure(settings):
    """Makes the root logger write lines to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "text":
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    else:
        handler.setFormatter(JSON(settings.function_name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = logging.getLevelName(settings.log_level)
    root.setLevel(level if isinstance(level, int) else logging.INFO)
