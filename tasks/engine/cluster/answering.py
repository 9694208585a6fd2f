"""Worker side of the cluster: answer a group of requests with a local model or graph, or refuse with a reason.

Requests go only to workers with exactly the required model or graph and code; both are checked here again.
"""

from typing import Any

from factmill.tasks.engine.cluster.offers import Holding
from factmill.tasks.engine.cluster.wire import Kind, Wanted, name_code
from factmill.tasks.errors import FactmillError
from factmill.tasks.progress import say

_held: list[Holding] = []
"""What this worker process serves: one Holding; empty if the process is not a worker."""


def hold(holding: Holding) -> None:
    """Serve requests with this from now on."""
    _held[:] = [holding]


class Question:
    """A group of requests that unpickles to its answer.

    The submitted task is `pickle.loads` of the pickled group, so the scheduler, which unpickles tasks too, does not need
    factmill, and Dask does not search the group for tasks.
    """

    def __init__(self, kind: Kind, identity: str, code: str, operation: str, asked: Any) -> None:
        self._told = kind, identity, code, operation, asked

    def __reduce__(self) -> tuple[Any, ...]:
        return answer, self._told


def answer(kind: Kind, identity: str, code: str, operation: str, asked: Any) -> list[Any]:
    """Return ["answered", answer] or ["refused", reason]; raise errors that another worker may avoid, such as MemoryError."""
    wanted = Wanted(kind, identity)
    if code != name_code():
        return ["refused", f"answers with {name_code()}, asked for was {code}"]
    if not _held or wanted not in _held[0]:
        return ["refused", f"does not hold the {wanted}"]
    try:
        return ["answered", _held[0].answer(wanted, operation, asked)]
    except FactmillError as error:
        say(f"note: the {wanted} refused {operation}: {error}")
        return ["refused", str(error)]
    except Exception as error:  # re-raise: Dask retries on another worker, and its own log is off
        say(f"note: the {wanted} failed at {operation}: {type(error).__name__}: {error}")
        raise
