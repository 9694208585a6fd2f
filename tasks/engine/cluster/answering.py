"""What a worker runs: answers a group with what it holds, or refuses in words.

Only workers that hold the very thing and answer with the very code are sent anything; both are compared here again.
"""

from typing import Any

from factmill.tasks.engine.cluster.offers import Holding
from factmill.tasks.engine.cluster.wire import Kind, Wanted, name_code
from factmill.tasks.errors import FactmillError
from factmill.tasks.progress import say

_held: list[Holding] = []
"""What this process holds: one, once it is a worker."""


def hold(holding: Holding) -> None:
    """Answer with this from now on."""
    _held[:] = [holding]


class Question:
    """A group as it is sent: unpickled, it is its answer.

    What is submitted is `pickle.loads` of it, so that the scheduler, which unpickles what is submitted as well, needs
    nothing of factmill, and Dask looks for no tasks of its own within.
    """

    def __init__(self, kind: Kind, identity: str, code: str, operation: str, asked: Any) -> None:
        self._told = kind, identity, code, operation, asked

    def __reduce__(self) -> tuple[Any, ...]:
        return answer, self._told


def answer(kind: Kind, identity: str, code: str, operation: str, asked: Any) -> list[Any]:
    """Return ["answered", what was asked], or ["refused", why]; raises what may pass elsewhere, such as want of memory."""
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
    except Exception as error:  # raised on: Dask asks another worker, and its own log is off
        say(f"note: the {wanted} failed at {operation}: {type(error).__name__}: {error}")
        raise
