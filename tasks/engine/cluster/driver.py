"""Driver side of the cluster: send a few groups to each worker at a time and pass on answers as they arrive.

Dask resends a group whose worker dies; each answer is passed on once. The build ends with an error message if there is no
scheduler, no capable worker, or a worker refuses. Stopping the driver cancels groups under way.
"""

import pickle
import queue
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from factmill.tasks.compute_settings import ComputeSettings
from factmill.tasks.engine.cluster.protocol import (
    RequiredModelOrGraph,
    WorkerCapability,
    format_dask_resource_name,
    format_worker_code_version,
    import_dask_distributed_without_logs,
    make_driver_tls_security,
    parse_dask_resource_name,
)
from factmill.tasks.errors import ServiceUnreachable
from factmill.tasks.progress import print_and_log

_IN_FLIGHT_PER_WORKER = 3
"""Groups under way per worker: one being answered, the others waiting at the worker."""
_POLL_EVERY_S = 1.0
_REPORT_LACK_AFTER_S = 3.0
_SILENT_AFTER_S, _REMOVE_AFTER_S = 20.0, 120.0
"""Seconds without a heartbeat (one or two per second) until a worker is reported, and until it is removed. A stopped process
or a machine without power does not sign off, and Dask itself waits five to ten minutes."""
_CONNECT_S = 10.0
_READ_S = 60.0
_MAX_LOST_RESULTS = 10
"""Maximum tries of a group whose answer was lost with its worker."""
_FAULT_RETRIES = 2
"""Retries of a group after a transient error such as MemoryError; dead workers count apart (Dask's allowed-failures)."""

ClusterRequestGroup = tuple[str, Any]
"""(Operation, arguments)."""


class MalformedWorkerAnswer(Exception):
    """An answer does not fit its request; raised by the function that receives it."""


def check_answer_count(answered: int, asked: int) -> None:
    """Raise MalformedWorkerAnswer unless the numbers of answers and requests are equal."""
    if answered != asked:
        raise MalformedWorkerAnswer(f"received {answered} answers to {asked} questions")


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker of the cluster."""

    address: str
    capabilities: tuple[WorkerCapability, ...]
    last_seen: float = 0.0
    """Time of its last heartbeat, by the scheduler's clock."""


