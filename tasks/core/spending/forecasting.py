"""Forecast a build's calls, tokens, cost and time from the calls of some of its rows (a pilot), or of an earlier build.

Not all calls grow with the rows: a corpus is counted once, and a call that several rows share is sent once, so each further
row adds fewer new calls. The growth of each kind of calls is the mean of two estimates from the observed rows. Heaps' law:
the numbers of distinct calls of half of the rows and of all rows give a power of the rows by which the number keeps
growing, 1 if each row has its own calls, 0 if all rows share them; it is too high if the possible calls are exhausted.
Chao's estimator: the numbers of calls needed by exactly one and exactly two rows give a lower bound of the calls not yet
seen, and when they would occur; it is too low.

Calls are bundled into requests: if there were few, more of them need hardly more requests, until all requests are full.

The size of all rows is known before any call (a question's paths, else characters). If the observed rows are smaller than
average, larger ones get more weight and smaller ones less, so that both total number and total size are right
(calibration: Deville and Särndal 1992, Journal of the American Statistical Association 87).

Intervals come from a bootstrap over rows of the amounts that size does not explain, reduced by the share of rows that were
observed, whose amounts are known. They allow for skewed amounts, such as token counts.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

_HALF_SAMPLES = 20
_FORECAST_DRAWS = 1_000
_TAIL_PERCENTILES = (5.0, 95.0)
_NORMAL_TAIL_SD = 1.645
"""5 % tail of the normal distribution, in standard deviations."""
_FULL_LEVERAGE = 1 - 1e-9
"""Leverage from which a row alone determines the regression on size at its point."""
_RELATIVE_TOLERANCE = 1e-9
"""Relative tolerance within which amounts count as equal."""
_FEW_BOOTSTRAP_ROWS = 8
"""Number of rows below which a draw too often consists of a single row."""
FORECAST_AMOUNTS = ("calls", "requests", "tokens_in", "tokens_out", "usd")


@dataclass(frozen=True, slots=True)
class ObservedCallOfRow:
    """A call that an observed row depends on."""

    stage: str
    row: str
    key: str
    service: str
    operation: str
    model: str
    """Model of a chat; empty for other calls."""
    requests: float
    """Requests sent for the call, or that would be sent."""
    tokens_in: float
    tokens_out: float
    usd: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class ObservedStage:
    """An observed stage of the pilot or of the earlier build."""

    name: str
    rows_in: int
    scale: float
    """Rows of the whole build per observed row."""
    seconds: float
    batches: float = 1.0
    """Batches of the whole build per observed batch."""
    expanded_rows: Mapping[str, int] = field(default_factory=dict)
    """Pilot row → number of rows of this stage that were expanded from it."""


@dataclass(frozen=True, slots=True)
class StageOperationForecast:
    """Forecast calls of a stage of the whole build to one service."""

    stage: str
    service: str
    operation: str
    model: str
    growth: float
    """Power of the rows by which its calls grow."""
    calls: float
    requests: float
    tokens_in: float
    tokens_out: float
    usd: float
    latency_s: float
    """Mean latency of a call."""


@dataclass(frozen=True, slots=True)
class StageForecast:
    """Forecast for a stage of the whole build."""

    stage: str
    rows: float
    hours: float
    asked: tuple[StageOperationForecast, ...]


@dataclass(frozen=True, slots=True)
class BuildForecast:
    """Forecast for the whole build."""

    stages: tuple[StageForecast, ...]
    total: Mapping[str, float]
    """Amount (AMOUNTS, `model_requests`, `hours`) → number."""
    low: Mapping[str, float]
    high: Mapping[str, float]
    """Ends of the 90 % intervals of the extrapolated amounts."""

    def to_rounded_json(self) -> dict[str, Any]:
        """Return the forecast as JSON data, rounded."""
        return round_json_numbers_to_six_places(asdict(self))


def round_json_numbers_to_six_places(data: Any) -> Any:
    """Round all numbers in JSON data to six decimal places."""
    if isinstance(data, dict):
        return {name: round_json_numbers_to_six_places(each) for name, each in data.items()}
    if isinstance(data, list | tuple):
        return [round_json_numbers_to_six_places(each) for each in data]
    return round(data, 6) if isinstance(data, float) else data


def make_build_forecast(
    stages: Sequence[ObservedStage],
    uses: Sequence[ObservedCallOfRow],
    rows: Mapping[str, float],
    parallel_requests: Mapping[str, float],
    max_bundled: Mapping[str, int],
    get_draw_unit: Callable[[str], str] = str,
    gaps_s: Mapping[str, float] = MappingProxyType({}),
) -> BuildForecast:
    """Forecast the whole build.

    `rows`: id of each observed row of scaled stages, with and without calls → its size, as a multiple of the mean of all rows.
    `parallel_requests`: service → concurrent requests; `max_bundled`: service → maximum calls per request; `gaps_s`: service → seconds
    between the starts of two requests, if it has a rate limit.
    `get_draw_unit`: row → its sampling unit: calls shared by rows of one unit do not indicate that other rows share them.
    """
    scales = {stage.name: stage.scale for stage in stages}
    scaled = next((stage.scale for stage in stages if stage.scale != 1.0), 1.0)
    weights = dict(zip(rows, calibrate_row_weights_to_total_size(list(rows.values()), scaled).tolist(), strict=True))
    batches = {stage.name: stage.batches for stage in stages}
    first: dict[str, str] = {}
    for use in uses:
        first.setdefault(use.key, use.stage)
    kinds: dict[tuple[str, str, str, str], list[ObservedCallOfRow]] = defaultdict(list)
    for use in uses:
        if first[use.key] == use.stage:  # responses to an earlier stage's calls are cached
            kinds[use.stage, use.service, use.operation, use.model].append(use)
    volumes, times = [], {}
    for kind, found in sorted(kinds.items()):
        scale = scales.get(kind[0], 1.0)
        growth = _estimate_call_growth_exponent(found, rows, scale, get_draw_unit) if scale != 1.0 else 1.0
        times[kind] = _estimate_calls_each_call_represents(found, weights if scale != 1.0 else {}, growth)
        volume = _make_stage_operation_forecast(kind, found, growth, times[kind])
        bundled = estimate_bundled_requests(found, volume.calls, batches.get(kind[0], 1.0), max_bundled.get(kind[1], 1))
        volumes.append(replace(volume, requests=min(volume.requests, bundled)))
    scaled_stages = (replace(stage, scale=_compute_expanded_stage_scale(stage, weights)) for stage in stages)
    forecasts = tuple(_forecast_stage(stage, volumes, kinds, parallel_requests, gaps_s) for stage in scaled_stages)
    total = {name: sum(getattr(each, name) for each in volumes) for name in FORECAST_AMOUNTS}
    total["model_requests"] = sum(each.requests for each in volumes if each.model)
    total["hours"] = sum(each.hours for each in forecasts)
    low, high = _compute_forecast_intervals_by_amount(kinds, volumes, times, scales, rows, weights)
    return BuildForecast(forecasts, total, low, high)


def calibrate_row_weights_to_total_size(sizes: Sequence[float], full_rows_per_observed_row: float) -> np.ndarray:
    """Return the weight of each row: `scale` on average, such that the weighted total size is that of all rows, if sizes vary.

    `sizes`: as multiples of the mean of all rows. Weights are at least 1.
    """
    seen = np.asarray(sizes, dtype=float)
    off = seen - seen.mean() if len(seen) else seen
    if full_rows_per_observed_row <= 1.0 or not (squares := float((off * off).sum())):
        return np.full(len(seen), full_rows_per_observed_row)
    others = np.maximum(0.0, full_rows_per_observed_row * (1 + (1 - seen.mean()) * len(seen) / squares * off) - 1)
    return 1 + others * (full_rows_per_observed_row - 1) * len(seen) / others.sum()


def _compute_expanded_stage_scale(stage: ObservedStage, weights: Mapping[str, float]) -> float:
    """Return a stage's scale, weighted by the pilot rows that its rows were expanded from."""
    if stage.scale == 1.0 or not stage.expanded_rows:
        return stage.scale
    return sum(count * weights[row] for row, count in stage.expanded_rows.items()) / sum(stage.expanded_rows.values())


