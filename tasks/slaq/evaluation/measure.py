"""What an evaluation on SLAQ says of a model: accuracy short and long, whether they agree, and how a long answer goes on (paper §3.1, §4.2).

Verdicts become two matrices, topics × five facts (core/evaluation/metrics.py); intervals draw topics whole, since a topic's facts are
asked about together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.core.evaluation.rows import Score
from tasks.core.measures.metrics import Metric, Scores, measure
from tasks.core.rows import arrow_schema
from tasks.evaluation.record import EXACT, Item
from tasks.slaq.core.evaluation.answers import LONG, SHORT
from tasks.slaq.core.evaluation.metrics import Matrix, align, count_run, sign_alignment
from tasks.slaq.core.replies import PAIRS

ACCURACY, ALIGNMENT, SIGNED, GAP = "accuracy", "alignment", "signed_alignment", "accuracy_gap"
BOTH = "short, long"
"""Under which what compares the two answers to one question stands."""
POSITION, AFTER_RIGHT, AFTER_WRONG = "position", "right_before", "wrong_before"
"""Place of a fact in the long question; answers in a row just before it that are right, or wrong (Figure 3)."""
LOWER_BOUND = "judged by a program: a lower bound"
GROUPS = ("category", "half", "answer_kind", "fact_type")


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """Those of one setting; topics × facts."""

    values: Matrix
    reasons: np.ndarray
    """Why there is none, as reason and detail on two lines; None where nothing was asked."""


def measure_slaq(answers: pa.Table, seed: int) -> tuple[pa.Table, list[Metric]]:
    """Return the rows of scores and the metrics of answers (rows of `JudgedSlaq`)."""
    rows = answers.to_pylist()
    topics = sorted({row["item"] for row in rows})
    groups = _list_groups(rows, topics)
    given = {
        setting: _read_verdicts(mine, topics)
        for setting in (SHORT, LONG)
        if (mine := [row for row in rows if row["setting"] == setting])
    }
    found = [(setting, ACCURACY, verdicts) for setting, verdicts in given.items()]
    if len(given) > 1:
        short, long = given[SHORT], given[LONG]
        reasons = np.where(np.isnan(short.values), short.reasons, long.reasons)
        reasons[~(_is_asked(short) & _is_asked(long))] = None
        found += [
            (BOTH, metric, _Verdicts(values, reasons))
            for metric, values in (
                (ALIGNMENT, align(short.values, long.values)),
                (SIGNED, sign_alignment(short.values, long.values)),
                (GAP, long.values - short.values),
            )
        ]
    scores = pa.concat_tables([_list_scores(*each, topics) for each in found])
    metrics = measure([_gather(*each, topics, groups) for each in found], seed)
    is_bound = {row["judge"] for row in rows} == {EXACT}
    return scores, [_note_bound(each) if is_bound and each.metric == ACCURACY else each for each in metrics]


def _note_bound(metric: Metric) -> Metric:
    return metric.model_copy(update={"note": "; ".join(filter(None, (metric.note, LOWER_BOUND)))})


def _read_verdicts(rows: Sequence[Mapping[str, Any]], topics: Sequence[str]) -> _Verdicts:
    at = {topic: index for index, topic in enumerate(topics)}
    values = np.full((len(topics), PAIRS), np.nan)
    reasons = np.empty((len(topics), PAIRS), object)
    for row in rows:
        first = max(row["position"] - 1, 0)
        place = at[row["item"]], slice(first, first + len(row["golds"]))
        if row["verdicts"]:
            values[place] = row["verdicts"]
        reasons[place] = f"{row['unscored']}\n{row['detail']}"
    return _Verdicts(values, reasons)


def _list_groups(rows: Sequence[Mapping[str, Any]], topics: Sequence[str]) -> dict[str, list[str | None]]:
    """Return what the facts, topic by topic, are grouped by."""
    facts = {}
    for row in rows:
        for number, kind in enumerate(row["fact_types"], row["position"] or 1):
            facts[row["item"], number] = (
                str(number),
                row["category"],
                row["half"],
                "other" if kind == "none" else "entity",
                kind,
            )
    names = (POSITION, *GROUPS)
    unasked = (None,) * len(names)
    places = [(topic, number) for topic in topics for number in range(1, PAIRS + 1)]
    return dict(zip(names, map(list, zip(*(facts.get(each, unasked) for each in places), strict=True)), strict=True))


def _gather(
    setting: str, metric: str, verdicts: _Verdicts, topics: Sequence[str], groups: Mapping[str, list[str | None]]
) -> Scores:
    if setting == LONG:
        groups = {
            **groups,
            AFTER_RIGHT: _name_runs(count_run(verdicts.values, of=1)),
            AFTER_WRONG: _name_runs(count_run(verdicts.values, of=0)),
        }
    asked = _list_asked(verdicts)
    return Scores(
        setting=setting,
        metric=metric,
        items=[f"{topics[at // PAIRS]}/{at % PAIRS + 1}" for at in asked],
        clusters=[topics[at // PAIRS] for at in asked],
        values=verdicts.values.ravel()[asked],
        groups={name: [column[at] for at in asked] for name, column in groups.items()},
        worst=-1.0 if metric in (SIGNED, GAP) else 0.0,
        unit="share" if metric in (ACCURACY, ALIGNMENT) else "",
        is_share=metric in (ACCURACY, ALIGNMENT),
    )


def _list_asked(verdicts: _Verdicts) -> list[int]:
    """Return the places of the facts that were asked for, topic by topic."""
    return np.flatnonzero(_is_asked(verdicts)).tolist()


def _is_asked(verdicts: _Verdicts) -> np.ndarray:
    asked = [reason is not None for reason in verdicts.reasons.ravel()]
    return np.array(asked, bool).reshape(verdicts.values.shape)


def _name_runs(runs: Matrix) -> list[str | None]:
    return [None if np.isnan(run) else str(int(run)) for run in runs.ravel()]


def _list_scores(setting: str, metric: str, verdicts: _Verdicts, topics: Sequence[str]) -> pa.Table:
    """Return the rows of `Score`, one a fact."""
    asked = _list_asked(verdicts)
    items = [topics[at // PAIRS] for at in asked]
    ids = [f"{topics[at // PAIRS]}/{at % PAIRS + 1}" for at in asked]
    values = verdicts.values.ravel()[asked]
    whys = [
        why.split("\n", 1) if missing else ("", "")
        for why, missing in zip(verdicts.reasons.ravel()[asked], np.isnan(values), strict=True)
    ]
    columns = {
        "id": [f"{metric}:{setting}/{each}" for each in ids],
        "question_id": ids,
        "item": items,
        "cluster": items,
        "setting": [setting] * len(ids),
        "metric": [metric] * len(ids),
        "value": pa.array(values, from_pandas=True),
        "unscored": [reason for reason, _ in whys],
        "detail": [detail for _, detail in whys],
    }
    return pa.table(columns).select(arrow_schema(Score).names).cast(arrow_schema(Score))


def list_items(answers: pa.Table) -> list[Item]:
    """Return the answers (rows of `JudgedSlaq`) as a report's browser tells them."""
    return [
        Item(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"],
            gold=each["gold"],
            answer=each["answer"],
            verdict=describe_verdicts(each["verdicts"], each["unscored"]),
            score=sum(each["verdicts"]) / len(each["verdicts"]) if each["verdicts"] else None,
            row_id=each["item"],
            groups={"category": each["category"], "half": each["half"], "fact_type": ", ".join(each["fact_types"])},
        )
        for each in answers.to_pylist()
    ]


def describe_verdicts(verdicts: Sequence[int], unscored: str) -> str:
    """Return verdicts in a few words; for a long answer how many are right and which."""
    if not verdicts:
        return f"unscored: {unscored}"
    why = f" ({unscored})" if unscored else ""
    if len(verdicts) == 1:
        return ("right" if verdicts[0] else "wrong") + why
    return f"{sum(verdicts)} of {len(verdicts)} right: {' '.join(map(str, verdicts))}{why}"
