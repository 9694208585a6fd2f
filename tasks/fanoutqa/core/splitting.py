"""Dev and test: questions that share most of their articles lie on the same side (FanOutQA, paper §3.1).

The dev part shows its answers, so the test part must not ask about the same articles. Questions are twins when they share
at least half of the articles of the smaller one, since a test question about five of the ten countries of a dev question
is answered there too. A question lies on the side of the nearest twin before it (of equals, the first);
one without a twin before it on the side that the digest of one of its articles gives: of them all the one whose digest is
least, which questions about nearly the same articles have in common more often than not.

So a question's side follows from its own articles and those of the twins before it. What comes behind it moves nothing,
nor does what is dropped in review, which keeps its place here; what comes before it moves it only where it is a twin, and
then to that twin. Without an order no rule can do better: two twins that lay apart while each stood alone cannot come
together unless one moves. A question between two groups that lie apart joins the nearer one.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Literal

Side = Literal["dev", "test"]
DEV_SHARE = 0.3
"""The paper's: 310 of 1,034."""


def split_questions(
    questions: Iterable[tuple[str, Iterable[str], Side | None]], seed: int, dev_share: float = DEV_SHARE
) -> dict[str, Side]:
    """Return id → side of questions, given as id, articles and the side that a release has put it on, in their order.

    Over many questions `dev_share` of the groups are dev.
    """
    sides: dict[str, Side] = {}
    seen: list[tuple[str, frozenset[str]]] = []
    using: dict[str, list[int]] = defaultdict(list)
    for at, (question_id, titles, published) in enumerate(questions):
        own = frozenset(titles)
        shared = Counter(other for title in own for other in using[title])
        twins = [
            (-count / len(own | seen[other][1]), other)
            for other, count in shared.items()
            if 2 * count >= min(len(own), len(seen[other][1]))
        ]
        beside = sides[seen[min(twins)[1]][0]] if twins else None
        sides[question_id] = published or beside or _draw_side(own, seed, dev_share)
        seen.append((question_id, own))
        for title in own:
            using[title].append(at)
    return sides


def _draw_side(articles: Iterable[str], seed: int, dev_share: float) -> Side:
    least = min((_digest(f"fanoutqa {seed} {title}") for title in articles), default=b"")
    # digested once more, since a least digest is small
    return "dev" if int.from_bytes(_digest(f"fanoutqa {seed} {least.hex()}")[:8], "big") < dev_share * 2**64 else "test"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
