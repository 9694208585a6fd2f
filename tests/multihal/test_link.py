"""Test linking with the real step and clients: items found, and reasons for items not found."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.graphs.rdf_lines import spell_out
from support.rows.questions import typed_question
from support.steps.inputs import multihal_inputs
from support.steps.steps import Left, run_step
from support.webs.loopback import Loopback, Seen
from support.webs.wikidata_web import answer_from, open_store

from factmill.tasks.clients.falcon import FalconEntityLinkingClient
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.lookup import WikidataGraph, open_graph
from factmill.tasks.multihal.core.rows import AnswerTypedQuestion
from factmill.tasks.multihal.link import link_entities

LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=2, backoff_s=0.01, batch=50)
AGENT = "factmill tests"
ENTITY, RESOURCE = "http://www.wikidata.org/entity/", "http://dbpedia.org/resource/"
DOWN = {"status": 500, "text": "Internal Server Error"}

PAGES: dict[str, dict[str, Any]] = {
    "Berlin": {"pageid": 1, "pageprops": {"wikibase_item": "Q64"}},
    "Mercury": {"pageid": 2, "pageprops": {"wikibase_item": "Q308", "disambiguation": ""}},
    "Draft of nothing": {"pageid": 3},
    "Nobody at all": {"missing": True},
}
"""Maps a title to its page in the MediaWiki API's format."""
SAME_AS = f"""
    <{RESOURCE}Berlin> <http://www.w3.org/2002/07/owl#sameAs> wd:Q64
    <{RESOURCE}Emil_Berliner> <http://www.w3.org/2002/07/owl#sameAs> wd:Q57084
"""


class Web:
    """All services on one server; `falcon` maps each text to its response."""

    def __init__(self) -> None:
        self.server = Loopback()
        self.server.handle = self._answer
        self.falcon: dict[str, Any] = {}
        self.wikipedia: dict[str, Any] | None = None
        self.dbpedia = answer_from(open_store(SAME_AS))
        self.wikidata = answer_from(open_store("wd:Q61648 <http://www.w3.org/2002/07/owl#sameAs> wd:Q64"))

    def services(self, graph: WikidataGraph | None = None) -> Any:
        url = self.server.url
        return SimpleNamespace(
            falcon=FalconEntityLinkingClient(
                f"{url}/falcon2", "f", LIMITS.model_copy(update={"timeout_s": 60.0}), AGENT
            ),
            dbpedia=SparqlClient("DBpedia", f"{url}/dbpedia", "d", LIMITS, AGENT),
            wikipedia=WikipediaClient(url, "p", LIMITS, AGENT),
            wikidata=graph or SparqlClient("Wikidata", f"{url}/sparql", "w", LIMITS, AGENT),
            graph=lambda: graph,
        )

    def texts_linked(self) -> list[str]:
        """Return the texts sent to Falcon, sorted."""
        return sorted(seen.json()["text"] for seen in self.server.seen if seen.path == "/falcon2/api")

    def _answer(self, seen: Seen) -> dict[str, Any]:
        if seen.path == "/falcon2/api":
            made: dict[str, Any] = self.falcon.get(seen.json()["text"], {"json": {}})
            return made
        if seen.path == "/w/api.php":
            return self.wikipedia or self._answer_pages(seen)
        return self.dbpedia(seen) if seen.path == "/dbpedia" else self.wikidata(seen)

    def _answer_pages(self, seen: Seen) -> dict[str, Any]:
        titles = seen.query["titles"].split("|")
        return {"json": {"query": {"pages": [{"ns": 0, "title": title, **PAGES[title]} for title in titles]}}}


def found(*qids: str, resources: dict[str, str] | None = None, surface: str = "it") -> dict[str, Any]:
    """Return Falcon's response: items for one surface, and DBpedia resources (title → surface)."""
    entities = [{"URI": ENTITY + qid, "surface form": surface} for qid in qids]
    others = [{"URI": RESOURCE + title, "surface form": name} for title, name in (resources or {}).items()]
    return {"json": {"entities_wikidata": entities, "relations_wikidata": [], "entities_dbpedia": others}}


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.server.close()


