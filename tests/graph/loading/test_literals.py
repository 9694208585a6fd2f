"""Test dates and numbers assembled from statements, qualifiers and value nodes, against plain Python."""

import itertools
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.rdf_lines import spell_out

from factmill.tasks.graph.load import load_graph
from factmill.tasks.graph.loading.line_patterns import make_line_patterns, sort_block_lines_into_rows
from factmill.tasks.graph.loading.sources.streams import LineBlock
from factmill.tasks.graph.loading.staging_rows import STAGING_SCHEMAS
from factmill.tasks.graph.loading.tables import (
    CANONICAL_NUMBER_SQL,
    LITERAL_KEY_SQL,
    write_literals_table_and_count_dropped,
)
from factmill.tasks.graph.lookup import WikidataGraph
from factmill.tasks.text.values.wikidata_literals import (
    canonical_number,
    compute_xsd_datetime_day_key,
    hash_canonical_number,
)

Make = Callable[..., WikidataGraph]
SHAPES = make_line_patterns(("en",))
TYPES = {pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.string(): "VARCHAR"}


class Row(NamedTuple):
    """A row of the table `literals` without its id, number and key."""

    item: int
    property: int
    qualifier: int | None
    statement: str | None
    value: str
    precision: int | None = None
    unit: int | None = None
    main: str | None = None


def store(text: str) -> tuple[list[Row], dict[str, int]]:
    """Return the sorted literals of lines (see `spell_out`), and what was left out."""
    found = sort_block_lines_into_rows(LineBlock("a.nt", 1, spell_out(text).encode()), SHAPES)
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS staging")
        for name, schema in STAGING_SCHEMAS.items():
            columns = ", ".join(f"{column.name} {TYPES[column.type]}" for column in schema)
            connection.execute(f"CREATE TABLE staging.{name} ({columns})")
            for rows in found.tables.get(name, []):
                connection.register("rows", rows)
                connection.execute(f"INSERT INTO staging.{name} FROM rows")
        left_out = write_literals_table_and_count_dropped(connection)
        stored = connection.execute("FROM literals ORDER BY id").fetchall()
    assert [row[0] for row in stored] == list(range(len(stored)))
    for *_, value, _, _, _, number, key in stored:
        assert number == canonical_number(value)
        assert key == (hash_canonical_number(number) if number else compute_xsd_datetime_day_key(value))
    return [Row(*row[1:9]) for row in stored], left_out


BORN = """
    wd:Q1 p:P569 wds:q1-b
    wds:q1-b ps:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime
"""
HEIGHT = """
    wd:Q1 p:P2048 wds:q1-h
    wds:q1-h ps:P2048 "+1.960"^^xsd:decimal
"""
MARRIED = """
    wd:Q1 p:P26 wds:q1-m
    wds:q1-m ps:P26 wd:Q2
    wds:q1-m pq:P580 "1991-11-25T00:00:00Z"^^xsd:dateTime
"""


def test_date_precision_comes_from_its_value_node() -> None:
    node = """
        wds:q1-b psv:P569 v:a
        v:a wikibase:timePrecision "9"^^xsd:integer
        v:a wikibase:timeValue "1952-03-11T00:00:00Z"^^xsd:dateTime
    """
    assert store(BORN + node)[0] == [Row(1, 569, None, "q1-b", "1952-03-11T00:00:00Z", 9)]


def test_number_unit_comes_from_its_value_node_and_unit_one_is_none() -> None:
    node = """
        wds:q1-h psv:P2048 v:a
        v:a wikibase:quantityAmount "+1.960"^^xsd:decimal
        v:a wikibase:quantityUnit wd:"""
    assert store(HEIGHT + node + "Q11573")[0] == [Row(1, 2048, None, "q1-h", "1.96", None, 11573)]
    assert store(HEIGHT + node + "Q199")[0] == [Row(1, 2048, None, "q1-h", "1.96")]


def test_qualifier_row_names_its_statement_and_main_value() -> None:
    nodes = """
        wds:q1-m pqv:P580 v:a
        v:a wikibase:timeValue "1991-11-25T00:00:00Z"^^xsd:dateTime
        v:a wikibase:timePrecision "11"^^xsd:integer
    """
    assert store(MARRIED + nodes)[0] == [Row(1, 26, 580, "q1-m", "1991-11-25T00:00:00Z", 11, None, "Q2")]


