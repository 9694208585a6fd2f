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

from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.prompts import FilledPrompt, PromptTemplate, fill_prompt_template
from factmill.tasks.multihal.core.rows import SelectionMethod, WikidataPath
from factmill.tasks.text.translating.placeholders import format_value_with_plural_unit
from factmill.tasks.text.values.wikidata_literals import (
    canonical_number,
    compute_xsd_datetime_day_key,
    format_wikidata_literal,
)
from factmill.tasks.text.wikidata_ids import is_pid, is_qid

MAX_SCORED_PATHS = 10
"""Largest number of paths scored per question (§2.3)."""
MAX_SELECTION_ROUNDS = 3
"""Largest number of selection rounds, of two passes each (§2.3)."""
DEFAULT_MIN_SCORE = 4
"""Lowest score that is published by default (§2.3)."""

NO_PATH_PICK = "none"
"""The judge's pick when no path helps."""

SELECTION_REPLY_FORM = CompletionFormat(kind="lines", line_head="Path", needs_clear_end=True)
"""`Path: …` lines."""
SCORE_REPLY_FORM = CompletionFormat(folds_full_width=True, last_verdict_counts=True)
"""`Score: n`, optionally after reasons."""
_PICK_LINE = re.compile(r"^Path:[ \t]*(.*)$", re.IGNORECASE | re.MULTILINE)
_SCORE_LINE = re.compile(
    r"\bScore\W{0,4}?[:=|]\W{0,4}?(-?[0-9]+(?:[.,][0-9]+)?(?:[ \t]*(?:/|out of|of|to|or|[-–—])[ \t]*[0-9]+)?)",
    re.IGNORECASE,
)
"""A score with what may follow it: a fraction, a range, another scale."""
_BARE_SCORE = re.compile(r"[1-5](?:[ \t]*/[ \t]*5)?\.?")
_SCORE_OF_FIVE = re.compile(r"([1-5])(?:[ \t]*(?:/|out of|of)[ \t]*5)?", re.IGNORECASE)


@dataclass(slots=True)
class PathSelectionState:
    """State of the selection among one question's paths, round by round."""

    question_id: str
    candidate_paths: tuple[str, ...]
    """All paths as text, without repeats."""
    picked: dict[str, None] = field(default_factory=dict)
    """Paths picked in both passes of a round, in order."""
    invented: int = 0
    """Number of picks that are not among the given paths."""
    rounds: int = 0

    @property
    def needs_another_round(self) -> bool:
        """True while another round may add paths."""
        return len(self.candidate_paths) > MAX_SCORED_PATHS > len(self.picked) and self.rounds < MAX_SELECTION_ROUNDS

    def shuffle_candidates(self, turn: Literal[1, 2]) -> list[str]:
        """Return the paths shuffled for a pass of the next round."""
        shuffled = list(self.candidate_paths)
        _make_seeded_random(self.question_id, self.rounds, turn).shuffle(shuffled)
        return shuffled

    def add_round(self, first: Sequence[str], second: Sequence[str]) -> None:
        """Add the picks of a round's two passes."""
        known, again = set(self.candidate_paths), set(second)
        self.invented += sum(pick not in known for pick in (*first, *second))
        for pick in first:
            if pick in again and pick in known:
                self.picked.setdefault(pick)
        self.rounds += 1

    def list_selected(self) -> dict[str, SelectionMethod]:
        """Return at most ten selected paths in their given order → how each was selected."""
        if len(self.candidate_paths) <= MAX_SCORED_PATHS:
            return dict.fromkeys(self.candidate_paths, "all")
        by_judge = list(self.picked)[:MAX_SCORED_PATHS]
        rest = [path for path in self.candidate_paths if path not in self.picked]
        lacking = min(MAX_SCORED_PATHS - len(by_judge), len(rest))
        drawn = _make_seeded_random(self.question_id, "fill").sample(rest, lacking)
        chosen: dict[str, SelectionMethod] = {**dict.fromkeys(by_judge, "judge"), **dict.fromkeys(drawn, "chance")}
        return {path: chosen[path] for path in self.candidate_paths if path in chosen}


def start_path_selection(question_id: str, paths: Sequence[str]) -> PathSelectionState:
    """Start a selection among paths given as text."""
    return PathSelectionState(question_id, tuple(dict.fromkeys(paths)))


