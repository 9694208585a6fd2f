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

from factmill.tasks.core.service_settings import Model
from factmill.tasks.errors import ShardError
from factmill.tasks.processes import lock_now

_DRAFT = ".opening"
_NOTED = ("headers", "query", "key_header")


@dataclass(frozen=True, slots=True)
class JobsPlace:
    """Folder for the files of jobs, and the run that makes them."""

    folder: Path
    run: str
    """Name of the run that asks, such as that of a build's run folder."""
    warehouse: Path
    """The warehouse that the run belongs to."""


@dataclass(frozen=True, slots=True)
class JobServer:
    """The model that a job asks, and its server."""

    model: str = ""
    url: str = ""
    key_env: str = ""
    kind: str = "openai"
    connection: str = ""
    """JSON of the model's headers, query parameters and key header (`Model.connection`); empty: it has none. It holds
    secrets only as the names of environment variables."""
    has_key_command: bool = False
    """True when a command of the world's file gives the key. A job's file never holds a command, so none runs from it."""

    @classmethod
    def of_model(cls, model: Model) -> "JobServer":
        """Return the part of a model's settings that a job's file stores."""
        connection = {name: value for name, value in model.connection().items() if name in _NOTED}
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
        told = json.loads(self.connection or "{}")
        return {name: told[name] for name in _NOTED if name in told}


