"""Test forecasts from a pilot or an earlier build: scaled by rows, priced with the world's prices."""

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from factmill.tasks.assets import ASSETS_ROOT, load_prompt
from factmill.tasks.core.prompts import fill_prompt_template
from factmill.tasks.core.service_settings import ModelSettings, ServiceEndpoint, ServiceLimits
from factmill.tasks.engine.naming.identities import make_service_identity
from factmill.tasks.engine.spending.forecasting import (
    ENGLISH_CHARACTERS_PER_TOKEN,
    ForecastBasis,
    count_rendered_prompt_characters,
    forecast_build,
)
from factmill.tasks.errors import UsageError
from factmill.tasks.granola.evaluation.definition import GRANOLA_EVALUATION
from factmill.tasks.settings import World, load_world
from factmill.tasks.storage.builds import BuildStagesAndCalls

URL = "http://127.0.0.1:9/v1"


def stage(name: str, rows_in: int, rows_out: int) -> dict[str, Any]:
    return {"stage": name, "rows_in": rows_in, "rows_out": rows_out, "seconds": 1.0}


def call(row: str, at: str = "ask", **changed: Any) -> dict[str, Any]:
    result = {
        "stage": at,
        "row": row,
        "key": f"{at} {row}",
        "service": URL,
        "operation": "chat",
        "model": "m",
        "samples": 4,
    }
    spent = {"tokens_in": 1000, "tokens_out": 100, "cost_usd": 0.5, "latency_s": 1.0, "said": 40, "parts": None}
    return {**result, **spent, "is_new": True, "is_failed": False, **changed}


def world(**changed: Any) -> World:
    model = ModelSettings.model_validate({"kind": "openai", "name": "m", "url": URL, **changed})
    return load_world("embedded").model_copy(update={"models": {"author": model}})


def test_forecast_scales_stages_after_pilot_draw_and_reports_recorded_cost():
    stages = [stage("read", 40, 40), stage("draw_pilot", 40, 10), stage("ask", 10, 10)]
    calls = [call(f"r{at}") for at in range(5)] + [
        call(f"r{at}", "read", operation="label", service="w", model="", tokens_in=0, tokens_out=0, cost_usd=0.0)
        for at in range(40)
    ]
    basis = ForecastBasis(BuildStagesAndCalls(stages, calls), {"ask": {URL: 25}, "read": {"w": 4}}, {})
    forecast, recorded, notes = forecast_build(world(usd_per_million_in=1.0, usd_per_million_out=1.0), basis, 500)
    assert notes == []
    assert forecast.total["calls"] == pytest.approx(40 + 20)
    assert forecast.total["model_requests"] == pytest.approx(25 * 4)
    assert forecast.total["requests"] == pytest.approx(25 * 4 + 4)
    assert forecast.total["usd"] == pytest.approx(10.0)
    assert forecast.low["usd"] < 10.0 < forecast.high["usd"]
    assert recorded == {"calls": 45.0, "usd": 2.5}


