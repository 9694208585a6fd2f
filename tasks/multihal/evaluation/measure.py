"""What an evaluation on MultiHal says of a model: semantic scores, what a path adds to them, and whether the judge's scores of paths foretell it (paper §3, Figure 3, Tables 4 and 8)."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.evaluation.scoring import Floats, gather_scores, score_rows
from tasks.core.measures.correlation import correlate
from tasks.core.measures.figures import Figure, Series, make_series
from tasks.core.measures.metrics import Metric, measure
from tasks.evaluation.record import Item, PaperFigure
from tasks.multihal.evaluation.ask import PAIRED

SCORE, DEVIATION, DELTA, RANKS = (
    "semantic_score",
    "semantic_score_deviation",
    "semantic_score_delta",
    "spearman_judged_score",
)
BOTH = "kg_rag - qa"
"""Under which differences of the two settings stand."""
GROUPS = ("language", "source_dataset", "domain")


def measure_multihal(answers: pa.Table, seed: int) -> tuple[pa.Table, list[Metric]]:
    """Return the rows of scores and the metrics of answers (rows of `ScoredMultiHal`)."""
    values = _floats(answers["semantic_score"])
    scores = score_rows(answers, SCORE, values)
    given = gather_scores(scores, answers, GROUPS, is_share=False, unit="cosine")
    metrics = measure(given, seed)
    metrics += [_deviation(metric, answers) for metric in metrics if metric.group_by in ("", "language")]
    with_path = answers.filter(pc.equal(answers["setting"], "kg_rag"))
    if with_path.num_rows:
        metrics += list(_rank(with_path, seed))
    if with_path.num_rows and with_path.num_rows < answers.num_rows:
        deltas = score_rows(with_path, DELTA, find_deltas(answers, with_path), BOTH)
        metrics += measure(gather_scores(deltas, with_path, GROUPS, is_share=False, unit="cosine"), seed)
        scores = pa.concat_tables([scores, deltas])
    for option, kind in ((option, kind) for option, kinds in PAIRED.items() for kind in kinds):
        if pc.any(pc.not_equal(answers[f"{option}_model"], "")).as_py():
            more = score_rows(answers, kind, _floats(answers[kind]))
            metrics += measure(gather_scores(more, answers, GROUPS, is_share=False, unit="probability"), seed)
            scores = pa.concat_tables([scores, more])
    return scores, metrics


def find_deltas(answers: pa.Table, with_path: pa.Table) -> Floats:
    """Return what each path adds to the score of its question asked alone; NaN where one of the two is unscored."""
    alone = answers.filter(pc.equal(answers["setting"], "qa"))
    keys = zip(alone["cluster"].to_pylist(), alone["language"].to_pylist(), strict=True)
    known = dict(zip(keys, _floats(alone["semantic_score"]), strict=True))
    asked = zip(with_path["cluster"].to_pylist(), with_path["language"].to_pylist(), strict=True)
    before = np.array([known.get(key, np.nan) for key in asked])
    return np.round(_floats(with_path["semantic_score"]) - before, 2)


def _deviation(metric: Metric, answers: pa.Table) -> Metric:
    """Return the standard deviation beside a mean (n − 1 below; Figure 3)."""
    chosen = pc.equal(answers["setting"], metric.setting)
    if metric.group_by:
        chosen = pc.and_(chosen, pc.equal(answers[metric.group_by], metric.group))
    values = _floats(answers.filter(chosen)["semantic_score"])
    kept = values[~np.isnan(values)]
    value = round(float(np.std(kept, ddof=1)), 6) if len(kept) > 1 else None
    note = "" if value is not None else "fewer than two scores"
    none = dict.fromkeys(("bound_low", "bound_high", "ci_low", "ci_high"))
    return metric.model_copy(update={"metric": DEVIATION, "value": value, "interval": "", "note": note, **none})


def _rank(with_path: pa.Table, seed: int) -> Iterator[Metric]:
    """Yield Spearman's correlation of the judge's score of a path with the semantic score of the answer given it (§3.2)."""
    places = [("", "", with_path)]
    for group_by in ("language", "source_dataset"):
        names = sorted(pc.unique(with_path[group_by]).to_pylist())
        places += [(group_by, name, with_path.filter(pc.equal(with_path[group_by], name))) for name in names]
    for group_by, group, rows in places:
        judged, given = _floats(rows["judged_score"]), _floats(rows["semantic_score"])
        found = correlate(judged, given, rows["cluster"].to_pylist(), seed)
        asked = found.n + found.n_unscored
        yield Metric(
            setting="kg_rag",
            metric=RANKS,
            group_by=group_by,
            group=group,
            value=found.rho,
            n=found.n,
            n_unscored=found.n_unscored,
            coverage=round(found.n / asked, 6) if asked else None,
            bound_low=None,
            bound_high=None,
            ci_low=found.ci_low,
            ci_high=found.ci_high,
            interval="bootstrap" if found.ci_low is not None else "",
            clusters=found.clusters,
            unit="rho",
            note=found.note.replace("second score", "semantic score").replace("first score", "score by the judge"),
        )


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Return Figure 3, and what a path adds, by language and by foundation."""
    return [
        *_draw_bars(metrics),
        *_draw_deltas(metrics, "language", "What a path adds, by language"),
        *_draw_deltas(metrics, "source_dataset", "What a path adds, by foundation"),
    ]