class DaskClusterClient:
    """A Dask cluster, connected on first use."""

    def __init__(self, compute: ComputeSettings) -> None:
        self.compute = compute
        self._client: Any = None
        self._is_closed = False
        self._lock = threading.Lock()

    def run_groups(
        self,
        requirement: RequiredModelOrGraph,
        groups: Sequence[ClusterRequestGroup],
        on_answer: Callable[[int, Any], None],
    ) -> None:
        """Send every group to capable workers; call `on_answer` with its number and answer as soon as each answer arrives.

        If `on_answer` raises MalformedWorkerAnswer, raise ServiceUnreachable that names the worker.
        """
        client = self._connect()
        # the worker's module imports all models; the driver needs it only when it sends a request
        from factmill.tasks.engine.cluster.capabilities import RequestGroupAnsweredByUnpickling

        code = format_worker_code_version()
        resource = {format_dask_resource_name(WorkerCapability(requirement, code)): 1}
        waiting = deque(enumerate(groups))
        under_way: dict[str, tuple[int, Any]] = {}
        again: Counter[int] = Counter()
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        holders = _CapableWorkerCounter(self, requirement)
        try:
            while waiting or under_way:
                room = _IN_FLIGHT_PER_WORKER * holders.count() - len(under_way)
                for _ in range(min(room, len(waiting))):
                    number, (operation, asked) = waiting.popleft()
                    future = client.submit(
                        pickle.loads,
                        pickle.dumps(
                            RequestGroupAnsweredByUnpickling(
                                requirement.kind, requirement.identity, code, operation, asked
                            )
                        ),
                        key=f"factmill-{requirement.kind}-{uuid.uuid4()}",
                        resources=resource,
                        retries=_FAULT_RETRIES,
                    )
                    under_way[future.key] = number, future
                    future.add_done_callback(done.put)
                try:
                    future = done.get(timeout=_POLL_EVERY_S)
                except queue.Empty:
                    continue
                number, _ = under_way.pop(future.key)
                answer = self._read(future, requirement)
                if answer is None:
                    # its worker died before the answer was fetched
                    again[number] += 1
                    if again[number] > _MAX_LOST_RESULTS:
                        raise self._make_no_answer_error(requirement, f"its workers died {again[number]} times")
                    waiting.appendleft((number, groups[number]))
                else:
                    try:
                        on_answer(number, answer)
                    except MalformedWorkerAnswer as error:
                        raise self._make_wrong_answer_error(future, requirement, error) from error
                future.release()
        finally:
            for _, future in under_way.values():
                # do not wait for the scheduler, which may be down
                future.release()

    def list_workers(self) -> list[WorkerInfo]:
        """Return the current workers; ServiceUnreachable if the scheduler does not answer."""
        client = self._connect()
        if client.status != "running":
            raise self._make_lost_error()
        try:
            found = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=_READ_S)["workers"]
        except (OSError, TimeoutError) as error:  # the connection was lost just now
            raise self._make_lost_error() from error
        return [
            WorkerInfo(
                address,
                tuple(sorted(filter(None, map(parse_dask_resource_name, fields["resources"])))),
                fields["last_seen"],
            )
            for address, fields in sorted(found.items())
        ]

    def list_capable_workers(self, wanted: RequiredModelOrGraph) -> list[WorkerInfo]:
        """Return the workers that have exactly this model or graph, and the same code."""
        held = WorkerCapability(wanted, format_worker_code_version())
        return [worker for worker in self.list_workers() if held in worker.capabilities]

    def remove_worker(self, address: str) -> None:
        """Unregister a worker from the scheduler, so that its groups under way go to another."""
        client = self._connect()
        try:
            client.sync(
                client.scheduler.unregister,
                address=address,
                stimulus_id=f"factmill-silent-{uuid.uuid4()}",
                callback_timeout=_READ_S,
            )
        except (OSError, TimeoutError) as error:
            raise self._make_lost_error() from error

    def close(self) -> None:
        """Close the connection; groups still under way are cancelled."""
        with self._lock:
            self._is_closed = True
            if self._client is not None:
                self._client.close(timeout=2)
                self._client = None

    def _connect(self) -> Any:
        with self._lock:
            if self._is_closed:
                raise ServiceUnreachable(
                    f"the connection to {self.compute.address} is closed because the run is ending"
                )
            if self._client is None:
                try:
                    self._client = self._open_client()
                except (OSError, TimeoutError, ValueError) as error:
                    raise ServiceUnreachable(
                        f"no Dask scheduler answers at {self.compute.address} ({_format_first_error_line(error)}): start one there "
                        f"(`dask scheduler`) and workers (`factmill worker --address {self.compute.address}`), or remove "
                        "[compute] from the world's file to compute on this machine"
                    ) from error
                print_and_log(f"computing models and paths on the cluster at {self.compute.address}")
            return self._client

    def _open_client(self) -> Any:
        """Return a connection to the scheduler, with a timeout.

        Dask itself waits forever if the connection is accepted but nothing answers: a stopped process, or another server at
        that port.
        """
        library, security = import_dask_distributed_without_logs(), make_driver_tls_security(self.compute)
        opened: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def open_it() -> None:
            try:
                options = {"timeout": _CONNECT_S, "set_as_default": False, "security": security, "name": "factmill"}
                opened.put(library.Client(self.compute.address, **options))
            except Exception as error:  # noqa: BLE001 (raised in the thread that waits)
                opened.put(error)

        threading.Thread(target=open_it, name="factmill-connecting", daemon=True).start()
        try:
            found = opened.get(timeout=2 * _CONNECT_S)
        except queue.Empty:
            raise TimeoutError("a process listens there, but does not respond as a scheduler") from None
        if isinstance(found, Exception):
            raise found
        return found

    def _read(self, future: Any, wanted: RequiredModelOrGraph) -> Any:
        """Return a future's answer, or None if it was lost; ServiceUnreachable if the request failed or was refused."""
        client = self._connect()
        try:
            if future.status in ("cancelled", "lost"):
                raise TimeoutError
            state, answer = future.result(timeout=_READ_S)
        except (import_dask_distributed_without_logs().CancelledError, TimeoutError) as error:
            if client.status != "running":
                raise self._make_lost_error() from error
            return None
        except Exception as error:
            raise self._make_no_answer_error(wanted, _format_first_error_line(error)) from error
        if state == "refused":
            raise ServiceUnreachable(f"a worker of {self.compute.address} refused the {wanted}: {answer}")
        return answer

    def _make_no_answer_error(self, wanted: RequiredModelOrGraph, why: str) -> ServiceUnreachable:
        return ServiceUnreachable(
            f"the cluster at {self.compute.address} returned no answer from the {wanted}: {why}; see the workers' logs (if "
            "one group killed several workers, give them more memory)"
        )

    def _make_wrong_answer_error(
        self, future: Any, wanted: RequiredModelOrGraph, error: MalformedWorkerAnswer
    ) -> ServiceUnreachable:
        try:
            workers = ", ".join(self._connect().who_has([future])[future.key])
        except (OSError, TimeoutError):  # it has left meanwhile
            workers = ""
        return ServiceUnreachable(
            f"the worker {workers or 'that has just left'} of {self.compute.address} returned a malformed answer from the {wanted}: {error}; "
            "answers of other workers are recorded: stop that worker, reinstall factmill there, then run the same command again"
        )

    def _make_lost_error(self) -> ServiceUnreachable:
        return ServiceUnreachable(
            f"the Dask scheduler at {self.compute.address} is gone; answers so far are recorded: restart it and its workers, "
            "then run the same command again"
        )


