"""Test sources of GRANOLA-EQ questions (EntityQuestions files, facts), and extraction of the question entity."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.graphs.namesakes import write_item
from support.rows.granola_questions import make_row
from support.steps.inputs import granola_inputs
from support.steps.steps import Left, read_unit, run_step
from support.webs.two_wikidatas import TwoWikidatas

from factmill.tasks.errors import ServiceUnreachable, SourceError
from factmill.tasks.granola.core.rows import SourceQuestion
from factmill.tasks.granola.source_questions import (
    contains_answer,
    extract_question_entities,
    make_questions_from_facts,
    read_entity_questions,
)
from factmill.tasks.lookups.facts import make_question_id

BORN = "Where was {} born?".format


def ask(name: str, *answers: str) -> dict[str, Any]:
    return {"question": BORN(name), "answers": list(answers)}


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Read rows of files as the questions of P19."""

    def run(*files: Sequence[Any], limit: int | None = None) -> Left:
        paths = [tmp_path / f"P19.{number}.json" for number in range(len(files))]
        for path, rows in zip(paths, files, strict=True):
            path.write_text(json.dumps(rows))
        inputs = granola_inputs(limits={"P19": limit})
        return read_unit(read_entity_questions, "P19", None, tmp_path / "run", monkeypatch, inputs, paths)

    return run


def test_question_with_one_gold_answer_is_kept_with_its_source_row(read: Callable[..., Left]) -> None:
    left = read([ask("Ada", "London")], [ask("Bo", "Ulm", "Ulm")])
    ada, bo = (make_question_id("P19", BORN(name), [city]) for name, city in (("Ada", "London"), ("Bo", "Ulm")))
    assert left.rows == {
        ada: {
            "id": ada, "relation": "P19", "question": BORN("Ada"), "answer": "London", "source_name": "P19.0.json",
            "source_row": 1, "source_licence": "none stated", "subject_qid": None, "value_qid": None, "stated_subject": None,
        },
        bo: {
            "id": bo, "relation": "P19", "question": BORN("Bo"), "answer": "Ulm", "source_name": "P19.1.json",
            "source_row": 1, "source_licence": "none stated", "subject_qid": None, "value_qid": None, "stated_subject": None,
        },
    }  # fmt: skip
    assert (left.rejects, left.merged) == ({}, {})


@pytest.mark.parametrize(
    ("row", "reason", "detail"),
    [
        ({"question": BORN("Bo")}, "malformed_row", "the column answers is missing"),
        (ask("Bo"), "no_gold_answer", "Where was Bo born? []"),
        (ask("Bo", "Ulm", "Rome"), "several_gold_answers", "Where was Bo born? ['Ulm', 'Rome']"),
    ],
)
def test_row_without_exactly_one_gold_answer_is_rejected(
    read: Callable[..., Left], row: dict[str, Any], reason: str, detail: str
) -> None:
    left = read([row, ask("Ada", "London")])
    found, result = left.rejects["P19.0.json:1"]
    assert (found, len(left.rejects), len(left.rows)) == (reason, 1, 1)
    assert detail in result


def test_duplicate_rows_are_merged(read: Callable[..., Left]) -> None:
    left = read([ask("Ada", "London"), ask("Ada", "London")], [ask("Ada", "London")])
    (kept,) = left.rows
    assert left.rows[kept]["source_row"] == 1
    assert left.merged == {"P19.0.json:2": kept, "P19.1.json:1": kept}


def test_question_with_conflicting_answers_is_rejected_with_every_answer(read: Callable[..., Left]) -> None:
    left = read([ask("Ada", "London"), ask("Ada", "Ulm"), ask("Bo", "Ulm")])
    why = ("several_gold_answers", "Where was Ada born? ['London', 'Ulm']")
    assert left.rejects == {"P19.0.json:1": why, "P19.0.json:2": why}
    assert [row["question"] for row in left.rows.values()] == [BORN("Bo")]


def test_limit_does_not_count_malformed_rows(read: Callable[..., Left]) -> None:
    left = read([{"question": 7}, ask("Ada", "London"), ask("Bo", "Ulm")], limit=1)
    assert [each["answer"] for each in left.rows.values()] == ["London"]
    assert [reason for reason, _ in left.rejects.values()] == ["malformed_row"]


def test_limit_counts_rows_across_all_files_of_relation(read: Callable[..., Left]) -> None:
    left = read([ask("Ada", "London"), ask("Bo")], [ask("Cy", "Rome"), ask("Di", "Ulm")], limit=3)
    assert [row["question"] for row in left.rows.values()] == [BORN("Ada"), BORN("Cy")]
    assert left.receipt.rows_in == 3


def test_file_changed_since_run_lock_stops_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "P19.json"
    path.write_text(json.dumps([ask("Ada", "London")]))
    monkeypatch.setattr("support.steps.steps.digest_bytes", lambda _: "0" * 64)
    with pytest.raises(SourceError, match="has changed since the build began"):
        inputs = granola_inputs(limits={"P19": None})
        read_unit(read_entity_questions, "P19", None, tmp_path / "run", monkeypatch, inputs, [path])


