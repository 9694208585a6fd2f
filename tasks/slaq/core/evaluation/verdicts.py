"""How a judge's verdicts are read, and what SLAQ measures on them (paper §3.1, equations 1 to 4; Table A.4).

A verdict is 1, right, or 0, wrong. A judge may think aloud before it; its last verdict counts, and one that is neither, or
a list of other than five, makes the reply Unreadable: nothing is scored by guessing.

Rows are topics, columns the five facts in the order in which the long question asks for them: 1.0 right, 0.0 wrong, NaN
where there is no verdict. What rests on a cell without a verdict is NaN itself: a pair of which one half is unknown may be
aligned or not, and a run that reaches back to an unknown answer may be longer.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from factmill.tasks.core.evaluation.labels import Part
from factmill.tasks.core.replies import Form, Unreadable
from factmill.tasks.slaq.core.evaluation.answers import SHORT, SlaqAnswer
from factmill.tasks.text.undressing import fold_wide

Verdicts = tuple[int, ...]
"""One of a short answer, five of a long one."""
_ONE, _FIVE = "Verdict: 1", "Verdicts: 1, 0, 1, 1, 0"
VERDICT_LINE = Form(
    kind="lines", head="(?:(?:final|overall|my|the) )*verdicts?", point="[:=]", quotes=True, last_counts=True
)
"""`Verdict: 1`, or `Verdicts: 1, 0, 1, 1, 0`."""
_LINE = re.compile(r"^(?:(?:final|overall|my|the) )*verdicts?[ \t]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_MEANING = re.compile(
    r"(?P<verdict>[01])\s*\((?:(?P<right>correct|right|true|yes)|incorrect|wrong|false|no|not (?:correct|right|true))\)[\s.]*",
    re.IGNORECASE,
)
"""One verdict with what it means."""
_BARE = re.compile(r"[\s,01\[\]]+")
_VERDICTS = re.compile(r"\[?\s*[01](?:\s*,\s*[01])*\s*\]?[\s.]*")


def read_verdicts(text: str, expected: int) -> Verdicts | Unreadable:
    """Return the verdicts of a judge's reply, so many as expected, in the order of the facts."""
    form = _ONE if expected == 1 else _FIVE
    plain = fold_wide(unicodedata.normalize("NFKC", text))
    found = _LINE.findall(plain) or ([plain] if _BARE.fullmatch(plain) else [])
    if not found:
        return Unreadable(f'there is no line of the form "{form}"')
    said = found[-1].strip()
    if (meant := _MEANING.fullmatch(said)) and (meant["verdict"] == "1") == bool(meant["right"]):
        said = meant["verdict"]
    if not _VERDICTS.fullmatch(said):
        return Unreadable(f'the last verdict is {said[:40]!r}, expected 1 or 0 in a line of the form "{form}"')
    verdicts = tuple(map(int, re.findall("[01]", said)))
    if len(verdicts) != expected:
        return Unreadable(f'verdicts in the last line: {len(verdicts)}, expected {expected}: "{form}"')
    return verdicts


MEANINGS = {
    "1": "right: it says what the gold answer says, in whatever words, or what is as right an answer to the question",
    "0": "wrong: it says something else, leaves it out, or leaves open which of several is meant",
}
"""What a verdict says, as people who give one are told."""


def list_parts(row: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the verdicts of a row of `slaq_answers`, a fact each; none where no judge was asked, or failed."""
    if row["unscored"] not in ("", "judge_unreadable"):
        return
    verdicts = row["verdicts"] or [""] * len(row["golds"])
    for number, (question, gold, verdict) in enumerate(zip(row["questions"], row["golds"], verdicts, strict=True), 1):
        part = str(number) if len(verdicts) > 1 else ""
        yield Part(part, question, gold, row["answer_read"], str(verdict))


def pose_answer(row_id: str, question: str, gold: str, answer: str) -> SlaqAnswer:
    """Return an answer to a short question of somebody's own, as a judge takes it."""
    ids = dict.fromkeys(("id", "question_id", "item", "cluster"), row_id)
    blank = dict.fromkeys(("topic", "category", "finish", "unscored", "detail", "model", "call"), "")
    texts = {"question": question, "gold": gold, "answer": answer, "answer_read": answer}
    lists = {"questions": [question], "golds": [gold], "fact_types": ["none"], "samples": []}
    rest = {"setting": SHORT, "half": "most", "position": 1, "tokens_in": 0, "tokens_out": 0}
    return SlaqAnswer.model_validate({**ids, **blank, **texts, **lists, **rest})


Matrix = NDArray[np.float64]


def align(short: Matrix, long: Matrix) -> Matrix:
    """Return 1.0 where the short and the long answer are both right or both wrong, else 0.0 (equations 1 and 3)."""
    return np.where(np.isnan(short) | np.isnan(long), np.nan, short == long)


def sign_alignment(short: Matrix, long: Matrix) -> Matrix:
    """Return +1.0 where both are right, -1.0 where both are wrong, 0.0 where they differ (equation 4)."""
    return short + long - 1


def count_run(verdicts: Matrix, of: float) -> Matrix:
    """Return how many answers in a row, just before each one, have the verdict `of` (momentum, Figures 3b and 3c).

    The run is counted whole: 2 means two and no third before them. That is the paper's way: with "at least" both of its
    curves would begin at one figure, and they begin at 30 and 45 %. The first answer has none before it: NaN.
    """
    runs = np.full(verdicts.shape, np.nan)
    run = np.zeros(len(verdicts))
    for at in range(1, verdicts.shape[1]):
        before = verdicts[:, at - 1]
        run = np.where(np.isnan(before), np.nan, np.where(before == of, run + 1, 0))
        runs[:, at] = run
    return runs
