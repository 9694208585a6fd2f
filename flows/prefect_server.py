"""The Prefect API of a run: the standing server that PREFECT_API_URL names, or factmill's own for its duration.

factmill's own server starts while sources are still being read, keeps its history in factmill's home (open it later
with `prefect server start`), runs none of the scheduling services, which a single run does not need, and ends with the
run, even a killed one. The history keeps the newest 200 runs.
"""

import base64
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from factmill.tasks.errors import FactmillError, PrefectServerLost, ServiceUnreachable
from factmill.tasks.memory import GC_THRESHOLDS
from factmill.tasks.processes import (
    LOOPBACK_HOST,
    find_free_port,
    load_log_tail,
    start_child_process,
    stop_child_process,
)
from factmill.tasks.progress import print_and_log
from factmill.tasks.settings import ensure_writable_home, factmill_home
from factmill.tasks.storage.housekeeping.prefect_history import (
    find_prefect_database_problem,
    guarded_prefect_database_until_created,
    prefect_database_path,
    trim_history,
)

_START_TIMEOUT_S = 90.0
_ANSWER_TIMEOUT_S = 10.0
_SERVER_ERROR_STATUS = 500
"""The lowest HTTP status that is a server error."""
MAX_SERVER_EXITS = 3
"""Number of unexpected exits of our own server after which a flow is given up."""
_CLIENT_RETRIES = "1"
"""Retries of a request to our own server after it has exited: they take about 5 s, in which another starts. By default
Prefect retries for over a minute, and the end of a flow makes several requests."""
_LOG_CHARACTERS = 600
_SERVER_APP = "prefect.server.api.server:create_app"
_UNAUTHORIZED_STATUS = 401
"""HTTP status of a server whose password (PREFECT_SERVER_API_AUTH_STRING) differs from ours."""
SERVER_POLL_INTERVAL_S = 2.0
"""Seconds between polls of a server that has gone away."""
_SERVER_PROGRAM = f"""import gc, runpy
gc.set_threshold{GC_THRESHOLDS}
runpy.run_module("uvicorn", run_name="__main__", alter_sys=True)"""
"""`python -m uvicorn`, with rarer garbage collection during imports."""
_DISABLED_SERVICES = (
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
_shared_server_stacks: list[ExitStack] = []
"""The exit stack of the open `sharing_one_prefect_server`, which stops its server; empty if none is open."""
_own_servers: dict[str, "OwnServer"] = {}
"""Address → our own server, for those that are running."""


def make_prefect_environment(home: Path) -> dict[str, str]:
    """Return the Prefect settings of a run as environment variables, without those that are already set."""
    wanted = {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
    }
    if not os.environ.get("PREFECT_API_URL"):
        wanted["PREFECT_CLIENT_MAX_RETRIES"] = _CLIENT_RETRIES
    return {name: value for name, value in wanted.items() if name not in os.environ}


def apply_prefect_settings(home: Path) -> None:
    """Apply the settings of a run to Prefect, even if a benchmark's package has already imported it."""
    os.environ.update(make_prefect_environment(home))
    _reload_prefect_settings()


def _reload_prefect_settings() -> None:
    """Make Prefect read the environment again if it is imported, since it does so only on import."""
    if context := sys.modules.get("prefect.context"):
        context.refresh_global_settings_context()
        sys.modules["prefect.logging.configuration"].setup_logging()


@contextmanager
def sharing_one_prefect_server() -> Iterator[None]:
    """Make all runs in this context use one server, which the first run that needs it starts: Prefect reads its address
    only once."""
    with ExitStack() as stack:
        _shared_server_stacks.append(stack)
        try:
            yield
        finally:
            _shared_server_stacks.pop()


@contextmanager
def standing_or_own_prefect_server(home: Path) -> Iterator["OwnServer | None"]:
    """Start our own server for runs and stop it at the end; yield None instead if a standing server is used."""
    url = os.environ.get("PREFECT_API_URL", "")
    if url in _own_servers:
        _own_servers[url].prepare_for_flow()
        yield _own_servers[url]
    elif url:
        check_prefect_server_usable(url)
        yield None
    elif _shared_server_stacks:
        yield _shared_server_stacks[-1].enter_context(_own_server(home))
    else:
        with _own_server(home) as server:
            yield server


def find_standing_server_url() -> str:
    """Return the address of the standing server; empty if runs use our own server, which has no UI."""
    url = os.environ.get("PREFECT_API_URL", "")
    return "" if url in _own_servers else url


def check_prefect_server_usable(url: str) -> None:
    """Raise ServiceUnreachable unless the Prefect server at this address answers and accepts our credentials."""
    if trouble := find_server_problem(url):
        raise ServiceUnreachable(
            f"no Prefect server answers where PREFECT_API_URL says ({url}): {trouble}; start it "
            "(`prefect server start`), or unset PREFECT_API_URL, and factmill starts one of its own"
        )
    if _is_unauthorized(url, {}):
        from prefect.settings import get_current_settings  # takes a second; only servers with a password need it

        settings = get_current_settings()
        headers, known = dict(settings.client.custom_headers), settings.api.auth_string
        if known is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(known.get_secret_value().encode()).decode()}"
        elif settings.api.key:
            headers["Authorization"] = f"Bearer {settings.api.key.get_secret_value()}"
        if _is_unauthorized(url, headers):
            fault = "is not set" if known is None else "has another user and password than the server"
            raise ServiceUnreachable(
                f"the Prefect server at {url} refuses us with HTTP 401: PREFECT_API_AUTH_STRING {fault}; set it to the "
                "USER:PASSWORD that the server has as PREFECT_SERVER_API_AUTH_STRING"
            )


