"""Test mining and labelling with the real steps and SPARQL client: paths, pairs without one, and failures."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.rows.questions import linked_question, mined_question, path_of
from support.steps.inputs import multihal_inputs
from support.steps.steps import Left, run_step
from support.webs.loopback import Loopback, Seen
from support.webs.wikidata_web import answer_from, open_store, read_query

from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.calls.path_calls import WikidataCallPathFinder
from factmill.tasks.core.service_settings import ServiceLimits
from factmill.tasks.multihal.core.rows import EntityLinkedQuestion, QuestionWithPaths
from factmill.tasks.multihal.mine import label_paths, mine_paths

LIMITS = ServiceLimits(parallel=2, timeout_s=5, attempts=2, backoff_s=0.01, batch=50)
TRIPLES = """
    wd:Q1 wdt:P19 wd:Q2
    wd:Q1 wdt:P20 wd:Q2
    wd:Q1 wdt:P27 wd:Q3
    wd:Q2 wdt:P17 wd:Q3
    wd:Q3 wdt:P36 wd:Q2
    wd:Q1 wdt:P244 wd:Q4
    wd:Q1 p:P569 wds:Q1-born
    wds:Q1-born ps:P569 "1815-12-10T00:00:00Z"^^xsd:dateTime
    wds:Q1-born psv:P569 v:day
    v:day wikibase:timeValue "1815-12-10T00:00:00Z"^^xsd:dateTime
    v:day wikibase:timePrecision "11"^^xsd:integer
    wd:Q2 p:P1082 wds:Q2-people
    wds:Q2-people ps:P1082 "9000000"^^xsd:decimal
    wd:Q2 p:P1352 wds:Q2-rank
    wds:Q2-rank ps:P1352 "3"^^xsd:decimal
    wd:Q1 rdfs:label "Ada; Countess"@en
    wd:Q2 rdfs:label "London"@en
    wd:Q3 rdfs:label "Vereinigtes Königreich"@de
    wd:Q5 rdfs:label "https://example.org"@en
    wd:Q6 rdfs:label "Ada.JPG"@en
    wd:Q8 rdfs:label "Devdas"@en
    wd:Q10 rdfs:label "Devdas"@en
    wd:P144 rdfs:label "based on"@en
    wd:P19 rdfs:label "place of birth"@en
    wd:P27 rdfs:label "country of citizenship"@en
    wd:P569 rdfs:label "date of birth"@en
    wd:P2048 rdfs:label "height"@en
    wd:Q11573 rdfs:label "metre"@en
