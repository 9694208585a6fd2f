"""Moments at which articles are looked at: a day, which stands for its beginning, or an ISO 8601 moment."""

from datetime import UTC, date, datetime

from factmill.tasks.errors import UsageError

EARLIEST, LATEST = date(2001, 1, 1), date(2100, 12, 31)
"""Days at which a world can be seen: Wikipedia has articles since 2001, and months before and after are in the calendar."""
SNAPSHOT = "2023-11-20T00:00:00Z"
"""The moment of FanOutQA's snapshot, to which the released files are pinned (paper, §3.1)."""


def read_epoch(text: str) -> str:
    """Return a moment as `2023-11-20T00:00:00Z`; a day is its beginning in UTC. UsageError for anything else."""
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"epoch {text!r}: expected a day like 2023-11-20 or a moment like 2023-11-20T12:00:00Z"
        ) from error
    if not EARLIEST <= moment.date() <= LATEST:
        raise UsageError(f"epoch {text!r}: expected a moment from {EARLIEST} to {LATEST}")
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
