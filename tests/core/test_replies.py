"""Test completions in all wrappers at every stage.

A right completion reads as its bare form, or is refused, cut off, empty or uncertain.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.steps.replies import make_reader

from factmill.tasks.biokalma.core.author_replies import (
    PARAGRAPH_REPLY_FORM,
    QUESTION_REPLY_FORM,
    read_paragraph,
    read_question,
)
from factmill.tasks.biokalma.core.evaluation.rows import RATING_REPLY_FORM, read_rating
from factmill.tasks.core.authoring.granular_answers import (
    CONSISTENCY_FORMAT,
    LEVELS_FORMAT,
    read_answer_levels,
    read_description_fit_verdict,
)
from factmill.tasks.core.authoring.question_wording import (
    WORDED_QUESTION_FORMAT,
    PiecesToWordQuestionFrom,
    read_and_check_worded_question,
)
from factmill.tasks.core.completions import (
    CITED_TEXT_FORMAT,
    PLAIN_TEXT_FORMAT,
    CompletionFormat,
    StrippedCompletion,
    UnreadableCompletion,
    strip_completion_wrappers,
)
from factmill.tasks.core.evaluation.answers import read_short_answer
from factmill.tasks.fanoutqa.core.evaluation.grades import JUDGE_GRADE_FORM, read_grade
from factmill.tasks.fanoutqa.core.judge_replies import (
    OBJECTIVITY_FORM,
    WORDING_FORM,
    WordingVerdict,
    read_wording_verdict,
)
from factmill.tasks.fanoutqa.core.judge_replies import read_objectivity_verdict as read_letter
from factmill.tasks.multihal.core.evaluation.answers import ANSWER_REPLY_FORM
from factmill.tasks.multihal.core.path_selection import (
    SCORE_REPLY_FORM,
    SELECTION_REPLY_FORM,
    read_path_score,
    read_selected_paths,
)
from factmill.tasks.slaq.core.evaluation.verdicts import SLAQ_VERDICT_FORM, read_verdicts
from factmill.tasks.slaq.core.pair_replies import (
    CHECK_LINES_FORM,
    FACT_TYPE_FORM,
    PAIRS_FORM,
    GeneratedQuestionAnswerPairs,
    read_fact_type,
    read_fault_per_question_answer_pair,
    read_generated_question_answer_pairs,
)
from factmill.tasks.text.reply_wrappers import strip_thinking_and_end_tokens

PAIRS = {
    "short": [{"question": f"Who built bridge {number}?", "answer": f"Builder {number}"} for number in range(1, 6)],
    "long_question": "Who built the bridges?",
    "long_answer": "They were built, one by one.",
}
PAIRS_REPLY = json.dumps(PAIRS)
ASKED = "How high is the tower?"
WORDING = PiecesToWordQuestionFrom("the towers in Ulm", "", (), "", 5, "", "how high is each of them", "", "")
STAGES: dict[str, tuple[Callable[[str], Any], str]] = {
    "granola levels": (
        make_reader(LEVELS_FORMAT, read_answer_levels, "Ulm"),
        "1:: Ulm\n2:: a town on the Danube\n3:: Germany",
    ),
    "granola consistency": (make_reader(CONSISTENCY_FORMAT, read_description_fit_verdict), "Yes"),
    "granola answer": (make_reader(PLAIN_TEXT_FORMAT, read_short_answer), "Ulm"),
    "multihal selection": (make_reader(SELECTION_REPLY_FORM, read_selected_paths), "Path: A; r1; B\nPath: A; r2; B"),
    "multihal score": (make_reader(SCORE_REPLY_FORM, read_path_score), "Score: 4"),
    "multihal answer": (make_reader(ANSWER_REPLY_FORM, str), "Answer: Ulm"),
    "biokalma paragraph": (
        make_reader(PARAGRAPH_REPLY_FORM, read_paragraph),
        "Paragraph: Ada wrote. She died [qid: Q1, name: Ada].",
    ),
    "biokalma question": (make_reader(QUESTION_REPLY_FORM, read_question), "Question: Who was Ada?"),
    "biokalma rating": (make_reader(RATING_REPLY_FORM, read_rating), "Rating: 4"),
    "slaq pairs": (make_reader(PAIRS_FORM, read_generated_question_answer_pairs), PAIRS_REPLY),
    "slaq check": (
        make_reader(CHECK_LINES_FORM, read_fault_per_question_answer_pair),
        "1: ok\n2: which bridge?\n3: ok\n4: ok\n5: ok",
    ),
    "slaq fact type": (make_reader(FACT_TYPE_FORM, read_fact_type), "Type: GPE"),
    "slaq answer": (make_reader(PLAIN_TEXT_FORMAT, str), "It is 40 metres high."),
    "slaq verdict": (make_reader(SLAQ_VERDICT_FORM, read_verdicts, 1), "Verdict: 1"),
    "slaq verdicts": (make_reader(SLAQ_VERDICT_FORM, read_verdicts, 5), "Verdicts: 1, 0, 1, 1, 0"),
    "fanoutqa wording": (
        make_reader(WORDED_QUESTION_FORMAT, read_and_check_worded_question, WORDING, {}),
        "How high is each of the five towers in Ulm?",
    ),
    "fanoutqa objectivity": (make_reader(OBJECTIVITY_FORM, read_letter), "Towers are measured.\nY\nY"),
    "fanoutqa rewrite": (make_reader(WORDING_FORM, read_wording_verdict, ASKED), "How high is the tower, in metres?"),
    "fanoutqa no change": (make_reader(WORDING_FORM, read_wording_verdict, ASKED), "No change."),
    "fanoutqa answer": (make_reader(PLAIN_TEXT_FORMAT, str), "Ulm: 1890"),
    "fanoutqa grade": (make_reader(JUDGE_GRADE_FORM, read_grade), "Verdict: C"),
}
"""Maps a stage to its parser and a right reply."""
PARTS = {
    "granola levels": "2:: ", "granola consistency": "Yes", "multihal selection": "r2", "multihal score": "4",
    "biokalma paragraph": "wrote", "biokalma question": "Ada", "slaq pairs": "Builder 3", "slaq check": "bridge",
    "slaq fact type": "GPE", "fanoutqa objectivity": "Y", "fanoutqa rewrite": "metres", "fanoutqa no change": "No",
}  # fmt: skip
"""Maps a stage to the meaningful part of its reply."""
LINES = sorted(PARTS.keys() - {"slaq pairs", "slaq check", "fanoutqa objectivity"})
"""Stages whose lines may each have a wrapper."""

AROUND: dict[str, Callable[[str], str]] = {
    "thoughts": lambda text: f"<think>1:: Rome? No. Score: 2, Type: LAW\n{{</think>\n\n{text}",
    "thoughts without an opening tag": lambda text: f"Is it 1:: Rome?\n</think>\n{text}",
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
@pytest.mark.parametrize("form", PARTS)
def test_reply_parses_same_with_any_surrounding_wrapper(form: str, dress: str) -> None:
    read_reply, plain = STAGES[form]
    assert not isinstance(read_reply(plain), UnreadableCompletion)
    assert read_reply(AROUND[dress](plain)) == read_reply(plain)


@pytest.mark.parametrize("dress", ON_LINES)
@pytest.mark.parametrize("form", LINES)
def test_reply_parses_same_with_any_line_markers(form: str, dress: str) -> None:
    read_reply, plain = STAGES[form]
    assert read_reply(on_lines(ON_LINES[dress], plain)) == read_reply(plain)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(PARTS)),
    st.lists(st.sampled_from(sorted(AROUND)), max_size=4),
    st.sampled_from(sorted(ON_LINES)),
)
@example("fanoutqa rewrite", ["close lead-in", "interjection"], "bold")
def test_nested_wrappers_do_not_change_parsed_reply(form: str, around: list[str], on_line: str) -> None:
    read_reply, plain = STAGES[form]
    dressed = on_lines(ON_LINES[on_line], plain) if form in LINES else plain
    # thoughts come first
    for dress in sorted(dict.fromkeys(around), key=lambda name: ("thoughts" in name, "tags" in name)):
        dressed = AROUND[dress](dressed)
    assert read_reply(dressed) == read_reply(plain)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(PARTS)), st.lists(st.sampled_from(sorted(AROUND)), max_size=3), st.text(max_size=12))
def test_different_content_stays_different_in_any_wrapper(form: str, around: list[str], other: str) -> None:
    (read_reply, plain), part = STAGES[form], PARTS[form]
    changed = plain.replace(part, f"{part[:-1]}{other}")
    dressed = changed
    for dress in sorted(dict.fromkeys(around), key=lambda name: ("thoughts" in name, "tags" in name)):
        dressed = AROUND[dress](dressed)
    if isinstance(bare := read_reply(changed), UnreadableCompletion):
        assert isinstance(read_reply(dressed), UnreadableCompletion) or read_reply(dressed) != read_reply(plain)
    elif bare != read_reply(plain):
        assert read_reply(dressed) != read_reply(plain)


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
@pytest.mark.parametrize("form", PARTS)
def test_refusal_is_recognised(form: str, reply: str) -> None:
    assert STAGES[form][0](reply).kind == "refused"


@pytest.mark.parametrize(
    "reply", ["I apologize for the confusion. Here it is:\n\n1:: Ulm", "Sorry for the mistake:\n1:: Ulm", "1:: Ulm"]
)
def test_apology_is_not_refusal(reply: str) -> None:
    assert STAGES["granola levels"][0](reply) == ("Ulm",)


def test_answer_that_mentions_inability_is_not_refusal() -> None:
    assert STAGES["granola consistency"][0]("I cannot rule it out.\nYes") is True
    assert STAGES["fanoutqa objectivity"][0]("I cannot give one answer to that, nor can others.\nN") is False


@pytest.mark.parametrize(
    "reply", ["", " \n", "```\n```", "<think>Ulm</think>", "<think>1:: Ulm", "<|channel|>analysis<|message|>x"]
)
@pytest.mark.parametrize("form", PARTS)
def test_reply_without_content_or_cut_off_in_thinking_is_empty(form: str, reply: str) -> None:
    assert STAGES[form][0](reply).kind == "empty_reply"


@pytest.mark.parametrize(
    ("form", "parse", "reply"),
    [
        (LEVELS_FORMAT, lambda text: read_answer_levels(text, "Ulm"), "1:: Ulm\n2:: a town on the D"),
        (PAIRS_FORM, read_generated_question_answer_pairs, PAIRS_REPLY[:-20]),
        (QUESTION_REPLY_FORM, read_question, "Question: Who was"),
        (CHECK_LINES_FORM, read_fault_per_question_answer_pair, "1: ok\n2: ok\n3: ok\n4: ok\n5: ok"),
        (SELECTION_REPLY_FORM, read_selected_paths, "Path: A; r1; B\nPath: A"),
        (FACT_TYPE_FORM, read_fact_type, "Type: WORK_OF"),
        (SCORE_REPLY_FORM, read_path_score, "The chain tells"),
        (WORDING_FORM, lambda text: read_wording_verdict(text, "List the towers."), "List the towers, in"),
        (PLAIN_TEXT_FORMAT, read_letter, "<think>Towers are"),
    ],
)
def test_reply_ended_by_token_limit_is_cut_off(form: CompletionFormat, parse: Any, reply: str) -> None:
    assert make_reader(form, parse, finish="length")(reply).kind == "cut_off"
    assert make_reader(form, parse, finish="max_tokens")(reply).kind == "cut_off"


@pytest.mark.parametrize(
    ("form", "parse", "reply"),
    [
        (LEVELS_FORMAT, lambda text: read_answer_levels(text, "Ulm"), "1:: Ulm\n2:: Germany\n\nLet me know if you n"),
        (PAIRS_FORM, read_generated_question_answer_pairs, f"{PAIRS_REPLY}\n\nThese pairs a"),
        (QUESTION_REPLY_FORM, read_question, "Question: Who was Ada?"),
        (PARAGRAPH_REPLY_FORM, read_paragraph, "Paragraph: Ada wrote."),
        (SCORE_REPLY_FORM, read_path_score, "Score: 4\nThe chain tel"),
        (WORDING_FORM, lambda text: read_wording_verdict(text, ASKED), "No change."),
    ],
)
def test_complete_answer_is_parsed_even_if_token_limit_ended_reply(
    form: CompletionFormat, parse: Any, reply: str
) -> None:
    assert not isinstance(make_reader(form, parse, finish="length")(reply), UnreadableCompletion)


def test_faulty_complete_object_is_malformed_not_cut_off() -> None:
    four = json.dumps({**PAIRS, "short": PAIRS["short"][:4]})
    assert (
        make_reader(PAIRS_FORM, read_generated_question_answer_pairs, finish="length")(four).kind
        == "reply_not_in_format"
    )


@pytest.mark.parametrize(
    "reply", ["[" * 10_000, '{"short":' * 10_000, '{"a": ' + "9" * 5_000 + "}", "<think>" * 50_000]
)
def test_monstrous_replies_are_unreadable_and_raise_nothing(reply: str) -> None:
    for stage in PARTS:
        assert isinstance(STAGES[stage][0](reply), UnreadableCompletion)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(max_size=200) | st.text("1:.)*_-`#>{}[]\"' \nYNok<think/>", max_size=80),
    st.sampled_from(sorted(PARTS)),
)
def test_any_text_is_parsed_or_unreadable(text: str, form: str) -> None:
    assert isinstance(
        STAGES[form][0](text),
        (tuple, str, list, bool, int, GeneratedQuestionAnswerPairs, WordingVerdict, UnreadableCompletion),
    )


@pytest.mark.parametrize(
    "reply",
    [
        *("1:: Ulm\n2:: Germany\n\nWait, that is wrong.", "1:: Ulm\n2:: Germany\n\nCorrection: line 2 is Bavaria."),
        *("1:: Ulm\n2:: Germany\nand Bavaria", "1:: Ulm\n\nor\n\n1:: Neu-Ulm", "I believe it is this\n1:: Ulm"),
        *("**1:: Ulm", "1:: Ulm\n<think>Or is it"),
    ],
)
def test_ambiguous_reply_is_not_repaired(reply: str) -> None:
    assert STAGES["granola levels"][0](reply).kind == "reply_not_in_format"


def test_retracted_object_is_not_parsed() -> None:
    assert isinstance(STAGES["slaq pairs"][0](f"{PAIRS_REPLY}\n\nActually, pair 3 is wrong."), UnreadableCompletion)
    assert isinstance(STAGES["slaq pairs"][0](f"{PAIRS_REPLY}\n{PAIRS_REPLY}"), UnreadableCompletion)


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
def test_removed_wrappers_are_reported(form: CompletionFormat, reply: str, text: str, taken_off: set[str]) -> None:
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
def test_thinking_is_stripped(reply: str, said: str) -> None:
    assert strip_thinking_and_end_tokens(reply) == said


WRAPPERS: dict[str, Callable[[str], str]] = {
    "result tags": lambda text: f"<result>\n{text}\n</result>",
    "result tags with an announcement": lambda text: (
        f"Here is my answer:\n<result>{text}</result>\n\nI hope this helps!"
    ),
    "heading": lambda text: f"## Final Answer\n{text}",
    "heading in bold": lambda text: f"**Final answer:**\n\n{text}",
    "heading below a draft": lambda text: f"I think about it first.\n\n### Final Answer\n\n{text}",
    "explanation": lambda text: f"{text}\n\nExplanation: the given text says so.",
    "explanation on the next line": lambda text: f"{text}\n**Explanation:** the given text says so.",
    "explanation in parts": lambda text: f"{text}\n\n### Reasoning\n\nThe text says so.\n\nNothing else does.",
    "next turn": lambda text: f"{text}\nUser: And who was Bob?\nAssistant: A painter.",
    "next turn in tokens": lambda text: f"{text}<|im_end|>\n<|im_start|>user\nAnd who was Bob?",
    "next turn under a heading": lambda text: f"{text}\n\n### Human\nAnd who was Bob?",
    "next question": lambda text: f"{text}\n\nQ: And who was Bob?\nA: A painter.",
    "citations": lambda text: "\n".join(f"{line} [1][2]" for line in text.splitlines()),
}
JUDGES = ("biokalma rating", "slaq verdict", "slaq verdicts", "fanoutqa grade")
NOT_CERTAIN = {
    # a judge may quote the answer in such tags and comment on it
    "result tags with an announcement": JUDGES,
    # a judge may quote such tokens from the judged answer, and its last verdict counts
    "next turn in tokens": (*JUDGES, "fanoutqa objectivity"),
    # `Question:` is the label that a question may have
    "next question": ("fanoutqa wording", "fanoutqa rewrite", "fanoutqa no change"),
    # citations within the object are read; after it they would be separate text
    "citations": ("slaq pairs",),
}
"""Maps a wrapper to the stages in which it may make a reply unreadable."""


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("stage", STAGES)
def test_wrapped_reply_parses_like_bare_reply(stage: str, wrapper: str) -> None:
    read, bare = STAGES[stage]
    assert not isinstance(read(bare), UnreadableCompletion)
    expected, found = read(bare), read(WRAPPERS[wrapper](bare))
    if stage in NOT_CERTAIN.get(wrapper, ()):
        assert isinstance(found, UnreadableCompletion) or found == expected
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("stage", "reply"),
    [
        ("granola levels", "| Level | Answer |\n|---|---|\n| 1 | Ulm |\n| 2 | a town on the Danube |\n| 3 | Germany |"),
        ("granola levels", "| Level | Answer |\n| 1 | Ulm |\n| 2 | a town on the Danube |\n| 3 | Germany |"),
        ("granola levels", "| 1 | Ulm |\n| **2** | a town on the Danube |\n| 3 | Germany [1][2] |"),
        ("granola levels", "١:: Ulm\n٢:: a town on the Danube\n٣:: Germany"),
        ("granola levels", "१. Ulm\n२. a town on the Danube\n३. Germany"),
        ("granola levels", "Answer: 1:: Ulm\n2:: a town on the Danube\n3:: Germany"),
        (
            "slaq check",
            "| Pair | Check |\n|:--|:--|\n| 1 | ok |\n| 2 | which bridge? |\n| 3 | ok |\n| 4 | ok |\n| 5 | ok |",
        ),
        ("slaq check", "১: ok\n২: which bridge?\n৩: ok\n৪: ok\n৫: ok"),
        ("slaq fact type", "Answer: Type: GPE"),
        ("slaq fact type", '{"type": "GPE"}'),
        ("multihal selection", "| # | Path |\n|---|---|\n| 1 | A; r1; B |\n| 2 | A; r2; B |"),
        ("multihal score", "Score: ๔"),
        ("slaq verdict", "Verdict: 1 (correct)"),
        ("slaq verdict", "Final Verdict: 1"),
        ("slaq verdict", "Verdict = 1"),
        ("slaq verdict", "**Verdict:** 1"),
        ("slaq verdict", "Verdict: ١"),
        ("slaq verdict", '{"verdict": 1}'),
        ("slaq verdict", "| Verdict |\n|---|\n| 1 |"),
        ("slaq verdict", "The answer says 'Verdict: 0', but that is its own.\nVerdict: 1"),
        ("slaq verdicts", '{"verdicts": [1, 0, 1, 1, 0]}'),
        ("biokalma rating", "Score: 4/5"),
        ("biokalma rating", "Final Rating: 4 (good)"),
        ("biokalma rating", "| Criterion | Rating |\n|---|---|\n| Fluency | 4 |"),
        ("biokalma rating", '{"rating": 4, "reason": "It reads well."}'),
        ("fanoutqa grade", "Final Verdict = C"),
        ("biokalma question", "❓ Question: 🤔 Who was Ada? 😊"),
        ("fanoutqa rewrite", "🗼 How high is the tower, in metres?"),
        (
            "slaq pairs",
            PAIRS_REPLY.replace("}]", "},]").replace('"Who built the bridges?"', "'Who built the bridges?'"),
        ),
        ("slaq pairs", PAIRS_REPLY.replace('"long_answer"', "// all of it\nlong_answer")),
        ("slaq pairs", PAIRS_REPLY.replace('"Who built the bridges?"', '"✨ Who built the bridges?"')),
        ("biokalma paragraph", "Paragraph: Ada wrote. She died [qid: Q1, name: Ada].\n\nI added one sentence."),
    ],
)
def test_other_spellings_of_right_reply_parse_same(stage: str, reply: str) -> None:
    read, bare = STAGES[stage]
    assert read(reply) == read(bare)


@pytest.mark.parametrize(
    ("stage", "reply"),
    [
        ("slaq verdict", "Verdict: 1\n\nWait, actually it is wrong."),
        ("slaq verdict", "Verdict: 1 (incorrect)"),
        ("slaq verdict", "Verdict: 1 or 0"),
        ("slaq verdict", "Verdict: Ja"),
        ("slaq verdict", 'The answer says\n{"verdict": 1}\nwhich I doubt.'),
        ("slaq verdict", '{"verdict": 1, "final_verdict": 0}'),
        ("biokalma rating", "Rating: 4 (or 3)"),
        ("biokalma rating", '{"rating": 4'),
        ("granola levels", "| Level | Answer |\n|---|---|\n| 1 | Ulm |\n| 2 | a town on the Danube |\n| 3 | Ger"),
        ("granola levels", "| Level | Answer | Or |\n|---|---|---|\n| 1 | Ulm | Neu-Ulm |"),
        ("granola levels", "| 1 | Ulm |\n| 2 | Germany |\n\nWait, actually it is Bavaria."),
        ("granola levels", "<result>1:: Ulm</result>\n<result>1:: Ulm\n2:: Germany</result>"),
        ("granola consistency", "Ja"),
        ("granola consistency", "Oui"),
        ("granola consistency", "Sí"),
        ("granola consistency", "是"),
        ("fanoutqa objectivity", "Nein"),
        ("slaq pairs", PAIRS_REPLY[:-1]),
        ("slaq pairs", PAIRS_REPLY.replace('"', "'")[:-30]),
        ("slaq pairs", PAIRS_REPLY.replace('"long_answer"', "'long_answer': 'x', 'long_answer'")),
        ("slaq pairs", PAIRS_REPLY.replace('"long_answer"', "// wait, pair 2 is wrong\n'long_answer'")),
        ("biokalma paragraph", "Paragraph: Ada wrote.\n\nParagraph: Ada died."),
    ],
)
def test_ambiguous_reply_at_any_stage_is_unreadable(stage: str, reply: str) -> None:
    found = STAGES[stage][0](reply)
    assert isinstance(found, UnreadableCompletion)
    assert found.kind == "reply_not_in_format"


@pytest.mark.parametrize(
    "quoted",
    [
        *("<answer>Verdict: 1</answer>", "<result>\nVerdict: 1\n</result>", "| Verdict | 1 |"),
        *("| Verdict |\n|---|\n| 1 |", '{"verdict": 1}', "## Final Answer\nVerdict: 1"),
        *("<|im_start|>user\nVerdict: 1", "User: Verdict: 1", "Explanation: Verdict: 1"),
    ],
)
@pytest.mark.parametrize(
    "then", ["Verdict: 0", "Note that this is false.\nVerdict: 0", "Explanation: it is false.\n\nVerdict: 0"]
)
def test_answer_quoted_by_judge_yields_no_verdict(quoted: str, then: str) -> None:
    assert STAGES["slaq verdict"][0](f"Here is the answer:\n{quoted}\n{then}") == (0,)


@pytest.mark.parametrize(
    "quoted", ["<answer>Verdict: 1</answer>", "| Verdict | 1 |", "| Verdict |\n|---|\n| 1 |", '{"verdict": 1}']
)
def test_verdict_that_is_only_quoted_is_unreadable(quoted: str) -> None:
    assert isinstance(
        STAGES["slaq verdict"][0](f"Here is the answer:\n{quoted}\n\nNote: it is not mine."), UnreadableCompletion
    )
    assert STAGES["slaq verdict"][0](f"Verdict: 0\nThe answer holds\n{quoted}") == (0,)


def test_correction_names_words_that_are_accepted() -> None:
    assert "Yes or No" in STAGES["granola consistency"][0]("Ja").format_correction()
    assert "letter Y or N" in STAGES["fanoutqa objectivity"][0]("Oui").format_correction()
    assert "1 or 0" in STAGES["slaq verdict"][0]("Verdict: Nein").format_correction()


def test_square_bracket_marks_are_kept_only_in_cited_text() -> None:
    assert make_reader(CITED_TEXT_FORMAT, str)("Ada wrote [1].") == "Ada wrote [1]."
    assert make_reader(PLAIN_TEXT_FORMAT, str)("Ada wrote [1].") == "Ada wrote."


def test_answer_below_its_reasoning_is_kept() -> None:
    said = "Two things are asked.\n\nReasoning: both towers are known.\n\nAnswer: Ulm: 1890"
    assert STAGES["fanoutqa answer"][0](said) == said


@pytest.mark.parametrize("said", ["Paris\n\nUser: thanks", "Let me see.\n\nQuestion: Where?\nAnswer: Paris"])
def test_answer_after_repeated_question_is_kept(said: str) -> None:
    assert "Paris" in STAGES["fanoutqa answer"][0](said)


@pytest.mark.parametrize(
    "unit",
    [
        *("|", "| 1 ", "| a |\n", "<result>", "## Final Answer\n", "[1]", " [1", "User:\n", "{'a': ", "// "),
        *("\n\nExplanation:", "🎉", "'"),
    ],
)
@pytest.mark.parametrize("stage", STAGES)
def test_hostile_replies_raise_nothing(stage: str, unit: str) -> None:
    STAGES[stage][0](unit * (40_000 // len(unit)))
