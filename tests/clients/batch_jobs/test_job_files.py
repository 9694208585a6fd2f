"""Test job files on disk: they survive any end, one process at a time uses them, and reading them runs no command."""

import dataclasses
import fcntl
import os
from pathlib import Path

import pytest
from support.webs.loopback import Loopback

from factmill.tasks.clients.batch_jobs.job_control import cancel_job, inspect_jobs
from factmill.tasks.clients.batch_jobs.job_files import (
    BatchJobsFolderAndRun,
    JobFilesOfOneQueue,
    JobModelAndServerSettings,
    JobStateFile,
    delete_job_file_if_unlocked,
    load_job_files,
)
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import ServiceError, ShardError


@pytest.fixture
def files(tmp_path: Path) -> JobFilesOfOneQueue:
    files = JobFilesOfOneQueue(BatchJobsFolderAndRun(tmp_path / "jobs", "tests-1", tmp_path / "w.duckdb"))
    files.add_user()
    return files


def begin(files: JobFilesOfOneQueue, *ids: str, name: str = "a.jsonl", **learnt: object):
    job = files.create(name, ids, learnt)
    job.append(file="file-1")
    job.append(job="batch-1")
    return job


def test_job_is_found_by_its_open_requests_and_removed_when_none_are_left(files, tmp_path):
    begin(files, "x", "y", seed=False)
    files.mark_recorded(["x"])
    files.remove_user()
    others = JobFilesOfOneQueue(BatchJobsFolderAndRun(tmp_path / "jobs", "tests-1", tmp_path / "w.duckdb"))
    others.add_user()
    assert others.lock_jobs_with(["x"]) == []
    (job,) = others.lock_jobs_with(["x", "y"])
    assert (job.name, job.file_id, job.job_id, job.request_ids, job.open_ids) == (
        "a.jsonl",
        "file-1",
        "batch-1",
        {"x", "y"},
        {"y"},
    )
    assert others.find_learnt_settings() == {"seed": False}
    others.mark_recorded(["y", "z"])
    assert list((tmp_path / "jobs").iterdir()) == []
    assert others.find_learnt_settings() is None


def test_job_locked_by_another_process_is_skipped(files, tmp_path):
    begin(files, "x")
    others = JobFilesOfOneQueue(BatchJobsFolderAndRun(tmp_path / "jobs", "tests-1", tmp_path / "w.duckdb"))
    others.add_user()
    assert others.lock_jobs_with(["x"]) == []
    files.remove_user()
    assert [job.job_id for job in others.lock_jobs_with(["x"])] == ["batch-1"]


def test_job_file_is_deleted_unless_locked_and_missing_file_is_ignored(files, tmp_path):
    begin(files, "x")
    (job,) = load_job_files(tmp_path / "jobs")
    assert not delete_job_file_if_unlocked(job)
    files.remove_user()
    assert delete_job_file_if_unlocked(job)
    assert load_job_files(tmp_path / "jobs") == []
    assert delete_job_file_if_unlocked(job)


def test_job_file_removed_concurrently_by_another_process_is_ignored(files, tmp_path, monkeypatch):
    begin(files, "x", seed=False)
    files.remove_user()
    others = JobFilesOfOneQueue(BatchJobsFolderAndRun(tmp_path / "jobs", "tests-1", tmp_path / "w.duckdb"))
    (path,) = (tmp_path / "jobs").iterdir()
    lock = fcntl.flock

    def lock_late(fd: int, how: int) -> None:
        lock(fd, how)
        path.unlink()

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", lock_late)
        assert others.lock_jobs_with(["x"]) == []
    path.symlink_to("gone")  # is listed, but missing when read
    assert others.find_learnt_settings() is None


def test_newest_job_with_request_comes_first(files):
    begin(files, "x", "y", name="old.jsonl")
    begin(files, "x", name="new.jsonl")
    assert [job.name for job in files.lock_jobs_with(["x"])] == ["new.jsonl", "old.jsonl"]


@pytest.mark.parametrize("torn", [b'{"kept":["x"', b"\x00\x00"])
def test_torn_line_damages_no_other_line(files, tmp_path, torn):
    path = begin(files, "x", "y").path
    files.remove_user()
    with path.open("ab") as file:
        file.write(torn)
    files.add_user()
    (job,) = files.lock_jobs_with(["x"])
    assert (job.job_id, job.open_ids) == ("batch-1", {"x", "y"})
    files.mark_recorded(["y"])
    files.remove_user()
    files.add_user()
    (job,) = files.lock_jobs_with(["x"])
    assert job.open_ids == {"x"}


def test_unwritable_folder_is_reported(tmp_path):
    (tmp_path / "jobs").write_text("")
    with pytest.raises(ShardError, match="cannot write"):
        JobFilesOfOneQueue(BatchJobsFolderAndRun(tmp_path / "jobs", "tests-1", tmp_path / "w.duckdb")).create(
            "a.jsonl", ["x"], {}
        )


def test_full_disk_is_reported_and_leaves_no_partial_line(files, monkeypatch):
    job = begin(files, "x")
    before = job.path.read_bytes()
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, data[:5]))
    with pytest.raises(ShardError, match=r"a\.jsonl\.job, .*no space left"):
        job.append(kept=["x"])
    assert job.path.read_bytes() == before


SECRET = "cf-secret-0123456789"
STATE = {"json": {"id": "batch-1", "status": "in_progress", "request_counts": {"completed": 1, "total": 2}}}


def note_job(folder: Path, server: Loopback, **settings: object) -> JobStateFile:
    """Return a job of a model with these settings, read back from its file."""
    model = ModelSettings.model_validate({"kind": "openai", "name": "m", "url": f"{server.url}/v1"} | settings)
    files = JobFilesOfOneQueue(
        BatchJobsFolderAndRun(folder / "jobs", "r", folder / "w.duckdb"), JobModelAndServerSettings.of_model(model)
    )
    files.add_user()
    files.create("a.jsonl", ["x", "y"], {}).append(job="batch-1")
    files.remove_user()
    [job] = load_job_files(folder / "jobs")
    return job


def test_job_inspection_sends_headers_and_query_of_its_model(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "key-0123")
    monkeypatch.setenv("CF_TOKEN", SECRET)
    server.script(STATE)
    headers = {"X-Org": "acme", "X-Sig": {"env": "CF_TOKEN"}}
    job = note_job(
        tmp_path, server, key_env="MY_KEY", key_header="api-key", headers=headers, query={"api-version": "1"}
    )
    [looked] = inspect_jobs([job], "tests")
    assert looked.state is not None and looked.state.done == 1
    seen = server.seen[0]
    assert (seen.headers["api-key"], seen.headers["x-org"], seen.headers["x-sig"]) == ("key-0123", "acme", SECRET)
    assert seen.query == {"api-version": "1"}
    assert SECRET not in job.path.read_text()


def test_job_file_never_causes_key_command_to_run(server, tmp_path):
    ran = tmp_path / "ran"
    job = note_job(tmp_path, server, key_command=["touch", str(ran)])
    assert str(ran) not in job.path.read_text()
    [looked] = inspect_jobs([job], "tests")
    assert looked.state is None and "key_command" in looked.trouble
    with pytest.raises(ServiceError, match="key_command"):
        cancel_job(job, "tests")
    connection = f'{{"key_command": ["touch", "{ran}"]}}'
    job.server = dataclasses.replace(job.server, connection=connection, has_key_command=False)
    server.script(STATE)
    [looked] = inspect_jobs([job], "tests")
    assert looked.state is not None and not ran.exists(), "a command that was added to the file"