def _is_unauthorized(url: str, headers: Mapping[str, str]) -> bool:
    """Return True if a server answers 401 to a request with these headers; its path /ready needs no credentials."""
    request = urllib.request.Request(f"{url.rstrip('/')}/admin/version", headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S):
            return False
    except urllib.error.HTTPError as error:
        return error.code == _UNAUTHORIZED_STATUS
    except (OSError, ValueError, HTTPException):
        return False  # any other trouble shows in the run itself


def wait_for_standing_server() -> None:
    """Wait until the standing Prefect server, if there is one, answers."""
    while (url := find_standing_server_url()) and find_server_problem(url):
        time.sleep(SERVER_POLL_INTERVAL_S)


@contextmanager
def raising_prefect_lost(what: str = "the flow") -> Iterator[None]:
    """Turn Prefect's errors about a lost server into PrefectServerLost; finished work is kept. `what`: its user."""
    own = _own_servers.get(os.environ.get("PREFECT_API_URL", ""))
    before = len(own.unexpected_exits) if own else 0
    try:
        yield
    except FactmillError:
        raise
    except Exception as error:
        ours: BaseException | None = error
        while ours is not None and not isinstance(ours, FactmillError):
            ours = ours.__cause__ or ours.__context__
        if own and ours:  # the error that ended the flow, which Prefect could not report to its server
            raise ours from None
        url = os.environ.get("PREFECT_API_URL", "")
        # the server may be back by now, after Prefect's client has given up
        trouble = (
            (own and "; ".join(own.unexpected_exits[before:]))
            or find_server_problem(url)
            or _describe_lost_connection(error)
        )
        if not url or not trouble:
            raise
        raise PrefectServerLost(
            f"factmill's own Prefect server was lost while {what} ran ({trouble}); finished work is saved: run the same "
            "command again to continue"
            if own
            else f"the Prefect server at {url} has gone away while {what} ran ({trouble}); finished work is saved: start it "
            "again, then run the same command to continue"
        ) from error


def _describe_lost_connection(error: Exception) -> str:
    """Return why a request to the Prefect server failed, or its server error; empty for any other error."""
    # errors of httpx, Prefect's HTTP library, which nothing here imports
    kinds = {each.__name__ for each in type(error).__mro__ if each.__module__ == "httpx"}
    if "TransportError" in kinds:
        return str(error) or type(error).__name__
    status = getattr(getattr(error, "response", None), "status_code", 0) if "HTTPStatusError" in kinds else 0
    return f"it answers {status}" if status == _UNAUTHORIZED_STATUS or status >= _SERVER_ERROR_STATUS else ""


def find_server_problem(url: str) -> str:
    """Return why no Prefect server with a working database answers at an address; empty if one does."""
    try:
        with urllib.request.urlopen(f"{url.rstrip('/')}/ready", timeout=_ANSWER_TIMEOUT_S):
            return ""
    except urllib.error.HTTPError as error:
        # a server that demands a key, or hides this path, is running
        return f"it answers {error.code}, as without its database" if error.code >= _SERVER_ERROR_STATUS else ""
    except (OSError, ValueError, HTTPException) as error:
        return str(getattr(error, "reason", error))


@contextmanager
def _own_server(home: Path) -> Iterator["OwnServer"]:
    server = OwnServer(home)
    os.environ["PREFECT_API_URL"] = server.url
    _reload_prefect_settings()
    _own_servers[server.url] = server
    try:
        yield server
    finally:
        del _own_servers[server.url]
        del os.environ["PREFECT_API_URL"]
        server.stop()
        trim_history(home)


