import socket
import threading
import unittest

from .running import Server


class Loading(unittest.TestCase):
    def test_what_cannot_be_loaded_ends_the_process_and_says_why(self):
        rows = [
            ("a missing module", "import nosuchmodule\ndef main(event, context): pass\n", "ModuleNotFoundError: No module named 'nosuchmodule'"),
            ("a syntax error", "def main(:\n", "SyntaxError"),
            ("an exception", "raise RuntimeError('no database')\n", "RuntimeError: no database"),
            ("no main", "x = 1\n", 'AttributeError: handler.py has no function "main"'),
            ("sys.exit", "import sys\nsys.exit(0)\n", "SystemExit"),
        ]
        for name, source, want in rows:
            with self.subTest(name):
                server = Server(source)
                self.addCleanup(server.close)
                self.assertIsNone(server.port)
                self.assertEqual(server.process.wait(60), 1)
                self.assertIn(want, server.termination.read_text())
                self.assertIn("cannot load handler", "\n".join(server.lines))

    def test_a_syntax_error_says_where(self):
        server = Server("x = 1\ndef main(:\n")
        self.addCleanup(server.close)
        server.process.wait(60)
        self.assertIn("handler.py\", line 2", server.termination.read_text())


# Calls wait at a gate that the test opens, so that no test has to guess times.
GATED = '''
    import threading
    gate = threading.Event()

    def main(event, context):
        path = event["extensions"]["request"].path
        if path == "/open":
            gate.set()
        if path == "/wait":
            print("waiting")
            gate.wait()
        return "done"
'''


class Timeouts(unittest.TestCase):
    def test_a_call_that_takes_too_long_gets_408_and_others_go_on(self):
        server = Server(GATED, FUNC_TIMEOUT="0.3", CHERRYPY_NUMTHREADS="1")
        self.addCleanup(server.close)
        status, headers, body = server.ask(path="/wait")
        self.assertEqual((status, body, headers["Connection"]), (408, b"no answer in 0.3 s\n", "close"))
        # The only thread is stuck in the handler: another has taken its place.
        self.assertEqual(server.ask(path="/healthz")[0], 200)
        self.assertEqual(server.ask(path="/open")[::2], (200, b"done"))
        self.assertEqual(server.ask(path="/x")[::2], (200, b"done"))


class Stopping(unittest.TestCase):
    def test_connections_are_answered_while_it_drains(self):
        server = Server(GATED, SHUTDOWN_DELAY="1")
        self.addCleanup(server.close)
        kept = server.connection()
        self.addCleanup(kept.close)
        kept.request("GET", "/x")
        self.assertNotEqual(kept.getresponse().headers["Connection"], "close")
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(server.ask(path="/wait")))
        waiting.start()
        self.assertTrue(server.said("waiting"))
        server.terminate()
        status, headers, body = server.ask(path="/open")
        self.assertEqual((status, body, headers["Connection"]), (200, b"done", "close"))
        waiting.join()
        self.assertEqual(answers[0][0], 200)
        self.assertEqual(server.process.wait(60), 0)
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", server.port), 1)
