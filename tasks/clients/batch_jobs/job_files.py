"""State of batch jobs on disk, from before they are submitted until all their answers are recorded.

Each job has one file, locked while a process follows it, to which JSON objects are appended, one a line: the ids of its
requests before anything is sent, the uploaded file, the job, and the ids whose answers were recorded. So a build that
is killed at any point finds its job again, and pays for nothing twice. Age never expires a job, since a clock may be
wrong: its server shows what is left of it.
"""

import fcntl
import json
import os
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import ShardError
from factmill.tasks.processes import try_lock_file

_DRAFT_JOB_SUFFIX = ".opening"
_CONNECTION_KEYS = ("headers", "query", "key_header")


@dataclass(frozen=True, slots=True)
class BatchJobsFolderAndRun:
    """Folder for the files of jobs, and the run that makes them."""

    folder: Path
    run: str
    """Name of the run that asks, such as that of a build's run folder."""
    warehouse: Path
    """The warehouse that the run belongs to."""


@dataclass(frozen=True, slots=True)
class JobModelAndServerSettings:
    """The model that a job asks, and its server."""

    model: str = ""
    url: str = ""
    key_env: str = ""
    kind: str = "openai"
    connection: str = ""
    """JSON of the model's headers, query parameters and key header (`ModelSettings.connection_settings`); empty: it has none. It holds
    secrets only as the names of environment variables."""
    has_key_command: bool = False
    """True when a command of the world's file gives the key. A job's file never holds a command, so none runs from it."""

    @classmethod
    def of_model(cls, model: ModelSettings) -> "JobModelAndServerSettings":
        """Return the part of a model's settings that a job's file stores."""
        connection = {name: value for name, value in model.connection_settings().items() if name in _CONNECTION_KEYS}
        return cls(
            model=model.name,
            url=model.url,
            key_env=model.key_env,
            kind=model.kind,
            connection=json.dumps(connection, sort_keys=True) if connection else "",
            has_key_command=bool(model.key_command),
        )

    def read_connection(self) -> dict[str, Any]:
        """Return the settings in `connection`, and no others in it; ValueError when it is not a JSON object."""
        settings = json.loads(self.connection or "{}")
        return {name: settings[name] for name in _CONNECTION_KEYS if name in settings}


