"""Test the steps of GRANOLA-EQ in which models write and judge, and the cleaning after them."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.graphs.namesakes import write_item
from support.models.scripted_chat import Message
from support.rows.granola_questions import COLUMNS, Said, make_row, serve_model
from support.steps.inputs import granola_inputs
from support.steps.steps import Left, run_step
from support.webs.two_wikidatas import TwoWikidatas

from factmill.tasks.granola.answer_levels import (
    generate_granular_answers,
    remove_trivial_answers,
    score_description_consistency,
)
from factmill.tasks.granola.core.rows import (
    GranolaRow,
    QuestionWithDescriptionScores,
    QuestionWithLevels,
    QuestionWithPopularity,
)

LEVELS = "1:: London\n2:: England\n"
WRONG = "Your last reply could not be read"


@pytest.fixture
def generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Generate answers with an author that gives the first reply, and the second one when corrected."""

    def run(first: Said, then: Said = 500) -> Left:
        def say(messages: Sequence[Message]) -> Said:
            return then if WRONG in messages[-1]["content"] else first

        with serve_model(say) as services:
            row = make_row(QuestionWithPopularity, "r")
            return run_step(generate_granular_answers, [row], services, tmp_path, monkeypatch)

    return run


def test_author_writes_levels_from_fine_to_coarse(generate: Callable[..., Left]) -> None:
    row = generate(LEVELS).rows["r"]
    assert (row["levels"], row["author"], len(row["author_call"])) == (["London", "England"], "tester", 64)


def test_malformed_completion_is_requested_again_once(generate: Callable[..., Left]) -> None:
    assert generate("London, then England", LEVELS).rows["r"]["levels"] == ["London", "England"]


@pytest.mark.parametrize(
    ("first", "then", "reason", "detail"),
    [
        ("no", "no again", "reply_not_in_format", "expected a line like `1:: answer`, found 'no again'"),
        ("1:: Paris", "1:: Rome", "reply_not_in_format", "expected the given answer 'London' on line 1, found 'Rome'"),
        (503, 503, "model_failed", "503"),
        ("no", 503, "model_failed", "503"),
    ],
)
def test_unreadable_or_unreachable_author_rejects_row(
    generate: Callable[..., Left], first: Said, then: Said, reason: str, detail: str
) -> None:
    left = generate(first, then)
    found, result = left.rejects["r"]
    assert (left.rows, found, left.receipt.unsettled) == ({}, reason, int(reason == "model_failed"))
    assert detail in result


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Let four samples judge each description, with these verdicts on the question entity's and on the answer's.

    The fifth verdict and later ones are replies to a correction.
    """

    def run(of_question: Sequence[Said], of_answer: Sequence[Said], **changed: Any) -> Left:
        left = {
            COLUMNS["question_entity_description"]: list(of_question),
            COLUMNS["answer_entity_description"]: list(of_answer),
        }

        def say(messages: Sequence[Message]) -> Said:
            material = next(each["content"] for each in reversed(messages) if "<description>" in each["content"])
            (verdicts,) = [verdicts for description, verdicts in left.items() if str(description) in material]
            return verdicts.pop(0)

        with serve_model(say) as services:
            return run_step(
                score_description_consistency,
                [make_row(QuestionWithLevels, "r", **changed)],
                services,
                tmp_path,
                monkeypatch,
                granola_inputs(samples=4, max_error_score=0.5),
            )

    return run


YES: list[Said] = ["Yes"] * 4


@pytest.mark.parametrize(
    ("of_question", "of_answer", "scores"),
    [
        (YES, YES, (0.0, 0.0)),
        (["Yes", "No", "Yes", "Yes"], YES, (0.25, 0.0)),
        (["No", "No", "Yes", "Yes"], ["Yes", "Yes", "No", "No"], (0.5, 0.5)),
        (["hm", "No", "Yes", "Yes"], ["Yes", "hm", "hm", "hm"], (0.333, 0.0)),
        (["hm"] * 4 + ["Yes", "Yes", "No", "Yes"], YES, (0.25, 0.0)),
    ],
)
def test_error_score_is_share_of_no_among_readable_completions(
    judge: Callable[..., Left], of_question: list[Said], of_answer: list[Said], scores: tuple[float, float]
) -> None:
    row = judge(of_question, of_answer).rows["r"]
    found = (row["question_description_score"], row["answer_description_score"])
    assert (found, row["judge"]) == (pytest.approx(scores, abs=0.001), "tester")


@pytest.mark.parametrize(
    ("of_question", "of_answer", "reason", "detail"),
    [
        (
            ["No", "No", "No", "Yes"],
            YES,
            "question_description_inconsistent",
            f"{COLUMNS['question_entity_description']}; scores: question entity 0.750, answer 0.000",
        ),
        (YES, ["No"] * 4, "answer_description_inconsistent", "answer 1.000; the maximum is 0.5"),
        (["No"] * 4, ["No"] * 4, "question_description_inconsistent", "answer 1.000"),
        (["hm"] * 8, YES, "reply_not_in_format", "expected Yes or No, found 'hm'"),
        (YES, ["hm"] * 8, "reply_not_in_format", "expected Yes or No"),
        (YES, [503] * 8, "model_failed", "503"),
    ],
)
def test_inconsistent_or_unjudged_description_rejects_row(
    judge: Callable[..., Left], of_question: list[Said], of_answer: list[Said], reason: str, detail: str
) -> None:
    left = judge(of_question, of_answer)
    found, result = left.rejects["r"]
    assert (left.rows, found, left.receipt.unsettled) == ({}, reason, int(reason == "model_failed"))
    assert detail in result


def test_consistency_limit_applies_to_facts_in_graph_too(judge: Callable[..., Left]) -> None:
    left = judge(["No"] * 4, YES, fact_in_graph=True)
    assert left.rejects["r"][0] == "question_description_inconsistent"


WORLD = [
    write_item("Q84", "London", "P131 Q21", "P17 Q145", of=["Q515"]),
    write_item("Q21", "England", "P17 Q145", of=[]),
    write_item("Q145", "United Kingdom", "P30 Q46", of=[]),
    write_item("Q46", "Europe", of=[]),
    write_item("Q515", "city", of=[]),
]


@pytest.fixture(scope="module")
def wikidatas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWikidatas]:
    both = TwoWikidatas("\n".join(WORLD), tmp_path_factory.mktemp("wikidata"))
    yield both
    both.close()


@pytest.fixture
def clean(wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Clean the answers of one row, with both engines."""

    def run(*levels: str, min_levels: int = 2, **changed: Any) -> Left:
        row = make_row(QuestionWithDescriptionScores, "r", levels=list(levels), **changed)
        inputs = granola_inputs(min_levels=min_levels)
        return wikidatas.run(
            lambda services, folder: run_step(remove_trivial_answers, [row], services, folder, monkeypatch, inputs),
            tmp_path,
        )

    return run


