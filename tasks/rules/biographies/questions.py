"""The two questions about a pair: the rules author's part after the last round of BioKaLMA.

Both name the two and ask for what the set of knowledge holds of them, and for nothing else: the general one openly,
or by themes that all of it belongs to, the specific one by the aspects of the pieces (data/lists/biography_properties.csv)
in the order of a life. How the two are tied, and who is the elder in it, is said by a piece whose value is the other;
"were" is said of the dead alone.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Template

from tasks.rules.biographies.pieces import Fact, Known
from tasks.rules.biographies.sentences import KIN, choose_wording, enumerate_words, name_with_article
from tasks.rules.biographies.subjects import Kind
from tasks.rules.tables import load_biography_properties, load_biography_questions

_OF_YOUNGER = frozenset(
    {
        *("father", "mother", "student of", "doctoral advisor", "influenced by", "parent organization", "owned by"),
        *("operator", "founded by", "chief executive officer", "chairperson", "director / manager", "board member"),
    }
)
"""Properties of a child, student or what is owned, whose value is the other."""
_DIRECTED = _OF_YOUNGER | {"child", "student", "doctoral student", "has subsidiary", "business division", "owner of"}
_ROLES = {
    "descent": ("parent", "child"),
    "teaching": ("teacher", "student"),
    "doctorate": ("doctoral advisor", "doctoral student"),
}
_BONDS = {"marriage": "marriage", "love": "relationship"}
_PRONOUNS = {"male": ("he", "his", "him"), "female": ("she", "her", "her")}
_SIBLINGS = {("male", "male"): "brothers", ("female", "female"): "sisters"}
_THEMES_AT_MOST = 3
_ASPECTS_AT_MOST = 5
_COMMON_AT_LEAST = 2
_TOGETHER = {
    **dict.fromkeys(("date of birth", "birthplace"), "birth"),
    **dict.fromkeys(("date of death", "place of death", "cause of death", "manner of death", "violent death"), "death"),
    **dict.fromkeys(("father", "mother"), "parents"),
    **dict.fromkeys(("occupation", "field of work"), "work"),
    "deaths": "death",
}
"""Aspects and themes → what a question calls several of one person."""
_LIFE = (
    *("origins", "homes", "family", "languages", "education", "influences", "convictions", "work", "leadership"),
    *("teaching", "", "places", "hardships", "honours", "deaths"),
)
"""Themes in the order of a life."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom, or what, a question is about."""

    known: Known
    """With the pieces of the set."""
    kind: Kind
    label: str = ""
    """Of the graph: under it a piece about the other may name it."""

    @property
    def name(self) -> str:
        """The name as it stands in a sentence."""
        return self.known.name if self.kind.is_person else name_with_article(self.known.name)


@dataclass(frozen=True, slots=True)
class _Tie:
    kind: str
    """Empty for none."""
    label: str
    elder: Subject
    """Parent, teacher, influence or owner, where the tie has such; else the first."""
    younger: Subject


def ask_general(paragraph: str, subjects: Sequence[Subject]) -> str:
    """Return a short question about two; the paragraph decides between equal wordings."""
    tie = _find_tie(*subjects)
    given = _list_given(tie) | {"themes": enumerate_words(_find_themes(subjects, tie))}
    if all(subject.kind.is_person for subject in subjects):
        given |= {"life": "life", "lives": "lives"}
        if all(subject.kind.is_dead for subject in subjects):
            given |= {"was": "was", "were": "were"}
    return _fill("general", ("any", tie.kind) if tie.kind else ("apart",), given, paragraph)


def ask_specific(paragraph: str, subjects: Sequence[Subject]) -> str:
    """Return a question that names the aspects of all pieces, the many of one person by their themes, but no value."""
    tie = _find_tie(*subjects)
    aspects = [_list_aspects(pair, tie) for pair in (subjects, subjects[::-1])]
    common = [aspect for aspect in aspects[0] if aspect in aspects[1]]
    own = [[aspect for aspect in each if aspect not in common] for each in aspects]
    if len(common) < _COMMON_AT_LEAST and all(own):
        common, own = [], aspects
    if own[1] and not own[0]:
        subjects, own = subjects[::-1], own[::-1]
    parts = ("same" if common else "", ("", "first", "both")[sum(map(bool, own))])
    kind = " ".join(filter(None, parts)) or "neither"
    first, second = subjects
    given = {"a": first.name, "b": second.name, "aspects": enumerate_words(common), "bond": _BONDS.get(tie.kind, "")}
    for letter, each, told in zip("ab", subjects, own, strict=True):
        # of two women "her" would be either
        is_clear = each.kind.gender in _PRONOUNS and first.kind.gender != second.kind.gender
        pronoun = _PRONOUNS[each.kind.gender][1] if is_clear else ""
        given |= {f"his_{letter}": pronoun, f"own_{letter}": pronoun or f"{each.name}'s"}
        given[f"aspects_{letter}"] = enumerate_words(told)
    for name, both in (("of_the_two", "the two"), ("of_both", f"{first.name} and {second.name}")):
        kinds = (tie.kind,) if ("tie", tie.kind) in load_biography_questions() else ("any",)
        given[name] = _fill("tie", kinds, {"both": both}, paragraph)
    sort = "bond" if given["bond"] else "" if tie.kind else "apart"
    question = _fill("specific", (f"{kind} {sort}".rstrip(),), given, paragraph)
    return question[:1].upper() + question[1:]


