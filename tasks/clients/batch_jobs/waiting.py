"""Requests that wait for answers of batch jobs, and how many requests the jobs of one model may hold at once.

A server bounds what all jobs of an account hold together, in tokens, and others may use the same account. So neither the bound
nor what is left of it is known: it is searched for. A refused job halves what is tried, a job that is taken lets it grow again,
and after some jobs at the size found the refusal is forgotten, since others may have finished by then. A refused job costs
minutes and no money, a job that is too small costs up to a day.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from factmill.tasks.clients.batch_jobs.job_files import JobFile
from factmill.tasks.clients.batch_jobs.lines import LineAnswer
from factmill.tasks.clients.openai_server import Answer
from factmill.tasks.clients.sending.answers import shorten
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import Reply, fail

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Asker(Protocol[T_contra]):
    """What the desk leaves to the chat client: how a request is written, and how an answer is read."""

    def write(self, asked: T_contra, learnt: Mapping[str, Any]) -> dict[str, Any] | Reply:
        """Return the body of a request, or the reply where there is no use in asking.

        `learnt`: settings by which it is not written as the world's file says.
        """

    def read(self, asked: T_contra, learnt: Mapping[str, Any], answer: Answer) -> Reply | dict[str, Any]:
        """Return the reply that an answer holds, or by what further settings to ask again; Retry for what may pass.

        `learnt`: by which the request was written.
        """

    async def ask(self, asked: T_contra) -> Reply:
        """Send a request singly, once; Retry for what may pass, TightError and BudgetReached when it may not go out."""

    async def probe(
        self, lines: Sequence[tuple[T_contra, Answer]], learnt: Mapping[str, Any]
    ) -> tuple[Any, Reply] | None:
        """Find out by single requests what the server refuses in a job's lines and does not name, for `read` to use; return the
        request whose reply came of it, and that reply. Errors as of `ask`.

        `learnt`: by which the job was written.
        """

    def learnt(self) -> dict[str, Any]:
        """Return by which settings requests are not made as the world's file says."""


@dataclass(eq=False, slots=True)
class Sending(Generic[T]):
    """One thread's requests."""

    arrived: SimpleQueue[list[tuple[T, Reply]] | None]
    done: asyncio.Future[None]
    open: int

    def finish(self, asked: T, reply: Reply) -> None:
        self.arrived.put([(asked, reply)])
        self.open -= 1
        if not self.open and not self.done.done():
            self.done.set_result(None)


@dataclass(eq=False, slots=True)
class Request(Generic[T]):
    """One line of a job, and who waits for its answer."""

    custom_id: str
    waiting: list[tuple[Sending[T], T]] = field(default_factory=list)
    job: JobFile | None = None
    """The job that it is left to; others that hold it have left it unanswered."""
    learnt: dict[str, Any] = field(default_factory=dict)
    tries: int = 0
    held: int | None = None
    """What is held of the run's budget while a job of this run has the line."""

    @property
    def goes_on(self) -> bool:
        """True while a job may answer it, whoever waits."""
        return self.job is not None and self.custom_id in self.job.left

    @property
    def asked(self) -> T:
        return self.waiting[0][1]


def hear_line(
    asker: Asker[T], asked: T, learnt: Mapping[str, Any], answer: LineAnswer | None, status: str
) -> Reply | dict[str, Any]:
    """Return the reply that a line of an ended job holds, or by what further settings to ask again; Retry for what may pass.

    `learnt`: by which the job was written; `answer`: None where the job has no line for the request; `status`: the job's.
    """
    if answer is None:
        code = "batch_expired: the job ended before" if status == "expired" else "lost_line: the job has"
        raise Retry(f"{code} no line for this request")
    if not answer.status:
        raise Retry(answer.text)
    heard = asker.read(asked, learnt, Answer(answer.status, answer.text, None))
    if not isinstance(heard, Reply) and heard.items() <= learnt.items():
        # it was asked so, and refused all the same
        return fail(f"http_{answer.status}", shorten(answer.text), transient=True)
    return heard


_PATIENCE = 4
"""Jobs that are taken at the size found before a larger one is tried again; doubled each time that one is refused."""


class Room:
    """The search for the number of requests that may be in hand."""

    def __init__(self) -> None:
        self.now: float = math.inf
        """Requests that may be in hand now, at least 1."""
        self.lone_refusals = 0
        """How many jobs of a single request were refused in a row, with no other job in hand."""
        self._refused: float = math.inf
        """The fewest requests in hand that were refused."""
        self._accepted = 0
        """The most requests in hand that were taken since; 0: none were."""
        self._taken, self._patience = 0, _PATIENCE

    def note_refusal(self, requests: int, others: int) -> None:
        """Note that a job of so many requests was refused while other jobs held `others`."""
        in_hand = requests + others
        self._refused = min(self._refused, in_hand)
        if in_hand <= self._accepted:
            self._accepted = 0  # others have more in hand than before
        self._taken = 0
        self.lone_refusals += in_hand == 1
        self.now = max(1, min(self.now, others or self._accepted or requests // 2))

    def note_success(self, in_hand: int) -> None:
        """Note that a job was taken with which so many requests were in hand."""
        self.lone_refusals = 0
        if in_hand < self.now:
            return  # it does not show that more would be taken
        if self._refused == math.inf:
            self._patience = _PATIENCE
        self._accepted = in_hand
        self._taken += 1
        if self._taken >= self._patience:
            self._taken, self._patience, self._refused = 0, 2 * self._patience, math.inf
        if self.now * 2 < self._refused:
            self.now *= 2
        elif self._refused - self.now > self.now // 2:
            self.now = (self.now + self._refused) // 2
