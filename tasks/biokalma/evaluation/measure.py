"""What an evaluation on BioKaLMA says of a model: its citations, whether sentences bear them out, its [NA] marks, its texts (paper §4, §5).

Micro figures are over all citations, or pieces, of all answers; macro ones are means of the answers' own. An answer has no
precision, correctness or alignment where it cites nothing, no [NA] precision where it marks nothing, and no [NA] figure where
its graphs lack nothing: it is then in neither mean. Its recall stands: who says nothing, or refuses, cites nothing and finds
nothing, so recall is 0, as is F1. Other answers that are missing are unscored. F1 is made of precision and recall, micro of
micro, macro of macro (§4.2).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.biokalma.core.evaluation.alignment import LEXICAL
from tasks.biokalma.core.evaluation.geval import LEAST, MOST, RATED
from tasks.biokalma.core.evaluation.settings import RETRIEVED
from tasks.core.evaluation.scoring import Floats, gather_scores, score_rows
from tasks.core.measures.metrics import Metric, measure
from tasks.core.measures.ratios import Part, Ratios, measure_ratios
from tasks.evaluation.record import EvaluationParams, Item

MICRO, MACRO = "micro", "macro"
CORRECTNESS, PRECISION, RECALL, F1 = "correctness", "precision", "recall", "f1"
ALIGNMENT, NA_PRECISION, NA_RECALL, NA_F1 = "alignment", "na_precision", "na_recall", "na_f1"
LOOSE, MALFORMED, RETRIEVAL = "loose_correctness", "malformed", "retrieval_accuracy"
SHARES = {
    CORRECTNESS: (("correct",), "cited"),
    PRECISION: (("needed",), "cited"),
    RECALL: (("found",), "minimum"),
    ALIGNMENT: (("aligned",), "triples"),
    NA_PRECISION: (("marked_right",), "marked"),
    NA_RECALL: (("removed_found",), "removed"),
    LOOSE: (("correct", "near"), "cited"),
    MALFORMED: (("malformed",), "cited"),
}
"""Metric → the counts above the line (their sum) and below it (CitationScore)."""
MEANS = {F1: (PRECISION, RECALL), NA_F1: (NA_PRECISION, NA_RECALL)}
_BY_SCORER = frozenset({CORRECTNESS, PRECISION, RECALL, F1})
"""Metrics that the public script counts in its own way."""
_MARKS = frozenset({NA_PRECISION, NA_RECALL, NA_F1})
_BY_ALIGNER = _MARKS | {ALIGNMENT}
HEADLINE = (
    *(f"{MICRO}_{each}" for each in (CORRECTNESS, PRECISION, RECALL, F1)),
    *(f"{MACRO}_{each}" for each in (PRECISION, RECALL, F1)),
    *(f"{MICRO}_{each}" for each in (ALIGNMENT, NA_PRECISION, NA_RECALL)),
    *RATED,
    RETRIEVAL,
)
GROUPS = ("form", "relation", "pieces", "lacking")
"""Which question; the relation that joins the two people; how many pieces the minimum set has, and how many of them the graphs lack."""
COUNTED = ("", "no_answer", "refused")
"""Answers that are scored: what says nothing, or will not, cites nothing."""
_SHARE, _RATING = "share", f"rating {LEAST} to {MOST}"
RULE = "aligned by a lexical rule, no model"
UPSTREAM = "counted as the public script does"


@dataclass(frozen=True, slots=True)
class _Counts:
    """Of the answers of one setting."""

    answers: pa.Table
    parts: dict[str, Part]
    """Metric → counts above and below the line, one entry an answer."""

    def average(self, metric: str) -> Part:
        """Return each answer's own ratio over 1: what macro figures are made of."""
        part = self.parts[metric]
        with np.errstate(invalid="ignore", divide="ignore"):
            own = np.where(np.isnan(part.above) | (part.below > 0), part.above / part.below, 0.0)
        return Part(own, (part.below > 0).astype(np.float64))


def measure_biokalma(answers: pa.Table, params: EvaluationParams) -> tuple[pa.Table, list[Metric]]:
    """Return the rows of scores and the metrics of answers (rows of `ScoredBio`)."""
    answers = _add_groups(answers)
    scores, metrics = [score_rows(answers[:0], RETRIEVAL, np.zeros(0))], list[Metric]()
    for setting in sorted(pc.unique(answers["setting"]).to_pylist()):
        counts = _count(answers.filter(pc.equal(answers["setting"], setting)))
        metrics += measure_ratios(list(_gather(setting, counts)), params.seed)
        scores += _list_scores(counts)
        for found, unit in (*_score_ratings(counts.answers), *_score_retrieval(counts.answers)):
            scores.append(found)
            metrics += _measure_means(found, counts.answers, unit, params.seed)
    notes = _list_notes(answers)
    return pa.concat_tables(scores), [_add_note(each, notes) for each in metrics]


def _list_notes(answers: pa.Table) -> dict[str, str]:
    """Return what is to be known of metrics, by the name without micro or macro."""
    told: dict[str, str] = {}
    if LEXICAL in pc.unique(answers["aligner"]).to_pylist():
        told |= dict.fromkeys(_BY_ALIGNER, RULE)
    if "upstream" in pc.unique(pc.struct_field(answers["counts"], "scorer")).to_pylist():
        told |= dict.fromkeys(_BY_SCORER, UPSTREAM)
    return told


def _add_note(metric: Metric, notes: Mapping[str, str]) -> Metric:
    note = notes.get(metric.metric.partition("_")[2], "")
    return metric.model_copy(update={"note": "; ".join(filter(None, (metric.note, note)))})


