"""Values and texts that can be stored and shown, and what somebody may have meant by a name that is not known."""

import pytest

from factmill.tasks.text.reply_wrappers import MalformedJsonObject, parse_single_json_object
from factmill.tasks.text.sanitize import (
    MAX_JSON_DEPTH,
    escape_control_characters,
    exceeds_json_depth,
    format_did_you_mean,
)


def nest(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = {"a": value} if isinstance(value, list) else [value]
    return value


def test_how_deep_a_value_may_be() -> None:
    assert not exceeds_json_depth(nest(MAX_JSON_DEPTH))
    assert exceeds_json_depth(nest(MAX_JSON_DEPTH + 1))
    assert not exceeds_json_depth([[]] * 1000)


@pytest.mark.parametrize("levels", [MAX_JSON_DEPTH, 900, 10_000])
def test_an_object_in_a_reply_that_is_too_deep_is_broken(levels: int) -> None:
    with pytest.raises(MalformedJsonObject, match="nested too deeply"):
        parse_single_json_object('{"short": ' + "[" * levels + "]" * levels + "}")


def test_a_number_of_any_length_in_a_reply_is_read() -> None:
    assert parse_single_json_object('{"a": ' + "9" * 5000 + "}") == {"a": float("inf")}


def test_nothing_acts_on_a_terminal() -> None:
    assert escape_control_characters("a\x1b[31mb\u202ec\r\nd\n\x00") == "a[U+001B][31mb[U+202E]c\nd\n[U+0000]"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("Astronmy", "; did you mean Astronomy?"),
        ("ASTRONOMY", "; did you mean Astronomy?"),
        ("Cookery", ""),
        ("", ""),
    ],
)
def test_the_known_name_most_like_the_one_given_is_suggested(given: str, told: str) -> None:
    assert format_did_you_mean(given, ["Algebra", "Astronomy"]) == told
