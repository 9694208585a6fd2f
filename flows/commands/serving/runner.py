"""Prefect's runner as `factmill serve` has it: it outlives its server's outages, and ends well.

Prefect's own gives up looking for runs when three questions in a row find no server, and stops listening for cancelled
ones when the server is restarted. This one looks by itself, for as long as it serves.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import Any
from uuid import UUID

from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runner import Runner

from flows.prefect_server import LOOK_AGAIN_S, find_trouble
from flows.watching.gone import crash_gone_runs
from tasks.errors import PrefectLost

_STOP_S = 60.0
"""What runs and schedules are given to be stopped in an orderly way, which asks the server."""


class ServingRunner(Runner):
    """Looks for runs that are due or to be stopped, carries them out, and tells of a server that is away."""

    _stopped: "asyncio.Future[int]"

    def __init__(self, api: str, runs: int, tell: Callable[[str], None]) -> None:
        super().__init__(name="factmill", query_seconds=LOOK_AGAIN_S, limit=runs)
        self._api, self._tell = api, tell
        # connections that end with the server's are nothing that anybody could do something about
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self.address = api.removesuffix("/api")

    async def serve(self) -> int:
        """Serve until a signal comes, and return the exit code that says which."""
        loop = asyncio.get_running_loop()
        self._stopped = loop.create_future()
        loop.add_signal_handler(signal.SIGINT, self.handle_sigterm, signal.SIGINT)
        serving = asyncio.create_task(self.start())
        ends: list[asyncio.Future[Any]] = [serving, self._stopped]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            await self._end(serving)
        await asyncio.wait([serving])
        if not serving.cancelled():
            serving.result()
        return 128 + await self._stopped

    def handle_sigterm(self, *args: Any, **_: Any) -> None:
        """Stop; at once, when it is the second time."""
        if self._stopped.done():
            os._exit(128 + args[0])
        self._stopped.get_loop().call_soon_threadsafe(self._stopped.set_result, args[0])

    async def _end(self, serving: "asyncio.Task[None]") -> None:
        """Stop all runs and pause their schedules; where no server answers, runs end with this process."""
        if self._stopped.exception() is not None or await self._find_trouble():
            self.pause_on_shutdown = False
            serving.cancel()
            return
        try:
            await asyncio.wait_for(self.astop(), _STOP_S)
        except Exception:  # noqa: BLE001 - whatever keeps the server from it, this process ends, and its runs with it
            self.pause_on_shutdown = False
            serving.cancel()

    async def __aenter__(self) -> "ServingRunner":
        await super().__aenter__()
        observer = self._cancelling_observer
        assert observer is not None
        # what it polls with gives up too; its events are heard for as long as they come
        if observer._consumer_task is not None:
            observer._consumer_task.remove_done_callback(observer._start_polling_task)
        if observer._polling_task is not None:
            observer._polling_task.remove_done_callback(observer._handle_polling_task_done)
            observer._polling_task.cancel()
        self._scheduled_run_poller.run = self._keep_looking  # type: ignore[method-assign]
        return self

    async def _keep_looking(self) -> None:
        """Look for runs for ever, and tell once when nothing answers, and once when something does again."""
        lost = False
        while True:
            trouble = await self._find_trouble() or await self._look(lost)
            if trouble and not lost:
                self._tell(
                    f"the Prefect server at {self.address} does not answer ({trouble}); serving goes on when it does, "
                    "and what runs are doing is kept"
                )
            elif lost and not trouble:
                self._tell(f"the Prefect server at {self.address} answers again")
            lost = bool(trouble)
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _find_trouble(self) -> str:
        return await asyncio.to_thread(find_trouble, self._api)

    async def _look(self, was_lost: bool) -> str:
        """Start runs that are due, stop those that are to be cancelled, and end those that were killed; return why that was
        not possible."""
        observer = self._cancelling_observer
        assert observer is not None
        try:
            if was_lost:
                await self._check_deployments()
            if not self._is_busy():
                await asyncio.to_thread(crash_gone_runs)
            if observer._consumer_task is None or observer._consumer_task.done():
                await observer._check_for_cancelled_flow_runs()
            await self._scheduled_run_poller._get_and_submit_flow_runs()
        except Exception as error:  # noqa: BLE001 - whatever one look ends in is told, and the next may end better
            return _tell_error(error)
        return ""

    def _is_busy(self) -> bool:
        """True while runs are under way, or being ended: what becomes of their processes is told by what started them."""
        poller = self._scheduled_run_poller
        return bool(poller.stopping or poller._submitting_flow_run_ids or self._cancelling_flow_run_ids)

    async def _check_deployments(self) -> None:
        """Stop serving where the server has come back without the deployments."""
        for deployment_id in self._deployment_registry.get_deployment_ids():
            try:
                await self._client.read_deployment(deployment_id)
            except ObjectNotFound:
                if not self._stopped.done():
                    self._stopped.set_exception(
                        PrefectLost(
                            f"the Prefect server at {self.address} has come back without the deployments that are served "
                            "(has it another database?); start `factmill serve` again, which makes them anew"
                        )
                    )
                return

    async def _cancel_run(self, flow_run: FlowRun | UUID, state_msg: str | None = None) -> None:
        """Cancel a run; where the server goes away meanwhile, the next look tries again."""
        try:
            await super()._cancel_run(flow_run, state_msg)
        except Exception:  # noqa: BLE001 - one run that cannot be cancelled just now does not end the others
            observer = self._cancelling_observer
            assert observer is not None
            observer._cancelling_flow_run_ids.discard(flow_run if isinstance(flow_run, UUID) else flow_run.id)


def _tell_error(error: Exception) -> str:
    """Return an error of a question to the server in a line."""
    if isinstance(error, PrefectHTTPStatusError):
        return f"it answers {error.response.status_code}"
    return f"{type(error).__name__}: {error}".splitlines()[0]
