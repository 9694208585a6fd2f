"""How a judge's ratings of an answer's text are read (BioKaLMA, §4.1, Tables 14 to 17): a whole number from 1 to 5.

The last rating counts, since a judge may think aloud before it. What is no rating is Unreadable, and the text stays unscored:
the paper's public script counts such replies as 3.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.core.evaluation.labels import Part
from tasks.core.replies import Form, Unreadable
from tasks.text.undressing import fold_wide

RATED = ("coherence", "consistency", "fluency", "relevance")
"""What is rated, a question to the judge each."""
LEAST, MOST = 1, 5
_HEAD = f"(?:(?:final|overall|my|the) )*(?:(?:{'|'.join(RATED)}) )?(?:rating|score|{'|'.join(RATED)})"
RATING = Form(kind="lines", head=_HEAD, point="[:=]", quotes=True, last_counts=True)
"""`Rating: 4`, or `Fluency: 4`."""
ASKS = {
    "coherence": "Do the sentences make one well-ordered account?",
    "consistency": "Does it say what the knowledge shown says, and nothing else?",
    "fluency": "Is it well written, without faults of grammar and wording?",
    "relevance": "Does it tell what the question asks for, and nothing beside?",
}
"""What is rated → what people who rate it are asked."""
_EXPECTED = 'expected a whole number from 1 to 5 in a line of the form "Rating: 4"'
_LINE = re.compile(rf"^{_HEAD}[ \t]*[:=](.*)$", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(
    r"([1-5])(?:\.0)?(?:\s*(?:/|out of)\s*5)?(?:\s*\((?:very |mostly |fairly )?(?:excellent|perfect|good|fair|fine|average|acceptable|poor|bad"
    rf"|high|low|(?:{'|'.join(RATED)})|coherent|consistent|fluent|relevant)\))?[\s.]*",
    re.IGNORECASE,
)


def read_rating(text: str) -> int | Unreadable:
    """Return the rating of a judge's reply."""
    plain = fold_wide(unicodedata.normalize("NFKC", text))
    found = _LINE.findall(plain) or ([plain] if _NUMBER.fullmatch(plain.strip()) else [])
    if not found:
        return Unreadable(f"there is no rating, {_EXPECTED}")
    said = found[-1].strip()
    rating = _NUMBER.fullmatch(said)
    return int(rating[1]) if rating else Unreadable(f"the last rating is {said[:40]!r}, {_EXPECTED}")


def list_ratings(row: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the ratings of a row of `biokalma_answers`; none where no judge was asked, or failed."""
    for criterion in RATED:
        is_unread = any(each.startswith(f"{criterion}: judge_unreadable:") for each in row["unrated"])
        if row[criterion] is not None or is_unread:
            asked = f"{criterion.capitalize()}: {ASKS[criterion]} The question was: {row['question']}"
            yield Part(criterion, asked, "", row["answer_read"], str(row[criterion] or ""))
