"""Inspect and cancel batch jobs without waiting for them.

A job's file names its server, so no world is needed. Each server is asked once for each job; one that does not answer
is reported, not waited for.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from factmill.tasks.clients.anthropic_server import make_server_client_of_model_kind
from factmill.tasks.clients.batch_jobs.anthropic_batches import make_anthropic_or_openai_batch_client
from factmill.tasks.clients.batch_jobs.job_files import JobModelAndServerSettings, JobStateFile
from factmill.tasks.clients.batch_jobs.openai_batches import BatchJobState, OpenAiBatchClient
from factmill.tasks.core.calls.chat import BatchJobSettings
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits
from factmill.tasks.errors import FactmillError, ServiceError
from factmill.tasks.settings import read_api_key

_TIMEOUT_S = 20.0
_MAX_PARALLEL_CHECKS = 8
_SERVER_NOT_NOTED_REASON = (
    "an earlier version of factmill made it and did not record its server; the same build resumes it"
)
_KEY_COMMAND_REASON = "its key comes from key_command in the world's file, and factmill runs no command from a job's file; the same build resumes it"


@dataclass(frozen=True, slots=True)
class InspectedJob:
    """A job, and its state at the server."""

    job: JobStateFile
    state: BatchJobState | None = None
    """None: it is not submitted, or the server does not tell."""
    trouble: str = ""
    """Why the server does not tell."""


def inspect_jobs(jobs: Sequence[JobStateFile], user_agent: str) -> list[InspectedJob]:
    """Ask the servers for the state of their jobs."""

    async def look_at_all() -> list[InspectedJob]:
        servers = {job.server for job in jobs if job.server.url and not job.server.has_key_command}
        remotes = {server: _make_job_client(server, user_agent) for server in servers}
        turn = asyncio.Semaphore(_MAX_PARALLEL_CHECKS)

        async def look(job: JobStateFile) -> InspectedJob:
            if not job.job_id:
                return InspectedJob(job)
            if job.server not in remotes:
                reason = _KEY_COMMAND_REASON if job.server.has_key_command else _SERVER_NOT_NOTED_REASON
                return InspectedJob(job, trouble=reason)
            async with turn:
                try:
                    return InspectedJob(job, await remotes[job.server].fetch_state(job))
                except FactmillError as error:  # reported with the job; the others are still inspected
                    return InspectedJob(job, trouble=str(error))

        return list(await asyncio.gather(*map(look, jobs)))

    return asyncio.run(look_at_all())


def cancel_job(job: JobStateFile, user_agent: str) -> BatchJobState:
    """Cancel a job at its server; return its state. ServiceError when it was never submitted, or has ended."""

    async def cancel() -> BatchJobState:
        if not job.server.url:
            raise ServiceError(
                f"job {job.job_id or job.name}: {_SERVER_NOT_NOTED_REASON}, and prints how to cancel it when you stop it"
            )
        if job.server.has_key_command:
            raise ServiceError(
                f"job {job.job_id or job.name}: {_KEY_COMMAND_REASON}. Cancel it with the provider's own tools, or wait for it"
            )
        remote = _make_job_client(job.server, user_agent)
        job.job_id = job.job_id or await remote.find_job(job)
        if not job.job_id:
            raise ServiceError(
                f"job {job.name} was never submitted to {remote.name}, so there is nothing to cancel. The same build submits it; "
                f"`factmill jobs --forget {job.name}` removes it"
            )
        state = await remote.fetch_state(job)
        if state.has_ended:
            raise ServiceError(
                f"job {job.job_id} has ended ({state.format_progress(len(job.request_ids))}), so there is nothing to cancel; the same build "
                f"{'sends its remaining requests again' if state.is_lost else 'reads its answers'}"
            )
        return await remote.cancel(job.job_id)

    return asyncio.run(cancel())


def _make_job_client(server: JobModelAndServerSettings, user_agent: str) -> OpenAiBatchClient:
    settings = {"kind": server.kind, "name": server.model, "url": server.url, "key_env": server.key_env}
    try:
        limits = ServiceLimits(timeout_s=_TIMEOUT_S)
        model = ModelSettings.model_validate({**settings, "limits": limits, **server.read_connection()})
    except (ValueError, TypeError) as error:
        raise ServiceError(
            f"model {server.model}: the server's settings in the job's file are invalid: {error}"
        ) from None
    client = make_server_client_of_model_kind(model, lambda: read_api_key(model), user_agent)
    return make_anthropic_or_openai_batch_client(client, BatchJobSettings(), attempts=1, most_silent=1)
