"""Test linking of GRANOLA-EQ's names to items, the items' descriptions, and their page views."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.graphs.namesakes import write_item
from support.rows.granola_questions import LIMITS, make_row
from support.steps.inputs import granola_inputs
from support.steps.steps import Left, run_step
from support.webs.loopback import Loopback, Seen
from support.webs.two_wikidatas import AGENT, TwoWikidatas

from factmill.tasks.clients.pageviews import PageviewsClient
from factmill.tasks.core.review import ReviewItem, ReviewPolicyAndDecisions
from factmill.tasks.granola.core.rows import DescribedQuestion, LinkedQuestion, QuestionWithExtractedEntityName
from factmill.tasks.granola.disambiguate import describe_entities, link_question_entities, measure_popularity

WORLD = [
    write_item("Q10", "Ada", "P19 Q84"),
    write_item("Q84", "London", of=["Q515"]),
    write_item("Q92561", "London", of=["Q515"]),
    write_item("Q20", "Bo", "P19 Q92561"),
    write_item("Q30", "Cy", "P19 Q60"),
    write_item("Q31", "Sy", "P19 Q84", aliases=["Cy"]),
    write_item("Q40", "Di", "P27 Q84"),
    write_item("Q50", "Ed", "P19 Q51"),
    write_item("Q51", "Soho", "P131 Q84", of=[]),
    write_item("Q52", "Fay", "P69 Q84", "P69 Q60"),
    write_item("Q60", "Rome", "P17 Q38", of=["Q515"]),
    write_item("Q38", "Italy", of=[]),
    write_item("Q515", "city", of=[]),
    write_item("Q70", "Gil", "P106 Q36180", "P106 Q33999", "P27 Q38"),
    write_item("Q36180", "writer", of=[]),
    write_item("Q33999", "actor", of=[]),
    write_item("Q53", "Emma", "P50 Q70", of=[]),
    write_item("Q54", "Blue", "P136 Q55", of=[]),
    write_item("Q55", "K-pop", of=[]),
    write_item("Q71", "Boston", of=[]),
    write_item("Q72", "Lincolnshire", of=[]),
    write_item("Q73", "Salem", of=[]),
    write_item("Q74", "Hal", of=["Q36180"]),
    write_item("Q75", "Ida", of=["Q36180"]),
    'wd:Q74 wdt:P569 "1900-01-01T00:00:00Z"^^xsd:dateTime',
    'wd:Q75 wdt:P570 "1800-01-01T00:00:00Z"^^xsd:dateTime',
    'wd:Q71 schema:description "capital of Massachusetts, United States"@en',
    'wd:Q72 schema:description "county in England"@en',
    'wd:Q73 schema:description "city in Massachusetts"@en',
    'wd:Q10 schema:description "English mathematician"@en',
    'wd:Q84 schema:description "capital of England"@en',
    "enwiki:Ada schema:about wd:Q10",
    "enwiki:Ada schema:isPartOf <https://en.wikipedia.org/>",
    'enwiki:Ada schema:name "Ada"@en',
]


@pytest.fixture(scope="module")
def wikidatas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWikidatas]:
    both = TwoWikidatas("\n".join(WORLD), tmp_path_factory.mktemp("wikidata"))
    yield both
    both.close()


@pytest.fixture
def link(wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Find the items of rows named `question entity > answer`, with both engines."""

    def run(*names: str, policy: str = "smallest", **changed: Any) -> Left:
        pairs = [name.split(" > ") for name in names]
        rows = [
            make_row(QuestionWithExtractedEntityName, name, question_entity=entity, answer=answer, **changed)
            for name, (entity, answer) in zip(names, pairs, strict=True)
        ]
        return wikidatas.run(
            lambda services, folder: run_step(
                link_question_entities, rows, services, folder, monkeypatch, granola_inputs(policy=policy)
            ),
            tmp_path,
        )

    return run


def pairs(left: Left) -> dict[str, tuple[str, str]]:
    return {name: (row["question_entity_qid"], row["answer_entity_qid"]) for name, row in left.rows.items()}


