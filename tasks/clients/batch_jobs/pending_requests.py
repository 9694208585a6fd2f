"""Requests that wait for results of batch jobs, and the number of requests that one model's jobs may hold at once.

A server limits the tokens of all jobs of an account together, and others may use the same account. So neither the limit
nor what is left of it is known; `InFlightRequestLimitSearch` searches for it. A refused job halves the number, an accepted job lets
it grow again, and after some jobs at the size found the refusal is forgotten, since other jobs may have finished. A
refused job costs minutes and no money, a job that is too small costs up to a day.
"""

import asyncio
import math
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from factmill.tasks.clients.batch_jobs.job_files import JobStateFile
from factmill.tasks.core.calls.call import Call, CallResponse


@dataclass(frozen=True, slots=True)
class RequestForCallSamples:
    """One request for some or all samples of a call."""

    number: int
    """Position of the call among those passed to `send`."""
    call: Call
    samples: int
    seed: int | None

    @property
    def custom_id(self) -> str:
        """Id of the request in a batch job, at most 64 characters: the call's key, and the sample's seed."""
        return self.call.key[:48] if self.seed is None else f"{self.call.key[:48]}-{self.seed}"


@dataclass(eq=False, slots=True)
class RequestsSubmittedByThread:
    """Requests that one thread sent together."""

    arrived: SimpleQueue[list[tuple[RequestForCallSamples, CallResponse]] | None]
    done: asyncio.Future[None]
    open_count: int

    def finish(self, asked: RequestForCallSamples, reply: CallResponse) -> None:
        self.arrived.put([(asked, reply)])
        self.open_count -= 1
        if not self.open_count and not self.done.done():
            self.done.set_result(None)


@dataclass(eq=False, slots=True)
class BatchRequestWithWaiters:
    """One line of a job, and the submissions that wait for its result."""

    custom_id: str
    waiters: list[tuple[RequestsSubmittedByThread, RequestForCallSamples]] = field(default_factory=list)
    job: JobStateFile | None = None
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
    def asked(self) -> RequestForCallSamples:
        return self.waiters[0][1]


_JOBS_BEFORE_GROWTH = 4
"""Accepted jobs at the size found before a larger one is tried; doubled each time that one is refused."""


class InFlightRequestLimitSearch:
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
