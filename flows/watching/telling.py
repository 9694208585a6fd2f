"""What a run tells Prefect as it goes: lines in its log, and how far a stage has come.

Lines cost nothing, since Prefect sends them in bundles, beside the work. A call of its server takes some 20 ms, so a
stage shows how far it has come only where somebody can see it, on a standing server, and when it takes its time.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.objects import FlowRun
from prefect.logging.loggers import PrefectLogAdapter, flow_run_logger

from flows.prefect_server import find_standing
from tasks.progress import Level, StageBar

FIRST_AFTER_S, EVERY_S = 1.0, 3.0
"""A stage that is over before then shows no progress; one that goes on shows it so often, where there is news."""
LINE_AFTER_S, LINE_EVERY_S = 10.0, 120.0
"""The same for lines in the log, which otherwise tells stages that are over."""
PROGRESS = "progress"
"""Type of the artifacts that show how far a stage has come, in per cent."""
_PATIENCE_S = 5.0


class RunWatcher:
    """A flow run, told what happens in it."""

    def __init__(self, flow: Flow[..., Any], flow_run: FlowRun) -> None:
        self.run_id: UUID = flow_run.id
        self._flow_name = flow.name
        # Prefect's loggers are set to be silent, and print what they get: these lines go to the server alone
        own = logging.getLogger("factmill")
        self._logger = PrefectLogAdapter(own, flow_run_logger(flow_run, flow).extra)
        own.setLevel(logging.INFO)
        own.propagate = False
        own.handlers = logging.getLogger("prefect.flow_runs").handlers
        # a server that is gone is told once, by the flow, not on top by each bundle of lines
        logging.raiseExceptions = False
        # nor by the events that Prefect could not send it
        logging.getLogger("EventsWorker").setLevel(logging.ERROR)

    def tell(self, text: str, level: Level) -> None:
        """Put a line into the run's log."""
        self._logger.log(logging.getLevelNamesMapping()[level.upper()], "%s", text)

    def close(self) -> None:
        """Send what is not yet sent: a server of our own stops next."""
        for handler in self._logger.logger.handlers:
            handler.flush()

    @contextmanager
    def watch(self, bar: StageBar) -> Iterator[None]:
        """Show how far a stage has come while it goes on."""
        if not find_standing():
            yield
            return
        over = threading.Event()
        thread = threading.Thread(target=copy_context().run, args=(self._follow, bar, over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
        thread.join(_PATIENCE_S)

    def _follow(self, bar: StageBar, over: threading.Event) -> None:
        if over.wait(FIRST_AFTER_S):
            return
        try:
            with get_client(sync_client=True) as client:
                artifact, shown, ended = None, "", False
                line_at = time.monotonic() + LINE_AFTER_S
                while True:
                    said = bar.describe()
                    if said != shown:
                        artifact, shown = self._show(client, artifact, bar, said), said
                    if ended:
                        return
                    if time.monotonic() >= line_at:
                        self.tell(f"under way: {said}", "info")
                        line_at += LINE_EVERY_S
                    ended = over.wait(EVERY_S)
        except Exception:  # noqa: BLE001 - a server that is gone is told by what the build itself asks of it
            return

    def _show(self, client: SyncPrefectClient, artifact: UUID | None, bar: StageBar, said: str) -> UUID:
        percent = bar.percent()
        if artifact is None:
            key = f"{self._flow_name}-{bar.name}".replace("_", "-").lower()
            made = ArtifactCreate(key=key, type=PROGRESS, data=percent, description=said, flow_run_id=self.run_id)
            return client.create_artifact(made).id
        client.update_artifact(artifact, ArtifactUpdate(data=percent, description=said))
        return artifact
