"""Paths in words, and how a judge chooses among a question's paths and scores each (MultiHal §2.2, §2.3, Appendix E).

More than ten paths are shown twice, each time in another order, since judges favour what stands at certain places; what
both passes pick is chosen. A pick counts only when it is one of the given paths, letter for letter. After three such
rounds what is still missing to ten is drawn at random from the rest, and each path says how it was chosen. Orders and
draws come from the question's id, so a rebuild makes the same ones.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.prompts import Ask, Prompt, fill_in
from factmill.tasks.core.replies import Form, Unreadable
from factmill.tasks.multihal.core.rows import Path
from factmill.tasks.text.ids import is_pid, is_qid
from factmill.tasks.text.translating.protected import write_value
from factmill.tasks.text.values.literals import canonical_number, date_key, format_value

PATHS_WANTED = 10
"""So many paths of a question are scored (§2.3)."""
ROUNDS = 3
"""So often a judge is asked to choose, two passes each (§2.3)."""
LOWEST_KEPT = 4
"""Paths with this score or a higher one are published (§2.3)."""

NO_PATH = "none"
"""What a judge picks when no path is of any help."""

ChosenBy = Literal["all", "judge", "chance"]
"""`all`: ten or fewer, none was left out; `judge`: both passes of a round picked it; `chance`: drawn to fill up."""

SELECTION = Form(kind="lines", head="Path", is_open=True)
"""`Path: …` lines."""
SCORE = Form(folds=True, last_counts=True)
"""`Score: n`, reasons before it or none."""
_PICK = re.compile(r"^Path:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
_SCORE = re.compile(
    r"\bScore\W{0,4}?[:=|]\W{0,4}?(-?[0-9]+(?:[.,][0-9]+)?(?:[ \t]*(?:/|out of|of|to|or|[-–—])[ \t]*[0-9]+)?)",
    re.IGNORECASE,
)
"""A score with what may stand behind it: a half, a range, another scale."""
_BARE_SCORE = re.compile(r"[1-5](?:[ \t]*/[ \t]*5)?\.?")
_WHOLE_SCORE = re.compile(r"([1-5])(?:[ \t]*(?:/|out of|of)[ \t]*5)?", re.IGNORECASE)


@dataclass(slots=True)
class Choice:
    """Choosing among the paths of one question, round by round."""

    question_id: str
    given: tuple[str, ...]
    """All paths as labels; of equal ones the first stands for all."""
    picked: dict[str, None] = field(default_factory=dict)
    """What both passes of a round picked, in order."""
    invented: int = 0
    """Picks that are none of the given paths."""
    rounds: int = 0

    @property
    def is_open(self) -> bool:
        """True while another round may find more."""
        wanted = min(PATHS_WANTED, len(self.given))
        return len(self.given) > PATHS_WANTED and self.rounds < ROUNDS and len(self.picked) < wanted

    def order(self, turn: Literal[1, 2]) -> list[str]:
        """Return the paths in the order of a pass of the coming round."""
        shuffled = list(self.given)
        _chance(self.question_id, self.rounds, turn).shuffle(shuffled)
        return shuffled

    def take(self, first: Sequence[str], second: Sequence[str]) -> None:
        """Take in what the two passes of a round picked."""
        known, again = set(self.given), set(second)
        self.invented += sum(pick not in known for pick in (*first, *second))
        for pick in first:
            if pick in again and pick in known:
                self.picked.setdefault(pick)
        self.rounds += 1

    def finish(self) -> dict[str, ChosenBy]:
        """Return the chosen paths in their given order, at most ten, with how each was chosen."""
        if len(self.given) <= PATHS_WANTED:
            return dict.fromkeys(self.given, "all")
        by_judge = list(self.picked)[:PATHS_WANTED]
        rest = [path for path in self.given if path not in self.picked]
        drawn = _chance(self.question_id, "fill").sample(rest, min(PATHS_WANTED - len(by_judge), len(rest)))
        chosen: dict[str, ChosenBy] = {**dict.fromkeys(by_judge, "judge"), **dict.fromkeys(drawn, "chance")}
        return {path: chosen[path] for path in self.given if path in chosen}


def open_choice(question_id: str, paths: Sequence[str]) -> Choice:
    """Return a choice among paths given as labels."""
    return Choice(question_id, tuple(dict.fromkeys(paths)))


def format_path(labels: Sequence[str]) -> str:
    """Return a path on one line, its parts parted by semicolons (Table 6, trip_labels)."""
    return "; ".join(" ".join(label.split()) for label in labels)


def count_scored(paths: Iterable[Sequence[str]]) -> int:
    """Return how many of a question's paths, given by their labels, are scored."""
    return min(PATHS_WANTED, len({format_path(labels) for labels in paths}))


