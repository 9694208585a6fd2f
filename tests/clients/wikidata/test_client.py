"""Test the SPARQL client against a small Turtle graph and a faulty endpoint."""

from pathlib import Path

import pyoxigraph
import pytest

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.core.calls.item_facts import make_item_facts_call
from factmill.tasks.core.calls.wikidata import (
    make_describe_item_call,
    make_entity_last_changes_and_labels_call,
    make_find_items_call,
    make_label_call,
    make_list_facts_call,
    make_neighbours_call,
    make_resolve_item_redirect_call,
)
from factmill.tasks.errors import ServiceUnreachable

HERE = "test-wikidata"
EMPTY = {"json": {"head": {"vars": []}, "results": {"bindings": []}}}


@pytest.fixture(scope="module")
def store():
    store = pyoxigraph.Store()
    store.load(path=str(Path(__file__).parent / "world.ttl"), format=pyoxigraph.RdfFormat.TURTLE)
    return store


@pytest.fixture
def client(server, limits):
    return SparqlClient("Wikidata", f"{server.url}/sparql", HERE, limits, "factmill-tests (someone@example.org)")


@pytest.fixture
def ask(store, server, client, inbox):
    """Answer calls from the graph and return their bodies."""

    def answer(seen):
        query = seen.query.get("query") or seen.form()["query"]
        found = store.query(query).serialize(format=pyoxigraph.QueryResultsFormat.JSON).decode()
        return {"text": found, "type": "application/sparql-results+json"}

    def bodies(*calls):
        server.handle = answer
        client.send(calls, inbox)
        for call in calls:
            assert inbox[call].status == "ok", inbox[call].error
        return [inbox[call].body for call in calls]

    return bodies


@pytest.mark.parametrize("path", sorted((ASSETS_ROOT / "sparql" / "wikidata").glob("*.rq")), ids=lambda path: path.stem)
def test_every_query_file_runs_with_its_example_values(store, path):
    assert list(store.query(path.read_text("utf-8"))), "the example values should find something"


def test_items_are_found_by_label_then_alias_then_number(ask, server):
    found = ask(
        make_find_items_call(HERE, "Berlin"),
        make_find_items_call(HERE, "Spree-Athens"),
        make_find_items_call(HERE, "berlin"),
    )
    assert found == [
        [
            {"qid": "Q64", "via": "label"},
            {"qid": "Q142659", "via": "label"},
            {"qid": "Q821244", "via": "alias"},
        ],
        [{"qid": "Q64", "via": "alias"}],
        [],
    ]
    assert len(server.seen) == 1, "one query for all names"


def test_names_are_looked_up_in_their_language_and_in_mul(ask, server):
    assert ask(
        make_find_items_call(HERE, "Berlino", "it"),
        make_find_items_call(HERE, "Berlino", "en"),
        make_find_items_call(HERE, "Paris"),
    ) == [[{"qid": "Q64", "via": "label"}], [], [{"qid": "Q90", "via": "label"}]]
    assert len(server.seen) == 2, "one query per language"


def test_name_with_quotes_braces_and_line_breaks_is_found(ask):
    awkward = 'say "hi" {or}\\\nnot'
    assert ask(make_find_items_call(HERE, awkward), make_find_items_call(HERE, '" } #')) == [
        [{"qid": "Q99", "via": "label"}],
        [],
    ]


def test_items_get_descriptions_and_article_titles(ask):
    assert ask(
        make_describe_item_call(HERE, "Q64"),
        make_describe_item_call(HERE, "Q64", "it"),
        make_describe_item_call(HERE, "Q1208"),
        make_describe_item_call(HERE, "Q12345"),
    ) == [
        {
            "label": "Berlin",
            "description": "capital of Germany",
            "title": "Berlin",
            "modified": "2024-05-06T07:08:09Z",
        },
        {
            "label": "Berlino",
            "description": "capitale della Germania",
            "title": "Berlin",
            "modified": "2024-05-06T07:08:09Z",
        },
        {"label": "Brandenburg", "description": None, "title": None, "modified": None},
        {"label": None, "description": None, "title": None, "modified": None},
    ]