def _estimate_calls_each_call_represents(
    uses: Sequence[ObservedCallOfRow], weights: Mapping[str, float], growth: float
) -> dict[str, float]:
    """Return call → number of calls of the whole build that it represents, by the weights of its rows (default 1)."""
    users: dict[str, list[float]] = defaultdict(list)
    for use in uses:
        users[use.key].append(weights.get(use.row, 1.0))
    return {key: float((sum(found) / len(found)) ** growth) for key, found in users.items()}


def _make_stage_operation_forecast(
    kind: tuple[str, str, str, str], uses: Sequence[ObservedCallOfRow], growth: float, times: Mapping[str, float]
) -> StageOperationForecast:
    calls = {use.key: use for use in uses}
    sums = {name: sum(times[key] * getattr(use, name) for key, use in calls.items()) for name in FORECAST_AMOUNTS[1:]}
    latency_s = sum(use.latency_s for use in calls.values()) / len(calls)
    return StageOperationForecast(
        *kind, growth=round(growth, 3), calls=sum(times.values()), latency_s=latency_s, **sums
    )


def estimate_bundled_requests(
    uses: Sequence[ObservedCallOfRow], calls: float, batches: float, max_bundled: int
) -> float:
    """Return the requests for `calls` bundled calls: the observed requests times `batches`, or more if requests would exceed
    `most` calls. Infinite if calls are sent one by one."""
    asked = {use.key: use.requests for use in uses}
    were = sum(asked.values())
    return max(were * batches, calls / max_bundled) if max_bundled > 1 and were < len(asked) else math.inf


