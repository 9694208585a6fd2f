"""Test sets of a Wikidata with dated articles, by SPARQL and as a local graph, and questions made from them."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.graphs.namesakes import write_item
from support.steps.inputs import fanout_inputs
from support.steps.steps import Left, read_unit
from support.webs.small_wiki import SmallPage, SmallWiki
from support.webs.two_wikidatas import TwoWikidatas

from factmill.tasks.core.calls.wikipedia import make_revision_html_call
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.fanoutqa.core.rows import GatheredFanOutQuestion
from factmill.tasks.fanoutqa.gather import gather_questions
from factmill.tasks.fanoutqa.sources.question_files import load_set_kinds
from factmill.tasks.storage.shards import load_shard_table
from factmill.tasks.text.wikidata_ids import is_qid

NEIGHBOURS = ("Avia", "Bellmark", "Corland", "Dunmark", "Estria", "Fenland")
CAPITALS = ("Avport", "Belltown", "Corby", "Dunwick", "Estby", "Fenborough")
COUNTRY, NOVEL = "Q6256", "Q8261"
BORDERS, NOVELS = f"P47 {COUNTRY}", f"P50 {NOVEL}"


def write_page(qid: str, title: str) -> str:
    """Return the triples of an item's English article."""
    address = title.replace(" ", "_")
    return f"""
        enwiki:{address} schema:about wd:{qid}
        enwiki:{address} schema:isPartOf <https://en.wikipedia.org/>
        enwiki:{address} schema:name "{title}"@en
    """


def write_world() -> str:
    """Return a country with six neighbours, one with three, a lake that borders five, and seven novels."""
    midland = [f"P47 Q{number}" for number in range(1, 7)]
    lines = [write_item("Q100", "Midland", *midland, of=[COUNTRY]), write_page("Q100", "Midland")]
    lines += [write_item("Q101", "Smallia", "P47 Q1", "P47 Q2", "P47 Q3", of=[COUNTRY]), write_page("Q101", "Smallia")]
    lines += [write_item("Q102", "Lake Wide", *midland[:5], of=["Q23397"]), write_page("Q102", "Lake Wide")]
    for number, (name, capital) in enumerate(zip(NEIGHBOURS, CAPITALS, strict=True), 1):
        lines += [write_item(f"Q{number}", name, f"P36 Q1{number}", of=[COUNTRY]), write_page(f"Q{number}", name)]
        lines += [write_item(f"Q1{number}", capital, of=["Q515"])]
        lines += [f'wd:Q{number} wdt:P1082 "{number}00123"^^xsd:decimal']
    for number in range(1, 8):
        lines += [write_item(f"Q20{number}", f"Novel {'ABCDEFG'[number - 1]}", f"P50 Q30{number}", of=[NOVEL])]
        lines += [write_page(f"Q20{number}", f"Novel {'ABCDEFG'[number - 1]}")]
        lines += [write_item(f"Q30{number}", f"Writer {'ABCDEFG'[number - 1]}")]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def wikidatas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWikidatas]:
    both = TwoWikidatas(write_world(), tmp_path_factory.mktemp("wikidata"))
    yield both
    both.close()


@pytest.fixture
def wiki() -> Iterator[SmallWiki]:
    wiki = SmallWiki()
    wiki.add(SmallPage(100, "Midland", f"<p>Midland borders on {', '.join(NEIGHBOURS)}.</p>"))
    for number, (name, capital) in enumerate(zip(NEIGHBOURS, CAPITALS, strict=True), 1):
        text = f"<p>{name} has {number}00,123 inhabitants. Its capital is {capital}.</p>"
        wiki.add(SmallPage(number, name, text))
    for at, letter in enumerate("ABCDEFG"):
        wiki.add(SmallPage(201 + at, f"Novel {letter}", f"<p>It was written by Writer {letter}.</p>"))
    yield wiki
    wiki.close()


@pytest.fixture
def make(
    wikidatas: TwoWikidatas, wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Left]:
    """Make the questions of a kind of sets, with both engines."""

    def run(unit: str, **changed: Any) -> Left:
        def step(services: Any, folder: Path) -> Left:
            return read_unit(gather_questions, unit, services, folder, monkeypatch, fanout_inputs(**changed))

        return wikidatas.run(step, tmp_path, wikipedia=wiki.services().wikipedia)

    return run


def read(left: Left) -> list[GatheredFanOutQuestion]:
    return [GatheredFanOutQuestion.model_validate(row) for row in left.rows.values()]


def find_capitals(left: Left) -> list[GatheredFanOutQuestion]:
    """Return the question about all capitals, or None."""
    return [row for row in read(left) if row.source_name == "wikidata P47 Q6256 Q100 P36"]


def test_country_neighbours_are_asked_via_country_article(make: Callable[..., Left]) -> None:
    left = make(BORDERS)
    (row,) = find_capitals(left)
    assert json.loads(row.answer or "") == dict(zip(NEIGHBOURS, CAPITALS, strict=True))
    tree = row.tree()
    assert tree.articles == ["Midland", *NEIGHBOURS]
    first = tree.decomposition[0]
    assert first.question == "What are the countries that share a border with Midland?"
    assert first.evidence
    assert (first.evidence.pageid, first.evidence.revid) == (100, 1000)
    assert first.evidence.url == "https://en.wikipedia.org/wiki/Midland"
    assert (row.source, row.licence, row.question, row.author) == ("generated", "CC0-1.0", "", None)
    assert row.categories == ["countries"]
    # with six members, no plan chooses five
    assert {json.loads(each.wording or "")["choice"] for each in read(left)} == {""}
    # a lake is no country, and three neighbours are too few
    assert {each.source_name.split()[3] for each in read(left)} == {"Q100"}
    assert left.receipt.rows_in == len(left.rows) + len(left.rejects)


