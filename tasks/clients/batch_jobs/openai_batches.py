"""Client of a server's files and batch jobs in the OpenAI protocol (`/v1/files`, `/v1/batches`).

Callers wait for hours anyway, so a request to an unavailable server is repeated until it is answered. A request to
create a job may succeed although its response is lost, so jobs are found again by their mark.

A job unknown to the server counts as lost only where that is certain: the key is the one that submitted it, and the
server lists jobs without this one. Otherwise it may be running, and asking its requests again would pay for them twice.
"""

import asyncio
import itertools
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from factmill.tasks import progress
from factmill.tasks.clients.batch_jobs.job_files import JobStateFile
from factmill.tasks.clients.batch_jobs.jsonl import (
    CHAT_ENDPOINT,
    ParsedBatchResults,
    format_request_count,
    parse_result_lines,
)
from factmill.tasks.clients.batch_jobs.pending_requests import BatchRequestWithWaiters
from factmill.tasks.clients.completions import find_content_or_length_refusal
from factmill.tasks.clients.openai_server import OpenAiServerClient, ServerResponse
from factmill.tasks.clients.sending.budget import BudgetFullyReserved, get_current_budget_account
from factmill.tasks.clients.sending.http_responses import (
    find_final_http_failure_or_raise,
    parse_json_body,
    shorten_to_line,
)
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.errors import BudgetExhausted, ServiceUnreachable

T = TypeVar("T")

_PAUSE_GROWTH, _MAX_PAUSE_FACTOR = 1.5, 10
_MAX_UNANSWERED = 60
"""Most requests in a row without an answer from a server that has answered before."""
_REPORTED_WAIT_S = 60.0
"""Waits that a server asks for are reported from this length on."""
_MAX_LIST_PAGES = 20
_LIST_PAGE_SIZE = 100
_LOST_STATUS = "lost"
_ENDED_STATUSES = frozenset({"completed", "failed", "expired", "cancelled", "canceled", _LOST_STATUS})
_UNSUPPORTED_STATUSES = frozenset({404, 405, 501})
_FILE_PENDING_STATUSES = frozenset({"pending", "running", "processing", "validating", "queued", "importing"})
_FILE_FAILED_STATUSES = frozenset({"error", "failed"})
_FILE_NOT_READY_WORDING = re.compile(
    r"\A(?>.*?\bfile\b).*(not (yet )?(been )?(fully )?(processed|ready|validated|available)|(still|being) \w*(process|validat|upload|import)"
    r"|(pending|running)\b)",
    re.IGNORECASE | re.DOTALL,
)
"""Wording of a server that is asked for a job of a file it has not processed yet."""
_FILE_NOT_FOUND_WORDING = re.compile(
    r"\A(?>.*?\bfile\b).*(not found|not be found|not exist|no longer exist)|no such file", re.IGNORECASE | re.DOTALL
)
"""Wording about a file that the server lost, or does not know everywhere yet."""


class UnknownBatchJobError(ServiceUnreachable):
    """A server does not know a job that may still be running; the text ends with the command that gives it up."""


class UnprocessableFileError(ServiceUnreachable):
    """A server cannot process the file of a job, so no job is made from it."""


@dataclass(frozen=True, slots=True)
class BatchJobState:
    """State of a job at its server."""

    job_id: str
    status: str
    done: int
    failed: int
    total: int
    files: tuple[str, ...]
    """Files with results: output and errors."""
    errors: tuple[str, ...]
    """Why a job failed as a whole: a code, a colon and details each."""
    seconds: float
    """How long the job took; 0 while it runs."""

    @property
    def has_ended(self) -> bool:
        return self.status in _ENDED_STATUSES

    @property
    def is_cancelled(self) -> bool:
        return self.status in ("cancelled", "canceled")

    @property
    def is_lost(self) -> bool:
        """True where the server no longer knows it."""
        return self.status == _LOST_STATUS

    def format_progress(self, requests: int) -> str:
        """Format the job's progress as text; `requests`: how many it holds."""
        failed = f", {self.failed:,} failed" if self.failed else ""
        return f"{self.done:,} of {self.total or requests:,} done{failed}, {self.status}"