@dataclass(eq=False, slots=True)
class JobFile:
    """One job, as its file describes it."""

    path: Path
    fd: int
    """Descriptor that locks the file; -1: released."""
    name: str = ""
    """Name of the uploaded file at the server, and the job's mark there."""
    ids: frozenset[str] = frozenset()
    begun: float = 0.0
    """Seconds since 1970."""
    learnt: dict[str, Any] = field(default_factory=dict)
    """Model settings in which the requests differ from the world's file."""
    file_id: str = ""
    job_id: str = ""
    key_mark: str = ""
    """Digest of the key that it was submitted with (`OpenAiServer.mark_key`); empty in older files."""
    left: set[str] = field(default_factory=set)
    """Ids whose answers are not recorded yet."""
    server: JobServer = JobServer()
    run: str = ""
    """Run that made it; empty in older files."""
    said: bool = False
    """True once it was reported that the job continues without us."""
    in_hand: int = 0
    """Requests of all jobs in progress when this one was submitted, including its own; 0: an earlier process submitted
    it."""
    ended: bool = False
    """True once its answers were read."""

    def note(self, **told: Any) -> None:
        """Append a change of the job's state to the file; ShardError when the disk is full."""
        line = b"\n" * (not told) + json.dumps(told, separators=(",", ":")).encode() + b"\n"
        size = os.fstat(self.fd).st_size
        try:
            if os.write(self.fd, line) < len(line):
                os.ftruncate(self.fd, size)
                raise OSError("no space left")
            os.fsync(self.fd)
        except OSError as error:
            raise ShardError(
                f"cannot write {self.path}, which holds what is known of a batch job: {error}; free some space and run the "
                "same command again"
            ) from error
        self._take(told)

    def read(self) -> None:
        """Load the file's state; lines torn by a crash are skipped, and a file that another process removed is ignored."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        for line in content.split(b"\n"):
            try:
                told = json.loads(line)
                self._take(told)
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue

    def _take(self, told: Mapping[str, Any]) -> None:
        if "ids" in told:
            self.name, self.begun = str(told["name"]), float(told["begun"])
            self.ids = frozenset(told["ids"])
            self.left = set(self.ids)
            self.learnt = dict(told["learnt"])
            self.server = JobServer(**told.get("server", {}))
            self.run = str(told.get("run", ""))
        self.file_id = told.get("file", self.file_id)
        self.job_id = told.get("job", self.job_id)
        self.key_mark = told.get("key_mark", self.key_mark)
        self.left -= set(told.get("kept", ()))


class JobFiles:
    """Job files of one folder, as one Desk of this process uses them; thread-safe."""

    def __init__(self, place: JobsPlace, server: JobServer = JobServer()) -> None:
        """`server`: stored in the files that are begun here."""
        self._folder, self._run, self._server = place.folder, place.run, server
        self._held: dict[Path, JobFile] = {}
        self._read: dict[Path, tuple[tuple[int, int], set[str]]] = {}
        """File that is not locked here → its size and time, and its ids that are not recorded."""
        self._users = 0
        self._lock = threading.Lock()

    def enter(self) -> None:
        """Add a thread that waits for answers."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """Remove a waiting thread; after the last one, release all files for other processes."""
        with self._lock:
            self._users -= 1
            if not self._users:
                for job in self._held.values():
                    _give_back(job)
                self._held.clear()

    def begin(self, name: str, ids: Collection[str], learnt: Mapping[str, Any]) -> JobFile:
        """Write the file of a job that is about to be submitted."""
        path = self._folder / f"{name}.job"
        draft = path.with_suffix(_DRAFT)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o644)
        except OSError as error:
            raise ShardError(f"cannot write {draft}: {error.strerror}; see to it that it can be written") from error
        fcntl.flock(fd, fcntl.LOCK_EX)
        job = JobFile(draft, fd)
        try:
            told = {"server": asdict(self._server), "run": self._run}
            job.note(name=name, begun=time.time(), learnt=dict(learnt), ids=sorted(ids), **told)
        except ShardError:
            draft.unlink(missing_ok=True)
            os.close(fd)
            raise
        draft.rename(path)
        job.path = path
        with self._lock:
            self._held[path] = job
        return job

    def find(self, ids: Collection[str]) -> list[JobFile]:
        """Return the jobs with any of these requests, the newest first: ours, and those of ended processes, which are
        locked."""
        wanted = set(ids)
        with self._lock:
            for path in self._folder.glob("*.job"):
                if path not in self._held and (job := self._take_over(path, wanted)):
                    self._held[path] = job
            found = [job for job in self._held.values() if job.left & wanted]
        return sorted(found, key=lambda job: job.begun, reverse=True)

    def find_learnt(self) -> dict[str, Any] | None:
        """Return the model settings that the newest job had learnt; None where there is no job."""
        newest = max(read_jobs(self._folder), key=lambda job: job.begun, default=None)
        return newest.learnt if newest else None

    def keep(self, ids: Iterable[str]) -> None:
        """Record that these requests have recorded answers; delete the file of a job without others."""
        kept = set(ids)
        with self._lock:
            for job in list(self._held.values()):
                self._drop(job, kept)

    def drop(self, job: JobFile, ids: Iterable[str]) -> None:
        """Record that one job has nothing more about these requests; delete its file when it has no others."""
        with self._lock:
            self._drop(job, set(ids))

    def forget(self, job: JobFile) -> None:
        """Delete the file of a job that has nothing left at the server."""
        with self._lock:
            self._forget(job)

    def tell_open(self) -> list[JobFile]:
        """Return the jobs that the server still works on, each only once."""
        with self._lock:
            jobs = [job for job in self._held.values() if job.job_id and not job.ended and not job.said]
            for job in jobs:
                job.said = True
        return jobs

    def _drop(self, job: JobFile, ids: Collection[str]) -> None:
        if done := job.left.intersection(ids):
            if done == job.left:
                self._forget(job)
            else:
                job.note(kept=sorted(done))

    def _forget(self, job: JobFile) -> None:
        self._held.pop(job.path, None)
        job.path.unlink(missing_ok=True)
        job.left = set()
        _give_back(job)

    def _take_over(self, path: Path, wanted: set[str]) -> JobFile | None:
        """Lock a file that no process follows, where it holds any of these requests; else leave it and return None."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            return None
        if not lock_now(fd):
            os.close(fd)
            return None
        told = os.fstat(fd)
        mark = (told.st_size, told.st_mtime_ns)
        if path in self._read and self._read[path][0] == mark and not self._read[path][1] & wanted:
            os.close(fd)
            return None
        job = JobFile(path, fd)
        job.read()
        self._read[path] = mark, set(job.left)
        if not job.ids:
            path.unlink(missing_ok=True)  # nothing in it is readable
        elif job.left & wanted:
            job.note()  # end a line that a crash has torn
            return job
        _give_back(job)
        return None


def read_jobs(folder: Path) -> list[JobFile]:
    """Load all job files below a folder, the oldest job first, without locking."""
    jobs = []
    for path in folder.rglob("*.job"):
        job = JobFile(path, -1)
        job.read()
        jobs.append(job)
    return sorted((job for job in jobs if job.ids), key=lambda job: (job.begun, job.name))


def forget_job(job: JobFile) -> bool:
    """Delete a job's file, so that its requests are asked again; False where a process follows it."""
    try:
        fd = os.open(job.path, os.O_RDONLY)
    except FileNotFoundError:
        return True  # the process that followed it has just finished it
    try:
        if is_free := lock_now(fd):
            job.path.unlink(missing_ok=True)
        return is_free
    finally:
        os.close(fd)


def _give_back(job: JobFile) -> None:
    if job.fd >= 0:
        os.close(job.fd)
        job.fd = -1