class OwnServer:
    """A Prefect server that this process has started and that may still be starting.

    After an unexpected exit (killed, out of memory) it restarts at the same address, since Prefect reads it only once.
    """

    def __init__(self, home: Path) -> None:
        port = find_free_port()
        self.url = f"http://{LOOPBACK_HOST}:{port}/api"
        self.unexpected_exits: list[str] = []
        """Descriptions of its unexpected exits since the last flow began."""
        options = f"--host {LOOPBACK_HOST} --port {port} --log-level error --lifespan on"
        self._command = [sys.executable, "-c", _SERVER_PROGRAM, *f"--factory {_SERVER_APP} {options}".split()]
        self._home, self._log = home, home / "prefect" / f"server-{os.getpid()}.log"
        self._environment = {
            **os.environ,
            **make_prefect_environment(home),
            **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _DISABLED_SERVICES},
            "PREFECT_SERVER_UI_ENABLED": "false",
            "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
            "PREFECT__SERVER_EPHEMERAL": "1",
        }
        self._making = ExitStack()
        self._over = threading.Event()
        self._failure: FactmillError | OSError | None = None
        self._is_ready = False
        self._start_supervised()

    @property
    def is_starting(self) -> bool:
        """True until the server has answered for the first time."""
        return not self._is_ready

    def prepare_for_flow(self) -> None:
        """Reset the exit count for the next flow, and restart the server if it was given up."""
        self.unexpected_exits.clear()
        if self._failure:
            self._start_supervised()

    def wait_ready(self) -> None:
        """Wait until the server answers; raise the reason if it cannot start, or ServiceUnreachable after a timeout."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._failure:
                raise self._failure
            made = self._made
            if not find_server_problem(self.url):
                made()
                self._is_ready = True
                return
            time.sleep(0.05)
        raise ServiceUnreachable(
            f"factmill's own Prefect server has not answered for {_START_TIMEOUT_S:g} s: {self._read_log()}; run the same "
            "command again when the machine is less busy"
        )

    def recover(self) -> None:
        """Wait for a usable server after a loss; a damaged history, if that was the cause, is moved aside."""
        ensure_writable_home()
        if self._process.poll() is None and find_prefect_database_problem(prefect_database_path(self._home)):
            stop_child_process(self._process)
        self.wait_ready()

    def stop(self) -> None:
        """Stop the server and its supervision."""
        self._over.set()
        if not find_server_problem(self.url):
            self._made()  # nobody may have waited for a restarted server
        stop_child_process(self._process)
        self._keeper.join()
        self._making.close()
        self._log.unlink(missing_ok=True)

    def _start_supervised(self) -> None:
        self._start()
        self._failure = None  # only after a successful start: otherwise the next flow tries again
        self._keeper = threading.Thread(target=self._supervise, name="keeper of Prefect's server", daemon=True)
        self._keeper.start()

    def _start(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        self._log.parent.mkdir(0o700, exist_ok=True)
        with suppress(PermissionError):  # owned by another user
            # parameters, logs and errors of runs are private to one user, also in folders of earlier versions
            self._log.parent.chmod(0o700)
        self._making.close()
        self._made = self._making.enter_context(guarded_prefect_database_until_created(self._home, print_and_log))
        self._process = start_child_process(self._command, self._log, self._environment, umask=0o077)

    def _supervise(self) -> None:
        """Restart the server after each unexpected exit, unless there were too many."""
        while True:
            code = self._process.wait()
            if self._over.is_set():
                return
            ending = f"exit code {code}"
            if code < 0:
                because = ", perhaps since memory ran out" if code == -signal.SIGKILL else ""
                ending = f"killed by {signal.Signals(-code).name}{because}"
            self.unexpected_exits.append(ending)
            text = f"factmill's own Prefect server ended ({ending})"
            try:
                if len(self.unexpected_exits) >= MAX_SERVER_EXITS:
                    raise ServiceUnreachable(
                        f"{text}, {MAX_SERVER_EXITS} times by now; the end of its log: {self._read_log()}; what was done is kept: "
                        "give it memory (it needs some 300 MB), and run the same command again"
                    )
                print_and_log(f"note: {text}; another is started in its place")
                ensure_writable_home()
                self._start()
            except (FactmillError, OSError) as error:
                self._failure = error
                return
            if self._over.is_set():
                stop_child_process(self._process)

    def _read_log(self) -> str:
        return load_log_tail(self._log, _LOG_CHARACTERS) or "it is empty"


def send_prefect_event(event: str, resource: str, name: str, payload: Mapping[str, Any]) -> None:
    """Send an event for automations to the standing server, if there is one; a failure only prints a note.

    `event`: such as drift.found; `resource`: its kind, such as build; `name`: its id; `about`: the payload, JSON-able.
    """
    url = find_standing_server_url()
    if not url:
        return
    if not (trouble := find_server_problem(url)):
        apply_prefect_settings(factmill_home())
        # import Prefect only after its settings are in the environment, and only in commands that need it
        from prefect.client.orchestration import get_client
        from prefect.events import Event

        result = Event(
            event=f"factmill.{event}",
            resource={"prefect.resource.id": f"factmill.{resource}.{name}", "prefect.resource.name": name},  # type: ignore[arg-type]
            payload=dict(payload),
        )
        try:
            with get_client(sync_client=True) as client:
                client.request("POST", "/events", json=[result.model_dump(mode="json")])
        except Exception as error:  # noqa: BLE001 - the work is done, whether or not the server takes the event
            trouble = str(error)
    if trouble:
        print_and_log(
            f"note: factmill.{event} could not be sent to the Prefect server at {url.removesuffix('/api')}: {trouble}"
        )
