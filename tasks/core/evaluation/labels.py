"""What people say of answers that a judge marked: which are drawn for them, and what they may say.

A draw is stratified by setting and the judge's verdict, with as many items of each stratum as there are or as fit, so
that what is rare is there; each item knows its stratum's size, by which figures are weighted back. Those who label see
question, gold answer and answer: neither the model nor the judge nor its verdict, and no order or id that tells of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.fingerprints import digest_json
from tasks.core.reviewing.review_tables import write_table
from tasks.core.rows import StrictModel

COLUMNS = ("item", "question", "gold", "answer", "label", "note", "labels")
"""Columns of a file that goes out; `label` and `note` are to be filled in, `labels` says what a label may be."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing of an answer that a judge gave a verdict on."""

    part: str
    """What tells it apart within the answer: a fact's number, what is rated; empty where there is one thing."""
    question: str
    """What is asked, as whoever labels reads it."""
    gold: str
    answer: str
    """As the judge was shown it."""
    verdict: str
    """A label; empty where the judge's reply could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScheme:
    """What verdicts on the answers of an evaluation are, for people to give the same (`factmill label`, `judge-card`).

    FanOutQA's, where one answer has one grade, of which three mean that it is right:

        LabelScheme(
            asks="How does the answer compare with the gold answer?",
            classes={"A": "wrong or no answer", "B": "right, and more exact", …, "F": "right in part"},
            right=frozenset("BCE"), metric="judged",
            of=lambda row: [Part("", row["question"], row["gold"], row["answer_read"], row["grade"])] if … else [],
            prompts=(JUDGE_ANSWER,), pose=pose_answer,
        )

    BioKaLMA's has `classes={"1": "worst", …, "5": "best"}`, `is_ordinal=True`, and as many parts of an answer as are
    rated: `Part("coherence", "Is the text coherent? …", "", answer, str(row["ratings"]["coherence"]))`, …
    """

    asks: str
    """What whoever labels is asked, one line."""
    classes: Mapping[str, str]
    """Label → what it means; where they have an order, from the worst to the best."""
    of: Callable[[Mapping[str, Any]], Iterable[Part]]
    """A row of the evaluation's main table → what a judge was asked about it; nothing where no judge was asked."""
    prompts: tuple[str, ...]
    """The judge's prompts: with its name, what it is."""
    pose: Callable[[str, str, str, str], Any] | None = None
    """Id, question, gold answer and answer of somebody's own → the answer's row, as the evaluation's judging takes it;
    the judged row of that is one that `of` reads, with one part. None: judges are asked several things of an answer, so only drawn
    answers can be labelled."""
    is_ordinal: bool = False
    right: frozenset[str] = frozenset()
    """Labels that count as right; empty where labels are ratings."""
    metric: str = ""
    """Metric that is the share of answers with such a verdict: what a judge's card corrects."""


class DrawnItem(StrictModel):
    """One thing that people are asked to label, and what they are not told of it."""

    id: str
    """As the file has it; tells nothing."""
    draw: str
    evaluation: str
    """Id of the evaluation it was drawn of."""
    benchmark: str
    answer_id: str
    part: str
    setting: str
    cluster: str
    question: str
    gold: str
    answer: str
    stratum: str
    """Setting, verdict and what else was stratified by."""
    stratum_size: int
    """Judged things in it, drawn or not."""


def draw_items(
    scheme: LabelScheme,
    rows: Iterable[Mapping[str, Any]],
    evaluation: str,
    benchmark: str,
    n: int,
    seed: int,
    by: Sequence[str],
) -> list[DrawnItem]:
    """Return the items of a draw, in the order in which people get them, as many as there are up to `n`.

    `rows`: of the evaluation's main table; `by`: their columns by which is stratified beside setting and verdict. What has
    no verdict is not drawn: there is nothing to compare a label with.
    """
    draw = digest_json([evaluation, n, seed, list(by)])[:16]
    strata: dict[str, list[DrawnItem]] = {}
    for row in rows:
        for part in scheme.of(row):
            if part.verdict:
                stratum = " | ".join([row["setting"], part.verdict, *(str(row[column]) for column in by)])
                strata.setdefault(stratum, []).append(
                    DrawnItem(
                        # a letter before it, lest a spreadsheet takes it for a number
                        id=f"q{digest_json([draw, row['id'], part.part])[:12]}",
                        draw=draw,
                        evaluation=evaluation,
                        benchmark=benchmark,
                        answer_id=row["id"],
                        setting=row["setting"],
                        cluster=row["cluster"],
                        stratum=stratum,
                        stratum_size=0,
                        part=part.part,
                        question=part.question,
                        gold=part.gold,
                        answer=part.answer,
                    )
                )
    drawn: list[DrawnItem] = []
    for name, size in share_out({name: len(items) for name, items in strata.items()}, n, seed).items():
        chosen = sorted(strata[name], key=lambda item: digest_json([seed, "draw", item.id]))[:size]
        drawn += [item.model_copy(update={"stratum_size": len(strata[name])}) for item in chosen]
    return sorted(drawn, key=lambda item: digest_json([seed, "order", item.id]))


def share_out(sizes: Mapping[str, int], n: int, seed: int) -> dict[str, int]:
    """Return how many items of each stratum are drawn: alike many, what a small one lacks shared among the others."""
    shares = dict.fromkeys(sizes, 0)
    order = sorted(sizes, key=lambda name: digest_json([seed, "stratum", name]))
    left = min(n, sum(sizes.values()))
    while left:
        open_ = [name for name in order if shares[name] < sizes[name]]
        each = max(1, left // len(open_))
        for name in open_[:left]:
            more = min(each, sizes[name] - shares[name], left)
            shares[name] += more
            left -= more
    return shares


def write_labels(scheme: LabelScheme, items: Sequence[DrawnItem]) -> str:
    """Return the file that people fill in, as CSV."""
    meaning = describe_labels(scheme)
    texts = ({"question": item.question, "gold": item.gold, "answer": item.answer} for item in items)
    blank = {"label": "", "note": "", "labels": meaning}
    return write_table(COLUMNS, ({"item": item.id, **text, **blank} for item, text in zip(items, texts, strict=True)))


def describe_labels(scheme: LabelScheme) -> str:
    """Return what is asked and what a label may be, as one line."""
    return f"{scheme.asks} {'; '.join(f'{label}: {meaning}' for label, meaning in scheme.classes.items())}"


def count_strata(items: Iterable[DrawnItem]) -> dict[str, tuple[int, int]]:
    """Return stratum → items drawn of it, and its items in all, by name."""
    drawn = Counter((item.stratum, item.stratum_size) for item in items)
    return {stratum: (count, size) for (stratum, size), count in sorted(drawn.items())}
