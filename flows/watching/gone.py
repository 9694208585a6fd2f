"""Runs whose process was killed: Prefect would have them as running for ever, so the next run, `factmill serve` or
`factmill gc` ends them.

tasks/storage/housekeeping/gone_runs.py says how they are told.
"""

import fcntl
import os
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import State, StateType
from prefect.client.schemas.sorting import TaskRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelled, Crashed

from flows.prefect_server import find_standing
from flows.watching.breaking_off import tell_broken_off
from tasks import progress
from tasks.processes import one_at_a_time
from tasks.progress import say
from tasks.settings import home
from tasks.storage.housekeeping.gone_runs import OUR_OWN, files_of_runs, find_gone_runs

UNENDED = (StateType.RUNNING, StateType.CANCELLING, StateType.PENDING, StateType.PAUSED)
_SAID = (
    "The process of this run was gone when somebody next looked: killed, out of memory, or the machine went down. What was "
    "done is kept: the same run again goes on from it."
)
_MOST_TASKS = 200
_held: dict[UUID, int] = {}


def hold_run(run_id: UUID) -> None:
    """Say that this process carries out a run, until it ends or lets go."""
    if run_id in _held:
        return
    path = files_of_runs(home()) / str(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, _name_server().encode())
    _held[run_id] = fd


def let_go(run_id: UUID) -> None:
    """Say that a run is over; one that this process does not carry out is left as it is."""
    fd = _held.pop(run_id, None)
    if fd is not None:
        (files_of_runs(home()) / str(run_id)).unlink(missing_ok=True)
        os.close(fd)


def drop_runs() -> None:
    """Let go of the runs of a server of our own that has ended, as if this process were gone: the next run ends them."""
    while _held:
        run_id, fd = _held.popitem()
        os.close(fd)
        progress.remove_watcher(run_id)


def crash_gone_runs() -> list[UUID]:
    """Let runs crash that this home began on this server, and whose process is gone; return them."""
    if not _find_gone():
        return []
    # two runs that begin at once would both end the same ones, and an automation would act twice
    with one_at_a_time(files_of_runs(home()).with_name("ending-runs.lock"), say):
        gone = _find_gone()
        with get_client(sync_client=True) as client:
            crashed = [run_id for path in gone if _crash(client, run_id := UUID(path.name))]
        for path in gone:
            path.unlink(missing_ok=True)
    return crashed


def end_below(run_id: UUID, state: State[Any]) -> None:
    """Let all that a run had under way end as the run itself did, whose process is gone: its tasks, and the runs below."""
    with get_client(sync_client=True) as client:
        _end_tasks(client, run_id, state)
        below = {"parent_flow_run_id": {"any_": [run_id]}, "state": {"type": {"any_": UNENDED}}}
        for run in client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(below)):
            client.set_flow_run_state(run.id, state, force=True)
            tell_broken_off(client, run.id, state)
            _end_tasks(client, run.id, state)


def _crash(client: SyncPrefectClient, run_id: UUID) -> bool:
    """Let a run crash, with the runs of its tasks; false where it is over, or no longer known. One that was being
    cancelled is."""
    try:
        run = client.read_flow_run(run_id)
    except ObjectNotFound:
        return False
    if run.state_type not in UNENDED:
        return False
    state: State[Any] = Cancelled() if run.state_type == StateType.CANCELLING else Crashed(message=_SAID)
    client.set_flow_run_state(run_id, state, force=True)
    tell_broken_off(client, run_id, state)
    _end_tasks(client, run_id, state)
    return True


def _end_tasks(client: SyncPrefectClient, run_id: UUID, state: State[Any]) -> None:
    for task in client.read_task_runs(
        flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run_id]}}),
        task_run_filter=TaskRunFilter.model_validate({"state": {"type": {"any_": UNENDED}}}),
        sort=TaskRunSort.ID_DESC,
        limit=_MOST_TASKS,
    ):
        client.set_task_run_state(task.id, state, force=True)


def _find_gone() -> list[Path]:
    return [path for path, server in find_gone_runs(home()).items() if server == _name_server()]


def _name_server() -> str:
    """Return what stands for the server in files of runs: each knows its own runs alone."""
    return find_standing() or OUR_OWN
