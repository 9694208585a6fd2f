"""Test which facts can be analysed, their order, and which part of a long answer states a short answer's fact."""

from typing import Any

import pytest
from support.rows.slaq_answers import judged_table
from support.steps.replies import get_unreadable_reason

from factmill.tasks.assets import load_list_entries
from factmill.tasks.slaq.core.mechanism.pairing import (
    find_best_aligned_part,
    find_numbered_parts,
    pair_fact_answers,
    read_span_quoted_from_answer,
    replace_pair_by_judged_span,
)
from factmill.tasks.slaq.core.mechanism.rows import (
    FactAnsweredByOneModel,
    count_drawn_and_unscored_by_kind,
    format_scored_fact_counts,
    shuffle_and_count_facts_by_kind,
)

WORDS = frozenset(load_list_entries("function_words"))
LONG = (
    "The First Samnite War took place from 343 to 341 BCE and was fought by Rome and Samnium. All three wars lasted 53 years. "
    "The renowned Samnite general was Gavius Pontius, who crossed the Apennines."
)
FACT: dict[str, Any] = {
    "id": "m/t/1", "model": "m", "asked_as": "m", "item": "t", "number": 1, "topic": "Samnite Wars", "category": "History",
    "fact_type": "DATE", "question": "When?", "long_question": "When, who?", "gold": "343 to 341 BCE",
    "short_answer": "Rome and Samnium.", "long_answer": LONG, "right_short": 1, "right_long": 1, "kind": "aligned",
}  # fmt: skip


def fact(**changed: Any) -> FactAnsweredByOneModel:
    return FactAnsweredByOneModel.model_validate(FACT | changed)


@pytest.mark.parametrize(
    ("short", "found", "matched"),
    [
        ("Rome and Samnium.", "Rome and Samnium", 1.0),
        ("They lasted a total of 53 years.", "lasted 53 years", 0.75),
        ("Gavius Pontius was the famous general.", "Gavius Pontius", 2 / 4),
        # the long answer has other years, so the words around them match
        (
            "The First Samnite War took place from 327 to 304 BCE.",
            "The First Samnite War took place from 343 to 341 BCE",
            5 / 7,
        ),
        ("GAVIUS", "Gavius", 1.0),
    ],
)
def test_best_aligned_part_of_long_answer_is_found(short: str, found: str, matched: float) -> None:
    aligned = find_best_aligned_part(short, LONG, WORDS)
    assert aligned is not None
    assert LONG[slice(*aligned[:2])] == found
    assert aligned[2] == pytest.approx(matched, abs=1e-6)


def test_aligned_part_is_place_with_more_words_of_answer() -> None:
    long = "Paris has parks. The capital of France is Paris, on the Seine."
    aligned = find_best_aligned_part("The capital is Paris.", long, WORDS)
    assert aligned is not None
    assert long[slice(*aligned[:2])] == "The capital of France is Paris"


def test_short_answer_missing_from_long_answer_is_unscored_with_reason() -> None:
    row = pair_fact_answers(fact(short_answer="Fabius Rullianus."), WORDS, 0.5, {})
    assert (row.unscored, row.long_text, row.paired_by) == ("not_in_long_answer", "", "")
    assert "0% of its content words, expected 50%" in row.detail
    half = pair_fact_answers(fact(short_answer="Fabius fought Samnium."), WORDS, 0.9, {})
    assert half.unscored == "not_in_long_answer"
    # a person's text does not help here
    lost = pair_fact_answers(fact(short_answer="Rome, or Zork."), WORDS, 0.5, {"m/t/1": ("Zork", "")})
    assert (lost.unscored, lost.short_text, lost.short_start) == ("not_in_long_answer", "Rome, or Zork.", 0)