def test_distinct_value_nodes_yield_separate_rows_and_equal_ones_merge() -> None:
    nodes = "".join(
        f"""
        wds:q1-b psv:P569 v:{node}
        v:{node} wikibase:timeValue "1952-03-11T00:00:00Z"^^xsd:dateTime
        v:{node} wikibase:timePrecision "{precision}"^^xsd:integer
        """
        for node, precision in (("a", 9), ("b", 11), ("c", 9))
    )
    assert [row.precision for row in store(BORN + nodes * 2)[0]] == [9, 11]


@pytest.mark.parametrize(
    ("said", "main"),
    [
        ("wd:Q2", "Q2"),
        ('"Jane \\"B.\\""@en', 'Jane "B."'),
        ('"Q2"', "Q2"),
        ("<https://a.org/>", "https://a.org/"),
        ("wd:P2", "http://www.wikidata.org/entity/P2"),
        ('"+5"^^xsd:decimal', "5"),
        ("_:unknown", None),
        ("<http://www.wikidata.org/.well-known/genid/abc>", None),
    ],
)
def test_qualifier_row_has_main_value_of_its_statement(said: str, main: str | None) -> None:
    [row] = [row for row in store(MARRIED.replace("wd:Q2", said))[0] if row.qualifier]
    assert row.main == main


def test_only_deprecated_statements_are_left_out_by_rank() -> None:
    ranks = """
        wds:q1-b wikibase:rank wikibase:PreferredRank
        wds:q1-h wikibase:rank wikibase:NormalRank
        wds:q1-m wikibase:rank wikibase:DeprecatedRank
    """
    rows, left_out = store(BORN + HEIGHT + MARRIED + ranks)
    assert [row.statement for row in rows] == ["q1-b", "q1-h"]
    assert left_out == {"deprecated": 1, "unlinked": 0, "direct": 0}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (BORN.replace("wd:Q1", "wd:P1"), 1),
        (BORN.replace("p:P569", "p:P570", 1), 1),
        (BORN.replace("p:P569 wds:q1-b", "p:P569 wds:q1-c", 1), 1),
        (MARRIED.replace("p:P26 wds:q1-m", "p:P26 wds:q1-n", 1), 1),
    ],
)
def test_statements_without_item_are_left_out_and_counted(text: str, count: int) -> None:
    assert store(text) == ([], {"deprecated": 0, "unlinked": count, "direct": 0})


def test_qualifier_is_kept_if_statement_value_has_other_property() -> None:
    rows, left_out = store(MARRIED.replace("ps:P26", "ps:P27"))
    assert rows == [Row(1, 26, 580, "q1-m", "1991-11-25T00:00:00Z")]
    assert left_out["unlinked"] == 0


DIRECT = 'wd:Q1 wdt:P569 "1952-03-11T00:00:00Z"^^xsd:dateTime\n wd:Q1 wdt:P2048 "+1.960"^^xsd:decimal\n'


def test_direct_claims_are_stored_if_no_statements_exist() -> None:
    rows, left_out = store(DIRECT * 2)
    assert rows == [Row(1, 569, None, None, "1952-03-11T00:00:00Z"), Row(1, 2048, None, None, "1.96")]
    assert left_out == {"deprecated": 0, "unlinked": 0, "direct": 0}


@pytest.mark.parametrize("rank", ["NormalRank", "DeprecatedRank"])
def test_statement_of_any_rank_replaces_direct_claims_of_same_property(rank: str) -> None:
    rows, left_out = store(DIRECT + f"wd:Q1 p:P569 wds:q1-b\n wds:q1-b wikibase:rank wikibase:{rank}")
    assert [row.property for row in rows] == [2048]
    assert left_out == {"deprecated": 0, "unlinked": 0, "direct": 1}


