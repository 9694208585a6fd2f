"""Test the flow with models behind a misbehaving HTTP server: wrong formats, transient errors, nonsense."""

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.commands.command import Factmill
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.webs.loopback import Loopback

from factmill.tasks.storage.warehouse import open_warehouse

QUESTIONS = {
    "Albert Einstein": "Ulm",
    "Marie Curie": "Warsaw",
    "Ada Lovelace": "London",
    "Gustave Eiffel": "Marseille",
    "Wolfgang Amadeus Mozart": "Salzburg",
}
"""The graph lacks Eiffel's birthplace; a judge's verdict drops no row whose fact the graph has."""


class ChatServer:
    """A server whose reply depends on the person in the question.

    Replies are well formed, wrapped, malformed once or always, errors, or No.
    """

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.asked_first: Counter[str] = Counter()
        """Requests, without corrections and prompts about descriptions."""
        self.broken = True
        self.thinks_of_corrections = False
        """If true, the server stops responding at the first correction."""
        self.web = ScriptedChat(self.answer)

    def answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        said = "".join(message["content"] for message in messages[-3:])
        is_again = not messages[-1]["content"].startswith("<question>")
        person = next(name for name in QUESTIONS if f"Where was {name} born?" in said)
        self.asked[person] += 1
        if "<description>" in said:
            return 200, "I am not sure. No" if person == "Gustave Eiffel" and QUESTIONS[person] not in said.split(
                "<name>"
            )[-1] else "Yes."
        if not is_again:
            self.asked_first[person] += 1
        elif self.thinks_of_corrections:
            self.web.free.clear()
        levels = f"1:: {QUESTIONS[person]}\n2:: somewhere in Europe"
        if person == "Marie Curie" and not is_again:
            return 200, f"It is {QUESTIONS[person]}, surely."
        if person == "Albert Einstein":
            return 200, f"<think>1:: Rome?</think>Here you are:\n```\n{levels} (less specific)\n```\nI hope this helps!"
        if person == "Ada Lovelace":
            return 200, "London, of course!"
        if person == "Wolfgang Amadeus Mozart" and self.broken:
            return 503, "overloaded"
        return 200, levels


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.web.close()


def write_source(folder: Path) -> Path:
    """Write the questions as a GRANOLA-EQ source."""
    source = folder / "P19.people.json"
    source.write_text(
        json.dumps([{"question": f"Where was {name} born?", "answers": [place]} for name, place in QUESTIONS.items()])
    )
    return source


def write_world(folder: Path, chat: ChatServer) -> Path:
    return write_chat_world(folder, chat.web.url, ("author", "judge"))


def test_every_model_failure_has_reason_and_later_run_retries_it(
    factmill: Factmill, chat: ChatServer, tmp_path: Path
) -> None:
    arguments = [
        "build",
        "granola",
        "--world",
        write_world(tmp_path, chat),
        "--source",
        write_source(tmp_path),
        "--samples",
        "2",
        "--warehouse",
        tmp_path / "w.duckdb",
        "--json",
    ]

    refused = factmill(*arguments, TEST_KEY="")
    assert refused.code == 2
    assert "the environment variable TEST_KEY (key_env) is not set" in refused.err

    first = factmill(*arguments, TEST_KEY="secret-key-1")
    assert first.code == 0, first.err
    report = first.json
    assert report["author"] == "tester"
    assert report["reasons"]["generate_granular_answers"] == {"model_failed": 1, "reply_not_in_format": 1}
    assert report["reasons"]["score_description_consistency"] == {"question_description_inconsistent": 1}
    assert (report["inputs"], report["rows"], report["unsettled"]) == (5, 2, 1)
    assert report["cost_usd"] > 0
    assert chat.asked["Ada Lovelace"] == 2

    chat.broken = False
    before = chat.asked.total()
    second = factmill(*arguments, TEST_KEY="secret-key-2").json
    assert (second["rows"], second["unsettled"]) == (3, 0)
    assert second["build_id"] != report["build_id"]
    assert chat.asked.total() - before == 1 + 2 * 2

    third = factmill(*arguments, TEST_KEY="secret-key-3").json
    assert (third["calls_sent"], third["tables"]) == (0, second["tables"])
    assert factmill("verify", report["build_id"], "--warehouse", tmp_path / "w.duckdb").code == 0
    # hash seeds other than the build's
    assert factmill.run_process("verify", second["build_id"], "--warehouse", tmp_path / "w.duckdb").code == 0
    assert b"secret-key" not in (tmp_path / "w.duckdb").read_bytes()
    kept = factmill("show", "granola", "--rejects", "--warehouse", tmp_path / "w.duckdb", "--json").json["rejects"]
    assert any("London, of course!" in reject["detail"] for reject in kept)


