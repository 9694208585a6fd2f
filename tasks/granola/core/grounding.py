"""Check that evidence supports coarser answers, and that each says less than those before (paper §3.3).

These are the paper's criteria Correctness and Granularity. A coarser answer is published only where the evidence
supports every word. Evidence is the answer's name, its description, its Wikidata claims (class, occupation, country,
enclosing places, and so on outwards), and what the lists derive from these: a wider noun, the region around a region.
Nationalities and names of countries and regions count as units in any form: "an American company" says what "a company
in the United States" says. All other answers are cut: a name, number, unit or trade of unknown origin, an instruction,
a fact from elsewhere. An answer that says the same as an earlier one in other words, or more, is cut too.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from factmill.tasks.core.authoring.granular_answers import FILLER_WORDS
from factmill.tasks.core.calls.wikidata import ItemNeighbour
from factmill.tasks.text.text_normalization import normalize_answer, normalize_answer_to_singular

COUNTRY_PID, CONTINENT_PID = "P17", "P30"
BROADER_PIDS = (COUNTRY_PID, CONTINENT_PID, "P131", "P279")
"""Properties that lead from an item to wider ones, repeatedly: country, continent, territorial entity, subclass of."""
EXPANDED_EVIDENCE_PIDS = (*BROADER_PIDS, "P27", "P31", "P106", "P159", "P276", "P495", "P740")
"""Properties of an answer that support a coarser answer; their values are followed outwards."""
LEAF_EVIDENCE_PIDS = ("P39", "P101", "P127", "P136", "P361", "P413", "P452", "P641", "P749")
"""Properties that support a coarser answer but are not followed: places around an owner are not around its property."""

GEORGIA_STATE = "Georgia, United States"
"""The US state, as a region; the bare name may mean the country."""

_WORD = re.compile(r"[^\s,;:()\[\]\"“”/–—-]+")
_POSSESSIVE = re.compile(r"['’]s?$")
_BORN_ADJECTIVE = re.compile(r"\b[\w-]{1,80}-born\b")
_MAX_TERM_WORDS = 5
_TERM_CACHE_SIZE = 8192
"""Number of texts whose terms are cached."""
_FILLER = FILLER_WORDS | {
    "that", "who", "which", "someone", "somewhere", "based", "located", "situated", "headquartered",
}  # fmt: skip
_INDEFINITE_PHRASE = re.compile(r"an? ", re.IGNORECASE)
_COUNTY = re.compile(r".+ (?:County|Parish)(?:, .+)?")
_GENDERED_SUFFIX = re.compile(r"(?<=\w\w\w)(?:(?:wo)?m[ae]n|person|people)$|(?<=act)ress$")
_SYNONYMS = {"author": "writer"}
_FEMALE = re.compile(r"wom[ae]n$|actress$")


@dataclass(frozen=True)
class PlaceAndNounLexicon:
    """Places and nouns of the lists, keyed by normal form (normalise; nouns by normalize_answer_to_singular)."""

    places: Mapping[str, str]
    """Name or adjective of a country or region → the country or region."""
    enclosing_places: Mapping[str, str]
    """Region → the region or country around it."""
    wider_nouns: Mapping[str, str]
    """Noun → the wider noun."""

    @cached_property
    def _cached_terms(self) -> Callable[[str], tuple[str, ...]]:
        # rows share most texts: names of places, classes, trades
        return lru_cache(_TERM_CACHE_SIZE)(self._read_terms)

    @cached_property
    def _cached_expansion(self) -> Callable[[str], frozenset[str]]:
        return lru_cache(_TERM_CACHE_SIZE)(self._expand_text)

    def read_terms(self, text: str) -> tuple[str, ...]:
        """Return a text's terms: one per word, in the singular; a country or region is one term, `=Ohio`."""
        return self._cached_terms(text)

    def _read_terms(self, text: str) -> tuple[str, ...]:
        found = (_POSSESSIVE.sub("", word) for word in _WORD.findall(text))
        words = [word for word in found if normalize_answer(word)]
        terms, at = [], 0
        while at < len(words):
            taken, place = self._read_place(words[at : at + _MAX_TERM_WORDS])
            term = f"={place}" if place else normalize_answer_to_singular(words[at])
            terms += [term] if term not in _FILLER else []
            at += taken
        return tuple(terms)

    def _read_place(self, words: Sequence[str]) -> tuple[int, str]:
        if words[0][0].isupper():
            for taken in range(len(words), 0, -1):
                form = normalize_answer(" ".join(words[:taken]))
                is_name = words[taken - 1][0].isupper() and (len(form) > 2 or words[0].isupper())
                if is_name and form in self.places:
                    return taken, self.places[form]
        return 1, ""

    def expand_terms(self, texts: Iterable[str]) -> frozenset[str]:
        """Return the terms of texts and all terms that follow from them."""
        return frozenset().union(*map(self._cached_expansion, texts))

    def _expand_text(self, text: str) -> frozenset[str]:
        terms: set[str] = set()
        todo, read = [text], set[str]()
        while todo:
            text = todo.pop()
            if text in read:
                continue
            read.add(text)
            found = self.read_terms(text)
            terms.update(found, map(_unify_gender_suffix, found))
            places = (term[1:] for term in found if term[0] == "=")
            words = normalize_answer_to_singular(text.replace("-", " ")).split()
            runs = (" ".join(words[at:end]) for at in range(len(words)) for end in range(at + 1, at + _MAX_TERM_WORDS))
            todo += [self.enclosing_places[place] for place in places if place in self.enclosing_places]
            todo += [self.wider_nouns[run] for run in runs if run in self.wider_nouns]
        return frozenset(terms)

    def expand_places(self, text: str, context: Collection[str] = ()) -> frozenset[str]:
        """Return the countries and regions that a text names, and those that enclose them.

        Georgia means the US state where the text or its context (places) names the United States.
        """
        terms = self._cached_expansion(text)
        places = frozenset(term[1:] for term in terms if term[0] == "=")
        is_state = "georgia" in terms and "United States" in {*places, *context}
        return places | {GEORGIA_STATE, "United States"} if is_state else places

    def select_countries(self, places: Collection[str]) -> frozenset[str]:
        """Return the countries among places."""
        return frozenset(place for place in places if place not in self.enclosing_places)

    def select_innermost_places(self, places: Collection[str]) -> frozenset[str]:
        """Return the places that enclose none of the others."""
        return frozenset(places) - {self.enclosing_places.get(place, "") for place in places}