def test_rows_are_sorted_with_missing_values_first() -> None:
    rows, _ = store(
        """
        wd:Q10 wdt:P5 "9"^^xsd:decimal
        wd:Q9 wdt:P5 "9"^^xsd:decimal
        wd:Q9 wdt:P5 "10"^^xsd:decimal
        wd:Q9 p:P4 wds:q9-b
        wd:Q9 p:P4 wds:q9-a
        wds:q9-b ps:P4 "1"^^xsd:decimal
        wds:q9-a ps:P4 "2"^^xsd:decimal
        wds:q9-a pq:P3 "2"^^xsd:decimal
        """
    )
    assert [row[:5] for row in rows] == [
        (9, 4, None, "q9-a", "2"),
        (9, 4, None, "q9-b", "1"),
        (9, 4, 3, "q9-a", "2"),
        (9, 5, None, None, "10"),
        (9, 5, None, None, "9"),
        (10, 5, None, None, "9"),
    ]


def read_literals(graph: WikidataGraph) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(graph.path / "graph.duckdb"), read_only=True) as connection:
        return connection.execute("FROM literals ORDER BY id").fetchall()


WHOLE = BORN + HEIGHT + MARRIED + DIRECT + 'wds:q1-m ps:P26 "Jane"@en\n wds:q1-m pq:P1545 "+2"^^xsd:decimal'


def test_line_order_file_split_and_repetition_do_not_change_graph(make_graph: Make, tmp_path: Path) -> None:
    graph = make_graph(WHOLE)
    lines = spell_out(WHOLE).splitlines(keepends=True) * 2
    random.Random(3).shuffle(lines)
    for name, part in (("a.nt", lines[:9]), ("b.nt", lines[9:])):
        (tmp_path / name).write_text("".join(part), "utf-8")
    other = load_graph([tmp_path / "b.nt", tmp_path / "a.nt"], "other", tmp_path / "graphs")
    assert other.digest == graph.manifest.digest
    assert (other.stored, other.left_out) == (graph.manifest.stored, graph.manifest.left_out)
    assert other.stored["literals"] == len(read_literals(graph)) == 6


@pytest.mark.parametrize("line", ["wds:q1-b wikibase:rank wikibase:DeprecatedRank", "wds:q1-m ps:P26 wd:Q7"])
def test_digest_covers_literals(make_graph: Make, line: str) -> None:
    assert make_graph(WHOLE).manifest.digest != make_graph(f"{WHOLE}\n{line}", "other").manifest.digest


def test_item_with_only_dates_is_stored(make_graph: Make) -> None:
    graph = make_graph(DIRECT)
    with duckdb.connect(str(graph.path / "graph.duckdb"), read_only=True) as connection:
        assert connection.execute("SELECT item FROM items").fetchall() == [(1,)]


def test_date_far_before_python_range_is_stored(make_graph: Make) -> None:
    graph = make_graph('wd:Q323 wdt:P580 "-13798000000-01-01T00:00:00Z"^^xsd:dateTime')
    assert [(row[1], row[5], row[10]) for row in read_literals(graph)] == [
        (323, "-13798000000-01-01T00:00:00Z", -13_798_000_000 * 10_000 + 101)
    ]


DATES = ['"1952-03-11T00:00:00Z"^^xsd:dateTime', '"1952-01-01T00:00:00Z"^^xsd:dateTime']
NUMBERS = ['"+1.0"^^xsd:decimal', '"1"^^xsd:decimal']
STATEMENTS, NODES, PIDS = ("a", "b"), ("m", "n"), ("P1", "P2")
UNIVERSE = [
    *(f"wd:{q} p:{p} wds:{s}" for q in ("Q1", "Q2") for p in PIDS for s in STATEMENTS),
    *(f"wds:{s} {by}:{p} {o}" for s in STATEMENTS for by in ("ps", "pq") for p in PIDS for o in DATES + NUMBERS),
    *(f"wds:{s} ps:{p} {o}" for s in STATEMENTS for p in PIDS for o in ("wd:Q9", '"Q9"@en', "_:x")),
    *(f"wds:{s} {by}:{p} v:{v}" for s in STATEMENTS for by in ("psv", "pqv") for p in PIDS for v in NODES),
    *(f"v:{v} wikibase:timeValue {o}" for v in NODES for o in DATES),
    *(f'v:{v} wikibase:timePrecision "{o}"^^xsd:integer' for v in NODES for o in (9, 11)),
    *(f"v:{v} wikibase:quantityAmount {o}" for v in NODES for o in NUMBERS),
    *(f"v:{v} wikibase:quantityUnit wd:{o}" for v in NODES for o in ("Q199", "Q5")),
    *(f"wds:{s} wikibase:rank wikibase:{o}Rank" for s in STATEMENTS for o in ("Normal", "Deprecated")),
    *(f"wd:{q} wdt:{p} {o}" for q in ("Q1", "Q2") for p in PIDS for o in DATES + NUMBERS),
]