@pytest.fixture
def link(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    """Link questions with Falcon, or by a graph's labels."""

    def run(*rows: AnswerTypedQuestion, graph: WikidataGraph | None = None) -> Left:
        inputs = multihal_inputs(linker="labels" if graph else "falcon")
        return run_step(link_entities, rows, web.services(graph), tmp_path / "run", monkeypatch, inputs)

    return run


def items(left: Left, row_id: str, role: str) -> list[tuple[str, str]]:
    return [(found["qid"], found["via"]) for found in left.rows[row_id][f"{role}_links"]]


def test_question_and_answer_are_linked_by_falcon_dbpedia_and_context_articles(
    web: Web, link: Callable[..., Left]
) -> None:
    web.falcon = {"Who?": found("Q1", "Q2", resources={"Emil_Berliner": "Emil"}), "He": found("Q5")}
    left = link(typed_question("a", "Who?", "He", context=["see https://en.wikipedia.org/wiki/Berlin."]))
    others = [("Q57084", "dbpedia"), ("Q64", "wikipedia")]
    assert items(left, "a", "subject") == [("Q1", "falcon"), ("Q2", "falcon"), *others]
    assert items(left, "a", "object") == [("Q5", "falcon")]
    assert left.rows["a"]["missed"] == []


def test_at_most_three_candidates_per_surface_are_kept_and_items_are_unique(
    web: Web, link: Callable[..., Left]
) -> None:
    web.falcon = {"Who?": found("Q4", "Q4", "Q3", "Q2", "Q1", resources={"Berlin": "b"}), "He": found("Q64", "Q64")}
    left = link(typed_question("a", "Who?", "He"))
    assert items(left, "a", "subject") == [("Q4", "falcon"), ("Q3", "falcon"), ("Q2", "falcon"), ("Q64", "dbpedia")]
    assert items(left, "a", "object") == [("Q64", "falcon")]


TROUBLE = {
    "status 500": (DOWN, "http_500: Internal Server Error"),
    "web page": ({"text": "<html>down"}, "html_instead_of_json: <html>down"),
    "no list": ({"json": {"entities_wikidata": 5}}, "malformed_reply: expected a list"),
}


@pytest.mark.parametrize(("answer", "cause"), TROUBLE.values(), ids=TROUBLE.keys())
def test_question_with_failed_falcon_request_is_retried_by_later_run(
    web: Web, link: Callable[..., Left], answer: dict[str, Any], cause: str
) -> None:
    web.falcon = {"Who?": answer, "He": found("Q5"), "Where?": found("Q2"), "There": answer}
    rows = [
        typed_question("subject", "Who?", "He"),
        typed_question("object", "Where?", "There"),
        typed_question("neither", "Where?", "He"),
    ]
    left = link(*rows)
    assert left.reasons == dict.fromkeys(("subject", "object"), "linker_failed")
    assert left.rejects["subject"][1].startswith(f"Falcon: 'Who?': {cause}")
    assert left.rejects["object"][1].startswith(f"Falcon: 'There': {cause}")
    assert (left.rows.keys(), left.receipt.unsettled) == ({"neither"}, 2)

    web.falcon |= {"Who?": found("Q1"), "There": found("Q6")}
    before = Counter(web.texts_linked())
    again = link(*rows)
    assert (again.rows.keys(), again.receipt.unsettled) == ({"subject", "object", "neither"}, 0)
    assert Counter(web.texts_linked()) - before == {"Who?": 1, "There": 1}, "answered calls are not sent again"


def test_text_of_two_questions_is_requested_once_and_its_failure_rejects_both(
    web: Web, link: Callable[..., Left]
) -> None:
    web.falcon = {"Who?": found("Q1"), "Where?": found("Q2"), "He": DOWN}
    left = link(typed_question("a", "Who?", "He"), typed_question("b", "Where?", "He"))
    assert left.reasons == dict.fromkeys("ab", "linker_failed")
    assert web.texts_linked() == ["He", "He", "Where?", "Who?"], "tried twice, for both"


NOTHING: dict[str, dict[str, Any]] = {
    "no key": {"json": {}},
    "null keys": {"json": {"entities_wikidata": None, "relations_wikidata": None, "entities_dbpedia": None}},
    "empty lists": found(),
    "relations alone": {"json": {"relations_wikidata": [{"URI": f"{ENTITY}P19", "surface form": "born"}]}},
    "no ids": {"json": {"entities_wikidata": [None, "Q1", ["a"], {"URI": None}, {"URI": "Berlin"}]}},
}


def test_question_and_answer_without_item_have_separate_reject_reasons(web: Web, link: Callable[..., Left]) -> None:
    web.falcon = {**NOTHING, "Where?": found("Q2")}
    left = link(
        *(typed_question(f"question: {shape}", shape, "There") for shape in NOTHING),
        *(typed_question(f"answer: {shape}", "Where?", shape, optional_output=["Not there"]) for shape in NOTHING),
        typed_question("a year", "Where?", "1990", answer_type="date", looked_for="1990"),
    )
    assert left.rejects == {
        **{f"question: {shape}": ("no_item_in_question", shape) for shape in NOTHING},
        **{f"answer: {shape}": ("no_item_in_answer", f"{shape}; Not there") for shape in NOTHING},
    }
    assert items(left, "a year", "object") == []
    assert left.receipt.unsettled == 0, "a retry would not help"


def test_reject_also_lists_links_that_were_missed(web: Web, link: Callable[..., Left]) -> None:
    web.falcon = {"Who?": found(resources={"Nobody": "nobody"}), "He": found("Q5")}
    left = link(typed_question("a", "Who?", "He", context=["https://en.wikipedia.org/wiki/Nobody_at_all"]))
    reason, detail = left.rejects["a"]
    assert reason == "no_item_in_question"
    result = detail.split("; ")
    assert result[0] == "Who?"
    assert result[1].startswith(f"{RESOURCE}Nobody: ")
    assert result[2].startswith("https://en.wikipedia.org/wiki/Nobody_at_all: ")


def test_value_answers_are_not_linked_and_at_most_two_other_answers_are(web: Web, link: Callable[..., Left]) -> None:
    web.falcon = {"Who?": found("Q1"), "He": found("Q5"), "B": found("Q6"), "C": found("Q5", "Q7")}
    left = link(
        typed_question("a", "Who?", "He", optional_output=["B", "C", "D"]),
        typed_question("b", "Who?", "7", answer_type="numerical", looked_for="7", optional_output=["seven"]),
    )
    assert sorted(qid for qid, _ in items(left, "a", "object")) == ["Q5", "Q6", "Q7"]
    assert web.texts_linked() == ["B", "C", "He", "Who?"]


MISSES = {
    f"{RESOURCE}Nobody_(band)": "Wikidata has no ",
    f"{RESOURCE}a b": "bad_value: ",
    "https://de.wikipedia.org/wiki/Berlin": "not an article",
    "https://en.wikipedia.org/wiki/File:Berlin.jpg": "not an article",
    "https://en.wikipedia.org/wiki/Mercury": "",
    "https://en.wikipedia.org/wiki/Nobody_at_all": "",
    "https://en.wikipedia.org/wiki/Draft_of_nothing": "",
    "https://en.wikipedia.org/wiki/%5Bx%5D": "invalid_title: ",
}
"""Maps each link without an item to the beginning of its cause.

The links are a resource, an invalid IRI, another edition, a file, a disambiguation page, a red link, an article without
an item, and an impossible title.
"""


def test_each_missed_link_is_listed_with_cause_and_other_links_are_kept(web: Web, link: Callable[..., Left]) -> None:
    titles = [name.removeprefix(RESOURCE) for name in MISSES if name.startswith(RESOURCE)]
    web.falcon = {f"Who is {title}?": found("Q1", resources={title: title}) for title in titles}
    web.falcon |= {"Who?": found("Q1"), "He": found("Q5")}
    addresses = [name for name in MISSES if "wikipedia" in name]
    left = link(
        *(typed_question(f"{RESOURCE}{title}", f"Who is {title}?", "He") for title in titles),
        *(typed_question(each, "Who?", "He", context=[f"It says so ({each})."]) for each in addresses),
    )
    assert left.rows.keys() == MISSES.keys()
    for name, cause in MISSES.items():
        assert items(left, name, "subject") == [("Q1", "falcon")]
        (miss,) = left.rows[name]["missed"]
        assert miss.startswith(f"{name}: {cause}")
        assert len(miss) > len(f"{name}: ")


def test_merged_item_is_replaced_by_its_redirect_target(web: Web, link: Callable[..., Left]) -> None:
    web.falcon = {"Who?": found("Q61648", "Q1"), "He": found("Q64")}
    left = link(typed_question("a", "Who?", "He"))
    assert [(link["qid"], link["redirected_from"]) for link in left.rows["a"]["subject_links"]] == [
        ("Q64", "Q61648"),
        ("Q1", None),
    ]


def test_items_with_failed_lookup_are_retried_by_later_run(web: Web, link: Callable[..., Left]) -> None:
    web.falcon = {"Who?": found("Q1"), "He": found("Q64")}
    web.wikidata = lambda _: DOWN
    rows = [typed_question("a", "Who?", "He"), typed_question("b", "Nothing?", "He")]
    left = link(*rows)
    assert left.reasons == {
        "a": "wikidata_failed",
        "b": "no_item_in_question",
    }
    assert left.receipt.unsettled == 1


def test_article_alone_links_question_to_item(web: Web, link: Callable[..., Left]) -> None:
    web.falcon = {"He": found("Q5")}
    left = link(typed_question("a", "Who?", "He", context=["https://en.m.wikipedia.org/wiki/Berlin#History"]))
    assert items(left, "a", "subject") == [("Q64", "wikipedia")]


@pytest.mark.parametrize("service", ["dbpedia", "wikipedia"])
def test_failed_service_is_listed_as_missed_and_other_links_are_kept(
    web: Web, link: Callable[..., Left], service: str
) -> None:
    web.falcon = {"Who?": found("Q1", resources={"Berlin": "b"}), "He": found("Q5")}
    if service == "wikipedia":
        web.wikipedia = DOWN
    else:
        web.dbpedia = lambda _: DOWN
    left = link(typed_question("a", "Who?", "He", context=["https://en.wikipedia.org/wiki/Berlin"]))
    (miss,) = left.rows["a"]["missed"]
    assert "http_500: " in miss
    assert len(items(left, "a", "subject")) == 2


def test_unreachable_falcon_stops_step(web: Web, link: Callable[..., Left]) -> None:
    web.server.close()
    with pytest.raises(ServiceUnreachable, match=r"Falcon at .* cannot be reached"):
        link(typed_question("a", "Who?", "He"))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WikidataGraph]:
    """Berlin, its namesake with fewer edges, and a man of that name."""
    folder = tmp_path_factory.mktemp("graphs")
    triples = """
        wd:Q64 rdfs:label "Berlin"@en
        wd:Q64 skos:altLabel "Spree-Athens"@en
        wd:Q821244 rdfs:label "Berlin"@en
        wd:Q57084 rdfs:label "Emile Berliner"@en
        wd:Q64 wdt:P17 wd:Q183
        wd:Q64 wdt:P47 wd:Q1208
        wd:Q821244 wdt:P17 wd:Q30
    """
    (folder / "small.nt").write_text(spell_out(triples), "utf-8")
    load_graph([folder / "small.nt"], "small", folder / "graphs")
    with open_graph("small", folder / "graphs") as opened:
        yield opened


def test_graph_labels_link_questions_without_network(web: Web, graph: WikidataGraph, link: Callable[..., Left]) -> None:
    rows = [
        typed_question("a", "Who of Berlin was it?", "Emile Berliner", optional_output=["berliner", "Spree-Athens"]),
        typed_question("b", "Who was it?", "Emile Berliner"),
        typed_question("c", "Who of Berlin was it?", "Nobody"),
        typed_question("d", "How big is Berlin?", "9", answer_type="numerical", looked_for="9"),
    ]
    left = link(*rows, graph=graph)
    assert items(left, "a", "subject") == [("Q64", "labels"), ("Q821244", "labels")]
    assert [qid for qid, _ in items(left, "a", "object")] == ["Q57084", "Q64"]
    assert [link["rank"] for link in left.rows["a"]["subject_links"]] == [1, 2]
    assert left.reasons == {
        "b": "no_item_in_question",
        "c": "no_item_in_answer",
    }
    assert items(left, "d", "object") == []
    assert web.server.seen == []
