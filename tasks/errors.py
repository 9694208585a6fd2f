"""Every error that stops a run; each class holds its exit code.

A problem with one row is not an error: it becomes a Reject (core/rows.py).
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar


class FactmillError(Exception):
    """Base class of all errors; its text is shown to the user unchanged."""

    exit_code = 1
    code: ClassVar[str] = "factmill"
    """Name of the error for programs: the class's name without "Error", in kebab case (`UnknownBuild` → unknown-build)."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Set the code of a subclass."""
        super().__init_subclass__(**keywords)
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()


class UsageError(FactmillError):
    """A wrong command or parameter; the text says what was expected."""

    exit_code = 2


class SettingsError(UsageError):
    """A wrong world file or setting."""


class SourceError(UsageError):
    """A source file that is missing, empty or malformed as a whole."""


class BuildError(FactmillError):
    """A build that cannot continue."""


class BuildAlreadyRunning(BuildError):
    """Another process is running the same build."""


class BudgetExhausted(BuildError):
    """A run has used up its budget. No request is pending, responses are cached, and the same command resumes."""

    exit_code = 3

    def __init__(self, limit: str, message: str = "") -> None:
        super().__init__(message or f"the limit of {limit} is reached")
        self.limit = limit
        """Description of the limit that was reached."""


class AwaitingReplyFile(BuildError):
    """The requests of a stage are written to a file; the run resumes when it gets the replies."""

    exit_code = 4


class StageRowCountMismatch(BuildError):
    """The input rows of a stage do not equal its output rows, rejects and merged rows."""


class NoRowsPublished(BuildError):
    """No row was read, or none passed all stages. Nothing is published; the next run makes the same build again."""

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report
        """Report of the build so far (factmill.tasks.options.BuildReport)."""


class ReplayMiss(BuildError):
    """A replay needs a call that the call cache does not hold."""


class BuildFormatTooOld(BuildError):
    """A build whose parameters or rows an earlier factmill wrote in a form that this one cannot read."""


class ShardError(BuildError):
    """The files of a batch cannot be written or read."""


class PromptError(BuildError):
    """A prompt file does not match its variables."""


class WarehouseError(FactmillError):
    """The DuckDB file cannot be used."""


class WarehouseBusy(WarehouseError):
    """Another process holds the warehouse and did not release it in time."""


class WarehouseTooNew(WarehouseError):
    """A warehouse written by a newer factmill."""


class WarehouseTooOld(WarehouseError):
    """A warehouse written by an earlier factmill and not yet converted by `factmill upgrade`."""


class UnknownBuild(WarehouseError):
    """The warehouse holds no build with this id."""

    exit_code = 2


class UnknownRow(UnknownBuild):
    """A build has no row with this id, or several ids begin so."""


class LocalGraphError(FactmillError):
    """A local graph is missing, damaged or half-loaded."""


class ReleaseGateFailed(FactmillError):
    """A build fails the conditions for automatic release."""


class ResourcesExhausted(FactmillError):
    """The system has no more memory, threads or processes to give."""


class OutputError(FactmillError):
    """A file of results cannot be written."""


class ServiceError(FactmillError):
    """An outside service cannot be used at all."""


class ServiceUnreachable(ServiceError):
    """A service gave no response in any attempt."""


class AccountBlocked(ServiceUnreachable):
    """The account is out of credit, at its spending limit, or suspended; responses so far are cached."""

    def __init__(self, service: str, reason: str) -> None:
        super().__init__(
            f"{service}: the account can send no further requests: {reason.rstrip('.')}. Add credit, raise its limit, or ask "
            "the provider; then the same command sends the remaining requests"
        )


class PrefectServerLost(ServiceUnreachable):
    """The Prefect server became unreachable during a flow; finished work is kept."""


class WikipediaFileError(ServiceError):
    """The file that serves as a world's Wikipedia cannot be used, or was replaced while it was in use."""


class EmbeddedWorldError(ServiceError):
    """The embedded world does not start, or its files are invalid."""


def iterate_exception_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes, its contexts and the members of exception groups, each once."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            left += filter(None, (each.__cause__, each.__context__, *getattr(each, "exceptions", ())))
