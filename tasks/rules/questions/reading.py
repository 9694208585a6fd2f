"""What an article says, made ready for asking: its sentences with the topic named in full, wherever it plainly is meant.

A question must be understood without the article. So the topic gets a name that stands alone ("the planet Mercury",
"Émile Durkheim's book Suicide"), `it`, `its` and `the planet` give way to that name where nothing else can be meant, and
a lone surname gives way to the full name that stands elsewhere in the article.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.rules.tables import one_of
from tasks.text.sentences import split_sentences

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w’'ʻ-]*"
_INITIAL = r"[A-Z]\."
_PARTICLE = r"(?:al|de|der|di|du|la|van|von|ibn|al-Din)"
NAME = rf"(?:{_CAPITAL}|{_INITIAL})(?: (?:{_CAPITAL}|{_INITIAL}|{_PARTICLE}(?= )))*? {_CAPITAL}"
"""A name of two words or more; whose it is, person's or not, is not told."""
_FULL_NAME = re.compile(rf"(?<![\w’'-]){_CAPITAL}(?: (?:{_CAPITAL}|{_INITIAL}|{_PARTICLE}(?= {_CAPITAL})))+")
_SURNAME = re.compile(rf"(?<![\w’'.-]){_CAPITAL}(?= [a-z])(?!’s|'s)")
_STARTS = frozenset(
    [
        "A",
        "After",
        "All",
        "An",
        "And",
        "As",
        "At",
        "Between",
        "But",
        "By",
        "During",
        "Each",
        "Early",
        "Every",
        "For",
        "From",
        "He",
        "Her",
        "His",
        "If",
        "In",
        "It",
        "Its",
        "Most",
        "No",
        "Of",
        "On",
        "One",
        "Only",
        "Our",
        "She",
        "Since",
        "So",
        "Some",
        "Such",
        "That",
        "The",
        "Their",
        "There",
        "These",
        "They",
        "This",
        "Those",
        "To",
        "Two",
        "Under",
        "Until",
        "We",
        "When",
        "While",
        "With",
    ]
)
"""Words that are written with a capital at a sentence's beginning and are no part of a name."""
_KIND = re.compile(
    r" (?:is|was|are|were) (?:an?|the|one of the)? ?(?P<kind>[^,.:;()]*?)"
    r"(?=[,.:;(]| (?:about|and|at|between|by|called|for|from|in|known|made|of|on|that|to|used|where|which|who|whose|with)\b)"
)
_NO_KIND = frozenset(["end", "group", "largest", "main", "method", "name", "part", "system", "way", "identification"])
"""Heads of opening sentences that say nothing of what the topic is, or that the article means other things with."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What an article is about."""

    name: str
    """As it stands within a sentence and is understood alone: `the Crab Nebula`, `the planet Mercury`."""
    bare: str
    """As the article calls it: `Mercury`."""
    is_plural: bool
    kind: str
    """What the opening sentence calls it, in lower case: `comet`; empty when that cannot be told."""


@dataclass(frozen=True, slots=True)
class Told:
    """One sentence with names in the place of what stands for them."""

    text: str
    """Without the stop."""
    place: int
    """Number of the sentence in the article."""


def read_topic(title: str, article: str) -> Topic | None:
    """Return the topic; None when the opening sentence does not name it."""
    bare, _, note = title.partition(" (")
    note = note.rstrip(")")
    opening = next(iter(split_sentences(article.partition("\n")[0])), "")
    named = re.search(
        rf"(?P<article>\b(?:[Tt]he|[Aa]n?) )?\b(?P<name>{re.escape(bare)}s?)(?![\w’'-])", opening
    ) or re.search(
        rf"(?P<article>\b(?:[Tt]he|[Aa]n?) )?\b(?P<name>{re.escape(bare)}s?)(?![\w’'-])", opening, re.IGNORECASE
    )
    if named is None:
        return None
    name = named["name"]
    is_plural = name.lower() == f"{bare.lower()}s"
    kind = _KIND.search(opening, named.end())
    head = kind["kind"].split()[-1].lower() if kind and kind["kind"].split() else ""
    article_word = (named["article"] or "").lower()
    if note:
        alone = _name_alone(name, note, head, opening)
    elif article_word == "the ":
        alone = f"the {name}"
    else:
        # at a sentence's beginning any word has a capital
        is_common = named.start() == 0 and re.search(rf"(?<![.:] )\b{re.escape(name.lower())}\b", article)
        alone = article_word + (name.lower() if is_common else name)
        name = name.lower() if is_common else name
    return Topic(alone, name, is_plural, "" if head in _NO_KIND else head)


def _name_alone(name: str, note: str, head: str, opening: str) -> str:
    """Return a name that others bear too with what the title says in brackets: a kind, a maker, a field of work."""
    maker, _, work = note.partition(" ")
    full = next((found[0] for found in _FULL_NAME.finditer(opening) if found[0].split()[-1] == maker), None)
    if full:
        return f"{full}'s {f'{work} ' if work else ''}{name}"
    if note == head or note.rsplit(maxsplit=1)[-1] == head:
        return f"the {note} {name}"
    said = re.search(rf"\b(?:[Tt]he )?{re.escape(name)} in {re.escape(note)}\b", opening)
    if said:
        return said[0][0].lower() + said[0][1:]
    called = re.search(r" is the [a-z]+ name of an? ([a-z-]+(?: [a-z]+)?)(?= [a-z]+)", opening)
    return f"the {called[1] if called else note} {name}"


