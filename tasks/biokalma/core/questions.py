"""What a program can check of the two questions about a pair (BioKaLMA, Appendix A.3, Tables 11 and 12).

Both questions target the set of knowledge (§2.2): they name both people and ask nothing outside the set, and the specific
one asks for most of it. What a question asks for is told by words (data/lists/biography_properties.csv): those by which
texts and questions speak of a property. So a share is an estimate: a reader may find more in a question, and words that
several properties share, "family" or "honours", count for each.

What is wrong with a question is Unreadable; its reason begins with a code: `repeated` (the same is asked twice),
`person_missing`, `outside` (a name, number, date or unit that no piece has), `asks_outside` (a matter of which no piece
tells, or tells all: of what joins the two, the set has no other value) or `asks_too_little` (of the specific one: less than half of the pieces).
"""

import re
from collections.abc import Collection, Mapping, Sequence

from tasks.biokalma.core.foreign import find_foreign, list_known
from tasks.biokalma.core.naming import names_person
from tasks.core.authoring.biography import BiographyProperty
from tasks.core.authoring.pieces import Piece
from tasks.core.replies import Unreadable
from tasks.text.folded import has_words
from tasks.text.matching import normalise, singular_form
from tasks.text.sentences import split_sentences

LEAST_SHARE = 0.5
"""Of the pieces that a specific question has to ask for."""
_WHOLE = r"\b(?<!of )(?:births?|deaths?|origins?)\b"
_WHEN = re.compile(rf"\b(?:when|date|year|time|day|age|old|birthday|lifetime)\b|{_WHOLE}", re.IGNORECASE)
_WHERE = re.compile(rf"\b(?:where|birthplaces?|places?|city|cities|town|country)\b|{_WHOLE}", re.IGNORECASE)
_HOW = re.compile(rf"\b(?:how|why|what|causes?|manner|circumstances|of which)\b|{_WHOLE}", re.IGNORECASE)
_SORTS = {
    **dict.fromkeys(("date of birth", "date of death"), _WHEN),
    **dict.fromkeys(("place of birth", "place of death", "place of burial"), _WHERE),
    **dict.fromkeys(("cause of death", "manner of death"), _HOW),
}
"""What must stand in a question about birth or death for it to ask for one thing and not another; "her birth" asks for all."""
_TIE = re.compile(
    r"\b(?:connect\w*|relat(?:ed|ion|ions|ionship|ives)|tie[ds]?|tied|link\w*|bond|bound|couple|kinship|each other|together)\b",
    re.IGNORECASE,
)
_NAMED_MATTER = re.compile(r".* .*|.*[^s]s|birthplace|marriage|occupation|education|namesake")
"""Aspects that a question has only where it asks for them: "time" and "end" are ordinary words."""
_ASKS_ALL = r"(?:['’]s?|\b(?:his|her|their|whose)) (?:[\w-]+ ){{0,2}}?{0}\b|\b{0} (?:of|did|do|had|has)\b"
"""A person's children, or the children of one: not `the siblings A and B`."""

Properties = Mapping[str, BiographyProperty]


def check_question(
    question: str,
    names: Sequence[str],
    pieces: Sequence[Piece],
    known: Properties,
    partial: Collection[str] = (),
) -> str | Unreadable:
    """Return a question about two people and the pieces of their set, or what is wrong with it.

    `partial`: labels of the properties of which the set has what joins the two alone, and the graph has more.
    """
    asked = [normalise(sentence) for sentence in split_sentences(question)]
    if len(set(asked)) < len(asked):
        return Unreadable("repeated: the question asks the same twice")
    for name, other in ((names[0], names[1]), (names[1], names[0])):
        if not names_person(question, name, other):
            return Unreadable(f"person_missing: the question does not name {name}")
    if foreign := find_foreign(question, list_known(pieces, names)):
        return Unreadable(f"outside: the question says {foreign!r}, which is no name or value of what it may ask for")
    if matter := _find_other_matter(question, pieces, known):
        return Unreadable(f"asks_outside: the question asks for {matter!r}, of which no fact tells")
    for aspect in (known[label].aspect for label in partial if label in known):
        if re.search(_ASKS_ALL.format(re.escape(aspect)), question, re.IGNORECASE):
            return Unreadable(
                f"asks_outside: the question asks for all {aspect!r}, expected one for what joins the two alone"
            )
    return question


def check_share(
    question: str, people: Sequence[str], pieces: Sequence[Piece], known: Properties
) -> tuple[str, float] | Unreadable:
    """Return a specific question and the share of the pieces that it asks for; `people` are the QIDs of the two."""
    missing = [piece for piece in pieces if not _asks_for(question, piece, people, known)]
    share = 1 - len(missing) / len(pieces)
    if share < LEAST_SHARE:
        labels = ", ".join(dict.fromkeys(piece.property for piece in missing))
        told = f"{len(pieces) - len(missing)} of {len(pieces)} facts, expected all"
        return Unreadable(f"asks_too_little: the question asks for {told}; not for: {labels}")
    return question, round(share, 4)


def _asks_for(question: str, piece: Piece, people: Sequence[str], known: Properties) -> bool:
    if piece.value_qid in people and _TIE.search(question):
        return True
    sort = _SORTS.get(piece.property)
    if sort and not sort.search(question):
        return False
    asked = singular_form(question)
    return any(has_words(asked, singular_form(word)) for word in _list_words(piece.property, known))


def _list_words(label: str, known: Properties) -> set[str]:
    """Return the words that ask for a property; of a property beyond the list, those of its label."""
    found = known.get(label)
    if found is None:
        return {label, *(word for word in label.split() if len(word) > 3)}
    return {label, found.aspect, *found.cues, *found.asked, *filter(None, [found.theme])}


def _find_other_matter(question: str, pieces: Sequence[Piece], known: Properties) -> str | None:
    """Return a matter that a question asks for and no piece tells of."""
    held = {normalise(word) for piece in pieces for word in _list_words(piece.property, known)}
    matters = {matter for each in known.values() for matter in (each.aspect, each.tie)}
    for aspect in sorted(filter(_NAMED_MATTER.fullmatch, matters)):
        matter, text = normalise(aspect), f" {normalise(question)} "
        # the students of doctoral students are no students
        for longer in (word for word in held if matter in word):
            text = text.replace(f" {longer} ", "  ")
        if f" {matter} " in text:
            return aspect
    return None
