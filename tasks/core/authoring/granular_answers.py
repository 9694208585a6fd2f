"""GRANOLA answers: prompts to the models, parsing of their completions, and selection of levels.

One call restates the known answer from fine to coarse; several samples of another judge whether a description can belong
to the question (paper §3.1, Appendix B "Data cleaning", Tables 6 and 8). Completions have the formats LEVELS and
CONSISTENCY (core/completions.py); anything else is Unreadable with a reason, never repaired by guessing.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.core.prompts import FilledPrompt, PromptTemplate, fill_prompt_template
from factmill.tasks.core.question_relations import QuestionRelation, extract_subject_name
from factmill.tasks.errors import SettingsError
from factmill.tasks.text.text_normalization import normalize_answer, normalize_answer_to_singular, normalized_words

MAX_LEVELS = 8
"""Maximum number of levels; a longer reply is a list, not a ladder of answers."""

_DEGREE_WORDS = r"(?:even |still |slightly |somewhat |much |far |yet |a bit |a little )*"
_SPECIFICITY_ADJECTIVES = r"(?:specific|general|precise|exact|detailed|broad|coarse|vague|granular|fine-grained)"
_SPECIFICITY_COMPARATIVES = (
    rf"(?:(?:less|more|least|most) {_SPECIFICITY_ADJECTIVES}|(?:broad|coars|vagu|wid)e?(?:r|st))"
)
_LEVEL_NOUNS = r"(?:answer|level|form|version|description|term|step)"
_GLOSS_WORDS = rf"(?:an? |the |this is (?:an? |the )?)?{_DEGREE_WORDS}(?:{_SPECIFICITY_COMPARATIVES}(?: {_LEVEL_NOUNS})?|(?:{_SPECIFICITY_ADJECTIVES}|given|original|known) {_LEVEL_NOUNS})(?: (?:still|yet))?"
LEVELS_FORMAT = CompletionFormat(
    kind="lines",
    line_head=r"(?:level[ \t]*)?[0-9]{1,3}",
    separator=r"::|[.):](?![0-9])",
    is_numbered=True,
    needs_clear_end=True,
    gloss_pattern=re.compile(
        rf"(?:^|(?<=\S))\s*(?:[(\[（]\s*{_GLOSS_WORDS}\s*[.!]?\s*[)\]）]|(?<=\s)[–—-]+\s*{_GLOSS_WORDS})[.]?\s*$",
        re.IGNORECASE,
    ),
)
"""`1:: answer` lines. A gloss states how specific an answer is, "(less specific)", "— a broader answer", and is recognised by
its words: a comparative of specificity, or such a word with "answer"; other brackets, "Paris (Texas)", "Lee (general)",
belong to the answer."""
CONSISTENCY_FORMAT = CompletionFormat(folds_full_width=True, last_verdict_counts=True)
"""Yes or No."""

_LEVEL_LINE = re.compile(r"(?:level\s*)?([0-9]{1,3})\s*(?:::|[.):])\s*(.*)", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\b(?:yes|no)\s*(?:/|\bor\b|\bnor\b)\s*(?:yes|no)\b", re.IGNORECASE)
_VERDICT_WORD = re.compile(
    r"\b(yes|no(?!-|\.? ?[0-9]| +(?!(?:because|since|as|it|its|the|this|that|he|she|they|an?)\b)\w))\b", re.IGNORECASE
)
"""Yes or no, except the no of "no doubt" and "No. 5"."""
_TRIVIAL_ANSWER_LINE = re.compile(r"(?:(P[1-9][0-9]*):\s*)?(.*\S)\s*")
FILLER_WORDS = frozenset(
    {"in", "of", "at", "on", "from", "by", "for", "to", "and", "or", "near", "with", "within", "is"}
)
"""Function words of answers, without content of their own."""


@dataclass(frozen=True, slots=True)
class CleanedAnswerLevels:
    """Answers of one row after cleaning."""

    levels: tuple[str, ...]
    """Fine to coarse, the given answer first; empty if the given answer itself is trivial or repeats the question."""
    removed: tuple[tuple[str, str], ...]
    """(level, why) in order: `trivial`, `duplicate`, `repeats_question`, or of the given answer `first_answer_trivial` or
    `first_answer_repeats_question`."""


@dataclass(frozen=True, slots=True)
class TrivialAnswersByRelation:
    """Uninformative answers, in singular normal form."""

    everywhere: frozenset[str]
    by_relation: Mapping[str, frozenset[str]]

    def contains(self, level: str, pid: str) -> bool:
        """True when a level is trivial for a relation."""
        form = normalize_answer_to_singular(level)
        return form in self.everywhere or form in self.by_relation.get(pid, frozenset())


def parse_trivial_answers(lines: Iterable[str]) -> TrivialAnswersByRelation:
    """Parse the list of trivial answers: one per line, for all relations or, as `P50: writer`, for one."""
    everywhere: set[str] = set()
    by_relation: dict[str, set[str]] = {}
    for line in lines:
        match = _TRIVIAL_ANSWER_LINE.fullmatch(line)
        form = normalize_answer_to_singular(match[2]) if match else ""
        if not match or not form:
            raise SettingsError(f"trivial_answers.txt: expected an answer or `P50: answer`, found {line!r}")
        (by_relation.setdefault(match[1], set()) if match[1] else everywhere).add(form)
    return TrivialAnswersByRelation(
        frozenset(everywhere), {pid: frozenset(forms) for pid, forms in by_relation.items()}
    )


def make_answer_levels_prompt(
    prompt: PromptTemplate, question: str, answer: str, question_description: str | None, answer_description: str | None
) -> FilledPrompt:
    """Fill in the prompt for a row's answers from fine to coarse (paper §3.1); a missing description becomes empty text."""
    return fill_prompt_template(
        prompt,
        question=question,
        answer=answer,
        question_description=question_description or "",
        answer_description=answer_description or "",
    )


