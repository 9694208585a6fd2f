"""Dev and test by hash: a question's side follows from its id and the seed alone (FanOutQA, paper §3.1).

So no question changes sides when others are added, edited or dropped.
"""

import hashlib
from typing import Literal

DEV_SHARE = 0.3
"""The paper's: 310 of 1,034."""


def choose_split(question_id: str, seed: int, dev_share: float = DEV_SHARE) -> Literal["dev", "test"]:
    """Return the side of a question; over many ids `dev_share` of them are dev."""
    digest = hashlib.sha256(f"fanoutqa {seed} {question_id}".encode()).digest()
    return "dev" if int.from_bytes(digest[:8], "big") < dev_share * 2**64 else "test"
