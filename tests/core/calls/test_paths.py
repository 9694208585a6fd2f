"""Test paths by calls: the order of requests, the use of responses, and rows in bodies."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.path_calls import (
    WikidataCallPathFinder,
    format_deduplicated_item_paths,
    format_distinct_literal_paths,
    make_fixed_hops_item_paths_call,
    make_literal_paths_call,
    make_uncached_sender,
    parse_item_paths,
    parse_literal_paths,
)
from factmill.tasks.core.wikidata_paths import (
    ITEM_PATHS_SCHEMA,
    LITERAL_PATHS_SCHEMA,
    PAIR_STATUS_SCHEMA,
    PathSearchOptions,
)
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit

EVERYTHING = PathSearchOptions(max_paths=None)
BIRTH = (1, None, 569, None, None, "q1-A", "1952-03-11T00:00:00Z", 11, None, None)
SCHOOL_END = (1, None, 69, None, 582, "q1-B", "1952-01-01T00:00:00Z", 9, None, "Q7")
OF_SPOUSE = (2, 8, 26, 569, None, "q8-A", "1952-06-01T00:00:00Z", None, None, None)


class Answers:
    """Answers calls from a table: (subject, object or value, hops) → rows, or an error text."""

    def __init__(self, table):
        self.table = table
        self.batches = []

    def __call__(self, calls):
        self.batches.append([(call.operation, call.parts["subject"], call.parts["hops"]) for call in calls])
        return [self.answer(call) for call in calls]

    def answer(self, call):
        target = next(call.parts[name] for name in ("object", "date", "number") if name in call.parts)
        found = self.table.get((call.parts["subject"], target, call.parts["hops"]), [])
        if isinstance(found, str):
            return CallResponse(None, "failed", error=found)
        write = format_deduplicated_item_paths if call.operation == "item_paths" else format_distinct_literal_paths
        return CallResponse(json.loads(json.dumps(write(found))))


def find_items(answers, pairs, options=EVERYTHING):
    subjects, objects = (np.array(side, np.int64) for side in zip(*pairs, strict=True)) if pairs else ([], [])
    return WikidataCallPathFinder(answers, "here").find_item_paths(
        np.asarray(subjects, np.int64), np.asarray(objects, np.int64), options
    )


def find_dates(answers, pairs, options=EVERYTHING):
    subjects = np.array([subject for subject, _ in pairs], np.int64)
    return WikidataCallPathFinder(answers, "here").find_literal_paths(
        subjects, [date for _, date in pairs], frozenset({582, 569}), options
    )


def list_pairs(found):
    return [tuple(line.values()) for line in found.pairs.to_pylist()]


def walks(found):
    return [tuple(line.values()) for line in found.paths.to_pylist()]


def test_two_hops_are_queried_only_if_one_hop_finds_nothing():
    answers = Answers(
        {
            ("Q1", "Q2", 1): [(1, True, None, 26, None), (1, False, None, 26, None)],
            ("Q1", "Q3", 2): [(2, False, 9, 31, 279)],
        }
    )
    found = find_items(answers, [(1, 2), (1, 3), (1, 4)])
    assert walks(found) == [(0, 1, False, None, 26, None), (0, 1, True, None, 26, None), (1, 2, False, 9, 31, 279)]
    assert list_pairs(found) == [(0, "found", 2, 2), (1, "found", 1, 1), (2, "none", 0, 0)]
    assert answers.batches == [[("item_paths", "Q1", 1)] * 3, [("item_paths", "Q1", 2)] * 2]


def test_all_hops_are_queried_on_request():
    answers = Answers({("Q1", "Q2", 1): [(1, False, None, 26, None)], ("Q1", "Q2", 2): [(2, True, 9, 31, 279)]})
    found = find_items(answers, [(1, 2)], PathSearchOptions(always_two_hops=True))
    assert walks(found) == [(0, 1, False, None, 26, None), (0, 2, True, 9, 31, 279)]
    assert list_pairs(found) == [(0, "found", 2, 2)]


def test_ignored_property_paths_are_dropped_and_search_continues():
    answers = Answers(
        {
            ("Q1", "Q2", 1): [(1, False, None, 26, None)],
            ("Q1", "Q2", 2): [(2, False, 9, 26, 31), (2, False, 9, 31, 26), (2, False, 9, 31, 31)],
        }
    )
    found = find_items(answers, [(1, 2)], PathSearchOptions(ignored_properties=frozenset({26})))
    assert walks(found) == [(0, 2, False, 9, 31, 31)]
    assert list_pairs(found) == [(0, "found", 1, 1)]


@pytest.mark.parametrize("ignored", [69, 582, 26])
def test_qualifier_and_hop_properties_can_be_ignored(ignored):
    answers = Answers({("Q1", "1952", 1): [BIRTH, SCHOOL_END], ("Q1", "1952", 2): [OF_SPOUSE]})
    found = find_dates(
        answers,
        [(1, PartialDate(1952))],
        PathSearchOptions(always_two_hops=True, ignored_properties=frozenset({ignored})),
    )
    left_out = OF_SPOUSE if ignored == 26 else SCHOOL_END
    assert walks(found) == [(0, *row) for row in (SCHOOL_END, BIRTH, OF_SPOUSE) if row != left_out]


def test_path_cap_keeps_first_paths_in_order_and_reports_total():
    rows = [(1, backward, None, number, None) for backward in (True, False) for number in range(30, 0, -1)]
    found = find_items(Answers({("Q1", "Q2", 1): rows}), [(1, 2), (3, 2)], PathSearchOptions(max_paths=31))
    assert list_pairs(found) == [(0, "capped", 60, 31), (1, "none", 0, 0)]
    expected = [(0, 1, False, None, number, None) for number in range(1, 31)]
    assert walks(found) == [*expected, (0, 1, True, None, 1, None)]
    exact = find_items(Answers({("Q1", "Q2", 1): rows}), [(1, 2)], PathSearchOptions(max_paths=60))
    assert list_pairs(exact) == [(0, "found", 60, 60)]


def test_paths_from_item_to_itself_are_not_queried():
    answers = Answers({("Q1", "Q1", 1): [(1, False, None, 26, None)]})
    found = find_items(answers, [(1, 1)])
    assert (list_pairs(found), walks(found), answers.batches) == ([(0, "identical", 0, 0)], [], [])


def test_repeated_pair_is_queried_once_and_answered_each_time():
    answers = Answers({("Q1", "Q2", 1): [(1, False, None, 26, None)]})
    found = find_items(answers, [(1, 2), (3, 2), (1, 2)])
    assert [row[0] for row in walks(found)] == [0, 2]
    assert answers.batches == [[("item_paths", "Q1", 1), ("item_paths", "Q3", 1)], [("item_paths", "Q3", 2)]]


def test_failed_pair_has_no_paths_and_has_reason():
    answers = Answers(
        {
            ("Q1", "Q2", 1): "timeout: no answer within 60 s",
            ("Q1", "Q3", 1): [(1, False, None, 26, None)],
            ("Q1", "Q3", 2): "http_500: broken",
            ("Q1", "Q4", 2): [(2, False, 9, 31, 279)],
        }
    )
    found = find_items(answers, [(1, 2), (1, 3), (1, 4)], PathSearchOptions(always_two_hops=True))
    assert list_pairs(found) == [(0, "failed", 0, 0), (1, "failed", 0, 0), (2, "found", 1, 1)]
    assert walks(found) == [(2, 2, False, 9, 31, 279)]
    assert found.failures == {
        0: "item_paths, hops 1: timeout: no answer within 60 s",
        1: "item_paths, hops 2: http_500: broken",
    }
    assert answers.batches[1] == [("item_paths", "Q1", 2)] * 2, "a failed pair gets no further query"


def test_date_and_number_queries_include_their_properties():
    day = make_literal_paths_call("here", 42, PartialDate(-43, 3, 15), frozenset({582, 569}), 1)
    assert (day.operation, day.parts) == (
        "date_paths",
        {"subject": "Q42", "date": "-0043-03-15", "properties": ["P569", "P582"], "hops": 1},
    )
    height = make_literal_paths_call("here", 42, WantedNumberWithUnit("1.96", 11573), frozenset({2048}), 2)
    assert (height.operation, height.parts) == (
        "number_paths",
        {"subject": "Q42", "number": "1.96", "unit": "Q11573", "properties": ["P2048"], "hops": 2},
    )
    assert make_literal_paths_call("here", 42, WantedNumberWithUnit("1.96"), frozenset({2048}), 2).parts["unit"] is None
    keys = {make_fixed_hops_item_paths_call("here", *each).key for each in ((1, 2, 1), (2, 1, 1), (1, 2, 2))}
    assert len(keys) == 3, "each direction is a separate question"


def test_dates_are_sorted_in_agreed_order_with_null_first():
    answers = Answers({("Q1", "1952", 1): [BIRTH, SCHOOL_END], ("Q1", "1952", 2): [OF_SPOUSE]})
    found = find_dates(
        answers, [(1, PartialDate(1952)), (1, PartialDate(1953))], PathSearchOptions(always_two_hops=True)
    )
    assert walks(found) == [(0, *SCHOOL_END), (0, *BIRTH), (0, *OF_SPOUSE)]
    assert list_pairs(found) == [(0, "found", 3, 3), (1, "none", 0, 0)]


@pytest.mark.parametrize("find", [find_items, find_dates])
def test_empty_batch_sends_no_request_and_has_agreed_columns(find):
    answers = Answers({})
    found = find(answers, [])
    assert answers.batches == []
    assert found.paths.schema == (ITEM_PATHS_SCHEMA if find is find_items else LITERAL_PATHS_SCHEMA)
    assert (found.pairs.schema, found.paths.num_rows, found.pairs.num_rows) == (PAIR_STATUS_SCHEMA, 0, 0)


def test_batch_with_sides_of_different_lengths_is_rejected():
    with pytest.raises(ValueError, match=r"shorter|longer"):
        WikidataCallPathFinder(Answers({}), "here").find_item_paths(np.array([1, 2]), np.array([1]), EVERYTHING)


def test_path_search_works_on_service_without_recorder():
    class Backwards:
        identity, is_outside = "here", True

        def send(self, calls, deliver):
            for call in reversed(calls):
                deliver(
                    call,
                    CallResponse(
                        format_deduplicated_item_paths([(1, False, None, int(call.parts["object"][1:]), None)])
                    ),
                )

    found = find_items(make_uncached_sender(Backwards()), [(1, 2), (1, 3)])
    assert [row[4] for row in walks(found)] == [2, 3]


def optional(numbers):
    return st.none() | numbers


numbers = st.integers(1, 3)
item_rows = st.sets(
    st.tuples(st.just(1), st.booleans(), st.none(), numbers, st.none())
    | st.tuples(st.just(2), st.booleans(), numbers, numbers, numbers)
)
texts = st.sampled_from(["1", "é", "𝒳", "z"])
tails = (optional(numbers), optional(texts), texts, optional(numbers), optional(numbers), optional(texts))
literal_rows = st.sets(
    st.tuples(st.just(1), st.none(), numbers, st.none(), *tails)
    | st.tuples(st.just(2), numbers, numbers, numbers, *tails)
)


@given(item_rows, st.randoms(use_true_random=False))
def test_item_rows_parsed_from_body_keep_arrow_sort_order(rows, random):
    check_order(rows, random, format_deduplicated_item_paths, parse_item_paths, ITEM_PATHS_SCHEMA)


@given(literal_rows, st.randoms(use_true_random=False))
def test_literal_rows_parsed_from_body_keep_arrow_sort_order(rows, random):
    check_order(rows, random, format_distinct_literal_paths, parse_literal_paths, LITERAL_PATHS_SCHEMA)


def check_order(rows, random, write, read, schema):
    given_rows = list(rows) * 2
    random.shuffle(given_rows)
    body = json.loads(json.dumps(write(given_rows)))
    columns = schema.names[1:]
    fields = [schema.field(name) for name in columns]
    table = pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows], pa.schema(fields))
    table = table.sort_by([(name, "ascending", "at_start") for name in columns])
    assert read(body) == [tuple(line.values()) for line in table.to_pylist()]
