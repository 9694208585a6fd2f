"""Test the labelling page: access, saving, and what it never shows."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.docs.read_page import ReadPage

from factmill.flows.labelling.journal import DecisionJournal, open_decision_journal
from factmill.flows.labelling.page import SheetLabellingSession
from factmill.flows.labelling.page_server import PageServer, collect_decisions_on_page
from factmill.tasks.core.review import make_review_item, make_review_sheet, parse_review_row
from factmill.tasks.core.sheets.sheet import Sheet, SheetLayout, SheetQuestion
from factmill.tasks.errors import OutputError, UsageError

LAYOUT = SheetLayout(
    columns=("item", "answer", "label", "note"),
    key="item",
    who="labeller",
    shown=("answer",),
    questions=(SheetQuestion("label", "Right?", {"1": "right", "0": "wrong"}), SheetQuestion("note", "Note")),
    instruction="Label it.",
)
SHEET = Sheet(
    LAYOUT, [{"item": f"q{at}", "answer": f"<script>{at}</script>\u202e", "label": "", "note": ""} for at in range(3)]
)


@dataclass
class Served:
    """A running page, and requests to it."""

    server: PageServer
    page: SheetLabellingSession
    journal: DecisionJournal

    def ask(self, name: str, body: Any = None, path: str = "", method: str = "", **headers: str) -> tuple[int, Any]:
        """Return status and JSON of a request as our page sends it.

        `headers` replace the page's headers (underscores for -).
        """
        host = f"127.0.0.1:{self.server.server_port}"
        own = {"Host": host} | (
            {"Origin": f"http://{host}", "Content-Type": "application/json"} if body is not None else {}
        )
        given = {key.replace("_", "-"): value for key, value in headers.items()}
        connection = HTTPConnection(host, timeout=20)
        data = body if isinstance(body, str | None) else json.dumps(body)
        sent = {key: value for key, value in (own | given).items() if value}
        connection.request(
            method or ("GET" if body is None else "POST"), path or f"/{self.server.token}/{name}", data, sent
        )
        reply = connection.getresponse()
        text = reply.read().decode()
        return reply.status, json.loads(text) if "json" in reply.headers["Content-Type"] else text

    def decide(self, key: str, **answers: Any) -> tuple[int, Any]:
        return self.ask("decide", {"key": key, "answers": answers})


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with open_decision_journal(tmp_path / "j" / "p.jsonl") as journal:
        page = SheetLabellingSession(SHEET, "Label <b>", "ada & co", journal)
        with PageServer(page, 0) as server:
            Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            yield Served(server, page, journal)
            server.shutdown()


def test_page_references_nothing_external_and_escapes_content(served: Served) -> None:
    status, html = served.ask("")
    read = ReadPage(html)
    assert status == 200 and read.tags.count("script") == 1 and read.handlers == []
    assert "b" not in read.tags and "Label &lt;b&gt;" in html and "ada &amp; co" in html
    assert [each for each in read.addresses if not each.startswith(("#", "data:"))] == []
    assert "default-src 'none'" in html and "connect-src 'self'" in html
    # texts reach the page as JSON, and its script inserts them as text
    assert served.ask("row")[1]["shown"] == [["answer", "<script>0</script>[U+202E]"]]


@pytest.mark.parametrize(
    ("name", "body", "headers", "status"),
    [
        ("row", None, {"Host": "evil.example"}, 404),
        ("", None, {"Host": "127.0.0.1"}, 404),
        ("decide", {}, {"Host": "evil.example", "Origin": "http://evil.example"}, 404),
        ("decide", {}, {"Origin": "http://evil.example"}, 403),
        ("decide", {}, {"Origin": ""}, 403),
        ("decide", {}, {"Origin": "null"}, 403),
        ("finish", {}, {"Origin": "https://evil.example"}, 403),
        ("decide", {}, {"Content_Type": "text/plain"}, 403),
        ("decide", {}, {"Content_Type": "application/x-www-form-urlencoded"}, 403),
        ("decide", "[]", {}, 400),
        ("decide", "{", {}, 400),
        ("decide", '{"key": "q0", "answers": [1]}', {}, 400),
        ("decide", "{}", {"Content_Length": "9999999999"}, 400),
        ("nothing", {}, {}, 404),
        ("nothing", None, {}, 404),
    ],
)
def test_requests_from_other_pages_and_hosts_are_rejected(
    served: Served, name: str, body: Any, headers: dict[str, str], status: int
) -> None:
    assert served.ask(name, body, **headers)[0] == status
    assert served.journal.answers == {} and not served.server.finished.is_set()


def test_request_without_token_gets_nothing(served: Served) -> None:
    for path in (
        "/",
        "/row",
        "/x/row",
        f"/{served.server.token}",
        f"/{served.server.token[:-1]}/",
        "//",
        "/%2e%2e/row",
    ):
        assert served.ask("", path=path)[0] == 404, path
    assert served.ask("", method="PUT", body={})[0] == 501


def test_decision_is_saved_before_response_and_leads_to_next_open_row(served: Served) -> None:
    status, found = served.decide("q0", label="1")
    assert (status, found["key"], found["done"], found["total"]) == (200, "q1", 1, 3)
    (line,) = served.journal.path.read_text("utf-8").splitlines()
    assert json.loads(line).items() >= {"row": "q0", "answers": {"label": "1"}}.items()
    assert served.decide("q2", label="0")[1]["key"] == "q1"
    assert served.decide("q2", label="1", note="é\ud800")[1]["key"] == "q2"  # a changed decision stays
    assert served.ask("undo", {})[1]["answers"] == {"label": "0"}
    assert served.decide("q1", note="unsure")[1]["key"] == "q1"
    assert [row.get("label") for row in served.page.list_decided_rows()] == ["1", "0"]
    assert served.page.count_open() == 1


@pytest.mark.parametrize(
    ("key", "answers", "said"),
    [
        ("q9", {"label": "1"}, "no row 'q9' on this page"),
        ("q0", {"label": "2"}, "label: expected one of 1, 0"),
        ("q0", {"label": 1}, "label: expected a text"),
        ("q0", {"note": "x" * 100_001}, "note: expected a text of 100,000 characters at most"),
    ],
)
def test_answers_not_allowed_by_sheet_are_not_saved(
    served: Served, key: str, answers: dict[str, Any], said: str
) -> None:
    status, found = served.decide(key, **answers)
    assert status == 400 and said in found["error"]
    assert served.journal.path.read_bytes() == b""


def test_failed_write_is_reported_as_not_saved(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    served.decide("q0", label="1")
    before = served.journal.path.read_bytes()
    monkeypatch.setattr("os.fsync", fail)
    status, found = served.decide("q1", label="1")
    assert (status, found) == (507, {"error": "not saved: No space left on device"})
    monkeypatch.undo()
    assert served.journal.path.read_bytes() == before and set(served.journal.answers) == {"q0"}


def test_all_decisions_can_be_undone(served: Served) -> None:
    assert served.ask("undo", {}) == (400, {"error": "there is nothing to undo"})
    served.decide("q0", label="1")
    served.decide("q0", label="0")
    assert [served.ask("undo", {})[1]["answers"] for _ in range(2)] == [{"label": "1"}, {}]
    assert served.ask("undo", {})[0] == 400


def test_journal_continues_after_crash_cut_off_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    with open_decision_journal(path) as journal:
        journal.record("q0", {"label": "1"})
        journal.record("q1", {"label": "0"})
        journal.undo()
        with (
            pytest.raises(UsageError, match="another page of the same person and rows is open"),
            open_decision_journal(path),
        ):
            pass
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"row": "q2", "answ')
    with open_decision_journal(path) as journal:
        assert journal.answers == {"q0": {"label": "1"}}
        assert path.read_bytes() == whole
        assert journal.undo() == "q0"
    path.write_bytes(b'{"row": 1}\n')
    with pytest.raises(UsageError, match=r"p\.jsonl, line 1: not a decision of the page"), open_decision_journal(path):
        pass


def test_page_requires_labeller_row_and_free_port(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTMILL_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="--serve needs --labeller NAME"):
        collect_decisions_on_page(SHEET, "n", "t", " ", 0)
    with pytest.raises(UsageError, match="there is no row to decide on: t"):
        collect_decisions_on_page(Sheet(LAYOUT, []), "n", "t", "ada", 0)
    with pytest.raises(UsageError, match=r"port \d+ on 127.0.0.1 cannot be used: .*; choose another with --port"):
        collect_decisions_on_page(SHEET, "n", "t", "ada", served.server.server_port)
    monkeypatch.setenv("FACTMILL_HOME", "/proc/nowhere")
    with pytest.raises(OutputError, match="cannot be written"):
        collect_decisions_on_page(SHEET, "n", "t", "ada", 0)


def test_edit_counts_as_decided_once_its_text_is_present(tmp_path: Path) -> None:
    item = make_review_item("slaq", "t-1", "wording", "unclear", "context")
    done = make_review_item("slaq", "t-2", "wording", "unclear", "context").model_copy(
        update={"decision": "drop", "reviewer": "policy auto"}
    )
    with open_decision_journal(tmp_path / "p.jsonl") as journal:
        check = partial(parse_review_row, file="the page")
        page = SheetLabellingSession(make_review_sheet([done, item]), "t", "ada", journal, check)
        assert (page.show()["key"], page.show()["done"]) == (item.id, 1)
        assert page.decide(item.id, {"decision": "edit"}, stays=False)["done"] == 1
        assert page.decide(item.id, {"decision": "keep", "edited": "a: b"}, stays=False)["answers"] == {
            "decision": "keep"
        }
        assert page.decide(item.id, {"decision": "edit", "edited": "a: b"}, stays=True)["done"] == 2
        with pytest.raises(
            ValueError, match="not saved: the page, row 2 of the page, line 1, column edited: 'a' does not have"
        ):
            page.decide(item.id, {"decision": "edit", "edited": "a"}, stays=True)
        # other people's earlier decisions are shown, and are not this person's
        assert [(row.get("id"), row.get("reviewer"), row.get("edited")) for row in page.list_decided_rows()] == [
            (item.id, "ada", "a: b")
        ]
