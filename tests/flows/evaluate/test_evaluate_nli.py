"""Test MultiHal's entailment and consistency scores, computed only where cross-encoders are configured."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill, Ran
from support.models.tiny_encoder import make_head, make_weights, write_checkpoint

from factmill.tasks.models.converting.encoder import make_cross_encoder_folder
from factmill.tasks.models.cross_encoder import CONTRADICTION_LABELS, ENTAILMENT_LABELS, CrossEncoder
from factmill.tasks.models.model_folder import get_model_path, get_models_folder, remove_model
from factmill.tasks.storage.builds import load_published_table
from factmill.tasks.storage.warehouse import open_warehouse

Run = Callable[..., Ran]
LABELS = {"tiny-nli": ["contradiction", "neutral", "entailment"], "tiny-score": ["LABEL_0"]}


@pytest.fixture(scope="module")
def models(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Put a model with three labels and one with a single score into the home; return the folder of models."""
    folder, made = get_models_folder(factmill.home), tmp_path_factory.mktemp("models")
    for name, labels in LABELS.items():
        weights = make_weights(prefix="bert.") | make_head(len(labels))
        make_cross_encoder_folder(write_checkpoint(made / name, weights, id2label=dict(enumerate(labels))), folder)
    yield folder
    for name in LABELS:
        remove_model(name, folder)


@pytest.fixture(scope="module")
def run(factmill: Factmill, small_builds: SmallBuilds, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the command with a warehouse that has a small English MultiHal build."""
    folder = tmp_path_factory.mktemp("multihal")

    def run(*arguments: str | Path) -> Ran:
        result = ("--reports", folder / "reports") if arguments[0] == "evaluate" else ()
        return factmill(*arguments, *result, "--warehouse", folder / "w.duckdb")

    small_builds.copy("multihal", folder / "w.duckdb")
    return run


def read_answers(ran: Ran) -> list[dict[str, Any]]:
    with open_warehouse(Path(ran.json["reports"][0]).parent.parent / "w.duckdb") as db:
        rows: list[dict[str, Any]] = load_published_table(db, ran.json["evaluation_id"], "multihal_answers").to_pylist()
    return rows


def test_answers_are_scored_by_chosen_nli_models(run: Run, models: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.jsonl"
    assert run("evaluate", "multihal", "--questions", asked).code == 0
    answers = [json.loads(line) for line in asked.read_text("utf-8").splitlines()]
    said = ["", "in Paris", "in the river", "who?"]
    for at, each in enumerate(answers):
        each["answer"] = said[at % len(said)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, answers)), "utf-8")
    named = ("--nli", "tiny-nli", "--consistency", "tiny-score")
    ran = run("evaluate", "multihal", "--answers", tmp_path / "mine.jsonl", *named, "--json")
    assert ran.code == 0, ran.err

    nli, score = (CrossEncoder(get_model_path(name, models)) for name in LABELS)
    rows = read_answers(ran)
    for row in rows:
        pairs = [(f"{row['question']} {gold}", row["answer_read"]) for gold in row["accepted"]]
        expected: list[float | None] = [None, None, None]
        if row["answer_read"]:
            probabilities = np.round(nli.score(pairs, [ENTAILMENT_LABELS, CONTRADICTION_LABELS]), 2).tolist()
            expected = [*max(probabilities, key=lambda each: each[0]), round(float(score.score(pairs).max()), 2)]
        assert [row[name] for name in ("entailment", "contradiction", "consistency")] == expected, row["id"]
        assert (row["nli_model"], row["consistency_model"]) == ("tiny-nli", "tiny-score")
    silent = sum(not row["answer_read"] for row in rows)
    assert 0 < silent < len(rows)

    metrics = {(each["setting"], each["metric"], each["group"]): each for each in ran.json["metrics"]}
    for name in ("entailment", "contradiction", "consistency"):
        values = [row[name] for row in rows if row["setting"] == "qa" and row[name] is not None]
        for group in ("", "eng", "simpleqa"):
            found = metrics["qa", name, group]
            assert (found["value"], found["n"]) == (pytest.approx(np.mean(values), abs=1e-6), len(values)), name
    assert sum(metrics[setting, "entailment", ""]["n_unscored"] for setting in ("qa", "kg_rag")) == silent
    assert ran.json["unscored"] == silent and ran.json["notes"] == []
    result = run("explain", "multihal_evaluation", rows[1]["id"], "--build", ran.json["evaluation_id"]).out
    assert "by tiny-nli)" in result and "consistency 0." in result
    assert "rebuilt byte for byte" in run("verify", ran.json["evaluation_id"]).out


def test_missing_nli_model_omits_scores_with_note(run: Run) -> None:
    ran = run("evaluate", "multihal", "--model", "oracle", "--json")
    assert ran.json["notes"] == [
        "no scores of entailment and contradiction: --nli names no cross-encoder (factmill models add cross-encoder --help)",
        "no scores of consistency: --consistency names no cross-encoder (factmill models add cross-encoder --help)",
    ]
    assert not {each["metric"] for each in ran.json["metrics"]} & {"entailment", "contradiction", "consistency"}
    assert {(row["entailment"], row["consistency"], row["nli_model"]) for row in read_answers(ran)} == {
        (None, None, "")
    }
    assert "note: no scores of entailment" in run("evaluate", "multihal", "--model", "oracle").out


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--nli", "tiny-nil"], "no cross-encoder tiny-nil in "),
        (["--nli", "tiny-score"], "expected probabilities of: entailment, contradiction"),
    ],
)
def test_unsuitable_nli_model_is_rejected_before_any_request(run: Run, options: list[str], text: str) -> None:
    ran = run("evaluate", "multihal", "--model", "oracle", *options)
    assert ran.code == 2 and text in ran.err
