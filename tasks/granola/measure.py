"""What is drawn of GRANOLA's metrics (paper Figures 5 to 8, 11, Table 3), and how they move with τ and λ."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.counting import divide
from tasks.core.measures.figures import Figure, Series
from tasks.core.measures.metrics import Metric
from tasks.granola.core.metrics import CELLS, OUTCOMES, Floats, match_levels, weigh_levels
from tasks.granola.core.scoring import SIMILARITY

TAUS = (0.3, 0.4, 0.5, 0.6, 0.8)
DECAYS = (0.0, 0.25, 0.5, 1.0)
_SELECTIVE = "Answers that say IDK are in no accuracy here (§5.1)."
_ACCURACIES = (("standard", "selective_accuracy"), ("GRANOLA", "selective_granola_accuracy"))

_ByKey = dict[tuple[str, str, str, str], Metric]


def draw_figures(metrics: Sequence[Metric]) -> Iterator[Figure]:
    """Yield the figures of an evaluation's metrics."""
    by = {(each.setting, each.metric, each.group_by, each.group): each for each in metrics}
    settings = list(dict.fromkeys(each.setting for each in metrics))
    yield Figure(
        name="standard_and_granola_accuracy",
        title="Standard and GRANOLA accuracy",
        kind="scatter",
        x_label="selective accuracy (level 1 alone)",
        y_label="selective GRANOLA accuracy (any level)",
        series=_scatter(by, settings, "selective_accuracy", "selective_granola_accuracy"),
        note=f"Figure 5 of the paper. How far a point lies above x = y is what coarser answers add. {_SELECTIVE}",
        y_range=(0, 1),
    )
    yield Figure(
        name="accuracy_and_informativeness",
        title="GRANOLA accuracy and informativeness",
        kind="scatter",
        x_label="informativeness",
        y_label="selective GRANOLA accuracy",
        series=_scatter(by, settings, "informativeness", "selective_granola_accuracy"),
        note="Figure 7 of the paper. Answers that say IDK are not in the accuracy; their informativeness is 0.",
        y_range=(0, 1),
    )
    yield Figure(
        name="matched_levels",
        title="Levels that answers match",
        kind="stacked",
        x_label="setting",
        y_label="share of answers",
        series=tuple(
            _line(name.replace("_", " "), ((setting, by[setting, f"share_{name}", "", ""]) for setting in settings))
            for name in OUTCOMES
        ),
        note="Figure 8 of the paper. Level 1 is the finest.",
        y_range=(0, 1),
    )
    for setting in settings:
        yield _draw_popularity(by, setting)
    if compared := [setting for setting in settings if (setting, SIMILARITY, "", "") in by]:
        yield _draw_agreement(by, compared)


def table_sensitivity(answers: pa.Table, tau: float, decay: float) -> list[dict[str, Any]]:
    """Return how a setting's results move with τ and with λ, the other as the evaluation has it: a row each.

    `answers`: a table of GranolaAnswer. Answers that are not scored are left out.
    """
    rows = []
    for setting in answers["setting"].unique().to_pylist():
        of_setting = answers.filter(pc.equal(answers["setting"], setting))
        scored = of_setting.filter(of_setting["matched_level"].is_valid())
        level_f1 = _spread(scored["level_f1"].to_pylist())
        level_f1[np.array(scored["is_idk"].to_pylist(), bool)] = 0
        tried = [(each, decay) for each in sorted({*TAUS, tau})] + [
            (tau, each) for each in sorted({*DECAYS, decay} - {decay})
        ]
        rows += [{"setting": setting, **_try(level_f1, *each)} for each in tried]
    return rows


def _try(level_f1: Floats, tau: float, decay: float) -> dict[str, float | int | None]:
    levels, n = match_levels(level_f1, tau), len(level_f1)
    told = {"accuracy": levels == 1, "granola_accuracy": levels > 0, "informativeness": weigh_levels(levels, decay)}
    return {"tau": tau, "lambda": decay, "n": n, **{name: divide(float(of.sum()), n, 4) for name, of in told.items()}}


def _spread(lists: Sequence[Sequence[float]]) -> Floats:
    """Return lists of unequal length as the rows of one array, filled up with 0."""
    spread = np.zeros((len(lists), max(map(len, lists), default=0)))
    for row, values in zip(spread, lists, strict=True):
        row[: len(values)] = values
    return spread


def _draw_popularity(by: _ByKey, setting: str) -> Figure:
    bins = sorted({group for of, _, group_by, group in by if (of, group_by) == (setting, "popularity")})
    keys = {name: (setting, metric, "popularity") for name, metric in _ACCURACIES}
    return Figure(
        name=f"accuracy_by_popularity_{setting}",
        title=f"Accuracy by popularity, {setting}",
        kind="lines",
        x_label="page views of the question's entity in twelve months",
        y_label="selective accuracy",
        series=tuple(
            _line(name, ((group, by[*key, group]) for group in bins if (*key, group) in by))
            for name, key in keys.items()
        ),
        note=f"Figures 6 and 11 of the paper. Bins of equal size, the rarest first. {_SELECTIVE}",
        y_range=(0, 1),
    )


def _draw_agreement(by: _ByKey, settings: Sequence[str]) -> Figure:
    cells = [cell for cell in CELLS if any((setting, SIMILARITY, "agreement", cell) in by for setting in settings)]
    return Figure(
        name="similarity_by_agreement",
        title="Semantic similarity to the gold answer, by the accuracies' agreement",
        kind="bars",
        x_label="which accuracy calls the answer right",
        y_label="mean cosine",
        series=tuple(
            _line(
                setting,
                (
                    (cell.replace("_", " "), by[setting, SIMILARITY, "agreement", cell])
                    for cell in cells
                    if (setting, SIMILARITY, "agreement", cell) in by
                ),
            )
            for setting in settings
        ),
        note="Table 3 of the paper, which uses BLEURT. Right by the standard alone: none, by definition.",
    )


def _scatter(by: _ByKey, settings: Sequence[str], x: str, y: str) -> tuple[Series, ...]:
    points = ((setting, by[setting, x, "", ""].value, by[setting, y, "", ""]) for setting in settings)
    return tuple(_line(setting, [(at, metric)]) for setting, at, metric in points if at is not None)


def _line(label: str, points: Iterable[tuple[str | float, Metric]]) -> Series:
    told = list(points)
    return Series(
        label,
        tuple(x for x, _ in told),
        tuple(metric.value for _, metric in told),
        tuple(metric.ci_low for _, metric in told),
        tuple(metric.ci_high for _, metric in told),
    )
