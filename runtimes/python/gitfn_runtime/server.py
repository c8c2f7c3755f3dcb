"""The server of python312 and python313: cheroot's threads, Bottle's requests and responses."""
import io
import selectors
import time

import bottle
from cheroot import errors, wsgi

from . import event, log, tracing
from .metrics import Metrics
from .watchdog import Watchdog

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
# Seconds that a thread waits for the next bytes of a request, or to get rid of those of an answer.
_PATIENCE = 10
_TEXT = ("Content-Type", "text/plain; charset=utf-8")


class _Gateway(wsgi.Gateway_10):
    """Hands the connection to the application, for answers from beside."""

    def get_environ(self):
        environ = super().get_environ()
        environ["gitfn.socket"] = self.req.conn.socket
        return environ


class _Server(wsgi.Server):
    def __init__(self, settings, application):
        super().__init__(
            (settings.host, settings.port), application, numthreads=settings.threads, max=-1,
            request_queue_size=1024, shutdown_timeout=settings.timeout + 1,
        )
        self.gateway = _Gateway
        self.max_request_header_size = 64 << 10
        self.max_request_body_size = settings.body_limit
        self.keep_alive_conn_limit = None
        self.timeout = 75  # Proxies must be the first to drop a connection that they keep.

    def prepare(self):
        """Listens. A connection gets a thread when it has something to say, and not before:
        else as many idle ones as there are threads would stop the server."""
        super().prepare()
        manager = self._connections
        accept = manager._from_server_socket

        def wait_for_data(server_socket):
            connection = accept(server_socket)
            if connection is not None:
                connection.socket.settimeout(_PATIENCE)
                connection.last_used = time.time()
                manager._selector.register(connection.socket.fileno(), selectors.EVENT_READ, data=connection)

        manager._from_server_socket = wait_for_data

    def last_answers(self):
        """Makes each answer from now on the last one of its connection."""
        self.keep_alive_conn_limit = 0

    def error_log(self, msg="", level=20, traceback=False):
        log.logger.log(level, msg, exc_info=traceback)


def create(settings, handler):
    """Makes the server, which does not listen yet; prepare() and serve() do."""
    tracing.propagate()
    bottle.BaseRequest.MEMFILE_MAX = settings.body_limit
    application = Application(settings, handler)
    server = _Server(settings, application)
    # A thread that is stuck in a handler serves nobody: another takes its place.
    application.watchdog = Watchdog(settings.timeout, lambda: server.requests.grow(1))
    application.came_back = lambda: server.requests.shrink(1)
    return server


class Application:
    """The WSGI application: a few paths of our own, all else is the handler's."""

    def __init__(self, settings, handler):
        self.settings, self.handler = settings, handler
        self.metrics = Metrics(METHODS)
        self.context = event.context(settings)
        self.cast = bottle.Bottle(catchall=False)
        self.watchdog = self.came_back = None

    def __call__(self, environ, start_response):
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        if path == "/healthz":
            return _plain(start_response, "200 OK", b"OK")
        if path == "/metrics":
            start_response("200 OK", [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")])
            return [self.metrics.text().encode()]
        if path == "/favicon.ico":
            start_response("204 No Content", [])
            return []
        if method not in METHODS:
            return _plain(start_response, "405 Method Not Allowed", b"method not allowed", ("Allow", ", ".join(METHODS)))
        try:
            body = self.read_body(environ)
            # Of the media type only; its parameters do not change what JSON is.
            media_type = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
            data = event.items(environ, media_type, body)
        except (errors.MaxSizeExceeded, OSError) as error:
            # Of chunks cheroot says it by this text; another OSError is a client that has gone.
            if "Too Large" not in str(error.args[:1]):
                raise
            return _plain(start_response, "413 Request Entity Too Large", b"the body is too large", ("Connection", "close"))
        except ValueError as error:
            return _plain(start_response, "400 Bad Request", str(error).encode())
        return self.call(environ, start_response, method, data)

    def read_body(self, environ):
        """Reads the body once; handlers find it again in the request."""
        if "HTTP_TRANSFER_ENCODING" in environ:
            # cheroot has taken the chunks apart; Bottle must not try it again.
            del environ["HTTP_TRANSFER_ENCODING"]
            body = environ["wsgi.input"].read()
        else:
            try:
                size = int(environ.get("CONTENT_LENGTH") or 0)
            except ValueError:
                raise ValueError("Content-Length is no number") from None
            if not size:
                return b""
            body = environ["wsgi.input"].read(size)
            if len(body) < size:
                raise ValueError("the body breaks off")
        environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
        return body

    def call(self, environ, start_response, method, data):
        token = tracing.current.set(tracing.Call(environ))
        start = time.perf_counter()
        number = self.watchdog.begin(environ["gitfn.socket"])
        failed = True
        try:
            environ["bottle.app"] = self.cast
            bottle.request.bind(environ)
            bottle.response.bind()
            # The start of a generator is part of the call, and so are its errors.
            body = self.cast_value(self.handler(event.Event(environ, self.settings, data), self.context))
            failed = False
        except bottle.HTTPResponse as response:
            body = self.cast_value(response)
            failed = response.status_code >= 500
        # sys.exit in a handler ends the call; in cheroot's thread it would end the server.
        except (Exception, SystemExit):
            log.logger.exception("handler failed", extra={"method": method, "path": environ["PATH_INFO"]})
            bottle.response.bind()
            bottle.response.status, bottle.response.content_type = 500, _TEXT[1]
            bottle.response.set_header("X-Request-Id", tracing.current.get().request_id)
            body = [b"Internal server error"]
        finally:
            in_time = self.watchdog.done(number)
            self.metrics.called(method, time.perf_counter() - start, failed or not in_time)
            tracing.current.reset(token)
            if not in_time:
                self.came_back()
        if not in_time:
            # The 408 is out and the connection is shut: this goes nowhere.
            start_response("408 Request Timeout", [("Content-Length", "0")])
            return []
        response = bottle.response
        if method == "HEAD" or response.status_code in (204, 304) or 100 <= response.status_code < 200:
            _close(body)
            body = []
        start_response(response.status_line, response.headerlist)
        return body

    def cast_value(self, value):
        """Makes of what the handler returned what WSGI wants, as Bottle does."""
        kind = type(value)
        if kind is str:
            value = value.encode(bottle.response.charset)
            kind = bytes
        if kind is bytes:
            bottle.response.content_length = len(value)
            return [value]
        if isinstance(value, bool) or isinstance(value, (int, float)):
            return self.cast_value(str(value) if kind is not bool else str(value).lower()) if value else self.cast_value(b"")
        if isinstance(value, list) and not value or value is None:
            return self.cast_value(b"")
        if kind is dict:
            import json

            bottle.response.content_type = "application/json"
            return self.cast_value(json.dumps(value).encode())
        if isinstance(value, bottle.HTTPResponse):
            value.apply(bottle.response)
            return self.cast_value(value.body)
        return self.cast._cast(value)


def _plain(start_response, status, text, *headers):
    start_response(status, [_TEXT, ("Content-Length", str(len(text))), *headers])
    return [text]


def _close(body):
    if hasattr(body, "close"):
        body.close()
