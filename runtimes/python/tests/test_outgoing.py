import http.server
import json
import threading
import unittest

from .running import Server


class Sink:
    """Records what it is sent, and answers as the test says."""

    def __init__(self, *answers):
        self.got, answers = [], list(answers)
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                sink.got.append((self.headers, body))
                self.send_response(answers.pop(0) if answers else 204)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/publish"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


EMIT = '''
    def main(event, context):
        return str(event.emitCloudEvent("t", "s", event["data"], {"eventtypeversion": "v1"}))
'''


class Emit(unittest.TestCase):
    def run_with(self, *answers):
        sink = Sink(*answers)
        self.addCleanup(sink.close)
        server = Server(EMIT, PUBLISHER_PROXY_ADDRESS=sink.url)
        self.addCleanup(server.close)
        return sink, server

    def test_an_event_is_sent_structured(self):
        sink, server = self.run_with()
        self.assertEqual(server.post_json({"a": 1})[::2], (200, b"204"))
        headers, body = sink.got[0]
        event = json.loads(body)
        self.assertEqual(headers["Content-Type"], "application/cloudevents+json")
        self.assertTrue(event.pop("id") and event.pop("time").endswith("Z"))
        self.assertEqual(event, {"specversion": "1.0", "type": "t", "source": "s", "datacontenttype": "application/json",
                                 "eventtypeversion": "v1", "data": {"a": 1}})
        server.post_json("text")
        self.assertEqual(json.loads(sink.got[1][1])["datacontenttype"], "text/plain")

    def test_a_refusal_that_can_pass_is_tried_again_with_the_same_id(self):
        sink, server = self.run_with(503, 429)
        self.assertEqual(server.post_json(1)[::2], (200, b"204"))
        self.assertEqual(len({json.loads(body)["id"] for _, body in sink.got}), 1)
        self.assertEqual(len(sink.got), 3)

    def test_another_refusal_is_raised(self):
        sink, server = self.run_with(400)
        self.assertEqual(server.post_json(1)[0], 500)
        self.assertEqual(len(sink.got), 1)


class Traces(unittest.TestCase):
    def test_headers_pass_through(self):
        sink = Sink()
        self.addCleanup(sink.close)
        server = Server(f'''
            import requests, urllib.request

            def main(event, context):
                with event.tracer.start_as_current_span("span") as span:
                    span.set_attribute("a", 1)
                    {{"/requests": requests.get, "/urllib": urllib.request.urlopen}}[event["extensions"]["request"].path]("{sink.url}")
        ''')
        self.addCleanup(server.close)
        trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
        rows = [
            ("W3C", {"traceparent": f"00-{trace}-{span}-01", "tracestate": "a=b"}, "01", "1"),
            ("W3C, not sampled", {"traceparent": f"00-{trace}-{span}-00"}, "00", "0"),
            ("B3", {"X-B3-TraceId": trace, "X-B3-SpanId": span, "X-B3-Sampled": "0"}, "00", "0"),
            ("B3 in one header", {"b3": f"{trace}-{span}-1"}, "01", "1"),
        ]
        for path in ("/requests", "/urllib"):
            for name, headers, flags, sampled in rows:
                with self.subTest(name + " by " + path):
                    self.assertEqual(server.ask(path=path, headers=headers)[0], 200)
                    sent = sink.got[-1][0]
                    self.assertEqual(sent["traceparent"], f"00-{trace}-{span}-{flags}")
                    self.assertEqual((sent["x-b3-traceid"], sent["x-b3-spanid"], sent["x-b3-sampled"]), (trace, span, sampled))
                    self.assertEqual(sent.get("tracestate"), headers.get("tracestate"))
        with self.subTest("none: a trace begins"):
            server.ask(path="/urllib")
            self.assertRegex(sink.got[-1][0]["traceparent"], "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")
