"""Forecast the cost of a build: scale up the calls of a pilot or earlier build, at the world's prices."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.batch_receipts import PILOT_DRAW_STAGE
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.core.service_settings import (
    CHAT_MODEL_KINDS,
    SCRIPTED_MODEL_NAME,
    ModelSettings,
    ServiceLimits,
    is_wikidata_query_service,
    is_wikimedia_url_except_query_service,
)
from factmill.tasks.core.spending.costs import compute_cost_range, format_count_with_noun
from factmill.tasks.core.spending.forecasting import (
    BuildForecast,
    ObservedCallOfRow,
    ObservedStage,
    make_build_forecast,
    round_json_numbers_to_six_places,
)
from factmill.tasks.engine.batches import enlarge_batch_for_many_rows
from factmill.tasks.engine.naming.identities import make_service_identity, service_urls
from factmill.tasks.errors import UsageError
from factmill.tasks.settings import World
from factmill.tasks.storage.builds import BuildStagesAndCalls

ENGLISH_CHARACTERS_PER_TOKEN = 4
"""Approximate characters per token of English, used if no server reports usage."""

_PRICE_TOLERANCE = 1e-6
"""Relative tolerance when comparing prices."""


@dataclass(frozen=True, slots=True)
class ForecastBasis:
    """Data on which a forecast is based: a pilot or an earlier build."""

    usage: BuildStagesAndCalls
    requests: Mapping[str, Mapping[str, int]]
    """Stage → service → requests sent in its own run."""
    models: Mapping[str, str]
    """Role → name of the model used, by its manifest."""
    source_rows: int | None = None
    """Rows of the full source if the basis is an earlier build; None if it is a pilot."""
    sizes: Mapping[str, float] = field(default_factory=dict)
    """Row that a pilot drew → its size relative to the mean of all rows."""
    pilot_unit: Callable[[str], str] = str
    """Row → unit that is drawn as a whole (`Benchmark.pilot_unit`)."""


def count_rendered_prompt_characters(parts: Mapping[str, Any]) -> int:
    """Return the number of characters of a chat's messages, rendered from its recorded parts."""
    return sum(
        len(each["content"]) for each in FilledPrompt(load_prompt(parts["prompt"]), parts["variables"]).build_messages()
    )


def forecast_build(
    world: World, basis: ForecastBasis, batch_size: int
) -> tuple[BuildForecast, dict[str, float], list[str]]:
    """Return (forecast, totals of calls already recorded, notes); `batch_size`: rows per batch."""
    stages, rows_asked = _add_stage_scales_and_count_basis_rows(basis, batch_size)
    uses, notes = _price_observed_calls_with_notes(world, basis)
    scales = {stage.name: stage.scale for stage in stages}
    if not rows_asked:
        raise UsageError("no row of the basis reached a stage that calls models, so it allows no forecast")
    # a source's calls are filed under its unit (a category), which may be a prefix of its rows' ids
    owners = _map_expanded_rows_to_parent_rows(
        {*basis.sizes, *(use.row for use in uses if use.stage != stages[0].name)}
    )
    opened = sorted({(use.stage, use.row) for use in uses if owners.get(use.row, use.row) != use.row})
    uses = [replace(use, row=owners.get(use.row, use.row)) for use in uses]
    stages = [
        replace(stage, expanded_rows=Counter(owners[row] for name, row in opened if name == stage.name))
        for stage in stages
    ]
    rows = _map_rows_to_relative_sizes(
        basis, {use.row for use in uses if scales.get(use.stage, 1.0) != 1.0}, rows_asked
    )
    most_bundled = {service: limits.batch for service, limits in _map_service_limits(world).items()}
    parallel, gaps_s = _compute_service_parallelism_and_gaps(world)
    forecast = make_build_forecast(stages, uses, rows, parallel, most_bundled, basis.pilot_unit, gaps_s)
    seen = {use.key: use for use in uses}.values()
    recorded = {"calls": float(len(seen)), "usd": sum(use.usd for use in seen)}
    return forecast, recorded, notes


def _map_rows_to_relative_sizes(basis: ForecastBasis, asking_row_ids: Set[str], row_count: int) -> Mapping[str, float]:
    """Return row → size relative to the mean, for all rows asked.

    If rows have other ids than those drawn, all get size 1: of rows without a call only their number is known.
    """
    if asking_row_ids <= basis.sizes.keys():
        return basis.sizes
    return dict.fromkeys(
        [*sorted(asking_row_ids), *(f"\x00{at}" for at in range(max(0, row_count - len(asking_row_ids))))], 1.0
    )