def test_item_states_return_modified_date_and_label_in_one_query(ask, server):
    names = ("Q64", "Q1208", "P36", "Q12345")
    (state,) = ask(make_entity_last_changes_and_labels_call(HERE, names, "it", "now"))
    assert state == {
        "Q64": {"label": "Berlino", "modified": "2024-05-06T07:08:09Z", "version": None},
        "Q1208": {"label": "Brandenburg", "modified": None, "version": None},
        "P36": {"label": None, "modified": None, "version": None},
        "Q12345": {"label": None, "modified": None, "version": None},
    }
    assert len(server.seen) == 1
    labels = ask(*(make_label_call(HERE, name, "it") for name in names))
    assert labels == [state[name]["label"] for name in names], "so that both can be compared"


def test_redirects_are_followed_to_their_end(ask):
    asked = [make_resolve_item_redirect_call(HERE, qid) for qid in ("Q901", "Q902", "Q64", "Q12345")]
    assert ask(*asked) == ["Q64", "Q64", "Q64", "Q12345"]


def test_neighbours_are_items_ordered_by_number(ask):
    assert ask(
        make_neighbours_call(HERE, "Q64", ["P131", "P17", "P47", "P1082"]),
        make_neighbours_call(HERE, "Q142659", ["P131", "P17", "P47", "P1082"]),
        make_neighbours_call(HERE, "Q64", []),
        make_neighbours_call(HERE, "Q64", ["P47"], "it"),
    ) == [
        [
            {"pid": "P17", "qid": "Q183", "label": "Germany"},
            {"pid": "P47", "qid": "Q90", "label": "Paris"},
            {"pid": "P47", "qid": "Q1208", "label": "Brandenburg"},
            {"pid": "P131", "qid": "Q183", "label": "Germany"},
        ],
        [{"pid": "P17", "qid": "Q30", "label": None}],
        [],
        [
            {"pid": "P47", "qid": "Q90", "label": "Parigi"},
            {"pid": "P47", "qid": "Q1208", "label": "Brandenburg"},
        ],
    ]


def test_facts_are_paginated_without_splitting_subject(ask):
    first, second, third = ask(
        make_list_facts_call(HERE, "P36", None, 2),
        make_list_facts_call(HERE, "P36", "Q142", 2),
        make_list_facts_call(HERE, "P36", "Q183", 2),
    )
    assert first == [
        {"subject": "Q30", "object": "Q61"},
        {"subject": "Q142", "object": "Q64"},
        {"subject": "Q142", "object": "Q90"},
    ]
    assert second == [{"subject": "Q183", "object": "Q64"}]
    assert third == []


def fact(pid, name, *, qid=None, value=None, precision=None, unit=None, statement=None):
    return {
        "pid": pid,
        "property": name,
        "qid": qid,
        "value": value,
        "precision": precision,
        "unit": unit,
        "statement": statement,
    }


def test_item_facts_are_best_claims_and_all_valid_dates_and_numbers(ask, server):
    ada, byron, nobody = ask(*(make_item_facts_call(HERE, qid) for qid in ("Q7259", "Q5679", "Q12345")))
    first, born = "1815-01-01T00:00:00Z", "1815-12-10T00:00:00Z"
    assert ada == [
        fact("P19", "place of birth", qid="Q84", statement="q7259-birth"),
        fact("P21", None, qid="Q6581072"),
        fact("P106", "occupation", qid="Q36180"),
        fact("P106", "occupation", qid="Q170790", value="mathematician", statement="q7259-B"),
        fact("P569", "date of birth", value=first, precision=9, statement="q7259-about"),
        fact("P569", "date of birth", value=born, precision=11, statement="q7259-born"),
        fact("P2048", None, value="1.6", unit="Q11573", statement="q7259-height"),
    ]
    assert byron == [
        fact("P40", None, qid="Q7259", value="Ada Lovelace"),
        fact("P569", "date of birth", value="1788-01-22T00:00:00Z"),
        fact("P1971", None, value="3"),
    ]
    assert nobody == []
    assert len(server.seen) == 1, "one query for all items"


