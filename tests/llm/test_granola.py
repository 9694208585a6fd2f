"""Test `factmill build granola` with a model that writes nonsense: every row becomes a reject with its completion."""

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.graphs.rdf_lines import spell_out

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.llm

BORN = {
    ("Ada Lovelace", "Q1", "English mathematician"): ("London", "Q101", "capital of the United Kingdom"),
    ("Emmy Noether", "Q2", "German mathematician"): ("Erlangen", "Q102", "city in Bavaria, Germany"),
    ("Niels Abel", "Q3", "Norwegian mathematician"): ("Finnøy", "Q103", "island in Rogaland, Norway"),
    ("Sofya Kovalevskaya", "Q4", "Russian mathematician"): ("Moscow", "Q104", "capital of Russia"),
    ("Alan Turing", "Q5", "English computer scientist"): ("London", "Q101", "capital of the United Kingdom"),
    ("Évariste Galois", "Q6", "French mathematician"): ("Bourg-la-Reine", "Q106", "commune in Hauts-de-Seine, France"),
}
SCRIPTED = 'kind = "scripted"\n'


@dataclass(frozen=True)
class Workplace:
    """A home with a graph, a source file and two worlds, and the command."""

    folder: Path
    key: str

    def run(self, *arguments: str | Path, code: int = 0) -> Any:
        """Run `factmill` in its own process, check the exit code, and return the printed JSON."""
        env = {**os.environ, "FACTMILL_HOME": str(self.folder / "home"), "PYTHONPATH": str(ROOT), "TINY_KEY": self.key}
        command = [
            sys.executable,
            "-c",
            "from factmill.flows.cli.main import main; main()",
            *map(str, arguments),
            "--json",
        ]
        done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=ROOT, timeout=240, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])

    def build(self, world: str, *more: str) -> Any:
        """Build with a model that loses all rows."""
        source, path = self.folder / "P19.six.json", self.folder / f"{world}.toml"
        given = ["--world", path, "--graph", "six", "--source", source, "--limit", "6", "--samples", "3"]
        return self.run("build", "granola", *given, "--warehouse", self.warehouse(world), *more, code=1)

    def rejects(self, build_id: str) -> Any:
        """Return the rejects of the build of the world `nonsense`."""
        given = ("--rejects", "--build", build_id, "--warehouse", self.warehouse("nonsense"))
        return self.run("show", "granola", *given)["rejects"]

    def warehouse(self, world: str) -> Path:
        return self.folder / f"{world}.duckdb"


