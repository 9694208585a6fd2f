"""Test the pool of a pair, its initial paragraph, and counts of relations, with the real steps."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.rows.biographies import described_pair, make_piece, pooled_pair, resolved_pair
from support.steps.inputs import biokalma_inputs
from support.steps.steps import Left, run_step
from support.webs.loopback import Loopback, Seen
from support.webs.two_wikidatas import AGENT, LIMITS, TwoWikidatas

from factmill.tasks.assets import load_property_numbers
from factmill.tasks.biokalma.core.rows import PairWithInitialParagraph, PairWithKnowledgePools, ResolvedPair
from factmill.tasks.biokalma.pair_preparation import count_relations_over_build, find_pair_paragraphs, pool_knowledge
from factmill.tasks.clients.wikipedia import WikipediaClient

LABELS = {
    "P19": "place of birth", "P21": "sex or gender", "P22": "father", "P27": "country of citizenship", "P31": "instance of",
    "P40": "child", "P106": "occupation", "P569": "date of birth", "P570": "date of death", "P571": "inception",
    "P585": "point in time", "P734": "family name", "P1082": "population", "P1343": "described by source",
    "P2048": "height",
    "Q5": "human", "Q84": "London", "Q145": "United Kingdom", "Q170790": "mathematician", "Q36180": "writer",
    "Q6581072": "female", "Q1": "Ada Lovelace", "Q2": 'Gaius "Caesar", Julius', "Q220": "Rome", "Q300": "Acme's \\ Ltd",
}  # fmt: skip


def write_date_statement(qid: str, pid: str, day: str, precision: int, name: str) -> str:
    """Return the triples of a statement with a date and its value node."""
    date = f'"{day}T00:00:00Z"^^xsd:dateTime'
    return f"""
        wd:{qid} p:{pid} wds:{qid}-{name}
        wds:{qid}-{name} ps:{pid} {date}
        wds:{qid}-{name} psv:{pid} v:{qid}-{name}
        v:{qid}-{name} wikibase:timeValue {date}
        v:{qid}-{name} wikibase:timePrecision "{precision}"^^xsd:integer
    """


FACTS = f"""
    wd:Q1 wdt:P31 wd:Q5
    wd:Q1 wdt:P21 wd:Q6581072
    wd:Q1 wdt:P27 wd:Q145
    wd:Q1 wdt:P734 wd:Q36180
    wd:Q1 wdt:P1343 wd:Q36180
    wd:Q1 wdt:P106 wd:Q36180
    wd:Q1 wdt:P106 wd:Q170790
    wd:Q1 wdt:P106 wd:Q998
    wd:Q1 wdt:P9998 wd:Q84
    wd:Q1 wdt:P19 wd:Q84
    wd:Q1 p:P106 wds:Q1-writes
    wds:Q1-writes ps:P106 wd:Q36180
    wd:Q1 p:P106 wds:Q1-also-writes
    wds:Q1-also-writes ps:P106 wd:Q36180
    wd:Q1 wdt:P2048 "1.65"^^xsd:decimal
    wd:Q1 wdt:P22 wd:Q2
    {write_date_statement("Q1", "P569", "1815-12-10", 11, "born")}
    {write_date_statement("Q1", "P570", "1852-11-27", 11, "died")}
    {write_date_statement("Q1", "P570", "1851-01-01", 9, "wrong")}
    wds:Q1-wrong wikibase:rank wikibase:DeprecatedRank
    {write_date_statement("Q1", "P585", "1843-01-01", 9, "wrote")}
    wd:Q2 wdt:P31 wd:Q5
    wd:Q2 wdt:P27 wd:Q220
    wd:Q2 wdt:P19 wd:Q220
    {write_date_statement("Q2", "P569", "-0099-07-12", 11, "born")}
    {write_date_statement("Q2", "P570", "-0043-01-01", 9, "died")}
    wd:Q3 wdt:P106 wd:Q36180
    {write_date_statement("Q3", "P569", "1593-07-01", 10, "born")}
    {write_date_statement("Q3", "P569", "1593-07-08", 11, "born-too")}
    {write_date_statement("Q3", "P570", "1656-01-01", 7, "died")}
    wd:Q4 wdt:P106 wd:Q36180
    wd:Q5 wdt:P31 wd:Q5
    wd:Q6 wdt:P31 wd:Q5
    wd:Q6 wdt:P21 wd:Q6581072
    wd:Q6 wdt:P106 wd:Q998
    wd:Q6 wdt:P1082 "7"^^xsd:decimal
    wd:Q7 wdt:P569 "0000-01-01T00:00:00Z"^^xsd:dateTime
    wd:Q300 wdt:P40 wd:Q300
    {write_date_statement("Q300", "P571", "1998-09-04", 11, "begun")}
