"""The paper's Tables 3 to 5 and Figures 4 and 5 from the metrics of one model or several, and its figures beside which ours stand."""

from collections.abc import Iterator, Mapping, Sequence

from tasks.biokalma.core.evaluation.geval import LEAST, MOST, RATED
from tasks.biokalma.core.evaluation.settings import ABLATED, GIVEN, REMOVED, RETRIEVED
from tasks.biokalma.evaluation.measure import (
    ALIGNMENT,
    CORRECTNESS,
    F1,
    MACRO,
    MICRO,
    NA_F1,
    NA_PRECISION,
    NA_RECALL,
    PRECISION,
    RECALL,
)
from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.measures.figures import Figure, make_series
from tasks.evaluation.record import PaperFigure

_SHARE = (0.0, 1.0)
_WHISKERS = "Whiskers are 95 % intervals over pairs of people."
_CITED = (CORRECTNESS, PRECISION, RECALL, F1)
_MARKED = (NA_PRECISION, NA_RECALL, NA_F1)
_REMOVALS = {GIVEN: "0", **{f"{REMOVED}{number}": str(number) for number in (1, 2, 3)}}
_ABLATIONS = {f"{ABLATED}{share}": str(share) for share in (100, 80, 60, 40, 20)}

Found = Mapping[tuple[str, str, str], EvaluationMetric]
"""Model, setting and metric → the metric over all answers."""


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Return citation quality and text quality a setting, and how citations and marks go with what the graphs lack."""
    found = {(each.model, each.setting, each.metric): each for each in metrics if not each.group_by}
    named = {GIVEN: "the two people's graphs given", RETRIEVED: "graphs looked up"}
    drawn = []
    for setting, told in named.items():
        cited, note = [f"{MICRO}_{each}" for each in (*_CITED, ALIGNMENT)], f"Micro figures, as in Table 3. {_WHISKERS}"
        drawn += [
            _draw_bars(found, f"citations_{setting}", f"Citations, {told}", setting, cited, note, _SHARE),
            _draw_bars(
                found, f"texts_{setting}", f"Texts, {told}", setting, RATED, f"Table 4. {_WHISKERS}", (LEAST, MOST)
            ),
        ]
    removed, right = "pieces of the minimum set that the graphs lack", "right graphs (%)"
    drawn += [
        _draw_lines(found, "removed", "Citations as knowledge is removed", _REMOVALS, _CITED, removed, "Table 5"),
        _draw_lines(found, "marks", "[NA] as knowledge is removed", _REMOVALS, _MARKED, removed, "Figure 4"),
        _draw_lines(found, "ablated", "Citations as graphs get wrong", _ABLATIONS, _CITED, right, "Figure 5"),
    ]
    return [figure for figure in drawn if figure.series]


def _draw_bars(
    found: Found,
    name: str,
    title: str,
    setting: str,
    metrics: Sequence[str],
    note: str,
    ends: tuple[float, float],
) -> Figure:
    there = [each for each in metrics if any((setting, each) == place[1:] for place in found)]
    series = [
        make_series(model, ((_shorten(each), found.get((model, setting, each))) for each in there))
        for model in dict.fromkeys(model for model, where, each in found if where == setting and each in there)
    ]
    y_label = "rating" if ends == (LEAST, MOST) else "share"
    return Figure(name, title, "bars", "metric", y_label, tuple(series), note, ends)


def _draw_lines(
    found: Found,
    name: str,
    title: str,
    settings: Mapping[str, str],
    metrics: Sequence[str],
    x_label: str,
    where: str,
) -> Figure:
    """Return a line a model and metric over the settings; none where a model was measured in one of them alone."""
    series = []
    for model in dict.fromkeys(model for model, _, _ in found):
        for metric in metrics:
            mine = {
                x: found[place]
                for setting, x in settings.items()
                if (place := (model, setting, f"{MICRO}_{metric}")) in found
            }
            if len(mine) > 1:
                series.append(make_series(f"{model}, {_shorten(metric)}", mine.items()))
    return Figure(name, title, "lines", x_label, "share", tuple(series), f"{where}, micro. {_WHISKERS}", _SHARE)


def _shorten(metric: str) -> str:
    return metric.removeprefix(f"{MICRO}_").replace("na_", "[NA] ").replace("f1", "F1")


_TABLE_3 = {
    "GPT-4 (0.5)": (92.0, 97.6, 36.0, 43.6, 39.4, 40.7, 43.9, 42.3),
    "ChatGPT (0.1)": (85.9, 96.1, 29.0, 50.8, 36.9, 32.7, 51.2, 39.9),
    "ChatGPT (0.5)": (84.5, 94.8, 29.9, 49.0, 37.2, 34.1, 49.4, 40.4),
    "ChatGPT (0.9)": (84.1, 94.2, 28.7, 49.0, 36.2, 32.5, 49.4, 39.2),
    "Alpaca-7B": (46.9, 78.9, 14.9, 19.4, 16.8, 19.8, 19.9, 19.8),
    "LLaMA-7B": (47.8, 70.2, 7.7, 41.1, 13.0, 11.0, 41.4, 17.4),
    "LLaMA-13B": (62.1, 71.7, 10.5, 43.7, 16.9, 13.8, 43.5, 20.9),
    "Vicuna-13B": (66.9, 59.0, 14.9, 16.8, 15.8, 15.1, 17.0, 16.0),
}
"""Alignment, then correctness, precision, recall and F1 (micro), then precision, recall and F1 (macro); %."""
_TABLE_4 = {
    "GPT-4 (0.5)": (4.48, 4.89, 4.64, 4.72),
    "ChatGPT (0.1)": (4.57, 4.94, 4.69, 4.83),
    "ChatGPT (0.5)": (4.57, 4.94, 4.71, 4.81),
    "ChatGPT (0.9)": (4.52, 4.91, 4.67, 4.79),
    "Alpaca-7B": (4.10, 4.46, 4.23, 3.76),
    "LLaMA-7B": (3.06, 3.79, 3.62, 2.96),
    "LLaMA-13B": (3.60, 4.23, 3.94, 3.56),
    "Vicuna-13B": (3.67, 4.50, 3.96, 3.64),
}
_TABLE_5 = {
    GIVEN: (95.5, 30.1, 57.1, 39.4),
    f"{REMOVED}1": (94.1, 26.1, 42.5, 32.3),
    f"{REMOVED}2": (94.0, 21.0, 31.4, 25.2),
    f"{REMOVED}3": (93.9, 16.3, 20.4, 18.1),
}
_TABLE_7 = {"GPT-4 (0.5)": (90.9, 97.6, 30.8, 42.1, 35.6), "ChatGPT (0.5)": (82.7, 94.5, 25.2, 47.4, 32.9)}
_TABLE_7_TEXTS = {"GPT-4 (0.5)": (4.38, 4.77, 4.48, 4.48), "ChatGPT (0.5)": (4.64, 4.89, 4.45, 4.70)}
"""Of general questions; those of specific ones stand in Tables 3 and 4."""
_OTHERS = "other pairs of people, other models, and a Wikidata of 2023; its citations were read by a simpler rule"
_ALIGNED = f"{_OTHERS}; alignment by an 11B model of entailment"
_RATED = f"{_OTHERS}; rated by text-davinci-003, on 100 answers a model, an unreadable rating counting as 3"
_MICROS = tuple(f"{MICRO}_{each}" for each in (ALIGNMENT, *_CITED))
_MACROS = tuple(f"{MACRO}_{each}" for each in (PRECISION, RECALL, F1))


def _list_paper() -> Iterator[PaperFigure]:
    yield from _tell(_TABLE_3, (*_MICROS, *_MACROS), "Table 3", "specific", _ALIGNED)
    yield from _tell(_TABLE_4, RATED, "Table 4", "specific", _RATED)
    yield from _tell(_TABLE_7, _MICROS, "Table 7", "general", _ALIGNED)
    yield from _tell(_TABLE_7_TEXTS, RATED, "Table 7", "general", _RATED)
    for setting, values in _TABLE_5.items():
        yield from _tell({"ChatGPT": values}, _MICROS[1:], "Table 5", "specific", _OTHERS, setting)
    for share, recall in ((100, 57.1), (80, 42.5)):
        yield from _tell(
            {"ChatGPT (0.5)": (recall,)}, [f"{MICRO}_{RECALL}"], "§5.3", "specific", _OTHERS, f"{ABLATED}{share}"
        )


def _tell(
    values: Mapping[str, Sequence[float]],
    metrics: Sequence[str],
    where: str,
    form: str,
    note: str,
    setting: str = RETRIEVED,
) -> Iterator[PaperFigure]:
    """Yield the figures of a table, shares of 1."""
    for model, row in values.items():
        for metric, value in zip(metrics, row, strict=True):
            share = value if metric in RATED else round(value / 100, 3)
            yield PaperFigure(metric, setting, model, share, where, note, "form", form)


PAPER = tuple(_list_paper())
"""Tables 3 to 5 and 7, and what §5.3 tells of Figure 5 in numbers; Figure 4's are not told."""
