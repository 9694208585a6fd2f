"""Whether later answers rest on anything, and on less than those before (GRANOLA-EQ, paper §3.3, Correctness and Granularity).

What an author writes below the given answer is only published where each of its words is told by the answer's name, its
description, what the Wikidata says of its item (class, occupation, country, what lies around, and so on outwards), or
follows from these by the lists: a wider noun, the region around a region. Nationalities and names of countries and
regions are told as a whole, in any of their forms: "an American company" says what "a company in the United States"
says. Else it is cut: a name, number, unit or trade of unknown origin, an instruction, a fact from elsewhere. So is what
says the same as an answer before in other words, or more.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from factmill.tasks.core.authoring.granularity import FILLER
from factmill.tasks.core.calls.knowledge import Neighbour
from factmill.tasks.text.matching import normalise, singular_form

COUNTRY, CONTINENT = "P17", "P30"
OUTWARDS = (COUNTRY, CONTINENT, "P131", "P279")
"""Claims that lead from an item to wider ones, again and again: country, continent, territorial entity, subclass of."""
TOLD = (*OUTWARDS, "P27", "P31", "P106", "P159", "P276", "P495", "P740")
"""Claims of an answer that a wider answer may tell, and go outwards from."""
TOLD_ALONE = ("P39", "P101", "P127", "P136", "P361", "P413", "P452", "P641", "P749")
"""Claims of an answer that a wider answer may tell; what lies around an owner does not lie around what it owns."""

GEORGIA = "Georgia, United States"
"""The state, as a region; its name alone may be the country."""

_WORD = re.compile(r"[^\s,;:()\[\]\"“”/–—-]+")
_POSSESSIVE = re.compile(r"['’]s?$")
_BORN = re.compile(r"\b[\w-]{1,80}-born\b")
_LONGEST = 5
_REMEMBERED = 8192
"""Texts whose terms are kept."""
_FILLER = FILLER | {"that", "who", "which", "someone", "somewhere", "based", "located", "situated", "headquartered"}
_PHRASE = re.compile(r"an? ", re.IGNORECASE)
_COUNTY = re.compile(r".+ (?:County|Parish)(?:, .+)?")
_PERSON = re.compile(r"(?<=\w\w\w)(?:(?:wo)?m[ae]n|person|people)$|(?<=act)ress$")
_SYNONYMS = {"author": "writer"}
_FEMALE = re.compile(r"wom[ae]n$|actress$")


@dataclass(frozen=True)
class Lexicon:
    """What the lists know of words, by normal form (normalise; nouns by singular_form)."""

    places: Mapping[str, str]
    """Name or adjective of a country or region → the country or region."""
    within: Mapping[str, str]
    """Region → the region or country around it."""
    wider: Mapping[str, str]
    """Noun → the wider noun."""

    @cached_property
    def _remembered(self) -> Callable[[str], tuple[str, ...]]:
        # rows share most of what is read: names of places, classes, trades
        return lru_cache(_REMEMBERED)(self._read_terms)

    @cached_property
    def _followed(self) -> Callable[[str], frozenset[str]]:
        return lru_cache(_REMEMBERED)(self._follow_text)

    def read_terms(self, text: str) -> tuple[str, ...]:
        """Return what a text says, one term a word, singular; a country or region is one term, `=Ohio`."""
        return self._remembered(text)

    def _read_terms(self, text: str) -> tuple[str, ...]:
        found = (_POSSESSIVE.sub("", word) for word in _WORD.findall(text))
        words = [word for word in found if normalise(word)]
        terms, at = [], 0
        while at < len(words):
            taken, place = self._read_place(words[at : at + _LONGEST])
            term = f"={place}" if place else singular_form(words[at])
            terms += [term] if term not in _FILLER else []
            at += taken
        return tuple(terms)

    def _read_place(self, words: Sequence[str]) -> tuple[int, str]:
        if words[0][0].isupper():
            for taken in range(len(words), 0, -1):
                form = normalise(" ".join(words[:taken]))
                is_name = words[taken - 1][0].isupper() and (len(form) > 2 or words[0].isupper())
                if is_name and form in self.places:
                    return taken, self.places[form]
        return 1, ""

    def follow(self, texts: Iterable[str]) -> frozenset[str]:
        """Return the terms of texts and all that follows from them."""
        return frozenset().union(*map(self._followed, texts))

    def _follow_text(self, text: str) -> frozenset[str]:
        terms: set[str] = set()
        todo, read = [text], set[str]()
        while todo:
            text = todo.pop()
            if text in read:
                continue
            read.add(text)
            found = self.read_terms(text)
            terms.update(found, map(_drop_gender, found))
            todo += [self.within[term[1:]] for term in found if term[0] == "=" and term[1:] in self.within]
            words = singular_form(text.replace("-", " ")).split()
            runs = (" ".join(words[at:end]) for at in range(len(words)) for end in range(at + 1, at + _LONGEST))
            todo += [self.wider[run] for run in runs if run in self.wider]
        return frozenset(terms)

    def follow_places(self, text: str, context: Collection[str] = ()) -> frozenset[str]:
        """Return the countries and regions that a text names, and those around them.

        Georgia is the state of the United States where the text or its context (places) names the United States.
        """
        terms = self._followed(text)
        places = frozenset(term[1:] for term in terms if term[0] == "=")
        is_state = "georgia" in terms and "United States" in {*places, *context}
        return places | {GEORGIA, "United States"} if is_state else places

    def outermost(self, places: Collection[str]) -> frozenset[str]:
        """Return the countries among places."""
        return frozenset(place for place in places if place not in self.within)

    def innermost(self, places: Collection[str]) -> frozenset[str]:
        """Return the places around none of the others."""
        return frozenset(places) - {self.within.get(place, "") for place in places}


@dataclass(frozen=True)
class Evidence:
    """What is known of an answer."""

    terms: frozenset[str]
    depths: Mapping[frozenset[str], int]
    """Terms of a place around it → how far out it lies; only their order counts."""

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(term for term in self.terms if len(term) >= 4 and term.isalpha())

    def tells(self, term: str, is_name: bool) -> bool:
        """Return whether a term is told, a name also by one of the same stem: European, Europe."""
        if term in self.terms or (_drop_gender(term) in self.terms and not _FEMALE.search(term)):
            return True
        return is_name and len(term) >= 4 and any(_share_stem(term, known) for known in self._stems)


def gather_evidence(
    answer: str, description: str, claims: Mapping[str, Sequence[Neighbour]], qid: str, lexicon: Lexicon
) -> Evidence:
    """Return what is known of an answer.

    Args:
        answer: Its name.
        description: Its English description, or one made of claims.
        claims: QID → claims; of the answer those of TOLD and TOLD_ALONE, of what these lead to those of OUTWARDS.
        qid: The answer's item.
        lexicon: What the lists know of words.
    """
    labels = [_BORN.sub("", description)]
    depths: dict[frozenset[str], int] = {}
    here = lexicon.outermost(lexicon.follow_places(description))
    todo, seen = [(0, edge) for edge in claims.get(qid, ())], {qid}
    for steps, edge in todo:
        there = lexicon.outermost(lexicon.follow_places(edge.label or ""))
        if edge.pid in OUTWARDS and here and there and not here & there:
            # a state that it once belonged to
            continue
        labels += [edge.label] if edge.label else []
        if edge.label and edge.pid in (COUNTRY, CONTINENT, "P131"):
            depth = {COUNTRY: 100, CONTINENT: 200}.get(edge.pid, steps)
            depths.setdefault(_list_senses(edge.label, lexicon), depth)
        if edge.qid not in seen and edge.pid not in TOLD_ALONE:
            seen.add(edge.qid)
            todo += [(steps + 1, each) for each in claims.get(edge.qid, ()) if each.pid in OUTWARDS]
    # the words of a name say nothing of where its bearer is: Berlin in Ohio
    return Evidence(lexicon.follow(labels) | set(lexicon.read_terms(answer)), depths)


def ground_levels(
    levels: Sequence[str], evidence: Evidence, lexicon: Lexicon, with_counties: bool
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the answers that rest on the evidence and on less than those before, and (answer, why) of the others."""
    kept, removed = list(levels[:1]), list[tuple[str, str]]()
    for level in levels[1:]:
        is_county = _COUNTY.fullmatch(level) and "=United States" in evidence.terms
        why = "county" if is_county and not with_counties else _find_fault(level, kept, evidence, lexicon)
        if why:
            removed.append((level, why))
        else:
            kept.append(level)
    return kept, removed