def _map_expanded_rows_to_parent_rows(rows: Collection[str]) -> dict[str, str]:
    """Return row → the row it was expanded from (a path's question), whose id is a prefix of its own; else itself."""
    owners, last = dict[str, str](), ""
    for row in sorted(rows):
        is_opened = last and row.startswith(last) and not row[len(last)].isalnum()
        last = last if is_opened else row
        owners[row] = last
    return owners


def _add_stage_scales_and_count_basis_rows(basis: ForecastBasis, batch_size: int) -> tuple[list[ObservedStage], int]:
    """Return the stages with their scale (rows of the full build per row of the basis), and the number of rows asked."""
    stages, scale, rows = basis.usage.stages, 1.0, 0
    if basis.source_rows is not None:
        rows = stages[0]["rows_in"] if stages else 0
        scale = basis.source_rows / rows if rows else 1.0
    scaled = []
    for stage in stages:
        if stage["stage"] == PILOT_DRAW_STAGE:
            rows, scale = stage["rows_out"], stage["rows_in"] / max(1, stage["rows_out"])
            continue
        were, will_be = (_count_batches(count, batch_size) for count in (stage["rows_in"], stage["rows_in"] * scale))
        scaled.append(ObservedStage(stage["stage"], stage["rows_in"], scale, stage["seconds"], will_be / were))
    return scaled, rows


def _count_batches(rows: float, batch_size: int) -> int:
    return max(1, math.ceil(rows / enlarge_batch_for_many_rows(batch_size, math.ceil(rows))))


def _price_observed_calls_with_notes(world: World, basis: ForecastBasis) -> tuple[list[ObservedCallOfRow], list[str]]:
    sent = _compute_requests_per_call_by_stage(basis)
    uses, guessed, has_scripted, unpriced, failed = [], False, False, set[str](), set[str]()
    for call in basis.usage.calls:
        tokens_in, tokens_out, usd = float(call["tokens_in"]), float(call["tokens_out"]), call["cost_usd"]
        model = _find_model_to_price(world, basis, call)
        times = call["samples"] if model is not None and not model.choices else 1
        if call["is_failed"]:
            failed.add(call["key"])
        if call["parts"] is not None:
            guessed |= not call["is_failed"]
            tokens_in = (
                times * count_rendered_prompt_characters(json.loads(call["parts"])) / ENGLISH_CHARACTERS_PER_TOKEN
            )
            tokens_out = call["said"] / ENGLISH_CHARACTERS_PER_TOKEN
        if model is not None and (call["parts"] is not None or basis.source_rows is not None or not call["is_new"]):
            usd = _price_call(model, tokens_in, tokens_out, usd, times)
        if model is not None and not model.has_price:
            unpriced.add(model.name)
        # requests per call of its stage if known, else one per call or sample, as a model gets where replies were scripted
        requests = sent.get((call["stage"], call["service"], call["operation"]), float(times))
        if call["model"].startswith(SCRIPTED_MODEL_NAME):
            has_scripted |= model is not None
            requests = 0.0 if model is None else float(times)
        call_identity = (call["stage"], call["row"], call["key"], call["service"], call["operation"], call["model"])
        uses.append(ObservedCallOfRow(*call_identity, requests, tokens_in, tokens_out, usd, call["latency_s"]))
    notes = []
    if guessed:
        notes.append(
            f"token usage of some models is unknown: the forecast assumes {ENGLISH_CHARACTERS_PER_TOKEN} characters per token, "
            "without the reasoning tokens of models that reason"
            + ("" if basis.source_rows is None else "; a pilot (--pilot N) measures the usage")
        )
    if has_scripted:
        notes.append(
            "the basis called no model: each of its scripted replies counts as a request to a model, and the hours leave out the "
            "time that models take; a pilot (--pilot N) measures it"
        )
    known = {call["key"]: bool(call["is_new"]) for call in basis.usage.calls}
    if basis.source_rows is None and (before := list(known.values()).count(False)):
        notes.append(
            f"{before:,} of the {len(known):,} calls that the pilot's rows use were recorded before it; the forecast counts them, "
            "but the build does not send them again"
        )
    if failed:
        notes.append(
            f"{format_count_with_noun(len(failed), 'call')} of the basis failed, and the build retries them: the forecast counts only the prompt tokens of models, "
            "and each attempt of a request; check the service with `factmill doctor`"
        )
    notes += [f"the world {world.name} sets no price for the model {name}" for name in sorted(unpriced)]
    return uses, notes


