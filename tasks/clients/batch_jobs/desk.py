"""Queue that gathers one model's requests into batch jobs, submits them, polls them and reads their results.

Any number of threads add requests. A job is submitted when it is full, or when no request was added for `poll_s`, so
that it holds what all batches of a stage ask at about the same time. Requests that a job leaves unanswered go into the
next one, as often as a single request would be tried. Jobs that an earlier process left are resumed where they hold
requests that are made now (job_files.py).

The state of requests and jobs changes only in the sending loop; files are read and written under a lock.
"""

import asyncio
import os
import shlex
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from factmill.tasks import progress
from factmill.tasks.clients.batch_jobs.job_files import JobFile, JobFiles, JobServer, JobsPlace
from factmill.tasks.clients.batch_jobs.lines import LineAnswer, Lines, count_requests, write_line
from factmill.tasks.clients.batch_jobs.remote import JobState, Remote, SpoiltFile, UnknownJob
from factmill.tasks.clients.batch_jobs.waiting import Asker, Request, Room, Sending, hear_line
from factmill.tasks.clients.openai_server import Answer
from factmill.tasks.clients.sending.budget import TightError, find_account
from factmill.tasks.clients.sending.sender import Retry, hand_over
from factmill.tasks.core.calls.call import Reply
from factmill.tasks.core.service_settings import Model
from factmill.tasks.errors import AccountBlocked, FactmillError, ServiceUnreachable
from factmill.tasks.settings import home

T = TypeVar("T")

_LONGEST_SETTLING = 10
"""Most times `poll_s` that a job waits for further requests."""
_TOO_MANY_TOKENS = "token_limit_exceeded"
"""Error code of a job refused because other jobs of the account are in progress."""
_AT_ONCE = 200
"""Lines written before the loop runs other tasks."""


