"""The paper's Figures 2 and 3 from the metrics of one model or several, and its figures beside which ours stand."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.measures.figures import Figure, make_series
from tasks.evaluation.record import EXACT, PaperFigure
from tasks.slaq.core.evaluation.answers import LONG, SHORT
from tasks.slaq.core.replies import PAIRS
from tasks.slaq.evaluation.measure import (
    ACCURACY,
    AFTER_RIGHT,
    AFTER_WRONG,
    ALIGNMENT,
    BOTH,
    LOWER_BOUND,
    POSITION,
    SIGNED,
)

_SHARE = (0.0, 1.0)
_WHISKERS = "Whiskers are 95 % intervals over topics."
_POSITIONS = tuple(map(str, range(1, PAIRS + 1)))
_RUNS = tuple(map(str, range(PAIRS)))


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Return accuracy, alignment and signed alignment a model (Figure 2), and how a long answer goes on (Figure 3)."""
    drawn = [
        _draw_bars(metrics, "accuracy", "Accuracy of short and of long answers", (SHORT, LONG), ACCURACY, "2a"),
        _draw_bars(metrics, "alignment", "Alignment: both answers right, or both wrong", (BOTH,), ALIGNMENT, "2b"),
        _draw_bars(
            metrics, "signed_alignment", "Signed alignment: +1 both right, −1 both wrong", (BOTH,), SIGNED, "2c"
        ),
        _draw_lines(
            metrics,
            "position",
            "Accuracy by place of the fact in the long question",
            (LONG, SHORT),
            POSITION,
            "Figure 3a. The short answers to the same questions show how hard these are by themselves.",
        ),
        _draw_lines(
            metrics,
            "momentum_right",
            "Accuracy after right answers",
            (LONG,),
            AFTER_RIGHT,
            "Figure 3b. 0: the answer before was wrong. The first answer, with none before it, is left out.",
        ),
        _draw_lines(
            metrics,
            "momentum_wrong",
            "Accuracy after wrong answers",
            (LONG,),
            AFTER_WRONG,
            "Figure 3c. 0: the answer before was right. The first answer, with none before it, is left out.",
        ),
    ]
    bound = f" {LOWER_BOUND.capitalize()}." if any(each.judge == EXACT for each in metrics) else ""
    return [
        replace(figure, note=f"{figure.note}{bound}") if figure.y_label == ACCURACY else figure
        for figure in drawn
        if figure.series
    ]


def _draw_bars(
    metrics: Sequence[EvaluationMetric], name: str, title: str, settings: Sequence[str], metric: str, panel: str
) -> Figure:
    found = {(each.setting, each.model): each for each in metrics if each.metric == metric and not each.group_by}
    models = tuple(dict.fromkeys(model for _, model in found))
    series = [
        make_series(setting, ((model, found.get((setting, model))) for model in models))
        for setting in settings
        if any((setting, model) in found for model in models)
    ]
    y_range = (-1.0, 1.0) if metric == SIGNED else _SHARE
    note = f"Figure {panel}. {_WHISKERS}"
    return Figure(name, title, "bars", "model", metric.replace("_", " "), tuple(series), note, y_range)


def _draw_lines(
    metrics: Sequence[EvaluationMetric], name: str, title: str, settings: Sequence[str], group_by: str, note: str
) -> Figure:
    found = {
        (each.model, each.setting, each.group): each
        for each in metrics
        if each.metric == ACCURACY and each.group_by == group_by
    }
    models = tuple(dict.fromkeys(model for model, _, _ in found))
    places = _POSITIONS if group_by == POSITION else _RUNS
    series = [
        make_series(
            f"{model}, {setting}" if len(settings) > 1 else model,
            ((place, found.get((model, setting, place))) for place in places),
        )
        for model in models
        for setting in settings
        if any((model, setting, place) in found for place in places)
    ]
    x_label = "position in the long question" if group_by == POSITION else "answers in a row before"
    return Figure(name, title, "lines", x_label, "accuracy", tuple(series), f"{note} {_WHISKERS}", _SHARE)


def _list_paper() -> Iterator[PaperFigure]:
    told = {
        ("Figure 3a", POSITION): {"1": 0.513, "5": 0.301},
        ("Figure 3b", AFTER_RIGHT): {"0": 0.30, "4": 0.57},
        ("Figure 3c", AFTER_WRONG): {"0": 0.45, "3": 0.24},
    }
    for (where, group_by), values in told.items():
        for group, value in values.items():
            yield PaperFigure(
                metric=ACCURACY,
                setting=LONG,
                model="16 models, 1B to 12B",
                value=value,
                where=where,
                note="the paper's topics, models and judge (Gemini 2.5 Flash) are others",
                group_by=group_by,
                group=group,
            )


PAPER = tuple(_list_paper())
"""What §4.2 tells in numbers of the models together."""