def test_article_urls_use_configured_wiki(make: Callable[..., Left]) -> None:
    (row,) = find_capitals(make(BORDERS, wiki="https://wiki.example/mw"))
    first = row.tree().decomposition[0].evidence
    assert first
    assert first.url == "https://wiki.example/mw/index.php?title=Midland"


def test_calls_are_recorded_under_questions_that_used_them(make: Callable[..., Left], wiki: SmallWiki) -> None:
    def file(unit: str) -> tuple[Left, dict[str, set[str]]]:
        left = make(unit)
        ids: dict[str, set[str]] = defaultdict(set)
        for use in load_shard_table(left.receipt.shard, "uses").to_pylist():
            ids[use["key"]].add(use["id"])
        return left, ids

    def name_text(page: int) -> str:
        return make_revision_html_call(wiki.services().wikipedia.identity, 10 * page, f"Page {page}").key

    left, ids = file(BORDERS)
    assert set().union(*ids.values()) == {*left.rows, *left.rejects, BORDERS}
    assert ids[name_text(100)] == ids[name_text(1)] == {*left.rows, *left.rejects}
    wiki.add(SmallPage(201, "Novel A", "<p>It was written by somebody else.</p>"))
    left, ids = file(NOVELS)
    assert ids[name_text(201)] == {NOVELS}
    assert ids[name_text(202)] == set(left.rows)


def test_named_set_question_lists_its_novels(make: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.add(SmallPage(201, "Novel A", "<p>It was written by somebody else.</p>"))
    (row,) = read(make(NOVELS))
    names = json.loads(row.wording or "")["names"]
    assert set(names) == {f"Novel {letter}" for letter in "BCDEFG"}
    assert json.loads(row.answer or "") == {name: name.replace("Novel", "Writer") for name in names}
    assert {sub.question for sub in row.tree().decomposition} == {f"Who wrote the novel {name}?" for name in names}


@pytest.mark.parametrize(
    ("pages", "reason", "part"),
    [
        ([SmallPage(100, "Midland", "<p>It is flat.</p>")], "list_not_verified", "Midland does not name Avia"),
        ([SmallPage(100, "Midland", written="2024-01-01T00:00:00Z")], "no_list_article", "younger_than_epoch"),
        ([SmallPage(3, "Corland", written="2024-01-01T00:00:00Z")], "member_without_article", ": Corland: "),
        ([SmallPage(3, "Corland", redirect_to="Bellmark")], "same_article", "the same article"),
        (
            [SmallPage(3, "Corland", "<p>It is old.</p>")],
            "member_not_verified",
            "Corland, P36: the article Corland does",
        ),
        (
            [SmallPage(100, "Midland", f"<p>Midland borders on {', '.join(NEIGHBOURS)} and Smallia.</p>")],
            "list_not_verified",
            "names Smallia ",
        ),
    ],
)
def test_list_not_confirmed_by_articles_at_epoch_is_rejected(
    make: Callable[..., Left], wiki: SmallWiki, pages: Sequence[SmallPage], reason: str, part: str
) -> None:
    wiki.add(*pages)
    left = make(BORDERS, least_members=3) if "Smallia" in part else make(BORDERS)
    assert any(found == reason and part in detail for found, detail in left.rejects.values()), left.rejects
    assert find_capitals(left) == []


def test_number_of_sets_tried_is_limited(make: Callable[..., Left]) -> None:
    def count(left: Left) -> int:
        owners = [json.loads(row["decomposition"])[0]["evidence"]["title"] for row in left.rows.values()]
        return len({*owners, *(detail.split(":")[0] for _, detail in left.rejects.values())})

    assert count(make(BORDERS, least_members=3, sets_a_kind=1)) <= count(make(BORDERS, least_members=3))


def test_wikipedia_failure_rejects_set_as_retryable(make: Callable[..., Left], wiki: SmallWiki) -> None:
    wiki.trouble = lambda seen: {"status": 503, "text": "busy"} if seen.query.get("titles") == "Estria" else None
    left = make(BORDERS)
    assert [reason for reason, _ in left.rejects.values()] == ["wikipedia_failed"]
    assert left.receipt.unsettled == 1
    assert left.rows == {}


def test_failed_wikidata_fact_listing_stops_run(
    wikidatas: TwoWikidatas, wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wikidatas.too_much = "P47"
    try:
        services: Any = type("Services", (), {"wikidata": wikidatas.sparql(), "wikipedia": wiki.services().wikipedia})()
        with pytest.raises(ServiceUnreachable, match="facts of P47"):
            read_unit(gather_questions, BORDERS, services, tmp_path, monkeypatch, fanout_inputs(sets_a_kind=1))
    finally:
        wikidatas.too_much = ""


def test_set_kinds_are_named_by_relation_and_class() -> None:
    assert BORDERS in load_set_kinds()
    assert all(is_qid(unit.split()[1]) for unit in load_set_kinds())
