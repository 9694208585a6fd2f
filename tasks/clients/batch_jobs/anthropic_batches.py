"""Client of Anthropic's Message Batches, with the interface of Remote. A batch holds its requests, so no file is
uploaded.

A batch carries no mark of ours. When the response to its creation is lost, `find_job` searches the account's batches
that were created since and hold as many requests. An ended batch is certain: it is ours if its results have our custom
ids, which are digests of the requests; it is taken, and nothing is paid twice. A batch that has not ended does not show
its custom ids, so it is waited for, and no other is created meanwhile. A batch whose results are gone (the API keeps
them for 29 days) cannot be recognised; its requests are asked again.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from factmill.tasks import progress
from factmill.tasks.clients.anthropic_server import (
    MESSAGE_BATCHES_PATH,
    AnthropicServerClient,
    convert_batch_line_to_openai_format,
    read_custom_id,
)
from factmill.tasks.clients.batch_jobs.job_files import JobStateFile, load_job_files
from factmill.tasks.clients.batch_jobs.openai_batches import (
    BatchJobState,
    OpenAiBatchClient,
    read_count,
    read_object_id,
)
from factmill.tasks.clients.openai_server import OpenAiServerClient
from factmill.tasks.clients.sending.budget import get_current_budget_account
from factmill.tasks.clients.sending.http_responses import parse_json_body, shorten_to_line
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.errors import ServiceUnreachable

_BATCH_PAGE_SIZE, _MAX_BATCH_PAGES = 100, 20
_CLOCK_SLACK_S = 3600.0
"""Most seconds by which our clock may be ahead of the API's."""