class OpenAiBatchClient:
    """Client of the batch jobs of one model's server."""

    _batches = "/batches"
    """URL path of jobs."""

    def __init__(
        self, server: OpenAiServerClient, jobs: BatchJobSettings, attempts: int, most_silent: int = _MAX_UNANSWERED
    ) -> None:
        """`attempts`: tries for a server that has not answered yet; `most_silent`: tries for one that has."""
        self.name = server.name
        self.digest_credentials = server.credentials.digest
        self._server = server
        self._jobs = jobs
        self._attempts, self._most_silent = attempts, most_silent
        self._was_answered = False

    def iterate_poll_pauses(self) -> "itertools.accumulate[float]":
        """Return the growing pauses between polls, in seconds."""
        first = self._jobs.poll_s
        return itertools.accumulate(
            itertools.repeat(first), lambda pause, _: min(pause * _PAUSE_GROWTH, first * _MAX_PAUSE_FACTOR)
        )

    async def reserve_line_cost(self, body: Mapping[str, Any], *, waits: bool) -> int | None:
        """Count a line of a job as a request and reserve its highest cost (sending/budget.py); None where that does not
        fit now.

        With `waits`, wait for other requests to free the budget; BudgetExhausted when that is not enough.
        """
        budget = get_current_budget_account().budget
        while True:
            try:
                # all lines go at once, so no first line tests the server's limits
                return self._server.reserve_cost(body, is_probed=False, share=self._server.model.batch_price)
            except BudgetFullyReserved:
                if not waits:
                    return None
                await budget.wait_for_free_budget()
            except BudgetExhausted:
                if not waits:
                    return None
                await budget.wait_until_idle()
                raise

    def charge_line_cost(self, request: BatchRequestWithWaiters, reply: CallResponse | None) -> None:
        """Charge the budget with the cost of a line; None: it is unknown, so everything reserved counts as spent.

        Lines of jobs that an earlier run submitted have no reservation: that run's own budget covered them.
        """
        budget, held = get_current_budget_account().budget, request.reservation
        request.reservation = None
        if held is not None and (reply is None or (reply.body is not None and not reply.tokens_in)):
            budget.charge_reservation(held)  # an answer without usage may have cost all of it too
        elif held is not None and reply is not None:
            budget.settle(held, reply.cost_usd)

    def bill_failed_line(self, request: BatchRequestWithWaiters, answer: ServerResponse | None) -> None:
        """Charge the budget with the cost of a line whose result is unusable; None: the job has no line for it."""
        if answer is None:
            self.charge_line_cost(request, None)
        elif not answer.status:  # an error in place of an answer
            self.charge_line_cost(request, CallResponse(None))
        else:
            cost_usd, _ = self._server.compute_cost(answer)
            share = self._server.model.batch_price
            self.charge_line_cost(request, None if cost_usd is None else CallResponse(None, cost_usd=share * cost_usd))

    async def upload(self, name: str, content: bytes) -> str:
        """Upload the file of a job; return its id."""

        async def send() -> str:
            answer = await self._server.upload(name, content, "batch")
            self._check_response(
                answer, "accepts no files, so it has no batch jobs; remove `mode` from this model in the world's file"
            )
            return read_object_id(parse_json_body(answer.text))

        return await self._request_until_answered(send)

    async def create(self, job: JobStateFile) -> str:
        """Create a job from its uploaded file once the server has processed it; return the job's id.

        A job whose creation was not answered is taken. UnprocessableFileError when the file cannot be processed.
        """
        await self._wait_for_file(job.file_id)
        body = {
            "input_file_id": job.file_id,
            "endpoint": CHAT_ENDPOINT,
            "completion_window": self._jobs.window,
            "metadata": {"factmill": job.name},
        }
        tried, not_found = False, 0

        async def make() -> str:
            nonlocal tried, not_found
            if tried and (found := await self._find_id_or_report("batches", job.name)):
                return found
            tried = True
            answer = await self._server.post(self._batches, body)
            if 400 <= answer.status < 500:
                not_found += bool(_FILE_NOT_FOUND_WORDING.search(answer.text))
                if _FILE_NOT_READY_WORDING.search(answer.text) or 0 < not_found < self._attempts:
                    tried = False  # the request was answered, so no job was made
                    raise Retry(f"file_not_ready: {shorten_to_line(answer.text)}")
            self._check_response(answer, "has no batch jobs; remove `mode` from this model in the world's file")
            return read_object_id(parse_json_body(answer.text))

        return await self._request_until_answered(make)

    async def _wait_for_file(self, file_id: str) -> None:
        """Wait until the server has processed a file.

        Where the server gives no status, or still `uploaded` after some polls, creating the job decides.
        """

        async def look() -> Any:
            answer = await self._server.get(f"/files/{quote(file_id, safe='')}")
            if answer.status in _UNSUPPORTED_STATUSES:
                return {}
            self._check_response(answer, "")
            return parse_json_body(answer.text)

        for looks, pause_s in enumerate(self.iterate_poll_pauses(), 1):
            file = await self._request_until_answered(look)
            status = str(file.get("status")).lower() if isinstance(file, dict) else ""
            if status in _FILE_FAILED_STATUSES:
                why = shorten_to_line(str(file.get("status_details") or "the server gives no reason"))
                raise UnprocessableFileError(
                    f"{self.name}: cannot process the file {file_id} of a batch job, so no job was created from it: {why}. The same "
                    "command uploads the requests again"
                )
            if status not in _FILE_PENDING_STATUSES and (status != "uploaded" or looks >= self._attempts):
                return
            if looks == 2:
                progress.print_and_log(f"note: {self.name}: waiting for its file {file_id}, which is {status}")
            await get_current_budget_account().budget.sleep(pause_s)

    async def fetch_state(self, job: JobStateFile) -> BatchJobState:
        """Return the state of a job at the server, or that it is lost; UnknownBatchJobError when it is unknown there but may be
        running."""
        unknown = 0

        async def ask() -> BatchJobState | None:
            nonlocal unknown
            answer = await self._server.get(f"{self._batches}/{quote(job.job_id, safe='')}")
            if answer.status == 404:
                if (unknown := unknown + 1) < self._attempts:
                    # a server that has just started may not have loaded all jobs yet
                    raise Retry(f"http_404: {shorten_to_line(answer.text)}")
                return None
            self._check_response(answer, "has no batch jobs; remove `mode` from this model in the world's file")
            return self._read_state(job.job_id, parse_json_body(answer.text))

        if state := await self._request_until_answered(ask):
            return state
        if doubt := await self._find_reason_to_wait(job):
            raise UnknownBatchJobError(
                f"{self.name}: knows no job {job.job_id}, but {doubt}. If the job is gone for good, send, and pay for, its "
                f"{format_request_count(len(job.open_ids))} again: factmill jobs --forget {shlex.quote(job.job_id)}"
            )
        return BatchJobState(job.job_id, _LOST_STATUS, 0, 0, 0, (), (), 0.0)

    async def _find_reason_to_wait(self, job: JobStateFile) -> str:
        """Return why an unknown job may still be running, and what to do; empty: it is lost."""
        if job.key_mark != await self.digest_credentials():
            whose = (
                "with another key"
                if job.key_mark
                else "by an earlier version of factmill, which did not record its key"
            )
            model = self._server.model
            named = model.key_env or ("key_command" if model.key_command else "the world's file names none now")
            return f"it was submitted {whose}, and the server may know it under that key: set that key ({named}) and run the same command again"
        found = await self._request_until_answered(lambda: self._find_listed(job))
        if found is None:
            return "this server lists no jobs at all and may not be the one that accepted it: check which server answers at this address"
        return f"the server lists it as {found}: run the same command again later" if found else ""

    async def _find_listed(self, job: JobStateFile) -> str | None:
        """Return the id of a job in the server's list; empty where it is not listed, None where the server lists none."""
        return await self._find_id_in_list("batches", job.name)

    async def cancel(self, job_id: str) -> BatchJobState:
        """Cancel a job; return its state."""

        async def ask() -> BatchJobState:
            answer = await self._server.post(f"{self._batches}/{quote(job_id, safe='')}/cancel", {})
            self._check_response(answer, f"does not know job {job_id}, or cannot cancel jobs")
            return self._read_state(job_id, parse_json_body(answer.text))

        return await self._request_until_answered(ask)

    async def download_results(self, state: BatchJobState, ids: Collection[str]) -> ParsedBatchResults:
        """Download and read the results of a job; once more where the files hold fewer lines than the server counts."""
        for attempt in (1, 2):
            lines, gone = ParsedBatchResults(), list[str]()
            for file_id in state.files:
                content = await self._download_file(file_id)
                if content is None:
                    gone.append(file_id)
                else:
                    parse_result_lines(content, ids, lines)
            if len(lines.results) >= min(len(ids), state.done + state.failed) or attempt == 2:
                break
            await asyncio.sleep(self._jobs.poll_s)
        scrub = self._server.credentials.redact
        lines.results = {key: replace(answer, text=scrub(answer.text)) for key, answer in lines.results.items()}
        for file_id in gone:
            progress.print_and_log(f"note: job {state.job_id}: the server no longer has its file {file_id}")
        if odd := lines.format_problems():
            progress.print_and_log(f"note: job {state.job_id}: of its lines, {odd}; factmill skips them")
        return lines

    async def _download_file(self, file_id: str) -> bytes | None:
        """Download a file; None where the server has none with that id."""

        async def get() -> bytes | None:
            answer, content = await self._server.download(f"/files/{quote(file_id, safe='')}/content")
            if answer.status == 404:
                return None
            self._check_response(answer, "returns no files")
            return content

        return await self._request_until_answered(get)

    async def find_job(self, job: JobStateFile) -> str:
        """Return the server's id of a job; empty where it knows none, or lists none."""
        return await self._request_until_answered(lambda: self._find_id_or_report("batches", job.name))

    async def find_file(self, mark: str) -> str:
        """Return the id of the file with a name; empty where there is none, or the server lists none."""
        return await self._request_until_answered(lambda: self._find_id_or_report("files", mark))

    async def has_lost_file(self, job: JobStateFile) -> bool:
        """True where the server no longer knows a job's file, although the key is the one that uploaded it."""

        async def get() -> bool:
            answer = await self._server.get(f"/files/{quote(job.file_id, safe='')}")
            if answer.status not in _UNSUPPORTED_STATUSES:
                self._check_response(answer, "")
            return answer.status == 404

        return job.key_mark == await self.digest_credentials() and await self._request_until_answered(get)

    async def _find_id_or_report(self, kind: str, mark: str) -> str:
        found = await self._find_id_in_list(kind, mark)
        if found is None:
            progress.print_and_log(
                f"note: {self.name} lists no {kind}, so factmill cannot tell whether {mark} arrived; it sends it again"
            )
        return found or ""

    async def _find_id_in_list(self, kind: str, mark: str) -> str | None:
        """Return the id of the listed job or file of ours; empty where there is none, None where none are listed."""
        after = ""
        for _ in range(_MAX_LIST_PAGES):
            answer = await self._server.get(f"/{kind}?limit={_LIST_PAGE_SIZE}{after}")
            if answer.status in _UNSUPPORTED_STATUSES:
                return None
            self._check_response(answer, f"does not list {kind}")
            page = parse_json_body(answer.text)
            listed = page.get("data") if isinstance(page, dict) else None
            if not isinstance(listed, list):
                return None
            for each in listed:
                if isinstance(each, dict) and _find_factmill_name_of_file_or_job(kind, each) == mark:
                    return read_object_id(each)
            if not listed or not page.get("has_more"):
                return ""
            after = f"&after={quote(str(listed[-1].get('id')), safe='')}"
        return ""

    def _check_response(self, answer: ServerResponse, missing: str) -> None:
        """Raise Retry or ServiceUnreachable unless a response is a success; `missing`: what HTTP 404 means."""
        if answer.status == 413:
            raise ServiceUnreachable(
                f"{self.name}: the file of a batch job is too large for this server; lower jobs.megabytes or jobs.requests of this model "
                f"in the world's file (HTTP 413: {shorten_to_line(answer.text)})"
            )
        if answer.status in (404, 405, 501):
            raise ServiceUnreachable(f"{self.name}: {missing} (HTTP {answer.status}: {shorten_to_line(answer.text)})")
        if failure := find_content_or_length_refusal(self.name, answer) or find_final_http_failure_or_raise(
            self.name, answer.status, answer.text, answer.retry_after
        ):
            raise ServiceUnreachable(f"{self.name}: the server refuses a batch job: {failure.error}")

    async def _request_until_answered(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request until it is answered, and return its result; BudgetExhausted when the run's hours end meanwhile."""
        for silent, pause_s in enumerate(self.iterate_poll_pauses(), 1):
            try:
                found = await request()
            except Retry as trouble:
                self._was_answered |= trouble.code != "unreachable"
                if trouble.is_over_limit:
                    raise ServiceUnreachable(
                        f"{trouble}. The batch job continues; raise the limit and run the same command again"
                    ) from None
                if silent >= (self._most_silent if self._was_answered else self._attempts):
                    raise ServiceUnreachable(
                        f"{self.name}: gave no useful response about a batch job to {silent} requests in a row; last problem: "
                        f"{trouble}. Its jobs continue; run the same command again later"
                    ) from None
                wait_s = max(pause_s, trouble.retry_after_s or 0)
                if silent == 2 or wait_s > max(pause_s, _REPORTED_WAIT_S):
                    progress.print_and_log(
                        f"note: {self.name} does not answer about its batch jobs ({trouble}); next request in {wait_s:,.0f} s"
                    )
                await get_current_budget_account().budget.sleep(wait_s)
            else:
                self._was_answered = True
                return found
        raise AssertionError("pauses have no end")

    def _read_state(self, job_id: str, payload: Any) -> BatchJobState:
        if not isinstance(payload, dict) or not isinstance(payload.get("status"), str):
            raise Retry(f"malformed_reply: no status in {shorten_to_line(str(payload))}")
        counts = payload.get("request_counts")
        done, failed, total = (read_count(counts, name) for name in ("completed", "failed", "total"))
        errors = payload.get("errors")
        listed = errors.get("data") if isinstance(errors, dict) else errors
        ends = [read_count(payload, name) for name in ("completed_at", "expired_at", "cancelled_at", "failed_at")]
        files = [payload.get(name) for name in ("output_file_id", "error_file_id")]
        return BatchJobState(
            job_id,
            payload["status"],
            done,
            failed,
            total,
            tuple(file_id for file_id in files if isinstance(file_id, str) and file_id),
            tuple(map(_format_job_error, listed)) if isinstance(listed, list) else (),
            max(0.0, float(max(ends) - read_count(payload, "created_at"))) if any(ends) else 0.0,
        )


def read_object_id(payload: Any) -> str:
    found = payload.get("id") if isinstance(payload, dict) else None
    if not isinstance(found, str) or not found:
        raise Retry(f"malformed_reply: no id in {shorten_to_line(str(payload))}")
    return found


def _find_factmill_name_of_file_or_job(kind: str, listed: Mapping[str, Any]) -> Any:
    """Return the name that we gave a listed file or job; None where it has none."""
    if kind == "files":
        return listed.get("filename")
    metadata = listed.get("metadata")
    return metadata.get("factmill") if isinstance(metadata, dict) else None


def _format_job_error(error: Any) -> str:
    if not isinstance(error, dict):
        return shorten_to_line(str(error))
    line = f"line {error['line']}: " if isinstance(error.get("line"), int) else ""
    return shorten_to_line(f"{error.get('code')}: {line}{error.get('message')}")


def read_count(payload: Any, name: str) -> int:
    value = payload.get(name) if isinstance(payload, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
