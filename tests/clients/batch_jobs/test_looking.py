"""What a job's file notes of its server, and that looking at a job carries it, but runs no command."""

import dataclasses
from pathlib import Path

import pytest
from support.webs.loopback import Loopback

from factmill.tasks.clients.batch_jobs.job_control import cancel_job, inspect_jobs
from factmill.tasks.clients.batch_jobs.job_files import (
    JobFile,
    JobFileRegistry,
    JobFilesLocation,
    JobServerSettings,
    load_job_files,
)
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import ServiceError

SECRET = "cf-secret-0123456789"
STATE = {"json": {"id": "batch-1", "status": "in_progress", "request_counts": {"completed": 1, "total": 2}}}


def begin(folder: Path, server: Loopback, **settings: object) -> JobFile:
    """Return a job of a model with these settings, as its file says it."""
    model = ModelSettings.model_validate({"kind": "openai", "name": "m", "url": f"{server.url}/v1"} | settings)
    files = JobFileRegistry(
        JobFilesLocation(folder / "jobs", "r", folder / "w.duckdb"), JobServerSettings.of_model(model)
    )
    files.add_user()
    files.create("a.jsonl", ["x", "y"], {}).append(job="batch-1")
    files.remove_user()
    [job] = load_job_files(folder / "jobs")
    return job


def test_a_job_is_looked_at_with_the_headers_and_the_query_of_its_model(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "key-0123")
    monkeypatch.setenv("CF_TOKEN", SECRET)
    server.script(STATE)
    headers = {"X-Org": "acme", "X-Sig": {"env": "CF_TOKEN"}}
    job = begin(tmp_path, server, key_env="MY_KEY", key_header="api-key", headers=headers, query={"api-version": "1"})
    [looked] = inspect_jobs([job], "tests")
    assert looked.state is not None and looked.state.done == 1
    seen = server.seen[0]
    assert (seen.headers["api-key"], seen.headers["x-org"], seen.headers["x-sig"]) == ("key-0123", "acme", SECRET)
    assert seen.query == {"api-version": "1"}
    assert SECRET not in job.path.read_text()


def test_no_command_runs_from_a_job_s_file(server, tmp_path):
    ran = tmp_path / "ran"
    job = begin(tmp_path, server, key_command=["touch", str(ran)])
    assert str(ran) not in job.path.read_text()
    [looked] = inspect_jobs([job], "tests")
    assert looked.state is None and "key_command" in looked.trouble
    with pytest.raises(ServiceError, match="key_command"):
        cancel_job(job, "tests")
    connection = f'{{"key_command": ["touch", "{ran}"]}}'
    job.server = dataclasses.replace(job.server, connection=connection, has_key_command=False)
    server.script(STATE)
    [looked] = inspect_jobs([job], "tests")
    assert looked.state is not None and not ran.exists(), "a command that somebody wrote into the file"