class _CapableWorkerCounter:
    """Count of the workers that can answer a request, refreshed once a second.

    Workers silent for too long are removed. If there is no worker for too long, the request is given up.
    """

    def __init__(self, cluster: DaskClusterClient, wanted: RequiredModelOrGraph) -> None:
        self._cluster, self._wanted = cluster, wanted
        self._looked, self._found = 0.0, 0
        self._since = time.monotonic()
        self._is_reported = False
        self._heartbeats: dict[str, tuple[float, float]] = {}
        """Address → (last heartbeat by the scheduler's clock, time when we first saw that value by ours)."""
        self._silent: set[str] = set()
        """Addresses already reported as silent."""

    def count(self) -> int:
        """Return the count; ServiceUnreachable if it is 0 for longer than the world's `wait_s`."""
        now = time.monotonic()
        if now - self._looked >= _POLL_EVERY_S:
            workers = self._cluster.list_capable_workers(self._wanted)
            self._looked, self._found = now, sum(self._is_responsive(worker, now) for worker in workers)
        if self._found:
            self._since, self._is_reported = now, False
            return self._found
        wait_s = self._cluster.compute.wait_s
        if now - self._since >= wait_s:
            why = format_missing_capability(self._wanted, self._cluster.list_workers(), self._cluster.compute.address)
            raise ServiceUnreachable(f"{why} (waited {wait_s:g} s)")
        if now - self._since >= _REPORT_LACK_AFTER_S and not self._is_reported:
            self._is_reported = True
            print_and_log(
                f"note: waiting up to {wait_s:g} s for a worker at {self._cluster.compute.address}: {self._wanted}"
            )
        return 0

    def _is_responsive(self, worker: WorkerInfo, now: float) -> bool:
        """Return False, and remove the worker, if it has been silent for too long."""
        if worker.address not in self._heartbeats or self._heartbeats[worker.address][0] != worker.last_seen:
            self._heartbeats[worker.address] = worker.last_seen, now
            self._silent.discard(worker.address)
        silent_s = now - self._heartbeats[worker.address][1]
        if silent_s >= _REMOVE_AFTER_S:
            self._cluster.remove_worker(worker.address)
            print_and_log(
                f"note: the worker {worker.address} was silent for {silent_s:.0f} s and is removed; its pending work goes to another worker. "
                "Check its process and machine, and start it again"
            )
            return False
        if silent_s >= _SILENT_AFTER_S and worker.address not in self._silent:
            self._silent.add(worker.address)
            print_and_log(
                f"note: the worker {worker.address} does not respond: check whether its process is stopped or its machine is offline. It is "
                f"removed after {_REMOVE_AFTER_S:g} s"
            )
        return True


def format_missing_capability(wanted: RequiredModelOrGraph, workers: Sequence[WorkerInfo], address: str) -> str:
    """Return why no worker can answer the request, and what to do."""
    advice = f"start one on a machine that has it: `factmill worker --address {address}`"
    if not workers:
        return f"no worker has joined {address}, so none can serve the {wanted}: {advice}"
    for worker in workers:
        for held in worker.capabilities:
            if held.requirement == wanted:
                return (
                    f"{worker.address} holds the {wanted}, but runs other code ({held.code}; here: {format_worker_code_version()}): "
                    "install the same versions of factmill and libraries on both machines"
                )
    held_by_all = {held.requirement for each in workers for held in each.capabilities}
    others = sorted(each.identity for each in held_by_all if each.kind == wanted.kind)
    available = f"they hold: {', '.join(others)}" if others else f"they hold no {wanted.kind}"
    if _strip_compute_type_and_device(wanted.identity) in map(_strip_compute_type_and_device, others):
        advice = (
            "the model is the same, but uses another number format: set compute_type of the model, or device of [compute], to "
            "the workers' value (for int8, set CT2_FORCE_CPU_ISA=AVX2 on both sides so that all CPUs compute alike)"
        )
    return f"no worker at {address} ({len(workers)} workers) holds the {wanted}; {available}; {advice}"


def _strip_compute_type_and_device(identity: str) -> str:
    """Return name and digest of a model's identity (name@digest-numbers-device); a bare digest is returned unchanged."""
    name, at, known_by = identity.rpartition("@")
    return f"{name}{at}{known_by.partition('-')[0]}"


def _format_first_error_line(error: BaseException) -> str:
    first_line = str(error).strip().partition("\n")[0][:300]
    return first_line or type(error).__name__
