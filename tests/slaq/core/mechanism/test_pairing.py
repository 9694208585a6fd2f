"""What of a long answer states the fact of a short one."""

from typing import Any

import pytest

from tasks.assets import load_list
from tasks.slaq.core.mechanism.pairing import align_answer, pair_fact
from tasks.slaq.core.mechanism.rows import Fact

WORDS = frozenset(load_list("function_words"))
LONG = (
    "The First Samnite War took place from 343 to 341 BCE and was fought by Rome and Samnium. All three wars lasted 53 years. "
    "The renowned Samnite general was Gavius Pontius, who crossed the Apennines."
)
FACT: dict[str, Any] = {
    "id": "m/t/1", "model": "m", "asked_as": "m", "item": "t", "number": 1, "topic": "Samnite Wars", "category": "History",
    "fact_type": "DATE", "question": "When?", "long_question": "When, who?", "gold": "343 to 341 BCE",
    "short_answer": "Rome and Samnium.", "long_answer": LONG, "right_short": 1, "right_long": 1, "kind": "aligned",
}  # fmt: skip


def fact(**changed: Any) -> Fact:
    return Fact.model_validate(FACT | changed)


@pytest.mark.parametrize(
    ("short", "found", "matched"),
    [
        ("Rome and Samnium.", "Rome and Samnium", 1.0),
        ("They lasted a total of 53 years.", "lasted 53 years", 0.75),
        ("Gavius Pontius was the famous general.", "Gavius Pontius", 2 / 4),
        # the long answer has other years: what stands around them is found
        (
            "The First Samnite War took place from 327 to 304 BCE.",
            "The First Samnite War took place from 343 to 341 BCE",
            5 / 7,
        ),
        ("GAVIUS", "Gavius", 1.0),
    ],
)
def test_the_part_that_aligns_best_is_found(short: str, found: str, matched: float) -> None:
    aligned = align_answer(short, LONG, WORDS)
    assert aligned is not None
    assert LONG[aligned.start : aligned.end] == found
    assert aligned.matched == pytest.approx(matched, abs=1e-6)


def test_of_two_places_the_one_with_more_of_the_answer_is_taken() -> None:
    long = "Paris has parks. The capital of France is Paris, on the Seine."
    aligned = align_answer("The capital is Paris.", long, WORDS)
    assert aligned is not None
    assert long[aligned.start : aligned.end] == "The capital of France is Paris"


def test_an_answer_that_the_long_one_does_not_hold_is_a_row_with_a_reason() -> None:
    row = pair_fact(fact(short_answer="Fabius Rullianus."), WORDS, 0.5, {})
    assert (row.unscored, row.long_text, row.paired_by) == ("not_in_long_answer", "", "")
    assert "0% of its content words, expected 50%" in row.detail
    half = pair_fact(fact(short_answer="Fabius fought Samnium."), WORDS, 0.9, {})
    assert half.unscored == "not_in_long_answer"


@pytest.mark.parametrize(("short", "long", "side"), [("", LONG, "short"), ("Rome.", " … ", "long"), ("–", "", "short")])
def test_an_answer_without_a_word_is_told(short: str, long: str, side: str) -> None:
    row = pair_fact(fact(short_answer=short, long_answer=long), WORDS, 0.5, {})
    assert (row.unscored, row.detail) == ("no_answer", f"the {side} answer has no word")


def test_the_place_of_both_texts_is_told() -> None:
    row = pair_fact(fact(short_answer="  Rome and Samnium."), WORDS, 0.5, {})
    assert (row.short_text, row.short_start, row.paired_by, row.unscored) == ("Rome and Samnium.", 2, "alignment", "")
    assert LONG[row.long_start :].startswith(row.long_text)


def test_what_a_person_paired_comes_first() -> None:
    row = pair_fact(fact(), WORDS, 0.5, {"m/t/1": ("Samnium", "the Apennines")})
    assert (row.short_text, row.long_text, row.paired_by, row.matched) == ("Samnium", "the Apennines", "file", None)
    assert (row.short_start, row.long_start) == (9, LONG.index("the Apennines"))
    half = pair_fact(fact(), WORDS, 0.5, {"m/t/1": ("Samnium", "")})
    assert (half.short_text, half.long_text, half.paired_by) == ("Samnium", "Samnium", "file")


def test_a_text_that_is_not_in_the_answer_is_told() -> None:
    row = pair_fact(fact(), WORDS, 0.5, {"m/t/1": ("", "Cannae")})
    assert (row.unscored, row.detail) == (
        "text_not_found",
        "the long answer does not hold 'Cannae', which the file of pairs names",
    )
