"""Which facts are looked at: those that a model answered right in both ways, and as many that it got right in one (§5.2)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.core.measures.audits import draw_sample
from tasks.slaq.core.evaluation.answers import LONG, SHORT
from tasks.slaq.core.mechanism.rows import Fact, Kind


@dataclass(frozen=True, slots=True)
class Chosen:
    """The facts that are looked at, and what was there to choose from."""

    facts: tuple[Fact, ...]
    counts: Mapping[str, int]
    """aligned, misaligned, wrong_in_both, unscored → facts of the evaluation."""


def choose_facts(answers: Iterable[Mapping[str, Any]], model: str, asked_as: str, per_kind: int, seed: int) -> Chosen:
    """Return up to `per_kind` facts of each kind, drawn by seed; `answers`: rows of `slaq_answers` in both settings."""
    found = list(_pair_verdicts(answers, model, asked_as))
    counts = {
        "aligned": 0,
        "misaligned": 0,
        "wrong_in_both": sum(right == (0, 0) for _, right in found),
        "unscored": sum(right is None for _, right in found),
    }
    chosen: list[Fact] = []
    for kind in ("aligned", "misaligned"):
        mine = [fact for fact, _ in found if fact is not None and fact.kind == kind]
        counts[kind] = len(mine)
        drawn = set(draw_sample(sorted(fact.id for fact in mine), min(per_kind, len(mine)), seed))
        chosen += [fact for fact in mine if fact.id in drawn]
    return Chosen(tuple(sorted(chosen, key=lambda fact: fact.id)), counts)


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
