"""How a judge is asked about answers: as builds ask theirs, and once more where it cannot be read. What then has no verdict is unscored."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tasks.core.evaluation.rows import Answer, Unscored
from tasks.core.prompts import Ask
from tasks.core.replies import UNREADABLE_KINDS, Form, Unreadable
from tasks.core.rows import Reject
from tasks.engine.batches import Work
from tasks.evaluation.record import EXACT, read_params

B = TypeVar("B", bound=Answer)
V = TypeVar("V")
R = TypeVar("R", bound=Answer)


@dataclass(frozen=True, slots=True)
class Judged(Generic[V]):
    """What a judge said of an answer."""

    verdict: V | None
    """None where there is none."""
    unscored: Unscored = ""
    detail: str = ""
    call: str = ""
    """Key of the recorded call; empty for the program."""


def wants_verdict(row: Answer) -> bool:
    """True where an answer says something that can be judged."""
    return not row.unscored


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging(Generic[B, V, R]):
    """How a benchmark's answers are judged."""

    fill: Callable[[B], Ask]
    """An answer, inside its frame (core/evaluation/frame.py), as the judge's prompt."""
    form: Form
    read: Callable[[B, list[str]], V | Unreadable]
    """A reply's last verdict."""
    compare: Callable[[B], V]
    """The verdict of the program that stands in where the judge is `exact`."""
    row: type[R]
    """Row model of judged answers."""
    mark: Callable[[B, Judged[V] | None, str], R]
    """An answer, what was said of it and by whom → the judged row; None: nothing was asked about it."""
    wants: Callable[[B], bool] = wants_verdict
    """Whether a judge is asked about an answer."""


def judge_rows(work: Work, rows: Sequence[B], judging: Judging[B, V, R]) -> Iterator[R]:
    """Have every answer judged that can be; yield the judged rows in the order given."""
    said = dict(_judge(work, [row for row in rows if judging.wants(row)], judging))
    name = name_judge(work)
    return (judging.mark(row, said.get(row.id), name) for row in rows)


def _judge(work: Work, rows: Sequence[B], judging: Judging[B, V, R]) -> Iterator[tuple[str, Judged[V]]]:
    """Yield (answer's id, what the judge said of it)."""
    judge: str = read_params(work)["judge"]
    if judge == EXACT:
        yield from ((row.id, Judged(judging.compare(row))) for row in rows)
        return
    asked = [(row.id, row, judging.fill(row)) for row in rows]
    for row, answer in work.ask(judge, asked, judging.form, judging.read):
        if isinstance(answer.read, Reject):
            # a judge's own refusal or cut reply is no verdict about the answer
            reason: Unscored = "judge_unreadable" if answer.read.reason in UNREADABLE_KINDS else "judge_failed"
            work.unsettled += answer.read.retryable
            yield row.id, Judged(None, reason, answer.read.detail, answer.key)
        else:
            yield row.id, Judged(answer.read, call=answer.key)


def name_judge(work: Work) -> str:
    """Return what judges: the model's name, or `exact`."""
    judge: str = read_params(work).get("judge", "")
    return judge if judge in ("", EXACT) else work.run.services.world.models[judge].name