def _find_fault(level: str, before: Sequence[str], evidence: Evidence, lexicon: Lexicon) -> str:
    """Return what is wrong with an answer behind others; empty for nothing."""
    said = lexicon.read_terms(level)
    names = {singular_form(word) for word in _WORD.findall(level) if word[0].isupper()}
    if not said or not all(evidence.tells(term, term in names) for term in said):
        return "not_supported"
    if _PHRASE.match(level) and f" {normalise(before[0])} " in f" {normalise(level)} ":
        return "names_the_answer"
    if normalise(level) in (f"greater {normalise(each)}" for each in before) or (
        len(said) == 1 and said[0][0] == "=" and said == lexicon.read_terms(before[0])
    ):
        return "reworded"
    return next(filter(None, (_compare(level, each, evidence, lexicon) for each in before[1:])), "")


def _compare(level: str, earlier: str, evidence: Evidence, lexicon: Lexicon) -> str:
    """Return why an answer says no less than an earlier one; empty where it does."""
    said, said_before = _list_senses(level, lexicon), _list_senses(earlier, lexicon)
    if said == said_before:
        return "reworded"
    is_place = said in evidence.depths or all(term[0] == "=" for term in said)
    ends = tuple(f" {link} {normalise(level)}" for link in ("of", "at", "by"))
    if _PHRASE.match(earlier) and not is_place and normalise(earlier).endswith(ends):
        # to be of a college of a university is to be of that university
        return "named_before"
    is_nearer = said in evidence.depths and evidence.depths[said] < evidence.depths.get(said_before, 0)
    return "finer_than_before" if is_nearer or (_PHRASE.match(level) and said_before < said) else ""


def _list_senses(text: str, lexicon: Lexicon) -> frozenset[str]:
    return frozenset(_SYNONYMS.get(term, term) for term in map(_drop_gender, lexicon.read_terms(text)))


@lru_cache(_REMEMBERED)
def _drop_gender(term: str) -> str:
    return _PERSON.sub(lambda found: "or" if found[0] == "ress" else "man", term)


def _share_stem(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    common = next((at for at in range(len(short)) if short[at] != long[at]), len(short))
    return common == len(short) or common >= max(5, len(short) - 2)
