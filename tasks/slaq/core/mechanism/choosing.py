"""In which order facts are drawn: those that a model answered right in both ways, and those that it got right in one (§5.2)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from tasks.core.measures.audits import draw_sample
from tasks.slaq.core.evaluation.answers import LONG, SHORT
from tasks.slaq.core.mechanism.rows import Fact, Kind


@dataclass(frozen=True, slots=True)
class Chosen:
    """The facts that can be looked at, and what there was to choose from."""

    drawn: Mapping[Kind, tuple[Fact, ...]]
    """All facts of each kind, in the order of the draw."""
    counts: Mapping[str, int]
    """aligned, misaligned, wrong_in_both, unscored → facts of the evaluation."""


def choose_facts(answers: Iterable[Mapping[str, Any]], model: str, asked_as: str, seed: int) -> Chosen:
    """Return the facts of each kind in an order that the seed gives; `answers`: rows of `slaq_answers` in both settings."""
    found = list(_pair_verdicts(answers, model, asked_as))
    counts = {
        "wrong_in_both": sum(right == (0, 0) for _, right in found),
        "unscored": sum(right is None for _, right in found),
    }
    drawn: dict[Kind, tuple[Fact, ...]] = {}
    for kind in get_args(Kind):
        mine = {fact.id: fact for fact, _ in found if fact is not None and fact.kind == kind}
        drawn[kind] = tuple(mine[each] for each in draw_sample(mine, len(mine), seed))
    return Chosen(drawn, {kind: len(mine) for kind, mine in drawn.items()} | counts)


def count_kinds(facts: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return kind → facts that were drawn, and those of them that lack a similarity; `facts`: kind and reason, empty for none."""
    drawn = Counter((kind, bool(reason)) for kind, reason in facts)
    return {
        kind: {"drawn": drawn[kind, False] + drawn[kind, True], "unscored": drawn[kind, True]}
        for kind in get_args(Kind)
    }


def format_kinds(kinds: Mapping[str, Mapping[str, int]]) -> str:
    """Return counts as a text to read: of each kind, how many facts are scored."""
    return ", ".join(
        f"{each['drawn'] - each['unscored']} of {each['drawn']} {kind} facts" for kind, each in kinds.items()
    )


def _pair_verdicts(
    answers: Iterable[Mapping[str, Any]], model: str, asked_as: str
) -> Iterator[tuple[Fact | None, tuple[int, int] | None]]:
    """Yield each fact that was asked both ways, None where it is not looked at, with its verdicts short and long."""
    short: dict[tuple[str, int], Mapping[str, Any]] = {}
    long: dict[str, Mapping[str, Any]] = {}
    for row in answers:
        if row["setting"] == SHORT:
            short[row["item"], row["position"]] = row
        elif row["setting"] == LONG:
            long[row["item"]] = row
    for (item, number), row in short.items():
        whole = long.get(item)
        if whole is None:
            continue
        if not row["verdicts"] or len(whole["verdicts"]) < number:
            yield None, None
            continue
        right = row["verdicts"][0], whole["verdicts"][number - 1]
        kind: Kind = "aligned" if right == (1, 1) else "misaligned"
        fact = Fact(
            id=f"{model}/{item}/{number}",
            model=model,
            asked_as=asked_as,
            item=item,
            number=number,
            topic=row["topic"],
            category=row["category"],
            fact_type=row["fact_types"][0],
            question=row["question"],
            long_question=whole["question"],
            gold=row["gold"],
            short_answer=row["answer_read"],
            long_answer=whole["answer_read"],
            right_short=right[0],
            right_long=right[1],
            kind=kind,
        )
        yield (fact if any(right) else None), right
