"""Find names and Wikipedia addresses in texts, their candidate items, and pairs to search paths between (MultiHal §2.2).

Every linker (Falcon 2.0, Wikipedia links, exact labels of a local graph) gives mentions: a surface and up to three
candidates. The `labels` linker is our own: it takes every run of words that is a label or alias, longest first, without
overlaps, and ranks the items with that name by number of edges.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote, urlsplit

from factmill.tasks.multihal.core.rows import EntityLinkedQuestion
from factmill.tasks.text.values.dates_and_numbers import parse_written_number
from factmill.tasks.text.values.wikidata_literals import PartialDate, WantedNumberWithUnit, parse_iso_partial_date
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

MAX_LINK_CANDIDATES = 3
"""Largest number of items kept per surface (§2.2)."""
MAX_LINKED_NAME_WORDS = 10
"""Largest number of words in a name."""

LinkerName = Literal["labels", "falcon"]

_WORD = re.compile(r"[^\W_]+(?:[.'’&/-][^\W_]+)*\.?", re.UNICODE)
_POSSESSIVE = re.compile(r"['’]s?$")
_ARTICLE = re.compile(r"^(?:the|a|an)\s+", re.IGNORECASE)
_CONTRACTION = re.compile(r"(?:n['’]t|['’](?:s|re|ve|ll|d|m))$")
_QUOTES = frozenset('"“”„«»')


@dataclass(frozen=True, slots=True)
class EntityMention:
    """A name in a text and the items it may mean."""

    surface: str
    qids: tuple[str, ...]
    """Most likely first, at most CANDIDATES."""


@dataclass(frozen=True, slots=True)
class WordSpan:
    """A run of consecutive words in a text."""

    start: int
    """Index of the first word."""
    stop: int
    text: str


def list_linkable_spans(text: str, function_words: Set[str]) -> list[WordSpan]:
    """Return the runs of words that may be names: up to ten words, at least one of them a content word.

    Function words, numbers and single letters are no content words: "It", "Seven", "10" and "I" count as names only in
    quotation marks, or as the whole text with a capital or a digit, since a whole answer may be a name.
    """
    words = list(_WORD.finditer(text))
    has_meaning = [_is_content_word(word[0], function_words) for word in words]
    spans, stripped = list[WordSpan](), text.strip()
    if stripped and (any(has_meaning) or not stripped.islower()):
        spans.append(WordSpan(0, max(len(words), 1), stripped))
    for start in range(len(words)):
        for stop in range(start + 1, min(start + MAX_LINKED_NAME_WORDS, len(words)) + 1):
            first, behind = words[start].start(), words[stop - 1].end()
            span_text = text[first:behind]
            is_quoted = first > 0 and behind < len(text) and {text[first - 1], text[behind]} <= _QUOTES
            if is_quoted or (
                any(has_meaning[start:stop]) and _has_no_lowercase_function_word_at_edge(span_text, function_words)
            ):
                spans.append(WordSpan(start, stop, span_text))
    return spans


def list_spelling_variants(span: str) -> list[str]:
    """Return the spellings to look a run of words up by, the original one first."""
    bare = span.rstrip(".")
    forms = [span, bare, _POSSESSIVE.sub("", bare), _ARTICLE.sub("", bare)]
    forms += [first + form[1:] for form in forms for first in (form[:1].upper(), form[:1].lower())]
    return [form for form in dict.fromkeys(forms) if form]


def select_mentions_with_ranked_candidates(
    spans: Iterable[WordSpan], bearers: Mapping[str, Sequence[str]], degrees: Mapping[str, int]
) -> list[EntityMention]:
    """Select non-overlapping mentions among spans, longest first; return them in text order.

    `bearers`: spelling → QIDs of the items with this label or alias; `degrees`: QID → number of edges. Candidates are
    sorted by descending degree, then by QID number.
    """
    taken: set[int] = set()
    chosen: list[tuple[int, EntityMention]] = []
    for span in sorted(spans, key=lambda span: (span.start - span.stop, span.start)):
        places = range(span.start, span.stop)
        found = next((bearers[form] for form in list_spelling_variants(span.text) if bearers.get(form)), ())
        if found and taken.isdisjoint(places):
            taken.update(places)
            ranked = sorted(set(found), key=lambda qid: (-degrees.get(qid, 0), get_wikidata_id_number(qid)))
            chosen.append((span.start, EntityMention(span.text, tuple(ranked[:MAX_LINK_CANDIDATES]))))
    return [mention for _, mention in sorted(chosen, key=lambda pair: pair[0])]


def _has_no_lowercase_function_word_at_edge(span: str, function_words: Set[str]) -> bool:
    words = [word.strip(".").lower() for word in span.split()]
    if words[0] in function_words and span[:1].islower():
        return False
    return not (words[-1] in function_words and span.islower())


def _is_content_word(word: str, function_words: Set[str]) -> bool:
    bare = _CONTRACTION.sub("", word.strip(".")).lower()
    if bare in function_words or bare == "yes" or (len(bare) < 2 and bare.isascii()):
        return False
    number = parse_written_number(bare)
    return number is None or number.unit is not None


_WEB_ADDRESS = re.compile(r"https?://(?:[^\s<>\"'|,\]]|,(?=_)|(?<=\w)'(?=\w))+", re.IGNORECASE)
"""A comma is part of an address if an underscore follows, an apostrophe if it is between letters."""
_WIKIPEDIA_HOST = re.compile(r"([a-z-]+)\.(?:m\.)?wikipedia\.org", re.IGNORECASE)
_NON_ARTICLE_PREFIX = re.compile(
    r"(?:Special|File|Category|Template|Help|Talk|User|Wikipedia|Portal|Draft)(?: talk)?:", re.I
)


def find_wikipedia_addresses_and_titles(texts: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return (address, title) of every distinct Wikipedia address in the texts.

    The title is None for editions in other languages and for pages that are not articles. Titles keep the address's
    case and leave out what follows # or ?.
    """
    found: dict[str, str | None] = {}
    for text in texts:
        for address in _WEB_ADDRESS.findall(text):
            # without the punctuation of the surrounding sentence
            trimmed = address.rstrip(".;:!?*")
            if trimmed.endswith(")") and trimmed.count("(") < trimmed.count(")"):
                trimmed = trimmed[:-1]
            if host := _WIKIPEDIA_HOST.fullmatch(urlsplit(trimmed).hostname or ""):
                found.setdefault(trimmed, _parse_article_title(trimmed) if host[1].lower() == "en" else None)
    return list(found.items())


