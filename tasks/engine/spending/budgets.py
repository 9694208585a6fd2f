"""Budget of a run: check prices before it begins, report spending, and make the error when a bound is reached."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from factmill.tasks import progress
from factmill.tasks.clients.sending.budget import Budget, get_process_total_spending
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.service_settings import CHAT_MODEL_KINDS, TOKEN_PRICE_SETTINGS
from factmill.tasks.core.spending.costs import (
    BudgetLimits,
    compute_cost_range,
    compute_remaining_budget,
    format_budget_limits,
    format_count_with_noun,
    format_spending,
)
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.errors import BudgetExhausted, SettingsError
from factmill.tasks.options import RunOptions
from factmill.tasks.settings import World
from factmill.tasks.storage.builds import count_calls_without_usage_by_model, find_forecast, sum_call_usage
from factmill.tasks.storage.warehouse import Connection, open_warehouse


def check_models_have_prices(world: World, roles: Collection[str]) -> None:
    """Raise SettingsError if a model of these roles has no price, so that its cost is unknown."""
    for role, model in sorted(world.models.items()):
        lacking = [key for key in TOKEN_PRICE_SETTINGS if key not in model.model_fields_set]
        if role in roles and model.kind in CHAT_MODEL_KINDS and lacking:
            raise SettingsError(
                f"--max-cost: the world {world.name} sets no price for the model {model.name}; add "
                f"{' and '.join(f'{key} = …' for key in lacking)} to [models.{role}] of its file (0.0 if it costs nothing)"
            )


def summarize_spending(budget: Budget) -> dict[str, Any]:
    """Return a run's spending and bounds, for its report; empty if it sent nothing and had no bounds."""
    bounds = {name: bound for name, bound in asdict(budget.bounds).items() if bound is not None}
    if not budget.requests.total() and not bounds:
        return {}
    spent = {name: round(each, 6) for name, each in asdict(budget.spent).items()}
    return {**spent, "by_service": dict(sorted(budget.requests.items())), "bounds": bounds}


def make_unknown_cost_report_fields(world: World, db: Connection, build_id: str) -> dict[str, Any]:
    """Return what a build's cost does not cover, for its report: `unknown_cost_calls` and `unpriced_models`."""
    models = {(model.url, model.name): model for model in world.models.values() if model.kind in CHAT_MODEL_KINDS}
    unknown, unpriced = 0, set[str]()
    for asked in count_calls_without_usage_by_model(db, build_id):
        model = models.get((asked["service"], asked["model"]))
        if model is None:
            continue
        if not model.has_price:
            unpriced.add(model.name)
        elif compute_cost_range(1, 1, model)[1]:
            unknown += asked["untold"]
    return {"unknown_cost_calls": unknown, "unpriced_models": sorted(unpriced)}


def make_budget_exceeded_error(
    run: BuildRun, stages: Sequence[Mapping[str, Any]], reached: BudgetExhausted
) -> BudgetExhausted:
    """Return the error of a run that has reached a bound: spending, stages done, forecast of the rest, and how to resume."""
    under_way = progress.format_current_stage()
    done = (
        f"{format_count_with_noun(len(stages), 'stage')} {'is' if len(stages) == 1 else 'are'} done"
        if stages
        else "no stage is done"
    )
    budget = run.services.budget
    why = f", {budget.reached_reason}" if budget.reached_reason else ""
    sentences = [f"the limit of {reached.limit} is reached{why}: the run stopped before exceeding it"]
    sentences.append(f"spent by this run: {format_spending(budget.spent)}")
    sentences.append(f"{done}{f', then {under_way}' if under_way else ''}")
    with open_warehouse(Path(run.options["warehouse"])) as db:
        forecast = find_forecast(db, digest_json(run.manifest))
    if forecast:
        # subtract the recorded calls of this build, and those that this run has sent
        usd = forecast["total"]["usd"]
        left = max(0.0, usd - forecast["recorded"]["usd"] - budget.spent.paid_usd)
        sentences.append(
            f"the forecast of {forecast['made_at'][:10]} is US$ {usd:.4f} in total, so about US$ {left:.4f} remain, "
            "minus what other runs have spent since"
        )
    how = ("run the command again", " with a higher limit") if budget.is_too_low else ("run the same command again", "")
    sentences.append(f"all replies so far are recorded: {how[0]}{how[1]} to continue from here")
    return BudgetExhausted(reached.limit, "; ".join(sentences))


def find_forecast_with_actual_usage(db: Connection, manifest: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return the forecast of a build with its actual totals; empty if there is no forecast."""
    forecast = find_forecast(db, digest_json(manifest))
    return {**forecast, "actual": sum_call_usage(db, run_id)} if forecast else {}


class StageRequestCounterByService:
    """Counter of the requests sent in each stage; a build's stages run one after another."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._before = budget, budget.requests.copy()

    def read_new_requests(self) -> dict[str, dict[str, int]]:
        """Return `requests`: service → requests sent since the last read; empty if none were sent."""
        now = self._budget.requests.copy()
        went_out, self._before = dict(now - self._before), now
        return {"requests": went_out} if went_out else {}


class MultiBuildBudget:
    """Budget of a command that makes several builds one after another, shared by all of them."""

    def __init__(self, run: RunOptions) -> None:
        self._run, self._before = run, get_process_total_spending()

    def make_exceeded_error(self, reached: BudgetExhausted, done: Sequence[str]) -> BudgetExhausted:
        """Return the error of one of several builds, with the command's bounds and spending, and the builds done before."""
        spent = format_spending(get_process_total_spending().subtract(self._before))
        limits = format_budget_limits(self._run.budget_limits)
        return BudgetExhausted(
            reached.limit,
            f"{reached}; the limit of the whole command is {limits}, spent: {spent}; builds done before: {', '.join(done) or 'none'}",
        )

    @property
    def remaining_options(self) -> RunOptions:
        """The options, with bounds lowered by what was spent so far."""
        if self._run.budget_limits == BudgetLimits():
            return self._run
        spent = get_process_total_spending().subtract(self._before)
        return self._run.with_budget_limits(
            compute_remaining_budget(self._run.budget_limits, replace(spent, hours=round(spent.hours, 6)))
        )
