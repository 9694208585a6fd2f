"""Parse the moment at which articles are read: a day, which means its beginning, or an ISO 8601 moment."""

from datetime import UTC, date, datetime

from factmill.tasks.errors import UsageError

EARLIEST_DAY, LATEST_DAY = date(2001, 1, 1), date(2100, 12, 31)
"""First and last day of a world's epoch: Wikipedia has had articles since 2001; the months around each are valid dates."""
FANOUTQA_SNAPSHOT = "2023-11-20T00:00:00Z"
"""Moment of FanOutQA's snapshot, to which its released files are pinned (paper, §3.1)."""


def normalise_epoch_to_utc(text: str) -> str:
    """Parse a moment to the form `2023-11-20T00:00:00Z`; a day means its beginning in UTC. UsageError for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"epoch {text!r}: expected a day like 2023-11-20 or a moment like 2023-11-20T12:00:00Z"
        ) from error
    if not EARLIEST_DAY <= moment.date() <= LATEST_DAY:
        raise UsageError(f"epoch {text!r}: expected a moment from {EARLIEST_DAY} to {LATEST_DAY}")
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