def test_names_are_linked_to_items_and_all_candidates_are_recorded(link: Callable[..., Left]) -> None:
    left = link("Ada > Rome", "Ada > London")
    assert pairs(left) == {"Ada > Rome": ("Q10", "Q60"), "Ada > London": ("Q10", "Q84")}
    counted = [(row["question_entity_candidates"], row["answer_entity_candidates"]) for row in left.rows.values()]
    assert counted == [(1, 1), (1, 2)]
    assert [row["answer_rivals"] for row in left.rows.values()] == [[], ["Q92561"]]
    assert [row["other_values"] for row in left.rows.values()] == [["London"], []]
    result = {line["id"]: (line["via"], line["chosen"], line["linked"]) for line in left.extras}
    assert result == {
        "Ada > Rome-question-Q10": ("label", True, False),
        "Ada > Rome-answer-Q60": ("label", True, False),
        "Ada > London-question-Q10": ("label", True, True),
        "Ada > London-answer-Q84": ("label", True, True),
        "Ada > London-answer-Q92561": ("label", False, False),
    }


@pytest.mark.parametrize(
    ("name", "reason", "detail"),
    [
        ("Sy > Sy", "one_item_for_both", "both names: 'Sy' and 'Sy'"),
        ("Nobody > London", "question_entity_not_found", "no item has the label or alias 'Nobody'"),
        ("Ada > Nowhere", "answer_entity_not_found", "no item has the label or alias 'Nowhere'"),
        (
            "Bo > London",
            "other_items_hold_the_relation",
            "the smallest numbers are Q20 and Q84, but P19 holds between Q20 and Q92561",
        ),
        (
            "Cy > London",
            "other_items_hold_the_relation",
            "the smallest numbers are Q30 and Q84, but P19 holds between Q31 and Q84",
        ),
    ],
)
def test_unknown_and_unsuitable_names_reject_row(
    link: Callable[..., Left], name: str, reason: str, detail: str
) -> None:
    left = link(name)
    found, result = left.rejects[name]
    assert (left.rows, found) == ({}, reason)
    assert detail in result


def test_linked_policy_chooses_items_connected_by_relation(link: Callable[..., Left]) -> None:
    left = link("Bo > London", "Cy > London", "Ada > London", "Di > London", policy="linked")
    assert pairs(left) == {
        "Bo > London": ("Q20", "Q92561"),
        "Cy > London": ("Q31", "Q84"),
        "Ada > London": ("Q10", "Q84"),
        "Di > London": ("Q40", "Q84"),
    }
    assert {line["qid"] for line in left.extras if line["chosen"] and line["row_id"] == "Bo > London"} == {
        "Q20",
        "Q92561",
    }


def test_smallest_item_ids_are_chosen_when_no_candidates_are_connected(link: Callable[..., Left]) -> None:
    left = link("Di > London")
    assert pairs(left) == {"Di > London": ("Q40", "Q84")}
    assert [line["linked"] for line in left.extras] == [None, None, None]


@pytest.mark.parametrize(
    ("name", "relation", "expected"),
    [
        ("Ada > London", "P19", True),
        ("Di > London", "P19", None),
        ("Ed > London", "P19", True),
        ("Fay > Rome", "P69", True),
        ("Fay > Italy", "P69", False),
    ],
)
def test_row_records_whether_graph_contains_its_fact(
    link: Callable[..., Left], name: str, relation: str, expected: bool | None
) -> None:
    assert link(name, relation=relation).rows[name]["fact_in_graph"] is expected


