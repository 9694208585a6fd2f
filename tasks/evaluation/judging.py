"""How a judge is asked about answers: as builds ask theirs, and once more where it cannot be read. What then has no verdict is unscored."""

from collections.abc import Callable, Iterable, Iterator
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


@dataclass(frozen=True, slots=True)
class Judged(Generic[V]):
    """What a judge said of an answer."""

    verdict: V | None
    """None where there is none."""
    unscored: Unscored = ""
    detail: str = ""
    call: str = ""
    """Key of the recorded call; empty for the program."""


def judge_answers(
    work: Work,
    answers: Iterable[B],
    fill: Callable[[B], Ask],
    form: Form,
    read: Callable[[B, list[str]], V | Unreadable],
    compare: Callable[[B], V],
) -> Iterator[tuple[B, Judged[V]]]:
    """Have every answer that can be scored judged; yield (answer, verdict) in the order given.

    `fill`: an answer, inside its frame (core/evaluation/frame.py), as the judge's prompt; `read`: a reply's last verdict;
    `compare`: the verdict of the program that stands in where the judge is `exact`.
    """
    rows = list(answers)
    judge: str = read_params(work)["judge"]
    if judge == EXACT:
        yield from ((row, Judged(compare(row))) for row in rows)
        return
    for row, answer in work.ask(judge, [(row.id, row, fill(row)) for row in rows], form, read):
        if isinstance(answer.read, Reject):
            # a judge's own refusal or cut reply is no verdict about the answer
            reason: Unscored = "judge_unreadable" if answer.read.reason in UNREADABLE_KINDS else "judge_failed"
            work.unsettled += answer.read.retryable
            yield row, Judged(None, reason, answer.read.detail, answer.key)
        else:
            yield row, Judged(answer.read, call=answer.key)


def name_judge(work: Work) -> str:
    """Return what judges: the model's name, or `exact`."""
    judge: str = read_params(work).get("judge", "")
    return judge if judge in ("", EXACT) else work.run.services.world.models[judge].name
