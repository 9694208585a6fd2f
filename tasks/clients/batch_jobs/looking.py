"""Inspect and cancel batch jobs without waiting for them.

A job's file names its server, so no world is needed. Each server is asked once for each job; one that does not answer
is reported, not waited for.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from factmill.tasks.clients.batch_jobs.job_files import JobFile, JobServer
from factmill.tasks.clients.batch_jobs.remote import JobState, Remote
from factmill.tasks.clients.servers import open_jobs, open_server
from factmill.tasks.core.calls.chat import Jobs
from factmill.tasks.core.service_settings import Limits, Model
from factmill.tasks.errors import FactmillError, ServiceError
from factmill.tasks.settings import api_key

_TIMEOUT_S = 20.0
_AT_ONCE = 8
_NOT_NOTED = "it was made by an earlier version, which did not note the server; the same build goes on with it"

_BY_COMMAND = "key_command of the world's file gives its key, and no command runs from a job's file; the same build goes on with it"


@dataclass(frozen=True, slots=True)
class Looked:
    """A job, and its state at the server."""

    job: JobFile
    state: JobState | None = None
    """None: it is not submitted, or the server does not tell."""
    trouble: str = ""
    """Why the server does not tell."""


def look_at(jobs: Sequence[JobFile], user_agent: str) -> list[Looked]:
    """Ask the servers for the state of their jobs."""

    async def look_at_all() -> list[Looked]:
        remotes = {server: _connect(server, user_agent) for server in {job.server for job in jobs if _is_known(job)}}
        turn = asyncio.Semaphore(_AT_ONCE)

        async def look(job: JobFile) -> Looked:
            async with turn:
                return await _look(job, remotes.get(job.server))

        return list(await asyncio.gather(*map(look, jobs)))

    return asyncio.run(look_at_all())


def cancel_job(job: JobFile, user_agent: str) -> JobState:
    """Cancel a job at its server; return its state. ServiceError when it was never submitted, or has ended."""

    async def cancel() -> JobState:
        if not job.server.url:
            raise ServiceError(
                f"job {job.job_id or job.name}: {_NOT_NOTED}, and says how to cancel it when it is stopped"
            )
        if job.server.has_key_command:
            raise ServiceError(
                f"job {job.job_id or job.name}: {_BY_COMMAND}. Cancel it with the provider's own tools, or wait for it"
            )
        remote = _connect(job.server, user_agent)
        job.job_id = job.job_id or await remote.find_job(job)
        if not job.job_id:
            raise ServiceError(
                f"{job.name} was never handed in to {remote.name}, so there is nothing to cancel; the same build hands it in, "
                f"and `factmill jobs forget {job.name}` leaves it out"
            )
        state = await remote.look(job)
        if state.has_ended:
            raise ServiceError(
                f"job {job.job_id} has ended ({state.describe(len(job.ids))}), so there is nothing to cancel; the same build "
                f"{'asks anew what is left of it' if state.is_lost else 'takes its answers'}"
            )
        return await remote.cancel(job.job_id)

    return asyncio.run(cancel())


async def _look(job: JobFile, remote: Remote | None) -> Looked:
    if not job.job_id:
        return Looked(job)
    if remote is None:
        return Looked(job, trouble=_BY_COMMAND if job.server.has_key_command else _NOT_NOTED)
    try:
        return Looked(job, await remote.look(job))
    except FactmillError as error:  # reported with the job; the others are still inspected
        return Looked(job, trouble=str(error))


def _is_known(job: JobFile) -> bool:
    return bool(job.server.url) and not job.server.has_key_command


def _connect(server: JobServer, user_agent: str) -> Remote:
    limits = Limits(timeout_s=_TIMEOUT_S)
    told = {"kind": server.kind, "name": server.model, "url": server.url, "key_env": server.key_env, "limits": limits}
    try:
        model = Model.model_validate(told | server.read_connection())
    except (ValueError, TypeError) as error:
        raise ServiceError(
            f"model {server.model}: a job's file says in no readable way how its server is reached: {error}"
        ) from None
    return open_jobs(open_server(model, lambda: api_key(model), user_agent), Jobs(), attempts=1, most_silent=1)
