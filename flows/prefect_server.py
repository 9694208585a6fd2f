"""The Prefect API that a run talks to: the one that PREFECT_API_URL names, or a server of its own for its duration.

A server of our own starts while sources are still being read, keeps its history in factmill's home (open it later with
`prefect server start`), runs none of the scheduling services that a single run does not need, and ends with the run,
even a killed one. The newest 200 runs stay in that history.
"""

import base64
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

from tasks.errors import FactmillError, PrefectLost, ServiceUnreachable
from tasks.memory import COLLECT_AFTER
from tasks.processes import HOST, free_port, read_tail, start_child, stop_child
from tasks.progress import say
from tasks.storage.housekeeping.prefect_history import bound_history, making_history

_START_TIMEOUT_S = 90.0
_ANSWER_TIMEOUT_S = 10.0
_OF_SERVER = 500
"""HTTP's statuses from here on are the server's own trouble."""
_REFUSED = 401
"""What a server answers whose password (PREFECT_SERVER_API_AUTH_STRING) is another than ours."""
LOOK_AGAIN_S = 2.0
"""Between looks for a server that has gone away."""
_SERVE = f"""import gc, runpy
gc.set_threshold{COLLECT_AFTER}
runpy.run_module("uvicorn", run_name="__main__", alter_sys=True)"""
"""`python -m uvicorn`, without looks for garbage in what is imported."""
_UNNEEDED = (
    "CANCELLATION_CLEANUP",
    "CLEANUP_RECONCILER",
    "DB_VACUUM",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "REPOSSESSOR",
    "SCHEDULER",
    "TRIGGERS",
)

_shared: list[ExitStack] = []
"""What stops the server of `shared_server`, while one is open."""
_own: list[str] = []
"""Addresses of the servers of our own that run just now."""


def prefect_settings(home: Path) -> dict[str, str]:
    """Return the Prefect settings of a run, as environment variables; none of them overrides one that is set."""
    wanted = {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
    }
    return {name: value for name, value in wanted.items() if name not in os.environ}


@contextmanager
def shared_server() -> Iterator[None]:
    """Let all runs within use one server, started by the first that needs one: Prefect reads its address only once."""
    with ExitStack() as stack:
        _shared.append(stack)
        try:
            yield
        finally:
            _shared.pop()


@contextmanager
def prefect_server(home: Path) -> Iterator["ServerHandle"]:
    """Give a handle on the API to use; a server of our own is started at once and stopped at the end."""
    if url := os.environ.get("PREFECT_API_URL"):
        require_server(url)
        yield ServerHandle(None, "", home)
    elif _shared:
        yield _shared[-1].enter_context(_own_server(home))
    else:
        with _own_server(home) as server:
            yield server


def find_standing() -> str:
    """Return the address of the standing server that runs are watched on; empty where we have one of our own, without UI."""
    url = os.environ.get("PREFECT_API_URL", "")
    return "" if url in _own else url


def require_server(url: str) -> None:
    """ServiceUnreachable unless something answers where PREFECT_API_URL says that a Prefect server is, and lets us in."""
    if trouble := find_trouble(url):
        raise ServiceUnreachable(
            f"no Prefect server answers where PREFECT_API_URL says ({url}): {trouble}; start it "
            "(`prefect server start`), or unset PREFECT_API_URL, and factmill starts one of its own"
        )
    if _is_refused(url, {}):
        from prefect.settings import get_current_settings  # takes a second, which only servers with a password cost

        settings = get_current_settings()
        headers, known = dict(settings.client.custom_headers), settings.api.auth_string
        if known is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(known.get_secret_value().encode()).decode()}"
        elif settings.api.key:
            headers["Authorization"] = f"Bearer {settings.api.key.get_secret_value()}"
        if _is_refused(url, headers):
            raise ServiceUnreachable(
                f"the Prefect server at {url} refuses us with HTTP 401: PREFECT_API_AUTH_STRING "
                f"{'has another user and password than the server' if known is not None else 'is not set'}; set it to the USER:PASSWORD that the "
                "server has as PREFECT_SERVER_API_AUTH_STRING"
            )


def _is_refused(url: str, headers: Mapping[str, str]) -> bool:
    """True where a server wants to be asked by another user, or with another key; what it tells whether it is ready, it tells all."""
    request = urllib.request.Request(f"{url.rstrip('/')}/admin/version", headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S):
            return False
    except urllib.error.HTTPError as error:
        return error.code == _REFUSED
    except (OSError, ValueError, HTTPException):
        return False  # of other troubles the run itself tells


