"""What a run that did not come to its end tells in Prefect: why, in its log, and in what shows how far its stage has come.

It is told by whoever ends the run: the run itself, the process that serves it and cancels it, or a later run that finds
its process gone.
"""

import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType
from prefect.client.schemas.objects import State

from flows.watching.telling import PROGRESS

_WHOLE = 100.0
_OF_PREFECT = "Flow run encountered an exception: "


def describe_end(state: State[Any]) -> str:
    """Return why a run ended in a state that is none of success, as a line of its log."""
    if state.is_cancelling() or state.is_cancelled():
        return "Cancelled: what was done is kept; the same run again goes on from it"
    return f"{state.name}: {(state.message or 'no reason is given').removeprefix(_OF_PREFECT)}"


def tell_broken_off(client: SyncPrefectClient, run_id: UUID, state: State[Any]) -> None:
    """Put a run's end into its log, and in a word behind the progress of a stage that is not done."""
    line = describe_end(state)
    word = line.partition(":")[0].lower()
    level = logging.WARNING if word == "cancelled" else logging.ERROR
    told = {"name": "factmill", "level": level, "message": line, "timestamp": datetime.now(UTC).isoformat()}
    client.create_logs([{**told, "flow_run_id": str(run_id)}])
    of_run = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]), type=ArtifactFilterType(any_=[PROGRESS])
    )
    for each in client.read_artifacts(artifact_filter=of_run):
        if isinstance(each.data, int | float) and each.data < _WHOLE:
            client.update_artifact(each.id, ArtifactUpdate(description=f"{each.description}; {word} here"))
