"""Serve a labelling page on loopback, to one person, until it is finished.

Any page that a browser has open may send requests to loopback, and any name may resolve to it. So the Host header has to
be ours, every address holds a secret token, and what changes something must come from our own page (Origin) as JSON,
which no form of another page can send.
"""

import json
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs, urlsplit

import typer

from factmill.flows.labelling.journal import open_decision_journal
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.sheets.sheet import FilledSheetRow, Sheet, digest_shown_cells
from factmill.tasks.errors import UsageError
from factmill.tasks.processes import LOOPBACK_HOST
from factmill.tasks.settings import factmill_home
from factmill.tasks.text.sanitize import escape_control_characters

if TYPE_CHECKING:
    from factmill.flows.labelling.page import SheetLabellingSession

ServeOption = Annotated[
    bool,
    typer.Option(
        "--serve",
        help="Decide on a page in the browser. Only this machine can open it; the command ends when you finish.",
    ),
]
PortOption = Annotated[int, typer.Option(help="With --serve: the page's port. Default: a free one.", min=0, max=65535)]
_MAX_BODY_BYTES = 1 << 20
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class PageDecisions:
    """What a person decided on a page."""

    rows: list[FilledSheetRow]
    open: int
    """Number of rows without a decision."""
    digest: str
    """SHA-256 of the journal."""
    journal: Path


def collect_decisions_on_page(
    sheet: Sheet,
    name: str,
    title: str,
    who: str,
    port: int,
    check_row: Callable[[FilledSheetRow], object] = lambda _: None,
) -> PageDecisions:
    """Serve a sheet until its person finishes it, and return the decisions; UsageError without a name, or for a used port.

    `name`: of the journal's file, which is found again by the same rows and person; `port`: 0 takes a free one;
    `check_row`: raises UsageError for a decided row that the command would refuse, and it is not saved. Ctrl-C ends
    it too, by KeyboardInterrupt: the decisions are in the journal, and the next call goes on with them.
    """
    # import the templates only to serve
    from factmill.flows.labelling.page import SheetLabellingSession

    who = who.strip()
    if not who or not sheet.rows:
        needed = f"--serve needs --{sheet.layout.who} NAME: decisions are kept by person"
        raise UsageError(needed if not who else f"there is no row to decide on: {title}")
    shown = [digest_shown_cells(sheet.layout, row) for row in sheet.rows]
    path = factmill_home() / "labelling" / f"{name}-{digest_json([who, shown])[:16]}.jsonl"
    with open_decision_journal(path) as journal:
        page = SheetLabellingSession(sheet, title, who, journal, check_row)
        text = f"{len(sheet.rows)} rows, {page.count_open()} of them open, for {who}; saved in {path}"
        _serve_until_finished(page, port, text)
        return PageDecisions(page.list_decided_rows(), page.count_open(), journal.digest(), path)


def _serve_until_finished(page: "SheetLabellingSession", port: int, notice: str) -> None:
    try:
        server = PageServer(page, port)
    except OSError as error:
        raise UsageError(
            f"port {port} on {LOOPBACK_HOST} cannot be used: {error.strerror}; choose another with --port"
        ) from error
    with server:
        Thread(target=server.serve_forever, name="labelling-page", daemon=True).start()
        try:
            typer.echo(
                f"open {server.url}\n  {escape_control_characters(notice)}\n  Finish on the page takes them in; Ctrl-C stops and keeps them",
                err=True,
            )
            server.finished.wait()
        finally:
            server.shutdown()


class PageServer(ThreadingHTTPServer):
    """The server of one page, on loopback; `with` closes it."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, page: "SheetLabellingSession", port: int) -> None:
        super().__init__((LOOPBACK_HOST, port), _PageRequest)
        self.page = page
        self.token = secrets.token_urlsafe(24)
        self.hosts = {f"{host}:{self.server_port}" for host in (LOOPBACK_HOST, "localhost")}
        self.url = f"http://{LOOPBACK_HOST}:{self.server_port}/{self.token}/"
        self.finished = Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print an error in a request, unless it is a browser that went away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _PageRequest(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 30
    """Seconds after which a connection that sends nothing is closed."""

    def do_GET(self) -> None:
        name, query = self._find_page_name()
        if name == "":
            self._send(HTTPStatus.OK, self.server.page.render(), "text/html; charset=utf-8")
        elif name == "row":
            at = parse_qs(query).get("at", [""])[0]
            self._send_json(HTTPStatus.OK, self.server.page.show(int(at) if at.isdecimal() and len(at) < 10 else None))
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "open the address that the command printed")

    def do_POST(self) -> None:
        actions: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "decide": lambda body: self.server.page.decide(
                str(body.get("key")), body.get("answers", {}), bool(body.get("stays"))
            ),
            "undo": lambda _: self.server.page.undo(),
            "finish": lambda _: {"open": self.server.page.count_open()},
        }
        name, _ = self._find_page_name()
        origin, kind = self.headers.get("Origin", ""), self.headers.get("Content-Type", "")
        if name is None or name not in actions:
            self._refuse(HTTPStatus.NOT_FOUND, "open the address that the command printed")
        elif origin != f"http://{self.headers.get('Host')}" or kind.partition(";")[0] != "application/json":
            self._refuse(HTTPStatus.FORBIDDEN, "expected JSON from the page itself")
        elif (body := self._load_body()) is None:
            self._refuse(HTTPStatus.BAD_REQUEST, f"expected a JSON object of {_MAX_BODY_BYTES:,} bytes at most")
        else:
            try:
                self._send_json(HTTPStatus.OK, actions[name](body))
            except ValueError as error:
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            except OSError as error:
                self._refuse(HTTPStatus.INSUFFICIENT_STORAGE, f"not saved: {error.strerror}")
            else:
                if name == "finish":
                    self.server.finished.set()

    def _find_page_name(self) -> tuple[str | None, str]:
        """Return the name behind the token and the query; None where host or token are not ours."""
        address = urlsplit(self.path)
        token, slash, name = address.path.removeprefix("/").partition("/")
        is_ours = self.headers.get("Host") in self.server.hosts and slash
        return name if is_ours and secrets.compare_digest(
            token.encode(), self.server.token.encode()
        ) else None, address.query

    def _load_body(self) -> dict[str, Any] | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _MAX_BODY_BYTES:
            return None
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None
        is_whole = isinstance(body, dict) and isinstance(body.get("answers", {}), dict)
        return body if is_whole else None

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._send_json(status, {"error": message})

    def _send_json(self, status: HTTPStatus, value: dict[str, Any]) -> None:
        self._send(status, json.dumps(value), "application/json")

    def _send(self, status: HTTPStatus, text: str, kind: str) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log no request: each address holds the token."""