@pytest.mark.parametrize(("short", "long", "side"), [("", LONG, "short"), ("Rome.", " … ", "long"), ("–", "", "short")])
def test_answer_without_words_is_unscored(short: str, long: str, side: str) -> None:
    row = pair_fact_answers(fact(short_answer=short, long_answer=long), WORDS, 0.5, {})
    assert (row.unscored, row.detail) == ("no_answer", f"the {side} answer has no word")


def test_positions_of_both_texts_are_recorded() -> None:
    row = pair_fact_answers(fact(short_answer="  Rome and Samnium."), WORDS, 0.5, {})
    assert (row.short_text, row.short_start, row.paired_by, row.unscored) == ("Rome and Samnium.", 2, "alignment", "")
    assert LONG[row.long_start :].startswith(row.long_text)


def test_manual_pairs_take_precedence() -> None:
    row = pair_fact_answers(fact(), WORDS, 0.5, {"m/t/1": ("Samnium", "the Apennines")})
    assert (row.short_text, row.long_text, row.paired_by, row.matched) == ("Samnium", "the Apennines", "file", None)
    assert (row.short_start, row.long_start) == (9, LONG.index("the Apennines"))
    half = pair_fact_answers(fact(), WORDS, 0.5, {"m/t/1": ("Samnium", "")})
    assert (half.short_text, half.long_text, half.paired_by) == ("Samnium", "Samnium", "file")


def test_manual_text_not_found_in_answer_is_unscored() -> None:
    row = pair_fact_answers(fact(), WORDS, 0.5, {"m/t/1": ("", "Cannae")})
    assert row.unscored == "text_not_found"
    assert row.detail == "the long answer does not hold 'Cannae', which the file of pairs names"


NUMBERED = [
    ("1. Agrippa\n2. 19 BC\n3. Limestone\n4. 49 m\n5. Gard", ["Agrippa", "19 BC", "Limestone", "49 m", "Gard"]),
    (
        "Here you are:\n\n1. **Builder:** Agrippa\n   (a Roman)\n2) In 19. BC\n**3.** Limestone\n4: 49 m\n(5) Gard.\n\nAnything else?",
        ["Builder:** Agrippa\n   (a Roman)", "In 19. BC", "Limestone", "49 m", "Gard."],
    ),
    ("1. Who?\n\nAgrippa\n\n2. When?\n\n19 BC\n\n3. a\n4. b\n5. Where?\n\nGard", ["Who?\n\nAgrippa", "When?\n\n19 BC", "a", "b", "Where?\n\nGard"]),
    ("It was (1) built by Agrippa, (2) in 19 BC, (3) of stone, (4) to 49 m, (5) in Gard.", ["built by Agrippa,", "in 19 BC,", "of stone,", "to 49 m,", "in Gard."]),
    ("1. Agrippa\n2. 19 BC\n3. Limestone\n4. 49 m", []),
    ("1. a\n2. b\n4. c\n3. d\n5. e", []),
    ("1. a\n2. b\n3. c\n4. d\n5. e\n6. f", []),
    (LONG, []),
    ("", []),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "parts"), NUMBERED)
def test_numbered_parts_of_answer_are_found(answer: str, parts: list[str]) -> None:
    assert [answer[slice(*span)] for span in find_numbered_parts(answer)] == parts


@pytest.mark.parametrize("short", ["Fabius Rullianus.", "In 19 BC."])
def test_numbered_parts_are_paired_by_position_whether_right_or_wrong(short: str) -> None:
    row = pair_fact_answers(fact(short_answer=short, long_answer=NUMBERED[0][0], number=2), WORDS, 0.5, {})
    assert (row.long_text, row.paired_by, row.unscored, row.matched) == ("19 BC", "position", "", None)
    assert row.long_answer[row.long_start :].startswith("19 BC")
    # a person's text comes first; a numbered part without a word does not count
    by_hand = pair_fact_answers(fact(long_answer=NUMBERED[0][0], number=2), WORDS, 0.5, {"m/t/1": ("", "Gard")})
    assert (by_hand.long_text, by_hand.paired_by) == ("Gard", "file")
    empty = fact(short_answer=short, long_answer="1. a\n2. –\n3. c\n4. d\n5. e", number=2)
    assert pair_fact_answers(empty, WORDS, 0.5, {}).unscored == "not_in_long_answer"