def put_together(lines: Iterable[str]) -> tuple[set[Row], dict[str, int]]:
    """Assemble literals triple by triple, following each from its statement."""
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in lines:
        subject, predicate, thing = line.split(" ", 2)
        said[subject, predicate].add(thing)

    def follow(subject: str, name: str) -> list[tuple[int, str]]:
        return [
            (int(predicate.rpartition(":P")[2]), thing)
            for (each, predicate), things in said.items()
            if each == subject and predicate.startswith(f"{name}:")
            for thing in things
        ]

    def is_literal(thing: str) -> bool:
        return "dateTime" in thing or "decimal" in thing

    def mean(statement: str, name: str, pid: int, thing: str) -> set[tuple[int | None, int | None]]:
        found: set[tuple[int | None, int | None]] = set()
        for node in said[f"wds:{statement}", f"{name}:P{pid}"]:
            precisions = {int(re.sub(r"\D.*", "", o[1:])) for o in said[node, "wikibase:timePrecision"]} or {None}
            units = {int(o.removeprefix("wd:Q")) for o in said[node, "wikibase:quantityUnit"]} or {None}
            if thing in said[node, "wikibase:timeValue"]:
                found |= {(precision, None) for precision in precisions}
            if plain(thing) in map(plain, said[node, "wikibase:quantityAmount"]):
                found |= {(None, None if unit == 199 else unit) for unit in units}
        return found or {(None, None)}

    rows, left_out = set(), {"deprecated": 0, "unlinked": 0, "direct": 0}
    owners = [
        (int(q[4:]), int(p[3:]), thing[4:]) for (q, p), things in said.items() if p.startswith("p:") for thing in things
    ]
    for statement in STATEMENTS:
        is_deprecated = "wikibase:DeprecatedRank" in said[f"wds:{statement}", "wikibase:rank"]
        values = {
            (name, says, plain(thing)): thing
            for name in ("ps", "pq")
            for says, thing in follow(f"wds:{statement}", name)
            if is_literal(thing)
        }
        for (name, says, _), thing in values.items():
            of = [(q, p) for q, p, s in owners if s == statement and (name == "pq" or p == says)]
            if is_deprecated or not of:
                left_out["deprecated" if is_deprecated else "unlinked"] += 1
                continue
            for (q, p), (precision, unit) in itertools.product(of, mean(statement, f"{name}v", says, thing)):
                mains = {plain(o) for pid, o in follow(f"wds:{statement}", "ps") if pid == p and o != "_:x"}
                for main in mains or {None} if name == "pq" else {None}:
                    qualifier = says if name == "pq" else None
                    rows.add(Row(q, p, qualifier, statement, plain(thing), precision, unit, main))
    for item in (1, 2):
        for pid, value in {(pid, plain(thing)) for pid, thing in follow(f"wd:Q{item}", "wdt")}:
            if any((item, pid) == (q, p) for q, p, _ in owners):
                left_out["direct"] += 1
            else:
                rows.add(Row(item, pid, None, None, value))
    return rows, left_out


def plain(thing: str) -> str:
    if thing.startswith("wd:"):
        return thing.removeprefix("wd:")
    text = thing[1:].rpartition('"')[0]
    return canonical_number(text) or text if "decimal" in thing else text


@pytest.mark.slow
@given(st.lists(st.sampled_from(UNIVERSE), min_size=1, max_size=60))
@settings(deadline=None, max_examples=25)
def test_stored_rows_match_reference_implementation_for_any_triples(lines: list[str]) -> None:
    rows, left_out = store("\n".join(lines))
    expected = put_together(lines)
    assert len(rows) == len(set(rows))
    assert (set(rows), left_out) == expected
    result = (line.split(" ", 2) for line in lines if re.match(r"\S+ (ps|pq|wdt):", line))
    said = {(s, p, plain(o)) for s, p, o in result if "dateTime" in o or "decimal" in o}
    stored = {(row.statement or row.item, row.qualifier, row.qualifier or row.property, row.value) for row in rows}
    assert len(said) == len(stored) + sum(left_out.values())


