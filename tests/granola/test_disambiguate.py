"""Which items GRANOLA-EQ's names are, what these are, and how much they are looked at."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.graphs.namesakes import write_item
from support.rows.granola_questions import LIMITS, make_row
from support.webs.loopback import Loopback, Seen
from support.webs.two_wikidatas import AGENT, TwoWikidatas
from support.work.inputs import granola_inputs
from support.work.steps import Left, run_step

from tasks.clients.pageviews import Pageviews
from tasks.granola.core.rows import DescribedQuestion, EntityQuestion, LinkedQuestion
from tasks.granola.disambiguate import describe_entities, find_qids, measure_popularity

WORLD = [
    write_item("Q10", "Ada", "P19 Q84"),
    write_item("Q84", "London", of=["Q515"]),
    write_item("Q92561", "London", of=["Q515"]),
    write_item("Q20", "Bo", "P19 Q92561"),
    write_item("Q30", "Cy", "P19 Q60"),
    write_item("Q31", "Sy", "P19 Q84", aliases=["Cy"]),
    write_item("Q40", "Di", "P27 Q84"),
    write_item("Q60", "Rome", of=["Q515"]),
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

    def run(*names: str, policy: str = "smallest") -> Left:
        pairs = [name.split(" > ") for name in names]
        rows = [
            make_row(EntityQuestion, name, question_entity=entity, answer=answer)
            for name, (entity, answer) in zip(names, pairs, strict=True)
        ]
        return wikidatas.run(
            lambda services, folder: run_step(
                find_qids, rows, services, folder, monkeypatch, granola_inputs(policy=policy)
            ),
            tmp_path,
        )

    return run


def pairs(left: Left) -> dict[str, tuple[str, str]]:
    return {name: (row["question_entity_qid"], row["answer_entity_qid"]) for name, row in left.rows.items()}


def test_names_become_items_and_all_that_bear_them_are_kept(link: Callable[..., Left]) -> None:
    left = link("Ada > Rome", "Ada > London")
    assert pairs(left) == {"Ada > Rome": ("Q10", "Q60"), "Ada > London": ("Q10", "Q84")}
    counted = [(row["question_entity_candidates"], row["answer_entity_candidates"]) for row in left.rows.values()]
    assert counted == [(1, 1), (1, 2)]
    told = {line["id"]: (line["via"], line["chosen"], line["linked"]) for line in left.extras}
    assert told == {
        "Ada > Rome-question-Q10": ("label", True, None),
        "Ada > Rome-answer-Q60": ("label", True, None),
        "Ada > London-question-Q10": ("label", True, True),
        "Ada > London-answer-Q84": ("label", True, True),
        "Ada > London-answer-Q92561": ("label", False, False),
    }


@pytest.mark.parametrize(
    ("name", "reason", "detail"),
    [
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
def test_names_of_no_item_and_of_the_wrong_ones_cost_the_row(
    link: Callable[..., Left], name: str, reason: str, detail: str
) -> None:
    left = link(name)
    found, told = left.rejects[name]
    assert (left.rows, found) == ({}, reason)
    assert detail in told


def test_the_other_policy_takes_the_items_that_hold_the_relation(link: Callable[..., Left]) -> None:
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


def test_where_no_items_of_the_names_hold_the_relation_the_smallest_numbers_stand(link: Callable[..., Left]) -> None:
    left = link("Di > London")
    assert pairs(left) == {"Di > London": ("Q40", "Q84")}
    assert [line["linked"] for line in left.extras] == [False, False, False]


@pytest.mark.parametrize("query", ["skos:altLabel", "?property ?value"])
def test_a_wikidata_that_fails_costs_the_rows_that_asked_it_for_now(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", query)
    rows = [
        make_row(EntityQuestion, "plain", question_entity="Ada", answer="Rome"),
        make_row(EntityQuestion, "ambiguous", question_entity="Ada", answer="London"),
    ]
    services = SimpleNamespace(wikidata=wikidatas.sparql())
    left = run_step(find_qids, rows, services, tmp_path / "run", monkeypatch, granola_inputs())
    lost = {"plain", "ambiguous"} if query == "skos:altLabel" else {"ambiguous"}
    assert {row_id: reason for row_id, (reason, _) in left.rejects.items()} == dict.fromkeys(lost, "wikidata_failed")
    assert left.receipt.unsettled == len(lost)


def test_items_are_described_or_the_row_goes(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        make_row(LinkedQuestion, name, question_entity_qid=entity, answer_entity_qid=answer)
        for name, entity, answer in (("both", "Q10", "Q84"), ("first", "Q10", "Q60"), ("second", "Q20", "Q84"))
    ]
    left = wikidatas.run(
        lambda services, folder: run_step(describe_entities, rows, services, folder, monkeypatch), tmp_path
    )
    described = {
        "question_entity_description": "English mathematician",
        "answer_entity_description": "capital of England",
        "question_entity_title": "Ada",
        "answer_entity_title": None,
        "question_entity_modified": None,
        "answer_entity_modified": None,
    }
    assert left.rows == {"both": {**rows[0].model_dump(), **described}}
    assert left.rejects == {
        "first": ("answer_entity_not_described", "Q60 has no English description"),
        "second": ("question_entity_not_described", "Q20 has no English description"),
    }


def test_items_that_cannot_be_described_for_now_may_be_tried_again(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wikidatas, "too_much", "schema:description")
    services = SimpleNamespace(wikidata=wikidatas.sparql())
    left = run_step(describe_entities, [make_row(LinkedQuestion, "r")], services, tmp_path, monkeypatch)
    assert left.rejects["r"][0] == "wikidata_failed"
    assert left.receipt.unsettled == 1


@pytest.fixture
def views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Left]]:
    """Measure rows (row id → titles of both articles); Ada was viewed 3 + 4 times, Bo is unknown, Cy fails."""
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
        services = SimpleNamespace(pageviews=Pageviews(server.url, "v", LIMITS, AGENT))
        inputs = granola_inputs(views_from="20230101", views_to="20231231")
        left = run_step(measure_popularity, rows, services, tmp_path, monkeypatch, inputs)
        assert asked.count("Ada") <= 1
        return left

    yield run
    server.close()


def test_views_of_both_articles_are_summed_and_unknown_is_not_zero(views: Callable[..., Left]) -> None:
    left = views(r=("Ada", "Bo"), none=(None, "Ada"))
    popularity = {
        row_id: (row["question_entity_popularity"], row["answer_entity_popularity"])
        for row_id, row in left.rows.items()
    }
    assert popularity == {"r": (7, None), "none": (None, 7)}


def test_views_that_cannot_be_had_for_now_cost_the_row(views: Callable[..., Left]) -> None:
    left = views(well=("Ada", "Ada"), ill=("Ada", "Cy"))
    assert (set(left.rows), left.rejects["ill"][0]) == ({"well"}, "pageviews_failed")
    assert left.receipt.unsettled == 1