def test_facts_have_labels_in_requested_language(ask):
    [ada] = ask(make_item_facts_call(HERE, "Q7259", "it"))
    assert [(each["property"], each["value"]) for each in ada if each["qid"]] == [
        ("luogo di nascita", None),
        (None, None),
        ("occupation", None),
        ("occupation", "matematico"),
    ]


def test_dates_of_facts_are_formatted_alike_for_every_engine(client, inbox, server):
    def answer(date):
        cells = {
            "item": ("uri", "http://www.wikidata.org/entity/Q1"),
            "property": ("uri", "http://www.wikidata.org/prop/P569"),
            "statement": ("uri", "http://www.wikidata.org/entity/statement/q1-a"),
            "value": ("literal", date),
            "time": ("literal", "1815-12-10T00:00:00+00:00"),
            "precision": ("literal", "11"),
        }
        solution = {name: {"type": kind, "value": value} for name, (kind, value) in cells.items()}
        return {"json": {"head": {"vars": [*cells]}, "results": {"bindings": [solution, solution]}}}

    call = make_item_facts_call(HERE, "Q1")
    server.script(answer("1815-12-10T00:00:00.000Z"))
    client.send([call], inbox)
    assert inbox[call].body == [
        fact("P569", None, value="1815-12-10T00:00:00Z", precision=11, statement="q1-a"),
    ]


def test_invalid_values_fail_alone_and_are_not_sent(ask, client, inbox, server):
    server.handle = lambda _: EMPTY
    bad = [
        make_describe_item_call(HERE, "Q64 } #"),
        make_neighbours_call(HERE, "Q64", ["P19"], "en fr"),
        make_item_facts_call(HERE, "Q64 wd:Q90"),
        make_item_facts_call(HERE, "Q64", 'en" "de'),
        make_find_items_call(HERE, "half \ud83d"),
    ]
    good = make_describe_item_call(HERE, "Q64")
    client.send([*bad, good], inbox)
    assert [inbox[call].error.partition(":")[0] for call in bad] == ["bad_value"] * 5
    assert inbox[good].status == "ok"
    assert len(server.seen) == 1


def test_calls_are_batched_and_long_queries_use_post(client, server, inbox):
    server.handle = lambda _: EMPTY
    client.send([make_find_items_call(HERE, f"name {number} {'x' * 90}") for number in range(25)], inbox)
    assert [seen.method for seen in server.seen] == ["POST"] * 3
    assert all(reply.body == [] for reply in inbox.replies.values())
    assert server.seen[0].headers["user-agent"] == "factmill-tests (someone@example.org)"
    assert "sparql-results+json" in server.seen[0].headers["accept"]


WHOLE = '{"head": {"vars": ["item"]}, "results": {"bindings": [ ]}}'
EXCESSES = {
    "Blazegraph's time-out": {
        "status": 500,
        "text": "java.util.concurrent.TimeoutException: Query deadline is expired",
    },
    "Blazegraph's time-out while it writes": {"text": f"{WHOLE[:40]}\njava.util.concurrent.TimeoutException"},
    "QLever's time-out": {"status": 429, "json": {"exception": "Operation timed out.", "status": "ERROR"}},
    "QLever's memory": {
        "status": 500,
        "json": {"exception": "Tried to allocate 166.7 GB, but only 40 GB were available"},
    },
    "out of memory, reported as our mistake": {"status": 400, "json": {"exception": "Tried to allocate 2 GB"}},
    "a proxy's time-out": {"status": 504, "text": "Gateway Time-out"},
    "too long a body": {"status": 413, "text": "Payload Too Large"},
    "too long an address": {"status": 414, "text": "URI Too Long"},
    "half a body": {"text": WHOLE, "truncate": True},
    "half a body that looks whole": {"text": WHOLE[:30]},
}