"""


class Web:
    """A Wikidata that times out on queries with certain words."""

    def __init__(self) -> None:
        self.server = Loopback()
        self.server.handle = self._answer
        self.too_much = ""
        self._store = answer_from(open_store(TRIPLES))

    def services(self) -> Any:
        wikidata = SparqlClient("Wikidata", self.server.url, "w", LIMITS, "factmill tests")
        return SimpleNamespace(
            wikidata=wikidata, make_path_finder=lambda ask: WikidataCallPathFinder(ask, wikidata.identity)
        )

    def _answer(self, seen: Seen) -> dict[str, Any]:
        if self.too_much and self.too_much in read_query(seen):
            return {"status": 504, "text": "Gateway Time-out"}
        return self._store(seen)


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.server.close()


@pytest.fixture
def mine(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    def run(*rows: EntityLinkedQuestion, all_hops: bool = False, most_paths: int = 100) -> Left:
        inputs = multihal_inputs(all_hops=all_hops, most_paths=most_paths)
        return run_step(mine_paths, rows, web.services(), tmp_path / "run", monkeypatch, inputs)

    return run


@pytest.fixture
def label(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Left]:
    def run(*rows: QuestionWithPaths, **given: Any) -> Left:
        inputs = multihal_inputs(**given)
        return run_step(label_paths, rows, web.services(), tmp_path / "run", monkeypatch, inputs)

    return run


def ids(left: Left, row_id: str) -> list[list[str]]:
    return [path["ids"] for path in left.rows[row_id]["paths"]]


def test_each_answer_type_has_its_own_path_search(mine: Callable[..., Left]) -> None:
    left = mine(
        linked_question("item", ["Q1"], ["Q2"]),
        linked_question("both ways", ["Q2"], ["Q3"]),
        linked_question("day", ["Q1"], [], answer_type="date", looked_for="1815-12-10"),
        linked_question("year", ["Q1", "Q2"], [], answer_type="date", looked_for="1815"),
        linked_question("number", ["Q2"], [], answer_type="numerical", looked_for="9000000"),
        linked_question("rank", ["Q2"], [], answer_type="rank", looked_for="3"),
    )
    assert left.rejects == {}
    born = ["Q1", "P569", "1815-12-10T00:00:00Z"]
    assert {row_id: ids(left, row_id) for row_id in left.rows} == {
        "item": [["Q1", "P19", "Q2"], ["Q1", "P20", "Q2"]],
        "both ways": [["Q2", "P17", "Q3"], ["Q3", "P36", "Q2"]],
        "day": [born],
        "year": [born],
        "number": [["Q2", "P1082", "9000000"]],
        "rank": [["Q2", "P1352", "3"]],
    }
    assert [path["backward"] for path in left.rows["both ways"]["paths"]] == [False, True]
    (day,) = left.rows["day"]["paths"]
    assert (day["subject"], day["object"], day["statement"], day["precision"]) == ("Q1", "1815-12-10", "Q1-born", 11)
    assert (left.rows["year"]["pairs"], left.rows["year"]["paths_in_all"]) == (2, 1)


def test_two_hop_paths_are_searched_if_one_hop_finds_none_or_all_hops_is_set(mine: Callable[..., Left]) -> None:
    near = linked_question("near", ["Q1"], ["Q3"])
    far = linked_question("far", ["Q1"], [], answer_type="rank", looked_for="3")
    first = mine(near, far)
    assert ids(first, "near") == [["Q1", "P27", "Q3"]]
    assert ids(first, "far") == [["Q1", "P19", "Q2", "P1352", "3"], ["Q1", "P20", "Q2", "P1352", "3"]]
    assert len(ids(mine(near, far, all_hops=True), "near")) == 3


def test_question_without_path_reports_number_of_pairs(mine: Callable[..., Left]) -> None:
    left = mine(
        linked_question("strangers", ["Q1", "Q2"], ["Q7", "Q8"]),
        linked_question("identifier alone", ["Q1"], ["Q4"]),
        linked_question("itself", ["Q1"], ["Q1"]),
        linked_question("other unit", ["Q2"], [], answer_type="numerical", looked_for="9000000", looked_for_unit="Q5"),
        linked_question("other list", ["Q2"], [], answer_type="rank", looked_for="9000000"),
    )
    assert left.reasons == dict.fromkeys(
        ("strangers", "identifier alone", "itself", "other unit", "other list"), "no_path"
    )
    assert " 4 pairs" in left.rejects["strangers"][1]
    assert " 0 pairs" in left.rejects["itself"][1]
    assert left.receipt.unsettled == 0


def test_pair_with_many_paths_keeps_limited_number_and_reports_total(mine: Callable[..., Left]) -> None:
    left = mine(linked_question("a", ["Q1"], ["Q2", "Q3"]), most_paths=1)
    assert ids(left, "a") == [["Q1", "P19", "Q2"], ["Q1", "P27", "Q3"]]
    assert left.rows["a"]["paths_in_all"] == 3


@pytest.mark.parametrize("role", ["object", "value"])
def test_question_with_failed_path_search_is_retried_by_later_run(
    web: Web, mine: Callable[..., Left], role: str
) -> None:
    of_value = {"answer_type": "date", "looked_for": "1815"}
    hard = (
        linked_question("hard", ["Q1"], ["Q2"]) if role == "object" else linked_question("hard", ["Q1"], [], **of_value)
    )
    rows = [hard, linked_question("easy", ["Q2"], ["Q3"])]
    web.too_much = "wd:Q1 "
    left = mine(*rows)
    reason, detail = left.rejects["hard"]
    operation = "item_paths" if role == "object" else "date_paths"
    assert (reason, detail.startswith(f"{operation}, hops 1: http_504")) == ("wikidata_failed", True), detail
    assert (left.rows.keys(), left.receipt.unsettled) == ({"easy"}, 1)

    web.too_much = ""
    again = mine(*rows)
    assert (again.rows.keys(), again.receipt.unsettled) == ({"hard", "easy"}, 0)


def test_question_keeps_paths_of_answered_pairs_and_lists_failed_ones(web: Web, mine: Callable[..., Left]) -> None:
    web.too_much = "wd:Q7 "
    left = mine(linked_question("a", ["Q1", "Q7"], ["Q2"]))
    assert ids(left, "a") == [["Q1", "P19", "Q2"], ["Q1", "P20", "Q2"]]
    assert [(each["reason"], each["path_ids"]) for each in left.extras] == [("pair_failed", ["Q7", "Q2"])]


def test_paths_are_verbalised_and_labels_cannot_split_path(label: Callable[..., Left]) -> None:
    dates = [path_of("Q1", "P569", "1815-12-10T00:00:00Z", precision=each) for each in (11, 9)]
    left = label(
        mined_question("item", [path_of("Q1", "P19", "Q2")]),
        mined_question("value", [*dates, path_of("Q2", "P2048", "1.50", unit="Q11573")]),
    )
    assert [path["labels"] for path in left.rows["item"]["paths"]] == [["Ada, Countess", "place of birth", "London"]]
    assert [path["labels"][-1] for path in left.rows["value"]["paths"]] == ["1815-12-10", "1815", "1.5 metres"]
    assert left.extras == []


def test_path_with_part_without_english_label_is_dropped_and_listed(label: Callable[..., Left]) -> None:
    left = label(
        mined_question("some", [path_of("Q1", "P27", "Q3"), path_of("Q1", "P19", "Q2"), path_of("Q1", "P20", "Q9")]),
        mined_question("unit", [path_of("Q2", "P2048", "1.5", unit="Q9"), path_of("Q1", "P19", "Q2")]),
        mined_question("none", [path_of("Q1", "P20", "Q2")]),
    )
    assert ids(left, "some") == ids(left, "unit") == [["Q1", "P19", "Q2"]]
    assert [(drop["question_id"], drop["path_ids"], drop["reason"], drop["detail"]) for drop in left.extras] == [
        ("some", ["Q1", "P27", "Q3"], "part_without_label", "Q3"),
        ("some", ["Q1", "P20", "Q9"], "part_without_label", "P20, Q9"),
        ("unit", ["Q2", "P2048", "1.5"], "part_without_label", "Q9"),
        ("none", ["Q1", "P20", "Q2"], "part_without_label", "P20"),
    ]
    assert left.rejects["none"][0] == "no_labelled_path"
    assert left.receipt.unsettled == 0


def test_path_with_part_that_is_no_word_number_or_date_is_dropped_and_listed(label: Callable[..., Left]) -> None:
    values = ["Rhine at Cologne.jpg", "http://example.org/ada", "_:b0", "Q7.svg"]
    left = label(
        mined_question("values", [*(path_of("Q1", "P569", value) for value in values), path_of("Q1", "P19", "Q2")]),
        mined_question("labels", [path_of("Q1", "P19", "Q5"), path_of("Q1", "P19", "Q6"), path_of("Q6", "P19", "Q2")]),
    )
    assert ids(left, "values") == [["Q1", "P19", "Q2"]]
    assert {drop["reason"] for drop in left.extras} == {"part_in_no_words"}
    assert [drop["detail"] for drop in left.extras] == [*values, "https://example.org", "Ada.JPG", "Ada.JPG"]
    assert left.rejects["labels"][0] == "no_labelled_path"


def test_path_between_items_with_same_name_is_dropped_unless_setting_keeps_it(
    label: Callable[..., Left],
) -> None:
    rows = [
        mined_question("film", [path_of("Q8", "P144", "Q10"), path_of("Q1", "P20", "Q2")]),
        mined_question("both", [path_of("Q8", "P144", "Q10"), path_of("Q1", "P19", "Q2")]),
    ]
    left = label(*rows)
    ((row_id, (reason, detail)),) = left.rejects.items()
    assert (row_id, reason, detail.startswith("all 2 paths ")) == ("film", "ends_alike", True)
    assert "(1 ends_alike, 1 part_without_label; see multihal_dropped_paths)" in detail
    assert ids(left, "both") == [["Q1", "P19", "Q2"]]
    assert [(path["question_id"], path["detail"]) for path in left.extras if path["reason"] == "ends_alike"] == [
        ("film", "Devdas"),
        ("both", "Devdas"),
    ]
    kept = label(*rows, keep_ends_alike=True)
    assert [path["labels"] for path in kept.rows["film"]["paths"]] == [["Devdas", "based on", "Devdas"]]


def test_question_with_failed_label_lookup_is_retried_by_later_run(web: Web, label: Callable[..., Left]) -> None:
    rows = [
        mined_question("hard", [path_of("Q1", "P19", "Q2"), path_of("Q1", "P27", "Q7")]),
        mined_question("easy", [path_of("Q1", "P19", "Q2")]),
    ]
    web.too_much = "wd:Q7 "
    left = label(*rows)
    reason, detail = left.rejects["hard"]
    assert (reason, detail.partition(":")[0]) == ("wikidata_failed", "http_504")
    assert (left.rows.keys(), left.receipt.unsettled) == ({"easy"}, 1)

    web.too_much = ""
    assert ids(label(*rows), "hard") == [["Q1", "P19", "Q2"]]
