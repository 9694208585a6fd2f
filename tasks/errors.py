"""Every error that stops a run, by name; its exit code stands in its class.

Trouble with one row is no error: it becomes a Reject (core/rows.py).
"""

from collections.abc import Iterator
from typing import Any


class FactmillError(Exception):
    """Base of all; its text is shown to the user as it stands."""

    exit_code = 1


class UsageError(FactmillError):
    """The command or a parameter is wrong; the text says what was expected."""

    exit_code = 2


class SettingsError(UsageError):
    """A world file or a setting is wrong."""


class SourceError(UsageError):
    """A source file is missing, empty or malformed as a whole."""


class BuildError(FactmillError):
    """A build cannot go on."""


class BuildHeld(BuildError):
    """Another process is making the very same build."""


class BudgetReached(BuildError):
    """A run may spend no more; nothing is under way, what was answered is kept, and the same command goes on."""

    exit_code = 3

    def __init__(self, bound: str, told: str = "") -> None:
        super().__init__(told or f"the bound of {bound} is reached")
        self.bound = bound
        """Which bound, in words."""


class RepliesAwaited(BuildError):
    """The requests of a stage are written to a file; the run goes on when it is given the replies."""

    exit_code = 4


class FunnelError(BuildError):
    """A stage's rows in do not equal its rows out, rejects and merged rows."""


class NothingPublished(BuildError):
    """No row came through, or none was read; nothing is published, and the same build is made again the next time."""

    def __init__(self, told: str, report: Any = None) -> None:
        super().__init__(told)
        self.report = report
        """What the build says of itself so far (factmill.tasks.options.BuildReport)."""


class ReplayMiss(BuildError):
    """A replay needs a call that was never recorded."""


class OldBuild(BuildError):
    """A build's parameters or rows are those of an earlier factmill, which this one does not read."""


class ShardError(BuildError):
    """A batch's files cannot be written or read."""


class PromptError(BuildError):
    """A prompt file and its variables do not fit."""


class WarehouseError(FactmillError):
    """The DuckDB file cannot be used."""


class WarehouseBusy(WarehouseError):
    """Another process holds the warehouse and did not let go in time."""


class WarehouseTooNew(WarehouseError):
    """A newer factmill wrote the warehouse."""


class WarehouseTooOld(WarehouseError):
    """An earlier factmill wrote the warehouse, and `factmill upgrade` has not carried it over."""


class UnknownBuild(WarehouseError):
    """The warehouse holds no build of that name."""

    exit_code = 2


class GraphError(FactmillError):
    """A local graph is missing, damaged or half-loaded."""


class GateClosed(FactmillError):
    """A build is not released by itself: it does not hold to what was asked of it."""


class ResourcesExhausted(FactmillError):
    """The system gives no more memory, threads or processes."""


class OutputError(FactmillError):
    """A file of results cannot be written."""


class ServiceError(FactmillError):
    """An outside service cannot be used at all."""


class ServiceUnreachable(ServiceError):
    """No answer from a service after all attempts."""


class AccountBlocked(ServiceUnreachable):
    """The account has no credit left, is at its spending limit, or is suspended; what was answered is kept."""

    def __init__(self, service: str, why: str) -> None:
        super().__init__(
            f"{service}: the account may make no further requests: {why.rstrip('.')}. Add credit, raise its limit, or ask "
            "the provider; the same command then asks what is left"
        )


class PrefectLost(ServiceUnreachable):
    """The Prefect server has gone away while a flow ran; what was done is kept."""


class WorldError(ServiceError):
    """The embedded world does not start, or its files are wrong."""


def iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, what it comes of, and what it was raised in the handling of, each once; those of groups too."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            left += filter(None, (each.__cause__, each.__context__, *getattr(each, "exceptions", ())))