@pytest.mark.parametrize("excess", EXCESSES.values(), ids=EXCESSES.keys())
def test_query_exceeding_limits_is_halved_until_it_succeeds(limits, server, inbox, excess):
    client = SparqlClient("Wikidata", server.url, HERE, limits.model_copy(update={"batch": 8}), "tests")

    def answer(seen):
        query = seen.query.get("query") or seen.form()["query"]
        return excess if query.count("wd:Q") > 3 else EMPTY

    server.handle = answer
    client.send([make_describe_item_call(HERE, f"Q{number}") for number in range(1, 9)], inbox)
    assert {reply.status for reply in inbox.replies.values()} == {"ok"}
    assert len(server.seen) == 1 + 2 + 4
    client.send([make_describe_item_call(HERE, f"Q{number}") for number in range(11, 15)], inbox)
    assert len(server.seen) == 1 + 2 + 4 + 2, "the size that worked is kept"


@pytest.mark.parametrize(
    ("excess", "code"),
    [
        ("Blazegraph's time-out", "timeout"),
        ("QLever's time-out", "timeout"),
        ("QLever's memory", "too_big"),
        ("too long a body", "http_413"),
        ("half a body", "truncated"),
        ("half a body that looks whole", "broken_json"),
    ],
)
def test_single_call_exceeding_limits_fails_with_code_and_others_succeed(client, server, inbox, excess, code):
    def answer(seen):
        query = seen.query.get("query") or seen.form()["query"]
        return EXCESSES[excess] if "wd:Q3 " in query else EMPTY

    server.handle = answer
    calls = [make_describe_item_call(HERE, f"Q{number}") for number in range(1, 9)]
    client.send(calls, inbox)
    assert [call.parts["qid"] for call in calls if inbox[call].status == "failed"] == ["Q3"]
    reply = inbox[calls[2]]
    assert (reply.error.partition(":")[0], reply.transient) == (code, True)


def test_each_query_has_its_own_batch_size(client, server, inbox):
    def answer(seen):
        query = seen.query.get("query") or seen.form()["query"]
        is_too_much = "?description" in query and query.count("wd:Q") > 3
        return EXCESSES["too long a body"] if is_too_much else EMPTY

    server.handle = answer
    client.send([make_describe_item_call(HERE, f"Q{number}") for number in range(1, 11)], inbox)
    sent = len(server.seen)
    client.send([make_neighbours_call(HERE, f"Q{number}", ["P31"]) for number in range(1, 11)], inbox)
    assert len(server.seen) == sent + 1


def test_retry_after_of_timeout_response_is_respected(client, server, inbox):
    server.script({**EXCESSES["QLever's time-out"], "headers": {"Retry-After": "0.3"}}, EMPTY)
    call = make_describe_item_call(HERE, "Q1")
    client.send([call], inbox)
    assert inbox[call].status == "ok"
    assert server.seen[1].at - server.seen[0].at >= 0.3


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"json": {"hello": 1}}, "malformed_reply"),
        ({"status": 429, "text": "slow", "headers": {"Retry-After": "0"}}, "http_429"),
    ],
)
def test_transient_failure_is_retried_then_fails_and_remains_retryable(client, server, inbox, answer, code):
    call = make_find_items_call(HERE, "Berlin")
    server.script(answer)
    client.send([call], inbox)
    assert (inbox[call].error.partition(":")[0], inbox[call].transient) == (code, True)
    assert len(server.seen) == 3
    server.script(answer, EMPTY)
    other = make_find_items_call(HERE, "Paris")
    client.send([other], inbox)
    assert inbox[other].body == []


def test_malformed_query_is_final_failure(client, server, inbox):
    server.script({"status": 400, "text": "parse error"})
    call = make_find_items_call(HERE, "Berlin")
    client.send([call], inbox)
    assert inbox[call].error.startswith("http_400")
    assert (inbox[call].transient, len(server.seen)) == (False, 1)


def test_endpoint_that_refuses_client_stops_run(client, server, inbox):
    server.script({"status": 403, "text": "set a user agent"})
    with pytest.raises(ServiceUnreachable, match="403: set a user agent"):
        client.send([make_find_items_call(HERE, "Berlin")], inbox)