def test_judge_quote_locates_part_of_long_answer() -> None:
    assert LONG[slice(*read_span_quoted_from_answer("Part: 343  to 341 BCE", LONG))] == "343 to 341 BCE"  # type: ignore[misc]
    assert read_span_quoted_from_answer("Part: None.", LONG) is None
    for reply, result in (
        ("Part: 327 to 304 BCE", "'327 to 304 BCE' does not stand in the answer"),
        ("343", "0 lines"),
        ("Part: a\nPart: b", "2 lines"),
        ("Part:", "does not stand"),
    ):
        assert result in get_unreadable_reason(read_span_quoted_from_answer(reply, LONG))
    lost = pair_fact_answers(fact(short_answer="327 to 304 BCE"), WORDS, 0.9, {})
    assert lost.unscored == "not_in_long_answer"
    start = LONG.index("343")
    row = replace_pair_by_judged_span(lost, (start, start + 14))
    assert (row.long_text, row.long_start, row.paired_by) == ("343 to 341 BCE", start, "judge")
    assert (row.unscored, row.detail) == ("", "")
    none = replace_pair_by_judged_span(pair_fact_answers(fact(), WORDS, 0.5, {}), None)
    assert (none.long_text, none.paired_by, none.unscored) == ("", "", "not_in_long_answer")


SHORT_VERDICTS = [[1, 1, 0, 0, None], [1, 1, 1, 1, 1]]
LONG_VERDICTS = [[1, 0, 1, 0, 1], [1, 1, 0, 0, 0]]


def test_facts_right_in_both_or_one_answer_are_classified_by_kind() -> None:
    drawn, counts = shuffle_and_count_facts_by_kind(
        judged_table(SHORT_VERDICTS, LONG_VERDICTS).to_pylist(), "m", "mine", 0
    )
    facts = [fact for mine in drawn.values() for fact in mine]
    assert {fact.id: (fact.kind, fact.right_short, fact.right_long) for fact in facts} == {
        **dict.fromkeys(("m/t0/1", "m/t1/1", "m/t1/2"), ("aligned", 1, 1)),
        **dict.fromkeys(("m/t0/2", "m/t1/3", "m/t1/4", "m/t1/5"), ("misaligned", 1, 0)),
        "m/t0/3": ("misaligned", 0, 1),
    }
    assert counts == {"aligned": 3, "misaligned": 5, "wrong_in_both": 1, "unscored": 1}


def test_seed_determines_order_of_draw() -> None:
    answers = judged_table([[1, 1, 1, 0, 0]] * 8, [[1, 1, 1, 1, 1]] * 8).to_pylist()
    drawn = [shuffle_and_count_facts_by_kind(answers, "m", "mine", seed)[0] for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {kind: len(facts) for kind, facts in drawn[0].items()} == {"aligned": 24, "misaligned": 16}


def test_drawn_and_unscored_facts_are_counted_by_kind() -> None:
    kinds = count_drawn_and_unscored_by_kind([("aligned", ""), ("aligned", "too_long"), ("aligned", "")])
    assert kinds == {"aligned": {"drawn": 3, "unscored": 1}, "misaligned": {"drawn": 0, "unscored": 0}}
    assert format_scored_fact_counts(kinds) == "2 of 3 aligned facts, 0 of 0 misaligned facts"


def test_facts_asked_in_only_one_setting_are_skipped() -> None:
    answers = judged_table(SHORT_VERDICTS, []).to_pylist()
    assert shuffle_and_count_facts_by_kind(answers, "m", "mine", 0)[0] == {"aligned": (), "misaligned": ()}