Compute = Callable[[list[str]], list[tuple[str | None, int]]]


@st.composite
def nearly_dates(draw: st.DrawFn) -> str:
    year = draw(
        st.one_of(
            st.integers(0, 10**15).map(str),
            st.integers(10**14 - 2, 10**14 + 2).map(str),
            st.integers(0, 3000).map("{:04d}".format),
        )
    )
    part = st.integers(0, 35).map("{:02d}".format)
    text = "".join(
        [
            draw(st.sampled_from(["", "", "+", "-", "--"])),
            draw(st.sampled_from(["", "", "0", "000000000000"])) + year,
            f"-{draw(part)}-{draw(part)}T{draw(part)}:{draw(part)}:{draw(part)}",
            draw(st.sampled_from(["", "", ".5", ".000", "."])),
            draw(st.sampled_from(["Z", "", "+01:00", "-05:30", "z"])),
        ]
    )
    if draw(st.integers(0, 3)):
        return text
    cut = draw(st.integers(0, len(text)))
    return text[:cut] + draw(st.sampled_from(["", "1", "-", " ", "é", "T"])) + text[cut + 1 :]


NEARLY_NUMBERS = st.one_of(
    st.text("0123456789+-.", max_size=9), st.text("0.-", max_size=6), st.decimals(allow_nan=False).map(str)
)


def read_in_bulk(values: Iterable[str], datatype: str) -> dict[str, list[Any]]:
    """Return the accepted values, and the reasons why others are malformed."""
    lines = "\n".join(f'wd:Q1 wdt:P1 "{value}"^^xsd:{datatype}' for value in values)
    found = sort_block_lines_into_rows(LineBlock("a.nt", 1, spell_out(lines).encode()), SHAPES)
    return {
        name: [row[column] for table in found.tables.get(name, []) for row in table.to_pylist()]
        for name, column in (("direct_values", "value"), ("malformed", "reason"))
    }


@pytest.fixture(scope="module")
def compute_in_bulk() -> Iterator[Compute]:
    """Compute the number and key of values by the SQL that makes the tables."""
    query = (
        f"SELECT number, {LITERAL_KEY_SQL} FROM (SELECT *, {CANONICAL_NUMBER_SQL} AS number FROM given) ORDER BY place"
    )
    with duckdb.connect() as connection:

        def compute(values: list[str]) -> list[tuple[str | None, int]]:
            given = pa.table({"place": range(len(values)), "value": pa.array(values, pa.string())})
            connection.register("given", given)
            return connection.execute(query).fetchall()

        yield compute


@pytest.mark.slow
@given(values=st.lists(nearly_dates(), min_size=1, max_size=30))
@settings(deadline=None)
def test_bulk_date_parsing_matches_single_date_parsing(compute_in_bulk: Compute, values: list[str]) -> None:
    dates = [value for value in values if compute_xsd_datetime_day_key(value) is not None]
    assert read_in_bulk(values, "dateTime") == {
        "direct_values": dates,
        "malformed": ["not a date"] * (len(values) - len(dates)),
    }
    assert compute_in_bulk(dates) == [(None, compute_xsd_datetime_day_key(value)) for value in dates]


@pytest.mark.slow
@given(values=st.lists(NEARLY_NUMBERS, min_size=1, max_size=30))
@settings(deadline=None)
def test_bulk_number_parsing_matches_single_number_parsing(compute_in_bulk: Compute, values: list[str]) -> None:
    numbers = [value for value in values if canonical_number(value) is not None]
    assert read_in_bulk(values, "decimal") == {
        "direct_values": numbers,
        "malformed": ["not a decimal number"] * (len(values) - len(numbers)),
    }
    spelled = [canonical_number(value) or "" for value in numbers]
    assert compute_in_bulk(numbers) == [(number, hash_canonical_number(number)) for number in spelled]
