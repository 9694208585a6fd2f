"""Test FanOutQA's evaluation end to end in the embedded world: models that search in every supported way."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from support.builds.measured import Measured
from support.commands.command import Factmill
from support.habits.server import HabitsServer, write_habit_world
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.models.tiny_encoder import make_head, make_weights, write_checkpoint

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.epochs import FANOUTQA_SNAPSHOT
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer
from factmill.tasks.models.converting.encoder import make_cross_encoder_folder
from factmill.tasks.models.cross_encoder import CrossEncoder
from factmill.tasks.models.model_folder import get_model_path, get_models_folder, remove_model
from factmill.tasks.storage.warehouse import open_warehouse

KEY = {"TEST_KEY": "secret-key-1"}
ROUNDS = 4
YOUNG = "Luxembourg City"
"""A page that did not exist at the epoch; Luxembourg did."""


@dataclass(frozen=True)
class MeasuredFanOut(Measured):
    """A build of some questions, with their facts."""

    def golds(self) -> dict[str, str]:
        """Map question ids to gold answers as text."""
        rows = self.read("fanoutqa_dev", self.build_id) + self.read("fanoutqa_test_answers", self.build_id)
        texts = {row["id"]: row["question"] for row in self.read("fanoutqa", self.build_id)}
        return {
            texts[row["id"]]: format_gold_answer(json.loads(row["answer"]))
            for row in sorted(rows, key=lambda row: row["id"])
        }

    def calls(self) -> list[tuple[str, dict[str, Any], Any]]:
        """Return (operation, parts, body) of all cached calls."""
        from factmill.tasks.storage.recording.call_records import decompress_body

        with open_warehouse(self.warehouse) as db:
            found = db.execute("SELECT operation, parts, body FROM calls").fetchall()
        return [(each, json.loads(parts), json.loads(decompress_body(body))) for each, parts, body in found]


@pytest.fixture(scope="module")
def measure(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> MeasuredFanOut:
    warehouse = tmp_path_factory.mktemp("fanoutqa") / "w.duckdb"
    source = ASSETS_ROOT / "data/world/sources/fanoutqa/places.json"
    built = factmill("build", "fanoutqa", "--source", source, "--warehouse", warehouse, "--json")
    assert built.code == 0, built.err
    return MeasuredFanOut(factmill, "fanoutqa", warehouse, built.json["build_id"])


Turn = Callable[[int, str], str | Sequence[tuple[str, str]]]
"""Maps a turn, from 0, and the gold answer to a text, or to (tool, arguments) of calls."""


def look_for(*titles: str) -> list[tuple[str, str]]:
    return [("search", json.dumps({"title": title})) for title in titles]


MANNERS: dict[str, Turn] = {
    "rightly": lambda turn, gold: look_for(("Berlin", "Red Planet")[turn]) if turn < 2 else gold,
    "wrongly": lambda turn, _: look_for("Potlatch") if turn == 0 else "Nobody knows.",
    "endlessly": lambda turn, _: look_for(("Berlin", "Paris")[turn % 2]),
    "missing article": lambda turn, gold: look_for("Berlin city nowhere", "Zzyzx") if turn == 0 else gold,
    "article newer than the epoch": lambda turn, gold: look_for(YOUNG, "Saturn") if turn == 0 else gold,
    "with broken arguments": lambda turn, gold: [("search", '{"title": "Ber'), ("find", "{}")] if turn == 0 else gold,
    "two at once": lambda turn, gold: look_for("Berlin", "Saturn") if turn == 0 else gold,
    "not at all": lambda _turn, gold: gold,
}


class Models:
    """A model that searches in one manner per question.

    It uses tools or, where the server rejects them, lines of text.
    """

    def __init__(self, golds: dict[str, str]) -> None:
        self.golds = golds
        self.manners = dict(zip(golds, MANNERS.items(), strict=False))
        """Maps a question to its manner."""
        self.asked: Counter[str] = Counter()
        """Maps a request's messages, as JSON, to the number of such requests."""
        self.shown: list[str] = []
        """All texts shown to the model."""
        self.silent_at: str = ""
        """Manner whose second turn gets no response."""
        self.chat = ScriptedChat(self._answer)

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str | dict[str, Any]]:
        self.asked[json.dumps(messages)] += 1
        first, question = next(
            (at, each)
            for at, message in enumerate(messages)
            for each in self.golds
            if str(message["content"]).endswith(f"Question: {each}")
        )
        self.shown += [str(each["content"]) for each in messages[first + 1 :] if each["role"] in ("tool", "user")]
        turn = sum(each["role"] == "assistant" for each in messages[first + 1 :])
        name, manner = self.manners.get(question, ("not at all", MANNERS["not at all"]))
        if turn and name == self.silent_at:
            self.chat.free.clear()
        said = manner(turn, self.golds[question])
        if isinstance(said, str):
            return 200, said
        if "SEARCH: title of the article" in messages[0]["content"]:
            return 200, "\n".join(f"SEARCH: {read_title(arguments)}" for _, arguments in said)
        calls = [{"id": f"c{turn}{at}", "type": "function", "function": {"name": tool, "arguments": arguments}} for at, (tool, arguments) in enumerate(said)]  # fmt: skip
        return 200, {"content": None, "tool_calls": calls}