def format_path(labels: Sequence[str]) -> str:
    """Format a path on one line, its parts separated by semicolons (Table 6, trip_labels)."""
    return "; ".join(" ".join(label.split()) for label in labels)


def count_distinct_paths_capped_for_scoring(paths: Iterable[Sequence[str]]) -> int:
    """Count how many of a question's paths, given by their labels, get a score."""
    return min(MAX_SCORED_PATHS, len({format_path(labels) for labels in paths}))


def make_selection_prompt(
    prompt: PromptTemplate, question: str, answers: Sequence[str], paths: Sequence[str]
) -> FilledPrompt:
    """Fill in the prompt that asks for the best of the paths, shown in this order."""
    return fill_prompt_template(
        prompt, question=question, answer="; ".join(answers), paths="\n".join(paths), number=str(MAX_SCORED_PATHS)
    )


def make_score_prompt(prompt: PromptTemplate, question: str, answers: Sequence[str], path: str) -> FilledPrompt:
    """Fill in the prompt that asks for one path's score."""
    return fill_prompt_template(prompt, question=question, answer="; ".join(answers), path=path)


def read_selected_paths(text: str) -> list[str] | UnreadableCompletion:
    """Parse at most ten distinct picks from a reply, none for "Path: none"; Unreadable without a `Path:` line."""
    picks = list(dict.fromkeys(pick for pick in _PICK_LINE.findall(text) if pick))
    if not picks:
        return UnreadableCompletion('no line of the form "Path: …"')
    return [pick for pick in picks if pick != NO_PATH_PICK][:MAX_SCORED_PATHS]


def read_path_score(text: str) -> int | UnreadableCompletion:
    """Parse the last score in a reply; Unreadable unless it is a whole number from 1 to 5.

    A bare number and a fraction of five (4/5) are scores too; a range is not.
    """
    if _BARE_SCORE.fullmatch(text):
        return int(text[0])
    found = _SCORE_LINE.findall(text)
    if not found:
        return UnreadableCompletion('no line of the form "Score: n"')
    score = _SCORE_OF_FIVE.fullmatch(found[-1])
    return int(score[1]) if score else UnreadableCompletion(f"the score {found[-1]} is no whole number from 1 to 5")


def _make_seeded_random(*parts: object) -> random.Random:
    return random.Random(digest_json([str(part) for part in parts]))


_MEDIA_EXTENSIONS = "jpe?g|png|gif|svg|tiff?|webp|webm|og[agv]|opus|mp[34]|wav|flac|midi?|pdf|djvu|stl|xcf|map|tab"
_ADDRESS_OR_FILE_NAME = re.compile(rf"\S+://|www\.|File:|.*\.(?:{_MEDIA_EXTENSIONS})$", re.IGNORECASE)


def list_path_labels(path: WikidataPath, labels: Mapping[str, str]) -> list[str]:
    """Return a path's labels and its value in readable form; semicolons become commas since they separate parts."""
    path_labels = [labels.get(part, part) for part in path.ids]
    if not is_qid(path.ids[-1]):
        unit = labels.get(path.unit, path.unit) if path.unit else None
        value = format_wikidata_literal(path.ids[-1], path.precision, unit)
        path_labels[-1] = format_value_with_plural_unit(value, "en") or value
    return [part.replace(";", ",") for part in path_labels]


def iterate_ids_to_label(path: WikidataPath) -> Iterator[str]:
    """Yield the ids of a path that need a label, including its unit's."""
    yield from filter(is_item_or_property_id, path.ids)
    if path.unit:
        yield path.unit


def list_path_parts_not_words_number_or_date(path: WikidataPath, labels: Mapping[str, str]) -> list[str]:
    """Return the parts of a path that are neither a label with words nor, at the end, a number or date."""
    found = [labels.get(part, part) for part in path.ids if is_item_or_property_id(part)]
    wordless = [label for label in found if is_item_or_property_id(label) or _ADDRESS_OR_FILE_NAME.match(label)]
    values = [part for part in path.ids if not is_item_or_property_id(part)]
    if values == path.ids[-1:] and (canonical_number(values[0]) or compute_xsd_datetime_day_key(values[0]) is not None):
        values = []
    return wordless + values


def is_item_or_property_id(part: str) -> bool:
    """True for the QID of an item and the PID of a property."""
    return is_qid(part) or is_pid(part)