def test_batched_and_single_requests_of_service_are_scaled_separately():
    stages = [stage("draw_pilot", 40, 10), stage("ask", 10, 10)]
    wiki, free = (
        make_service_identity("wikipedia", "embedded"),
        {"model": "", "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0},
    )
    calls = [
        call(f"r{at}", operation=operation, service=wiki, key=f"{operation} {at}", latency_s=latency_s, **free)
        for at in range(10)
        for operation, latency_s in (("page_text", 1.0 + at), ("resolve_title", 0.5))
    ]
    basis = ForecastBasis(BuildStagesAndCalls(stages, calls), {"ask": {wiki: 11}}, {})
    forecast, _, _ = forecast_build(world(), basis, 500)
    asked = {each.operation: each.requests for each in forecast.stages[0].asked}
    assert asked == {"page_text": pytest.approx(40), "resolve_title": pytest.approx(1)}


def test_calls_of_earlier_stage_do_not_count_as_requests_of_later_stage():
    stages = [stage("draw_pilot", 40, 10), stage("look", 10, 10), stage("ask", 10, 10)]
    calls = [call(f"r{at}", "look", key=f"old {at}") for at in range(10)]
    calls += [call(f"r{at}", key=f"old {at}") for at in range(10)] + [call("r3", key="new", latency_s=2.0)]
    forecast, _, _ = forecast_build(
        world(), ForecastBasis(BuildStagesAndCalls(stages, calls), {"look": {URL: 10}, "ask": {URL: 1}}, {}), 500
    )
    assert [each.requests for stage in forecast.stages for each in stage.asked] == [pytest.approx(40), pytest.approx(4)]


def test_evaluation_settings_that_share_draws_are_drawn_and_counted_together():
    ids = [f"{setting}/{row}" for setting in ("self_consistency", "drag") for row in ("P19-1/2", "P20-3")]
    assert [GRANOLA_EVALUATION.pilot_unit(row) for row in ids] == ["P19-1/2", "P20-3"] * 2
    calls = [call(row, key=f"draws for {GRANOLA_EVALUATION.pilot_unit(row)}") for row in ids]
    stages = [stage("read", 40, 40), stage("draw_pilot", 40, 4), stage("ask", 4, 4)]
    basis = ForecastBasis(
        BuildStagesAndCalls(stages, calls),
        {},
        {},
        sizes=dict.fromkeys(ids, 1.0),
        pilot_unit=GRANOLA_EVALUATION.pilot_unit,
    )
    assert forecast_build(world(), basis, 500)[0].total["calls"] == pytest.approx(20)


def test_pilot_rows_are_weighted_by_size():
    sizes = {
        f"q{at}": size for at, size in enumerate((0.25, 0.5, 1.0, 1.25))
    }  # 0.75 on average; the average of all rows is 1
    calls = [call(f"{row}_{path}") for row, size in sizes.items() for path in range(int(4 * size))]
    stages = [stage("read", 40, 40), stage("draw_pilot", 40, 4), stage("ask", 12, 12)]
    basis = ForecastBasis(BuildStagesAndCalls(stages, calls), {}, {}, sizes=sizes)
    forecast, _, _ = forecast_build(world(), basis, 500)
    assert forecast.total["calls"] == forecast.stages[1].rows == pytest.approx(40 * 4)


def test_calls_recorded_before_pilot_are_reported():
    stages = [stage("draw_pilot", 40, 10), stage("ask", 10, 10)]
    calls = [call(f"r{at}", is_new=at > 3) for at in range(10)]
    _, _, notes = forecast_build(
        world(usd_per_million_in=1.0), ForecastBasis(BuildStagesAndCalls(stages, calls), {"ask": {URL: 6}}, {}), 500
    )
    assert notes[0].startswith("4 of the 10 calls ")


def test_forecast_from_earlier_build_uses_token_prices_of_current_world():
    basis = ForecastBasis(
        BuildStagesAndCalls([stage("read", 10, 10), stage("ask", 10, 10)], [call(f"r{at}") for at in range(10)]),
        {},
        {},
        50,
    )
    forecast, _, notes = forecast_build(world(usd_per_million_in=2.0, usd_per_million_out=10.0), basis, 500)
    assert forecast.total["usd"] == pytest.approx(50 * (1000 * 2.0 + 100 * 10.0) / 1e6)
    assert forecast.total["requests"] == pytest.approx(50 * 4)
    assert notes == []


@pytest.mark.parametrize(
    ("prices", "recorded", "expected"),
    [
        ({}, 0.0, 0.002),  # recorded while the world's file had no price
        ({"mode": "batch"}, 0.002, 0.001),
        ({"mode": "batch"}, 0.001, 0.001),
        ({"mode": "batch", "batch_price": 1.0}, 0.001, 0.002),
        ({"usd_per_million_cached": 0.5}, 0.0016, 0.0016),
        ({"usd_per_million_cached": 0.5}, 0.0001, 0.002),
        ({"usd_per_million_reasoning": 20.0}, 0.0025, 0.0025),
        ({"usd_per_million_cache_write": 1.25}, 0.0022, 0.0022),
        ({"usd_per_request": 0.001}, 0.006, 0.006),  # one request for each of four samples
        ({"usd_per_request": 0.001}, 0.002, 0.006),
    ],
)
@pytest.mark.parametrize("is_earlier_build", [True, False])
def test_recorded_cost_is_used_only_if_prices_of_current_world_allow_it(
    prices: dict[str, Any], recorded: float, expected: float, is_earlier_build: bool
) -> None:
    calls = [call(f"r{at}", cost_usd=recorded, is_new=False) for at in range(5)]
    stages = [stage("read", 5, 5), stage("draw_pilot", 5, 5), stage("ask", 5, 5)]
    basis = ForecastBasis(BuildStagesAndCalls(stages, calls), {}, {}, source_rows=5 if is_earlier_build else None)
    forecast, _, _ = forecast_build(world(usd_per_million_in=1.0, usd_per_million_out=10.0, **prices), basis, 500)
    assert forecast.total["usd"] == pytest.approx(5 * expected)


def test_unknown_token_usage_is_estimated_from_characters_and_reported():
    ask = fill_prompt_template(load_prompt("slaq/fact_type"), question="Who?", answer="Ada")
    parts = {"prompt": "slaq/fact_type", "variables": {"question": "Who?", "answer": "Ada"}}
    length = sum(len(each["content"]) for each in ask.build_messages())
    assert count_rendered_prompt_characters(parts) == length
    result = call(
        "r0",
        tokens_in=0,
        tokens_out=0,
        cost_usd=0.0,
        model="scripted replies",
        service="scripted replies",
        parts=json.dumps(parts),
    )
    basis = ForecastBasis(
        BuildStagesAndCalls([stage("read", 1, 1), stage("ask", 1, 1)], [result]),
        {"ask": {"w": 1}},
        {"author": "scripted replies"},
        1,
    )
    forecast, _, notes = forecast_build(world(), basis, 500)
    assert forecast.total["tokens_in"] == 4 * length / ENGLISH_CHARACTERS_PER_TOKEN
    assert forecast.total["tokens_out"] == 40 / ENGLISH_CHARACTERS_PER_TOKEN
    assert forecast.total["model_requests"] == 4, "one for each sample, though the basis sent none"
    assert [note.partition(":")[0] for note in notes] == [
        "token usage of some models is unknown",
        "the basis called no model",
        "the world embedded sets no price for the model m",
    ]
    assert "(--pilot N)" in notes[0]
    without_model, _, _ = forecast_build(world(), replace(basis, requests={}, models={}), 500)
    assert without_model.total["model_requests"] == 0, "in a world of scripted replies no model is called"
    drawn = [stage("read", 1, 1), stage("draw_pilot", 1, 1), stage("ask", 1, 1)]
    pilot = replace(basis, usage=BuildStagesAndCalls(drawn, [result]), source_rows=None)
    _, _, [first, *_] = forecast_build(world(), pilot, 500)
    assert first.startswith("token usage of some models is unknown") and "--pilot" not in first, (
        "the run is already a pilot"
    )


def test_failed_call_is_not_reported_as_unknown_token_usage():
    parts = json.dumps({"prompt": "slaq/fact_type", "variables": {"question": "Who?", "answer": "Ada"}})
    lost = call("r0", tokens_in=0, tokens_out=0, cost_usd=0.0, parts=parts, said=0, is_failed=True)
    basis = ForecastBasis(BuildStagesAndCalls([stage("read", 2, 2), stage("ask", 2, 2)], [lost, call("r1")]), {}, {}, 2)
    forecast, _, notes = forecast_build(world(usd_per_million_in=1.0, usd_per_million_out=1.0), basis, 500)
    assert forecast.total["tokens_in"] > 1000 and forecast.total["tokens_out"] == 100
    assert [note.partition(",")[0] for note in notes] == ["1 call of the basis failed"]


def test_forecast_without_rows_raises_usage_error():
    with pytest.raises(UsageError, match="no row of the basis"):
        forecast_build(world(), ForecastBasis(BuildStagesAndCalls([stage("draw_pilot", 0, 0)], []), {}, {}), 500)


def test_forecast_modules_do_not_import_prefect():
    text = "import sys, factmill.flows.commands.build, factmill.flows.commands.housekeeping; assert 'prefect' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", text], cwd=ASSETS_ROOT, check=False).returncode == 0


@pytest.mark.parametrize(
    ("url", "hours"),
    [
        ("https://wikimedia.org/api/rest_v1", 400 * 0.3 / 3600),
        ("https://query.wikidata.org/sparql", 400 * 0.5 / 3600),
        ("https://elsewhere.example.net", 400 * 0.5 / 4 / 3600),
    ],
    ids=["limited by rate", "limited by service time", "limited by parallel requests"],
)
def test_forecast_hours_respect_wikimedia_rate_limits(url: str, hours: float) -> None:
    calls = [call(str(row), service=url, operation="x", model="", latency_s=0.5) for row in range(20)]
    asked = BuildStagesAndCalls([{**stage("ask", 20, 20), "seconds": 0.0}], calls)
    here = world().model_copy(update={"pageviews": ServiceEndpoint(url=url, limits=ServiceLimits(parallel=4))})
    forecast, _, _ = forecast_build(here, ForecastBasis(asked, {}, {}, source_rows=400), 400)
    assert forecast.total["hours"] == pytest.approx(hours, rel=0.1)
