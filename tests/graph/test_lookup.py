"""Look-ups in a graph: the answers of every operation, and what is asked wrongly."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.rdf_lines import spell_out
from support.processes.ready import run_ready

from tasks.core.calls.call import Call, Reply
from tasks.core.calls.knowledge import (
    Candidate,
    Description,
    Neighbour,
    call_describe_item,
    call_find_items,
    call_list_facts,
    call_neighbours,
    call_resolve_item,
)
from tasks.errors import GraphError
from tasks.graph.load import load_graph
from tasks.graph.lookup import Degree, Graph, open_graph

Make = Callable[..., Graph]

PEOPLE = """
    wd:Q10 rdfs:label "Mercury"@en
    wd:Q9 rdfs:label "Mercury"@en
    wd:Q100 rdfs:label "quicksilver"@en
    wd:Q100 skos:altLabel "Mercury"@en
    wd:Q10 skos:altLabel "Mercury"@en
    wd:Q8 skos:altLabel "Mercury"@en
    wd:Q10 rdfs:label "Merkur"@de
    wd:Q10 schema:description "smallest planet"@en
    wd:Q10 wdt:P361 wd:Q544
    wd:Q10 wdt:P361 wd:Q90
    wd:Q10 wdt:P31 wd:Q634
    wd:Q10 wdt:P31 wd:Q100
    wd:Q10 wdt:P47 wd:Q1
    wd:Q9 wdt:P31 wd:Q5
    wd:Q3 wdt:P31 wd:Q5
    wd:Q20 wdt:P31 wd:Q5
    enwiki:Mercury_(planet) schema:name "Mercury (planet)"@en
    enwiki:Mercury_(planet) schema:about wd:Q10
    enwiki:Nameless schema:about wd:Q9
    wd:Q10 schema:dateModified "2024-05-06T07:08:09Z"^^xsd:dateTime
    wd:P31 rdfs:label "instance of"@en
