import json
import socket
import unittest

from .running import Server

RETURNS = '''
    import bottle

    def stream():
        yield "a"
        yield "b"

    def broken():
        raise RuntimeError("secret detail")
        yield

    def late():
        yield "a"
        raise RuntimeError("secret detail")

    def fail():
        raise ValueError("secret detail")

    def shaped():
        bottle.response.status = 201
        bottle.response.set_header("X-Here", "1")
        return "made"

    VALUES = {
        "/text": lambda: "hello", "/bytes": lambda: b"\\x00\\xff", "/dict": lambda: {"a": 1}, "/none": lambda: None,
        "/empty": lambda: "", "/list": lambda: ["a", "b"], "/nothing": lambda: [], "/int": lambda: 42, "/float": lambda: 1.5,
        "/zero": lambda: 0, "/true": lambda: True, "/false": lambda: False, "/stream": stream, "/broken": broken, "/fail": fail,
        "/shaped": shaped, "/response": lambda: bottle.HTTPResponse("no", 418, {"X-Tea": "1"}, content_type="text/plain"),
        "/json-response": lambda: bottle.HTTPResponse({"a": 1}, 202), "/raised": lambda: (_ for _ in ()).throw(bottle.HTTPResponse("up", 409)),
        "/umlaut": lambda: "\\u00e4", "/object": lambda: object(), "/exit": lambda: exit(3),
    }

    def main(event, context):
        return VALUES[event["extensions"]["request"].path]()
'''


class Returns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(RETURNS)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def test_table(self):
        html, text = "text/html; charset=UTF-8", "text/plain; charset=utf-8"
        rows = [
            ("a string is the body", "/text", 200, b"hello", html),
            ("bytes are the body", "/bytes", 200, b"\x00\xff", html),
            ("a dict is JSON", "/dict", 200, b'{"a": 1}', "application/json"),
            ("None is an empty answer", "/none", 200, b"", html),
            ("an empty string is an empty answer", "/empty", 200, b"", html),
            ("strings of a list are streamed", "/list", 200, b"ab", html),
            ("an empty list is an empty answer", "/nothing", 200, b"", html),
            ("a number is its text", "/int", 200, b"42", html),
            ("a fraction is its text", "/float", 200, b"1.5", html),
            ("zero is an empty answer", "/zero", 200, b"", html),
            ("True is its JSON", "/true", 200, b"true", html),
            ("False is an empty answer", "/false", 200, b"", html),
            ("a string that is not ASCII has its length in bytes", "/umlaut", 200, "ä".encode(), html),
            ("an exception says nothing of itself", "/fail", 500, b"Internal server error", text),
            ("a generator that fails at once is an exception", "/broken", 500, b"Internal server error", text),
            ("what nobody can send is an exception", "/object", 500, b"Internal server error", text),
            ("sys.exit ends the call, not the server", "/exit", 500, b"Internal server error", text),
            ("status and headers of bottle.response count", "/shaped", 201, b"made", html),
            ("an HTTPResponse is the answer", "/response", 418, b"no", "text/plain"),
            ("an HTTPResponse of a dict is JSON", "/json-response", 202, b'{"a": 1}', "application/json"),
            ("an HTTPResponse that is raised is the answer", "/raised", 409, b"up", html),
        ]
        for name, path, status, body, media_type in rows:
            with self.subTest(name):
                got = self.server.ask(path=path)
                self.assertEqual((got[0], got[2], got[1].get("Content-Type")), (status, body, media_type))
        self.assertEqual(self.server.ask(path="/shaped")[1]["X-Here"], "1")
        self.assertEqual(self.server.ask(path="/response")[1]["X-Tea"], "1")

    def test_a_generator_is_streamed(self):
        status, headers, body = self.server.ask(path="/stream")
        self.assertEqual((status, body, headers["Transfer-Encoding"]), (200, b"ab", "chunked"))

    def test_head_has_the_headers_alone(self):
        status, headers, body = self.server.ask("HEAD", "/text")
        self.assertEqual((status, headers["Content-Length"], body), (200, "5", b""))

    def test_an_exception_is_logged_with_the_request_id(self):
        _, headers, _ = self.server.ask(path="/fail", headers={"X-Request-Id": "r-1"})
        self.assertEqual(headers["X-Request-Id"], "r-1")
        line = json.loads(self.server.said('.*"request_id": "r-1".*')[0])
        self.assertEqual((line["level"], line["message"], line["path"]), ("error", "handler failed", "/fail"))
        self.assertIn("secret detail", line["error"])


