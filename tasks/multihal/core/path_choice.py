"""Format paths as text; let a judge select among a question's paths and score each (MultiHal §2.2, §2.3, Appendix E).

If there are more than ten paths, the judge sees them twice in different orders, since judges favour certain positions;
paths picked in both passes are selected. A pick counts only if it equals a given path letter for letter. After at most
three rounds, random paths fill up to ten, and each path records how it was selected. Orders and draws are seeded by the
question's id, so a rebuild repeats them.
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
"""Largest number of paths scored per question (§2.3)."""
ROUNDS = 3
"""Largest number of selection rounds, of two passes each (§2.3)."""
LOWEST_KEPT = 4
"""Lowest score that is published by default (§2.3)."""

NO_PATH = "none"
"""The judge's pick when no path helps."""

ChosenBy = Literal["all", "judge", "chance"]
"""`all`: there were ten or fewer; `judge`: both passes of a round picked it; `chance`: drawn to fill up."""

SELECTION = Form(kind="lines", head="Path", is_open=True)
"""`Path: …` lines."""
SCORE = Form(folds=True, last_counts=True)
"""`Score: n`, optionally after reasons."""
_PICK = re.compile(r"^Path:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
_SCORE = re.compile(
    r"\bScore\W{0,4}?[:=|]\W{0,4}?(-?[0-9]+(?:[.,][0-9]+)?(?:[ \t]*(?:/|out of|of|to|or|[-–—])[ \t]*[0-9]+)?)",
    re.IGNORECASE,
)
"""A score with what may follow it: a fraction, a range, another scale."""
_BARE_SCORE = re.compile(r"[1-5](?:[ \t]*/[ \t]*5)?\.?")
_WHOLE_SCORE = re.compile(r"([1-5])(?:[ \t]*(?:/|out of|of)[ \t]*5)?", re.IGNORECASE)


@dataclass(slots=True)
class Choice:
    """State of the selection among one question's paths, round by round."""

    question_id: str
    given: tuple[str, ...]
    """All paths as text, without repeats."""
    picked: dict[str, None] = field(default_factory=dict)
    """Paths picked in both passes of a round, in order."""
    invented: int = 0
    """Number of picks that are not among the given paths."""
    rounds: int = 0

    @property
    def is_open(self) -> bool:
        """True while another round may add paths."""
        wanted = min(PATHS_WANTED, len(self.given))
        return len(self.given) > PATHS_WANTED and self.rounds < ROUNDS and len(self.picked) < wanted

    def order(self, turn: Literal[1, 2]) -> list[str]:
        """Return the paths shuffled for a pass of the next round."""
        shuffled = list(self.given)
        _chance(self.question_id, self.rounds, turn).shuffle(shuffled)
        return shuffled

    def take(self, first: Sequence[str], second: Sequence[str]) -> None:
        """Add the picks of a round's two passes."""
        known, again = set(self.given), set(second)
        self.invented += sum(pick not in known for pick in (*first, *second))
        for pick in first:
            if pick in again and pick in known:
                self.picked.setdefault(pick)
        self.rounds += 1

    def finish(self) -> dict[str, ChosenBy]:
        """Return at most ten selected paths in their given order → how each was selected."""
        if len(self.given) <= PATHS_WANTED:
            return dict.fromkeys(self.given, "all")
        by_judge = list(self.picked)[:PATHS_WANTED]
        rest = [path for path in self.given if path not in self.picked]
        drawn = _chance(self.question_id, "fill").sample(rest, min(PATHS_WANTED - len(by_judge), len(rest)))
        chosen: dict[str, ChosenBy] = {**dict.fromkeys(by_judge, "judge"), **dict.fromkeys(drawn, "chance")}
        return {path: chosen[path] for path in self.given if path in chosen}


def open_choice(question_id: str, paths: Sequence[str]) -> Choice:
    """Start a selection among paths given as text."""
    return Choice(question_id, tuple(dict.fromkeys(paths)))


def format_path(labels: Sequence[str]) -> str:
    """Format a path on one line, its parts separated by semicolons (Table 6, trip_labels)."""
    return "; ".join(" ".join(label.split()) for label in labels)


def count_scored(paths: Iterable[Sequence[str]]) -> int:
    """Count how many of a question's paths, given by their labels, get a score."""
    return min(PATHS_WANTED, len({format_path(labels) for labels in paths}))


def ask_selection(prompt: Prompt, question: str, answers: Sequence[str], paths: Sequence[str]) -> Ask:
    """Fill in the prompt that asks for the best of the paths, shown in this order."""
    return fill_in(
        prompt, question=question, answer="; ".join(answers), paths="\n".join(paths), number=str(PATHS_WANTED)
    )


def ask_score(prompt: Prompt, question: str, answers: Sequence[str], path: str) -> Ask:
    """Fill in the prompt that asks for one path's score."""
    return fill_in(prompt, question=question, answer="; ".join(answers), path=path)


def read_selection(text: str) -> list[str] | Unreadable:
    """Parse at most ten distinct picks from a reply, none for "Path: none"; Unreadable without a `Path:` line."""
    picks = list(dict.fromkeys(pick for pick in _PICK.findall(text) if pick))
    if not picks:
        return Unreadable('no line of the form "Path: …"')
    return [pick for pick in picks if pick != NO_PATH][:PATHS_WANTED]


def read_score(text: str) -> int | Unreadable:
    """Parse the last score in a reply; Unreadable unless it is a whole number from 1 to 5.

    A bare number and a fraction of five (4/5) are scores too; a range is not.
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
    """Return a path's labels and its value in readable form; semicolons become commas since they separate parts."""
    told = [labels.get(part, part) for part in path.ids]
    if not is_qid(path.ids[-1]):
        value = format_value(path.ids[-1], path.precision, labels.get(path.unit, path.unit) if path.unit else None)
        told[-1] = write_value(value, "en") or value
    return [part.replace(";", ",") for part in told]


def list_ids(path: Path) -> Iterator[str]:
    """Yield the ids of a path that need a label, including its unit's."""
    yield from filter(is_id, path.ids)
    if path.unit:
        yield path.unit


def find_wordless(path: Path, labels: Mapping[str, str]) -> list[str]:
    """Return the parts of a path that are neither a label with words nor, at the end, a number or date."""
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
