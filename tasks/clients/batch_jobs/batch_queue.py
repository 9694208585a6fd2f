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
from typing import TYPE_CHECKING, Any

from factmill.tasks import progress
from factmill.tasks.clients.batch_jobs.job_files import (
    BatchJobsFolderAndRun,
    JobFilesOfOneQueue,
    JobModelAndServerSettings,
    JobStateFile,
)
from factmill.tasks.clients.batch_jobs.jsonl import ParsedBatchResults, format_request_count, format_request_line
from factmill.tasks.clients.batch_jobs.openai_batches import (
    BatchJobState,
    OpenAiBatchClient,
    UnknownBatchJobError,
    UnprocessableFileError,
)
from factmill.tasks.clients.batch_jobs.pending_requests import (
    BatchRequestWithWaiters,
    InFlightRequestLimitSearch,
    RequestForCallSamples,
    RequestsSubmittedByThread,
)
from factmill.tasks.clients.openai_server import ServerResponse
from factmill.tasks.clients.sending.budget import BudgetFullyReserved, get_current_budget_account
from factmill.tasks.clients.sending.sender import Retry, run_in_sending_loop_and_deliver
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import AccountBlocked, FactmillError, ServiceUnreachable
from factmill.tasks.settings import factmill_home

if TYPE_CHECKING:
    from factmill.tasks.clients.chat import ChatClient

_MAX_COLLECTING_ROUNDS = 10
"""Most times `poll_s` that a job waits for further requests."""
_TOKEN_LIMIT_ERROR_CODE = "token_limit_exceeded"
"""Error code of a job refused because other jobs of the account are in progress."""
_LINES_PER_LOOP_TURN = 200
"""Lines written before the loop runs other tasks."""