@dataclass(eq=False, slots=True)
class JobStateFile:
    """One job, as its file describes it."""

    path: Path
    lock_fd: int
    """Descriptor that locks the file; -1: released."""
    name: str = ""
    """Name of the uploaded file at the server, and the job's mark there."""
    request_ids: frozenset[str] = frozenset()
    created_s: float = 0.0
    """Seconds since 1970."""
    learnt: dict[str, Any] = field(default_factory=dict)
    """Model settings in which the requests differ from the world's file."""
    file_id: str = ""
    job_id: str = ""
    key_mark: str = ""
    """Digest of the key that it was submitted with (`ModelCredentials.digest`); empty in older files."""
    open_ids: set[str] = field(default_factory=set)
    """Ids whose answers are not recorded yet."""
    server: JobModelAndServerSettings = JobModelAndServerSettings()
    run: str = ""
    """Run that made it; empty in older files."""
    is_reported: bool = False
    """True once it was reported that the job continues without us."""
    requests_in_flight: int = 0
    """Requests of all jobs in progress when this one was submitted, including its own; 0: an earlier process submitted
    it."""
    has_been_read: bool = False
    """True once its answers were read."""

    def append(self, **fields: Any) -> None:
        """Append a change of the job's state to the file; ShardError when the disk is full."""
        line = b"\n" * (not fields) + json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        size = os.fstat(self.lock_fd).st_size
        try:
            if os.write(self.lock_fd, line) < len(line):
                os.ftruncate(self.lock_fd, size)
                raise OSError("no space left")
            os.fsync(self.lock_fd)
        except OSError as error:
            raise ShardError(
                f"cannot write {self.path}, the state of a batch job: {error}; free some disk space and run the "
                "same command again"
            ) from error
        self._apply(fields)

    def load(self) -> None:
        """Load the file's state; lines torn by a crash are skipped, and a file that another process removed is ignored."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        for line in content.split(b"\n"):
            try:
                fields = json.loads(line)
                self._apply(fields)
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue

    def _apply(self, fields: Mapping[str, Any]) -> None:
        if "ids" in fields:
            self.name, self.created_s = str(fields["name"]), float(fields["begun"])
            self.request_ids = frozenset(fields["ids"])
            self.open_ids = set(self.request_ids)
            self.learnt = dict(fields["learnt"])
            self.server = JobModelAndServerSettings(**fields.get("server", {}))
            self.run = str(fields.get("run", ""))
        self.file_id = fields.get("file", self.file_id)
        self.job_id = fields.get("job", self.job_id)
        self.key_mark = fields.get("key_mark", self.key_mark)
        self.open_ids -= set(fields.get("kept", ()))


class JobFilesOfOneQueue:
    """Job files of one folder, as one queue of this process uses them; thread-safe."""

    def __init__(
        self, place: BatchJobsFolderAndRun, server: JobModelAndServerSettings = JobModelAndServerSettings()
    ) -> None:
        """`server`: stored in the files that are begun here."""
        self._folder, self._run, self._server = place.folder, place.run, server
        self._locked_jobs: dict[Path, JobStateFile] = {}
        self._seen_files: dict[Path, tuple[tuple[int, int], set[str]]] = {}
        """File that is not locked here → its size and time, and its ids that are not recorded."""
        self._users = 0
        self._lock = threading.RLock()

    def add_user(self) -> None:
        """Add a thread that waits for answers."""
        with self._lock:
            self._users += 1

    def remove_user(self) -> None:
        """Remove a waiting thread; after the last one, release all files for other processes."""
        with self._lock:
            self._users -= 1
            if not self._users:
                for job in self._locked_jobs.values():
                    _release_job_lock(job)
                self._locked_jobs.clear()

    def create(self, name: str, ids: Collection[str], learnt: Mapping[str, Any]) -> JobStateFile:
        """Write the file of a job that is about to be submitted."""
        path = self._folder / f"{name}.job"
        draft = path.with_suffix(_DRAFT_JOB_SUFFIX)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o644)
        except OSError as error:
            raise ShardError(f"cannot write {draft}: {error.strerror}; make its folder writable") from error
        fcntl.flock(fd, fcntl.LOCK_EX)
        job = JobStateFile(draft, fd)
        try:
            fields = {"server": asdict(self._server), "run": self._run}
            job.append(name=name, begun=time.time(), learnt=dict(learnt), ids=sorted(ids), **fields)
        except ShardError:
            draft.unlink(missing_ok=True)
            os.close(fd)
            raise
        draft.rename(path)
        job.path = path
        with self._lock:
            self._locked_jobs[path] = job
        return job

    def lock_jobs_with(self, ids: Collection[str]) -> list[JobStateFile]:
        """Return the jobs with any of these requests, the newest first: ours, and those of ended processes, which are
        locked."""
        wanted = set(ids)
        with self._lock:
            for path in self._folder.glob("*.job"):
                if path not in self._locked_jobs and (job := self._lock_if_wanted(path, wanted)):
                    self._locked_jobs[path] = job
            found = [job for job in self._locked_jobs.values() if job.open_ids & wanted]
        return sorted(found, key=lambda job: job.created_s, reverse=True)

    def find_learnt_settings(self) -> dict[str, Any] | None:
        """Return the model settings that the newest job had learnt; None where there is no job."""
        newest = max(load_job_files(self._folder), key=lambda job: job.created_s, default=None)
        return newest.learnt if newest else None

    def mark_recorded(self, ids: Iterable[str]) -> None:
        """Record that these requests have recorded answers; delete the file of a job without others."""
        kept = set(ids)
        with self._lock:
            for job in list(self._locked_jobs.values()):
                self.drop_requests(job, kept)

    def drop_requests(self, job: JobStateFile, ids: Iterable[str]) -> None:
        """Record that one job has nothing more about these requests; delete its file when it has no others."""
        with self._lock:
            if done := job.open_ids.intersection(ids):
                if done == job.open_ids:
                    self.delete(job)
                else:
                    job.append(kept=sorted(done))

    def delete(self, job: JobStateFile) -> None:
        """Delete the file of a job that has nothing left at the server."""
        with self._lock:
            self._locked_jobs.pop(job.path, None)
            job.path.unlink(missing_ok=True)
            job.open_ids = set()
            _release_job_lock(job)

    def list_unreported_jobs(self) -> list[JobStateFile]:
        """Return the jobs that the server still works on, each only once."""
        with self._lock:
            jobs = [
                job
                for job in self._locked_jobs.values()
                if job.job_id and not job.has_been_read and not job.is_reported
            ]
            for job in jobs:
                job.is_reported = True
        return jobs

    def _lock_if_wanted(self, path: Path, wanted: set[str]) -> JobStateFile | None:
        """Lock a file that no process follows, where it holds any of these requests; else leave it and return None."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return None
        if not try_lock_file(fd):
            os.close(fd)
            return None
        stat = os.fstat(fd)
        mark = (stat.st_size, stat.st_mtime_ns)
        if path in self._seen_files and self._seen_files[path][0] == mark and not self._seen_files[path][1] & wanted:
            os.close(fd)
            return None
        job = JobStateFile(path, fd)
        job.load()
        self._seen_files[path] = mark, set(job.open_ids)
        if not job.request_ids:
            path.unlink(missing_ok=True)  # nothing in it is readable
        elif job.open_ids & wanted:
            job.append()  # end a line that a crash has torn
            return job
        _release_job_lock(job)
        return None


def load_job_files(folder: Path) -> list[JobStateFile]:
    """Load all job files below a folder, the oldest job first, without locking."""
    jobs = []
    for path in folder.rglob("*.job"):
        job = JobStateFile(path, -1)
        job.load()
        jobs.append(job)
    return sorted((job for job in jobs if job.request_ids), key=lambda job: (job.created_s, job.name))


def delete_job_file_if_unlocked(job: JobStateFile) -> bool:
    """Delete a job's file, so that its requests are asked again; False where a process follows it."""
    try:
        fd = os.open(job.path, os.O_RDONLY)
    except FileNotFoundError:
        return True  # the process that followed it has just finished it
    try:
        if is_free := try_lock_file(fd):
            job.path.unlink(missing_ok=True)
        return is_free
    finally:
        os.close(fd)


def _release_job_lock(job: JobStateFile) -> None:
    if job.lock_fd >= 0:
        os.close(job.lock_fd)
        job.lock_fd = -1