def _parse_article_title(address: str) -> str | None:
    parts = urlsplit(address)
    if not parts.path.startswith("/wiki/"):
        return None
    title = unquote(parts.path.removeprefix("/wiki/")).replace("_", " ").strip()
    return None if not title or _NON_ARTICLE_PREFIX.match(title) else title


PathTarget = int | PartialDate | WantedNumberWithUnit
"""Number of the object item, or the value."""
SubjectTargetPair = tuple[str, int, PathTarget]
"""Row id, number of the subject item, and the target to search for from there."""


def make_subject_target_pairs(row: EntityLinkedQuestion) -> list[SubjectTargetPair]:
    """Return a question's distinct subject-target pairs; an item is not paired with itself."""
    subjects = list(dict.fromkeys(get_wikidata_id_number(link.qid) for link in row.subject_links))
    if row.answer_type == "other":
        objects = list(dict.fromkeys(get_wikidata_id_number(link.qid) for link in row.object_links))
        return [(row.id, subject, target) for subject in subjects for target in objects if subject != target]
    assert row.looked_for is not None
    if row.answer_type == "date":
        return [(row.id, subject, parse_iso_partial_date(row.looked_for)) for subject in subjects]
    unit = get_wikidata_id_number(row.looked_for_unit) if row.looked_for_unit else None
    return [(row.id, subject, WantedNumberWithUnit(row.looked_for, unit)) for subject in subjects]
