"""Answers calls that take too long, from beside the thread in which they run."""
import itertools
import socket
import threading
import time


class Watchdog:
    """One thread for all calls. A call that is not done in time gets the 408 on its connection,
    and expired is called. The handler runs on: Python cannot end a thread."""

    def __init__(self, seconds, expired):
        self._seconds, self._expired = seconds, expired
        self._running = {}  # in order of their ends, because all may take equally long
        self._numbers = itertools.count()
        self._text = f"no answer in {seconds:g} s\n".encode()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def begin(self, connection):
        """Starts the clock; gives what done wants."""
        number = next(self._numbers)
        self._running[number] = (time.monotonic() + self._seconds, connection)
        return number

    def done(self, number):
        """Stops the clock. False means that the call has been answered already."""
        # Taking out of a dict is atomic, so exactly one of done and _watch gets the call.
        return self._running.pop(number, None) is not None

    def _watch(self):
        while True:
            now = time.monotonic()
            # Whatever begins from now on ends later than this.
            end = now + self._seconds
            for number in list(self._running):
                entry = self._running.get(number)
                if entry is None:
                    continue
                if entry[0] > now:
                    end = entry[0]
                    break
                if self._running.pop(number, None) is not None:
                    self._answer(entry[1])
                    self._expired()
            time.sleep(max(0.0, end - now))

    def _answer(self, connection):
        head = b"HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        try:
            connection.settimeout(1)
            connection.sendall(head % len(self._text) + self._text)
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The client has gone.