@dataclass(frozen=True)
class KnownTermsAndPlacesOfAnswer:
    """What is known about an answer."""

    terms: frozenset[str]
    place_depths: Mapping[frozenset[str], int]
    """Terms of an enclosing place → how far out it lies; only the order matters."""

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(term for term in self.terms if len(term) >= 4 and term.isalpha())

    def supports(self, term: str, is_name: bool) -> bool:
        """Return whether the evidence has a term, or for a name one of the same stem: European, Europe."""
        if term in self.terms or (_unify_gender_suffix(term) in self.terms and not _FEMALE.search(term)):
            return True
        return is_name and len(term) >= 4 and any(_share_stem(term, known) for known in self._stems)


def gather_evidence(
    answer: str, description: str, claims: Mapping[str, Sequence[ItemNeighbour]], qid: str, lexicon: PlaceAndNounLexicon
) -> KnownTermsAndPlacesOfAnswer:
    """Return what is known about an answer.

    Args:
        answer: Its name.
        description: Its English description, or one made of claims.
        claims: QID → claims: TOLD and LEAF_EVIDENCE_PIDS for the answer, OUTWARDS for the items they lead to.
        qid: The answer's item.
        lexicon: Places and nouns of the lists.
    """
    labels = [_BORN_ADJECTIVE.sub("", description)]
    depths: dict[frozenset[str], int] = {}
    here = lexicon.select_countries(lexicon.expand_places(description))
    todo, seen = [(0, edge) for edge in claims.get(qid, ())], {qid}
    for steps, edge in todo:
        there = lexicon.select_countries(lexicon.expand_places(edge.label or ""))
        if edge.pid in BROADER_PIDS and here and there and not here & there:
            # a former state that the place belonged to
            continue
        labels += [edge.label] if edge.label else []
        if edge.label and edge.pid in (COUNTRY_PID, CONTINENT_PID, "P131"):
            depth = {COUNTRY_PID: 100, CONTINENT_PID: 200}.get(edge.pid, steps)
            depths.setdefault(_normalise_terms(edge.label, lexicon), depth)
        if edge.qid not in seen and edge.pid not in LEAF_EVIDENCE_PIDS:
            seen.add(edge.qid)
            todo += [(steps + 1, each) for each in claims.get(edge.qid, ()) if each.pid in BROADER_PIDS]
    # the words of a name do not locate its bearer: Berlin in Ohio
    return KnownTermsAndPlacesOfAnswer(lexicon.expand_terms(labels) | set(lexicon.read_terms(answer)), depths)


