"""What an evaluation on FanOutQA says of a model: string accuracy, ROUGE, a judge's grades (paper §4.1, Appendix D).

String accuracy is that of the scorer chosen; what the other one gives stands beside where it differs.
"""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.evaluation.scoring import Floats, gather_scores, score_rows
from tasks.core.measures.metrics import Metric, measure
from tasks.evaluation.record import EXACT, Item
from tasks.fanoutqa.core.evaluation.rouge import KINDS
from tasks.fanoutqa.core.evaluation.scoring import COUNTED_WRONG
from tasks.fanoutqa.core.evaluation.similarity import METRIC as BLEURT_LIKE
from tasks.fanoutqa.core.evaluation.strings.golds import write_gold
from tasks.fanoutqa.core.evaluation.strings.matching import Scorer
from tasks.fanoutqa.core.evaluation.verdicts import RIGHT

LOOSE, STRICT, UPSTREAM_LOOSE, UPSTREAM_STRICT = "loose", "strict", "upstream_loose", "upstream_strict"
JUDGED = "judged"
UNITS = {
    LOOSE: "share of strings",
    UPSTREAM_LOOSE: "share of strings",
    BLEURT_LIKE: "score",
    **dict.fromkeys(KINDS, "F1"),
}
"""Of what is not right or wrong."""
GROUPS = ("split", "category", "articles", "kind")
LOWER_BOUND = "judged by a program: a lower bound"
ARTICLES = ((5, "5 or fewer"), (6, "6"), (9, "7 to 9"))
"""Most articles that a question needs → how its group is called; beyond, MANY."""
MANY = "10 or more"


def measure_fanoutqa(answers: pa.Table, seed: int, scorer: Scorer = "fixed") -> tuple[pa.Table, list[Metric]]:
    """Return the rows of scores and the metrics of answers (rows of `ScoredFanOut`)."""
    groups = list_groups(answers)
    scores = [(name, *_score(answers, name)) for name in _list_shown(answers, scorer)]
    found = [
        each
        for name, rows, is_share in scores
        for each in gather_scores(rows, groups, GROUPS, is_share=is_share, unit="share" if is_share else UNITS[name])
    ]
    notes = _list_notes(answers)
    metrics = [_add_note(metric, notes.get(metric.metric, "")) for metric in measure(found, seed)]
    return pa.concat_tables([rows for _, rows, _ in scores]), metrics


def _list_shown(answers: pa.Table, scorer: Scorer) -> list[str]:
    """Return the metrics that there are, in the order in which they are told."""
    fixed, upstream = (LOOSE, STRICT), (UPSTREAM_LOOSE, UPSTREAM_STRICT)
    chosen, other = (fixed, upstream) if scorer == "fixed" else (upstream, fixed)
    differs = any(
        not np.array_equal(_floats(answers[mine]), _floats(answers[theirs]), equal_nan=True)
        for mine, theirs in zip(chosen, other, strict=True)
    )
    shown = [*chosen, *(other if differs else ()), *KINDS]
    shown += [JUDGED] if pc.any(pc.not_equal(answers["judge"], "")).as_py() else []
    return shown + ([BLEURT_LIKE] if answers[BLEURT_LIKE].null_count < answers.num_rows else [])


def _score(answers: pa.Table, name: str) -> tuple[pa.Table, bool]:
    """Return the rows of `Score` of one metric, and whether each is right or wrong."""
    if name != JUDGED:
        return score_rows(answers, name, _floats(answers[name])), name in (STRICT, UPSTREAM_STRICT)
    own = pc.equal(answers["unscored"], "")
    told = answers
    for column in ("unscored", "detail"):
        why = pc.if_else(own, answers[f"judge_{column}"], answers[column])
        told = told.set_column(told.schema.get_field_index(column), column, why)
    return score_rows(told, name, find_judged(answers)), True


def find_judged(answers: pa.Table) -> Floats:
    """Return 1.0 where the grade is B, C or E, 0.0 where it is another or nothing was answered, NaN where there is none (Appendix F.3)."""
    right = pc.is_in(answers["grade"], pa.array(sorted(RIGHT)))
    nothing = pc.is_in(answers["unscored"], pa.array(sorted(COUNTED_WRONG)))
    is_graded = pc.or_(pc.not_equal(answers["grade"], ""), nothing)
    return _floats(pc.if_else(is_graded, pc.cast(right, pa.float64()), None))


def list_groups(answers: pa.Table) -> pa.Table:
    """Return what answers are grouped by: split, first category, number of articles, kind of the gold answer."""
    return pa.table(
        {
            "split": answers["split"],
            "category": pa.array([next(iter(each), None) for each in answers["categories"].to_pylist()], pa.string()),
            "articles": [name_articles(len(each)) for each in answers["articles"].to_pylist()],
            "kind": answers["kind"],
        }
    )


def name_articles(number: int) -> str:
    """Return the group of a question that needs so many articles."""
    return next((name for most, name in ARTICLES if number <= most), MANY)


def _list_notes(answers: pa.Table) -> dict[str, str]:
    """Return what must be known of metrics: whose lemmas, and whether a program judged."""
    lemmas = ", ".join(sorted(set(answers["lemmatizer"].to_pylist())))
    strings = dict.fromkeys((LOOSE, STRICT), f"lemmas: {lemmas}")
    public = dict.fromkeys((UPSTREAM_LOOSE, UPSTREAM_STRICT), f"as the public scorer counts; lemmas: {lemmas}")
    is_bound = set(answers["judge"].to_pylist()) == {EXACT}
    return {**strings, **public, **({JUDGED: LOWER_BOUND} if is_bound else {})}


def _add_note(metric: Metric, note: str) -> Metric:
    return metric.model_copy(update={"note": "; ".join(filter(None, (metric.note, note)))})


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def list_items(answers: pa.Table) -> list[Item]:
    """Return the answers (rows of `ScoredFanOut`) as a report's browser tells them."""
    groups = list_groups(answers).to_pylist()
    return [
        Item(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"],
            gold=write_gold(json.loads(each["gold"])),
            answer=each["answer"],
            verdict=describe_scores(each["loose"], each["grade"], each["unscored"] or each["judge_unscored"]),
            score=each["loose"],
            row_id=each["item"],
            groups={name: group or "" for name, group in beside.items()},
        )
        for each, beside in zip(answers.to_pylist(), groups, strict=True)
    ]


def describe_scores(loose: float | None, grade: str, unscored: str) -> str:
    """Return what an answer scored in a few words."""
    parts: Sequence[str] = (
        "" if loose is None else "says all" if loose == 1 else f"says {loose:.0%}",
        f"graded {grade}" if grade else "",
        f"unscored: {unscored}" if unscored and loose is None else unscored,
    )
    return ", ".join(filter(None, parts))