def test_blocked_prompt_rejects_one_row(factmill: Factmill, chat: ChatServer, tmp_path: Path) -> None:
    chat.broken = False
    arguments = ["--world", write_world(tmp_path, chat), "--source", write_source(tmp_path), "--json"]
    build = ("build", "granola", *arguments, "--warehouse", tmp_path / "w.duckdb")
    flagged = {"code": 403, "message": "flagged", "metadata": {"reasons": ["x"], "flagged_input": "Where"}}
    answer = {"status": 403, "json": {"error": flagged}}
    served = chat.web.web.handle
    chat.web.web.handle = lambda seen: (
        answer if b"Eiffel" in seen.body and b"<description>" not in seen.body else served(seen)
    )
    report = factmill(*build, TEST_KEY="x").json
    assert report["reasons"]["generate_granular_answers"] == {"refused": 1, "reply_not_in_format": 1}
    assert report["unsettled"] == 0
    assert chat.asked["Gustave Eiffel"] == 0
    again = factmill(*build, "--force", TEST_KEY="x").json
    assert (again["calls_sent"], again["tables"]) == (0, report["tables"])


def test_endpoint_returning_html_ends_build_with_named_error(
    factmill: Factmill, chat: ChatServer, tmp_path: Path
) -> None:
    html = Loopback()
    html.script({"text": "<html><body>Down for maintenance</body></html>"})
    world = write_world(tmp_path, chat)
    text = world.read_text("utf-8")
    address = f"{html.url}/sparql"
    world.write_text(text.replace('engine = "sparql"\nurl = "embedded"', f'engine = "sparql"\nurl = "{address}"'))
    source = tmp_path / "P19.people.json"
    source.write_text(json.dumps([{"question": "Where was Albert Einstein born?", "answers": ["Ulm"]}]))
    ran = factmill(
        "build", "granola", "--world", world, "--source", source, "--warehouse", tmp_path / "w.duckdb", TEST_KEY="x"
    )
    html.close()
    assert ran.code == 1
    assert "html_instead_of_json" in ran.err
    assert "run the same command again" in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=["kill -9", "Ctrl-C", "SIGTERM"])
def test_build_stopped_during_model_call_resumes_without_repeated_requests(
    factmill: Factmill, factmill_on_prefect: Factmill, chat: ChatServer, tmp_path: Path, how: signal.Signals
) -> None:
    chat.broken, chat.thinks_of_corrections = False, True
    build = ("build", "granola", "--world", write_world(tmp_path, chat), "--source", write_source(tmp_path), "--json")
    stopped = tmp_path / "stopped.duckdb"
    process = factmill.start(*build, "--warehouse", stopped, TEST_KEY="x")
    try:
        # replies are read together: the corrected ones have arrived, and so have all others
        while chat.web.free.is_set():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(how)
        # the model is still silent: a process that waited for it would never end
        _, err = process.communicate()
    finally:
        process.kill()
    if how is not signal.SIGKILL:
        assert process.returncode == 128 + how, err
        assert "run the same command again to continue" in err
    chat.thinks_of_corrections = False
    chat.web.free.set()

    again = factmill_on_prefect(*build, "--warehouse", stopped, TEST_KEY="x").json
    assert set(chat.asked_first.values()) == {1}
    sent = {stage["stage"]: stage["calls_sent"] for stage in again["stages"]}
    assert (sent["link_question_entities"], sent["describe_entities"], sent["measure_popularity"]) == (0, 0, 0)
    whole = factmill(*build, "--warehouse", tmp_path / "whole.duckdb", TEST_KEY="x").json
    assert again["tables"] == whole["tables"]
    assert 0 < again["calls_sent"] < whole["calls_sent"]
    with open_warehouse(stopped) as db:
        assert db.execute("SELECT count(*) - count(DISTINCT key) FROM calls").fetchone() == (0,)