def test_items_identified_by_source_are_not_looked_up_by_name(
    wikidatas: TwoWikidatas, link: Callable[..., Left], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", "skos:altLabel")
    left = link("Cy > London", subject_qid="Q31", value_qid="Q84")
    assert pairs(left) == {"Cy > London": ("Q31", "Q84")}
    assert [left.rows["Cy > London"][f"{role}_entity_candidates"] for role in ("question", "answer")] == [1, 1]
    assert left.rows["Cy > London"]["fact_in_graph"] is True
    assert {(line["qid"], line["chosen"], line["linked"]) for line in left.extras} == {
        ("Q31", True, True),
        ("Q84", True, True),
    }


@pytest.mark.parametrize("query", ["skos:altLabel", "?property ?value"])
def test_wikidata_failure_rejects_affected_rows_as_retryable(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", query)
    rows = [
        make_row(QuestionWithExtractedEntityName, "plain", question_entity="Ada", answer="Rome"),
        make_row(QuestionWithExtractedEntityName, "ambiguous", question_entity="Ada", answer="London"),
    ]
    services = SimpleNamespace(wikidata=wikidatas.sparql())
    left = run_step(link_question_entities, rows, services, tmp_path / "run", monkeypatch, granola_inputs())
    lost = {"plain", "ambiguous"}
    assert {row_id: reason for row_id, (reason, _) in left.rejects.items()} == dict.fromkeys(lost, "wikidata_failed")
    assert left.receipt.unsettled == len(lost)


@pytest.fixture
def describe(wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Describe the items of one row, with both engines."""

    def run(
        question_qid: str,
        answer_qid: str,
        policy: str = "smallest",
        reviewing: ReviewPolicyAndDecisions = ReviewPolicyAndDecisions(policy="auto"),  # noqa: B008 - frozen
        **changed: Any,
    ) -> Left:
        inputs = granola_inputs(policy=policy, reviewing=reviewing)
        changed |= {"question_entity_qid": question_qid, "answer_entity_qid": answer_qid}
        row = make_row(LinkedQuestion, "r", **changed)
        return wikidatas.run(
            lambda services, folder: run_step(describe_entities, [row], services, folder, monkeypatch, inputs), tmp_path
        )

    return run


def test_items_get_descriptions_and_article_titles(describe: Callable[..., Left]) -> None:
    row = describe("Q10", "Q84").rows["r"]
    assert {name: row[name] for name in row if name.endswith(("_description", "_made", "_title", "_modified"))} == {
        "question_entity_description": "English mathematician",
        "answer_entity_description": "capital of England",
        "question_entity_description_made": False,
        "answer_entity_description_made": False,
        "question_entity_title": "Ada",
        "answer_entity_title": None,
        "question_entity_modified": None,
        "answer_entity_modified": None,
    }


@pytest.mark.parametrize(
    ("qid", "made"),
    [("Q70", "actor and writer, Italy"), ("Q60", "city, Italy"), ("Q20", "human"), ("Q53", "written work")],
)
def test_missing_description_is_built_from_claims_and_marked(
    describe: Callable[..., Left], qid: str, made: str
) -> None:
    row = describe(qid, "Q84").rows["r"]
    assert (row["question_entity_description"], row["question_entity_description_made"]) == (made, True)
    assert row["answer_entity_description_made"] is False


@pytest.mark.parametrize(
    ("question", "answer", "role", "qid"),
    # a genre does not describe an item
    [("Q38", "Q84", "question", "Q38"), ("Q84", "Q38", "answer", "Q38"), ("Q54", "Q84", "question", "Q54")],
)
def test_items_without_any_description_reject_row(
    describe: Callable[..., Left], question: str, answer: str, role: str, qid: str
) -> None:
    ((reason, detail),) = describe(question, answer).rejects.values()
    assert reason == f"{role}_entity_not_described"
    assert detail.startswith(f"{qid} has no English description")


BOSTON = "Boston: capital of Massachusetts, United States"


@pytest.mark.parametrize(
    ("one", "other", "relation", "reason", "text"),
    [
        ("Q71 Boston", "Q72 Lincolnshire", "P131", "places_disagree", f"{BOSTON}; Lincolnshire: county in England"),
        ("Q71 Boston", "Q72 Lincolnshire", "P19", "", ""),
        ("Q71 Boston", "Q73 Salem", "P131", "", ""),
        # the country in the graph takes precedence over descriptions
        ("Q60 Rome", "Q71 Boston", "P276", "places_disagree", f"Rome: city, Italy; {BOSTON}"),
        ("Q74 Hal", "Q75 Ida", "P26", "lifetimes_disagree", "Hal: writer (1900–); Ida: writer (–1800)"),
    ],
)
def test_items_with_impossible_relation_reject_row_unless_graph_has_fact(
    describe: Callable[..., Left], one: str, other: str, relation: str, reason: str, text: str
) -> None:
    (qid, name), (of_answer, answer) = one.split(), other.split()
    named = {"question_entity": name, "answer": answer, "relation": relation}
    assert describe(qid, of_answer, **named).rejects == ({"r": (reason, text)} if reason else {})
    assert describe(qid, of_answer, **named, fact_in_graph=True).rejects == {}


def test_item_known_by_alias_is_rejected_as_namesake_unless_graph_has_fact(
    describe: Callable[..., Left],
) -> None:
    named = {"question_entity": "Cy", "relation": "P69", "policy": "linked"}
    ((reason, detail),) = describe("Q31", "Q84", **named).rejects.values()
    assert (reason, detail.startswith("Q31 is called 'Sy', 'Cy' is ")) == ("namesake_by_alias", True)
    assert describe("Q31", "Q84", **named, fact_in_graph=True).rejects == {}
    assert describe("Q31", "Q84", **{**named, "policy": "smallest"}).rejects == {}
    assert describe("Q31", "Q84", **{**named, "question_entity": "SY"}).rejects == {}


def test_ambiguous_place_is_rejected_unless_evidence_identifies_it(describe: Callable[..., Left]) -> None:
    named: dict[str, Any] = {"question_entity": "Ada", "answer": "Boston", "relation": "P19", "policy": "linked"}
    reason, detail = describe("Q10", "Q71", **named, answer_rivals=["Q73"]).rejects["r"]
    assert reason == "which_place_unknown"
    assert detail.startswith("2 places ")
    assert "'Boston'" in detail
    assert ": Ada: English" in detail
    assert describe("Q10", "Q72", **named, answer_rivals=["Q73"]).rejects == {}, (
        "she is of the country of the one alone"
    )
    assert describe("Q10", "Q72", **named, answer_rivals=["Q84"]).rejects["r"][0] == "which_place_unknown"
    assert describe("Q10", "Q71", **{**named, "fact_in_graph": True}, answer_rivals=["Q73"]).rejects == {}
    assert describe("Q10", "Q71", **{**named, "policy": "smallest"}, answer_rivals=["Q73"]).rejects == {}
    assert describe("Q73", "Q71", **{**named, "question_entity": "Salem"}, answer_rivals=["Q70"]).rejects == {}, (
        "no place"
    )


@pytest.mark.parametrize("policy", ["smallest", "linked"])
def test_row_contradicted_by_graph_awaits_review(describe: Callable[..., Left], policy: str) -> None:
    named: dict[str, Any] = {"question_entity": "Ada", "answer": "Boston", "relation": "P19", "policy": policy}
    named |= {"fact_in_graph": False, "other_values": ["London"], "answer_rivals": ["Q73"]}
    left = describe("Q10", "Q71", **named)
    assert left.rejects == {"r": ("not_reviewed", "waits for a decision about graph_has_another_value")}
    (item,) = left.extras
    assert item["detail"] == "for P19 of Q10 the Wikidata has London, not Boston"
    decided = ReviewItem.model_validate(item | {"decision": "keep", "reviewer": "Eve"})
    kept = describe("Q10", "Q71", **named, reviewing=ReviewPolicyAndDecisions(policy="auto", decisions=(decided,)))
    assert kept.rows["r"]["reviewed_by"] == ["Eve"]


def test_doubtful_row_is_dropped_unless_reviewer_keeps_it(describe: Callable[..., Left]) -> None:
    named: dict[str, Any] = {"question_entity": "Gil", "answer": "Boston", "relation": "P19", "policy": "linked"}
    text = "another_country: Gil: actor and writer, Italy; Boston: capital of Massachusetts, United States"
    assert describe("Q70", "Q71", **named).rejects == {"r": ("dropped_in_review", f"{text}; dropped by policy auto")}
    assert describe("Q70", "Q71", **{**named, "policy": "smallest"}).rejects == {}
    left = describe("Q70", "Q71", **named, reviewing=ReviewPolicyAndDecisions(policy="manual"))
    assert left.rejects["r"][0] == "not_reviewed"
    decided = ReviewItem.model_validate(left.extras[0] | {"decision": "keep", "reviewer": "Eve"})
    kept = describe("Q70", "Q71", **named, reviewing=ReviewPolicyAndDecisions(policy="manual", decisions=(decided,)))
    assert kept.rows["r"]["reviewed_by"] == ["Eve"]


def test_row_result_does_not_depend_on_other_rows_in_batch(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_hal = {"question_entity": "Hal", "question_entity_qid": "Q74"}
    born = {**of_hal, "answer": "Boston", "answer_entity_qid": "Q71", "fact_in_graph": False, "other_values": ["Rome"]}
    rows = [
        make_row(LinkedQuestion, "born", **born),
        make_row(LinkedQuestion, "married", **of_hal, answer="Ida", answer_entity_qid="Q75", relation="P26"),
    ]
    services = SimpleNamespace(wikidata=wikidatas.sparql())
    both = run_step(describe_entities, rows, services, tmp_path / "both", monkeypatch, granola_inputs())
    one = run_step(describe_entities, rows[:1], services, tmp_path / "one", monkeypatch, granola_inputs())
    assert both.rejects["married"][0] == "lifetimes_disagree"
    assert both.extras == one.extras


def test_failed_description_request_rejects_row_as_retryable(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", "schema:description")
    services = SimpleNamespace(wikidata=wikidatas.sparql())
    rows = [make_row(LinkedQuestion, "r")]
    left = run_step(describe_entities, rows, services, tmp_path, monkeypatch, granola_inputs())
    assert left.rejects["r"][0] == "wikidata_failed"
    assert left.receipt.unsettled == 1


@pytest.fixture
def views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Left]]:
    """Measure rows (row id → titles of both articles); Ada has 3 + 4 views, Bo is unknown, Cy fails."""
    server = Loopback()
    asked: list[str] = []

    def answer(seen: Seen) -> dict[str, Any]:
        title, _, start, end = seen.path.split("/")[-4:]
        assert (start, end) == ("20230101", "20231231")
        asked.append(title)
        if title == "Cy":
            return {"status": 503, "text": "overloaded"}
        return {"json": {"items": [{"views": 3}, {"views": 4}]}} if title == "Ada" else {"status": 404, "json": {}}

    server.handle = answer

    def run(**titles: tuple[str | None, str | None]) -> Left:
        rows = [
            make_row(DescribedQuestion, row_id, question_entity_title=entity, answer_entity_title=of_answer)
            for row_id, (entity, of_answer) in titles.items()
        ]
        services = SimpleNamespace(pageviews=PageviewsClient(server.url, "v", LIMITS, AGENT))
        inputs = granola_inputs(views_from="20230101", views_to="20231231")
        left = run_step(measure_popularity, rows, services, tmp_path, monkeypatch, inputs)
        assert asked.count("Ada") <= 1
        return left

    yield run
    server.close()


def test_article_pageviews_are_summed_and_unknown_views_stay_none(views: Callable[..., Left]) -> None:
    left = views(r=("Ada", "Bo"), none=(None, "Ada"))
    popularity = {
        row_id: (row["question_entity_popularity"], row["answer_entity_popularity"])
        for row_id, row in left.rows.items()
    }
    assert popularity == {"r": (7, None), "none": (None, 7)}


def test_failed_pageviews_request_rejects_row_as_retryable(views: Callable[..., Left]) -> None:
    left = views(well=("Ada", "Ada"), ill=("Ada", "Cy"))
    assert (set(left.rows), left.rejects["ill"][0]) == ({"well"}, "pageviews_failed")
    assert left.receipt.unsettled == 1
