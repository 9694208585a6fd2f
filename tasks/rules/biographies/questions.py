"""The two questions about a pair: the rules author's part after the last round of BioKaLMA.

Both name the two and ask for what the set of knowledge holds of them, and for nothing else: the general one openly,
or by themes that all of it belongs to, the specific one by the aspect of every piece (data/lists/biography_properties.csv). How the
two are tied, and who is the elder in it, is said by a piece whose value is the other; "were" is said of the dead alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Template

from tasks.rules.biographies.pieces import Fact, Known
from tasks.rules.biographies.sentences import KIN, choose_wording, name_with_article
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
    "marriage": "a couple",
    "love": "partners in life",
    "teaching": "teacher and student",
    "doctorate": "doctoral advisor and student",
    "belonging": "parent and subsidiary",
    "work": "partners at work",
    "acquaintance": "acquaintances",
}
_SIBLINGS = {("male", "male"): "brothers", ("female", "female"): "sisters"}
_THEMES_AT_MOST = 3


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
    elder, younger = tie.elder.kind.gender, tie.younger.kind.gender
    kin = [KIN.get(gender, {}).get(kind, kind) for gender, kind in ((elder, "parent"), (younger, "child"))]
    roles = _ROLES.get(tie.kind, "")
    if tie.kind == "descent":
        roles = " and ".join(kin)
    elif tie.kind == "kinship":
        roles = _SIBLINGS.get((elder, younger), "siblings") if tie.label == "sibling" else "relatives"
    words = {"roles": roles, "themes": _enumerate(_find_themes(subjects, tie)), "role_a": kin[0], "role_b": kin[1]}
    if all(subject.kind.is_person for subject in subjects):
        words |= {"life": "life", "lives": "lives"}
        if all(subject.kind.is_dead for subject in subjects):
            words |= {"was": "was", "were": "were"}
    given = {"a": tie.elder.name, "b": tie.younger.name, **{name: word for name, word in words.items() if word}}
    questions = load_biography_questions()
    wordings = [
        wording
        for kind in (("any", tie.kind) if tie.kind else ("apart",))
        for wording in questions.get(("general", kind), ())
        if given.keys() >= set(Template(wording).get_identifiers())
    ]
    return Template(choose_wording(wordings, paragraph)).substitute(given)


def ask_specific(paragraph: str, subjects: Sequence[Subject]) -> str:
    """Return a question that names the aspect of every piece, but no value."""
    tie = _find_tie(*subjects)
    aspects = [
        list(dict.fromkeys(_list_words([each, other], "aspect", tie))) for each, other in (subjects, subjects[::-1])
    ]
    if not aspects[0]:
        subjects, aspects = subjects[::-1], aspects[::-1]
    kind = ("neither", "first", "both")[sum(map(bool, aspects))]
    if aspects[0] == aspects[1] != []:
        kind = "same"
    wordings = load_biography_questions()["specific", kind if tie.kind else f"{kind} apart"]
    a, b = (subject.name for subject in subjects)
    told = {f"aspects_{letter}": _enumerate(own) for letter, own in zip("ab", aspects, strict=True)}
    return Template(choose_wording(wordings, paragraph)).substitute(told, a=a, b=b)


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


def _list_words(subjects: Sequence[Subject], column: str, tie: _Tie) -> Iterator[str]:
    """Yield themes or aspects of the first, piece by piece, but for what ties the two."""
    properties = load_biography_properties()
    own, other = subjects
    for fact in own.known.facts:
        known, told = properties.get(fact.property), _read_tie(own, fact, other)
        word = getattr(known, column) if known else fact.property
        # of a father and a son of one name only one can be meant
        is_turned = told is not None and told.label in _DIRECTED and told.elder is not tie.elder
        if (word or column == "theme") and (told is None or is_turned):
            yield word


def _find_themes(subjects: Sequence[Subject], tie: _Tie) -> list[str]:
    """Return the themes that all pieces belong to, where these are few and the two have them in common; else none."""
    each = [list(_list_words(pair, "theme", tie)) for pair in (subjects, subjects[::-1])]
    shared = set(each[0]) == set(each[1]) and "" not in each[0]
    return list(dict.fromkeys(each[0])) if shared and len(set(each[0])) <= _THEMES_AT_MOST else []


def _enumerate(aspects: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(aspects[:-1]), *aspects[-1:])))