def read_sentences(topic: Topic, article: str) -> list[Told]:
    """Return the article's sentences with names in full, in order; list items, which are no sentences, are left out."""
    surnames = _find_surnames(article, topic)
    told = []
    place = 0
    for paragraph in article.split("\n\n"):
        was_topic = False
        for sentence in split_sentences(paragraph):
            place += 1
            if not sentence.endswith((".", ":", '."', ".”")):
                was_topic = False
                continue
            text, was_topic = _name_topic(
                re.sub(r" \([A-Z][a-z]+: [^()]*\)", "", sentence.rstrip(".:")), topic, was_topic
            )
            told.append(Told(_name_people(text, surnames), place))
    return told


def _name_topic(sentence: str, topic: Topic, was_topic: bool) -> tuple[str, bool]:
    """Return a sentence with the topic named, and whether its subject is the topic."""
    text = sentence
    if was_topic:
        text = re.sub(r"^(?:They|It)\b", topic.name, text)
        text = re.sub(r"^((?:In|On) [^,]*\d{4}) it\b", lambda found: f"{found[1]} {topic.name}", text)
        text = re.sub(r"^(?:Their|Its)\b", own(topic.name), text)
    for short in _list_shorts(topic):
        text = re.sub(rf"(?<![\w’'-]){short}(?![\w’'-])", lambda _: topic.name, text)
    text = _name_parts(text, topic)
    starts = text.startswith((topic.name, own(topic.name))) or bool(
        re.match(rf"(?:The|A|An) {re.escape(topic.bare)}\b", text)
    )
    text = re.sub(rf"^In [a-z -]+, (?={re.escape(topic.name)})", "", text)
    # a sentence that only goes on about `it` leaves the topic what it was
    goes_on = was_topic and re.search(r"\bits?\b", text) and not re.search(r" [A-Z]", text)
    return text, starts or text.startswith(topic.name) or bool(goes_on)


def _name_parts(text: str, topic: Topic) -> str:
    """Return a sentence whose parts of the topic are said to be the topic's: `the first edition of …`."""
    pattern = rf"(?<![\w’'-])[Tt]he {one_of('parts_of_topics')}(?= (?!of\b|by\b|in\b|which\b|that\b|{_CAPITAL})\w|,|$)"
    return re.sub(pattern, lambda found: f"{found[0]} of {topic.name}", text, count=1)


def own(name: str) -> str:
    """Return a name with the ending of possession."""
    return f"{name}'" if name.endswith("s") and name[0].islower() else f"{name}'s"


def _list_shorts(topic: Topic) -> Iterator[str]:
    """Yield what stands for the topic, as patterns, the longest first."""
    if topic.name != topic.bare:
        already = topic.name[: len(topic.name) - len(topic.bare)] if topic.name.endswith(topic.bare) else ""
        if (already and not already.startswith(("the ", "a ", "an "))) or already.count(" ") > 1:
            yield rf"(?<!{re.escape(already)}){re.escape(topic.bare)}"
        elif already:
            yield rf"(?:The|An?) {re.escape(topic.bare)}"
    last = topic.bare.split()[-1]
    kinds = {topic.kind} | (
        {last.lower()}
        if (" " in topic.bare and topic.name.startswith(("the ", "a ", "an "))) or last.islower()
        else set()
    )
    for kind in sorted(filter(None, kinds)):
        yield rf"(?:(?<=^)The|the) {re.escape(kind)}(?= (?!of\b|in (?![A-Z][a-z]+ \d|\d)|that\b|which\b|who\b|by\b|between\b|for\b|itself\b)[a-z]|,|$)"
    if re.match(r"[Tt]he [A-Z]", topic.name) and " " in topic.bare and last.islower():
        yield rf"(?:The|the) {re.escape(topic.bare.rsplit(' ', 1)[0])}(?! {re.escape(last)})(?= [a-z]|,|$)"


def _find_surnames(article: str, topic: Topic) -> dict[str, str]:
    """Return surname → the one full name of the article that ends in it."""
    names: dict[str, set[str]] = {}
    for found in _FULL_NAME.finditer(article):
        words = found[0].split()
        if words[0] in _STARTS:
            words = words[1:]
        if 2 <= len(words) <= 4:
            names.setdefault(words[-1], set()).add(" ".join(words))
    return {last: next(iter(full)) for last, full in names.items() if len(full) == 1 and last not in topic.name.split()}


def _name_people(text: str, surnames: dict[str, str]) -> str:
    """Return a sentence with lone surnames made full names."""

    def name_in_full(found: re.Match[str]) -> str:
        words = text[: found.start()].split()
        last, before = (words[-1] if words else ""), (words[-2] if len(words) > 1 else "")
        # a part of a longer name, or of two: Park and Burgess
        is_part = (last[:1].isupper() and last not in _STARTS) or last.lower() in ("the", "of")
        is_pair = last == "and" and before[:1].isupper() and not before.endswith(",")
        return surnames[found[0]] if found[0] in surnames and not (is_part or is_pair) else found[0]

    return _SURNAME.sub(name_in_full, text)
