"""Test evaluations of models with known error rates: each interval contains the planted rate.

A planted model is the oracle with some answers corrupted, drawn by seed; the expected figures follow from the rates
alone.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands.command import Factmill

from factmill.tasks.engine.naming.identities import embedder_name
from factmill.tasks.models.embedders import open_shared_embedder
from factmill.tasks.settings import load_world
from factmill.tasks.storage.builds import load_published_table
from factmill.tasks.storage.warehouse import open_warehouse

Evaluate = Callable[..., dict[tuple[str, ...], dict[str, Any]]]
Rows = list[dict[str, Any]]


@pytest.fixture
def evaluate(factmill: Factmill, embedded_builds: dict[str, Any], tmp_path: Path) -> Evaluate:
    """Score a file of answers in a copy of the warehouse; return metrics by setting, name and group."""

    def run(benchmark: str, answers: list[dict[str, str]], *options: str) -> dict[tuple[str, ...], dict[str, Any]]:
        path = tmp_path / "planted.jsonl"
        path.write_text("\n".join(map(json.dumps, answers)), "utf-8")
        place = ("--build", embedded_builds[benchmark]["build_id"], "--reports", tmp_path / "reports")
        result = factmill.get_json("evaluate", benchmark, "--answers", path, *options, *place)
        return {
            tuple(filter(None, (each["setting"], each["metric"], each["group_by"], each["group"]))): each
            for each in result["metrics"]
        }

    return run


def _read(factmill: Factmill, build: dict[str, Any], table: str) -> Rows:
    with open_warehouse(factmill.home / "factmill.duckdb") as db:
        rows: Rows = load_published_table(db, build["build_id"], table).to_pylist()
    return rows


def _holds(metric: dict[str, Any], planted: float) -> bool:
    """Return whether a metric's interval contains a figure, to its last digit."""
    return bool(metric["ci_low"] - 1e-4 <= planted <= metric["ci_high"] + 1e-4)


def test_granola_detects_coarse_idk_and_wrong_answers(
    factmill: Factmill, embedded_builds: dict[str, Any], evaluate: Evaluate
) -> None:
    """20 % one level too coarse, 10 % IDK, 5 % wrong."""
    rows = _read(factmill, embedded_builds["granola"], "granola_eq")
    drawn = np.random.default_rng(4).choice(["right", "coarse", "idk", "wrong"], len(rows), p=[0.65, 0.2, 0.1, 0.05])
    said = {
        "right": lambda row: row["granola_answers"][0],
        "idk": lambda _: "I don't know.",
        "wrong": lambda _: "Xanadu",
    }
    said["coarse"] = lambda row: row["granola_answers"][1]
    answers = [{"id": row["id"], "answer": said[kind](row)} for row, kind in zip(rows, drawn, strict=True)]
    found = evaluate("granola", answers)
    planted = {
        "accuracy": 0.65,
        "granola_accuracy": 0.85,
        "selective_accuracy": 0.65 / 0.9,
        "selective_granola_accuracy": 0.85 / 0.9,
        "informativeness": 0.65 + 0.2 * math.exp(-0.5),
        "share_wrong": 0.05,
        "share_idk": 0.1,
        "share_level_1": 0.65,
        "share_level_2": 0.2,
        "share_level_3_or_more": 0.0,
    }
    assert [name for name, value in planted.items() if not _holds(found["greedy", name], value)] == []
    # and the intervals are narrow
    assert all(found["greedy", name]["ci_high"] - found["greedy", name]["ci_low"] < 0.14 for name in planted)


def test_multihal_detects_gradually_worse_languages(
    factmill: Factmill, embedded_builds: dict[str, Any], evaluate: Evaluate
) -> None:
    """Each language in turn has a tenth more wrong answers; without paths, half of those again."""
    rows = _read(factmill, embedded_builds["multihal"], "multihal")
    languages = ("eng", "deu", "fra", "ita", "spa", "por")
    wrong = "a purple teapot"
    texts = sorted({wrong, *(each for row in rows for each in (row["output"], *row["optional_output"]))})
    encoder = open_shared_embedder(embedder_name(load_world("embedded"), factmill.home), factmill.home)
    vectors = dict(zip(texts, encoder.encode(texts), strict=True))

    def worth(row: dict[str, Any]) -> float:
        """Return the wrong answer's score."""
        return max(float(vectors[wrong] @ vectors[each]) for each in (row["output"], *row["optional_output"]))

    rng = np.random.default_rng(7)
    answers, planted = [], {}
    for setting, more in (("kg_rag", 0.0), ("qa", 0.3)):
        ids = {}
        for row in rows:
            ids.setdefault(row["id"] if setting == "kg_rag" else f"{row['question_id']}_{row['language']}", row)
        for at, language in enumerate(languages):
            mine = {name: row for name, row in ids.items() if row["language"] == language}
            rate = at / 10 + more
            planted[setting, language] = float(np.mean([1 - rate * (1 - worth(row)) for row in mine.values()]))
            for name, row in mine.items():
                text = wrong if rng.random() < rate else row["output"]
                answers.append({"id": name, "setting": setting, "answer": text})
    found = evaluate("multihal", answers)
    missed = [
        key for key, value in planted.items() if not _holds(found[key[0], "semantic_score", "language", key[1]], value)
    ]
    assert missed == []
    # the gain from paths: each path is compared with its own question without paths, so the unit is the path
    delta = found["kg_rag - qa", "semantic_score_delta"]
    assert delta["n"] == len(rows)
    assert delta["ci_low"] > 0.1
    assert found["kg_rag", "semantic_score", "language", "eng"]["value"] == 1.0


def test_slaq_detects_long_answers_wrong_at_position_4(
    factmill: Factmill, embedded_builds: dict[str, Any], evaluate: Evaluate
) -> None:
    rows = _read(factmill, embedded_builds["slaq"], "slaq")
    answers = []
    for row in rows:
        gold = [row[f"ShortA{number}"] for number in range(1, 6)]
        answers += [{"id": f"{row['id']}/{number}", "answer": text} for number, text in enumerate(gold, 1)]
        # a long answer's text, with the fourth question's answer replaced
        spoilt = re.sub(re.escape(gold[3].rstrip(".")), "a purple teapot", row["LongA"], flags=re.IGNORECASE)
        answers.append({"id": f"{row['id']}/long", "answer": spoilt})
    lines = [row["id"] for row, each in zip(rows, answers[5::6], strict=True) if "teapot" in each["answer"]]
    assert len(lines) > 0.9 * len(rows)
    kept = {f"{row_id}/{part}" for row_id in lines for part in (1, 2, 3, 4, 5, "long")}
    found = evaluate("slaq", [each for each in answers if each["id"] in kept])
    places = {number: found["long", "accuracy", "position", str(number)] for number in range(1, 6)}
    assert [places[number]["n"] for number in range(1, 6)] == [len(lines)] * 5
    assert places[4]["value"] == 0.0
    assert all(places[number]["value"] == 1.0 for number in (1, 2, 3, 5))
    assert found["short", "accuracy"]["value"] == 1.0
    for name in ("alignment", "signed_alignment"):
        assert found["short, long", name]["value"] == pytest.approx(0.8)
