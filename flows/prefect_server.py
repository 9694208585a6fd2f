"""The Prefect API that a run talks to: the one that PREFECT_API_URL names, or a server of its own for its duration.

A server of our own starts while sources are still being read, keeps its history in factmill's home (open it later with
`prefect server start`), runs none of the scheduling services that a single run does not need, and ends with the run,
even a killed one. The newest 200 runs stay in that history.
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

from factmill.tasks.errors import FactmillError, PrefectLost, ServiceUnreachable
from factmill.tasks.memory import COLLECT_AFTER
from factmill.tasks.processes import HOST, free_port, read_tail, start_child, stop_child
from factmill.tasks.progress import say
from factmill.tasks.settings import home, require_home
from factmill.tasks.storage.housekeeping.prefect_history import bound_history, find_damage, history_of, making_history

_START_TIMEOUT_S = 90.0
_ANSWER_TIMEOUT_S = 10.0
_OF_SERVER = 500
"""HTTP's statuses from here on are the server's own trouble."""
MOST_ENDINGS = 3
"""Times that a server of our own may end during one flow before the flow is given up."""
_CLIENT_RETRIES = "1"
"""Of a request to a server of our own that has ended: in its 5 s or so another starts. Prefect goes on for over a minute
otherwise, and the end of a flow makes several requests."""
_LOG_CHARACTERS = 600
_APP = "prefect.server.api.server:create_app"
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
_own: dict[str, "OwnServer"] = {}
"""The servers of our own that run just now, by address."""


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
    if not os.environ.get("PREFECT_API_URL"):
        wanted["PREFECT_CLIENT_MAX_RETRIES"] = _CLIENT_RETRIES
    return {name: value for name, value in wanted.items() if name not in os.environ}


def apply_prefect_settings(home: Path) -> None:
    """Give Prefect the settings of a run, also where a benchmark's package has imported it before."""
    os.environ.update(prefect_settings(home))
    _refresh_prefect()


def _refresh_prefect() -> None:
    """Have Prefect read the environment again, if it is imported: it does so by itself only then."""
    if context := sys.modules.get("prefect.context"):
        context.refresh_global_settings_context()
        sys.modules["prefect.logging.configuration"].setup_logging()


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
def prefect_server(home: Path) -> Iterator["OwnServer | None"]:
    """Give the server of our own that runs use, started at once and stopped at the end; None where a standing one is used."""
    url = os.environ.get("PREFECT_API_URL", "")
    if url in _own:
        _own[url].renew()
        yield _own[url]
    elif url:
        require_server(url)
        yield None
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
            fault = "is not set" if known is None else "has another user and password than the server"
            raise ServiceUnreachable(
                f"the Prefect server at {url} refuses us with HTTP 401: PREFECT_API_AUTH_STRING {fault}; set it to the "
                "USER:PASSWORD that the server has as PREFECT_SERVER_API_AUTH_STRING"
            )


def _is_refused(url: str, headers: Mapping[str, str]) -> bool:
    """True where a server answers 401 to a request with these headers; its address /ready is open to all."""
    request = urllib.request.Request(f"{url.rstrip('/')}/admin/version", headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_TIMEOUT_S):
            return False
    except urllib.error.HTTPError as error:
        return error.code == _REFUSED
    except (OSError, ValueError, HTTPException):
        return False  # any other trouble shows in the run itself


def await_server() -> None:
    """Wait for as long as nothing answers where PREFECT_API_URL says that a standing Prefect server is."""
    while (url := find_standing()) and find_trouble(url):
        time.sleep(LOOK_AGAIN_S)


