"""Requests that wait for results of batch jobs, and the number of requests that one model's jobs may hold at once.

A server limits the tokens of all jobs of an account together, and others may use the same account. So neither the limit
nor what is left of it is known; `JobCapacitySearch` searches for it. A refused job halves the number, an accepted job lets
it grow again, and after some jobs at the size found the refusal is forgotten, since other jobs may have finished. A
refused job costs minutes and no money, a job that is too small costs up to a day.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from factmill.tasks.clients.batch_jobs.job_files import JobFile
from factmill.tasks.clients.batch_jobs.jsonl import BatchResult
from factmill.tasks.clients.openai_server import ServerResponse
from factmill.tasks.clients.sending.http_responses import shorten_to_line
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import CallResponse, make_failed_response

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class BatchRequestHandler(Protocol[T_contra]):
    """How a request is built, and how its response is read; the chat client implements it for Desk."""

    def build_request_body(self, asked: T_contra, learnt: Mapping[str, Any]) -> dict[str, Any] | CallResponse:
        """Build the body of a request, or return a failed reply where asking is useless.

        `learnt`: settings that differ from the world's file.
        """

    def read_response(
        self, asked: T_contra, learnt: Mapping[str, Any], answer: ServerResponse
    ) -> CallResponse | dict[str, Any]:
        """Return the reply in a response, or further settings for another try; Retry for a transient failure.

        `learnt`: settings that built the request.
        """

    async def send_singly(self, asked: T_contra) -> CallResponse:
        """Send a request singly, once; Retry for a transient failure, BudgetFullyReserved and BudgetExhausted when it may not go
        out."""

    async def probe_refusals(
        self, lines: Sequence[tuple[T_contra, ServerResponse]], learnt: Mapping[str, Any]
    ) -> tuple[Any, CallResponse] | None:
        """Find out by single requests what the server refuses in a job's lines without naming it, for `read_response` to use.

        Return the request that this answered, and its reply; None where it answered none. Errors as of `send_singly`. `learnt`:
        settings that built the job.
        """

    def learnt_settings(self) -> dict[str, Any]:
        """Return the settings in which requests differ from the world's file."""


@dataclass(eq=False, slots=True)
class RequestSubmission(Generic[T]):
    """Requests that one thread sent together."""

    arrived: SimpleQueue[list[tuple[T, CallResponse]] | None]
    done: asyncio.Future[None]
    open_count: int

    def finish(self, asked: T, reply: CallResponse) -> None:
        self.arrived.put([(asked, reply)])
        self.open_count -= 1
        if not self.open_count and not self.done.done():
            self.done.set_result(None)


@dataclass(eq=False, slots=True)
class PendingRequest(Generic[T]):
    """One line of a job, and the submissions that wait for its result."""

    custom_id: str
    waiters: list[tuple[RequestSubmission[T], T]] = field(default_factory=list)
    job: JobFile | None = None
    """Job that has to answer it; earlier ones left it unanswered."""
    learnt: dict[str, Any] = field(default_factory=dict)
    tries: int = 0
    reservation: int | None = None
    """Number of its budget reservation, while a job of this run holds the line."""

    @property
    def is_in_open_job(self) -> bool:
        """True while a job may answer it, even if nobody waits."""
        return self.job is not None and self.custom_id in self.job.open_ids

    @property
    def asked(self) -> T:
        return self.waiters[0][1]


def read_batch_reply_or_new_settings(
    handler: BatchRequestHandler[T], asked: T, learnt: Mapping[str, Any], answer: BatchResult | None, job_status: str
) -> CallResponse | dict[str, Any]:
    """Return the reply in a result of an ended job, or further settings for another try; Retry for a transient failure.

    `learnt`: settings that built the job; `answer`: None where the job has no line for the request; `status`: the
    job's.
    """
    if answer is None:
        code = "batch_expired: the job ended before" if job_status == "expired" else "lost_line: the job has"
        raise Retry(f"{code} no line for this request")
    if not answer.status:
        raise Retry(answer.text)
    response = handler.read_response(asked, learnt, ServerResponse(answer.status, answer.text, None))
    if not isinstance(response, CallResponse) and response.items() <= learnt.items():
        # it was asked with these settings already, and still refused
        return make_failed_response(f"http_{answer.status}", shorten_to_line(answer.text), transient=True)
    return response


_JOBS_BEFORE_GROWTH = 4
"""Accepted jobs at the size found before a larger one is tried; doubled each time that one is refused."""


class JobCapacitySearch:
    """Search for the number of requests that a model's jobs may hold at once."""

    def __init__(self) -> None:
        self.max_in_flight: float = math.inf
        """Requests that jobs may hold now, at least 1."""
        self.lone_refusals = 0
        """Consecutive refusals of jobs with a single request and no other job in progress."""
        self._refused: float = math.inf
        """Fewest requests in progress at a refusal."""
        self._accepted = 0
        """Most requests in progress at an acceptance since then; 0: none."""
        self._taken, self._patience = 0, _JOBS_BEFORE_GROWTH

    def note_refusal(self, requests: int, others: int) -> None:
        """Record that a job of `requests` requests was refused while other jobs held `others`."""
        in_hand = requests + others
        self._refused = min(self._refused, in_hand)
        if in_hand <= self._accepted:
            self._accepted = 0  # others use more than before
        self._taken = 0
        self.lone_refusals += in_hand == 1
        self.max_in_flight = max(1, min(self.max_in_flight, others or self._accepted or requests // 2))

    def note_success(self, in_hand: int) -> None:
        """Record that a job was accepted, bringing the requests in progress to `in_hand`."""
        self.lone_refusals = 0
        if in_hand < self.max_in_flight:
            return  # it does not show that more would be taken
        if self._refused == math.inf:
            self._patience = _JOBS_BEFORE_GROWTH
        self._accepted = in_hand
        self._taken += 1
        if self._taken >= self._patience:
            self._taken, self._patience, self._refused = 0, 2 * self._patience, math.inf
        if self.max_in_flight * 2 < self._refused:
            self.max_in_flight *= 2
        elif self._refused - self.max_in_flight > self.max_in_flight // 2:
            self.max_in_flight = (self.max_in_flight + self._refused) // 2
