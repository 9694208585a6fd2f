"""Grades of answers: by a judge's letter, by the program `exact`, and by people (FanOutQA, Appendix F.3).

A judge reasons before it grades; its last grade counts. A reply with another grade, or none, is Unreadable: nothing is
scored by guessing.

The program gives a lexical lower bound: numbers, dates and amounts count by value (text/values/answer_search.py), all else by
the words of `fixed` string accuracy; a paraphrase does not count. But it detects neither denials and hedges, nor false
statements next to the gold answer.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.core.evaluation.human_labels import AnswerPartWithJudgeVerdict
from factmill.tasks.fanoutqa.core.evaluation.rows import CLOSED_BOOK, FanOutPrediction
from factmill.tasks.fanoutqa.core.evaluation.strings.fixed_scorer import (
    make_comparable_texts,
    score_gold_strings_in_answer,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import (
    GoldAnswer,
    format_gold_answer,
    get_gold_dict_list_or_primitive,
    list_gold_string_spellings,
)
from factmill.tasks.fanoutqa.core.evaluation.strings.rule_lemmatizer import RuleLemmatizer, TextBatchLemmatizer
from factmill.tasks.text.values.answer_search import find_answer_and_missing_parts, index_text

GRADES = {
    "A": "a part of the gold answer, consistent with it",
    "B": "more than the gold answer, consistent with it",
    "C": "all that the gold answer says, and no more",
    "D": "at odds with the gold answer",
    "E": "different, but not in what matters to the facts",
    "F": "no answer to the question, or otherwise invalid",
}
RIGHT_GRADES = frozenset({"B", "C", "E"})
"""Grades that score 1.0; all others score 0.0."""
JUDGE_GRADE_FORM = CompletionFormat(
    kind="lines",
    line_head="(?:(?:final|overall|my|the) )*(?:verdict|grade)",
    separator="[:=]",
    strips_quotes=True,
    last_verdict_counts=True,
)
"""`Verdict: C`, or the letter alone on its line, as in the paper."""
_EXPECTED_VERDICT = 'a letter from A to F in a line of the form "Verdict: C"'
_LABELLED_VERDICT = re.compile(
    r"(?:(?:so|thus|therefore|hence),? )?(?:(?:the|my) )?(?:(?:final|correct|overall) )?"
    r"(?:verdict|grade|answer|choice|option|conclusion|letter)(?:(?: is)?\s*[:=]|\s+is\b)(?P<said>.*)",
    re.IGNORECASE,
)
_GRADE_LETTER = re.compile(r"[\s(\[\"'“*_`]*(?P<grade>[A-F])[\s)\]\"'”*_`.]*", re.IGNORECASE)
_LINE_WRAPPER = re.compile(r"^[\s*_`#>\-•]+|(?<![\s*_`])[\s*_`]+$")


def read_grade(text: str) -> str | UnreadableCompletion:
    """Return the last grade in a judge's reply as a capital letter; Unreadable if there is none."""
    for line in reversed(unicodedata.normalize("NFKC", text).splitlines()):
        verdict_text = _LINE_WRAPPER.sub("", line)
        if bare := _GRADE_LETTER.fullmatch(verdict_text):
            return bare["grade"].upper()
        if labelled := _LABELLED_VERDICT.fullmatch(verdict_text):
            if found := _GRADE_LETTER.fullmatch(labelled["said"]):
                return found["grade"].upper()
            return UnreadableCompletion(
                f"the last verdict is {labelled['said'].strip()[:40]!r}, expected {_EXPECTED_VERDICT}"
            )
    return UnreadableCompletion(f"there is no verdict, expected {_EXPECTED_VERDICT}")


_DEFAULT_LEMMATIZER = RuleLemmatizer({})


def choose_grade_letter_by_gold_strings(
    answer: str, gold: GoldAnswer, lemmatize: TextBatchLemmatizer = _DEFAULT_LEMMATIZER
) -> str:
    """Return a grade by the share of the gold answer in an answer.

    F: it says nothing; D: none of it; A: some of it; B: all of it, in more words than the gold answer; C: all of it.
    """
    references = list(list_gold_string_spellings(gold))
    if not answer.strip() or not references:
        return "F"
    texts = sorted({way for ways in references for way in ways})
    known = dict(zip(texts, make_comparable_texts(texts, lemmatize), strict=True))
    (answer_text,) = make_comparable_texts([answer], lemmatize)
    text = index_text(answer)
    found = [
        bool(score_gold_strings_in_answer([ways], answer_text, known)[1])
        or bool(find_answer_and_missing_parts(ways[0], text).found)
        for ways in references
    ]
    if not all(found):
        return "A" if any(found) else "D"
    return "B" if len(answer.split()) > len(format_gold_answer(gold).split()) else "C"


GRADES_WORST_FIRST = ("F", "D", "A", "E", "C", "B")
"""Grades, the worst first, as shown to people."""


def list_fanoutqa_judged_parts(row: Mapping[str, Any]) -> Iterator[AnswerPartWithJudgeVerdict]:
    """Yield the gradable part of a row of `fanoutqa_answers`; nothing if there was no judge, or if it failed."""
    if row["grade"] or row["judge_unscored"] == "judge_unreadable":
        yield AnswerPartWithJudgeVerdict(
            "", row["question"], format_gold_answer(json.loads(row["gold"])), row["answer_read"], row["grade"]
        )


def make_judgeable_fanoutqa_answer(row_id: str, question: str, gold: str, answer: str) -> FanOutPrediction:
    """Return a free-standing answer as a row for a judge; `gold`: text, or JSON of a dict or list."""
    try:
        value = json.loads(gold)
    except ValueError:
        value = gold
    lists: dict[str, list[Any]] = {
        name: [] for name in ("categories", "articles", "evidence", "samples", "searches", "context")
    }
    return FanOutPrediction.model_validate(
        {
            **dict.fromkeys(("id", "question_id", "item", "cluster"), row_id),
            **dict.fromkeys(("finish", "unscored", "detail", "model", "call", "epoch", "stopped"), ""),
            **dict.fromkeys(("tokens_in", "tokens_out", "rounds"), 0),
            **lists,
            "setting": CLOSED_BOOK,
            "split": "dev",
            "kind": get_gold_dict_list_or_primitive(value),
            "question": question,
            "gold": json.dumps(value, ensure_ascii=False),
            "answer": answer,
            "answer_read": answer,
        }
    )
