"""The paper's Figure 2 from the metrics of one model or several, and its figures beside which ours stand (Tables 1, §4.5)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.measures.figures import Figure, make_series
from tasks.evaluation.record import EXACT, PaperFigure
from tasks.fanoutqa.core.evaluation.rouge import KINDS
from tasks.fanoutqa.core.evaluation.similarity import METRIC as BLEURT_LIKE
from tasks.fanoutqa.evaluation.measure import (
    ARTICLES,
    JUDGED,
    LOOSE,
    LOWER_BOUND,
    MANY,
    STRICT,
    UPSTREAM_LOOSE,
    UPSTREAM_STRICT,
)

SETTINGS = ("closed_book", "open_book", "evidence_provided")
_SHARE = (0.0, 1.0)
_WHISKERS = "Whiskers are 95 % intervals over questions."
_TITLES = {
    LOOSE: "Loose accuracy: share of the gold answer's strings that are found",
    UPSTREAM_LOOSE: "Loose accuracy as the public scorer counts",
    JUDGED: "Answers that the judge grades B, C or E",
}


def draw_figures(metrics: Sequence[EvaluationMetric]) -> list[Figure]:
    """Return what each setting comes to, ours and the paper's models side by side (Figure 2), and by number of articles."""
    drawn = [_draw_settings(metrics, metric) for metric in _TITLES]
    return [figure for figure in [*drawn, _draw_articles(metrics)] if figure.series]


def _draw_settings(metrics: Sequence[EvaluationMetric], metric: str) -> Figure:
    ours = {(each.setting, each.model): each for each in metrics if each.metric == metric and not each.group_by}
    theirs = {(each.setting, f"{each.model} (paper)"): each.value for each in PAPER if each.metric == metric}
    told = [setting for setting in SETTINGS if any(setting == place[0] for place in ours)]
    shown = tuple(dict.fromkeys(model for setting, model in [*ours, *theirs] if setting in told))
    series = []
    for setting in told:
        drawn = make_series(setting.replace("_", " "), ((model, ours.get((setting, model))) for model in shown))
        values = tuple(
            value if (setting, model) in ours else theirs.get((setting, model))
            for model, value in zip(shown, drawn.y, strict=True)
        )
        series.append(replace(drawn, y=values))
    bound = f" Ours: {LOWER_BOUND}." if metric == JUDGED and any(each.judge == EXACT for each in ours.values()) else ""
    note = f"Figure 2. {_WHISKERS} The paper's models were asked other questions.{bound}"
    return Figure(metric, _TITLES[metric], "bars", "model", metric.replace("_", " "), tuple(series), note, _SHARE)


def _draw_articles(metrics: Sequence[EvaluationMetric]) -> Figure:
    found = {
        (each.model, each.setting, each.group): each
        for each in metrics
        if each.metric == LOOSE and each.group_by == "articles"
    }
    groups = (*(name for _, name in ARTICLES), MANY)
    series = []
    for model, setting in dict.fromkeys((model, setting) for model, setting, _ in found):
        points = ((group, found.get((model, setting, group))) for group in groups)
        series.append(make_series(f"{model}, {setting.replace('_', ' ')}", points))
    title = "Loose accuracy by number of articles that a question needs"
    return Figure("articles", title, "lines", "articles", "loose", tuple(series), _WHISKERS, _SHARE)


_MODELS = ("LLaMA 2", "GPT-4", "GPT-3.5-turbo", "Mistral-7B", "Mixtral-8x7B", "GPT-4-turbo", "Claude 2.1", "people")
_METRICS = (LOOSE, STRICT, *KINDS, BLEURT_LIKE, JUDGED)
_TABLE_1: dict[str, tuple[tuple[float, ...], ...]] = {
    "closed_book": (
        (0.440, 0.058, 0.285, 0.149, 0.238, 0.441, 0.120),
        (0.355, 0.066, 0.313, 0.177, 0.267, 0.419, 0.149),
        (0.398, 0.058, 0.401, 0.227, 0.342, 0.455, 0.145),
        (0.427, 0.055, 0.260, 0.123, 0.212, 0.449, 0.102),
        (0.470, 0.081, 0.302, 0.158, 0.254, 0.466, 0.186),
        (0.460, 0.101, 0.482, 0.290, 0.409, 0.493, 0.199),
        (0.341, 0.041, 0.412, 0.208, 0.344, 0.426, 0.110),
        (),
    ),
    "open_book": (
        (0.390, 0.064, 0.157, 0.075, 0.131, 0.443, 0.108),
        (0.315, 0.057, 0.208, 0.106, 0.183, 0.427, 0.164),
        (0.155, 0.032, 0.114, 0.051, 0.099, 0.338, 0.076),
        (),
        (0.396, 0.055, 0.173, 0.078, 0.147, 0.449, 0.148),
        (0.470, 0.109, 0.356, 0.207, 0.314, 0.487, 0.262),
        (0.471, 0.086, 0.295, 0.157, 0.253, 0.485, 0.218),
        (0.685, 0.289, 0.344, 0.210, 0.307, 0.413, 0.452),
    ),
    "evidence_provided": (
        (0.514, 0.077, 0.376, 0.206, 0.304, 0.472, 0.162),
        (0.546, 0.144, 0.500, 0.301, 0.413, 0.530, 0.304),
        (0.517, 0.102, 0.455, 0.252, 0.358, 0.497, 0.243),
        (0.540, 0.088, 0.330, 0.172, 0.264, 0.475, 0.202),
        (0.576, 0.135, 0.409, 0.231, 0.343, 0.509, 0.283),
        (0.628, 0.192, 0.614, 0.395, 0.523, 0.581, 0.413),
        (0.653, 0.215, 0.423, 0.262, 0.354, 0.508, 0.470),
        (),
    ),
}
"""Setting → figures of each model, in the order of _METRICS; empty: it was not measured so."""
UPPER_BOUND = 0.847
"""Share of people's answers that is right by hand (§4.5)."""
_QUESTIONS = "the paper's questions are the test part of its own data"
_NOTES = {
    LOOSE: f"{_QUESTIONS}; its scorer is `upstream`",
    STRICT: f"{_QUESTIONS}; its scorer is `upstream`",
    BLEURT_LIKE: f"{_QUESTIONS}; its model is BLEURT-20",
    JUDGED: f"{_QUESTIONS}; its judge is gpt-4-0613",
}
_UPSTREAM = {LOOSE: UPSTREAM_LOOSE, STRICT: UPSTREAM_STRICT}


def _list_paper() -> Iterator[PaperFigure]:
    for setting, models in _TABLE_1.items():
        for model, values in zip(_MODELS, models, strict=True):
            for metric, value in zip(_METRICS, values, strict=False):
                yield _tell(metric, setting, model, value, "Table 1")
                if metric in _UPSTREAM:
                    yield _tell(_UPSTREAM[metric], setting, model, value, "Table 1")
    for metric in (LOOSE, UPSTREAM_LOOSE, JUDGED):
        yield _tell(metric, "open_book", "people, marked by hand", UPPER_BOUND, "§4.5")


def _tell(metric: str, setting: str, model: str, value: float, where: str) -> PaperFigure:
    note = _NOTES.get(metric, _QUESTIONS)
    return PaperFigure(metric=metric, setting=setting, model=model, value=value, where=where, note=note)


PAPER = tuple(_list_paper())
"""Every model of Table 1, and people: as they were scored, and as they were marked by hand."""