def read_title(arguments: str) -> str:
    return re.sub(r'.*"title": "|"?}$', "", arguments) or "{}"


@pytest.fixture
def models(measure: MeasuredFanOut) -> Iterator[Models]:
    models = Models(measure.golds())
    assert len(models.manners) == len(MANNERS), "too few questions for all manners"
    yield models
    models.chat.close()


def find_rows(measure: MeasuredFanOut, models: Models, expected: Any) -> dict[str, dict[str, Any]]:
    """Map each manner to the open-book row of its question."""
    rows = {row["question"]: row for row in measure.read("fanoutqa_answers", expected["evaluation_id"])}
    return {name: rows[question] for question, (name, _) in models.manners.items()}


def check_nothing_is_newer(measure: MeasuredFanOut, models: Models, rows: Sequence[dict[str, Any]]) -> None:
    """Check by revision dates and by text that nothing shown is newer than the build's epoch."""
    dated = [(parts, body) for operation, parts, body in measure.calls() if operation == "page_revision_at"]
    old = {
        body["revid"]
        for parts, body in dated
        if parts["at"] == FANOUTQA_SNAPSHOT and body["revid"] and body["timestamp"] <= FANOUTQA_SNAPSHOT
    }
    there = {parts["title"] for parts, body in dated if body["revid"] and body["timestamp"] <= FANOUTQA_SNAPSHOT}
    searches = [search for row in rows for search in row["searches"]]
    shown = [int(re.findall(r", (\d+) #", each)[-1]) for row in rows for each in row["context"]]
    assert shown
    assert {*shown, *(each["revid"] for each in searches if each["revid"])} <= old
    offered = {title for each in searches for title in each["similar"]}
    assert "Luxembourg" in offered
    assert offered <= there
    assert YOUNG not in offered
    assert (newer := list_newer_lines())
    texts = "\n".join(models.shown)
    assert not [line for line in newer if line in texts]


def list_newer_lines() -> list[str]:
    """Return text pieces, without markup, that the requested pages gained after the build's epoch."""
    from factmill.tasks.world.data import WORLD_FOLDER
    from factmill.tasks.world.files import load_world_data

    found: list[str] = []
    for article in load_world_data(WORLD_FOLDER).articles.values():
        if article.title in ("Berlin", "Paris", "Saturn", YOUNG):
            before = "\n".join(each.text for each in article.revisions if each.at <= FANOUTQA_SNAPSHOT)
            newer = (each.text for each in article.revisions if each.at > FANOUTQA_SNAPSHOT)
            pieces = (piece.strip() for text in newer for piece in re.split(r"[\[\]{}'<>=|\n]+|\. ", text))
            found += [piece for piece in pieces if len(piece) > 30 and re.search(r"\d", piece) and piece not in before]
    return found