@contextmanager
def telling_lost_server(what: str = "the flow") -> Iterator[None]:
    """Turn what Prefect makes of a server that has gone away into PrefectLost; what was done is kept. `what`: needs it."""
    own = _own.get(os.environ.get("PREFECT_API_URL", ""))
    before = len(own.endings) if own else 0
    try:
        yield
    except FactmillError:
        raise
    except Exception as error:
        ours: BaseException | None = error
        while ours is not None and not isinstance(ours, FactmillError):
            ours = ours.__cause__ or ours.__context__
        if own and ours:  # the error that ended the flow, where Prefect could not report it to its server
            raise ours from None
        url = os.environ.get("PREFECT_API_URL", "")
        # it may be back by now, after longer than Prefect's client is patient
        trouble = (own and "; ".join(own.endings[before:])) or find_trouble(url) or _tell_cut(error)
        if not url or not trouble:
            raise
        raise PrefectLost(
            f"factmill's own Prefect server was lost while {what} ran ({trouble}); what was done is kept: the same command "
            "goes on from here"
            if own
            else f"the Prefect server at {url} has gone away while {what} ran ({trouble}); what was done is kept: start it "
            "again, and the same command goes on from here"
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
def _own_server(home: Path) -> Iterator["OwnServer"]:
    server = OwnServer(home)
    os.environ["PREFECT_API_URL"] = server.url
    _refresh_prefect()
    _own[server.url] = server
    try:
        yield server
    finally:
        del _own[server.url]
        del os.environ["PREFECT_API_URL"]
        server.stop()
        bound_history(home)


class OwnServer:
    """A Prefect server that this process has started, and that may still be starting.

    One that ends unasked (killed, out of memory) is started again at the same address, since Prefect reads it only once.
    """

    def __init__(self, home: Path) -> None:
        port = free_port()
        self.url = f"http://{HOST}:{port}/api"
        self.endings: list[str] = []
        """How it ended since the last flow began."""
        options = f"--host {HOST} --port {port} --log-level error --lifespan on"
        self._command = [sys.executable, "-c", _SERVE, *f"--factory {_APP} {options}".split()]
        self._home, self._log = home, home / "prefect" / f"server-{os.getpid()}.log"
        self._environment = {
            **os.environ,
            **prefect_settings(home),
            **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _UNNEEDED},
            "PREFECT_SERVER_UI_ENABLED": "false",
            "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
            "PREFECT__SERVER_EPHEMERAL": "1",
        }
        self._making = ExitStack()
        self._over = threading.Event()
        self._failure: FactmillError | OSError | None = None
        self._is_ready = False
        self._begin()

    @property
    def is_starting(self) -> bool:
        """True until it has answered once since it was started."""
        return not self._is_ready

    def renew(self) -> None:
        """Count its endings from here on, for the next flow; start another where none is left."""
        self.endings.clear()
        if self._failure:
            self._begin()

    def wait_ready(self) -> None:
        """Wait until the server answers; the error that says why it cannot be started, where it ends again and again."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._failure:
                raise self._failure
            made = self._made
            if not find_trouble(self.url):
                made()
                self._is_ready = True
                return
            time.sleep(0.05)
        raise ServiceUnreachable(
            f"factmill's own Prefect server has not answered for {_START_TIMEOUT_S:g} s: {self._read_log()}; run the same "
            "command again when the machine is less busy"
        )

    def recover(self) -> None:
        """Wait for a server that flows can go on with, after one was lost; the history is put aside where that was why."""
        require_home()
        if self._process.poll() is None and find_damage(history_of(self._home)):
            stop_child(self._process)
        self.wait_ready()

    def stop(self) -> None:
        """Stop the server."""
        self._over.set()
        if not find_trouble(self.url):
            self._made()  # one that was started in another's place may have been waited for by nobody
        stop_child(self._process)
        self._keeper.join()
        self._making.close()
        self._log.unlink(missing_ok=True)

    def _begin(self) -> None:
        self._start()
        self._failure = None  # only now: where it cannot start, the next flow tries again
        self._keeper = threading.Thread(target=self._keep, name="keeper of Prefect's server", daemon=True)
        self._keeper.start()

    def _start(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        self._log.parent.mkdir(0o700, exist_ok=True)
        with suppress(PermissionError):  # of somebody else's
            # parameters, logs and errors of runs are for one user, also those of earlier versions
            self._log.parent.chmod(0o700)
        self._making.close()
        self._made = self._making.enter_context(making_history(self._home, say))
        self._process = start_child(self._command, self._log, self._environment, umask=0o077)

    def _keep(self) -> None:
        """Start a server that ends unasked again, unless it does so too often."""
        while True:
            code = self._process.wait()
            if self._over.is_set():
                return
            ending = f"exit code {code}"
            if code < 0:
                because = ", perhaps since memory ran out" if code == -signal.SIGKILL else ""
                ending = f"killed by {signal.Signals(-code).name}{because}"
            self.endings.append(ending)
            told = f"factmill's own Prefect server ended ({ending})"
            try:
                if len(self.endings) >= MOST_ENDINGS:
                    raise ServiceUnreachable(
                        f"{told}, {MOST_ENDINGS} times by now; the end of its log: {self._read_log()}; what was done is kept: "
                        "give it memory (it needs some 300 MB), and run the same command again"
                    )
                say(f"note: {told}; another is started in its place")
                require_home()
                self._start()
            except (FactmillError, OSError) as error:
                self._failure = error
                return
            if self._over.is_set():
                stop_child(self._process)

    def _read_log(self) -> str:
        return read_tail(self._log, _LOG_CHARACTERS) or "it is empty"


def send_event(event: str, resource: str, name: str, about: Mapping[str, Any]) -> None:
    """Send an event to the standing server, if there is one, for automations; that it does not take it is a note, no error.

    `event`: such as drift.found; `resource`: of what kind it is, such as build; `name`: which one; `about`: as JSON has it.
    """
    url = find_standing()
    if not url:
        return
    if not (trouble := find_trouble(url)):
        apply_prefect_settings(home())
        # Prefect is imported when its settings stand, by commands that need it alone
        from prefect.client.orchestration import get_client
        from prefect.events import Event

        told = Event(
            event=f"factmill.{event}",
            resource={"prefect.resource.id": f"factmill.{resource}.{name}", "prefect.resource.name": name},  # type: ignore[arg-type]
            payload=dict(about),
        )
        try:
            with get_client(sync_client=True) as client:
                client.request("POST", "/events", json=[told.model_dump(mode="json")])
        except Exception as error:  # noqa: BLE001 - what was done is done, whatever the server makes of the news
            trouble = str(error)
    if trouble:
        say(f"note: factmill.{event} is not told to the Prefect server at {url.removesuffix('/api')}: {trouble}")
