"""What of a person a paragraph has told already: the rules author says "also" where a round adds more of the same.

Properties are found by the same cue words as citations (data/lists/biography_properties.csv).
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache

from tasks.rules.biographies.pieces import MONTHS
from tasks.rules.biographies.reading import Sentence, speaks_of_kin
from tasks.rules.tables import load_biography_properties, load_tables

_IS_A = re.compile(
    r"(?:,[^,;:()]*,)?(?: \([^()]*\),?)?(?P<more> and [^\W\d_a-z][^,;:()]*?)? (?P<verb>is|are|was|became) "
    r"(?P<article>(?:an?|the|one of the) )?(?P<what>.*?)(?=[,;:.()]| (?:at|by|for|from|in|of|to|who|whose|with)\b|$)"
)
_MONTHS = "|".join(MONTHS)
_EVIDENCE = {
    "date of birth": (_DATE := re.compile(r"\b[0-9]{3,4}\b|\b[0-9]+ BC\b|\bcentury\b")),
    "date of death": _DATE,
    "inception": _DATE,
    "place of birth": (
        _PLACE := re.compile(rf"\bbirthplace\b|\b(?:in|at|near) (?:the )?(?!(?:{_MONTHS}|AD)\b)[^\W\d_a-z]")
    ),
    "place of death": _PLACE,
    "location of formation": _PLACE,
    "cause of death": re.compile(r"\bcause\b|\b(?:of|from) (?!this\b)[a-z]|\bin an? "),
    "manner of death": re.compile(r"\bmanner\b|\bnatural causes\b"),
}
"""What a sentence must hold for a birth or death to be told with when, where or why."""
_DIRECTED = {
    "father": ("father", "child"),
    "mother": ("mother", "child"),
    "son": ("child", "father"),
    "daughter": ("child", "father"),
    "teacher": ("student of", "student"),
    "doctoral advisor": ("doctoral advisor", "doctoral student"),
    "father of": ("child", "father"),
    "mother of": ("child", "mother"),
    "parent of": ("child", "father"),
    "son of": ("father", "child"),
    "daughter of": ("father", "child"),
    "child of": ("father", "child"),
    "student of": ("student of", "student"),
    "teacher of": ("student", "student of"),
    "taught by": ("student of", "student"),
    "taught": ("student", "student of"),
    "students of": ("student of", "student"),
    "doctoral students": ("doctoral student", "doctoral student"),
    "doctoral student of": ("doctoral advisor", "doctoral student"),
    "supervised the doctorate": ("doctoral student", "doctoral advisor"),
    "founder of": ("member of", "founded by"),
    "owner of": ("owner of", "owned by"),
    "owned by": ("owned by", "owner of"),
    "doctoral advisor of": ("doctoral student", "doctoral advisor"),
    "subsidiary of": ("parent organization", "has subsidiary"),
}
"""What a cue tells of the one who is named before it, and of the one behind it."""
_OTHER_NAME = re.compile(r"[^\W\d_a-z][\w’'-]* [^\W\d_a-z][\w’'-]+")


def has_told(sentences: Sequence[Sentence], label: str) -> bool:
    """True when sentences read for one person tell a property of that person, named before anybody else."""
    return any(
        label in find_properties(sentence, 0) and not _OTHER_NAME.search(sentence.text, 0, sentence.people[0].start)
        for sentence in sentences
    )


def find_properties(sentence: Sentence, person: int) -> list[str]:
    """Return the properties that a sentence tells of a person, by their first labels, in the order of the sentence."""
    told = dict(_read_cues(sentence, person))
    for mention in sentence.people:
        station = _IS_A.match(sentence.text, mention.end)
        if mention.person == person and station and station["article"] and _names_occupation(station["what"]):
            told.setdefault(station.start("what"), ["occupation"])
    return list(dict.fromkeys(label for _, labels in sorted(told.items()) for label in labels))


def _read_cues(sentence: Sentence, person: int) -> Iterator[tuple[int, list[str]]]:
    """Yield place and properties of the cues that speak of a person: who is named last before, else first behind."""
    counts = Counter(label for cue in sentence.cues for label in cue.properties)
    for cue in sentence.cues:
        before = [mention for mention in sentence.people if mention.end <= cue.start]
        subject = before[-1] if before else next(iter(sentence.people), None)
        # several share the words "both" and "they"
        if subject is None or person not in {each.person for each in sentence.people if each.start == subject.start}:
            continue
        if before and _is_of_others(sentence.text, subject.start, subject.end, cue.start):
            continue
        if directed := _DIRECTED.get(sentence.text[cue.start : cue.end]):
            yield cue.start, [directed[0 if before else 1]]
        else:
            # a word that several properties are told with speaks of the one that has most such words in the sentence
            most = max(counts[label] for label in cue.properties)
            stretch = sentence.text[sentence.clause_around(cue.start, cue.end)[0] : sentence.end_of_stretch(cue.end)]
            yield cue.start, _prove(stretch, [each for each in cue.properties if counts[each] == most])


def _prove(text: str, likely: Collection[str]) -> list[str]:
    """Return what is told of some properties: of births and deaths what there is evidence of, else the first one."""
    if proven := [label for label, evidence in _EVIDENCE.items() if label in likely and evidence.search(text)]:
        return proven
    return [label for label in _order() if label in likely and label not in _EVIDENCE][:1]


def _is_of_others(text: str, start: int, end: int, place: int) -> bool:
    """True when others come between the one whose name stands at start and end, and a place: kin, or another name."""
    return speaks_of_kin(text, start, place) or _OTHER_NAME.search(text, end, place) is not None


def _names_occupation(phrase: str) -> bool:
    """True when a noun phrase ends in an occupation: `English singer and actor`."""
    words = phrase.lower().split()
    return any(" ".join(words[start:]) in load_tables().occupations for start in range(len(words)))


@cache
def _order() -> tuple[str, ...]:
    """Return the first labels of all properties in the order of their list."""
    return tuple(dict.fromkeys(known.label for known in load_biography_properties().values()))
