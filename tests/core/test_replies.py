"""What models say, undressed: every dress in every form, what is refused, cut off or empty, and what is never mended."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.steps.replies import hearing

from factmill.tasks.biokalma.core.author_replies import (
    PARAGRAPH_REPLY_FORM,
    QUESTION_REPLY_FORM,
    read_paragraph,
    read_question,
)
from factmill.tasks.core.authoring.granular_answers import (
    CONSISTENCY_FORMAT,
    LEVELS_FORMAT,
    read_answer_levels,
    read_consistency_verdict,
)
from factmill.tasks.core.completions import (
    PLAIN_TEXT_FORMAT,
    CompletionFormat,
    StrippedCompletion,
    UnreadableCompletion,
    strip_completion_wrappers,
)
from factmill.tasks.fanoutqa.core.judge_replies import (
    OBJECTIVITY_FORM,
    WORDING_FORM,
    WordingVerdict,
    read_wording_verdict,
)
from factmill.tasks.fanoutqa.core.judge_replies import read_objectivity_verdict as read_letter
from factmill.tasks.multihal.core.path_selection import (
    SCORE_REPLY_FORM,
    SELECTION_REPLY_FORM,
    read_path_score,
    read_selected_paths,
)
from factmill.tasks.slaq.core.pair_replies import (
    CHECK_LINES_FORM,
    FACT_TYPE_FORM,
    PAIRS_FORM,
    GeneratedPairs,
    read_fact_type,
    read_generated_pairs,
    read_pair_checks,
)
from factmill.tasks.text.reply_wrappers import strip_thinking_and_end_tokens

PAIRS = {
    "short": [{"question": f"Who built bridge {number}?", "answer": f"Builder {number}"} for number in range(1, 6)],
    "long_question": "Who built the bridges: (1) … (5)?",
    "long_answer": "They were built, one by one.",
}
ASKED = "How high is the tower?"

Hear = Callable[[str], Any]
FORMS: dict[str, tuple[Hear, str, str]] = {
    "levels": (
        hearing(LEVELS_FORMAT, read_answer_levels, "Ulm"),
        "1:: Ulm\n2:: a town on the Danube\n3:: Germany",
        "2:: ",
    ),
    "pairs": (hearing(PAIRS_FORM, read_generated_pairs), json.dumps(PAIRS), "Builder 3"),
    "paragraph": (hearing(PARAGRAPH_REPLY_FORM, read_paragraph), "Paragraph: Ada wrote. She [qid: Q1] died.", "wrote"),
    "question": (hearing(QUESTION_REPLY_FORM, read_question), "Question: Who was Ada?", "Ada"),
    "checks": (hearing(CHECK_LINES_FORM, read_pair_checks), "1: ok\n2: which bridge?\n3: ok\n4: ok\n5: ok", "bridge"),
    "fact type": (hearing(FACT_TYPE_FORM, read_fact_type), "Type: GPE", "GPE"),
    "selection": (hearing(SELECTION_REPLY_FORM, read_selected_paths), "Path: A; r1; B\nPath: A; r2; B", "r2"),
    "score": (hearing(SCORE_REPLY_FORM, read_path_score), "Score: 4", "4"),
    "consistency": (hearing(CONSISTENCY_FORMAT, read_consistency_verdict), "Yes", "Yes"),
    "objectivity": (hearing(OBJECTIVITY_FORM, read_letter), "Towers are measured.\nY\nY", "Y"),
    "rewrite": (hearing(WORDING_FORM, read_wording_verdict, ASKED), "How high is the tower, in metres?", "metres"),
    "no change": (hearing(WORDING_FORM, read_wording_verdict, ASKED), "No change.", "No"),
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
    assert not isinstance(hear(plain), UnreadableCompletion)
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
    if isinstance(bare := hear(changed), UnreadableCompletion):
        assert isinstance(hear(dressed), UnreadableCompletion) or hear(dressed) != hear(plain)
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
        (LEVELS_FORMAT, lambda text: read_answer_levels(text, "Ulm"), "1:: Ulm\n2:: a town on the D"),
        (PAIRS_FORM, read_generated_pairs, json.dumps(PAIRS)[:-20]),
        (QUESTION_REPLY_FORM, read_question, "Question: Who was"),
        (CHECK_LINES_FORM, read_pair_checks, "1: ok\n2: ok\n3: ok\n4: ok\n5: ok"),
        (SELECTION_REPLY_FORM, read_selected_paths, "Path: A; r1; B\nPath: A"),
        (FACT_TYPE_FORM, read_fact_type, "Type: WORK_OF"),
        (SCORE_REPLY_FORM, read_path_score, "The chain tells"),
        (WORDING_FORM, lambda text: read_wording_verdict(text, "List the towers."), "List the towers, in"),
        (PLAIN_TEXT_FORMAT, read_letter, "<think>Towers are"),
    ],
)
def test_a_reply_that_the_token_limit_ended_is_cut_off(form: CompletionFormat, parse: Any, reply: str) -> None:
    assert hearing(form, parse, finish="length")(reply).kind == "cut_off"
    assert hearing(form, parse, finish="max_tokens")(reply).kind == "cut_off"


@pytest.mark.parametrize(
    ("form", "parse", "reply"),
    [
        (LEVELS_FORMAT, lambda text: read_answer_levels(text, "Ulm"), "1:: Ulm\n2:: Germany\n\nLet me know if you n"),
        (PAIRS_FORM, read_generated_pairs, f"{json.dumps(PAIRS)}\n\nThese pairs a"),
        (QUESTION_REPLY_FORM, read_question, "Question: Who was Ada?"),
        (PARAGRAPH_REPLY_FORM, read_paragraph, "Paragraph: Ada wrote."),
        (SCORE_REPLY_FORM, read_path_score, "Score: 4\nThe chain tel"),
        (WORDING_FORM, lambda text: read_wording_verdict(text, ASKED), "No change."),
    ],
)
def test_a_whole_answer_is_read_though_the_token_limit_ended_the_reply(
    form: CompletionFormat, parse: Any, reply: str
) -> None:
    assert not isinstance(hearing(form, parse, finish="length")(reply), UnreadableCompletion)


def test_what_is_wrong_with_a_whole_object_is_not_that_it_was_cut_off() -> None:
    four = json.dumps({**PAIRS, "short": PAIRS["short"][:4]})
    assert hearing(PAIRS_FORM, read_generated_pairs, finish="length")(four).kind == "reply_not_in_format"


@pytest.mark.parametrize(
    "reply", ["[" * 10_000, '{"short":' * 10_000, '{"a": ' + "9" * 5_000 + "}", "<think>" * 50_000]
)
def test_monstrous_replies_are_told_and_raise_nothing(reply: str) -> None:
    for hear, _, _ in FORMS.values():
        assert isinstance(hear(reply), UnreadableCompletion)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(max_size=200) | st.text("1:.)*_-`#>{}[]\"' \nYNok<think/>", max_size=80),
    st.sampled_from(sorted(FORMS)),
)
def test_any_text_is_read_or_told(text: str, form: str) -> None:
    assert isinstance(
        FORMS[form][0](text), (tuple, str, list, bool, int, GeneratedPairs, WordingVerdict, UnreadableCompletion)
    )


@pytest.mark.parametrize(
    "reply",
    [
        *("1:: Ulm\n2:: Germany\n\nWait, that is wrong.", "1:: Ulm\n2:: Germany\n\nCorrection: line 2 is Bavaria."),
        *("1:: Ulm\n2:: Germany\nand Bavaria", "1:: Ulm\n\nor\n\n1:: Neu-Ulm", "I believe it is this\n1:: Ulm"),
        *("**1:: Ulm", "1:: Ulm\n<think>Or is it"),
    ],
)
def test_what_is_not_certain_is_not_mended(reply: str) -> None:
    assert FORMS["levels"][0](reply).kind == "reply_not_in_format"


def test_an_object_that_is_taken_back_is_not_read() -> None:
    assert isinstance(FORMS["pairs"][0](f"{json.dumps(PAIRS)}\n\nActually, pair 3 is wrong."), UnreadableCompletion)
    assert isinstance(FORMS["pairs"][0](f"{json.dumps(PAIRS)}\n{json.dumps(PAIRS)}"), UnreadableCompletion)


@pytest.mark.parametrize(
    ("form", "reply", "text", "taken_off"),
    [
        (LEVELS_FORMAT, "1:: Ulm", "1:: Ulm", set()),
        (
            LEVELS_FORMAT,
            "- **1：：** Ulm (less specific)",
            "1:: Ulm",
            {"list_marks", "emphasis", "full_width", "gloss"},
        ),
        (LEVELS_FORMAT, "Sure:\n**1:: Ulm** (less specific)", "1:: Ulm", {"lead_in", "emphasis", "gloss"}),
        (PAIRS_FORM, '<think>?</think>{"a": 1} Done.', '{"a": 1}', {"thoughts", "remark"}),
        (PAIRS_FORM, 'Here:\n```\n{"a"：["1，2"，3]}\n```', '{"a":["1，2",3]}', {"lead_in", "fences", "full_width"}),
        (
            QUESTION_REPLY_FORM,
            "2. Question：\n\nWho?\n\nIt asks.",
            "Question: Who?",
            {"list_marks", "full_width", "remark"},
        ),
        (WORDING_FORM, "Rewrite: 'How high？'", "How high?", {"label", "emphasis", "full_width"}),
        (PLAIN_TEXT_FORMAT, "Okay.\n- `Y`", "Y", {"lead_in", "list_marks", "emphasis"}),
    ],
)
def test_what_is_taken_off_is_told(form: CompletionFormat, reply: str, text: str, taken_off: set[str]) -> None:
    assert strip_completion_wrappers(reply, "stop", form) == StrippedCompletion(text, frozenset(taken_off))


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
    assert strip_thinking_and_end_tokens(reply) == said
