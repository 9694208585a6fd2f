"""The flow with models behind a real HTTP server that misbehaves: wrong formats, errors for a while, plain nonsense."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback
from scripted_chat import Message, ScriptedChat, write_chat_world

from tasks.assets import ROOT

QUESTIONS = {
    "Albert Einstein": "Ulm",
    "Marie Curie": "Warsaw",
    "Ada Lovelace": "London",
    "Ludwig van Beethoven": "Bonn",
    "Wolfgang Amadeus Mozart": "Salzburg",
}


class ChatServer:
    """Answers by the person in the question: in form, out of form once, out of form always, with errors, or No."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.broken = True
        self.web = ScriptedChat(self.answer)

    def answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        said = messages[-1]["content"] + messages[-2]["content"] if len(messages) > 1 else messages[-1]["content"]
        person = next(name for name in QUESTIONS if f"Where was {name} born?" in said)
        self.asked[person] += 1
        if "<description>" in said:
            return 200, "I am not sure. No" if person == "Ludwig van Beethoven" and QUESTIONS[person] not in said.split(
                "<name>"
            )[-1] else "Yes."
        levels = f"1:: {QUESTIONS[person]}\n2:: somewhere in Europe"
        if person == "Marie Curie" and len(messages) < 3:
            return 200, f"Here you are:\n{levels}"
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


def write_world(folder: Path, chat: ChatServer) -> Path:
    return write_chat_world(folder, chat.web.url, ("author", "judge"))


def test_every_way_a_model_can_fail_has_its_reason_and_a_later_run_mends_what_passed(
    factmill: Any, chat: ChatServer, tmp_path: Path
) -> None:
    source = tmp_path / "P19.people.json"
    source.write_text(
        json.dumps([{"question": f"Where was {name} born?", "answers": [place]} for name, place in QUESTIONS.items()])
    )
    arguments = [
        "build",
        "granola",
        "--world",
        write_world(tmp_path, chat),
        "--source",
        source,
        "--samples",
        "2",
        "--warehouse",
        tmp_path / "w.duckdb",
        "--json",
    ]

    refused = factmill(*arguments, TEST_KEY="")
    assert refused.code == 2
    assert "set the environment variable TEST_KEY" in refused.err

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
    for build in (report, second):
        assert factmill("verify", build["build_id"], "--warehouse", tmp_path / "w.duckdb").code == 0
    assert b"secret-key" not in (tmp_path / "w.duckdb").read_bytes()
    kept = factmill("show", "granola", "--rejects", "--warehouse", tmp_path / "w.duckdb", "--json").json["rejects"]
    assert any("London, of course!" in reject["detail"] for reject in kept)


def test_an_endpoint_that_answers_html_ends_the_build_with_a_named_error(factmill: Any, tmp_path: Path) -> None:
    html = Loopback()
    html.script({"text": "<html><body>Down for maintenance</body></html>"})
    world = tmp_path / "html.toml"
    text = (ROOT / "data" / "worlds" / "embedded.toml").read_text()
    address = f"{html.url}/sparql"
    world.write_text(text.replace('engine = "sparql"\nurl = "embedded"', f'engine = "sparql"\nurl = "{address}"'))
    source = tmp_path / "P19.people.json"
    source.write_text(json.dumps([{"question": "Where was Albert Einstein born?", "answers": ["Ulm"]}]))
    ran = factmill("build", "granola", "--world", world, "--source", source, "--warehouse", tmp_path / "w.duckdb")
    html.close()
    assert ran.code == 1
    assert "html_instead_of_json" in ran.err
    assert "run the same command again" in ran.err
    assert "Traceback" not in ran.err


def test_ctrl_c_breaks_off_a_slow_model_at_once(chat: ChatServer, session_home: Path, tmp_path: Path) -> None:
    chat.web.delay_s = 3600.0
    source = tmp_path / "P19.people.json"
    source.write_text(json.dumps([{"question": "Where was Albert Einstein born?", "answers": ["Ulm"]}]))
    env = {**os.environ, "FACTMILL_HOME": str(session_home), "PYTHONPATH": str(ROOT), "TEST_KEY": "x"}
    arguments = [
        "build",
        "granola",
        "--world",
        str(write_world(tmp_path, chat)),
        "--source",
        str(source),
        "--warehouse",
        str(tmp_path / "w.duckdb"),
    ]
    command = [sys.executable, "-c", "from flows.cli import main; main()", *arguments]
    process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    while not chat.asked:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()  # a build that waited for the model would run into the test's time-out
    assert process.returncode == 130
    assert "the same command goes on from here" in err