def drop_unsupported_or_redundant_levels(
    levels: Sequence[str], evidence: KnownTermsAndPlacesOfAnswer, lexicon: PlaceAndNounLexicon, keep_counties: bool
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the supported answers that say less than those before, and (answer, reason) of the others."""
    kept, removed = list(levels[:1]), list[tuple[str, str]]()
    for level in levels[1:]:
        is_county = _COUNTY.fullmatch(level) and "=United States" in evidence.terms
        why = "county" if is_county and not keep_counties else _find_removal_reason(level, kept, evidence, lexicon)
        if why:
            removed.append((level, why))
        else:
            kept.append(level)
    return kept, removed


def _find_removal_reason(
    level: str, before: Sequence[str], evidence: KnownTermsAndPlacesOfAnswer, lexicon: PlaceAndNounLexicon
) -> str:
    """Return why an answer must be removed, given the answers before it; empty where it stays."""
    terms, form = lexicon.read_terms(level), normalize_answer(level)
    names = {normalize_answer_to_singular(word) for word in _WORD.findall(level) if word[0].isupper()}
    if not terms or not all(evidence.supports(term, term in names) for term in terms):
        return "not_supported"
    if _INDEFINITE_PHRASE.match(level) and f" {normalize_answer(before[0])} " in f" {form} ":
        return "names_the_answer"
    is_same_place = len(terms) == 1 and terms[0][0] == "=" and terms == lexicon.read_terms(before[0])
    if is_same_place or form in (f"greater {normalize_answer(each)}" for each in before):
        return "reworded"
    return next(
        filter(None, (_find_reason_not_less_specific(level, each, evidence, lexicon) for each in before[1:])), ""
    )


def _find_reason_not_less_specific(
    level: str, earlier: str, evidence: KnownTermsAndPlacesOfAnswer, lexicon: PlaceAndNounLexicon
) -> str:
    """Return why an answer says no less than an earlier one; empty where it says less."""
    terms, earlier_terms = _normalise_terms(level, lexicon), _normalise_terms(earlier, lexicon)
    if terms == earlier_terms:
        return "reworded"
    is_place = terms in evidence.place_depths or all(term[0] == "=" for term in terms)
    ends = tuple(f" {link} {normalize_answer(level)}" for link in ("of", "at", "by"))
    if _INDEFINITE_PHRASE.match(earlier) and not is_place and normalize_answer(earlier).endswith(ends):
        # a member of a university's college is a member of the university
        return "named_before"
    is_nearer = terms in evidence.place_depths and evidence.place_depths[terms] < evidence.place_depths.get(
        earlier_terms, 0
    )
    return "finer_than_before" if is_nearer or (_INDEFINITE_PHRASE.match(level) and earlier_terms < terms) else ""


def _normalise_terms(text: str, lexicon: PlaceAndNounLexicon) -> frozenset[str]:
    return frozenset(_SYNONYMS.get(term, term) for term in map(_unify_gender_suffix, lexicon.read_terms(text)))


@lru_cache(_TERM_CACHE_SIZE)
def _unify_gender_suffix(term: str) -> str:
    return _GENDERED_SUFFIX.sub(lambda found: "or" if found[0] == "ress" else "man", term)


def _share_stem(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    common = next((at for at in range(len(short)) if short[at] != long[at]), len(short))
    return common == len(short) or common >= max(5, len(short) - 2)
