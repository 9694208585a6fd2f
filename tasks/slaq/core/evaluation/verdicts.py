"""Read a judge's verdicts, and compute SLAQ's measures from them (paper §3.1, equations 1 to 4; Table A.4).

A verdict is 1 (right) or 0 (wrong). A judge may think aloud first; its last verdict counts. Another value, or a list of
other than five, makes the reply Unreadable: no score is guessed.

Matrices have topics as rows and as columns the five facts, in the order of the long question: 1.0 right, 0.0 wrong, NaN
without a verdict. A value that depends on a NaN cell is NaN: a pair with an unknown half may be aligned or not, and a
run that reaches back to an unknown answer may be longer.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.core.evaluation.human_labels import AnswerPartWithJudgeVerdict
from factmill.tasks.slaq.core.evaluation.answers import SHORT_SETTING, SlaqPrediction
from factmill.tasks.text.reply_wrappers import fold_punctuation_and_digits

Verdicts = tuple[int, ...]
"""One for a short answer, five for a long one."""
_EXAMPLE_OF_ONE_VERDICT, _EXAMPLE_OF_FIVE_VERDICTS = "Verdict: 1", "Verdicts: 1, 0, 1, 1, 0"
SLAQ_VERDICT_FORM = CompletionFormat(
    kind="lines",
    line_head="(?:(?:final|overall|my|the) )*verdicts?",
    separator="[:=]",
    strips_quotes=True,
    last_verdict_counts=True,
)
"""`Verdict: 1`, or `Verdicts: 1, 0, 1, 1, 0`."""
_VERDICT_LINE_PATTERN = re.compile(
    r"^(?:(?:final|overall|my|the) )*verdicts?[ \t]*[:=](.*)$", re.IGNORECASE | re.MULTILINE
)
_EXPLAINED_VERDICT_PATTERN = re.compile(
    r"(?P<verdict>[01])\s*\((?:(?P<right>correct|right|true|yes)|incorrect|wrong|false|no|not (?:correct|right|true))\)[\s.]*",
    re.IGNORECASE,
)
"""One verdict with its meaning: 1 (correct)."""
_BARE_VERDICTS_PATTERN = re.compile(r"[\s,01\[\]]+")
_VERDICTS = re.compile(r"\[?\s*[01](?:\s*,\s*[01])*\s*\]?[\s.]*")


def read_verdicts(text: str, expected: int) -> Verdicts | UnreadableCompletion:
    """Read the verdicts of a judge's reply in the order of the facts; Unreadable unless there are `expected`."""
    form = _EXAMPLE_OF_ONE_VERDICT if expected == 1 else _EXAMPLE_OF_FIVE_VERDICTS
    plain = fold_punctuation_and_digits(unicodedata.normalize("NFKC", text))
    found = _VERDICT_LINE_PATTERN.findall(plain) or ([plain] if _BARE_VERDICTS_PATTERN.fullmatch(plain) else [])
    if not found:
        return UnreadableCompletion(f'there is no line of the form "{form}"')
    verdict_text = found[-1].strip()
    meant = _EXPLAINED_VERDICT_PATTERN.fullmatch(verdict_text)
    if meant and (meant["verdict"] == "1") == bool(meant["right"]):
        verdict_text = meant["verdict"]
    if not _VERDICTS.fullmatch(verdict_text):
        expected_form = f'expected 1 or 0 in a line of the form "{form}"'
        return UnreadableCompletion(f"the last verdict is {verdict_text[:40]!r}, {expected_form}")
    verdicts = tuple(map(int, re.findall("[01]", verdict_text)))
    if len(verdicts) != expected:
        return UnreadableCompletion(f'verdicts in the last line: {len(verdicts)}, expected {expected}: "{form}"')
    return verdicts


SLAQ_VERDICT_MEANINGS = {
    "1": "right: it says the same as the gold answer in any words, or is an equally right answer to the question",
    "0": "wrong: it says something else, leaves the fact out, or does not choose one of several",
}
"""Verdict → its meaning, as shown to people who label answers."""


def list_slaq_judged_parts(row: Mapping[str, Any]) -> Iterator[AnswerPartWithJudgeVerdict]:
    """Yield the verdicts of a row of `slaq_answers`, one for each fact; none if no judge was asked, or it failed."""
    if row["unscored"] not in ("", "judge_unreadable"):
        return
    verdicts = row["verdicts"] or [""] * len(row["golds"])
    for number, (question, gold, verdict) in enumerate(zip(row["questions"], row["golds"], verdicts, strict=True), 1):
        part = str(number) if len(verdicts) > 1 else ""
        yield AnswerPartWithJudgeVerdict(part, question, gold, row["answer_read"], str(verdict))


def make_judgeable_slaq_answer(row_id: str, question: str, gold: str, answer: str) -> SlaqPrediction:
    """Return a user's own short question and answer as a row that a judge can take."""
    ids = dict.fromkeys(("id", "question_id", "item", "cluster"), row_id)
    blank = dict.fromkeys(("topic", "category", "finish", "unscored", "detail", "model", "call"), "")
    texts = {"question": question, "gold": gold, "answer": answer, "answer_read": answer}
    lists = {"questions": [question], "golds": [gold], "fact_types": ["none"], "samples": []}
    rest = {"setting": SHORT_SETTING, "half": "most", "position": 1, "tokens_in": 0, "tokens_out": 0}
    return SlaqPrediction.model_validate({**ids, **blank, **texts, **lists, **rest})


VerdictMatrix = NDArray[np.float64]


def compute_alignment(short: VerdictMatrix, long: VerdictMatrix) -> VerdictMatrix:
    """Return 1.0 where the short and the long answer are both right or both wrong, else 0.0 (equations 1 and 3)."""
    return np.where(np.isnan(short) | np.isnan(long), np.nan, short == long)


def compute_signed_alignment(short: VerdictMatrix, long: VerdictMatrix) -> VerdictMatrix:
    """Return +1.0 where both are right, -1.0 where both are wrong, 0.0 where they differ (equation 4)."""
    return short + long - 1


def count_consecutive_verdicts_before_each(verdicts: VerdictMatrix, verdict: float) -> VerdictMatrix:
    """Count the consecutive answers just before each one that have the verdict `verdict` (momentum, Figures 3b and 3c).

    Runs are exact: 2 means two and no third before them. The paper counts so: with "at least" both of its curves would
    begin at one figure, but they begin at 30 and 45 %. The first answer has none before it: NaN.
    """
    runs = np.full(verdicts.shape, np.nan)
    run = np.zeros(len(verdicts))
    for at in range(1, verdicts.shape[1]):
        before = verdicts[:, at - 1]
        run = np.where(np.isnan(before), np.nan, np.where(before == verdict, run + 1, 0))
        runs[:, at] = run
    return runs
