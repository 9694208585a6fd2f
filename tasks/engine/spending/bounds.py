"""Budget of a run: check prices before it begins, report spending, and make the error when a bound is reached."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from factmill.tasks import progress
from factmill.tasks.clients.sending.budget import Budget, spent_by_process
from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.service_settings import CHAT_KINDS, PRICES
from factmill.tasks.core.spending.bounds import (
    Bounds,
    count,
    describe_bounds,
    describe_spent,
    lower_bounds,
    price_range,
)
from factmill.tasks.engine.runs import Run
from factmill.tasks.errors import BudgetReached, SettingsError
from factmill.tasks.options import RunOptions
from factmill.tasks.settings import World
from factmill.tasks.storage.builds import count_untold_calls, find_forecast, sum_up_calls
from factmill.tasks.storage.warehouse import Connection, open_warehouse


def check_prices(world: World, roles: Collection[str]) -> None:
    """Raise SettingsError if a model of these roles has no price, so that its cost is unknown."""
    for role, model in sorted(world.models.items()):
        lacking = [key for key in PRICES if key not in model.model_fields_set]
        if role in roles and model.kind in CHAT_KINDS and lacking:
            raise SettingsError(
                f"--max-cost: the world {world.name} does not say what the model {model.name} costs; add "
                f"{' and '.join(f'{key} = …' for key in lacking)} to [models.{role}] of its file (0.0 where it costs nothing)"
            )


def tell_spent(budget: Budget) -> dict[str, Any]:
    """Return a run's spending and bounds, for its report; empty if it sent nothing and had no bounds."""
    bounds = {name: bound for name, bound in asdict(budget.bounds).items() if bound is not None}
    if not budget.requests.total() and not bounds:
        return {}
    told = {name: round(each, 6) for name, each in asdict(budget.spent).items()}
    return {**told, "by_service": dict(sorted(budget.requests.items())), "bounds": bounds}


def find_unknown_costs(world: World, db: Connection, build_id: str) -> dict[str, Any]:
    """Return what a build's cost does not cover, for its report: `unknown_cost_calls` and `unpriced_models`."""
    models = {(model.url, model.name): model for model in world.models.values() if model.kind in CHAT_KINDS}
    unknown, unpriced = 0, set[str]()
    for asked in count_untold_calls(db, build_id):
        model = models.get((asked["service"], asked["model"]))
        if model is None:
            continue
        if not model.has_price:
            unpriced.add(model.name)
        elif price_range(1, 1, model)[1]:
            unknown += asked["untold"]
    return {"unknown_cost_calls": unknown, "unpriced_models": sorted(unpriced)}


def tell_reached(run: Run, stages: Sequence[Mapping[str, Any]], reached: BudgetReached) -> BudgetReached:
    """Return the error of a run that has reached a bound: spending, stages done, forecast of the rest, and how to resume."""
    under_way = progress.stage_under_way()
    done = f"{count(len(stages), 'stage')} {'is' if len(stages) == 1 else 'are'} done" if stages else "no stage is done"
    budget = run.services.budget
    why = f", {budget.why}" if budget.why else ""
    told = [f"the bound of {reached.bound} is reached{why}: the run was stopped before it crossed it"]
    told.append(f"spent by this run: {describe_spent(budget.spent)}")
    told.append(f"{done}{f', then {under_way}' if under_way else ''}")
    with open_warehouse(Path(run.options["warehouse"])) as db:
        forecast = find_forecast(db, digest_json(run.lock))
    if forecast:
        # subtract the recorded calls of this build, and those that this run has sent
        usd = forecast["total"]["usd"]
        left = max(0.0, usd - forecast["recorded"]["usd"] - budget.spent.paid_usd)
        told.append(
            f"the forecast of {forecast['made_at'][:10]} is US$ {usd:.4f} in all, so that some US$ {left:.4f} are left, "
            "less what other runs have paid meanwhile"
        )
    how = ("the command", " with a higher bound") if budget.is_too_low else ("the same command", "")
    told.append(f"what was answered is recorded and never asked again: {how[0]} goes on from here{how[1]}")
    return BudgetReached(reached.bound, "; ".join(told))


def compare(db: Connection, lock: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return the forecast of a build with its actual totals; empty if there is no forecast."""
    told = find_forecast(db, digest_json(lock))
    return {**told, "actual": sum_up_calls(db, run_id)} if told else {}


class Meter:
    """Counter of the requests sent in each stage; a build's stages run one after another."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._before = budget, budget.requests.copy()

    def read(self) -> dict[str, dict[str, int]]:
        """Return `requests`: service → requests sent since the last read; empty if none were sent."""
        now = self._budget.requests.copy()
        went_out, self._before = dict(now - self._before), now
        return {"requests": went_out} if went_out else {}


class Purse:
    """Budget of a command that makes several builds one after another, shared by all of them."""

    def __init__(self, run: RunOptions) -> None:
        self._run, self._before = run, spent_by_process()

    def tell(self, reached: BudgetReached, done: Sequence[str]) -> BudgetReached:
        """Return the error of one of several builds, with the command's bounds and spending, and the builds done before."""
        spent = describe_spent(spent_by_process().since(self._before))
        whole = describe_bounds(self._run.bounds)
        return BudgetReached(
            reached.bound,
            f"{reached}; the whole command may spend {whole} and has spent {spent}; done before: {', '.join(done) or 'nothing'}",
        )

    @property
    def left(self) -> RunOptions:
        """The options, with bounds lowered by what was spent so far."""
        if self._run.bounds == Bounds():
            return self._run
        spent = spent_by_process().since(self._before)
        return self._run.with_bounds(lower_bounds(self._run.bounds, replace(spent, hours=round(spent.hours, 6))))