"""


def ask(graph: Graph, *calls: Call) -> list[Any]:
    """Return the replies in the order of the calls."""
    replies: dict[int, Reply] = {}
    graph.send(calls, lambda call, reply: replies.setdefault(id(call), reply))  # type: ignore[arg-type,return-value]
    return [replies[id(call)] for call in calls]


def bodies(graph: Graph, *calls: Call) -> list[Any]:
    replies = ask(graph, *calls)
    assert [reply.error for reply in replies] == [None] * len(calls)
    return [reply.body for reply in replies]


def test_redirects_are_followed_to_their_end_and_make_no_items(make_graph: Make) -> None:
    graph = make_graph(
        PEOPLE + "    wd:Q901 owl:sameAs wd:Q902\n    wd:Q902 owl:sameAs wd:Q10\n    wd:Q7 owl:sameAs wd:Q7\n"
    )
    asked = ["Q901", "Q902", "Q10", "Q7", "Q12345"]
    assert bodies(graph, *(call_resolve_item(graph.identity, qid) for qid in asked)) == [
        "Q10", "Q10", "Q10", "Q7", "Q12345",
    ]  # fmt: skip
    assert graph.manifest.stored["redirects"] == 3
    assert graph.query("SELECT item FROM graph.items WHERE item IN (901, 902, 7)", {}) == []


def test_find_items_gives_labels_first_then_by_number_and_each_item_once(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    [found, none, other] = bodies(
        graph,
        call_find_items(graph.identity, "Mercury"),
        call_find_items(graph.identity, "mercury"),
        call_find_items(graph.identity, "quicksilver"),
    )
    assert found == [
        {"qid": "Q9", "via": "label"},
        {"qid": "Q10", "via": "label"},
        {"qid": "Q8", "via": "alias"},
        {"qid": "Q100", "via": "alias"},
    ]
    assert (none, other) == ([], [{"qid": "Q100", "via": "label"}])


def test_describe_items_gives_nulls_for_what_is_unknown(make_graph: Make) -> None:
    graph = make_graph(PEOPLE, dump_date="2024-06-01")
    found = bodies(graph, *(call_describe_item(graph.identity, qid) for qid in ("Q10", "Q9", "Q544", "Q777", "Q10")))
    mercury = {
        "label": "Mercury",
        "description": "smallest planet",
        "title": "Mercury (planet)",
        "modified": "2024-05-06T07:08:09Z",
    }
    unknown = dict.fromkeys(mercury)
    assert found == [
        mercury,
        {**unknown, "label": "Mercury", "modified": "2024-06-01"},
        {**unknown, "modified": "2024-06-01"},
        unknown,
        mercury,
    ]


def test_neighbours_are_ordered_by_property_then_item_and_only_those_asked_for(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    [found, part, none, empty] = bodies(
        graph,
        call_neighbours(graph.identity, "Q10", ["P361", "P31", "P31"]),
        call_neighbours(graph.identity, "Q10", ["P47", "P9999999999"]),
        call_neighbours(graph.identity, "Q777", ["P31"]),
        call_neighbours(graph.identity, "Q10", []),
    )
    assert found == [
        {"pid": "P31", "qid": "Q100", "label": "quicksilver"},
        {"pid": "P31", "qid": "Q634", "label": None},
        {"pid": "P361", "qid": "Q90", "label": None},
        {"pid": "P361", "qid": "Q544", "label": None},
    ]
    assert part == [{"pid": "P47", "qid": "Q1", "label": None}]
    assert none == empty == []


def test_list_facts_counts_subjects_and_never_cuts_one_in_two(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    first = [{"subject": "Q3", "object": "Q5"}, {"subject": "Q9", "object": "Q5"}]
    ten = [{"subject": "Q10", "object": "Q100"}, {"subject": "Q10", "object": "Q634"}]
    last = [{"subject": "Q20", "object": "Q5"}]
    call = lambda after, limit: call_list_facts(graph.identity, "P31", after, limit)  # noqa: E731
    assert bodies(graph, call(None, 2), call("Q9", 1), call("Q10", 5), call("Q20", 5), call(None, 100)) == [
        first,
        ten,
        last,
        [],
        first + ten + last,
    ]


def test_pages_of_facts_make_up_all_facts_however_many_objects_a_subject_has(make_graph: Make) -> None:
    facts = [(subject, 1000 + thing) for subject in range(1, 40) for thing in range(1 + (subject * 7) % 60)]
    graph = make_graph("\n".join(f"wd:Q{subject} wdt:P1 wd:Q{thing}" for subject, thing in reversed(facts)))
    for limit in (1, 3, 50):
        seen, after = [], None
        while page := graph.list_facts("P1", after, limit):
            assert len({subject for subject, _ in page}) <= limit
            seen += page
            after = page[-1][0]
        assert seen == [(f"Q{subject}", f"Q{thing}") for subject, thing in facts]


ODD_NAMES = [
    'say "hi"',
    "it's",
    "{x} $name ${y}",
    "two\nlines\r\n",
    "back\\slash \\u0041",
    "'; DROP TABLE names; --",
    "%s ? $1 :a",
    "tab\there",
    "nul\0byte",
    "e\u0301",
    "日本 😀",
    " spaced ",
    "a> <b",
    '"@en .',
    "",
]


def spell_label(number: int, name: str, predicate: str = "rdfs:label") -> str:
    spelled = "".join(f"\\U{ord(character):08X}" for character in name)
    return f'wd:Q{number} {predicate} "{spelled}"@en'


def test_names_with_any_characters_are_found(make_graph: Make) -> None:
    graph = make_graph("\n".join(spell_label(number, name) for number, name in enumerate(ODD_NAMES, 1)))
    expected = {name: [Candidate(f"Q{number}", "label")] for number, name in enumerate(ODD_NAMES, 1)}
    assert graph.find(ODD_NAMES) == expected
    assert graph.labels(f"Q{number}" for number in range(1, 100)) == {
        f"Q{number}": name for number, name in enumerate(ODD_NAMES, 1)
    }
    assert graph.find(["half \ud83d"]) == {"half \ud83d": []}


def test_typed_look_ups_say_the_same_as_calls(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    assert graph.describe(["Q9"]) == {"Q9": Description("Mercury", None, None, "2024-05-06T07:08:09Z")}
    assert graph.neighbours(["Q10", "Q3"], ["P31"]) == {
        "Q10": [Neighbour("P31", "Q100", "quicksilver"), Neighbour("P31", "Q634", None)],
        "Q3": [Neighbour("P31", "Q5", None)],
    }
    assert graph.labels(["Q10", "P31", "P32", "Q777"]) == {"Q10": "Mercury", "P31": "instance of"}
    assert graph.degrees(["Q10", "Q5", "Q8", "Q777"]) == {
        "Q10": Degree(out=5, into=0),
        "Q5": Degree(out=0, into=3),
        "Q8": Degree(out=0, into=0),
        "Q777": Degree(out=0, into=0),
    }


def test_an_empty_batch_and_unknown_ids_have_empty_answers(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    huge = "Q" + "9" * 30
    assert ask(graph) == []
    assert graph.find([]) == graph.describe([]) == graph.neighbours([], ["P31"]) == graph.labels([]) == {}
    assert graph.neighbours_of_each([]) == []
    assert graph.describe([huge]) == {huge: Description(None, None, None, None)}
    assert graph.neighbours([huge], ["P31"]) == {huge: []}
    assert graph.degrees([huge]) == {huge: Degree(0, 0)}
    assert graph.labels([huge, "P" + "9" * 30]) == {}
    assert graph.list_facts("P31", huge, 5) == graph.list_facts("P" + "9" * 30, None, 5) == []


def test_other_languages_answer_with_their_own_texts(make_graph: Make) -> None:
    graph = make_graph(PEOPLE, languages=("en", "de"))
    assert graph.find(["Merkur"], "de") == {"Merkur": [Candidate("Q10", "label")]}
    assert graph.find(["Merkur"], "en") == {"Merkur": []}
    [described] = bodies(graph, call_describe_item(graph.identity, "Q10", "de"))
    assert (described["label"], described["description"], described["title"]) == ("Merkur", None, "Mercury (planet)")


SHARED_NAMES = """
    wd:Q1 rdfs:label "Ada"@mul
    wd:Q2 rdfs:label "Ada"@en
    wd:Q2 rdfs:label "Adda"@mul
    wd:Q2 skos:altLabel "Ada"@mul
    wd:Q3 skos:altLabel "Ada"@mul
    wd:Q4 rdfs:label "Ada"@de
    wd:Q5 wdt:P1 wd:Q1
    wd:Q5 wdt:P1 wd:Q2
    wd:P1 rdfs:label "p"@mul
