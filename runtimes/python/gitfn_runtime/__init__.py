"""The server that loads a Python Function's handler and calls it for every request.

In goes the environment that options.read describes; out come HTTP answers, log lines and, if the
handler cannot be imported, its error as the Pod's termination message. It installs nothing and
writes no file but that message.
"""