def read_answer_levels(text: str, answer: str) -> tuple[str, ...] | UnreadableCompletion:
    """Read a completion of `1:: answer` lines, also `1.`, `1)`, `1:`, `Level 1:`; the first level gets the answer's spelling.

    Lines must be numbered from 1 without gaps, with nothing else but blank lines, and at most MAX_LEVELS; the first level
    must equal the given answer after normalisation.
    """
    levels: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        match, number = _LEVEL_LINE.fullmatch(line), len(levels) + 1
        if not match:
            return UnreadableCompletion(f"expected a line like `{number}:: answer`, found {_quote_shortened(line)}")
        if int(match[1]) != number:
            return UnreadableCompletion(f"expected line {number}, found number {match[1]}")
        if not normalize_answer(match[2]):
            return UnreadableCompletion(f"line {number} holds no answer")
        levels.append(" ".join(match[2].split()))
    if not levels or len(levels) > MAX_LEVELS:
        return UnreadableCompletion(f"expected 1 to {MAX_LEVELS} levels, found {len(levels)}")
    if normalize_answer(levels[0]) != normalize_answer(answer):
        return UnreadableCompletion(
            f"expected the given answer {_quote_shortened(answer)} on line 1, found {_quote_shortened(levels[0])}"
        )
    return (answer, *levels[1:])


def make_description_consistency_prompt(
    prompt: PromptTemplate, question: str, answer: str, entity: str, description: str, samples: int
) -> FilledPrompt:
    """Fill in the prompt whether a description can belong to a question and its answer (paper Appendix B)."""
    return fill_prompt_template(
        prompt, samples=samples, question=question, answer=answer, entity=entity, description=description
    )


def read_description_fit_verdict(text: str) -> bool | UnreadableCompletion:
    """Return True for Yes, False for No; the last of several counts."""
    found = _VERDICT_WORD.findall(_YES_OR_NO.sub(" ", text))
    if not found:
        return UnreadableCompletion(f"expected Yes or No, found {_quote_shortened(text)}")
    return str(found[-1]).lower() == "yes"


def score_description_error(verdicts: Sequence[bool | UnreadableCompletion]) -> float | None:
    """Return the share of No, 0 to 1, among readable verdicts; None if none was readable."""
    counted = [verdict for verdict in verdicts if isinstance(verdict, bool)]
    return counted.count(False) / len(counted) if counted else None


def remove_uninformative_answer_levels(
    levels: Sequence[str], question: str, relation: QuestionRelation, trivial: TrivialAnswersByRelation
) -> CleanedAnswerLevels:
    """Remove levels that are trivial, repeat an earlier level, name the question's subject or only echo the question (paper
    Appendix B).

    The given answer stays unless it is trivial or the subject's own name; then the result is empty.
    """
    if not levels or trivial.contains(levels[0], relation.pid):
        return CleanedAnswerLevels((), tuple((level, "first_answer_trivial") for level in levels[:1]))
    known_words = FILLER_WORDS.union(normalized_words(question))
    subject = normalize_answer(extract_subject_name(question, relation) or "")
    if normalize_answer(levels[0]) == subject:
        return CleanedAnswerLevels((), ((levels[0], "first_answer_repeats_question"),))
    kept, seen, removed = [levels[0]], {normalize_answer(levels[0])}, []
    for level in levels[1:]:
        form = normalize_answer(level)
        if not form or trivial.contains(level, relation.pid):
            removed.append((level, "trivial"))
        elif form in seen:
            removed.append((level, "duplicate"))
        elif f" {subject} " in f" {form} " or known_words.issuperset(form.split()):
            removed.append((level, "repeats_question"))
        else:
            kept.append(level)
            seen.add(form)
    return CleanedAnswerLevels(tuple(kept), tuple(removed))


def _quote_shortened(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 80 else flat[:77] + "…")