def _add_groups(answers: pa.Table) -> pa.Table:
    needed = pc.list_value_length(answers["minimum"]).to_numpy()
    lacking = pc.list_value_length(answers["removed"]).to_numpy()
    pieces = np.select([needed < 5, needed < 8], ["1 to 4", "5 to 7"], "8 or more")
    counted = np.where(lacking > 3, "4 or more", lacking.astype(str))
    return answers.append_column("pieces", pa.array(pieces.tolist(), pa.string())).append_column(
        "lacking", pa.array(counted.tolist(), pa.string())
    )


def _count(answers: pa.Table) -> _Counts:
    counts = answers["counts"]
    column = {
        name: _floats(pc.struct_field(counts, name)) for above, below in SHARES.values() for name in (*above, below)
    }
    missing = ~np.isin(answers["unscored"].to_numpy(zero_copy_only=False).astype(str), COUNTED)
    left_out = pc.struct_field(counts, "is_left_out").to_numpy(zero_copy_only=False).astype(bool)
    parts = {}
    for metric, (above, below) in SHARES.items():
        applies = column["removed"] > 0 if metric in _MARKS else ~left_out | (metric not in _BY_SCORER)
        top = np.where(missing, np.nan, np.sum([column[name] for name in above], axis=0))
        parts[metric] = Part(np.where(applies, top, 0.0), np.where(applies, column[below], 0.0))
    return _Counts(answers, parts)


def _gather(setting: str, counts: _Counts) -> Iterator[Ratios]:
    groups = {name: counts.answers[name].to_pylist() for name in GROUPS}
    clusters = counts.answers["cluster"].to_pylist()
    made = {metric: (metric,) for metric in SHARES} | MEANS
    for metric, of in made.items():
        for kind, parts in (
            (MICRO, [counts.parts[each] for each in of]),
            (MACRO, [counts.average(each) for each in of]),
        ):
            if metric in _MARKS and not counts.parts[NA_RECALL].below.any():
                continue
            yield Ratios(setting, f"{kind}_{metric}", clusters, parts, groups)


def _list_scores(counts: _Counts) -> list[pa.Table]:
    """Return the rows of `Score` of the answers' own shares, for the answers that have one."""
    found = []
    for metric in SHARES:
        own = counts.average(metric)
        there = np.isnan(own.above) | (own.below > 0)
        found.append(score_rows(counts.answers.filter(pa.array(there)), f"{MACRO}_{metric}", own.above[there]))
    return found


def _score_ratings(answers: pa.Table) -> Iterator[tuple[pa.Table, str]]:
    """Yield the rows of `Score` of each rating, where a judge was asked for any; the reason of none stands in `unrated`."""
    if not pc.any(pc.not_equal(answers["judge"], "")).as_py():
        return
    for name in RATED:
        told = [
            next((each.split(": ", 2)[1:] for each in unrated if each.startswith(f"{name}: ")), [unscored, detail])
            for unrated, unscored, detail in zip(
                *(answers[column].to_pylist() for column in ("unrated", "unscored", "detail")), strict=True
            )
        ]
        reasons, details = zip(*told, strict=True)
        changed = answers.drop_columns(["unscored", "detail"])
        for column, values in (("unscored", reasons), ("detail", details)):
            changed = changed.append_column(column, pa.array(values, pa.string()))
        yield score_rows(changed, name, _floats(answers[name])), _RATING


def _score_retrieval(answers: pa.Table) -> Iterator[tuple[pa.Table, str]]:
    """Yield the rows of `Score` of retrieval: the share of the two people whose graphs were found (§5.3)."""
    found = answers.filter(pc.equal(answers["setting"], RETRIEVED))
    if found.num_rows:
        pairs = zip(found["people"].to_pylist(), found["retrieved"].to_pylist(), strict=True)
        shares = np.array([len(set(people) & set(shown)) / len(people) for people, shown in pairs])
        failed = np.array(pc.equal(found["unscored"], "lookup_failed").to_pylist(), bool)
        yield score_rows(found, RETRIEVAL, np.where(failed, np.nan, shares)), _SHARE


def _measure_means(scores: pa.Table, answers: pa.Table, unit: str, seed: int) -> list[Metric]:
    given = gather_scores(scores, answers, GROUPS, is_share=False, unit=unit)
    ends = (0.0, 1.0) if unit == _SHARE else (float(LEAST), float(MOST))
    return measure([replace(each, worst=ends[0], best=ends[1]) for each in given], seed)


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def list_items(answers: pa.Table) -> list[Item]:
    """Return the answers (rows of `ScoredBio`) as a report's browser tells them; by F1, the worst first."""
    return [
        Item(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"],
            gold="\n".join(f"{piece['qid']} {piece['property']}: {piece['value']}" for piece in each["minimum"]),
            answer=each["answer"],
            verdict=_describe(each["counts"]) if each["unscored"] in COUNTED else f"unscored: {each['unscored']}",
            score=_find_f1(each["counts"]) if each["unscored"] in COUNTED else None,
            row_id=each["item"],
            groups={"form": each["form"], "relation": each["relation"]},
        )
        for each in answers.to_pylist()
    ]


def _describe(counts: Mapping[str, int]) -> str:
    told = (
        f"{counts['correct']} of {counts['cited']} citations in the graph, {counts['needed']} needed",
        f"{counts['found']} of {counts['minimum']} pieces found",
        f"{counts['marked']} [NA], {counts['marked_right']} right" if counts["marked"] or counts["removed"] else "",
        f"{counts['malformed']} malformed" if counts["malformed"] else "",
    )
    return "; ".join(filter(None, told))


def _find_f1(counts: Mapping[str, int]) -> float:
    """Return 2PR / (P + R)."""
    if not counts["needed"]:
        return 0.0
    precision, recall = counts["needed"] / counts["cited"], counts["found"] / counts["minimum"]
    return 2 * precision * recall / (precision + recall)
