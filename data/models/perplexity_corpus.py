"""Generate training and evaluation texts for the embedded language model from the embedded world's articles and facts.

A document is one of these:

- a paragraph about one person of the world, or about two related people: a description, then facts, each in prose or in
  the plain sentences that BioKaLMA scores
- the same kind of paragraph about made-up people, with names in any script. It teaches the model that a paragraph stays
  with its people, and not only which facts are true
- an excerpt of an article, alone or followed by facts of its subject
- facts about any other subject

One of ten subjects is held out by the digest of its id: no paragraph of facts is about it, though others may name
it. One of ten paragraphs of articles is held out by the digest of its text. Held-out texts are only used for
evaluation.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html import unescape
from itertools import islice
from pathlib import Path

from prose import SENTENCES, verbalise_fact

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.core.knowledge_sentences import verbalise_piece
from factmill.tasks.biokalma.sources.person_pairs import load_relation_wordings
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.core.digests import combine_digests, derive_seed, digest_bytes
from factmill.tasks.text.values.wikidata_literals import format_wikidata_date
from factmill.tasks.world.data import WORLD_FOLDER, Item, ItemValue, TimeValue, WorldData, list_world_files
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.wiki.pages import WorldWikiPageIndex

HELD_OUT_OF = 10
SHARES = {"people": 0.4, "made_up": 0.35, "article": 0.1, "continued": 0.05, "thing": 0.1}
"""Share of each kind of training document."""
HUMAN, FEMALE, INSTANCE_OF, GENDER = "Q5", "Q6581072", "P31", "P21"
PRECISIONS = {"day": 11, "month": 10, "year": 9, "decade": 8, "century": 7}
UNTOLD = frozenset({INSTANCE_OF, GENDER, "P279", "P1889"})
"""Properties without sentences."""
SCRIPTS = ((0xC0, 0x17F), (0x3B1, 0x3C9), (0x430, 0x44F), (0x5D0, 0x5EA), (0x627, 0x64A), (0x3041, 0x3096),
           (0x4E00, 0x9FBF), (0xAC00, 0xD7A3))  # fmt: skip
"""First and last letter of each script for made-up names."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with its facts."""

    qid: str
    name: str
    description: str
    gender: str
    """male or female; empty if the subject is not a person."""
    facts: tuple[PersonKnowledgePiece, ...]

    @property
    def is_held_out(self) -> bool:
        """True if the subject is excluded from training."""
        return derive_seed("embedded-lm", self.qid) % HELD_OUT_OF == 0


@dataclass(frozen=True)
class Corpus:
    """The embedded world as English texts."""

    people: Mapping[str, Subject]
    """QID → person."""
    things: Sequence[Subject]
    articles: Sequence[tuple[str, Sequence[str]]]
    """QID (or empty) and paragraphs of each article."""

    @cached_property
    def facts(self) -> Mapping[str, Sequence[PersonKnowledgePiece]]:
        """PID → all facts of people, with repetitions."""
        found = defaultdict(list)
        for person in self.people.values():
            for fact in person.facts:
                found[fact.pid].append(fact)
        return found

    @cached_property
    def names(self) -> tuple[Sequence[str], Sequence[str]]:
        """First and last words of people's names."""
        words = [person.name.split() for person in self.people.values()]
        return [word[0] for word in words], [word[-1] for word in words if len(word) > 1]


@dataclass(frozen=True, slots=True)
class Continuation:
    """A paragraph, a sentence that continues it, and a sentence of the same relation about another person."""

    paragraph: str
    coherent: str
    other: str


def read_corpus(folder: Path = WORLD_FOLDER) -> Corpus:
    """Read the world's people, other subjects and articles."""
    world = load_world_data(folder)
    subjects = [_read_subject(world, item) for item in sorted(world.items.values(), key=lambda item: int(item.qid[1:]))]
    people = {subject.qid: subject for subject in subjects if subject.gender}
    things = [subject for subject in subjects if not subject.gender and subject.facts]
    return Corpus(people, things, list(_render_articles(world)))


def digest_inputs(folder: Path = WORLD_FOLDER) -> str:
    """Return the digest of all inputs of the corpus."""
    files = [path for path in list_world_files(folder) if path.name != "categories.yaml"]
    lists = [ASSETS_ROOT / "data" / "lists" / "relation_forms.csv", SENTENCES]
    return combine_digests(digest_bytes(path.read_bytes()) for path in [*files, *lists])


