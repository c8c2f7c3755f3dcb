"""Ends the server without losing a request."""
import os
import signal
import threading


def on_signals(server, settings):
    """On SIGTERM: answers on for settings.drain seconds, each answer the last of its connection;
    then refuses new connections and waits for running requests. SIGINT, which a person at a
    terminal sends, does not wait; a second signal ends at once."""
    begun = threading.Event()

    def stop(signum, _):
        if begun.is_set():
            os._exit(1)
        begun.set()
        server.last_answers()
        timer = threading.Timer(settings.drain if signum == signal.SIGTERM else 0, server.stop)
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