@pytest.mark.parametrize("takes_tools", [True, False], ids=["by tools", "in plain text"])
def test_searching_models_respect_limits_and_see_no_newer_revision(
    measure: MeasuredFanOut, models: Models, tmp_path: Path, takes_tools: bool
) -> None:
    models.chat.takes_tools = takes_tools
    world = write_chat_world(tmp_path, models.chat.url, ["answerer"], "with-tools" if takes_tools else "without")
    options = ("--world", world, "--setting", "open_book", "--rounds", str(ROUNDS), "--context-tokens", "4096")
    result = measure(*options, **KEY)
    rows = find_rows(measure, models, result)

    assert set(models.asked.values()) == {1}, "no request is sent to a model twice"
    right = {name for name, row in rows.items() if row["loose"] == 1}
    assert right == MANNERS.keys() - {"wrongly", "endlessly"}
    assert [(each["title"], each["reason"]) for each in rows["rightly"]["searches"]] == [
        ("Berlin", ""),
        ("Red Planet", ""),
    ]
    assert rows["rightly"]["searches"][1]["chunks"] > 0
    assert (rows["not at all"]["searches"], rows["not at all"]["rounds"]) == ([], 0)
    assert (rows["wrongly"]["loose"], rows["wrongly"]["unscored"]) == (0, "")

    endless = rows["endlessly"]
    assert (endless["unscored"], endless["answer_read"]) == ("no_answer", "")
    assert endless["stopped"] in ("rounds", "room")
    assert 1 <= endless["rounds"] <= ROUNDS
    assert endless["loose"] == 0
    assert max(len(json.dumps(json.loads(each), ensure_ascii=False)) for each in models.asked) < 4096 * 4 + 3000

    missing, young = rows["missing article"]["searches"], rows["article newer than the epoch"]["searches"]
    assert [each["reason"] for each in missing] == ["evidence_missing"] * 2
    assert [each["reason"] for each in young] == ["younger_than_epoch", ""]
    assert "Luxembourg" in young[0]["similar"]
    broken = rows["with broken arguments"]["searches"]
    assert {each["chunks"] for each in broken} == {0}
    assert [each["title"] for each in rows["two at once"]["searches"]] == ["Berlin", "Saturn"]
    assert rows["two at once"]["rounds"] == 1
    check_nothing_is_newer(measure, models, list(rows.values()))

    asked = models.asked.total()
    measure.verify(result, **KEY)
    again = measure(*options, "--force", **KEY)
    assert (again["calls_sent"], models.asked.total()) == (0, asked)
    assert again["metrics"] == result["metrics"]
    if not takes_tools:
        assert models.chat.with_tools <= 4, "parallel requests are rejected, and the client learns from it"
        assert any("tools = false" in note for note in result["notes"])

    ran = measure.factmill(
        "explain", "fanoutqa_evaluation", rows["article newer than the epoch"]["id"], "--build", result["evaluation_id"],
        "--warehouse", measure.warehouse,
    )  # fmt: skip
    assert f"search 1    {YOUNG} → nothing (younger_than_epoch" in ran.out


def test_evaluation_killed_during_dialogues_resumes_without_repeated_requests(
    measure: MeasuredFanOut, models: Models, tmp_path: Path
) -> None:
    world = write_chat_world(tmp_path, models.chat.url, ["answerer"], "killed")
    options = ("--world", world, "--setting", "open_book", "--rounds", str(ROUNDS))
    models.silent_at = "two at once"
    measure.start_and_kill(lambda: not models.chat.free.is_set(), *options, **KEY)
    models.silent_at = ""
    models.chat.free.set()
    before = Counter(models.asked)
    assert before
    ended = measure(*options, **KEY)
    # turns answered in the first round are not sent again; turns in flight in the second may be
    twice = {json.loads(each)[-1]["role"] for each, times in models.asked.items() if times > 1}
    assert "user" not in twice
    measure.verify(ended, **KEY)


def test_evidence_setting_shows_what_fits_and_closed_book_shows_nothing(
    measure: MeasuredFanOut, models: Models, tmp_path: Path
) -> None:
    world = write_chat_world(tmp_path, models.chat.url, ["answerer"], "reader")
    result = measure(
        "--world", world, "--setting", "evidence_provided", "--setting", "closed_book", "--context-tokens", "2500", **KEY
    )  # fmt: skip
    rows = measure.read("fanoutqa_answers", result["evaluation_id"])
    by_setting = {
        name: [row for row in rows if row["setting"] == name] for name in ("evidence_provided", "closed_book")
    }
    assert not any(row["context"] for row in by_setting["closed_book"])
    for row in by_setting["evidence_provided"]:
        needed = {each["revid"] for each in row["evidence"]}
        assert {int(re.findall(r", (\d+) #", each)[-1]) for each in row["context"]} <= needed
        assert row["context"]
    assert max(len(json.loads(each)[0]["content"]) for each in models.asked) < 2500 * 4 - 1024 * 4


