"""Test rows, their Arrow schemas, and fingerprints."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Literal

import pyarrow as pa
import pytest
from pydantic import BaseModel, ValidationError

from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.digests import canonical_json, derive_seed, digest_json
from factmill.tasks.core.rows import Row, arrow_schema, column_docs, make_arrow_table, rows_from_arrow
from factmill.tasks.granola.core import rows as granola_rows


class Part(BaseModel):
    name: str
    size: int | None


class Whole(Row):
    kind: Literal["a", "b"]
    """Kind of thing."""
    day: date
    at: datetime
    share: float | None
    tags: list[str]
    parts: list[Part]


WHOLE = Whole(
    id="w1",
    kind="a",
    day=date(2020, 2, 29),
    at=datetime(2020, 1, 1, tzinfo=UTC),
    share=None,
    tags=["x"],
    parts=[Part(name="p", size=None)],
)


def test_rows_round_trip_through_arrow() -> None:
    assert rows_from_arrow(Whole, make_arrow_table(Whole, [WHOLE])) == [WHOLE]
    assert rows_from_arrow(Whole, make_arrow_table(Whole, [])) == []


def test_call_key_is_digest_of_service_operation_parts_and_wire() -> None:
    for wire in ({}, {"messages": ["é"]}):
        call = Call('s"1', "say", {"name": "ß", "n": 1.0}, wire)
        assert call.key == digest_json(['s"1', "say", {"name": "ß", "n": 1.0}, digest_json(wire)])


def test_arrow_schema_follows_annotations() -> None:
    schema = arrow_schema(Whole)
    assert schema.field("share").nullable
    assert not schema.field("id").nullable
    assert schema.field("parts").type == pa.list_(
        pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("size", pa.int64())])
    )


def test_annotation_without_arrow_type_is_rejected() -> None:
    class Odd(Row):
        what: bytes

    with pytest.raises(TypeError, match="no Arrow type"):
        arrow_schema(Odd)


def test_rows_are_frozen_and_reject_unknown_columns() -> None:
    with pytest.raises(ValidationError):
        WHOLE.kind = "b"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Whole.model_validate({**WHOLE.model_dump(), "extra": 1})


class Asked(Row):
    question: str
    tags: list[str]


class Told(Asked):
    answer: str | None
    score: int


class Published(Row):
    question: str
    answer: str
    rank: int


ASKED = Asked(id="a1", question="Who?", tags=["x"])
TOLD = Told(id="a1", question="Who?", tags=["x"], answer="Ada", score=3)


def test_a_row_is_extended_narrowed_and_copied_with_the_columns_of_its_model() -> None:
    assert ASKED.extend_to(Told, answer="Ada", score=3) == TOLD
    assert TOLD.narrow_to(Asked) == ASKED
    narrowed = TOLD.narrow_to(Published, id="a1_1", rank=2)
    assert narrowed == Published(id="a1_1", question="Who?", answer="Ada", rank=2)
    assert TOLD.replace(score=4).score == 4
    with pytest.raises(TypeError, match="question"):
        ASKED.extend_to(Told, question="When?", answer="Ada", score=3)


@pytest.mark.parametrize(
    ("make", "faults"),
    [
        (lambda: ASKED.extend_to(Told, answr="Ada", score=3), {("answr", "extra_forbidden"), ("answer", "missing")}),
        (lambda: ASKED.extend_to(Told, answer="Ada"), {("score", "missing")}),
        (lambda: ASKED.extend_to(Told, answer="Ada", score=3, sure=True), {("sure", "extra_forbidden")}),
        (
            lambda: ASKED.extend_to(Told, answer=["Ada"], score="many"),
            {("answer", "string_type"), ("score", "int_parsing")},
        ),
        (lambda: TOLD.extend_to(Asked), {("answer", "extra_forbidden"), ("score", "extra_forbidden")}),
        (lambda: TOLD.narrow_to(Published, rnk=2), {("rnk", "extra_forbidden"), ("rank", "missing")}),
        (lambda: TOLD.replace(answer=None).narrow_to(Published, rank=2), {("answer", "string_type")}),
        (lambda: TOLD.replace(scor=4), {("scor", "extra_forbidden")}),
    ],
)
def test_columns_that_do_not_fit_a_model_are_named(make: Callable[[], Row], faults: set[tuple[str, str]]) -> None:
    with pytest.raises(ValidationError) as caught:
        make()
    assert {(str(fault["loc"][0]), fault["type"]) for fault in caught.value.errors()} == faults


@pytest.mark.parametrize("model", [granola_rows.GranolaRow, granola_rows.NameBearingItemCandidateRow])
def test_every_published_column_has_description(model: type[Row]) -> None:
    assert [name for name, text in column_docs(model).items() if not text] == []


def test_canonical_json_does_not_depend_on_key_order() -> None:
    assert canonical_json({"b": 1, "a": ["é", None]}) == '{"a":["é",null],"b":1}'
    assert digest_json({"b": 1, "a": 2}) == digest_json({"a": 2, "b": 1})


def test_derived_seed_separates_its_parts() -> None:
    assert derive_seed("ab", "c") != derive_seed("a", "bc")
    assert derive_seed("ab", "c") == derive_seed("ab", "c")


@pytest.mark.parametrize(
    "other",
    [
        Call("t", "o", {"n": 1}),
        Call("s", "p", {"n": 1}),
        Call("s", "o", {"n": 2}),
        Call("s", "o", {"n": 1}, {"messages": ["x"]}),
    ],
)
def test_call_key_changes_with_each_part_and_wire_content(other: Call) -> None:
    call = Call("s", "o", {"n": 1})
    assert call.key == Call("s", "o", {"n": 1}).key
    assert call.key != other.key