class Desk(Generic[T]):
    """Answers one model's requests by batch jobs."""

    def __init__(self, model: Model, remote: Remote, asker: Asker[T], place: JobsPlace) -> None:
        self._model = model
        self._remote = remote
        self._asker = asker
        self._files = JobFiles(place, JobServer.of_model(model))
        self._given = "" if place.warehouse.parent == home() else f" --warehouse {shlex.quote(str(place.warehouse))}"
        """Option added to commands about jobs."""
        self._room = Room()
        self._pauses = remote.pauses()
        """Pauses after consecutive refused jobs."""
        self._requests: dict[str, Request[T]] = {}
        self._fresh: list[Request[T]] = []
        """Requests that are in no job yet."""
        self._followed: set[JobFile] = set()
        self._sendings: set[Sending[T]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._collector: asyncio.Task[None] | None = None

    def find_learnt(self) -> dict[str, Any] | None:
        """Return the model settings that open jobs had learnt; None where no job is open."""
        return self._files.find_learnt()

    def send(self, asked: Sequence[tuple[str, T]], deliver: Callable[[T, Reply], Iterable[str]]) -> None:
        """Answer every (custom id, request), calling `deliver` in this thread for each as its job is read.

        `deliver` returns the ids whose answers are now recorded, so that no job is kept for them, however the run ends.
        """
        if not asked:
            return
        arrived: SimpleQueue[list[tuple[T, Reply]] | None] = SimpleQueue()
        kept: list[str] = []

        def take(each: T, reply: Reply) -> None:
            kept.extend(deliver(each, reply))
            if arrived.empty():
                self._files.keep(kept)
                kept.clear()

        self._files.enter()
        try:
            hand_over(self._remote.name, self._take(asked, arrived), arrived, take)
            self._files.keep(custom_id for custom_id, _ in asked)
        except BaseException:  # however the run ends, its jobs continue at the server; re-raised
            self._say_what_goes_on()
            self._files.keep(kept)
            raise
        finally:
            self._files.leave()

    async def _take(self, asked: Sequence[tuple[str, T]], arrived: SimpleQueue[list[tuple[T, Reply]] | None]) -> None:
        """Add requests and wait until all are answered."""
        sending = Sending(arrived, asyncio.get_running_loop().create_future(), len(asked))
        self._sendings.add(sending)
        try:
            new = []
            for custom_id, each in asked:
                if custom_id not in self._requests:
                    self._requests[custom_id] = Request(custom_id)
                    new.append(custom_id)
                self._requests[custom_id].waiting.append((sending, each))
            self._place(new)
            await sending.done
        finally:
            self._sendings.discard(sending)
            if not self._sendings:
                self._let_go()

    def _place(self, new: Sequence[str]) -> None:
        """Assign requests to the jobs that already hold them, and gather the others."""
        left = set(new)
        for job in self._files.find(left):
            for custom_id in left & job.left:
                self._requests[custom_id].job = job
            left -= job.left
            if job not in self._followed:
                self._followed.add(job)
                self._start(self._go_on(job))
        self._gather(self._requests[custom_id] for custom_id in new if custom_id in left)

    def _gather(self, requests: Iterable[Request[T]]) -> None:
        for request in requests:
            request.job = None
            self._fresh.append(request)
        if self._fresh and (self._collector is None or self._collector.done()):
            self._collector = self._start(self._collect())

    def _let_go(self) -> None:
        """Stop following jobs once nobody waits. They continue at the server, and may cost all that was reserved for
        them."""
        for request in self._requests.values():
            self._remote.settle(request, None if request.goes_on else Reply(None))
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._requests.clear()
        self._fresh.clear()
        self._followed.clear()
        self._collector = None

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, and pass its error to every waiting thread."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 (raised in the threads that wait)
            for sending in list(self._sendings):
                if not sending.done.done():
                    sending.done.set_exception(error)

    async def _collect(self) -> None:
        """Submit jobs while requests are in none."""
        while self._fresh:
            await self._settle()
            while self._fresh:
                wanted = min(len(self._fresh), self._model.jobs.requests)
                while self._followed and self._find_room() < wanted:  # a job that is not full takes as long
                    await asyncio.sleep(self._model.jobs.poll_s)
                await self._hand_in()

    def _find_room(self) -> int:
        """Return how many requests a new job may have; below 1: none may be made."""
        return int(min(self._model.jobs.requests, self._room.now - self._count_in_hand()))

    def _count_in_hand(self) -> int:
        return sum(len(job.ids) for job in self._followed)

    async def _settle(self) -> None:
        """Wait until no further requests arrive, or a job is full."""
        for _ in range(_LONGEST_SETTLING):
            before = len(self._fresh)
            if before >= self._find_room():
                return
            await asyncio.sleep(self._model.jobs.poll_s)
            if len(self._fresh) == before:
                return

    async def _hand_in(self) -> None:
        """Submit one job of the waiting requests, and follow it."""
        await self._ask_few_singly()
        learnt, most = self._asker.learnt(), max(1, self._find_room())
        for request in self._fresh[:most]:
            learnt |= request.learnt
        requests, content = await self._write(learnt, most)
        if not requests:
            return
        job = self._files.begin(
            f"factmill-{os.urandom(8).hex()}.jsonl", [request.custom_id for request in requests], learnt
        )
        for request in requests:
            request.job = job
        self._followed.add(job)
        job.in_hand = self._count_in_hand()
        await self._submit(job, content)
        self._start(self._follow(job))

    async def _ask_few_singly(self) -> None:
        """Send few requests left over from jobs singly, when no others wait: they are not worth a job's time.

        Those that fail are left to a job after all.
        """
        few = [request for request in self._fresh if request.tries]
        jobs = self._model.jobs
        if not jobs.first_singly or len(few) < len(self._fresh) or len(few) > jobs.few_singly:
            return
        for request in few:
            try:
                reply = await self._asker.ask(request.asked)
            except AccountBlocked:
                raise
            except (Retry, TimeoutError, TightError, FactmillError):
                return
            self._fresh.remove(request)
            self._finish(request, reply)

    async def _write(self, learnt: Mapping[str, Any], most: int) -> tuple[list[Request[T]], bytes]:
        """Take at most `most` waiting requests for one job; return them with their lines, all built with the same
        settings."""
        most_bytes = self._model.jobs.megabytes * 1e6
        requests: list[Request[T]] = []
        lines: list[bytes] = []
        size = taken = 0
        while taken < len(self._fresh) and len(requests) < most:
            request = self._fresh[taken]
            body = self._asker.write(request.asked, learnt)
            if isinstance(body, Reply):
                self._finish(request, body)
            else:
                line = write_line(request.custom_id, body)
                if requests and size + len(line) > most_bytes:
                    break
                request.held = await self._remote.hold(body, waits=not requests)
                if request.held is None:
                    break
                requests.append(request)
                lines.append(line)
                size += len(line)
            taken += 1
            if taken % _AT_ONCE == 0:
                await asyncio.sleep(0)
        del self._fresh[:taken]
        return requests, b"".join(lines)

    async def _submit(self, job: JobFile, content: bytes) -> None:
        """Submit a job. From here on it costs money; the highest cost of its lines is reserved (`Remote.hold`)."""
        file_id = await self._remote.upload(job.name, content)
        job.note(file=file_id, key_mark=await self._remote.mark_key())
        await self._create(job)
        progress.say(
            f"job {job.job_id}: {count_requests(len(job.ids))} to {self._model.name} handed in; done within "
            f"{self._model.jobs.window}, as a rule"
        )

    async def _create(self, job: JobFile) -> None:
        try:
            job.note(job=await self._remote.create(job))
        except SpoiltFile:
            self._files.forget(job)
            raise

    async def _go_on(self, job: JobFile) -> None:
        """Resume a job that is known from its file: one of an earlier process, or one whose answers others have read."""
        await asyncio.sleep(self._model.jobs.poll_s)  # other requests in it may arrive; it is read once
        if not job.job_id and (job_id := await self._remote.find_job(job)):
            job.note(job=job_id)
        if not job.job_id:
            if not job.file_id and (file_id := await self._remote.find_file(job.name)):
                job.note(file=file_id)
            if not job.file_id or await self._remote.has_lost_file(job):
                self._ask_anew(job)
                return
            await self._create(job)
            progress.say(f"job {job.job_id}: made of {count_requests(len(job.ids))} that an earlier run had uploaded")
        elif not job.ended:
            progress.say(
                f"job {job.job_id}: going on with {count_requests(len(job.ids))} that an earlier run handed in"
            )
        await self._follow(job)

    def _ask_anew(self, job: JobFile) -> None:
        """Gather again the requests of a job that never reached the server."""
        requests = self._list_waiting(job)
        for request in requests:
            self._remote.settle(request, Reply(None))
        self._followed.discard(job)
        self._files.forget(job)
        self._gather(requests)

    def _list_waiting(self, job: JobFile) -> list[Request[T]]:
        """Return the requests assigned to a job that still wait for an answer."""
        known = (self._requests.get(custom_id) for custom_id in sorted(job.left))
        return [request for request in known if request and request.job is job]

    async def _follow(self, job: JobFile) -> None:
        """Poll a job until it has ended, and read it."""
        said = ""
        for pause_s in self._remote.pauses():
            try:
                state = await self._remote.look(job)
            except UnknownJob as error:
                job.said = True
                raise ServiceUnreachable(f"{error}{self._given}") from None
            if not state.is_lost and (told := state.describe(len(job.ids))) != said:
                said = told
                progress.say(f"job {job.job_id}: {told}")
            if state.has_ended:
                break
            await find_account().budget.sleep(pause_s)  # the budget's time may end first: the job continues by itself
        lines = await self._remote.read(state, job.ids)
        job.ended = True
        if state.status == "failed" and not lines.answers:
            await self._mend(job, state)
        else:
            self._followed.discard(job)
            self._room.note_success(job.in_hand)
            self._pauses = self._remote.pauses()
            await self._probe(job, lines)
            self._take_up(job, state, lines)

    async def _probe(self, job: JobFile, lines: Lines) -> None:
        """Probe singly what the server refuses in a job without naming it, before its lines are given up."""
        if not self._model.jobs.first_singly:
            return
        waiting = [(request, lines.answers.get(request.custom_id)) for request in self._list_waiting(job)]
        answered = [
            (request.asked, Answer(line.status, line.text, None)) for request, line in waiting if line and line.status
        ]
        try:
            found = await self._asker.probe(answered, job.learnt)
        except (Retry, TimeoutError, TightError, FactmillError) as error:
            progress.say(f"note: job {job.job_id}: what is refused in it could not be found out: {error}")
            return
        for request, _ in waiting:
            if found and request.asked is found[0]:
                self._remote.settle(request, Reply(None))
                self._finish(request, found[1])

    async def _mend(self, job: JobFile, state: JobState) -> None:
        """Handle a job that failed as a whole: make smaller ones where the server has too much in progress, else raise."""
        why = "; ".join(state.errors) or "it gives no reason"
        is_full = _TOO_MANY_TOKENS in why
        if is_full:
            self._room.note_refusal(len(job.ids), max(0, job.in_hand - len(job.ids)))
        if not is_full or self._room.lone_refusals >= self._model.limits.attempts:
            self._files.forget(job)
            raise ServiceUnreachable(f"{self._remote.name}: job {job.job_id} failed, and nothing of it was done: {why}")
        progress.say(
            f"note: job {job.job_id}: {why}. All jobs together have {count_requests(int(self._room.now))} at most from now on, "
            "and more again when such are taken"
        )
        await find_account().budget.sleep(next(self._pauses))
        self._ask_anew(job)

    def _take_up(self, job: JobFile, state: JobState, lines: Lines) -> None:
        """Deliver the results of a job, and gather again the requests that it leaves unanswered."""
        again: list[Request[T]] = []
        stop: dict[str, FactmillError] = {}
        cancelled = 0
        for request in self._list_waiting(job):
            answer = lines.answers.get(request.custom_id)
            if state.is_cancelled and (answer is None or not answer.status):
                cancelled += 1
                continue
            try:
                if self._is_to_be_asked_again(request, job, answer, state):
                    again.append(request)
            except FactmillError as error:
                stop[request.custom_id] = error
        if stop:
            self._files.keep(stop)
            raise next(iter(stop.values()))
        if cancelled:
            self._files.forget(job)
            raise ServiceUnreachable(
                f"{self._remote.name}: job {job.job_id} was cancelled; what it had done is kept, without an answer "
                f"stay {count_requests(cancelled)}. The same command asks in a new job what is left"
            )
        if state.is_lost:
            self._files.forget(job)
        if again:
            why = "lost, since the server knows it no more" if state.is_lost else "left unanswered"
            progress.say(f"note: job {job.job_id}: {count_requests(len(again))} {why}, which another job asks")
            # requests asked again unchanged need this job no more; those asked with other settings need what it learnt
            self._files.drop(job, [request.custom_id for request in again if not request.learnt])
            self._gather(again)

    def _is_to_be_asked_again(
        self, request: Request[T], job: JobFile, answer: LineAnswer | None, state: JobState
    ) -> bool:
        """Deliver the result of a request; True where another job has to ask it again."""
        try:
            heard = hear_line(self._asker, request.asked, job.learnt, answer, state.status)
        except Retry as trouble:
            self._remote.bill_failed_line(request, answer)
            request.tries += 1
            if request.tries < self._model.limits.attempts:
                return True
            heard = Reply(None, "failed", error=str(trouble), transient=True)
        if not isinstance(heard, Reply):
            self._remote.settle(request, Reply(None))
            request.learnt = {**job.learnt, **heard}
            return True
        heard = replace(heard, latency_s=state.seconds, cost_usd=heard.cost_usd * self._model.batch_price)
        self._remote.settle(request, heard)
        self._finish(request, heard)
        return False

    def _finish(self, request: Request[T], reply: Reply) -> None:
        self._requests.pop(request.custom_id, None)
        for sending, asked in request.waiting:
            sending.finish(asked, reply)

    def _say_what_goes_on(self) -> None:
        """Report for each job that continues without us how to resume it and how to cancel it."""
        for job in self._files.tell_open():
            progress.say(
                f"note: job {job.job_id} goes on at the server, and is paid for; the same command goes on with it. To cancel "
                f"it: factmill jobs cancel {shlex.quote(job.job_id)}{self._given}"
            )
