"""Runs the server as its Pod would, and talks to it."""
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading

HERE = pathlib.Path(__file__).resolve().parent


class Server:
    """A server whose handler is the text given; close ends it."""

    def __init__(self, source, module="gitfn_runtime", **env):
        self.dir = tempfile.TemporaryDirectory(prefix="gitfn-python-")
        root = pathlib.Path(self.dir.name)
        (root / "handler.py").write_text(textwrap.dedent(source))
        self.termination = root / "termination"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=HERE.parent,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "FUNCTION_PATH": str(root),
                 "HANDLER_PATH": str(root), "SERVER_HOST": "127.0.0.1", "FUNC_PORT": "0", "SERVER_PORT": "0",
                 "SHUTDOWN_DELAY": "0", "TERMINATION_LOG": str(self.termination), **env})
        self.lines, self.port = [], None
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        match = self.said(r'"message": "listening".*"port": (\d+)|EXIT')
        if match and match[1]:
            self.port = int(match[1])

    def _read(self):
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.decode().rstrip("\n"))
                self._news.notify_all()
        self.process.wait()
        with self._news:
            self.lines.append("EXIT")
            self._news.notify_all()

    def said(self, pattern, seconds=60):
        """Waits for a line of output."""
        def find():
            return next((m for m in (re.search(pattern, line) for line in self.lines) if m), None)

        with self._news:
            found = self._news.wait_for(lambda: find() or self.lines[-1:] == ["EXIT"], seconds)
            return find() if found else None

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method="GET", path="/", body=None, headers=None):
        """Gives status, headers and body of one answer."""
        connection = self.connection()
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def post_json(self, value, path="/"):
        return self.ask("POST", path, json.dumps(value), {"Content-Type": "application/json"})

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self._reader.join()
        self.process.stdout.close()
        self.dir.cleanup()
