"""Verbalise pieces of knowledge as sentences, whose perplexity measures their fit to a paragraph (Appendix A.3).

There are three templates, by the part of speech of the relation: "Ada Lovelace's occupation is mathematician" for
nouns, "Ada Lovelace is educated at …" for participles and for nouns with a preposition, "Ada Lovelace speaks English"
for verbs. A list (data/lists/relation_forms.csv) gives a relation's template, and a wording where its label does not
read well; for other relations the label decides. Perplexity punishes bad grammar whatever the knowledge, so values get
the article that they take, and dates are written out.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.errors import SettingsError
from factmill.tasks.text.values.dates_and_numbers import format_date_in_prose
from factmill.tasks.text.wikidata_ids import is_pid

SentenceForm = Literal["possessive", "is", "verb"]

_COLUMNS = ["pid", "label", "form", "wording", "article"]
_VERBS = frozenset({
    "has", "owns", "follows", "replaces", "uses", "contains", "includes", "depicts", "shares", "crosses", "operates",
    "produces", "speaks", "plays", "wears", "competes", "works", "lives", "writes", "connects", "serves", "employs",
})  # fmt: skip
_PREPOSITIONS = frozenset({
    "by", "of", "at", "in", "on", "for", "with", "from", "to", "as", "after", "under", "against",
})  # fmt: skip
_NON_NOUNS = frozenset({
    "born", "built", "drawn", "given", "held", "known", "made", "set", "sung", "taught", "won", "written", "led", "shot",
    "present", "similar", "different", "native", "adjacent", "active", "relevant", "part",
})  # fmt: skip
"""Participles that do not end in -ed, and words that need no article before a preposition."""
_SINGULARS_IN_S = frozenset({"series", "species", "headquarters", "sports", "politics", "mathematics"})
_QUALIFIER = re.compile(r"(?<! ) *+\([^()]*\)")
_INSTITUTION_NOUNS = (
    "University|Universities|Academy|Institute|Museum|House|Order|Legion|Kingdom|Republic|Ministry|Church|Battle|Siege|"
    "Bank|School|College|Society|Union|Army|Department|Council|Faculty|Conservatory|Duchy|Treaty|Chamber|Parliament|"
    "Senate|State|Isle|Party|Association|Institution|League|Federation|Commonwealth"
)
_ARTICLE_LAST_WORDS = (
    "Prize|Award|Awards|Medal|War|Wars|Society|Academy|Institute|Institution|Party|Union|Church|Empire|Army|Navy|Museum|"
    "Association|Revolution|Movement|Orchestra|Rebellion|Uprising|Campaign|Crusade|Cross|Order|States|Kingdom|Republic|"
    "Islands|Netherlands|Mountains|Sea|Ocean|River|Enlightenment|Renaissance|Sciences|Committee|Commission|Federation|"
    "League|Force|Forces|Corps|Guard|Observatory|Library|Theatre|Gallery|Foundation|Circle|Group|Brotherhood|BBC|"
    "Agency|Conference|Bauhaus|Nations|Company"
)
# possessives take no article (King's College), nor do names of state offices
_INSTITUTION_NAME = rf"(?!The |(?:\S+ )*\S+['’]s? )(?:(?!of )\S+ )*?(?:{_INSTITUTION_NOUNS}) (?:of|for) .+"
_TAKES_ARTICLE = re.compile(
    rf"{_INSTITUTION_NAME}|(?!The |(?:\S+ )*\S+['’]s? )(?:(?!of )\S+ )*?(?:(?:{_ARTICLE_LAST_WORDS})|(?:Prize|Award|Medal) (?:in|for) .+)"
)
"""Names that take "the": institutions, prizes, wars, groups of islands."""
_INSTITUTION_PATTERN = re.compile(_INSTITUTION_NAME)
"""Those names that cannot be family names."""


@dataclass(frozen=True, slots=True)
class RelationWording:
    """How a relation is worded in a sentence."""

    form: SentenceForm
    wording: str
    """Words for the template: a noun, the words after "is", or a verb phrase."""
    takes_article: bool = False
    """True where values are institutions, prizes, wars or places, whose names may take "the", unlike people and
    works."""


def parse_relation_wordings_by_pid(text: str) -> dict[str, RelationWording]:
    """Parse the list of forms (CSV) as PID → form; SettingsError names the malformed line.

    An empty wording means the label.
    """
    reader = csv.DictReader(io.StringIO(text))
    if reader.fieldnames != _COLUMNS:
        raise SettingsError(f"relation_forms.csv: expected the columns {_COLUMNS}, found {reader.fieldnames}")
    found: dict[str, RelationWording] = {}
    for line in reader:
        place = f"relation_forms.csv, line {reader.line_num}"
        if None in line.values() or not is_pid(line["pid"]) or line["pid"] in found:
            raise SettingsError(f"{place}: expected five columns and a new PID, found {line}")
        form = next((form for form in get_args(SentenceForm) if form == line["form"]), None)
        if form is None or line["article"] not in ("yes", ""):
            wanted = f"one of {get_args(SentenceForm)} in column form and yes or nothing in column article"
            raise SettingsError(f"{place}: expected {wanted}, found {line}")
        found[line["pid"]] = RelationWording(form, line["wording"] or line["label"], line["article"] == "yes")
    return found


def verbalise_piece(
    piece: PersonKnowledgePiece,
    name: str,
    wordings: Mapping[str, RelationWording],
    further_values: Sequence[PersonKnowledgePiece] = (),
) -> str:
    """Return a piece as a sentence about the item with this name; `further_values`: more pieces of the same relation."""
    relation = wordings.get(piece.pid) or derive_wording_from_label(piece.property)
    subject = f"The {name}" if _INSTITUTION_PATTERN.fullmatch(name) else name
    values = [
        format_date_in_prose(each.value) if each.value_qid is None else each.value for each in (piece, *further_values)
    ]
    if relation.takes_article:
        values = [f"the {value}" if _TAKES_ARTICLE.fullmatch(value) else value for value in values]
    value = f"{', '.join(values[:-1])} and {values[-1]}" if further_values else values[0]
    match relation.form:
        case "verb":
            sentence = f"{subject} {relation.wording} {value}"
        case "is":
            sentence = f"{subject} is {relation.wording} {value}"
        case "possessive":
            verb = "include" if _has_plural_main_noun(relation.wording) else "is"
            # a name that is a possessive already (McDonald's) stays
            is_possessive = subject.endswith(("'s", "’s", "'"))
            ending = "" if is_possessive else "'" if subject.casefold().endswith("s") else "'s"
            sentence = f"{subject}{ending} {relation.wording} {verb} {value}"
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def derive_wording_from_label(label: str) -> RelationWording:
    """Derive a relation's form from the words of its label."""
    words = _QUALIFIER.sub("", label.replace("(s)", "")).split() or [label]
    plain = " ".join(words)
    if words[0] in _VERBS:
        return RelationWording("verb", plain)
    no_nouns = (first in _NON_NOUNS or first.endswith("ed") for first in words)
    if any(no_noun and second in _PREPOSITIONS for no_noun, second in zip(no_nouns, words[1:], strict=False)):
        return RelationWording("is", plain)
    if words[-1] in _PREPOSITIONS or words[:2] == ["member", "of"]:
        return RelationWording("is", f"{'an' if plain[0] in 'aeiou' else 'a'} {plain}")
    return RelationWording("possessive", plain)


def _has_plural_main_noun(wording: str) -> bool:
    """True when the wording's main noun, the last word before a preposition, is plural."""
    words = wording.split()
    end = next((at for at, word in enumerate(words) if at and word in _PREPOSITIONS), len(words))
    noun = words[end - 1].strip(",")
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is")) and noun not in _SINGULARS_IN_S
