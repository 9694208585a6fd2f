"""Worker side of the cluster: answer a group of requests with a local model or graph, or refuse with a reason.

Requests go only to workers with exactly the required model or graph and code; both are checked here again.
"""

from typing import Any

from factmill.tasks.engine.cluster.capabilities import ServedResources
from factmill.tasks.engine.cluster.protocol import RequiredResource, ResourceKind, format_worker_code_version
from factmill.tasks.errors import FactmillError
from factmill.tasks.progress import print_and_log

_served_resources: list[ServedResources] = []
"""What this worker process serves: one Holding; empty if the process is not a worker."""


def set_served_resources(resources: ServedResources) -> None:
    """Serve requests with this from now on."""
    _served_resources[:] = [resources]


class RequestUnpicklingToAnswer:
    """A group of requests that unpickles to its answer.

    The submitted task is `pickle.loads` of the pickled group, so the scheduler, which unpickles tasks too, does not need
    factmill, and Dask does not search the group for tasks.
    """

    def __init__(self, kind: ResourceKind, identity: str, code: str, operation: str, asked: Any) -> None:
        self._arguments = kind, identity, code, operation, asked

    def __reduce__(self) -> tuple[Any, ...]:
        return answer_or_refuse_cluster_request, self._arguments


def answer_or_refuse_cluster_request(
    kind: ResourceKind, identity: str, code: str, operation: str, asked: Any
) -> list[Any]:
    """Return ["answered", answer] or ["refused", reason]; raise errors that another worker may avoid, such as MemoryError."""
    wanted = RequiredResource(kind, identity)
    if code != format_worker_code_version():
        return ["refused", f"this worker runs {format_worker_code_version()}; the request needs {code}"]
    if not _served_resources or wanted not in _served_resources[0]:
        return ["refused", f"this worker does not hold the {wanted}"]
    try:
        return ["answered", _served_resources[0].answer(wanted, operation, asked)]
    except FactmillError as error:
        print_and_log(f"note: the {wanted} refused {operation}: {error}")
        return ["refused", str(error)]
    except Exception as error:  # re-raise: Dask retries on another worker, and its own log is off
        print_and_log(f"note: the {wanted} failed at {operation}: {type(error).__name__}: {error}")
        raise
