"""One table of wrappers × stages: a right reply in each wrapper reads as the bare one, or the table says why it is not certain."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from support.steps.replies import hearing

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
    read_consistency_verdict,
)
from factmill.tasks.core.authoring.question_wording import (
    WORDED_QUESTION_FORMAT,
    QuestionPieces,
    read_and_check_worded_question,
)
from factmill.tasks.core.completions import CITED_TEXT_FORMAT, PLAIN_TEXT_FORMAT, UnreadableCompletion
from factmill.tasks.core.evaluation.answers import read_short_answer
from factmill.tasks.fanoutqa.core.evaluation.grades import JUDGE_GRADE_FORM, read_grade
from factmill.tasks.fanoutqa.core.judge_replies import OBJECTIVITY_FORM, WORDING_FORM, read_wording_verdict
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
    read_fact_type,
    read_generated_pairs,
    read_pair_checks,
)

PAIRS = json.dumps(
    {
        "short": [{"question": f"Who built bridge {at}?", "answer": f"Builder {at}"} for at in range(1, 6)],
        "long_question": "Who built the bridges?",
        "long_answer": "They were built, one by one.",
    }
)
ASKED = "How high is the tower?"
WORDING = QuestionPieces("the towers in Ulm", "", (), "", 5, "", "how high is each of them", "", "")
STAGES: dict[str, tuple[Callable[[str], Any], str]] = {
    "granola levels": (
        hearing(LEVELS_FORMAT, read_answer_levels, "Ulm"),
        "1:: Ulm\n2:: a town on the Danube\n3:: Germany",
    ),
    "granola consistency": (hearing(CONSISTENCY_FORMAT, read_consistency_verdict), "Yes"),
    "granola answer": (hearing(PLAIN_TEXT_FORMAT, read_short_answer), "Ulm"),
    "multihal selection": (hearing(SELECTION_REPLY_FORM, read_selected_paths), "Path: A; r1; B\nPath: A; r2; B"),
    "multihal score": (hearing(SCORE_REPLY_FORM, read_path_score), "Score: 4"),
    "multihal answer": (hearing(ANSWER_REPLY_FORM, str), "Answer: Ulm"),
    "biokalma paragraph": (
        hearing(PARAGRAPH_REPLY_FORM, read_paragraph),
        "Paragraph: Ada wrote. She died [qid: Q1, name: Ada].",
    ),
    "biokalma question": (hearing(QUESTION_REPLY_FORM, read_question), "Question: Who was Ada?"),
    "biokalma rating": (hearing(RATING_REPLY_FORM, read_rating), "Rating: 4"),
    "slaq pairs": (hearing(PAIRS_FORM, read_generated_pairs), PAIRS),
    "slaq check": (hearing(CHECK_LINES_FORM, read_pair_checks), "1: ok\n2: which bridge?\n3: ok\n4: ok\n5: ok"),
    "slaq fact type": (hearing(FACT_TYPE_FORM, read_fact_type), "Type: GPE"),
    "slaq answer": (hearing(PLAIN_TEXT_FORMAT, str), "It is 40 metres high."),
    "slaq verdict": (hearing(SLAQ_VERDICT_FORM, read_verdicts, 1), "Verdict: 1"),
    "slaq verdicts": (hearing(SLAQ_VERDICT_FORM, read_verdicts, 5), "Verdicts: 1, 0, 1, 1, 0"),
    "fanoutqa wording": (
        hearing(WORDED_QUESTION_FORMAT, read_and_check_worded_question, WORDING, {}),
        "How high is each of the five towers in Ulm?",
    ),
    "fanoutqa objectivity": (hearing(OBJECTIVITY_FORM, read_letter), "Y"),
    "fanoutqa rewrite": (hearing(WORDING_FORM, read_wording_verdict, ASKED), "How high is the tower, in metres?"),
    "fanoutqa answer": (hearing(PLAIN_TEXT_FORMAT, str), "Ulm: 1890"),
    "fanoutqa grade": (hearing(JUDGE_GRADE_FORM, read_grade), "Verdict: C"),
}
"""Stage → what reads its reply, and a right reply."""
WRAPPERS: dict[str, Callable[[str], str]] = {
    "result tags": lambda text: f"<result>\n{text}\n</result>",
    "result tags with an announcement": lambda text: (
        f"Here is my answer:\n<result>{text}</result>\n\nI hope this helps!"
    ),
    "heading": lambda text: f"## Final Answer\n{text}",
    "heading in bold": lambda text: f"**Final answer:**\n\n{text}",
    "heading below a draft": lambda text: f"I think about it first.\n\n### Final Answer\n\n{text}",
    "explanation": lambda text: f"{text}\n\nExplanation: the given text says so.",
    "explanation close by": lambda text: f"{text}\n**Explanation:** the given text says so.",
    "explanation in parts": lambda text: f"{text}\n\n### Reasoning\n\nThe text says so.\n\nNothing else does.",
    "next turn": lambda text: f"{text}\nUser: And who was Bob?\nAssistant: A painter.",
    "next turn in tokens": lambda text: f"{text}<|im_end|>\n<|im_start|>user\nAnd who was Bob?",
    "next turn under a heading": lambda text: f"{text}\n\n### Human\nAnd who was Bob?",
    "next question": lambda text: f"{text}\n\nQ: And who was Bob?\nA: A painter.",
    "citations": lambda text: "\n".join(f"{line} [1][2]" for line in text.splitlines()),
}
NOT_CERTAIN: dict[tuple[str, str], str] = {
    **{
        (
            stage,
            "result tags with an announcement",
        ): "a judge may quote the answer in such tags and note something on it"
        for stage in ("biokalma rating", "slaq verdict", "slaq verdicts", "fanoutqa grade")
    },
    ("fanoutqa wording", "next question"): "`Question:` is the label that a question may have",
    ("fanoutqa rewrite", "next question"): "`Question:` is the label that a question may have",
    **{
        (
            stage,
            "next turn in tokens",
        ): "a judge may quote such tokens from the answer that it judges, and its last verdict counts"
        for stage in ("biokalma rating", "slaq verdict", "slaq verdicts", "fanoutqa grade", "fanoutqa objectivity")
    },
    ("slaq pairs", "citations"): "marks within the object are read; behind it they would be a text of their own",
}
"""(Stage, wrapper) → why a reply so wrapped may stay unreadable."""


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("stage", STAGES)
def test_a_wrapped_reply_reads_as_the_bare_one(stage: str, wrapper: str) -> None:
    read, bare = STAGES[stage]
    assert not isinstance(read(bare), UnreadableCompletion)
    expected, found = read(bare), read(WRAPPERS[wrapper](bare))
    if (stage, wrapper) in NOT_CERTAIN:
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
        ("slaq pairs", PAIRS.replace("}]", "},]").replace('"Who built the bridges?"', "'Who built the bridges?'")),
        ("slaq pairs", PAIRS.replace('"long_answer"', "// all of it\nlong_answer")),
        ("slaq pairs", PAIRS.replace('"Who built the bridges?"', '"✨ Who built the bridges?"')),
        ("biokalma paragraph", "Paragraph: Ada wrote. She died [qid: Q1, name: Ada].\n\nI added one sentence."),
    ],
)
def test_other_writings_of_a_right_reply_read_as_it_does(stage: str, reply: str) -> None:
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
        ("slaq pairs", PAIRS[:-1]),
        ("slaq pairs", PAIRS.replace('"', "'")[:-30]),
        ("slaq pairs", PAIRS.replace('"long_answer"', "'long_answer': 'x', 'long_answer'")),
        ("slaq pairs", PAIRS.replace('"long_answer"', "// wait, pair 2 is wrong\n'long_answer'")),
        ("biokalma paragraph", "Paragraph: Ada wrote.\n\nParagraph: Ada died."),
    ],
)
def test_what_is_not_certain_is_asked_again(stage: str, reply: str) -> None:
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
def test_an_answer_that_a_judge_quotes_gives_no_verdict(quoted: str, then: str) -> None:
    assert STAGES["slaq verdict"][0](f"Here is the answer:\n{quoted}\n{then}") == (0,)


@pytest.mark.parametrize(
    "quoted", ["<answer>Verdict: 1</answer>", "| Verdict | 1 |", "| Verdict |\n|---|\n| 1 |", '{"verdict": 1}']
)
def test_a_verdict_that_is_only_quoted_is_asked_for_again(quoted: str) -> None:
    assert isinstance(
        STAGES["slaq verdict"][0](f"Here is the answer:\n{quoted}\n\nNote: it is not mine."), UnreadableCompletion
    )
    assert STAGES["slaq verdict"][0](f"Verdict: 0\nThe answer holds\n{quoted}") == (0,)


def test_a_question_in_words_names_the_words_that_are_read() -> None:
    assert "Yes or No" in STAGES["granola consistency"][0]("Ja").format_correction()
    assert "letter Y or N" in STAGES["fanoutqa objectivity"][0]("Oui").format_correction()
    assert "1 or 0" in STAGES["slaq verdict"][0]("Verdict: Nein").format_correction()


def test_marks_in_square_brackets_stay_where_they_are_asked_for() -> None:
    assert hearing(CITED_TEXT_FORMAT, str)("Ada wrote [1].") == "Ada wrote [1]."
    assert hearing(PLAIN_TEXT_FORMAT, str)("Ada wrote [1].") == "Ada wrote."


def test_an_answer_below_its_reasoning_stays() -> None:
    said = "Two things are asked.\n\nReasoning: both towers are known.\n\nAnswer: Ulm: 1890"
    assert STAGES["fanoutqa answer"][0](said) == said


@pytest.mark.parametrize("said", ["Paris\n\nUser: thanks", "Let me see.\n\nQuestion: Where?\nAnswer: Paris"])
def test_a_model_that_repeats_its_question_keeps_its_answer(said: str) -> None:
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