"""
ARTICLES = """
    enwiki:Ada schema:about wd:Q1
    enwiki:Ada schema:isPartOf <https://en.wikipedia.org/>
    enwiki:Ada schema:name "Ada Lovelace"@en
    enwiki:Caesar schema:about wd:Q2
    enwiki:Caesar schema:isPartOf <https://en.wikipedia.org/>
    enwiki:Caesar schema:name "Julius Caesar"@en
"""
NAMES = "\n".join(
    f'wd:{each} rdfs:label "{label}"@en'
    for each, label in {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in LABELS.items()}.items()
)


@pytest.fixture(scope="module")
def wikidatas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWikidatas]:
    both = TwoWikidatas(f"{FACTS}\n{ARTICLES}\n{NAMES}", tmp_path_factory.mktemp("wikidata"))
    yield both
    both.close()


@pytest.fixture
def pool(wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Pool the knowledge of pairs, with both engines."""

    def run(*rows: ResolvedPair, of: str = "Q5") -> Left:
        def step(services: Any, folder: Path) -> Left:
            return run_step(pool_knowledge, rows, services, folder, monkeypatch, biokalma_inputs(class_qid=of))

        return wikidatas.run(step, tmp_path)

    return run


def format_pieces(pieces: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["pid"], each["value_qid"], each["value"], each["precision"], each["statement"]) for each in pieces]


def test_pool_holds_labelled_items_and_dates_without_excluded_properties(
    pool: Callable[..., Left],
) -> None:
    left = pool(resolved_pair("a", "Q1", "Q2", relation="P22"))
    row = left.rows["a"]
    assert format_pieces(row["person_pool"]) == [
        ("P19", "Q84", "London", None, None),
        ("P22", "Q2", 'Gaius "Caesar", Julius', None, None),
        ("P106", "Q36180", "writer", None, "Q1-also-writes"),
        ("P106", "Q170790", "mathematician", None, None),
        ("P569", None, "1815-12-10", 11, "Q1-born"),
        ("P570", None, "1852-11-27", 11, "Q1-died"),
    ]
    assert format_pieces(row["other_pool"]) == [
        ("P19", "Q220", "Rome", None, None),
        ("P569", None, "0100-07-12 BC", 11, "Q2-born"),
        ("P570", None, "44 BC", 9, "Q2-died"),
    ]
    assert {(each["qid"], each["property"]) for each in row["person_pool"]} == {
        ("Q1", LABELS[pid]) for pid in ("P19", "P22", "P106", "P569", "P570")
    }
    assert row["birth_years"] == [1815, -100]
    assert (row["countries"], row["cities"], row["occupations"]) == (
        ["Q145", "Q220"],
        ["Q84", "Q220"],
        ["Q998", "Q36180", "Q170790"],
    )


def test_dates_keep_their_precision_and_bc_years_are_negative(
    pool: Callable[..., Left],
) -> None:
    left = pool(resolved_pair("a", "Q3", "Q7"))
    row = left.rows["a"]
    dates = [(each["value"], each["precision"]) for each in row["person_pool"] if each["value_qid"] is None]
    assert dates == [("1593-07", 10), ("1593-07-08", 11), ("17th century", 7)]
    assert [(each["value"], each["precision"]) for each in row["other_pool"]] == [("0001-01-01 BC", None)]
    assert row["birth_years"] == [1593, 1593, -1]


