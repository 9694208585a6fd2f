"""What a run that did not come to its end tells in Prefect: why, in its log, and in what shows how far its stage has come.

It is told by whoever ends the run: the run itself, the process that serves it and cancels it, or a later run that finds
its process gone.
"""

import logging
from datetime import UTC, datetime
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterType

from flows.watching.telling import PROGRESS

WHOLE = 100.0


def tell_broken_off(
    client: SyncPrefectClient, run_id: UUID, line: str, ending: str, level: int = logging.ERROR
) -> None:
    """Put a line into a run's log, and the run's ending, in a word or two, behind the progress of a stage that is not done."""
    told = {"name": "factmill", "level": level, "message": line, "timestamp": datetime.now(UTC).isoformat()}
    client.create_logs([{**told, "flow_run_id": str(run_id)}])
    of_run = ArtifactFilter(
        flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]), type=ArtifactFilterType(any_=[PROGRESS])
    )
    for each in client.read_artifacts(artifact_filter=of_run):
        if isinstance(each.data, int | float) and each.data < WHOLE:
            client.update_artifact(each.id, ArtifactUpdate(description=f"{each.description}; {ending} here"))