"""


def test_a_name_for_all_languages_stands_in_where_a_language_has_none(make_graph: Make) -> None:
    graph = make_graph(SHARED_NAMES)
    assert graph.labels(["Q1", "Q2", "Q3", "Q4", "P1"]) == {"Q1": "Ada", "Q2": "Ada", "P1": "p"}
    assert [graph.describe([qid])[qid].label for qid in ("Q1", "Q2", "Q3")] == ["Ada", "Ada", None]
    assert [edge.label for edge in graph.neighbours(["Q5"], ["P1"])["Q5"]] == ["Ada", "Ada"]
    assert graph.find(["Ada", "Adda"]) == {
        "Ada": [Candidate("Q1", "label"), Candidate("Q2", "label"), Candidate("Q3", "alias")],
        "Adda": [Candidate("Q2", "label")],
    }


def test_a_language_that_was_not_loaded_is_refused(make_graph: Make) -> None:
    graph = make_graph(PEOPLE)
    [refused, facts] = ask(
        graph,
        call_find_items(graph.identity, "Merkur", "de"),
        call_list_facts(graph.identity, "P47", None, 5, "de"),
    )
    assert refused.status == "failed"
    assert refused.error == "language_missing: graph small was loaded in en, not in de"
    assert facts.body == [{"subject": "Q10", "object": "Q1"}]
    with pytest.raises(GraphError, match="was loaded in en, not in de"):
        graph.find(["Merkur"], "de")


@pytest.mark.parametrize(
    ("operation", "parts", "error"),
    [
        ("pageviews", {"title": "A"}, "unknown_operation: pageviews"),
        ("find_items", {"language": "en"}, "bad_call: find_items: name is missing"),
        ("describe_items", {"qid": "64", "language": "en"}, "bad_call: describe_items: qid cannot be '64'"),
        ("neighbours", {"qid": "Q1", "pids": ["Q2"], "language": "en"}, "bad_call: neighbours: pids cannot be"),
        ("list_facts", {"pid": "P1", "after": None, "limit": 0, "language": "en"}, "bad_call: list_facts: limit"),
    ],
)
def test_a_call_that_cannot_be_answered_fails_alone(
    make_graph: Make, operation: str, parts: dict[str, Any], error: str
) -> None:
    graph = make_graph(PEOPLE)
    [failed, answered] = ask(
        graph, Call(graph.identity, operation, parts), call_find_items(graph.identity, "quicksilver")
    )
    assert (failed.status, failed.body, failed.transient) == ("failed", None, False)
    assert failed.error.startswith(error)
    assert answered.body == [{"qid": "Q100", "via": "label"}]


def test_identity_is_the_content(make_graph: Make) -> None:
    first, same, other = make_graph(PEOPLE), make_graph(PEOPLE, "copy"), make_graph("wd:Q1 wdt:P31 wd:Q5", "other")
    assert first.identity == same.identity == f"graph-{first.manifest.digest[:16]}"
    assert first.identity != other.identity
    assert not first.is_outside


@pytest.mark.slow
def test_many_threads_and_another_process_read_at_once(make_graph: Make, tmp_path: Path) -> None:
    graph = make_graph(PEOPLE)
    expected = graph.find(["Mercury"])
    results: list[dict[str, list[Candidate]]] = []

    def look_up() -> None:
        results.extend(graph.find(["Mercury"]) for _ in range(20))

    threads = [threading.Thread(target=look_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    program = (
        "import sys; from pathlib import Path; from tasks.graph.lookup import open_graph\n"
        "print(len(open_graph('small', Path(sys.argv[1])).find(['Mercury'])['Mercury']))"
    )
    done = run_ready(program, tmp_path / "graphs")
    for thread in threads:
        thread.join()
    assert (done.out, done.code) == ("4\n", 0), done.err
    assert results == [expected] * 80


NAMES = st.lists(st.tuples(st.integers(1, 30), st.text(max_size=12), st.booleans()), min_size=1, max_size=40)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(rows=NAMES)
def test_any_names_come_back_as_they_went_in(
    tmp_path_factory: pytest.TempPathFactory, rows: Sequence[tuple[int, str, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("names")
    lines = [spell_label(qid, name, "rdfs:label" if is_label else "skos:altLabel") for qid, name, is_label in rows]
    (folder / "a.nt").write_text(spell_out("\n".join(lines)), "utf-8")
    load_graph([folder / "a.nt"], "names", folder)
    labels: dict[int, str] = {}
    for qid, name, is_label in rows:
        if is_label:
            labels[qid] = min(labels.get(qid, name), name)
    vias = {(name, qid): "alias" for qid, name, is_label in rows if not is_label}
    vias |= {(name, qid): "label" for qid, name in labels.items()}
    asked = {name for _, name, _ in rows}
    with open_graph("names", folder) as graph:
        assert graph.labels(f"Q{qid}" for qid in range(1, 31)) == {f"Q{qid}": name for qid, name in labels.items()}
        assert graph.find(asked) == {
            name: [
                Candidate(f"Q{qid}", via)
                for via, qid in sorted(((via, q) for (n, q), via in vias.items() if n == name), key=by_via_then_number)
            ]
            for name in asked
        }


def by_via_then_number(pair: tuple[str, int]) -> tuple[bool, int]:
    return pair[0] == "alias", pair[1]