def await_server() -> None:
    """Wait for as long as nothing answers where PREFECT_API_URL says that a standing Prefect server is."""
    while (url := find_standing()) and find_trouble(url):
        time.sleep(LOOK_AGAIN_S)


@contextmanager
def telling_lost_server() -> Iterator[None]:
    """Turn what Prefect makes of a server that has gone away into PrefectLost; the run's work is kept."""
    try:
        yield
    except FactmillError:
        raise
    except Exception as error:
        url = os.environ.get("PREFECT_API_URL", "")
        # it may be back by now, after longer than Prefect's client is patient
        trouble = find_trouble(url) or _tell_cut(error)
        if not url or not trouble:
            raise
        raise PrefectLost(
            f"the Prefect server at {url} has gone away while the flow ran ({trouble}); what was done is kept: start it "
            "again, or unset PREFECT_API_URL, and the same command goes on from here"
        ) from error


def _tell_cut(error: Exception) -> str:
    """Return what cut off a question to the Prefect server, or what was wrong there; nothing for any other error."""
    # of the library that Prefect asks with, which nothing here imports
    kinds = {each.__name__ for each in type(error).__mro__ if each.__module__ == "httpx"}
    if "TransportError" in kinds:
        return str(error) or type(error).__name__
    status = getattr(getattr(error, "response", None), "status_code", 0) if "HTTPStatusError" in kinds else 0
    return f"it answers {status}" if status == _REFUSED or status >= _OF_SERVER else ""


def find_trouble(url: str) -> str:
    """Return why no Prefect server answers at an address, or none that can reach its database; nothing where one does."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/ready", timeout=_ANSWER_TIMEOUT_S):
            return ""
    except urllib.error.HTTPError as error:
        # one that wants a key, or keeps this to itself, is there
        return f"it answers {error.code}, as without its database" if error.code >= _OF_SERVER else ""
    except (OSError, ValueError, HTTPException) as error:
        return str(getattr(error, "reason", error))


@contextmanager
def _own_server(home: Path) -> Iterator["ServerHandle"]:
    home.mkdir(parents=True, exist_ok=True)
    (home / "prefect").mkdir(0o700, exist_ok=True)
    with suppress(PermissionError):  # of somebody else's
        # parameters, logs and errors of runs are for one user, also those of earlier versions
        (home / "prefect").chmod(0o700)
    port, log = free_port(), home / "prefect" / f"server-{os.getpid()}.log"
    options = (
        f"--factory prefect.server.api.server:create_app --host {HOST} --port {port} --log-level error --lifespan on"
    )
    command = [sys.executable, "-c", _SERVE, *options.split()]
    with making_history(home, say) as made:
        process = start_child(command, log, _server_environment(home), umask=0o077)
        os.environ["PREFECT_API_URL"] = f"http://{HOST}:{port}/api"
        _own.append(os.environ["PREFECT_API_URL"])
        try:
            yield ServerHandle(process, f"http://{HOST}:{port}/api/health", log, made)
        finally:
            _own.pop()
            del os.environ["PREFECT_API_URL"]
            stop_child(process)
            log.unlink(missing_ok=True)
            bound_history(home)


class ServerHandle:
    """A Prefect server that may still be starting."""

    def __init__(self, process: object, health_url: str, log: Path, made: Callable[[], object] = lambda: None) -> None:
        self._process = process
        self._health_url = health_url
        self._log = log
        self._made = made

    def wait_ready(self) -> None:
        """Wait until the server answers; ServiceUnreachable with the end of its log when it does not."""
        if not self._health_url:
            return
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:  # type: ignore[attr-defined]
                break
            try:
                with urllib.request.urlopen(self._health_url, timeout=2) as answer:
                    if answer.status == 200:
                        self._made()
                        return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        raise ServiceUnreachable(
            f"the Prefect server did not start: {read_tail(self._log) or 'no output'}; "
            "start one yourself (`prefect server start`) and set PREFECT_API_URL"
        )


def _server_environment(home: Path) -> Mapping[str, str]:
    disabled = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _UNNEEDED}
    private = {
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
        "PREFECT__SERVER_EPHEMERAL": "1",
    }
    return {**os.environ, **prefect_settings(home), **disabled, **private}