class AnthropicBatchClient(OpenAiBatchClient):
    """Client of the Message Batches of one model's server."""

    _batches = MESSAGE_BATCHES_PATH

    def __init__(self, server: AnthropicServerClient, jobs: BatchJobSettings, attempts: int, **more: int) -> None:
        super().__init__(server, jobs, attempts, **more)
        self._anthropic = server
        self._contents: dict[str, bytes] = {}
        """Name of a job → its lines, until its batch is created."""
        self._foreign: set[str] = set()
        """Ids of batches whose results are not ours."""

    async def upload(self, name: str, content: bytes) -> str:
        """Store the lines of a job until `create` sends them; return the name that they are stored under."""
        self._contents[name] = content
        return name

    async def find_file(self, mark: str) -> str:  # noqa: ARG002
        """Return an empty id, since no file is ever uploaded."""
        return ""

    async def has_lost_file(self, job: JobStateFile) -> bool:
        """True when the lines of a job were only in an earlier process."""
        return job.file_id not in self._contents

    async def create(self, job: JobStateFile) -> str:
        """Create the batch of a job, or take one that an unanswered request created; return its id."""
        lines = [json.loads(line) for line in self._contents[job.file_id].split(b"\n") if line]
        requests = [
            {"custom_id": line["custom_id"], "params": self._anthropic.translate(line["body"])} for line in lines
        ]
        may_exist = False

        async def make() -> str:
            nonlocal may_exist
            if may_exist and (found := await self.find_job(job)):
                return found
            try:
                answer = await self._anthropic.create_batch(requests)
            except Retry as trouble:
                may_exist |= trouble.code != "unreachable"
                raise
            may_exist |= answer.status in (500, 502, 504)
            self._check_response(answer, "has no Message Batches; remove `mode` from this model in the world's file")
            return read_object_id(parse_json_body(answer.text))

        job_id = await self._request_until_answered(make)
        del self._contents[job.file_id]
        return job_id

    async def find_job(self, job: JobStateFile) -> str:
        """Return the id of the batch that an earlier request created for a job; empty where there is none.

        Waits while a batch that may be it has not ended. ServiceUnreachable when another key created it, or when nobody
        waits for answers (`most_silent` is 1) and it is uncertain.
        """
        if not job.key_mark:
            return ""  # noted before a batch is created
        if job.key_mark != await self.digest_credentials():
            raise ServiceUnreachable(
                f"{self.name}: job {job.name} was submitted with another key and may still be running. Set that key "
                f"({self._anthropic.model.key_env}) and run the same command again; or send, and pay for, its requests again: "
                f"factmill jobs --forget {job.name}"
            )
        is_reported = False
        for pause_s in self.iterate_poll_pauses():
            found, open_ids = await self._request_until_answered(lambda: self._search(job))
            if found or not open_ids:
                return found
            if self._most_silent == 1:
                raise ServiceUnreachable(
                    f"{self.name}: job {job.name} may be {' or '.join(open_ids)}. The server lists a batch's requests only after "
                    "the batch has ended; run the same build, which waits for it"
                )
            if not is_reported:
                progress.print_and_log(
                    f"note: no response came to the request that created job {job.name}; it may be {' or '.join(open_ids)}; "
                    "waiting for that batch to end"
                )
                is_reported = True
            await get_current_budget_account().budget.sleep(pause_s)
        raise AssertionError("pauses have no end")

    async def _search(self, job: JobStateFile) -> tuple[str, list[str]]:
        """Return the id of the ended batch with a job's requests, or the ids of running ones that may have them."""
        known = {other.job_id for other in load_job_files(job.path.parent)} | self._foreign
        open_ids = []
        async for batch in self._list():
            created = _parse_timestamp(batch, "created_at")
            if created and created < job.created_s - _CLOCK_SLACK_S:
                break
            batch_id, counts = read_object_id(batch), batch.get("request_counts")
            total = sum(read_count(counts, name) for name in (counts if isinstance(counts, dict) else ()))
            if batch_id in known or total != len(job.request_ids):
                continue
            if batch.get("processing_status") != "ended":
                open_ids.append(batch_id)
                continue
            content = await self._download(batch_id) if batch.get("results_url") else None
            if any(read_custom_id(line) in job.request_ids for line in (content or b"").split(b"\n")):
                return batch_id, []
            self._foreign.add(batch_id)
        return "", open_ids

    async def _list(self) -> Any:
        """Yield the batches of the account, the newest first."""
        after = ""
        for _ in range(_MAX_BATCH_PAGES):
            answer = await self._server.get(f"{MESSAGE_BATCHES_PATH}?limit={_BATCH_PAGE_SIZE}{after}")
            self._check_response(answer, "does not list Message Batches")
            page = parse_json_body(answer.text)
            listed = page.get("data") if isinstance(page, dict) else None
            if not isinstance(listed, list):
                raise Retry(f"malformed_reply: no list of batches in {shorten_to_line(answer.text)}")
            for batch in listed:
                yield batch
            if not listed or not page.get("has_more"):
                return
            after = f"&after_id={quote(str(page.get('last_id') or listed[-1].get('id')), safe='')}"

    async def _find_listed(self, job: JobStateFile) -> str | None:
        async for batch in self._list():
            if read_object_id(batch) == job.job_id:
                return job.job_id
        return ""

    async def _download_file(self, file_id: str) -> bytes | None:
        """Return the results of a batch as lines of a job's output file; None where they are gone."""
        content = await self._request_until_answered(lambda: self._download(file_id))
        return None if content is None else b"\n".join(map(convert_batch_line_to_openai_format, content.split(b"\n")))

    async def _download(self, batch_id: str) -> bytes | None:
        answer, content = await self._server.download(f"{MESSAGE_BATCHES_PATH}/{quote(batch_id, safe='')}/results")
        if answer.status == 404:
            return None
        self._check_response(answer, "returns no results of a batch")
        return content

    def _read_state(self, job_id: str, payload: Any) -> BatchJobState:
        status = payload.get("processing_status") if isinstance(payload, dict) else None
        if not isinstance(status, str):
            raise Retry(f"malformed_reply: no processing_status in {shorten_to_line(str(payload))}")
        counts = payload.get("request_counts")
        succeeded, errored, canceled, expired, processing = (
            read_count(counts, name) for name in ("succeeded", "errored", "canceled", "expired", "processing")
        )
        has_ended = status == "ended"
        if has_ended:
            status = "cancelled" if canceled else "expired" if expired else "completed"
        return BatchJobState(
            job_id,
            status,
            succeeded,
            errored + canceled + expired,
            succeeded + errored + canceled + expired + processing,
            (job_id,) if has_ended and payload.get("results_url") else (),
            (),
            max(0.0, _parse_timestamp(payload, "ended_at") - _parse_timestamp(payload, "created_at"))
            if has_ended
            else 0.0,
        )


def _parse_timestamp(batch: Mapping[str, Any], name: str) -> float:
    """Return a time of a batch as seconds since 1970; 0 where it has none."""
    try:
        return datetime.fromisoformat(batch[name]).timestamp()
    except (KeyError, TypeError, ValueError):
        return 0.0


def make_anthropic_or_openai_batch_client(
    server: OpenAiServerClient, jobs: BatchJobSettings, attempts: int, **more: int
) -> OpenAiBatchClient:
    """Make the client of a server's batch jobs; `attempts` and `more`: as OpenAiBatchClient takes them."""
    if isinstance(server, AnthropicServerClient):
        return AnthropicBatchClient(server, jobs, attempts, **more)
    return OpenAiBatchClient(server, jobs, attempts, **more)