def draw_taught(corpus: Corpus, seed: int) -> Iterator[str]:
    """Yield training documents endlessly; none has a held-out subject."""
    chance = random.Random(seed)
    people = [person for person in corpus.people.values() if not person.is_held_out and len(person.facts) > 2]
    things = [thing for thing in corpus.things if not thing.is_held_out]
    articles = [
        (qid, taught) for qid, given in corpus.articles if (taught := [p for p in given if not is_text_held_out(p)])
    ]
    while True:
        match chance.choices(list(SHARES), list(SHARES.values()))[0]:
            case "people":
                yield write_paragraph(_draw_pair(corpus, chance.choice(people), chance), chance)
            case "made_up":
                made_up = [make_up_person(corpus, chance) for _ in range(chance.choice([1, 1, 2]))]
                yield write_paragraph(made_up, chance)
            case "article":
                _, paragraphs = chance.choice(articles)
                start = chance.randrange(len(paragraphs))
                yield _cut_piece(" ".join(paragraphs[start : start + chance.randint(1, 3)]), chance)
            case "continued":
                qid, paragraphs = chance.choice(articles)
                subject = corpus.people.get(qid)
                if subject and not subject.is_held_out:
                    yield f"{chance.choice(paragraphs)} {write_paragraph([subject], chance, has_start=False)}"
            case _:
                yield write_paragraph([chance.choice(things)], chance)


def write_paragraph(subjects: Sequence[Subject], chance: random.Random, has_start: bool = True, most: int = 14) -> str:
    """Return a paragraph about one or two subjects: what the first is, then facts of both, mixed."""
    sentences = []
    if has_start and chance.random() < 0.7:
        sentences.append(write_start(subjects[0], chance))
    facts = [(subject, fact) for subject in subjects for fact in subject.facts]
    count = min(len(facts), chance.choice([1, 2, 3, 4, 6, 8, most]))
    plain = chance.random()
    for subject, fact in chance.sample(facts, count):
        verbalise = verbalise_plainly if chance.random() < plain else partial(verbalise_in_prose, chance=chance)
        sentences.append(verbalise(subject, fact))
    return " ".join(sentences)


def write_start(subject: Subject, chance: random.Random) -> str:
    """Return a sentence that states what a subject is."""
    verb = chance.choice(["was", "is"])
    if not subject.description:
        return f"This is about {subject.name}."
    article = "an" if subject.description[0].lower() in "aeiou" else "a"
    return f"{subject.name} {verb} {chance.choice([article, 'the'])} {subject.description}."


def verbalise_plainly(subject: Subject, fact: PersonKnowledgePiece) -> str:
    """Return a fact as the sentence that BioKaLMA scores."""
    return verbalise_piece(fact, subject.name, load_relation_wordings())


def verbalise_in_prose(subject: Subject, fact: PersonKnowledgePiece, chance: random.Random) -> str:
    """Return a fact in prose, with the name or a part of it."""
    name = chance.choice([subject.name, subject.name, subject.name.split()[-1]])
    is_repeated = chance.random() < 0.3
    return verbalise_fact(
        name, fact.property, fact.value, subject.gender, is_person=bool(subject.gender), is_repeated=is_repeated
    )


def make_up_person(corpus: Corpus, chance: random.Random) -> Subject:
    """Return a person with a made-up name and facts of many people, whose names are also made up."""
    pids = chance.choices(list(corpus.facts), [len(facts) for facts in corpus.facts.values()], k=chance.randint(3, 12))
    facts = [chance.choice(corpus.facts[pid]) for pid in dict.fromkeys(pids)]
    facts = [
        fact.model_copy(update={"value": make_up_name(corpus, chance)})
        if fact.value_qid in corpus.people or (fact.value_qid and chance.random() < 0.15)
        else fact
        for fact in facts
    ]
    described = chance.choice(list(corpus.people.values())).description
    return Subject("", make_up_name(corpus, chance), described, chance.choice(["male", "female"]), tuple(facts))


def make_up_name(corpus: Corpus, chance: random.Random) -> str:
    """Return a name from words of the world's names, from syllables, or in another script."""
    first, last = corpus.names
    match chance.random():
        case share if share < 0.6:
            return f"{chance.choice(first)} {chance.choice(last)}"
        case share if share < 0.85:
            words = [_make_up_word(chance) for _ in range(chance.randint(1, 3))]
            return " ".join([*words, chance.choice(["", "", "O'", "d'", "Mc", "van "]) + _make_up_word(chance)])
        case share if share < 0.93:
            return f"{chance.choice(first)} “{_make_up_word(chance)}” {chance.choice(last)}, {chance.choice(['Jr.', 'Sr.', 'III'])}"
    low, high = chance.choice(SCRIPTS)
    return " ".join(
        "".join(chr(chance.randint(low, high)) for _ in range(chance.randint(2, 7))).capitalize() for _ in range(2)
    )


def is_text_held_out(text: str) -> bool:
    """Return True if a paragraph of an article is excluded from training."""
    return derive_seed("embedded-lm", text) % HELD_OUT_OF == 0


def list_held_out_facts(corpus: Corpus, seed: int, most: int) -> list[str]:
    """Return at most `most` plain sentences about held-out people."""
    people = [person for person in corpus.people.values() if person.is_held_out]
    sentences = dict.fromkeys(verbalise_plainly(person, fact) for person in people for fact in person.facts)
    return random.Random(seed).sample(list(sentences), min(most, len(sentences)))


