"""What a run may spend, and has spent."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a run may spend; None: as much as it takes."""

    cost_usd: float | None = None
    requests: int | None = None
    hours: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent, over the network."""

    paid_usd: float = 0.0
    """By the usage that replies told."""
    unanswered_usd: float = 0.0
    """The most that requests can have cost whose replies never came, or told no usage."""
    requests: int = 0
    """Requests that went out, each try of one."""
    hours: float = 0.0

    @property
    def cost_usd(self) -> float:
        """The most that all of it can have cost."""
        return self.paid_usd + self.unanswered_usd

    def since(self, before: "Spent") -> "Spent":
        """Return what was spent after `before`."""
        return Spent(
            self.paid_usd - before.paid_usd,
            self.unanswered_usd - before.unanswered_usd,
            self.requests - before.requests,
            self.hours - before.hours,
        )


def describe_spent(spent: Spent) -> str:
    """Return what was spent, in words."""
    lost = f", up to {count_usd(spent.unanswered_usd)} more in requests of unknown cost" if spent.unanswered_usd else ""
    return f"{count_usd(spent.paid_usd)}{lost}, {count(spent.requests, 'request')}, {spent.hours:.2f} hours"


def format_cost(cost_usd: float, unknown_cost_calls: int, unpriced_models: Sequence[str]) -> str:
    """Return the cost of a build or an evaluation in words.

    `unknown_cost_calls`: calls whose replies told no usage; `unpriced_models`: models that were asked and have no price.
    """
    told = [f"cost unknown for {count(unknown_cost_calls, 'call')}"] if unknown_cost_calls else []
    told += [f"no price is given for {', '.join(unpriced_models)}"] if unpriced_models else []
    return ", ".join([f"US$ {cost_usd:.4f}", *told] if cost_usd or not told else told)


def count(number: int, what: str) -> str:
    """Return a number of things in words; `what`: one of them."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def count_usd(usd: float) -> str:
    """Return money in words, with as many digits as tell it from none."""
    return f"US$ {usd:.4f}" if usd >= 1e-4 or not usd else f"US$ {usd:.2g}"


def count_hours(hours: float) -> str:
    """Return hours in words, with as many digits as tell them from none."""
    return f"{hours:.4g} hour{'' if hours == 1 else 's'}"


def describe_bounds(bounds: Bounds) -> str:
    """Return what may be spent, in words."""
    told = [count_usd(bounds.cost_usd)] if bounds.cost_usd is not None else []
    told += [count(bounds.requests, "request")] if bounds.requests is not None else []
    told += [count_hours(bounds.hours)] if bounds.hours is not None else []
    return ", ".join(told) or "anything"


def lower_bounds(bounds: Bounds, spent: Spent) -> Bounds:
    """Return what is left of bounds."""
    return Bounds(
        None if bounds.cost_usd is None else max(0.0, bounds.cost_usd - spent.cost_usd),
        None if bounds.requests is None else max(0, bounds.requests - spent.requests),
        None if bounds.hours is None else max(0.0, bounds.hours - spent.hours),
    )
