"""Requests that wait for answers of batch jobs, who brought them, what the desk leaves to the chat client, and how what a job
says of one is heard."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from tasks.clients.batch_jobs.job_files import JobFile
from tasks.clients.batch_jobs.lines import LineAnswer
from tasks.clients.openai_server import Answer
from tasks.clients.sending.answers import fail, shorten
from tasks.clients.sending.sender import Retry
from tasks.core.calls.call import Reply

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