def list_held_out_prose(corpus: Corpus) -> list[str]:
    """Return the sentences of at least four words in held-out paragraphs of articles."""
    texts = [text for _, paragraphs in corpus.articles for text in paragraphs if is_text_held_out(text)]
    sentences = [sentence for text in texts for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", text)]
    return [sentence for sentence in sentences if len(sentence.split()) > 3]


def list_continuations(corpus: Corpus, seed: int, most: int) -> list[Continuation]:
    """Return paragraphs about held-out people, each with a sentence about its subject and one about another."""
    chance = random.Random(seed)
    people = [person for person in corpus.people.values() if person.is_held_out and len(person.facts) > 5]
    return list(islice(_draw_continuations(people, chance), most))


def scramble(sentence: str, chance: random.Random) -> str:
    """Return the same words in another order, with the full stop at the end."""
    words = sentence.removesuffix(".").split()
    if len(set(words)) < 2:
        raise ValueError(f"{sentence!r} has no other order")
    while (mixed := chance.sample(words, len(words))) == words:
        continue
    return " ".join(mixed) + sentence[len(sentence.removesuffix(".")) :]


def _draw_continuations(people: Sequence[Subject], chance: random.Random) -> Iterator[Continuation]:
    while True:
        subject = chance.choice(people)
        fact, *rest = chance.sample(subject.facts, len(subject.facts))
        known = Subject(subject.qid, subject.name, subject.description, subject.gender, tuple(rest))
        others = [
            (other, theirs)
            for other in people
            for theirs in other.facts
            if other is not subject and theirs.pid == fact.pid and theirs.value != fact.value
        ]
        if not others:
            continue
        paragraph = write_paragraph([known], chance, most=9)
        if subject.name in paragraph:
            yield Continuation(paragraph, verbalise_plainly(subject, fact), verbalise_plainly(*chance.choice(others)))


def _draw_pair(corpus: Corpus, person: Subject, chance: random.Random) -> list[Subject]:
    """Return a person, half of the time with another one, preferably one named in a fact."""
    if chance.random() < 0.5:
        return [person]
    near = [corpus.people[fact.value_qid] for fact in person.facts if fact.value_qid in corpus.people]
    other = chance.choice(near or list(corpus.people.values()))
    return [person] if other.is_held_out or not other.facts else [person, other]


def _make_up_word(chance: random.Random) -> str:
    syllables = ["".join(map(chance.choice, ("bdfgklmnprstvz", "aeiou", "nrlsm ")))]
    syllables += [
        "".join(map(chance.choice, ("bdghklmnprstv", "aeiouéäö", "nrlst "))) for _ in range(chance.randint(0, 2))
    ]
    return "".join(syllables).replace(" ", "").capitalize()


def _cut_piece(text: str, chance: random.Random) -> str:
    """Return some consecutive sentences of a text."""
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", text)
    start = chance.randrange(len(sentences))
    return " ".join(sentences[start : start + chance.randint(1, 12)])


def _read_subject(world: WorldData, item: Item) -> Subject:
    objects = {(s.pid, s.value.qid) for s in item.statements if isinstance(s.value, ItemValue)}
    gender = ""
    if (INSTANCE_OF, HUMAN) in objects:
        gender = "female" if (GENDER, FEMALE) in objects else "male"
    facts = [
        _read_piece(world, item.qid, statement.pid, statement.value)
        for statement in item.iterate_best_statements()
        if statement.pid not in UNTOLD and isinstance(statement.value, ItemValue | TimeValue)
    ]
    return Subject(item.qid, item.labels["en"], item.description or "", gender, tuple(facts))


def _read_piece(world: WorldData, qid: str, pid: str, value: ItemValue | TimeValue) -> PersonKnowledgePiece:
    """Return a statement as a piece of the knowledge pool."""
    given = {"qid": qid, "pid": pid, "property": world.properties[pid].labels["en"], "statement": None}
    if isinstance(value, ItemValue):
        return PersonKnowledgePiece(
            **given, value_qid=value.qid, value=world.items[value.qid].labels["en"], precision=None
        )
    precision = PRECISIONS[value.precision]
    sign = "-" if value.year < 0 else ""
    text = format_wikidata_date(f"{sign}{abs(value.year):04d}-{value.month:02d}-{value.day:02d}T00:00:00Z", precision)
    return PersonKnowledgePiece(**given, value_qid=None, value=text, precision=precision)


def _render_articles(world: WorldData) -> Iterator[tuple[str, list[str]]]:
    """Yield the QID and paragraphs of each article as a reader sees them."""
    wiki = WorldWikiPageIndex(world)
    for title in sorted(world.articles):
        page = wiki.by_title[title]
        html = re.sub(r"<sup.*?</sup>", "", page.newest_html, flags=re.DOTALL)
        found = (unescape(re.sub(r"<[^>]+>", "", text)) for text in re.findall(r"<p>(.*?)</p>", html, re.DOTALL))
        yield page.qid or "", [" ".join(text.split()) for text in found if len(text.split()) > 3]
