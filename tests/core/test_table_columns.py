"""Test the mapping of a user's columns to fields, and parsing of their cells."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import pytest

from factmill.tasks.core.table_columns import (
    ExpectedTableField,
    UserSourceSettings,
    parse_columns_by_field,
    read_table_fields,
    resolve_table_columns,
    split_column_option_into_pair_texts,
)
from factmill.tasks.errors import SourceError, UsageError

FORM = (
    ExpectedTableField("question", "text of the question", is_required=True),
    ExpectedTableField("answers", "gold answers", "list", True, "answer"),
    ExpectedTableField("steps", "sub-questions", "json"),
    ExpectedTableField("domain", "topic"),
)
SAME = {field.name: field.name for field in FORM}


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        (("question=q,answers=gold",), ("question=q", "answers=gold")),
        ("question=q, answers = gold ", ("question=q", "answers=gold")),
        (("question=q", "answers=gold"), ("question=q", "answers=gold")),
        (("question=Question, in English,answers=gold",), ("question=Question, in English", "answers=gold")),
        (("question=a=b",), ("question=a=b",)),
        (("domain=",), ("domain=",)),
        ({"question": "q", "answers": "gold"}, ("question=q", "answers=gold")),
        ((), ()),
    ],
)
def test_column_map_is_split_into_fields(given: Any, pairs: Sequence[str]) -> None:
    assert split_column_option_into_pair_texts(given) == pairs
    assert split_column_option_into_pair_texts(pairs) == pairs


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("q", "'q': expected FIELD=COLUMN, like question=q,answers=gold"),
        ("", "'': expected FIELD=COLUMN"),
        ("=q", "expected a field before the equals sign"),
        ("question=q,question=p", "the field question is there twice"),
    ],
)
def test_malformed_column_map_is_rejected_with_expected_form(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        split_column_option_into_pair_texts(given)


def test_column_map_accepts_each_known_field_once_under_either_name() -> None:
    assert parse_columns_by_field(["answer=gold"], FORM) == {"answers": "gold"}
    with pytest.raises(
        UsageError, match="unknown field qestion; expected question, answers, answer, steps, domain; did you"
    ):
        parse_columns_by_field(["qestion=q"], FORM)
    with pytest.raises(UsageError, match=r"unknown field q; .*; did you mean question=q\?"):
        parse_columns_by_field(["q=question"], FORM)
    with pytest.raises(UsageError, match="answers is there twice, as answers and answer"):
        parse_columns_by_field(["answer=gold", "answers=gold"], FORM)


@pytest.mark.parametrize(
    ("column_map", "columns", "found"),
    [
        ({}, ["question", "answers", "more"], {"question": "question", "answers": "answers"}),
        ({}, ["answer", " Question "], {"question": " Question ", "answers": "answer"}),
        ({"question": "q"}, ["q", "question", "answers"], {"question": "q", "answers": "answers"}),
        ({"domain": ""}, ["question", "answers", "domain"], {"question": "question", "answers": "answers"}),
        ({"answers": "a.value"}, ["question", "a"], {"question": "question", "answers": "a.value"}),
    ],
)
def test_columns_come_from_map_or_else_from_field_names(
    column_map: Mapping[str, str], columns: Sequence[str], found: Mapping[str, str]
) -> None:
    assert resolve_table_columns("t.csv", FORM, column_map, columns) == found


def test_short_field_name_is_not_proposed_for_similar_column() -> None:
    form = (*FORM, ExpectedTableField("id", "unique id"))
    for columns, proposed in (
        (["q", "gold", "kind"], "--map question=q,answers=gold,domain=kind."),
        (["q", "gold", "topic", "kind"], "--map question=q,answers=gold,domain=topic."),
        (["q", "gold", "row_id"], "--map question=q,answers=gold,id=row_id."),
    ):
        with pytest.raises(SourceError, match=re.escape(proposed)):
            resolve_table_columns("t.csv", form, {}, columns)


@pytest.mark.parametrize(
    ("column_map", "columns", "said"),
    [
        ({}, ["q", "gold"], r"t\.csv: the column question is missing \(text of the question\); the file has the columns q, gold; .*--map question=q,answers=gold\."),
        ({}, ["x", "y"], "--map question=x,answers=y"),
        ({"domain": "d"}, ["Prompt", "target", "d"], "--map domain=d,question=Prompt,answers=target"),
        ({}, ["my question", "answer"], "--map 'question=my question'"),
        ({}, ["x"], r"the file has the columns x\. Fields are question \(required\): text of the question; answers or answer"),
        ({}, ["question;answers"], "its cells seem to be separated by semicolons, but"),
        ({}, [], "the file has the columns none"),
        ({"question": "Q"}, ["q", "answers"], "--map question=Q: the column Q is missing; the file has the columns q, answers; to use the columns that fit best: --map question=q$"),
        ({"question": "frge", "domain": ""}, ["frage", "antwort"], "--map question=frge: the column frge is missing; .*: --map question=frage,domain=,answers=antwort$"),
        ({"question": "frage", "answers": "frge"}, ["frage", "antwort"], ": --map question=frage,answers=antwort$"),
        ({"question": "frage", "answers": "xyz"}, ["frage"], "the file has the columns frage$"),
    ],
)  # fmt: skip
def test_missing_column_error_suggests_matching_column_map(
    column_map: Mapping[str, str], columns: Sequence[str], said: str
) -> None:
    with pytest.raises(SourceError, match=said):
        resolve_table_columns("t.csv", FORM, column_map, columns)


def test_default_value_replaces_missing_column() -> None:
    own = UserSourceSettings(columns={"question": "question"}, defaults={"answers": "x"})
    assert resolve_table_columns("t.csv", FORM, {}, ["question"], own.defaults) == own.columns
    assert read_table_fields({"question": "Who?"}, FORM[:2], own) == {"question": "Who?", "answers": "x"}


@pytest.mark.parametrize(
    ("cell", "separator", "answers"),
    [
        ("London", "", ["London"]),
        (" London ", "", ["London"]),
        ('["London", "Greater London"]', "", ["London", "Greater London"]),
        ("['London', \"King's Lynn\"]", "", ["London", "King's Lynn"]),
        ("London; Paris;", ";", ["London", "Paris"]),
        ('["London; Paris"]', ";", ["London; Paris"]),
        (["London", None, "London"], "", ["London"]),
        ("[sic] London", "", ["[sic] London"]),
        (1969, "", ["1969"]),
        (3.25, "", ["3.25"]),
        ([1969, "1970"], "", ["1969", "1970"]),
        (date(1969, 7, 20), "", ["1969-07-20"]),
    ],
)
def test_cell_may_contain_list(cell: Any, separator: str, answers: Sequence[str]) -> None:
    read = read_table_fields(
        {"question": "Who?", "answers": cell}, FORM, UserSourceSettings(columns=SAME, separator=separator)
    )
    assert read == {"question": "Who?", "answers": answers, "steps": None, "domain": None}


@pytest.mark.parametrize(
    ("cell", "value"),
    [('[{"a": null}]', [{"a": None}]), ("yes", "yes"), (" 1984 ", " 1984 "), (True, True), ({"a": 1}, {"a": 1})],
)
def test_cell_that_starts_like_json_is_parsed_as_json(cell: Any, value: Any) -> None:
    read = read_table_fields(
        {"question": "Who?", "answers": "x", "steps": cell}, FORM, UserSourceSettings(columns=SAME)
    )
    assert not isinstance(read, str)
    assert read["steps"] == value


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([], "the row is no object"),
        ({"question": " ", "answers": "x"}, "the column question is empty; expected text of the question"),
        ({"question": None, "answers": "x"}, "the column question is empty"),
        ({"answers": "x"}, "the column question is empty"),
        ({"question": "Who?", "answers": "[]"}, "the column answers is empty"),
        ({"question": "Who?", "answers": 1969.0}, "the column answers holds the decimal number 1969.0"),
        ({"question": "Who?", "answers": float("nan")}, "the column answers holds the decimal number nan"),
        ({"question": "Who?", "answers": True}, "the column answers holds True, not a text"),
        ({"question": "Who?", "answers": {"value": "x"}}, "not a text; name a part of it, like answers.value"),
        ({"question": ["Who?"], "answers": "x"}, "the column question holds"),
        ({"question": "Who?", "answers": "[London]"}, "the column answers stands in square brackets and is no list"),
        ({"question": "Who?", "answers": "x", "steps": "[{"}, "the column steps begins like JSON and cannot be read"),
        ({"question": "Who?", "answers": "x", "steps": "[" * 200}, "the column steps begins like JSON"),
        ({"question": "Wh\ud800", "answers": "x"}, "the column question holds half a surrogate pair"),
    ],
)
def test_unreadable_row_has_reason(row: Any, said: str) -> None:
    read = read_table_fields(row, FORM, UserSourceSettings(columns=SAME))
    assert isinstance(read, str) and said in read


def test_nested_field_is_read_by_path() -> None:
    own = UserSourceSettings(columns={"question": "q", "answers": "a.value", "domain": "x.y"})
    row = {"q": "Who?", "a": {"value": "Ada", "aliases": []}, "x.y": "whole"}
    assert read_table_fields(row, FORM, own) == {
        "question": "Who?",
        "answers": ["Ada"],
        "steps": None,
        "domain": "whole",
    }