def test_organisation_pool_holds_founding_date(pool: Callable[..., Left]) -> None:
    row = pool(resolved_pair("a", "Q300", "Q1"), of="Q43229").rows["a"]
    assert format_pieces(row["person_pool"]) == [
        ("P40", "Q300", "Acme's \\ Ltd", None, None),
        ("P571", None, "1998-09-04", 11, "Q300-begun"),
    ]
    assert row["birth_years"] == [1815]


def test_person_pool_excludes_organisation_properties(pool: Callable[..., Left]) -> None:
    row = pool(resolved_pair("a", "Q300", "Q1")).rows["a"]
    assert format_pieces(row["person_pool"]) == [("P40", "Q300", "Acme's \\ Ltd", None, None)]
    assert {571, 740, 112} <= load_property_numbers("organisation_properties")
    of_people = load_property_numbers("person_properties") | {19, 20, 26, 40, 106, 463, 737, 800, 1830}
    assert not load_property_numbers("organisation_properties") & of_people


@pytest.mark.parametrize(
    ("person", "other", "names"),
    [
        ("Q2", "Q3", ("Cato Porcius (the elder)", "Cato Porcius (the younger)")),
        ("Q1", "Q2", ("Cato Porcius (the younger)", "Cato Porcius (the elder)")),
        ("Q1", "Q4", None),
    ],
)
def test_namesakes_are_distinguished_by_birth_dates(
    pool: Callable[..., Left], person: str, other: str, names: tuple[str, str] | None
) -> None:
    left = pool(resolved_pair("a", person, other, person="Cato Porcius", other="cato porcius"))
    if names:
        result = left.rows["a"]["person"], left.rows["a"]["other"]
        assert [each.casefold() for each in result] == [each.casefold() for each in names]
    else:
        reason, detail = left.rejects["a"]
        assert (reason, detail.startswith("Q1 and Q4 ")) == ("same_name", True)
        assert "Cato Porcius" in detail


def test_pool_of_one_piece_is_accepted_and_empty_pool_rejects_pair(pool: Callable[..., Left]) -> None:
    left = pool(
        resolved_pair("one", "Q4", "Q1"),
        resolved_pair("nothing but its class", "Q1", "Q5"),
        resolved_pair("nothing with a label", "Q6", "Q1"),
        resolved_pair("unknown", "Q9999", "Q1"),
    )
    assert format_pieces(left.rows["one"]["person_pool"]) == [("P106", "Q36180", "writer", None, None)]
    assert {row_id: (reason, detail.split()[0]) for row_id, (reason, detail) in left.rejects.items()} == {
        "nothing but its class": ("empty_pool", "Q5"),
        "nothing with a label": ("empty_pool", "Q6"),
        "unknown": ("empty_pool", "Q9999"),
    }
    assert left.receipt.unsettled == 0


def test_excluded_properties_include_those_of_paper() -> None:
    paper = {31, 136, 21, 734, 735, 27, 17, 1343}
    assert paper < load_property_numbers("pool_left_out")
    assert not load_property_numbers("pool_left_out") & {19, 20, 26, 40, 106, 569, 570}


