"""Test parsing of replies with five pairs and a long one, of verdicts, and of fact types."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.steps.replies import get_unreadable_reason, make_reader

from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.slaq.core.pair_replies import (
    CHECK_LINES_FORM,
    FACT_TYPE_FORM,
    PAIR_LABELS,
    PAIRS_FORM,
    GeneratedQuestionAnswerPairs,
    ShortQuestionAnswerPair,
    read_fact_type,
    read_fault_per_question_answer_pair,
    read_generated_question_answer_pairs,
)

hear_generated = make_reader(PAIRS_FORM, read_generated_question_answer_pairs)
hear_check = make_reader(CHECK_LINES_FORM, read_fault_per_question_answer_pair)
hear_fact_type = make_reader(FACT_TYPE_FORM, read_fact_type)
VALUE: dict[str, Any] = {
    "short": [{"question": f"Who built bridge {number}?", "answer": f"Builder {number}"} for number in range(1, 6)],
    "long_question": "Tell of the bridges: (1) … (5)?",
    "long_answer": "They were built, one by one.",
}
GENERATED = GeneratedQuestionAnswerPairs(
    tuple(ShortQuestionAnswerPair(pair["question"], pair["answer"]) for pair in VALUE["short"]),  # type: ignore[arg-type]
    VALUE["long_question"],
    VALUE["long_answer"],
)
TEXT = json.dumps(VALUE, ensure_ascii=False)


def change(**changed: Any) -> str:
    return json.dumps({**VALUE, **changed})


def change_pair(**changed: Any) -> str:
    return change(short=[*VALUE["short"][:2], {**VALUE["short"][2], **changed}, *VALUE["short"][3:]])


@pytest.mark.parametrize(
    "reply",
    [
        TEXT,
        f"Sure.\n```json\n{json.dumps(VALUE, indent=1)}\n```\nDone.",
        change(long_answer=" They were  built,\none by one. "),
        TEXT.replace('": ', '"：').replace("}, {", "}，{"),
        f"<think>Perhaps {{five}} of them?</think>\n{TEXT}",
        # JSON5
        TEXT.replace('"}]', '"},]'),
        TEXT[:-1] + ",}",
        TEXT.replace('"', "'"),
        TEXT.replace('"long_question"', "/* all of them */ long_question"),
    ],
)
def test_single_json_object_is_read_despite_surrounding_text(reply: str) -> None:
    assert hear_generated(reply) == GENERATED


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("There is nothing to ask.", "no JSON object"),
        (json.dumps([1, 2]), "no JSON object"),
        (TEXT[:-20], "the JSON is broken near"),
        (TEXT.replace('"', "'")[:-20], "the JSON is broken near"),
        (TEXT.replace('"}]', '"},]')[:-20], "the JSON is broken near"),
        (TEXT.replace("Builder 3", "the 'Builder' 3").replace('"', "'"), "the JSON is broken near"),
        (TEXT + TEXT, "more than one JSON object"),
        (f"{TEXT}\n\nActually, builder 3 is wrong.", "text stands behind the JSON object"),
        ('{"a":' + "[" * 100_000, "nested too deeply"),
        (TEXT.replace('"long_answer"', '"long_question"'), "'long_question' stands twice"),
        (json.dumps({"short": VALUE["short"], "long_question": "?"}), "the object has no key 'long_answer'"),
        (change(notes="none"), "the object has a key 'notes'"),
        (change(short=VALUE["short"][:4]), '"short" holds 4 pairs, expected exactly 5'),
        (change(short=VALUE["short"] * 2), '"short" holds 10 pairs'),
        (change(short="none"), '"short" is a text, expected a list'),
        (change(short=[*VALUE["short"][:4], "x"]), 'pair 5 of "short" is a text, expected an object'),
        (change_pair(hint="x"), "pair 3 of \"short\" has a key 'hint'"),
        (change_pair(answer=3), "answer 3 is a number, expected a text"),
        (TEXT.replace('"Builder 3"', "9" * 5000), "answer 3 is a number"),
        (change_pair(answer=None), "answer 3 is null"),
        (change_pair(answer=True), "answer 3 is true or false"),
        (change_pair(answer=["x"]), "answer 3 is a list"),
        (change_pair(question=" … "), "question 3 is empty"),
        (change_pair(answer="\ud800"), "characters that no text holds"),
        (change_pair(answer="a\x00b"), "characters that no text holds"),
        (change(long_answer=""), "long_answer is empty"),
        (json.dumps({"ShortQ1": "x"}), "the object has no key 'short'"),
    ],
)
def test_other_json_shape_is_unreadable(reply: str, reason: str) -> None:
    assert reason in get_unreadable_reason(hear_generated(reply))


def write_line(values: list[str], between: str = ", ", colon: str = " : ") -> str:
    return between.join(f"{label}{colon}{value}" for label, value in zip(PAIR_LABELS, values, strict=True))


VALUES = [each for pair in GENERATED.short for each in (pair.question, pair.answer)] + [
    GENERATED.long_question,
    GENERATED.long_answer,
]
LINE = write_line(VALUES)


@pytest.mark.parametrize(
    "reply",
    [
        LINE,
        write_line(VALUES, ",", ":"),
        write_line(VALUES, ",\n", ": "),
        write_line(VALUES, "\n"),
        f'"{LINE}"',
        f"“{LINE}”",
        f"```\n{LINE}\n```",
        f"Here it is:\n{LINE}\n",
        f"{LINE}\n\nI hope that this helps!",
        write_line([f'"{value}"' for value in VALUES]),
        ", ".join(f'"{label}": "{value}"' for label, value in zip(PAIR_LABELS, VALUES, strict=True)),
        "\n".join(f"**{label}:** {value}" for label, value in zip(PAIR_LABELS, VALUES, strict=True)),
        "\n".join(f"**{label}**: {value}" for label, value in zip(PAIR_LABELS, VALUES, strict=True)),
        LINE.replace("Short", "short").replace("LongQ", "longq"),
    ],
)
def test_one_line_form_is_read(reply: str) -> None:
    assert hear_generated(reply) == GENERATED


def test_one_line_values_may_contain_commas_and_colons_and_braces_and_quotes() -> None:
    values = list(VALUES)
    values[1] = 'Ada, "the Enchantress": of {1, 2}, Numbers'
    values[3] = '"Note G" and "Note A"'
    values[-1] = 'It was said: "Long, so long"'
    read = hear_generated(write_line(values))
    assert isinstance(read, GeneratedQuestionAnswerPairs)
    assert read.short[0].answer == values[1]
    assert read.short[1].answer == values[3]
    assert read.long_answer == values[-1]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (LINE[: LINE.index("LongQ")], "LongQ, LongA missing"),
        (write_line(VALUES).replace("ShortQ3", "Third"), "ShortQ3 missing"),
        (LINE[: LINE.index(", ShortQ5")] + LINE[LINE.index(", LongQ") :], "ShortQ5, ShortA5 missing"),
        (LINE.replace(", LongQ", ", ShortQ6 : Who?, ShortA6 : Ada, LongQ"), "a label 'shortq6', expected exactly 5"),
        (LINE.replace("Builder 2", "x, ShortA2 : y"), "ShortA2 stands there 2 times"),
        (LINE.replace("ShortQ1 ", "X ").replace("ShortQ2 ", "ShortQ1 ").replace("X ", "ShortQ2 "), "out of order"),
        (LINE.replace("Builder 3", ""), "ShortA3 is empty"),
        (f"{LINE}\n\nThe bridges were old.", "text stands behind the line of LongA"),
    ],
)
def test_malformed_one_line_form_is_unreadable(reply: str, reason: str) -> None:
    assert reason in get_unreadable_reason(hear_generated(reply))


WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9)
PHRASES = st.lists(WORDS | st.sampled_from(["a:b", "x,", "“q”", "(1)", "5 %", "{y}"]), min_size=1, max_size=5).map(
    lambda words: " ".join(["It", *words, "end"])
)


@given(st.lists(PHRASES, min_size=12, max_size=12))
def test_both_forms_give_same_pairs(values: list[str]) -> None:
    pairs = [{"question": values[at], "answer": values[at + 1]} for at in range(0, 10, 2)]
    value = {"short": pairs, "long_question": values[10], "long_answer": values[11]}
    read = hear_generated(json.dumps(value))
    assert isinstance(read, GeneratedQuestionAnswerPairs)
    assert hear_generated(write_line([" ".join(value.split()) for value in values])) == read


@given(st.text(max_size=200) | st.text('{}[]",:ShortQALng1 \n', max_size=60))
def test_any_text_is_read_or_reported_as_unreadable(text: str) -> None:
    assert isinstance(hear_generated(text), GeneratedQuestionAnswerPairs | UnreadableCompletion)
    assert isinstance(hear_check(text), tuple | UnreadableCompletion)
    assert isinstance(hear_fact_type(text), str | UnreadableCompletion)


@pytest.mark.parametrize(
    ("reply", "verdicts"),
    [
        ("1: ok\n2: ok\n3: ok\n4: ok\n5: ok", (None,) * 5),
        ("1: OK.\n2: **ok**\n3) ok\n4. okay\n**5:** ok", (None,) * 5),
        ("Verdicts:\r\n1: ok\r\n2: which bridge is  meant?\r\n3: ok\r\n4: ok\r\n5: Okra: no\r\n",
         (None, "which bridge is meant?", None, None, "Okra: no")),
        ("5: a\n4: b\n3: c\n2: d\n1: e", ("e", "d", "c", "b", "a")),
    ],
)  # fmt: skip
def test_verdicts_are_read(reply: str, verdicts: tuple[str | None, ...]) -> None:
    assert hear_check(reply) == verdicts


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("all ok", '0 lines of the form "1: ok"'),
        ("1: ok\n2: ok\n3: ok\n4: ok", '0 lines of the form "5: ok"'),
        ("1: ok\n1: no\n2: ok\n3: ok\n4: ok\n5: ok", '2 lines of the form "1: ok"'),
        ("1: ok\n2: ok\n3: ok\n4: ok\n5: ok\n6: ok", "about pair 6"),
        ("1: ok\n2: ok\n3: ok, but vague\n4: ok\n5: ok", "line 3 says 'ok, but vague'"),
        ("1: ok\n2: ok\n3: …\n4: ok\n5: ok", "line 3 says '…'"),
        ("1: ok\n2:\n3: ok\n4: ok\n5: ok", "line 2 says ''"),
    ],
)
def test_malformed_verdicts_are_unreadable(reply: str, reason: str) -> None:
    assert reason in get_unreadable_reason(hear_check(reply))


@pytest.mark.parametrize(
    ("reply", "fact_type"),
    [
        ("Type: PERSON", "PERSON"),
        ("type: person.", "PERSON"),
        ("**Type:** `WORK_OF_ART`", "WORK_OF_ART"),
        ("Type: Work of art\n", "WORK_OF_ART"),
        ("It names nothing.\nType: none", "none"),
        ("Type: None.", "none"),
    ],
)
def test_fact_types_are_read(reply: str, fact_type: str) -> None:
    assert hear_fact_type(reply) == fact_type


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("PERSON", "0 lines"),
        ("Type: PERSON\nType: none", "2 lines"),
        ("Type: HUMAN", "the type 'HUMAN' is none of PERSON"),
        ("Type: PERSON or ORG", "'PERSON or ORG'"),
        ("Type:", "the type ''"),
    ],
)
def test_unknown_fact_types_are_unreadable(reply: str, reason: str) -> None:
    assert reason in get_unreadable_reason(hear_fact_type(reply))
