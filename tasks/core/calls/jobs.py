"""How a model's batch jobs are made: many requests in one file, answered within a day for less (OpenAI's `/v1/batches`)."""

from pydantic import Field

from tasks.core.rows import LONGEST_S, MOST, StrictModel


class Jobs(StrictModel):
    """How a model's batch jobs are made and watched."""

    poll_s: float = Field(default=30.0, gt=0, le=LONGEST_S)
    """Seconds until a job is looked at again, growing to ten times that; also how long a job that is not full waits for
    further requests before it is handed in."""
    requests: int = Field(default=50_000, ge=1, le=MOST)
    """Requests in one job, at most."""
    megabytes: float = Field(default=200.0, gt=0, le=MOST)
    """Megabytes of one job's file, at most."""
    first_singly: bool = True
    """The first request of a run goes out by itself, at the full price, so that what the server will not take is learnt in
    seconds and not by a whole job."""
    few_singly: int = Field(default=20, ge=0, le=MOST)
    """So many requests that a job has left unanswered are asked singly, at the full price, and not by a job of their own; where
    the first one is."""
    window: str = "24h"
    """Time that the server is given (`completion_window`)."""