def _estimate_call_growth_exponent(
    uses: Sequence[ObservedCallOfRow], rows: Iterable[str], scale: float, unit: Callable[[str], str]
) -> float:
    """Return the exponent, from 0 to 1, by which the number of distinct calls grows with the rows."""
    users: dict[str, set[str]] = defaultdict(set)
    for use in uses:
        users[use.key].add(unit(use.row))
    if all(len(found) == 1 for found in users.values()):
        return 1.0
    random, known, counts = Random(0), sorted({unit(row) for row in (*rows, *(use.row for use in uses))}), []
    for _ in range(_HALF_SAMPLES):
        half = set(random.sample(known, len(known) // 2))
        counts.append(sum(not half.isdisjoint(found) for found in users.values()))
    mean = sum(counts) / _HALF_SAMPLES
    share = (len(known) // 2) / len(known)
    if not mean or not share:
        return 1.0
    heaps = min(1.0, max(0.0, math.log(mean / len(users)) / math.log(share)))
    if scale < 1.0:
        return heaps
    times = estimate_distinct_things([len(found) for found in users.values()], len(known), scale) / len(users)
    return (heaps + min(1.0, math.log(times) / math.log(scale))) / 2


def estimate_distinct_things(row_counts: Sequence[int], rows: int, full_rows_per_observed_row: float) -> float:
    """Return a lower bound of the distinct things needed by `scale` times the rows; `wanted_by`: for each thing the number of
    rows that need it.

    Chao et al. 2014, Ecological Monographs 84, equation 12 (incidences).
    """
    once, twice = row_counts.count(1), row_counts.count(2)
    unmet = (rows - 1) / rows * (once**2 / (2 * twice) if twice else once * (once - 1) / 2)
    if not unmet:
        return float(len(row_counts))
    return len(row_counts) + unmet * (
        1 - (1 - once / (rows * unmet + once)) ** (rows * (full_rows_per_observed_row - 1))
    )


def _forecast_stage(
    stage: ObservedStage,
    volumes: Sequence[StageOperationForecast],
    kinds: Mapping[tuple[str, str, str, str], Sequence[ObservedCallOfRow]],
    parallel: Mapping[str, float],
    gaps_s: Mapping[str, float],
) -> StageForecast:
    """Forecast a stage; its time is that of its slowest service, plus its other time scaled by the rows."""
    asked = tuple(each for each in volumes if each.stage == stage.name)
    waits, waited = defaultdict[str, float](float), defaultdict[str, float](float)
    for each in asked:
        calls = {use.key for use in kinds[each.stage, each.service, each.operation, each.model]}
        one_s = max(each.latency_s / parallel.get(each.service, 1), gaps_s.get(each.service, 0.0))
        # the latency of a bundled call is that of its bundle
        per_call = min(1.0, each.requests / each.calls) if each.calls else 1.0
        waits[each.service] += each.calls * per_call * one_s
        waited[each.service] += len(calls) * per_call * one_s
    beside_s = max(0.0, stage.seconds - max(waited.values(), default=0.0)) * stage.scale
    hours = (max(waits.values(), default=0.0) + beside_s) / 3600
    return StageForecast(stage.name, stage.rows_in * stage.scale, hours, asked)


def _compute_forecast_intervals_by_amount(
    kinds: Mapping[tuple[str, str, str, str], Sequence[ObservedCallOfRow]],
    volumes: Sequence[StageOperationForecast],
    times: Mapping[tuple[str, str, str, str], Mapping[str, float]],
    scales: Mapping[str, float],
    rows: Mapping[str, float],
    weights: Mapping[str, float],
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the lower and upper ends of the intervals, by a bootstrap over the observed rows."""
    places = {row: at for at, row in enumerate(rows)}
    table = np.zeros((len(places), len(FORECAST_AMOUNTS) + 1))
    fixed = np.zeros(len(FORECAST_AMOUNTS) + 1)
    most = 1.0
    for volume in volumes:
        kind = (volume.stage, volume.service, volume.operation, volume.model)
        scale = scales.get(volume.stage, 1.0)
        if scale == 1.0:
            amounts = [getattr(volume, name) for name in FORECAST_AMOUNTS] + [volume.requests if volume.model else 0.0]
            fixed += np.array(amounts)
            continue
        most = max(most, scale)
        users = Counter(use.key for use in kinds[kind])
        calls = {use.key: use for use in kinds[kind]}
        bundled = volume.requests / max(1e-9, sum(times[kind][key] * use.requests for key, use in calls.items()))
        for use in kinds[kind]:
            sent = use.requests * bundled
            each = [1.0, sent, use.tokens_in, use.tokens_out, use.usd, sent if use.model else 0.0]
            table[places[use.row]] += np.array(each) * times[kind][use.key] / users[use.key]
    names = (*FORECAST_AMOUNTS, "model_requests")
    if not places:
        return dict(zip(names, fixed.tolist(), strict=True)), dict(zip(names, fixed.tolist(), strict=True))
    count = len(places)
    untold = _compute_leave_one_out_residuals(
        table, np.array(list(rows.values())), np.array([weights[row] for row in rows])
    )
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), _FORECAST_DRAWS)
    known = math.sqrt(max(0.0, 1 - 1 / most)) if most > 1 else 1.0
    offs = [
        bootstrap_sum_interval_offsets(untold[:, at], draws, is_positive=bool((table[:, at] > 0).all()))
        for at in range(len(names))
    ]
    middle = fixed + table.sum(axis=0)
    ends = [middle + known * np.array(off) for off in zip(*offs, strict=True)]
    low, high = (dict(zip(names, np.maximum(end, 0.0).tolist(), strict=True)) for end in ends)
    return low, high


def bootstrap_sum_interval_offsets(amounts: np.ndarray, draws: np.ndarray, *, is_positive: bool) -> tuple[float, float]:
    """Return the offsets of a 90 % interval, below and above the sum of rows' amounts, for the expected sum of as many rows.

    `draws`: multiplicity of each row in each bootstrap draw (draws × rows). `is_positive`: all amounts are positive, so they
    may be log-normal, like token counts. Combines the bootstrap-t interval (Efron 1981), which handles skewed amounts better
    than percentiles of the draws, and Cox's interval for log-normal amounts (Zhou and Gao 1997, Statistics in Medicine 16),
    whose large values a small sample lacks; the outer ends of both count.
    """
    count, spread = len(amounts), float(amounts.std())
    widening = 1 + (_NORMAL_TAIL_SD**2 + 1) / (
        4 * max(1, count - 2)
    )  # Student's t: few rows tell little of how far rows differ
    if spread <= _RELATIVE_TOLERANCE * float(np.abs(amounts).max()):
        return 0.0, 0.0
    means = draws @ amounts / count
    if count < _FEW_BOOTSTRAP_ROWS:
        low, high = count * (np.percentile(means, _TAIL_PERCENTILES) - amounts.mean())
        return float(widening * low), float(widening * high)
    spreads = np.sqrt(np.maximum(draws @ amounts**2 / count - means**2, 0.0))
    is_drawn = spreads > _RELATIVE_TOLERANCE * spread
    high, low = (
        -spread * count * np.percentile((means - amounts.mean())[is_drawn] / spreads[is_drawn], _TAIL_PERCENTILES)
    )
    least, middle, most = np.percentile(amounts, (0, 50, 100))
    skew = least + most - 2 * middle
    if is_positive and skew > _RELATIVE_TOLERANCE * spread and middle > least:
        begin = (least * most - middle**2) / skew  # where a log-normal distribution with these three begins
        logs = np.log(amounts - begin)
        variance = float(logs.var(ddof=1))
        off = _NORMAL_TAIL_SD * widening * math.sqrt(variance / count + variance**2 / (2 * (count - 1)))
        rest = float((amounts - begin).sum())
        low, high = min(low, rest * math.expm1(-off)), max(high, rest * math.expm1(off))
    return float(widening * low), float(widening * high)


def _compute_leave_one_out_residuals(table: np.ndarray, sizes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted residuals of each row's amounts from a linear regression on size through the other rows."""
    each = table / weights[:, None]
    off = sizes - sizes.mean()
    squares = float((off * off).sum()) if len(sizes) > 2 else 0.0
    fitted, pull = each.mean(axis=0), np.full(len(sizes), 1 / len(sizes))
    if squares:
        fitted, pull = fitted + np.outer(off, off @ each / squares), pull + off * off / squares
    # a row that alone determines the line has no residual
    return (each - fitted) * weights[:, None] / np.where(pull < _FULL_LEVERAGE, 1 - pull, 1.0)[:, None]


def count_characters_of_row_as_text(row: Mapping[str, Any]) -> int:
    """Return the default size of a row: the characters of its text form."""
    return len(str(row))


def select_pilot_rows(
    parts: Sequence[Sequence[str]],
    balanced_halves: Sequence[str],
    sizes: Sequence[int],
    ids: Sequence[str],
    row_count: int,
) -> list[int]:
    """Return the positions of a representative sample of rows: every n-th row, ordered by part, then by size.

    Sizes in the sample are distributed as in all rows, since calls mostly depend on size; the order alternates between
    ascending and descending. Equal numbers of rows are drawn from the `sides` of a part (halves that are balanced later).
    `ids` break ties.
    """
    by_side: dict[tuple[str, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at in sorted(range(len(ids)), key=lambda at: (sizes[at], ids[at])):
        by_side[tuple(parts[at])][balanced_halves[at]].append(at)
    units: list[list[int]] = []
    for turn, (_, found) in enumerate(sorted(by_side.items())):
        of_part = [
            [at for at in together if at is not None]
            for together in zip_longest(*(found[side] for side in sorted(found)))
        ]
        units += reversed(of_part) if turn % 2 else of_part
    count = max(1, min(len(units), round(row_count * len(units) / max(1, len(ids)))))
    return sorted(at for draw in range(count) for at in units[int((draw + 0.5) * len(units) / count)]) if units else []