WORLD = [
    write_item("Q1", "Ada", "P19 Q84"),
    write_item("Q2", "Bo", "P19 Q84", "P19 Q90"),
    write_item("Q3", None, "P19 Q84"),
    write_item("Q4", "Cy", "P19 Q99"),
    write_item("Q5", "Di", "P19 Q84"),
    write_item("Q6", "Di", "P19 Q84"),
    write_item("Q7", "Ed", "P19 Q84"),
    write_item("Q8", "Ed", "P19 Q90"),
    write_item("Q84", "London", of=["Q515"]),
    write_item("Q90", "Paris", of=["Q515"]),
    "wd:Q99 wdt:P31 wd:Q515",
]


@pytest.fixture(scope="module")
def wikidatas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWikidatas]:
    both = TwoWikidatas("\n".join(WORLD), tmp_path_factory.mktemp("wikidata"))
    yield both
    both.close()


@pytest.fixture(params=["sparql", "graph"])
def wikidata(request: pytest.FixtureRequest, wikidatas: TwoWikidatas) -> Any:
    """Return the facts by SPARQL and as a local graph; rows name the fact that they use."""
    return wikidatas.sparql() if request.param == "sparql" else wikidatas.graph


def draw(services: Any, folder: Path, patch: pytest.MonkeyPatch, limit: int | None = None) -> Left:
    inputs = granola_inputs(from_wikidata=True, limits={"P19": limit})
    return read_unit(make_questions_from_facts, "P19", services, folder, patch, inputs)


def test_facts_become_questions_or_are_rejected_with_reason(
    wikidata: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = draw(SimpleNamespace(wikidata=wikidata), tmp_path, monkeypatch)
    ada, di = (make_question_id("P19", BORN(name), ["London"]) for name in ("Ada", "Di"))
    assert {row_id: (row["question"], row["answer"]) for row_id, row in left.rows.items()} == {
        ada: (BORN("Ada"), "London"),
        di: (BORN("Di"), "London"),
    }
    assert left.rows[ada]["source_name"] == f"{wikidata.identity} Q1 P19 Q84"
    assert (left.rows[ada]["subject_qid"], left.rows[ada]["value_qid"]) == ("Q1", "Q84")
    assert left.merged == {"P19-Q6-Q84": di}
    two = ("several_gold_answers", "Q2 has 2 values of P19")
    namesakes = ("several_gold_answers", "Where was Ed born? ['London', 'Paris']")
    assert left.rejects == {
        "P19-Q2-Q84": two,
        "P19-Q2-Q90": two,
        "P19-Q3-Q84": ("item_without_label", "Q3 has no English label"),
        "P19-Q4-Q99": ("item_without_label", "Q99 has no English label"),
        "P19-Q7-Q84": namesakes,
        "P19-Q8-Q90": namesakes,
    }


def test_limit_counts_subjects_and_keeps_all_facts_of_each(
    wikidata: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = draw(SimpleNamespace(wikidata=wikidata), tmp_path, monkeypatch, limit=2)
    assert left.receipt.rows_in == 3
    assert set(left.rejects) == {"P19-Q2-Q84", "P19-Q2-Q90"}


def test_facts_with_failed_item_lookup_are_rejected_as_retryable(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", "schema:description")
    left = draw(SimpleNamespace(wikidata=wikidatas.sparql()), tmp_path, monkeypatch, limit=2)
    lost = {"P19-Q1-Q84", "P19-Q2-Q84", "P19-Q2-Q90"}
    assert {row_id: reason for row_id, (reason, _) in left.rejects.items()} == dict.fromkeys(lost, "wikidata_failed")
    assert left.receipt.unsettled == 3


def test_failed_fact_listing_stops_run(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", "ORDER BY")
    with pytest.raises(ServiceUnreachable, match="facts of P19"):
        draw(SimpleNamespace(wikidata=wikidatas.sparql()), tmp_path, monkeypatch)


def test_entity_is_extracted_from_question_by_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        make_row(SourceQuestion, "fits"),
        make_row(SourceQuestion, "other", question="Who was Ada Lovelace's mother?"),
    ]
    left = run_step(extract_question_entities, rows, None, tmp_path, monkeypatch, granola_inputs())
    assert left.rows == {"fits": {**rows[0].model_dump(), "question_entity": "Ada Lovelace"}}
    detail = '"Who was Ada Lovelace\'s mother?" does not fit the template of P19'
    assert left.rejects == {"other": ("no_template_match", detail)}


def test_questions_that_contain_their_answer_are_dropped_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"relation": "P50", "question": "Who is the author of Euclid's Elements?", "answer": "Euclid"}
    rows = [make_row(SourceQuestion, "elements", **asked)]
    left = run_step(extract_question_entities, rows, None, tmp_path / "keep", monkeypatch, granola_inputs())
    assert set(left.rows) == {"elements"}
    inputs = granola_inputs(answer_in_question="drop")
    left = run_step(extract_question_entities, rows, None, tmp_path / "drop", monkeypatch, inputs)
    detail = "\"Who is the author of Euclid's Elements?\" contains 'Euclid'"
    assert left.rejects == {"elements": ("answer_in_question", detail)}


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Who is the author of Euclid’s Elements?", "Euclid", True),
        ("Where is the headquarter of University of Manchester?", "Manchester", True),
        ("Who is the author of Dickens' Christmas?", "Dickens", True),
        ("Where is the headquarter of Manchesters United?", "Manchester", False),
        ("Where is the headquarter of New York University?", "New York City", False),
        ("Where was Ada born?", "Adana", False),
    ],
)
def test_answer_in_question_must_match_complete_words(question: str, answer: str, expected: bool) -> None:
    assert contains_answer(question, answer) is expected