class BatchQueue:
    """Answers one model's requests by batch jobs; the chat client builds the requests and reads the results."""

    def __init__(
        self, model: ModelSettings, remote: OpenAiBatchClient, asker: "ChatClient", place: BatchJobsFolderAndRun
    ) -> None:
        self._model = model
        self._remote = remote
        self._asker = asker
        self._files = JobFilesOfOneQueue(place, JobModelAndServerSettings.of_model(model))
        self._warehouse_option = (
            "" if place.warehouse.parent == factmill_home() else f" --warehouse {shlex.quote(str(place.warehouse))}"
        )
        """Option added to commands about jobs."""
        self._capacity = InFlightRequestLimitSearch()
        self._pauses = remote.iterate_poll_pauses()
        """Pauses after consecutive refused jobs."""
        self._requests: dict[str, BatchRequestWithWaiters] = {}
        self._unassigned: list[BatchRequestWithWaiters] = []
        """Requests that are in no job yet."""
        self._followed_jobs: set[JobStateFile] = set()
        self._submissions: set[RequestsSubmittedByThread] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._collector: asyncio.Task[None] | None = None

    def find_learnt_settings(self) -> dict[str, Any] | None:
        """Return the model settings that open jobs had learnt; None where no job is open."""
        return self._files.find_learnt_settings()

    def send(
        self,
        asked: Sequence[RequestForCallSamples],
        deliver: Callable[[RequestForCallSamples, CallResponse], Iterable[str]],
    ) -> None:
        """Answer every request, calling `deliver` in this thread for each as its job is read.

        `deliver` returns the ids whose answers are now recorded, so that no job is kept for them, however the run ends.
        """
        if not asked:
            return
        arrived: SimpleQueue[list[tuple[RequestForCallSamples, CallResponse]] | None] = SimpleQueue()
        kept: list[str] = []

        def take(each: RequestForCallSamples, reply: CallResponse) -> None:
            kept.extend(deliver(each, reply))
            if arrived.empty():
                self._files.mark_recorded(kept)
                kept.clear()

        self._files.add_user()
        try:
            run_in_sending_loop_and_deliver(self._remote.name, self._submit_requests(asked, arrived), arrived, take)
            self._files.mark_recorded(each.custom_id for each in asked)
        except BaseException:  # however the run ends, its jobs continue at the server; re-raised
            self._report_open_jobs()
            self._files.mark_recorded(kept)
            raise
        finally:
            self._files.remove_user()

    async def _submit_requests(
        self,
        asked: Sequence[RequestForCallSamples],
        arrived: SimpleQueue[list[tuple[RequestForCallSamples, CallResponse]] | None],
    ) -> None:
        """Add requests and wait until all are answered.

        Once nobody waits, jobs are no longer followed. They continue at the server, and may cost all that was reserved.
        """
        sending = RequestsSubmittedByThread(arrived, asyncio.get_running_loop().create_future(), len(asked))
        self._submissions.add(sending)
        try:
            new = []
            for each in asked:
                if each.custom_id not in self._requests:
                    self._requests[each.custom_id] = BatchRequestWithWaiters(each.custom_id)
                    new.append(each.custom_id)
                self._requests[each.custom_id].waiters.append((sending, each))
            self._assign_to_jobs(new)
            await sending.done
        finally:
            self._submissions.discard(sending)
            if not self._submissions:
                for request in self._requests.values():
                    self._remote.charge_line_cost(request, None if request.is_in_open_job else CallResponse(None))
                for task in self._tasks:
                    task.cancel()
                self._tasks.clear()
                self._requests.clear()
                self._unassigned.clear()
                self._followed_jobs.clear()
                self._collector = None

    def _assign_to_jobs(self, new: Sequence[str]) -> None:
        """Assign requests to the jobs that already hold them, and gather the others."""
        left = set(new)
        for job in self._files.lock_jobs_with(left):
            for custom_id in left & job.open_ids:
                self._requests[custom_id].job = job
            left -= job.open_ids
            if job not in self._followed_jobs:
                self._followed_jobs.add(job)
                self._start_task(self._resume_job(job))
        self._enqueue(self._requests[custom_id] for custom_id in new if custom_id in left)

    def _enqueue(self, requests: Iterable[BatchRequestWithWaiters]) -> None:
        for request in requests:
            request.job = None
            self._unassigned.append(request)
        if self._unassigned and (self._collector is None or self._collector.done()):
            self._collector = self._start_task(self._collect())

    def _start_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._forward_errors(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _forward_errors(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine, and pass its error to every waiting thread."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 (raised in the threads that wait)
            for sending in list(self._submissions):
                if not sending.done.done():
                    sending.done.set_exception(error)

    async def _collect(self) -> None:
        """Submit jobs while requests are in none."""
        while self._unassigned:
            await self._wait_for_more_requests()
            while self._unassigned:
                wanted = min(len(self._unassigned), self._model.jobs.requests)
                # a job that is not full takes as long
                while self._followed_jobs and self._get_free_capacity() < wanted:
                    await asyncio.sleep(self._model.jobs.poll_s)
                await self._submit_next_job()

    def _get_free_capacity(self) -> int:
        """Return how many requests a new job may have; below 1: none may be made."""
        return int(min(self._model.jobs.requests, self._capacity.max_in_flight - self._count_in_flight()))

    def _count_in_flight(self) -> int:
        return sum(len(job.request_ids) for job in self._followed_jobs)

    async def _wait_for_more_requests(self) -> None:
        """Wait until no further requests arrive, or a job is full."""
        for _ in range(_MAX_COLLECTING_ROUNDS):
            before = len(self._unassigned)
            if before >= self._get_free_capacity():
                return
            await asyncio.sleep(self._model.jobs.poll_s)
            if len(self._unassigned) == before:
                return

    async def _submit_next_job(self) -> None:
        """Submit one job of the waiting requests, and follow it.

        From its upload on it costs money; the highest cost of its lines is reserved.
        """
        await self._send_few_singly()
        learnt, most = self._asker.learnt_settings(), max(1, self._get_free_capacity())
        for request in self._unassigned[:most]:
            learnt |= request.learnt
        requests, content = await self._write_job_lines(learnt, most)
        if not requests:
            return
        job = self._files.create(
            f"factmill-{os.urandom(8).hex()}.jsonl", [request.custom_id for request in requests], learnt
        )
        for request in requests:
            request.job = job
        self._followed_jobs.add(job)
        job.requests_in_flight = self._count_in_flight()
        file_id = await self._remote.upload(job.name, content)
        job.append(file=file_id, key_mark=await self._remote.digest_credentials())
        await self._create(job)
        progress.print_and_log(
            f"job {job.job_id}: submitted {format_request_count(len(job.request_ids))} to {self._model.name}; expected to end within "
            f"{self._model.jobs.window}"
        )
        self._start_task(self._poll_until_ended(job))

    async def _send_few_singly(self) -> None:
        """Send few requests left over from jobs singly, when no others wait: they are not worth a job's time.

        Those that fail are left to a job after all.
        """
        few = [request for request in self._unassigned if request.tries]
        jobs = self._model.jobs
        if not jobs.first_singly or len(few) < len(self._unassigned) or len(few) > jobs.few_singly:
            return
        for request in few:
            try:
                reply = await self._asker.send_singly(request.asked)
            except AccountBlocked:
                raise
            except (Retry, TimeoutError, BudgetFullyReserved, FactmillError):
                return
            self._unassigned.remove(request)
            self._finish(request, reply)

    async def _write_job_lines(
        self, learnt: Mapping[str, Any], most: int
    ) -> tuple[list[BatchRequestWithWaiters], bytes]:
        """Take at most `most` waiting requests; return them with their lines, all built with the same settings."""
        most_bytes = self._model.jobs.megabytes * 1e6
        requests: list[BatchRequestWithWaiters] = []
        lines: list[bytes] = []
        size = taken = 0
        while taken < len(self._unassigned) and len(requests) < most:
            request = self._unassigned[taken]
            body = self._asker.build_request_body(request.asked, learnt)
            if isinstance(body, CallResponse):
                self._finish(request, body)
            else:
                line = format_request_line(request.custom_id, body)
                if requests and size + len(line) > most_bytes:
                    break
                request.reservation = await self._remote.reserve_line_cost(body, waits=not requests)
                if request.reservation is None:
                    break
                requests.append(request)
                lines.append(line)
                size += len(line)
            taken += 1
            if taken % _LINES_PER_LOOP_TURN == 0:
                await asyncio.sleep(0)
        del self._unassigned[:taken]
        return requests, b"".join(lines)

    async def _create(self, job: JobStateFile) -> None:
        try:
            job.append(job=await self._remote.create(job))
        except UnprocessableFileError:
            self._files.delete(job)
            raise

    async def _resume_job(self, job: JobStateFile) -> None:
        """Resume a job that is known from its file: one of an earlier process, or one whose answers others have read."""
        await asyncio.sleep(self._model.jobs.poll_s)  # other requests in it may arrive; it is read once
        if not job.job_id and (job_id := await self._remote.find_job(job)):
            job.append(job=job_id)
        if not job.job_id:
            if not job.file_id and (file_id := await self._remote.find_file(job.name)):
                job.append(file=file_id)
            if not job.file_id or await self._remote.has_lost_file(job):
                self._requeue(job)
                return
            await self._create(job)
            progress.print_and_log(
                f"job {job.job_id}: created from {format_request_count(len(job.request_ids))} that an earlier run uploaded"
            )
        elif not job.has_been_read:
            progress.print_and_log(
                f"job {job.job_id}: resuming {format_request_count(len(job.request_ids))} that an earlier run submitted"
            )
        await self._poll_until_ended(job)

    def _requeue(self, job: JobStateFile) -> None:
        """Gather again the requests of a job that never reached the server."""
        requests = self._list_waiting(job)
        for request in requests:
            self._remote.charge_line_cost(request, CallResponse(None))
        self._followed_jobs.discard(job)
        self._files.delete(job)
        self._enqueue(requests)

    def _list_waiting(self, job: JobStateFile) -> list[BatchRequestWithWaiters]:
        """Return the requests assigned to a job that still wait for an answer."""
        known = (self._requests.get(custom_id) for custom_id in sorted(job.open_ids))
        return [request for request in known if request and request.job is job]

    async def _poll_until_ended(self, job: JobStateFile) -> None:
        """Poll a job until it has ended, and read it."""
        last_progress = ""
        for pause_s in self._remote.iterate_poll_pauses():
            try:
                state = await self._remote.fetch_state(job)
            except UnknownBatchJobError as error:
                job.is_reported = True
                raise ServiceUnreachable(f"{error}{self._warehouse_option}") from None
            if not state.is_lost and (progress_text := state.format_progress(len(job.request_ids))) != last_progress:
                last_progress = progress_text
                progress.print_and_log(f"job {job.job_id}: {progress_text}")
            if state.has_ended:
                break
            # the budget's time may end first: the job continues by itself
            await get_current_budget_account().budget.sleep(pause_s)
        lines = await self._remote.download_results(state, job.request_ids)
        job.has_been_read = True
        if state.status == "failed" and not lines.results:
            await self._handle_failed_job(job, state)
        else:
            self._followed_jobs.discard(job)
            self._capacity.note_success(job.requests_in_flight)
            self._pauses = self._remote.iterate_poll_pauses()
            await self._probe(job, lines)
            self._deliver_results(job, state, lines)

    async def _probe(self, job: JobStateFile, lines: ParsedBatchResults) -> None:
        """Probe singly what the server refuses in a job without naming it, before its lines are given up."""
        if not self._model.jobs.first_singly:
            return
        waiting = [(request, lines.results.get(request.custom_id)) for request in self._list_waiting(job)]
        answered = [(request.asked, line) for request, line in waiting if line and line.status]
        try:
            found = await self._asker.probe_refusals(answered, job.learnt)
        except (Retry, TimeoutError, BudgetFullyReserved, FactmillError) as error:
            progress.print_and_log(
                f"note: job {job.job_id}: could not find out why the server refuses requests in it: {error}"
            )
            return
        for request, _ in waiting:
            if found and request.asked is found[0]:
                self._remote.charge_line_cost(request, CallResponse(None))
                self._finish(request, found[1])

    async def _handle_failed_job(self, job: JobStateFile, state: BatchJobState) -> None:
        """Handle a job that failed as a whole: make smaller ones where the server has too much in progress, else raise."""
        why = "; ".join(state.errors) or "the server gives no reason"
        is_full = _TOKEN_LIMIT_ERROR_CODE in why
        if is_full:
            self._capacity.note_refusal(len(job.request_ids), max(0, job.requests_in_flight - len(job.request_ids)))
        if not is_full or self._capacity.lone_refusals >= self._model.limits.attempts:
            self._files.delete(job)
            raise ServiceUnreachable(f"{self._remote.name}: job {job.job_id} failed and answered no request: {why}")
        progress.print_and_log(
            f"note: job {job.job_id}: {why}. From now on all jobs together hold at most {format_request_count(int(self._capacity.max_in_flight))}; "
            "the limit rises again after the server accepts such jobs"
        )
        await get_current_budget_account().budget.sleep(next(self._pauses))
        self._requeue(job)

    def _deliver_results(self, job: JobStateFile, state: BatchJobState, lines: ParsedBatchResults) -> None:
        """Deliver the results of a job, and gather again the requests that it leaves unanswered."""
        again: list[BatchRequestWithWaiters] = []
        stop: dict[str, FactmillError] = {}
        cancelled = 0
        for request in self._list_waiting(job):
            answer = lines.results.get(request.custom_id)
            if state.is_cancelled and (answer is None or not answer.status):
                cancelled += 1
                continue
            try:
                if self._deliver_or_retry(request, job, answer, state):
                    again.append(request)
            except FactmillError as error:
                stop[request.custom_id] = error
        if stop:
            self._files.mark_recorded(stop)
            raise next(iter(stop.values()))
        if cancelled:
            self._files.delete(job)
            raise ServiceUnreachable(
                f"{self._remote.name}: job {job.job_id} was cancelled. Its finished answers are recorded; "
                f"{format_request_count(cancelled)} remained without an answer. The same command submits the rest in a new job"
            )
        if state.is_lost:
            self._files.delete(job)
        if again:
            why = "lost, since the server no longer knows the job" if state.is_lost else "without an answer"
            progress.print_and_log(
                f"note: job {job.job_id}: {format_request_count(len(again))} {why}; another job sends them again"
            )
            # requests asked again unchanged need this job no more; those asked with other settings need what it learnt
            self._files.drop_requests(job, [request.custom_id for request in again if not request.learnt])
            self._enqueue(again)

    def _deliver_or_retry(
        self, request: BatchRequestWithWaiters, job: JobStateFile, answer: ServerResponse | None, state: BatchJobState
    ) -> bool:
        """Deliver the result of a request; True where another job has to ask it again."""
        try:
            response = self._asker.read_batch_result(request.asked, job.learnt, answer, state.status)
        except Retry as trouble:
            self._remote.bill_failed_line(request, answer)
            request.tries += 1
            if request.tries < self._model.limits.attempts:
                return True
            response = CallResponse(None, "failed", error=str(trouble), transient=True)
        if not isinstance(response, CallResponse):
            self._remote.charge_line_cost(request, CallResponse(None))
            request.learnt = {**job.learnt, **response}
            return True
        response = replace(response, latency_s=state.seconds, cost_usd=response.cost_usd * self._model.batch_price)
        self._remote.charge_line_cost(request, response)
        self._finish(request, response)
        return False

    def _finish(self, request: BatchRequestWithWaiters, reply: CallResponse) -> None:
        self._requests.pop(request.custom_id, None)
        for sending, asked in request.waiters:
            sending.finish(asked, reply)

    def _report_open_jobs(self) -> None:
        for job in self._files.list_unreported_jobs():
            progress.print_and_log(
                f"note: job {job.job_id} continues at the server and costs money; the same command resumes it. To cancel "
                f"it: factmill jobs --cancel {shlex.quote(job.job_id)}{self._warehouse_option}"
            )