def _price_call(model: ModelSettings, tokens_in: float, tokens_out: float, recorded: float, requests: float) -> float:
    """Return a call's cost at this world's prices.

    That is the recorded cost, if these prices could give it with some of the tokens cached or spent on reasoning; else all
    tokens at plain prices. `requests`: number of requests that answer the call.
    """
    share = model.batch_price if model.mode == "batch" else 1.0
    fees = (requests - 1) * model.usd_per_request
    least, most = (share * (each + fees) for each in compute_cost_range(tokens_in, tokens_out, model))
    if least * (1 - _PRICE_TOLERANCE) <= recorded <= most * (1 + _PRICE_TOLERANCE):
        return recorded
    by_tokens = tokens_in * model.usd_per_million_in + tokens_out * model.usd_per_million_out
    return share * (by_tokens / 1e6 + requests * model.usd_per_request)


def _compute_requests_per_call_by_stage(basis: ForecastBasis) -> dict[tuple[str, str, str], float]:
    """Return (stage, service, operation) → requests per call, from the requests sent to each service; empty if unknown.

    A model on this machine gets no requests. A service's requests are divided among operations by the number of requests that
    answered each: calls with equal latency came from one request. Calls already made in an earlier stage are excluded, since
    a later stage sends no request for them.
    """
    sent = defaultdict[tuple[str, str, str], dict[str, float]](dict)
    first = dict[str, str]()
    for call in basis.usage.calls if basis.requests else ():
        if first.setdefault(call["key"], call["stage"]) == call["stage"] and call["is_new"]:
            sent[call["stage"], call["service"], call["operation"]][call["key"]] = call["latency_s"]
    answered = {kind: len(set(calls.values())) for kind, calls in sent.items()}
    of_service = Counter[tuple[str, str]]()
    for (stage, service, _), requests in answered.items():
        of_service[stage, service] += requests
    return {
        (stage, service, operation): basis.requests.get(stage, {}).get(service, 0)
        * answered[stage, service, operation]
        / of_service[stage, service]
        / len(calls)
        for (stage, service, operation), calls in sent.items()
    }


def _find_model_to_price(world: World, basis: ForecastBasis, call: Mapping[str, Any]) -> ModelSettings | None:
    """Return this world's model that a chat call used, or that takes its role now; of several, the most expensive."""
    if call["operation"] != "chat":
        return None
    models = {role: model for role, model in world.models.items() if model.kind in CHAT_MODEL_KINDS}
    same = [each for each in models.values() if (each.name, each.url) == (call["model"], call["service"])]
    roles = [role for role, name in basis.models.items() if name == call["model"]]
    found = same or [models[role] for role in roles if role in models]
    return max(found, key=lambda each: (each.usd_per_million_in, each.usd_per_million_out), default=None)


def _map_service_limits(world: World) -> dict[str, ServiceLimits]:
    """Return service → limits: concurrent requests, and calls per request."""
    named = {name: getattr(world, name).limits for name in service_urls(world)}
    by_service = {make_service_identity(name, getattr(world, name).url): limits for name, limits in named.items()}
    if world.is_local("wikipedia"):
        by_service[world.open_wikipedia_file().identity] = world.wikipedia.limits
    return by_service | {model.url: model.limits for model in world.models.values() if model.url}


def _compute_service_parallelism_and_gaps(world: World) -> tuple[dict[str, float], dict[str, float]]:
    """Return service → concurrent requests, and service → seconds between starts of requests, for rate-limited services.

    A service with a limit of 60 s of work per minute has one concurrent request on average.
    """
    parallel: dict[str, float] = {service: limits.parallel for service, limits in _map_service_limits(world).items()}
    rules = world.wikimedia
    for service in filter(is_wikimedia_url_except_query_service, parallel):
        parallel[service] = min(parallel[service], rules.parallel)
    for service in filter(is_wikidata_query_service, parallel):
        parallel[service] = min(parallel[service], rules.query_parallel, rules.query_seconds_per_minute / 60)
    return parallel, dict.fromkeys(
        filter(is_wikimedia_url_except_query_service, parallel), 60 / world.wikimedia_requests_per_minute()
    )


def make_forecast_report(
    forecast: BuildForecast, recorded: Mapping[str, float], notes: Sequence[str], basis: str, at: datetime, world: str
) -> dict[str, Any]:
    """Return a forecast as stored and printed."""
    report: dict[str, Any] = round_json_numbers_to_six_places(
        {**forecast.to_rounded_json(), "recorded": dict(recorded), "notes": list(notes), "basis": basis, "world": world}
    )
    return {**report, "made_at": at.isoformat()}