def _list_given(tie: _Tie) -> dict[str, str]:
    """Return what wordings may say of two: names, roles and pronouns, as far as they are known."""
    given = {"a": tie.elder.name, "b": tie.younger.name}
    roles = ("sibling", "sibling") if tie.label == "sibling" else _ROLES.get(tie.kind, ("", ""))
    for letter, each, role in zip("ab", (tie.elder, tie.younger), roles, strict=True):
        gender = each.kind.gender if each.kind.is_person else ""
        given[f"role_{letter}"] = KIN.get(gender, {}).get(role, role)
        for word, pronoun in zip(("he", "his", "him"), _PRONOUNS.get(gender, ("", "", "")), strict=True):
            given[f"{word}_{letter}"] = pronoun
    if tie.label == "sibling":
        given["roles"] = _SIBLINGS.get((tie.elder.kind.gender, tie.younger.kind.gender), "siblings")
    return given


def _fill(question: str, kinds: Sequence[str], given: Mapping[str, str], paragraph: str) -> str:
    """Return one of the wordings, of those all of whose words are given."""
    told = {name for name, word in given.items() if word}
    wordings = [
        wording
        for kind in kinds
        for wording in load_biography_questions().get((question, kind), ())
        if told.issuperset(Template(wording).get_identifiers())
    ]
    return Template(choose_wording(wordings, paragraph)).substitute(given)


def _find_tie(person: Subject, other: Subject) -> _Tie:
    """Return the first tie that a piece of one of the two tells."""
    told = (
        _read_tie(own, fact, value) for own, value in ((person, other), (other, person)) for fact in own.known.facts
    )
    return next(filter(None, told), _Tie("", "", person, other))


def _read_tie(own: Subject, fact: Fact, other: Subject) -> _Tie | None:
    known = load_biography_properties().get(fact.property)
    if known is None or not known.tie or fact.value not in (other.known.name, other.label):
        return None
    elder, younger = (other, own) if known.label in _OF_YOUNGER else (own, other)
    return _Tie(known.tie, known.label, elder, younger)


def _list_pieces(subjects: Sequence[Subject], tie: _Tie) -> Iterator[tuple[str, str]]:
    """Yield aspect and theme of each piece of the first, but for what ties the two."""
    properties = load_biography_properties()
    own, other = subjects
    for fact in own.known.facts:
        known, told = properties.get(fact.property), _read_tie(own, fact, other)
        # of a father and a son of one name only one can be meant
        is_turned = told is not None and told.label in _DIRECTED and told.elder is not tie.elder
        if told is None or is_turned:
            yield (known.aspect, known.theme) if known else (fact.property, "")


def _list_aspects(subjects: Sequence[Subject], tie: _Tie) -> list[str]:
    """Return the aspects of the first in the order of a life, those of one thing as one; by theme where the two have many."""
    each = [
        _gather(sorted(_list_pieces(pair, tie), key=_place_in_life), lambda aspect, _: _TOGETHER.get(aspect, aspect))
        for pair in (subjects, subjects[::-1])
    ]
    if len(dict.fromkeys(itertools.chain(*each))) > _ASPECTS_AT_MOST:
        each = [_gather(own, lambda aspect, theme: _TOGETHER.get(theme, theme) or aspect) for own in each]
    return [aspect for aspect, _ in each[0]]


def _gather(aspects: Sequence[tuple[str, str]], name: Callable[[str, str], str]) -> list[tuple[str, str]]:
    """Return aspects with their themes, several of one name under it."""
    named: dict[str, dict[str, str]] = {}
    for aspect, theme in aspects:
        named.setdefault(name(aspect, theme), {})[aspect] = theme
    return [(next(iter(own)) if len(own) == 1 else word, next(iter(own.values()))) for word, own in named.items()]


def _place_in_life(piece: tuple[str, str]) -> tuple[int, int]:
    aspect, theme = piece
    listed = [known.aspect for known in load_biography_properties().values()]
    return _LIFE.index(theme if theme in _LIFE else ""), listed.index(aspect) if aspect in listed else len(listed)


def _find_themes(subjects: Sequence[Subject], tie: _Tie) -> list[str]:
    """Return the themes that all pieces belong to, where these are few and the two have them in common; else none."""
    each = [[theme for _, theme in _list_pieces(pair, tie)] for pair in (subjects, subjects[::-1])]
    shared = set(each[0]) == set(each[1]) and "" not in each[0]
    return sorted(set(each[0]), key=_LIFE.index) if shared and len(set(each[0])) <= _THEMES_AT_MOST else []