ECHO = '''
    import bottle, json

    def main(event, context):
        request = event["extensions"]["request"]
        def plain(value):
            return value.decode("latin-1") if isinstance(value, bytes) else value
        data = event.ceHeaders.get("data", "absent")
        return {"method": request.method, "path": request.path, "query": dict(request.query), "data": plain(data),
                "body": request.body.read().decode("latin-1"), "context": context,
                "event": {k: plain(v) for k, v in event.ceHeaders.items() if k.startswith("ce-")}}
'''


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(ECHO, FUNC_NAME="fn", SERVICE_NAMESPACE="ns", FUNC_RUNTIME="python313", FUNC_MEMFILE_MAX="1000",
                            FUNC_TIMEOUT="20", FUNC_MEMORY_LIMIT="128Mi")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def told(self, *args, **kwargs):
        status, _, body = self.server.ask(*args, **kwargs)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def test_methods(self):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            with self.subTest(method):
                self.assertEqual(self.told(method, "/a/b?c=d")["method"], method)
        status, headers, _ = self.server.ask("OPTIONS")
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD, POST, PUT, PATCH, DELETE"))
        self.assertNotIn("Access-Control-Allow-Origin", headers)

    def test_context(self):
        self.assertEqual(self.told()["context"], {
            "function-name": "fn", "namespace": "ns", "runtime": "python313", "timeout": 20.0, "memory-limit": "128Mi", "body-size-limit": 1000})

    def test_data(self):
        rows = [
            ("JSON is parsed", "application/json", b'{"a":[1]}', {"a": [1]}),
            ("JSON is parsed whatever its parameters", "application/json; charset=utf-8", b"3", 3),
            ("text is left to the request", "text/plain", b"x", "absent"),
            ("a form is left to the request", "application/x-www-form-urlencoded", b"a=b", "absent"),
            ("no body, no data", "application/json", b"", "absent"),
        ]
        for name, media_type, body, data in rows:
            with self.subTest(name):
                told = self.told("POST", body=body, headers={"Content-Type": media_type})
                self.assertEqual((told["data"], told["body"]), (data, body.decode()))

    def test_broken_json_is_refused(self):
        status, _, body = self.server.ask("POST", body=b"{", headers={"Content-Type": "application/json"})
        self.assertEqual(status, 400)
        self.assertIn(b"the body is no JSON", body)

    def test_events(self):
        attributes = {"type": "t", "source": "s", "id": "1", "specversion": "1.0", "time": "2026-01-01T00:00:00Z", "eventtypeversion": "v1"}
        prefixed = {"ce-" + k: v for k, v in attributes.items()}
        structured = {"Content-Type": "application/cloudevents+json"}
        rows = [
            ("structured", structured, {**attributes, "data": {"a": 1}}, {"a": 1}, prefixed),
            ("structured, data in base64", structured, {"type": "t", "source": "s", "data_base64": "aGk="}, "hi", {"ce-type": "t", "ce-source": "s"}),
            ("structured, no data", structured, {"type": "t", "source": "s"}, None, {"ce-type": "t", "ce-source": "s"}),
            ("binary, JSON", {"Content-Type": "application/json", **prefixed}, {"a": 1}, {"a": 1}, prefixed),
            ("batch", {"Content-Type": "application/cloudevents-batch+json"}, [{"type": "t", "source": "s", "data": 1}],
             [{"ce-type": "t", "ce-source": "s", "data": 1}], {}),
        ]
        for name, headers, body, data, event in rows:
            with self.subTest(name):
                told = self.told("POST", body=json.dumps(body), headers=headers)
                self.assertEqual((told["data"], told["event"]), (data, event))
        told = self.told("POST", body="hi", headers={"Content-Type": "text/plain", **prefixed})
        self.assertEqual(told["data"], "hi")

    def test_broken_events_are_refused(self):
        for media_type, body in (("application/cloudevents+json", "[]"), ("application/cloudevents+json", "{}"),
                                 ("application/cloudevents-batch+json", "{}"), ("application/cloudevents+json", "x")):
            with self.subTest(body):
                self.assertEqual(self.server.ask("POST", body=body, headers={"Content-Type": media_type})[0], 400)

    def test_chunked_bodies(self):
        told = self.told("POST", body=iter([b'{"a"', b":1}"]), headers={"Content-Type": "application/json"})
        self.assertEqual((told["data"], told["body"]), ({"a": 1}, '{"a":1}'))

    def test_too_much_is_refused(self):
        self.assertEqual(self.server.ask("POST", body=b"x" * 1001)[0], 413)
        self.assertEqual(self.server.ask("POST", body=iter([b"x" * 600] * 2))[0], 413)
        self.assertEqual(self.told("POST", body=b"x" * 1000)["body"], "x" * 1000)
        self.assertEqual(self.server.ask(headers={"X-Bomb": "x" * (100 << 10)})[0], 413)

    def test_paths_of_our_own(self):
        self.assertEqual(self.server.ask(path="/healthz")[::2], (200, b"OK"))
        self.assertEqual(self.server.ask(path="/favicon.ico")[::2], (204, b""))

    def test_many_idle_connections(self):
        idle = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(500)]
        try:
            self.assertEqual(self.told()["method"], "GET")
        finally:
            for connection in idle:
                connection.close()


class Metrics(unittest.TestCase):
    def test_calls_and_failures_by_method(self):
        server = Server("def main(event, context):\n    return {}[event['extensions']['request'].method]\n")
        self.addCleanup(server.close)
        server.ask("POST")
        server.ask(path="/healthz")
        _, headers, body = server.ask(path="/metrics")
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        for line in ('function_calls_total{method="POST"} 1', 'function_failures_total{method="POST"} 1',
                     'function_duration_seconds_bucket{method="POST",le="+Inf"} 1', 'function_duration_seconds_count{method="POST"} 1'):
            self.assertIn(line + "\n", body.decode())
        self.assertNotIn("GET", body.decode())