def _draw_bars(metrics: Sequence[EvaluationMetric]) -> Iterator[Figure]:
    means = {_place(each): each for each in metrics if each.metric == SCORE and each.group_by == "language"}
    spread = {_place(each): each.value for each in metrics if each.metric == DEVIATION}
    series = []
    for model, setting in sorted({(model, setting) for model, setting, _ in means}):
        mine = {group: means[model, setting, group] for _, _, group in means if (model, setting, group) in means}
        values = tuple(each.value for each in mine.values())
        sds = [spread.get((model, setting, group)) or 0.0 for group in mine]
        ends = [None if value is None else (value - sd, value + sd) for value, sd in zip(values, sds, strict=True)]
        series.append(
            Series(
                f"{model}, {setting}",
                tuple(mine),
                values,
                tuple(end and end[0] for end in ends),
                tuple(end and end[1] for end in ends),
            )
        )
    if series:
        note = "Whiskers are one standard deviation to either side, as in the paper's Figure 3; intervals of the means stand in the table."
        yield Figure(
            "semantic_score",
            "Semantic score, by language",
            "bars",
            "language",
            "semantic score (cosine)",
            tuple(series),
            note,
        )


def _draw_deltas(metrics: Sequence[EvaluationMetric], group_by: str, title: str) -> Iterator[Figure]:
    found = [each for each in metrics if each.metric == DELTA and each.group_by == group_by]
    series = []
    for model in sorted({each.model for each in found}):
        series.append(make_series(model, ((each.group, each) for each in found if each.model == model)))
    if series:
        note = "Semantic score with a path less that of the same question asked alone; whiskers are 95 % intervals over questions."
        yield Figure(
            f"delta_{group_by}", title, "bars", group_by.replace("_", " "), "difference (cosine)", tuple(series), note
        )


def _place(metric: EvaluationMetric) -> tuple[str, str, str]:
    return metric.model, metric.setting, metric.group


def list_items(answers: pa.Table) -> list[Item]:
    """Return the answers (rows of `ScoredMultiHal`) as a report's browser tells them."""
    return [
        Item(
            answer_id=each["id"],
            setting=each["setting"],
            question=each["question"] + (f"\nPath: {each['path']}" if each["path"] else ""),
            gold=" | ".join(each["accepted"]),
            answer=each["answer"],
            verdict=f"unscored: {each['unscored']}"
            if each["semantic_score"] is None
            else f"{each['semantic_score']:.2f}",
            score=each["semantic_score"],
            row_id=each["item"],
            groups={name: each[name] for name in GROUPS},
        )
        for each in answers.to_pylist()
    ]


_MODELS = ("Gemini 2.0 Flash", "GPT 4o-Mini", "Llama-3.3-70b-instruct")
_TABLE_8 = {
    "eng": ((0.51, 0.83), (0.43, 0.61), (0.44, 0.80)),
    "deu": ((0.55, 0.70), (0.42, 0.56), (0.43, 0.61)),
    "fra": ((0.44, 0.62), (0.34, 0.44), (0.37, 0.52)),
    "ita": ((0.51, 0.77), (0.37, 0.50), (0.42, 0.61)),
    "spa": ((0.53, 0.72), (0.53, 0.72), (0.39, 0.51)),
    "por": ((0.50, 0.79), (0.41, 0.55), (0.42, 0.61)),
}
"""Language → QA and KG-RAG of each model."""
PAPER = tuple(
    PaperFigure(
        metric=SCORE,
        setting=setting,
        model=model,
        value=value,
        where="Table 8",
        note="the paper's rows, translator and encoder (paraphrase-multilingual-MiniLM-L12-v2) are others",
        group_by="language",
        group=language,
    )
    for language, models in _TABLE_8.items()
    for model, pair in zip(_MODELS, models, strict=True)
    for setting, value in zip(("qa", "kg_rag"), pair, strict=True)
)
