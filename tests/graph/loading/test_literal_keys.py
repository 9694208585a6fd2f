"""Dates and numbers told apart, spelled and keyed in bulk, as text.values.literals does one by one."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs.rdf_lines import spell_out

from tasks.graph.loading.literal_tables import KEY, NUMBER
from tasks.graph.loading.shapes import make_shapes, sort_block
from tasks.graph.loading.sources.streams import Block
from tasks.text.values.literals import canonical_number, date_key, number_key

Compute = Callable[[list[str]], list[tuple[str | None, int]]]
SHAPES = make_shapes(("en",))


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
    """Return the values that are accepted, and the reasons for which others are set aside."""
    lines = "\n".join(f'wd:Q1 wdt:P1 "{value}"^^xsd:{datatype}' for value in values)
    found = sort_block(Block("a.nt", 1, spell_out(lines).encode()), SHAPES)
    return {
        name: [row[column] for table in found.tables.get(name, []) for row in table.to_pylist()]
        for name, column in (("direct_values", "value"), ("malformed", "reason"))
    }


@pytest.fixture(scope="module")
def compute_in_bulk() -> Iterator[Compute]:
    """Compute number and key of values as the tables are made."""
    query = f"SELECT number, {KEY} FROM (SELECT *, {NUMBER} AS number FROM given) ORDER BY place"
    with duckdb.connect() as connection:

        def compute(values: list[str]) -> list[tuple[str | None, int]]:
            given = pa.table({"place": range(len(values)), "value": pa.array(values, pa.string())})
            connection.register("given", given)
            return connection.execute(query).fetchall()

        yield compute


@pytest.mark.slow
@given(values=st.lists(nearly_dates(), min_size=1, max_size=30))
@settings(deadline=None)
def test_dates_are_told_and_keyed_in_bulk_as_one_by_one(compute_in_bulk: Compute, values: list[str]) -> None:
    dates = [value for value in values if date_key(value) is not None]
    assert read_in_bulk(values, "dateTime") == {
        "direct_values": dates,
        "malformed": ["not a date"] * (len(values) - len(dates)),
    }
    assert compute_in_bulk(dates) == [(None, date_key(value)) for value in dates]


@pytest.mark.slow
@given(values=st.lists(NEARLY_NUMBERS, min_size=1, max_size=30))
@settings(deadline=None)
def test_numbers_are_told_spelled_and_keyed_in_bulk_as_one_by_one(compute_in_bulk: Compute, values: list[str]) -> None:
    numbers = [value for value in values if canonical_number(value) is not None]
    assert read_in_bulk(values, "decimal") == {
        "direct_values": numbers,
        "malformed": ["not a decimal number"] * (len(values) - len(numbers)),
    }
    spelled = [canonical_number(value) or "" for value in numbers]
    assert compute_in_bulk(numbers) == [(number, number_key(number)) for number in spelled]
