"""Loads the handler, listens, stops on SIGTERM.

A handler that cannot be imported ends the process: then the Pod is not ready, the version before
it goes on serving, and what was thrown stands in the Pod's status.
"""
import os
import sys
import time
import traceback

from . import log, options, shutdown
from .handler import load


def reason(error):
    """What was raised, short enough for a termination message; of a SyntaxError also where."""
    return "".join(traceback.format_exception_only(type(error), error)).strip()[:2000]


def main():
    started = time.monotonic()
    settings = options.read(os.environ)
    log.configure(settings)
    try:
        from .server import create

        handler = load(settings)
        server = create(settings, handler)
        server.prepare()
    # An import may also call sys.exit.
    except BaseException as error:
        log.logger.critical("cannot load handler", exc_info=error, extra={"path": settings.path, "handler": settings.module})
        try:
            with open(settings.termination_log, "w", encoding="utf-8") as file:
                file.write(reason(error))
        except OSError:
            pass  # Not in a Pod: the log has it.
        logging_end()
        os._exit(1)  # Threads that the handler has started do not keep the process.
    shutdown.on_signals(server, settings)
    log.logger.info("listening", extra={"port": server.bind_addr[1], "seconds": round(time.monotonic() - started, 3)})
    server.serve()
    logging_end()
    os._exit(0)


def logging_end():
    sys.stdout.flush()
    sys.stderr.flush()


if __name__ == "__main__":
    main()