def test_built_in_models_score_extremes_of_each_metric_and_send_no_request(measure: MeasuredFanOut) -> None:
    values = {
        model: {
            (each["setting"], each["metric"]): each["value"]
            for each in measure("--model", model, "--setting", "open_book")["metrics"]
            if not each["group_by"]
        }
        for model in ("oracle", "guesser", "silent")
    }
    # a one-word answer has no pair of words
    of_pairs = mean([len(re.findall(r"[a-z0-9]+", gold.lower())) > 1 for gold in measure.golds().values()])
    assert {metric: value for (_, metric), value in values["oracle"].items() if "upstream" not in metric} == {
        "loose": 1, "strict": 1, "rouge1": 1, "rouge2": pytest.approx(of_pairs), "rougeL": 1, "judged": 1
    }  # fmt: skip
    # the public scorer's loss on nested answers does not fall below zero
    assert {value for (_, metric), value in values["silent"].items() if "upstream" not in metric} == {0}
    assert values["guesser"]["open_book", "strict"] < 0.3


def test_invalid_options_are_reported(measure: MeasuredFanOut) -> None:
    def fail(*options: str) -> str:
        ran = measure.factmill("evaluate", "fanoutqa", "--model", "oracle", *options, "--warehouse", measure.warehouse)
        assert ran.code == 2
        return ran.err

    assert "--lemmas xx_nothing" in fail("--lemmas", "xx_nothing")
    assert "--rounds" in fail("--rounds", "0")
    assert "closed_book" in fail("--setting", "open")


@pytest.mark.parametrize(
    ("name", "labels", "more"),
    [
        ("tiny-size", ["LABEL_0"], {"problem_type": "regression"}),
        ("tiny-share", ["LABEL_0"], {}),
        ("tiny-labels", ["contradiction", "neutral", "entailment"], {}),
    ],
)
def test_cross_encoder_with_one_score_or_labels_replaces_bleurt(
    measure: MeasuredFanOut, tmp_path: Path, name: str, labels: list[str], more: dict[str, Any]
) -> None:
    folder = get_models_folder(measure.factmill.home)
    weights = make_weights(prefix="bert.") | make_head(len(labels))
    make_cross_encoder_folder(
        write_checkpoint(tmp_path / name, weights, id2label=dict(enumerate(labels)), **more), folder
    )
    try:
        result = measure("--model", "oracle", "--bleurt", name)
        rows = measure.read("fanoutqa_answers", result["evaluation_id"])
        pairs = [(row["question"], row["answer_read"], row["answer_read"], row["bleurt_like"]) for row in rows]
        encoder = CrossEncoder(get_model_path(name, folder))
        scores = encoder.score([(gold, answer) for _, gold, answer, _ in pairs])[:, labels.index(labels[-1])]
        assert [score for *_, score in pairs] == np.round(scores, 2).tolist()
    finally:
        remove_model(name, folder)


def test_report_notes_unreachable_metrics_and_leaves_out_unset_parameters(
    measure: MeasuredFanOut, tmp_path: Path
) -> None:
    result = measure("--model", "oracle", "--lemmas", "rules", "--reports", tmp_path)
    notes = "\n".join(result["notes"])
    assert "ROUGE-2 counts pairs of words" in notes and "spaCy's en_core_web_sm" in notes
    (report,) = tmp_path.glob("*.md")
    text = report.read_text("utf-8").casefold()
    assert "rouge-2 counts pairs of words" in text
    (params,) = (line for line in text.splitlines() if line.startswith("- parameters: "))
    assert "scorer fixed" in params and "bleurt" not in params


@pytest.mark.parametrize(
    "habit",
    ["well-formed", "refuses tools", "strict roles", "reasoning model", "thinking aloud", "bold", "storms of 429"],
)
def test_models_of_every_reply_style_search_and_answer(
    measure: MeasuredFanOut, session_home: Path, tmp_path: Path, habit: str
) -> None:
    server = HabitsServer()
    world = write_habit_world(tmp_path, server, habit, ["answerer"])
    result = measure("--world", world, "--setting", "open_book", "--limit", "3")
    server.close()
    assert server.faults == 0
    for row in measure.read("fanoutqa_answers", result["evaluation_id"]):
        assert [(each["title"], each["reason"]) for each in row["searches"]] == [("Berlin", "")]
        assert "Blue" in row["answer_read"]
        assert row["unscored"] == ""