def test_pool_that_cannot_be_read_is_left_for_later_run(
    wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [resolved_pair("hard", "Q1", "Q3"), resolved_pair("easy", "Q1", "Q2")]

    def run() -> Left:
        services = SimpleNamespace(wikidata=wikidatas.sparql(LIMITS.model_copy(update={"batch": 1})))
        return run_step(pool_knowledge, rows, services, tmp_path / "run", monkeypatch, biokalma_inputs())

    monkeypatch.setattr(wikidatas, "too_much", "wd:Q3 ")
    left = run()
    reason, detail = left.rejects["hard"]
    assert (reason, detail.partition(":")[0], left.receipt.unsettled) == ("wikidata_failed", "http_504", 1)
    assert left.rows.keys() == {"easy"}
    monkeypatch.setattr(wikidatas, "too_much", "")
    assert run().rows.keys() == {"hard", "easy"}


class Wiki:
    """A Wikipedia of articles: title → revisions (day, number, HTML), oldest first."""

    def __init__(self) -> None:
        self.server = Loopback()
        self.server.handle = self._answer
        self.articles: Mapping[str, list[tuple[str, int, str]]] = {}
        self.failing = ""
        """Title of the page for which the server fails."""

    def client(self) -> WikipediaClient:
        return WikipediaClient(self.server.url, "p", LIMITS, AGENT)

    def _answer(self, seen: Seen) -> dict[str, Any]:
        if seen.query["action"] == "parse":
            wanted = int(seen.query["oldid"])
            title, html = next(
                (title, html) for title, revs in self.articles.items() for _, number, html in revs if number == wanted
            )
            return {"json": {"parse": {"title": title, "pageid": 1, "revid": wanted, "text": html}}}
        title = seen.query["titles"]
        if title == self.failing:
            return {"status": 503, "text": "Service Unavailable"}
        page: dict[str, Any] = {"ns": 0, "title": title}
        if title not in self.articles:
            return {"json": {"query": {"pages": [{**page, "missing": True}]}}}
        until = seen.query.get("rvstart", "9999")
        known = [(day, number) for day, number, _ in self.articles[title] if day <= until]
        shown = known[:1] if seen.query["rvdir"] == "newer" else known[-1:]
        revisions = [{"revid": number, "timestamp": day} for day, number in shown]
        return {"json": {"query": {"pages": [{**page, "pageid": 1, **({"revisions": revisions} if known else {})}]}}}


@pytest.fixture
def wiki() -> Iterator[Wiki]:
    wiki = Wiki()
    yield wiki
    wiki.server.close()


@pytest.fixture
def describe(
    wiki: Wiki, wikidatas: TwoWikidatas, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Left]:
    """Find the paragraph of pairs, with both engines."""

    def run(*rows: PairWithKnowledgePools) -> Left:
        def step(services: Any, folder: Path) -> Left:
            return run_step(find_pair_paragraphs, rows, services, folder, monkeypatch, biokalma_inputs())

        return wikidatas.run(step, tmp_path, wikipedia=wiki.client())

    return run


def ada_and_caesar(row_id: str, **changed: Any) -> PairWithKnowledgePools:
    """Return a pair of two people with articles; he is her father."""
    father = make_piece("Q1", "P22", "Julius Caesar", "Q2", property="father")
    names = {"person": "Ada Lovelace", "other": "Julius Caesar", "relation": "P22"}
    return pooled_pair(row_id, [father], [make_piece("Q2", "P570", "44 BC")], **{**names, **changed})


ADA = "<p><b>Ada Lovelace</b> was a mathematician. She wrote much. Her father, Julius Caesar, was none.</p>"
CAESAR = "<p>Julius Caesar was a Roman. <ul><li>His daughter Ada Lovelace</li></ul></p>"


def origin(left: Left, row_id: str) -> tuple[Any, ...]:
    row = left.rows[row_id]
    return row["text"], row["text_source"], row["text_pages"], row["licence"]


def test_paragraph_from_file_is_used_unchanged(wiki: Wiki, describe: Callable[..., Left]) -> None:
    left = describe(ada_and_caesar("a", paragraph="Ada,\n daughter of  Caesar"), ada_and_caesar("b", paragraph="A! B?"))
    assert origin(left, "a") == ("Ada, daughter of Caesar.", "file", [], "CC0-1.0")
    assert left.rows["b"]["text"] == "A! B?"
    assert wiki.server.seen == [], "no article is needed"


def test_article_naming_both_people_replaces_missing_paragraph(wiki: Wiki, describe: Callable[..., Left]) -> None:
    wiki.articles = {
        "Ada Lovelace": [("2019-01-01T00:00:00Z", 6, "<p>Ada Lovelace.</p>"), ("2025-01-01T00:00:00Z", 7, ADA),
                         ("2026-02-01T00:00:00Z", 8, "<p>Ada Lovelace, no child of Julius Caesar.</p>")],
        "Julius Caesar": [("2025-01-01T00:00:00Z", 9, CAESAR)],
    }  # fmt: skip
    left = describe(ada_and_caesar("a"))
    text = "Ada Lovelace was a mathematician. Her father, Julius Caesar, was none."
    assert origin(left, "a") == (text, "article", ["Ada Lovelace, revision 7"], "CC-BY-SA-4.0")

    left = describe(ada_and_caesar("b", person="Augusta Ada King"))
    assert left.rows["b"]["text_source"] == "fact", "an article with another name for its subject adds no facts"


def test_article_of_other_person_is_used_when_first_names_only_one(wiki: Wiki, describe: Callable[..., Left]) -> None:
    wiki.articles = {
        "Ada Lovelace": [("2025-01-01T00:00:00Z", 7, "<p>Ada Lovelace was a mathematician.</p>")],
        "Julius Caesar": [("2025-01-01T00:00:00Z", 9, CAESAR)],
    }
    left = describe(ada_and_caesar("a"))
    text = "Julius Caesar was a Roman. His daughter Ada Lovelace."
    assert origin(left, "a") == (text, "article", ["Julius Caesar, revision 9"], "CC-BY-SA-4.0")


@pytest.mark.parametrize(
    "articles",
    [
        {},
        {"Ada Lovelace": [("2026-01-02T00:00:00Z", 7, ADA)], "Julius Caesar": [("2026-01-02T00:00:00Z", 9, CAESAR)]},
        {"Ada Lovelace": [("2025-01-01T00:00:00Z", 7, "")], "Julius Caesar": [("2025-01-01T00:00:00Z", 9, "<p>x")]},
    ],
    ids=["no article", "newer than the epoch", "empty"],
)
def test_relation_sentence_replaces_missing_article(
    wiki: Wiki, describe: Callable[..., Left], articles: dict[str, Any]
) -> None:
    wiki.articles = articles
    left = describe(ada_and_caesar("a"), ada_and_caesar("turned", relation="P40"))
    assert origin(left, "a") == ("Ada Lovelace's father is Julius Caesar.", "fact", [], "CC0-1.0")
    ((row_id, (reason, detail)),) = left.rejects.items()
    assert (row_id, reason, " P40 " in detail) == ("turned", "no_paragraph", True)


def test_pairs_without_articles_send_no_wikipedia_request(wiki: Wiki, describe: Callable[..., Left]) -> None:
    pools = [make_piece("Q4", "P106", "writer", "Q36180")], [make_piece("Q3", "P106", "writer", "Q36180")]
    left = describe(pooled_pair("a", *pools, relation="P106"))
    assert (left.rejects["a"][0], wiki.server.seen) == ("no_paragraph", [])


def test_failing_wikipedia_leaves_pair_for_later_run(wiki: Wiki, describe: Callable[..., Left]) -> None:
    wiki.articles = {title: [("2025-01-01T00:00:00Z", 7, ADA)] for title in ("Ada Lovelace", "Julius Caesar")}
    wiki.failing = "Julius Caesar"
    left = describe(ada_and_caesar("a"), ada_and_caesar("b", paragraph="Ada."))
    reason, detail = left.rejects["a"]
    assert (reason, detail.partition(":")[0], left.receipt.unsettled) == ("wikipedia_failed", "http_503", 1)
    assert left.rows.keys() == {"b"}

    wiki.failing = ""
    assert describe(ada_and_caesar("a")).rows["a"]["text_source"] == "article"


def test_relations_are_counted_over_all_graphs_of_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pools(person: str, other: str, *more: str) -> PairWithInitialParagraph:
        of_person = [make_piece(person, "P106", value, "Q1") for value in ("writer", "poet", "critic")]
        of_other = [make_piece(other, "P106", "writer", "Q1"), *(make_piece(other, pid, "x") for pid in more)]
        return described_pair(f"{person}-{other}", "Text.", of_person, of_other)

    rows = [pools("Q1", "Q2", "P569", "P19"), pools("Q3", "Q4", "P569"), pools("Q1", "Q5")]
    left = run_step(count_relations_over_build, rows, SimpleNamespace(), tmp_path / "run", monkeypatch)
    assert [(each["id"], each["graphs"], each["graphs_in_all"]) for each in left.extras] == [
        ("P19", 1, 6),
        ("P106", 6, 6),
        ("P569", 2, 6),
    ]
    counted = [{each["id"]: each["graphs"] for each in row["relation_counts"]} for row in left.rows.values()]
    assert counted == [{"P106": 6, "P569": 2, "P19": 1}, {"P106": 6, "P569": 2}, {"P106": 6}]
