"""Figures of GRANOLA's metrics for one or several models (paper Figures 5 to 8 and 11, Table 3)."""

from collections.abc import Iterator, Mapping, Sequence

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.bins import UNKNOWN
from factmill.tasks.core.measures.figures import Figure, make_series
from factmill.tasks.granola.core.evaluation.scoring import CELLS, OUTCOMES, SIMILARITY

_SELECTIVE = "Answers that say IDK are in no accuracy here (§5.1)."
_ACCURACIES = {"standard": "selective_accuracy", "GRANOLA": "selective_granola_accuracy"}

Key = tuple[str, str, str, str, str]
_By = Mapping[Key, EvaluationMetric]
_Runs = Mapping[tuple[str, str], str]
"""(model, setting) → its label in figures."""


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Return all figures of the metrics."""
    by = {(each.model, each.setting, each.metric, each.group_by, each.group): each for each in metrics}
    several = len({each.model for each in metrics}) > 1
    runs = {
        (each.model, each.setting): f"{each.model}, {each.setting}" if several else each.setting for each in metrics
    }
    return [
        _scatter(
            by,
            runs,
            "standard_and_granola_accuracy",
            "Standard and GRANOLA accuracy",
            ("selective_accuracy", "selective accuracy, level 1 alone"),
            f"Figure 5 of the paper. How far a point lies above x = y is what coarser answers add. {_SELECTIVE}",
        ),
        _scatter(
            by,
            runs,
            "accuracy_and_informativeness",
            "GRANOLA accuracy and informativeness",
            ("informativeness", "informativeness"),
            "Figure 7 of the paper. Answers that say IDK are not in the accuracy; their informativeness is 0.",
        ),
        _stack_outcomes(by, runs),
        *(_draw_popularity(by, run, name) for run, name in runs.items()),
        *_draw_agreement(by, runs),
    ]


def _scatter(by: _By, runs: _Runs, name: str, title: str, across: tuple[str, str], note: str) -> Figure:
    metric, label = across
    points = (
        (told, by.get((*run, metric, "", "")), by.get((*run, _ACCURACIES["GRANOLA"], "", "")))
        for run, told in runs.items()
    )
    return Figure(
        name=name,
        title=title,
        kind="scatter",
        x_label=label,
        y_label="selective GRANOLA accuracy, any level",
        series=tuple(make_series(told, [(x.value, y)]) for told, x, y in points if x and y and x.value is not None),
        note=note,
        y_range=(0, 1),
    )


def _stack_outcomes(by: _By, runs: _Runs) -> Figure:
    return Figure(
        name="matched_levels",
        title="Levels that answers match",
        kind="stacked",
        x_label="setting",
        y_label="share of answers",
        series=tuple(
            make_series(
                outcome.replace("_", " "),
                _find(by, {told: (*run, f"share_{outcome}", "", "") for run, told in runs.items()}),
            )
            for outcome in OUTCOMES
        ),
        note="Figure 8 of the paper. Level 1 is the finest.",
        y_range=(0, 1),
    )


def _draw_popularity(by: _By, run: tuple[str, str], told: str) -> Figure:
    found = {key[4] for key in by if key[:2] == run and key[3] == "popularity"}
    bins = {each: each.partition(" (")[0] for each in sorted(found - {UNKNOWN})}
    ranges = "; ".join(f"{short}: {each.partition(' (')[2].rstrip(')')}" for each, short in bins.items())
    return Figure(
        name="_".join(("accuracy_by_popularity", *told.split(", "))),
        title=f"Accuracy by popularity: {told}",
        kind="lines",
        x_label="popularity of the question's entity",
        y_label="selective accuracy",
        series=tuple(
            make_series(name, _find(by, {short: (*run, metric, "popularity", each) for each, short in bins.items()}))
            for name, metric in _ACCURACIES.items()
        ),
        note=f"Figures 6 and 11 of the paper. Bins of equal size, the rarest first, by page views in twelve months ({ranges}). {_SELECTIVE}",
        y_range=(0, 1),
    )


def _draw_agreement(by: _By, runs: _Runs) -> Iterator[Figure]:
    lines = (
        make_series(told, _find(by, {cell.replace("_", " "): (*run, SIMILARITY, "agreement", cell) for cell in CELLS}))
        for run, told in runs.items()
    )
    if series := tuple(line for line in lines if line.x):
        yield Figure(
            name="similarity_by_agreement",
            title="Similarity to the gold answer, by which accuracy calls the answer right",
            kind="bars",
            x_label="right by",
            y_label="mean cosine",
            series=series,
            note="Table 3 of the paper, which takes BLEURT. No answer is right by the standard alone, by definition.",
        )


def _find(by: _By, keys: Mapping[str, Key]) -> Iterator[tuple[str, EvaluationMetric]]:
    return ((told, by[key]) for told, key in keys.items() if key in by)