def ask_selection(prompt: Prompt, question: str, answers: Sequence[str], paths: Sequence[str]) -> Ask:
    """Ask for the best of the paths, in this order."""
    return fill_in(
        prompt, question=question, answer="; ".join(answers), paths="\n".join(paths), number=str(PATHS_WANTED)
    )


def ask_score(prompt: Prompt, question: str, answers: Sequence[str], path: str) -> Ask:
    """Ask for the score of one path."""
    return fill_in(prompt, question=question, answer="; ".join(answers), path=path)


def read_selection(text: str) -> list[str] | Unreadable:
    """Return the picks in a reply, each once, at most ten, none for "Path: none"; Unreadable when no line has the agreed form."""
    picks = list(dict.fromkeys(pick for pick in _PICK.findall(text) if pick))
    if not picks:
        return Unreadable('no line of the form "Path: …"')
    return [pick for pick in picks if pick != NO_PATH][:PATHS_WANTED]


def read_score(text: str) -> int | Unreadable:
    """Return the score in a reply, the last one where there are several; Unreadable when it is none from 1 to 5.

    A number alone, or one of five (4/5), is a score too, a range never.
    """
    if _BARE_SCORE.fullmatch(text):
        return int(text[0])
    found = _SCORE.findall(text)
    if not found:
        return Unreadable('no line of the form "Score: n"')
    score = _WHOLE_SCORE.fullmatch(found[-1])
    return int(score[1]) if score else Unreadable(f"the score {found[-1]} is no whole number from 1 to 5")


def _chance(*parts: object) -> random.Random:
    return random.Random(digest_json([str(part) for part in parts]))


_FILES = "jpe?g|png|gif|svg|tiff?|webp|webm|og[agv]|opus|mp[34]|wav|flac|midi?|pdf|djvu|stl|xcf|map|tab"
_IN_NO_WORDS = re.compile(rf"\S+://|www\.|File:|.*\.(?:{_FILES})$", re.IGNORECASE)


def list_labels(path: Path, labels: Mapping[str, str]) -> list[str]:
    """Return a path in words: labels, and a value as a reader writes it (a semicolon would part it in two)."""
    told = [labels.get(part, part) for part in path.ids]
    if not is_qid(path.ids[-1]):
        value = format_value(path.ids[-1], path.precision, labels.get(path.unit, path.unit) if path.unit else None)
        told[-1] = write_value(value, "en") or value
    return [part.replace(";", ",") for part in told]


def list_ids(path: Path) -> Iterator[str]:
    """Yield the ids of a path that need a label, its unit's among them."""
    yield from filter(is_id, path.ids)
    if path.unit:
        yield path.unit


def find_wordless(path: Path, labels: Mapping[str, str]) -> list[str]:
    """Return the parts of a path that are neither a label in words nor, at its end, a number or date."""
    told = [(part, labels.get(part, part)) for part in path.ids]
    wordless = [
        told_part for part, told_part in told if is_id(part) and (is_id(told_part) or _IN_NO_WORDS.match(told_part))
    ]
    values = [part for part in path.ids if not is_id(part)]
    if values == path.ids[-1:] and (canonical_number(values[0]) or date_key(values[0]) is not None):
        values = []
    return wordless + values


def is_id(part: str) -> bool:
    """True for the QID of an item and the PID of a property."""
    return is_qid(part) or is_pid(part)
