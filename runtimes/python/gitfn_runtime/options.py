"""The environment as one plain object; nothing else reads os.environ."""
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    host: str
    port: int
    path: str
    module: str
    function: str
    timeout: float
    body_limit: int
    threads: int
    function_name: str
    namespace: str
    runtime: str
    memory_limit: str
    publisher: str
    termination_log: str
    access_log: bool
    log_format: str
    log_level: str
    drain: float


def read(env):
    """Reads the settings. A number that is absent, no number or too small becomes its default,
    so that a typo never stops a Function."""
    return Options(
        host=env.get("SERVER_HOST") or "0.0.0.0",
        port=int(number(env.get("FUNC_PORT"), 8080, 0)),
        path=env.get("FUNCTION_PATH") or "/",
        module=env.get("MOD_NAME") or "handler",
        function=env.get("FUNC_HANDLER") or "main",
        timeout=number(env.get("FUNC_TIMEOUT"), 180, 0.001),
        body_limit=int(number(env.get("FUNC_MEMFILE_MAX"), 100 << 20, 1)),
        threads=int(number(env.get("CHERRYPY_NUMTHREADS"), 50, 1)),
        function_name=env.get("FUNC_NAME", ""),
        namespace=env.get("SERVICE_NAMESPACE", ""),
        runtime=env.get("FUNC_RUNTIME", ""),
        memory_limit=env.get("FUNC_MEMORY_LIMIT", ""),
        publisher=env.get("PUBLISHER_PROXY_ADDRESS", ""),
        termination_log=env.get("TERMINATION_LOG") or "/dev/termination-log",
        access_log=bool(env.get("KYMA_INTERNAL_LOGGER_ENABLED")),
        log_format=env.get("LOG_FORMAT") or "json",
        log_level=(env.get("LOG_LEVEL") or "info").upper(),
        # Kubernetes tells the routers that a Pod goes away while it tells the Pod, so for this
        # long new connections still come.
        drain=number(env.get("SHUTDOWN_DELAY"), 2, 0),
    )


def number(text, default, least):
    try:
        value = float(text)
    except (TypeError, ValueError):
        return default
    return value if math.isfinite(value) and value >= least else default