@pytest.fixture(scope="module")
def workplace(chat_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    folder = tmp_path_factory.mktemp("workplace")
    model = (
        f'kind = "openai"\nname = "tiny"\nurl = "{chat_server.url}"\nkey_env = "TINY_KEY"\nlimits = {{parallel = 2}}\n'
    )
    (folder / "nonsense.toml").write_text(write_world("nonsense", author=model, judge=model))
    (folder / "nonsense_judge.toml").write_text(write_world("nonsense judge", author=SCRIPTED, judge=model))
    rows = [{"question": f"Where was {who[0]} born?", "answers": [where[0]]} for who, where in BORN.items()]
    (folder / "P19.six.json").write_text(json.dumps(rows))
    (folder / "six.nt").write_text(spell_out("\n".join(list_triples())), "utf-8")
    made = Workplace(folder, chat_server.key)
    made.run("graph", "load", folder / "six.nt", "--name", "six")
    return made


def write_world(name: str, author: str, judge: str) -> str:
    """Return a world without web services: a build may use only the graph and the models."""
    lines = [f'name = "{name}"', 'user_agent = "factmill-tests"', "epoch = 2026-01-01"]
    lines += [
        f'[{service}]\nurl = "http://127.0.0.1:9"' for service in ("wikidata", "wikipedia", "pageviews", "falcon")
    ]
    return "\n".join([*lines, "[models.author]", author, "[models.judge]", judge])


def list_triples() -> list[str]:
    triples = set()
    for (who, person, what), (where, place, kind) in BORN.items():
        triples |= {f'wd:{person} rdfs:label "{who}"@en', f'wd:{person} schema:description "{what}"@en'}
        triples |= {f'wd:{place} rdfs:label "{where}"@en', f'wd:{place} schema:description "{kind}"@en'}
        triples |= {f"wd:{person} wdt:P31 wd:Q1000", f"wd:{person} wdt:P19 wd:{place}"}
    return sorted(triples)


def recorded_chats(warehouse: Path) -> list[dict[str, Any]]:
    """Return the warehouse's records of chat calls."""
    with duckdb.connect(str(warehouse), read_only=True) as db:
        rows = db.execute(
            "SELECT status, body, tokens_in, tokens_out, latency_s, parts FROM calls WHERE operation = 'chat'"
        )
        names = [column[0] for column in rows.description]
        found = [dict(zip(names, row, strict=True)) for row in rows.fetchall()]
    return [{**row, "texts": json.loads(row["body"])["texts"], "parts": json.loads(row["parts"])} for row in found]


def check_balance(report: Any) -> None:
    assert report["inputs"] == 6 == report["rows"] + report["rejects"] + report["merged"]
    for stage in report["stages"]:
        assert stage["rows_in"] == stage["rows_out"] + stage["rejects"] + stage["merged"], stage
        assert sum(report["reasons"].get(stage["stage"], {}).values()) == stage["rejects"]


@pytest.fixture(scope="module")
def nonsense(workplace: Workplace, chat_server: Any) -> Any:
    """Build with author and judge at the server; return the report and the number of requests."""
    asked = chat_server.count_asked()
    report = workplace.build("nonsense")
    return report, chat_server.count_asked() - asked


def test_unreadable_author_reply_is_retried_once_and_then_rejected(workplace: Workplace, nonsense: Any) -> None:
    report, requests = nonsense
    check_balance(report)
    assert report["reasons"] == {"generate_granular_answers": {"cut_off": 6}}
    assert (report["author"], report["rows"], report["unsettled"]) == ("tiny", 0, 0)
    assert report["calls_sent"] == requests == 12
    chats = recorded_chats(workplace.warehouse("nonsense"))
    assert Counter(bool(chat["parts"]["correction"]) for chat in chats) == {False: 6, True: 6}
    assert {chat["status"] for chat in chats} == {"ok"}
    assert report["tokens_in"] == sum(chat["tokens_in"] for chat in chats) > 12 * 1000
    assert report["tokens_out"] == sum(chat["tokens_out"] for chat in chats) == 12 * 400
    assert all(chat["latency_s"] > 0 for chat in chats)


def test_reject_includes_unreadable_reply(workplace: Workplace, nonsense: Any) -> None:
    rejects = workplace.rejects(nonsense[0]["build_id"])
    chats = recorded_chats(workplace.warehouse("nonsense"))
    seconds = [chat["texts"][0].strip() for chat in chats if chat["parts"]["correction"]]
    assert len(rejects) == 6
    for reject in rejects:
        reason, _, reply = reject["detail"].partition("; the reply was: ")
        assert reason == "the token limit ended the reply before it was whole"
        assert reply in seconds


def test_rejected_row_traces_back_to_both_calls(workplace: Workplace, nonsense: Any) -> None:
    build_id = nonsense[0]["build_id"]
    reject = workplace.rejects(build_id)[0]
    given = ("--build", build_id, "--warehouse", workplace.warehouse("nonsense"))
    trace = workplace.run("explain", "granola", reject["id"], *given)
    assert [call["operation"] for call in trace["calls"]].count("chat") == 2


def test_build_that_lost_all_rows_to_model_sends_requests_again(
    workplace: Workplace, nonsense: Any, chat_server: Any
) -> None:
    asked = chat_server.count_asked()
    again = workplace.build("nonsense")
    assert (again["calls_sent"], again["reasons"]) == (12, nonsense[0]["reasons"])
    assert chat_server.count_asked() == asked + 12


def test_unreadable_judge_reply_leaves_no_score_and_rejects_row(workplace: Workplace, chat_server: Any) -> None:
    asked = chat_server.count_asked()
    report = workplace.build("nonsense_judge")
    check_balance(report)
    assert report["reasons"] == {"score_description_consistency": {"cut_off": 6}}
    assert report["author"] == "scripted replies"
    by_tiny = [
        chat for chat in recorded_chats(workplace.warehouse("nonsense_judge")) if chat["parts"]["model"] == "tiny"
    ]
    assert len(by_tiny) == 6 * 2 * 2, "two descriptions per row, each sent twice"
    assert [len(chat["texts"]) for chat in by_tiny] == [3] * 24
    assert chat_server.count_asked() - asked == 24 * 3
