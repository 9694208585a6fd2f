"""Whom a biographical paragraph is about, by the names that stand in it and what the graph says of their bearers."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.core.calls.knowledge import Candidate, Knowledge, Qid, choose_candidate
from tasks.rules.biographies.questions import Subject
from tasks.rules.biographies.reading import is_plain_word, read_paragraph
from tasks.rules.tables import load_tables, one_of
from tasks.text.ids import id_number
from tasks.text.sentences import split_sentences

_INSTANCE_OF, _GENDER, _OCCUPATION = "P31", "P21", "P106"
_HUMAN = "Q5"
_GENDERS = {"Q6581097": "male", "Q2449503": "male", "Q6581072": "female", "Q1052281": "female"}
_WORDS_OF_A_NAME = 7
_FIRST_SENTENCE_COUNTS = 3
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w’-]+"
_LINK = rf"(?:{one_of('name_links')} )?"
_RUN = re.compile(rf"{_CAPITAL}(?: {_LINK}(?:{_CAPITAL}|[A-Z]\.))* {_LINK}{_CAPITAL}")
_EDGES = "\"'“”‘’«»„()[]{},;:!?…"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the graph says of an item."""

    is_person: bool
    gender: str
    """male, female or empty."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A subject that a text may be about."""

    subject: Subject
    start: int
    """Where it is named first."""
    weight: int
    """How often it is named, the first sentence counted thrice."""


def look_up_kinds(knowledge: Knowledge, qids: Iterable[str]) -> dict[str, Kind]:
    """Return what the graph says of items; some data do not say what an item is, but only people have such claims."""
    asked = list(dict.fromkeys(qids))
    claims = knowledge.neighbours(asked, [_INSTANCE_OF, _GENDER, _OCCUPATION])
    kinds = {}
    for qid in asked:
        edges = claims.get(Qid(qid), [])
        classes = {edge.qid for edge in edges if edge.pid == _INSTANCE_OF}
        is_person = _HUMAN in classes if classes else bool(edges)
        genders = {_GENDERS.get(edge.qid, "") for edge in edges if edge.pid == _GENDER}
        kinds[qid] = Kind(is_person, genders.pop() if len(genders) == 1 else "")
    return kinds


def find_subjects(texts: Sequence[str], knowledge: Knowledge) -> list[list[Subject]]:
    """Return the two, or fewer, whom each text is about, in its order: the people that it names most, then first.

    A thing counts where it is named most of all, or beside one person if it is named in the first sentence and again. A
    text begins with the two that it is about; those who come in later may be named as often as one of them. Where the
    graph knows no name at all, names of people are guessed from their capitals.
    """
    spans = [list(_find_spans(text)) for text in texts]
    asked = {text[start:end] for text, own in zip(texts, spans, strict=True) for start, end in own}
    bearers = {name: found for name, found in knowledge.find(sorted(asked)).items() if found}
    kinds = look_up_kinds(knowledge, (each.qid for found in bearers.values() for each in found))
    chosen = {name: each for name, found in bearers.items() if (each := _choose_bearer(name, found, kinds))}
    described = knowledge.describe(sorted(set(chosen.values()), key=id_number))
    labels = {qid: known.label for qid, known in described.items() if known.label}
    subjects = []
    for text, own in zip(texts, spans, strict=True):
        named = list(_list_names(text, own, {name: qid for name, qid in chosen.items() if qid in labels}))
        known = {
            # an item may be named by its label, or by another name alone
            qid: Subject(
                labels[qid] if labels[qid] in text else text[start:end], kinds[qid].is_person, kinds[qid].gender
            )
            for start, end, qid in reversed(named)
        }
        main = _choose_main(_weigh(text, _list_places(text, [(start, known[qid]) for start, _, qid in named])))
        subjects.append([each.subject for each in sorted(main, key=lambda each: each.start)] or _guess_people(text))
    return subjects


