"""What models say, undressed: every dress in every form, what is refused, cut off or empty, and what is never mended."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.steps.replies import hearing

from factmill.tasks.biokalma.core.replies import PARAGRAPH, QUESTION, read_paragraph, read_question
from factmill.tasks.core.authoring.granularity import CONSISTENCY, LEVELS, read_levels, read_verdict
from factmill.tasks.core.replies import TEXT, Form, Said, Unreadable, read_said
from factmill.tasks.fanoutqa.core.replies import OBJECTIVITY, REWRITE, WordingReply, read_wording
from factmill.tasks.fanoutqa.core.replies import read_verdict as read_letter
from factmill.tasks.multihal.core.path_choice import SCORE, SELECTION, read_score, read_selection
from factmill.tasks.slaq.core.replies import (
    CHECK_LINES,
    FACT_TYPE_LINE,
    PAIRS_OBJECT,
    Generated,
    read_check,
    read_fact_type,
    read_generated,
)
from factmill.tasks.text.undressing import drop_thoughts

PAIRS = {
    "short": [{"question": f"Who built bridge {number}?", "answer": f"Builder {number}"} for number in range(1, 6)],
    "long_question": "Who built the bridges: (1) … (5)?",
    "long_answer": "They were built, one by one.",
}
ASKED = "How high is the tower?"

Hear = Callable[[str], Any]
FORMS: dict[str, tuple[Hear, str, str]] = {
    "levels": (hearing(LEVELS, read_levels, "Ulm"), "1:: Ulm\n2:: a town on the Danube\n3:: Germany", "2:: "),
    "pairs": (hearing(PAIRS_OBJECT, read_generated), json.dumps(PAIRS), "Builder 3"),
    "paragraph": (hearing(PARAGRAPH, read_paragraph), "Paragraph: Ada wrote. She [qid: Q1] died.", "wrote"),
    "question": (hearing(QUESTION, read_question), "Question: Who was Ada?", "Ada"),
    "checks": (hearing(CHECK_LINES, read_check), "1: ok\n2: which bridge?\n3: ok\n4: ok\n5: ok", "bridge"),
    "fact type": (hearing(FACT_TYPE_LINE, read_fact_type), "Type: GPE", "GPE"),
    "selection": (hearing(SELECTION, read_selection), "Path: A; r1; B\nPath: A; r2; B", "r2"),
    "score": (hearing(SCORE, read_score), "Score: 4", "4"),
    "consistency": (hearing(CONSISTENCY, read_verdict), "Yes", "Yes"),
    "objectivity": (hearing(OBJECTIVITY, read_letter), "Towers are measured.\nY\nY", "Y"),
    "rewrite": (hearing(REWRITE, read_wording, ASKED), "How high is the tower, in metres?", "metres"),
    "no change": (hearing(REWRITE, read_wording, ASKED), "No change.", "No"),
}
"""Form → what hears it, a reply in it, and a part of that which carries its meaning."""
LINES = {"levels", "paragraph", "question", "fact type", "selection", "score", "consistency", "rewrite", "no change"}
"""Forms whose lines may each be dressed."""

AROUND: dict[str, Callable[[str], str]] = {
    "thoughts": lambda text: f"<think>1:: Rome? No. Score: 2, Type: LAW\n{{</think>\n\n{text}",
    "thoughts whose opening is missing": lambda text: f"Is it 1:: Rome?\n</think>\n{text}",
    "a channel of thoughts": lambda text: (
        f"<|channel|>analysis<|message|>No: Rome<|end|><|start|>assistant<|channel|>final<|message|>{text}<|return|>"
    ),
    "answer tags": lambda text: f"<answer>\n{text}\n</answer>",
    "fence": lambda text: f"```\n{text}\n```",
    "named fence": lambda text: f"```json\r\n{text}\r\n```\r\n",
    "lead-in": lambda text: f"Sure! Here you are:\n\n{text}",
    "close lead-in": lambda text: f"Here is what you asked for:\n{text}",
    "interjection": lambda text: f"Certainly!\n{text}",
    "remark": lambda text: f"{text}\n\nI hope this helps!",
    "offer": lambda text: f"{text}\n\nLet me know if you need anything else.",
    "blank lines": lambda text: f"\n\n{text}\n \n",
}
ON_LINES: dict[str, Callable[[str], str]] = {
    "bold": lambda line: f"**{line}**",
    "list mark": lambda line: f"- {line}",
    "list mark and bold": lambda line: f"* **{line}**",
    "quote": lambda line: f"> {line}",
    "heading": lambda line: f"## {line}",
    "indent": lambda line: f"   {line}  ",
}


def on_lines(dress: Callable[[str], str], text: str) -> str:
    return "\n".join(map(dress, text.split("\n")))


@pytest.mark.parametrize("dress", AROUND)
@pytest.mark.parametrize("form", FORMS)
def test_a_reply_reads_the_same_whatever_stands_around_it(form: str, dress: str) -> None:
    hear, plain, _ = FORMS[form]
    assert not isinstance(hear(plain), Unreadable)
    assert hear(AROUND[dress](plain)) == hear(plain)


@pytest.mark.parametrize("dress", ON_LINES)
@pytest.mark.parametrize("form", sorted(LINES))
def test_a_reply_reads_the_same_however_its_lines_are_marked(form: str, dress: str) -> None:
    hear, plain, _ = FORMS[form]
    assert hear(on_lines(ON_LINES[dress], plain)) == hear(plain)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(FORMS)),
    st.lists(st.sampled_from(sorted(AROUND)), max_size=4),
    st.sampled_from(sorted(ON_LINES)),
)
@example("rewrite", ["close lead-in", "interjection"], "bold")
def test_dresses_can_be_worn_over_one_another(form: str, around: list[str], on_line: str) -> None:
    hear, plain, _ = FORMS[form]
    dressed = on_lines(ON_LINES[on_line], plain) if form in LINES else plain
    # thoughts stand before all else
    for dress in sorted(dict.fromkeys(around), key=lambda name: ("thoughts" in name, "tags" in name)):
        dressed = AROUND[dress](dressed)
    assert hear(dressed) == hear(plain)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(FORMS)), st.lists(st.sampled_from(sorted(AROUND)), max_size=3), st.text(max_size=12))
def test_another_content_stays_another_in_any_dress(form: str, around: list[str], other: str) -> None:
    hear, plain, part = FORMS[form]
    changed = plain.replace(part, f"{part[:-1]}{other}")
    dressed = changed
    for dress in sorted(dict.fromkeys(around), key=lambda name: ("thoughts" in name, "tags" in name)):
        dressed = AROUND[dress](dressed)
    if isinstance(bare := hear(changed), Unreadable):
        assert isinstance(hear(dressed), Unreadable) or hear(dressed) != hear(plain)
    elif bare != hear(plain):
        assert hear(dressed) != hear(plain)


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I cannot assist with this request.",
        "I cannot help with that.",
        "Sorry, but I won't answer that.",
        "Unfortunately, I am not able to provide that.",
        "As an AI language model, I cannot answer such questions.",
        "I apologize, but I'm unable to create questions about it.",
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_is_told_apart(form: str, reply: str) -> None:
    assert FORMS[form][0](reply).kind == "refused"


@pytest.mark.parametrize(
    "reply", ["I apologize for the confusion. Here it is:\n\n1:: Ulm", "Sorry for the mistake:\n1:: Ulm", "1:: Ulm"]
)
def test_an_apology_is_no_refusal(reply: str) -> None:
    assert FORMS["levels"][0](reply) == ("Ulm",)


def test_an_answer_about_what_one_cannot_do_is_no_refusal() -> None:
    assert FORMS["consistency"][0]("I cannot rule it out.\nYes") is True
    assert FORMS["objectivity"][0]("I cannot give one answer to that, nor can others.\nN") is False


@pytest.mark.parametrize(
    "reply", ["", " \n", "```\n```", "<think>Ulm</think>", "<think>1:: Ulm", "<|channel|>analysis<|message|>x"]
)
@pytest.mark.parametrize("form", FORMS)
def test_a_reply_that_says_nothing_is_empty_or_was_cut_off_in_thought(form: str, reply: str) -> None:
    assert FORMS[form][0](reply).kind == "empty_reply"


@pytest.mark.parametrize(
    ("form", "parse", "reply"),
    [
        (LEVELS, lambda text: read_levels(text, "Ulm"), "1:: Ulm\n2:: a town on the D"),
        (PAIRS_OBJECT, read_generated, json.dumps(PAIRS)[:-20]),
        (QUESTION, read_question, "Question: Who was"),
        (CHECK_LINES, read_check, "1: ok\n2: ok\n3: ok\n4: ok\n5: ok"),
        (SELECTION, read_selection, "Path: A; r1; B\nPath: A"),
        (FACT_TYPE_LINE, read_fact_type, "Type: WORK_OF"),
        (SCORE, read_score, "The chain tells"),
        (REWRITE, lambda text: read_wording(text, "List the towers."), "List the towers, in"),
        (TEXT, read_letter, "<think>Towers are"),
    ],
)
def test_a_reply_that_the_token_limit_ended_is_cut_off(form: Form, parse: Any, reply: str) -> None:
    assert hearing(form, parse, finish="length")(reply).kind == "cut_off"
    assert hearing(form, parse, finish="max_tokens")(reply).kind == "cut_off"


@pytest.mark.parametrize(
    ("form", "parse", "reply"),
    [
        (LEVELS, lambda text: read_levels(text, "Ulm"), "1:: Ulm\n2:: Germany\n\nLet me know if you n"),
        (PAIRS_OBJECT, read_generated, f"{json.dumps(PAIRS)}\n\nThese pairs a"),
        (QUESTION, read_question, "Question: Who was Ada?"),
        (PARAGRAPH, read_paragraph, "Paragraph: Ada wrote."),
        (SCORE, read_score, "Score: 4\nThe chain tel"),
        (REWRITE, lambda text: read_wording(text, ASKED), "No change."),
    ],
)
def test_a_whole_answer_is_read_though_the_token_limit_ended_the_reply(form: Form, parse: Any, reply: str) -> None:
    assert not isinstance(hearing(form, parse, finish="length")(reply), Unreadable)


def test_what_is_wrong_with_a_whole_object_is_not_that_it_was_cut_off() -> None:
    four = json.dumps({**PAIRS, "short": PAIRS["short"][:4]})
    assert hearing(PAIRS_OBJECT, read_generated, finish="length")(four).kind == "reply_not_in_format"


@pytest.mark.parametrize(
    "reply", ["[" * 10_000, '{"short":' * 10_000, '{"a": ' + "9" * 5_000 + "}", "<think>" * 50_000]
)
def test_monstrous_replies_are_told_and_raise_nothing(reply: str) -> None:
    for hear, _, _ in FORMS.values():
        assert isinstance(hear(reply), Unreadable)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(max_size=200) | st.text("1:.)*_-`#>{}[]\"' \nYNok<think/>", max_size=80),
    st.sampled_from(sorted(FORMS)),
)
def test_any_text_is_read_or_told(text: str, form: str) -> None:
    assert isinstance(FORMS[form][0](text), (tuple, str, list, bool, int, Generated, WordingReply, Unreadable))


@pytest.mark.parametrize(
    "reply",
    [
        "1:: Ulm\n2:: Germany\n\nWait, that is wrong.",
        "1:: Ulm\n2:: Germany\n\nCorrection: line 2 is Bavaria.",
        "1:: Ulm\n2:: Germany\nand Bavaria",
        "1:: Ulm\n\nor\n\n1:: Neu-Ulm",
        "I believe it is this\n1:: Ulm",
        "**1:: Ulm",
        "1:: Ulm\n<think>Or is it",
    ],
)
def test_what_is_not_certain_is_not_mended(reply: str) -> None:
    assert FORMS["levels"][0](reply).kind == "reply_not_in_format"


def test_an_object_that_is_taken_back_is_not_read() -> None:
    assert isinstance(FORMS["pairs"][0](f"{json.dumps(PAIRS)}\n\nActually, pair 3 is wrong."), Unreadable)
    assert isinstance(FORMS["pairs"][0](f"{json.dumps(PAIRS)}\n{json.dumps(PAIRS)}"), Unreadable)


@pytest.mark.parametrize(
    ("form", "reply", "text", "taken_off"),
    [
        (LEVELS, "1:: Ulm", "1:: Ulm", set()),
        (LEVELS, "- **1：：** Ulm (less specific)", "1:: Ulm", {"list_marks", "emphasis", "full_width", "gloss"}),
        (LEVELS, "Sure:\n**1:: Ulm** (less specific)", "1:: Ulm", {"lead_in", "emphasis", "gloss"}),
        (PAIRS_OBJECT, '<think>?</think>{"a": 1} Done.', '{"a": 1}', {"thoughts", "remark"}),
        (PAIRS_OBJECT, 'Here:\n```\n{"a"：["1，2"，3]}\n```', '{"a":["1，2",3]}', {"lead_in", "fences", "full_width"}),
        (QUESTION, "2. Question：\n\nWho?\n\nIt asks.", "Question: Who?", {"list_marks", "full_width", "remark"}),
        (REWRITE, "Rewrite: 'How high？'", "How high?", {"label", "emphasis", "full_width"}),
        (TEXT, "Okay.\n- `Y`", "Y", {"lead_in", "list_marks", "emphasis"}),
    ],
)
def test_what_is_taken_off_is_told(form: Form, reply: str, text: str, taken_off: set[str]) -> None:
    assert read_said(reply, "stop", form) == Said(text, frozenset(taken_off))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Ulm", "Ulm"),
        ("<THINK>a</THINK>Ulm", "Ulm"),
        ("<think>a<think>b</think>c</think>Ulm", "Ulm"),
        ("<reasoning>a</reasoning>\n<thinking>b</thinking>Ulm", "\nUlm"),
        ("◁think▷a◁/think▷Ulm", "Ulm"),
        ("[THINK]a[/THINK]Ulm", "Ulm"),
        ("a</think>b</think>Ulm", "Ulm"),
        ("<think>a", ""),
        ("Ulm <think>a", "Ulm <think>a"),
        ("Ulm<|im_end|>", "Ulm"),
    ],
)
def test_thoughts_are_taken_off(reply: str, said: str) -> None:
    assert drop_thoughts(reply) == said
