"""Rows of SLAQ's evaluation: a short question alone, or the long one, what a model answered, and the verdicts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tasks.core.evaluation.rows import Answer, Asked
from tasks.slaq.core.replies import PAIRS
from tasks.slaq.core.rows import Half, SlaqRow

SHORT, LONG = "short", "long"
COUNTED_WRONG = frozenset({"no_answer", "refused"})
"""What no judge is asked about: nothing that was asked for is said (Table A.4, irrelevance and omission)."""

Ranked = Mapping[str, Sequence[tuple[int, str]]]
"""Fact type → its gold answers, each behind how often it stands there, negative."""


class SlaqAsked(Asked):
    """What a model is asked about a topic: one of its short questions (short), or the long one (long)."""

    topic: str
    category: str
    half: Half
    position: int
    """Place of the short question in the long one, 1 to 5; 0 for the long one itself."""
    questions: list[str]
    """The short question; of a long one all five, in order."""
    golds: list[str]
    """Their gold answers."""
    fact_types: list[str]
    """OntoNotes classes of these, `none` for what is no entity."""
    gold: str
    """Gold answer to what is asked."""


class SlaqAnswer(SlaqAsked, Answer):
    """What the model answered."""


class JudgedSlaq(SlaqAnswer):
    """A row of the published table `slaq_answers`."""

    verdicts: list[int]
    """1 right, 0 wrong: one of a short answer, five of a long one; empty where there are none."""
    judge: str
    """What judged; `exact` is a program, and no model."""
    judge_call: str
    """Key of the judge's recorded call; empty where it was not asked."""


def ask_topic(row: SlaqRow, setting: str) -> Iterator[SlaqAsked]:
    """Yield what a setting asks about a topic."""
    pairs = [(getattr(row, f"ShortQ{number}"), getattr(row, f"ShortA{number}")) for number in range(1, PAIRS + 1)]
    parts = (
        [(LONG, 0, row.LongQ, row.LongA, pairs, row.fact_types)]
        if setting == LONG
        else [
            (str(number), number, *pair, [pair], [row.fact_types[number - 1]]) for number, pair in enumerate(pairs, 1)
        ]
    )
    for part, position, question, gold, mine, types in parts:
        yield SlaqAsked(
            id=f"{setting}/{row.id}/{part}",
            question_id=f"{row.id}/{part}",
            setting=setting,
            position=position,
            question=question,
            gold=gold,
            questions=[question for question, _ in mine],
            golds=[answer for _, answer in mine],
            fact_types=types,
            item=row.id,
            cluster=row.id,
            topic=row.Topic,
            category=row.Category,
            half=row.half,
        )


def rank_golds(rows: Iterable[SlaqRow]) -> Ranked:
    """Return the gold answers of each fact type with how often they stand there, the commonest first, ties by letters."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        for number, kind in enumerate(row.fact_types, 1):
            counts.setdefault(kind, Counter())[getattr(row, f"ShortA{number}")] += 1
    return {kind: sorted((-times, text) for text, times in found.items()) for kind, found in counts.items()}


def guess(asked: SlaqAsked, ranked: Ranked) -> str:
    """Return the commonest gold answer of other facts of each one's type, a line each; empty where there is no other."""
    facts = zip(asked.fact_types, asked.golds, strict=True)
    return "\n".join(_guess_one(ranked[kind], gold) for kind, gold in facts)


def _guess_one(ranked: Sequence[tuple[int, str]], gold: str) -> str:
    # the fact itself counts for nothing: where all answers differ a guess is wrong
    rank, text = min((rank + (text == gold), text) for rank, text in ranked)
    return text if rank else ""