def _choose_main(named: Sequence[_Named]) -> list[_Named]:
    ranked = sorted(named, key=lambda each: (-each.weight, not each.subject.is_person, each.start))
    people = [each for each in ranked if each.subject.is_person]
    named_first = [each for each in people if each.weight >= _FIRST_SENTENCE_COUNTS]
    if ranked and not ranked[0].subject.is_person and len(named_first) < 2:
        return ranked[:2]
    things = [each for each in ranked if not each.subject.is_person and each.weight > _FIRST_SENTENCE_COUNTS]
    return [*people, *things][:2]


def _weigh(text: str, places: Sequence[tuple[int, Subject]]) -> list[_Named]:
    first = len(next(iter(split_sentences(text)), ""))
    weights: Counter[Subject] = Counter()
    starts: dict[Subject, int] = {}
    for start, subject in sorted(set(places), key=lambda place: place[0]):
        weights[subject] += _FIRST_SENTENCE_COUNTS if start < first else 1
        starts.setdefault(subject, start)
    return [_Named(subject, start, weights[subject]) for subject, start in starts.items()]


def _list_names(
    text: str, spans: Iterable[tuple[int, int]], chosen: Mapping[str, Qid]
) -> Iterator[tuple[int, int, Qid]]:
    """Yield start, end and bearer of the names in a text, in its order; of names within names the longest counts."""
    taken: list[tuple[int, int]] = []
    fitting = [(start, end) for start, end in spans if text[start:end] in chosen]
    for start, end in sorted(fitting, key=lambda span: (span[0] - span[1], span[0])):
        if all(end <= other_start or other_end <= start for other_start, other_end in taken):
            taken.append((start, end))
    for start, end in sorted(taken):
        yield start, end, chosen[text[start:end]]


def _list_places(text: str, named: Sequence[tuple[int, Subject]]) -> list[tuple[int, Subject]]:
    """Return where a text names whom: whole names, and for people also parts of theirs."""
    people = list(dict.fromkeys(subject for _, subject in named if subject.is_person))
    partly = (
        (sentence.start + mention.start, people[mention.person])
        for sentence in read_paragraph(text, [person.name for person in people], [""] * len(people))
        for mention in sentence.people
        if not mention.is_pronoun
    )
    return [*named, *partly]


def _find_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of words that may be a name: up to seven words of a sentence, the first and last no small ones."""
    at = 0
    for sentence in split_sentences(text):
        at = text.index(sentence, at)
        words = []
        for word in re.finditer(r"\S+", sentence):
            bare = re.sub(r"['’]s$", "", word[0].rstrip(_EDGES + "."))
            start = word.start() + len(word[0]) - len(word[0].lstrip(_EDGES))
            words.append((at + start, at + word.start() + len(bare), word[0][len(bare) :].startswith(".")))
        for place, (start, _, _) in enumerate(words):
            if _may_be_name(text[start : start + 1]):
                for _, end, has_stop in words[place : place + _WORDS_OF_A_NAME]:
                    if start < end and not (" " not in text[start:end] and is_plain_word(text[start:end])):
                        yield start, end
                        if has_stop:
                            yield start, end + 1
        at += len(sentence)


def _may_be_name(letter: str) -> bool:
    """True for a capital, a digit, or a letter of a script that has no capitals."""
    return letter.isalnum() and not letter.islower()


def _choose_bearer(name: str, bearers: Sequence[Candidate], kinds: Mapping[str, Kind]) -> Qid | None:
    """Return the item meant by a name: people first; one word alone must be a label, since many share a first name."""
    fitting = [each for each in bearers if each.via == "label" or " " in name]
    if name in load_tables().adjectives:
        # "English" before a noun is no language
        return None
    people = [each for each in fitting if kinds[each.qid].is_person]
    return choose_candidate(people or fitting).qid if fitting else None


def _guess_people(text: str) -> list[Subject]:
    """Return the two names of several words that a text has most often."""
    runs = (found[0] for found in _RUN.finditer(text))
    return [Subject(name, is_person=True) for name, _ in Counter(runs).most_common(2)]
