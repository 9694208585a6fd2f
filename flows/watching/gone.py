"""Runs whose process was killed: Prefect would have them as running for ever, so the next run ends them.

A run holds a file of its own, named by its id, for as long as its process lives; the kernel lets go of it however that
ends. A file that nobody holds is of a run that is over, or whose process is gone.
"""

import fcntl
import os
from pathlib import Path
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.sorting import TaskRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from flows.prefect_server import find_standing
from flows.watching.breaking_off import tell_broken_off
from tasks.settings import home

UNENDED = (StateType.RUNNING, StateType.CANCELLING, StateType.PENDING, StateType.PAUSED)
_SAID = (
    "The process of this run was gone when the next one began: killed, out of memory, or the machine went down. What was "
    "done is kept: the same run again goes on from it."
)
_MOST_TASKS = 200
_held: dict[UUID, int] = {}


def hold_run(run_id: UUID) -> None:
    """Say that this process carries out a run, until it ends or lets go."""
    if run_id in _held:
        return
    path = _folder() / str(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, _name_server())
    _held[run_id] = fd


def let_go(run_id: UUID) -> None:
    """Say that a run is over; one that this process does not carry out is left as it is."""
    fd = _held.pop(run_id, None)
    if fd is not None:
        (_folder() / str(run_id)).unlink(missing_ok=True)
        os.close(fd)


def crash_gone_runs() -> list[UUID]:
    """Let runs crash that this home began on this server, and whose process is gone; return them."""
    gone = [path for path in _folder().glob("*-*") if _is_gone(path)]
    if not gone:
        return []
    with get_client(sync_client=True) as client:
        crashed = [run_id for path in gone if _crash(client, run_id := UUID(path.name))]
    for path in gone:
        path.unlink(missing_ok=True)
    return crashed


def _crash(client: SyncPrefectClient, run_id: UUID) -> bool:
    """Let a run crash, with the runs of its tasks; false where it is over, or no longer known."""
    try:
        run = client.read_flow_run(run_id)
    except ObjectNotFound:
        return False
    if run.state_type not in UNENDED:
        return False
    client.set_flow_run_state(run_id, Crashed(message=_SAID), force=True)
    tell_broken_off(client, run_id, f"Crashed: {_SAID}", "its process was gone")
    for task in client.read_task_runs(
        flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run_id]}}),
        task_run_filter=TaskRunFilter.model_validate({"state": {"type": {"any_": UNENDED}}}),
        sort=TaskRunSort.ID_DESC,
        limit=_MOST_TASKS,
    ):
        client.set_task_run_state(task.id, Crashed(message=_SAID), force=True)
    return True


def _is_gone(path: Path) -> bool:
    """True when no process holds the file of a run on this server."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return os.read(fd, 2048) == _name_server()
    finally:
        os.close(fd)


def _name_server() -> bytes:
    """Return what stands for the server in files of runs: each knows its own runs alone."""
    return (find_standing() or "our own").encode()


def _folder() -> Path:
    return home() / "prefect" / "runs"