def test_unsupported_levels_are_removed_and_listed_in_reject(clean: Callable[..., Left]) -> None:
    row = clean("London", "England", "Bohemia", "the United Kingdom", "England in Europe").rows["r"]
    assert row["granola_answers"] == ["London", "England", "the United Kingdom", "England in Europe"]
    reason, detail = clean("London", "Bohemia").rejects["r"]
    assert (reason, detail.startswith(COLUMNS["question"])) == ("too_few_levels", True)
    assert "left: ['London']; removed: 'Bohemia' not_supported; " in detail
    assert "at least 2" in detail


def test_wikidata_failure_rejects_row_as_retryable(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", "?property ?value")
    services = SimpleNamespace(wikidata=wikidatas.sparql())
    left = run_step(
        remove_trivial_answers,
        [make_row(QuestionWithDescriptionScores, "r")],
        services,
        tmp_path,
        monkeypatch,
        granola_inputs(),
    )
    assert (left.rejects["r"][0], left.receipt.unsettled) == ("wikidata_failed", 1)


def test_trivial_and_repeated_and_echoing_levels_are_removed_from_published_row(clean: Callable[..., Left]) -> None:
    left = clean("London", "london", "England", "born", "a city")
    row = left.rows["r"]
    assert (row["granola_answers"], row["num_granola_answers"]) == (["London", "England"], 2)
    assert set(row) == set(GranolaRow.model_fields)
    kept = {name: value for name, value in COLUMNS.items() if name in row}
    assert {name: row[name] for name in kept} == kept


@pytest.mark.parametrize(("of_question", "of_answer"), [(0.125, 0.25), (0.25, 0.125)])
def test_error_score_is_maximum_of_both_description_scores(
    clean: Callable[..., Left], of_question: float, of_answer: float
) -> None:
    left = clean("London", "England", question_description_score=of_question, answer_description_score=of_answer)
    assert left.rows["r"]["score_for_potential_error"] == 0.25


@pytest.mark.parametrize(
    ("levels", "reason", "detail"),
    [
        (["London", "a city"], "too_few_levels", "left: ['London']; removed: 'a city' trivial; expected at least 2"),
        (["London"], "too_few_levels", "left: ['London']; removed: none; expected at least 2"),
        (["a city", "England"], "first_answer_missing", ": 'a city' first_answer_trivial"),
    ],
)
def test_row_with_too_few_levels_is_rejected(
    clean: Callable[..., Left], levels: list[str], reason: str, detail: str
) -> None:
    left = clean(*levels)
    ((found, text),) = left.rejects.values()
    assert (left.rows, found, text.startswith(COLUMNS["question"]), text.endswith(detail)) == ({}, reason, True, True)


def test_one_level_is_enough_when_minimum_is_1(clean: Callable[..., Left]) -> None:
    assert clean("London", min_levels=1).rows["r"]["granola_answers"] == ["London"]
