"""Generate training and evaluation examples for the embedded translator from the embedded world's forms and labels.

An example is an English text and its translation into one language. Both have the form in which the pipeline passes
them to a model: with placeholders for numbers, dates and ids, and without the parts of a path that are not sent:

- a sentence form of data/world/sources/multihal_forms.yaml, with slots filled by labels of items of the slot's class,
  with articles where the form has them
- the parts of a path, separated by semicolons: paths of the world, or random labels
- a single label of an item or property; a title in quotation marks
- a number with its unit
- any other text, whose translation is a mark of refusal

A digest assigns every form with its labels, and every path, to one of ten shares. One share is held out of training and
only used for evaluation.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml
from translator_forms import Form, Texts, add_articles

from factmill.tasks.core.digests import combine_digests, derive_seed, digest_bytes
from factmill.tasks.text.translating.placeholders import mask_untranslated_spans, needs_no_translation
from factmill.tasks.text.translating.translation import PATH_PART_SEPARATOR, SOURCE_LANGUAGE, TARGET_LANGUAGES
from factmill.tasks.world.data import WORLD_FOLDER, Item, ItemValue, QuantityValue, WorldData, list_world_files
from factmill.tasks.world.files import load_world_data

FORMS_FILE = WORLD_FOLDER / "sources" / "multihal_forms.yaml"
YEAR, YEARS = "year", range(1850, 2026)
HELD_OUT_OF = 10
SHARES = {"form": 0.3, "path": 0.15, "parts": 0.12, "label": 0.2, "title": 0.05, "unit": 0.03, "outside": 0.2}
"""Share of each kind of training example."""
OUTSIDE = "⁇"
"""The translator's output for a text of an unknown kind."""
TITLED = ("book", "film", "painting", "series")
"""Slots in quotation marks."""
QUOTES = {"en": '"{}"', "de": "„{}“", "fr": "« {} »", "it": "«{}»", "es": "«{}»", "pt": "“{}”"}

_SEVERAL = """
centimetres / Zentimeter / centimètres / centimetri / centímetros / centímetros
days / Tage / jours / giorni / días / dias
kilograms / Kilogramm / kilogrammes / chilogrammi / kilogramos / quilogramas
kilometres / Kilometer / kilomètres / chilometri / kilómetros / quilômetros
metres / Meter / mètres / metri / metros / metros
minutes / Minuten / minutes / minuti / minutos / minutos
years / Jahre / années / anni / años / anos
"""
"""Units in the plural, which occur in answers but not in labels: English, then the target languages in order."""


@dataclass(frozen=True, slots=True)
class Example:
    """A text and its translation."""

    source: str
    target: str
    language: str
    kind: str
    """One of SHARES."""


@dataclass(frozen=True)
class Corpus:
    """The embedded world as texts in six languages."""

    forms: Sequence[Form]
    fillers: Mapping[str, Sequence[Texts]]
    """Slot → labels that may fill it."""
    labels: Mapping[str, Texts]
    """English label → its translations, chosen by `_choose_labels`."""
    properties: Sequence[str]
    """English labels of properties."""
    units: Sequence[Texts]
    paths: Sequence[Sequence[str]]
    """English labels of the world's own paths of one and two hops, without values."""

    def match(self, text: str) -> Texts | None:
        """Return an English label or sentence in six languages; None when it is neither."""
        for form in self.forms:
            if found := form.pattern.fullmatch(text):
                slots = {slot: self._match_filler(slot, filler) for slot, filler in found.groupdict().items()}
                if all(slots.values()):
                    return form.fill({slot: labels for slot, labels in slots.items() if labels})
        return self.labels.get(text)

    def _match_filler(self, slot: str, filler: str) -> Texts | None:
        if slot == YEAR:
            return _year(filler) if re.fullmatch("[12][0-9]{3}", filler) else None
        return self.labels.get(filler)

    @cached_property
    def words(self) -> Sequence[str]:
        """Words of English labels and forms, with adjacent punctuation, as often as they occur."""
        texts = [*self.labels, *(re.sub(r"\[\w+\]", " ", form.texts[SOURCE_LANGUAGE]) for form in [*self.forms] * 20)]
        return [word for text in texts for word in text.split()]

    @cached_property
    def all_labels(self) -> Sequence[Texts]:
        """Labels in six languages, in fixed order."""
        return [self.labels[label] for label in sorted(self.labels)]


def read_corpus(folder: Path = WORLD_FOLDER) -> Corpus:
    """Read the forms and the world's labels."""
    given = yaml.safe_load((folder / FORMS_FILE.relative_to(WORLD_FOLDER)).read_text("utf-8"))
    world = load_world_data(folder)
    labels = _choose_labels(world)
    fillers = {slot: _fill_slot(world, classes, labels) for slot, classes in given["slots"].items()}
    phrases = {slot: add_articles(fillers[slot], groups) for slot, groups in given["articles"].items()}
    forms = [
        Form(name, {language: texts[language] for language in (SOURCE_LANGUAGE, *TARGET_LANGUAGES)}, slots, phrases)
        for group in ("questions", "answers")
        for name, texts in given[group].items()
        if (slots := tuple(slot for slot in given["slots"] if f"[{slot}]" in texts[SOURCE_LANGUAGE])) is not None
    ]
    properties = sorted({thing.labels[SOURCE_LANGUAGE] for thing in world.properties.values()})
    return Corpus(forms, fillers, labels, properties, _list_units(world, labels), list(_list_paths(world)))


def digest_inputs(folder: Path = WORLD_FOLDER) -> str:
    """Return the digest of all inputs of the corpus."""
    files = [path for path in list_world_files(folder) if path.suffix == ".yaml" and path.name != "categories.yaml"]
    return combine_digests(digest_bytes(path.read_bytes()) for path in [*files, FORMS_FILE])


def draw_taught(corpus: Corpus, seed: int) -> Iterator[Example]:
    """Yield training examples endlessly, without held-out forms and paths."""
    chance = random.Random(seed)
    while True:
        kind = chance.choices(list(SHARES), list(SHARES.values()))[0]
        texts: Texts | None
        match kind:
            case "form":
                form = chance.choice(corpus.forms)
                chosen = draw_fillers(corpus, form, chance)
                texts = None if is_held_out(form, chosen) else form.fill(chosen)
            case "path":
                path = chance.choice(corpus.paths)
                texts = None if is_path_held_out(path) else join_texts([corpus.labels[label] for label in path])
            case "parts":
                texts = join_texts(draw_parts(corpus, chance))
            case "title":
                title = chance.choice(corpus.fillers[chance.choice(TITLED)])
                texts = {language: quote.format(title[language]) for language, quote in QUOTES.items()}
            case "unit":
                texts = number_unit(chance.choice(corpus.units), str(chance.choice(YEARS)))
            case "outside":
                texts = None
                if outside := mask_untranslated_spans(draw_outside(corpus, chance)):
                    yield Example(outside.text, OUTSIDE, chance.choice(TARGET_LANGUAGES), kind)
            case _:
                texts = chance.choice(corpus.all_labels)
        if texts and (example := mask_pair(texts, chance.choice(TARGET_LANGUAGES), kind)):
            yield example


def draw_parts(corpus: Corpus, chance: random.Random) -> list[Texts]:
    """Return two to five random labels; every second one is a property's."""
    return [
        corpus.labels[chance.choice(corpus.properties)] if place % 2 else chance.choice(corpus.all_labels)
        for place in range(chance.randint(2, 5))
    ]


def draw_outside(corpus: Corpus, chance: random.Random) -> str:
    """Return an English text of known words that is no known text and must be refused.

    It is a sentence or label with its words shuffled, or with some omitted, doubled or replaced; the beginning of
    one with the end of another; random words; or parts of a path, one of which is such a text.
    """
    texts = [_draw_text(corpus, chance), _draw_text(corpus, chance)]
    words, others = (text.split() for text in texts)
    match chance.randrange(6):
        case 0:
            chance.shuffle(words)
        case 1 | 2:
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(words))
                words[at : at + chance.randint(0, 1)] = chance.choice(
                    [[], [words[at]] * 2, chance.choices(corpus.words)]
                )
                words = words or chance.choices(corpus.words)
        case 3 | 4:
            words = words[: chance.randint(1, len(words))] + others[chance.randrange(len(others)) :]
        case _:
            words = chance.choices(corpus.words, k=chance.randint(1, 8))
    outside = " ".join(words)
    if corpus.match(outside):
        return draw_outside(corpus, chance)
    if chance.random() < 0.15:
        parts = [label[SOURCE_LANGUAGE] for label in draw_parts(corpus, chance)]
        parts[chance.randrange(len(parts))] = outside.replace(";", "")
        return PATH_PART_SEPARATOR.join(parts)
    return outside


def _draw_text(corpus: Corpus, chance: random.Random) -> str:
    """Return an English sentence or, less often, a label."""
    if chance.random() < 0.3:
        return chance.choice(corpus.all_labels)[SOURCE_LANGUAGE]
    form = chance.choice(corpus.forms)
    return form.fill(draw_fillers(corpus, form, chance))[SOURCE_LANGUAGE]


def draw_fillers(corpus: Corpus, form: Form, chance: random.Random) -> dict[str, Texts]:
    """Return labels for a form's slots: of the slot's class, or one time in six any label."""
    return {
        slot: chance.choice(corpus.fillers[slot] if chance.random() > 1 / 6 else corpus.all_labels)
        for slot in form.slots
    }


def is_held_out(form: Form, labels: Mapping[str, Texts]) -> bool:
    """Return True if a form with these labels is excluded from training."""
    names = [labels[slot][SOURCE_LANGUAGE] for slot in form.slots if slot != YEAR]
    return derive_seed("embedded-nllb", form.name, *names) % HELD_OUT_OF == 0


def is_path_held_out(path: Sequence[str]) -> bool:
    """Return True if a path of the world is excluded from training."""
    return derive_seed("embedded-nllb", *path) % HELD_OUT_OF == 0


def list_held_out(corpus: Corpus, seed: int, most: int) -> list[dict[str, str]]:
    """Return at most `most` held-out sentences, each in six languages, evenly distributed over the forms."""
    chance = random.Random(seed)
    found: dict[str, dict[str, str]] = {}
    for turn in range(most * 50):
        form = corpus.forms[turn % len(corpus.forms)]
        chosen = {slot: chance.choice(corpus.fillers[slot]) for slot in form.slots}
        if is_held_out(form, chosen):
            filled = form.fill(chosen)
            found[filled[SOURCE_LANGUAGE]] = filled
        if len(found) == most:
            break
    return list(found.values())


def join_texts(parts: Sequence[Texts]) -> dict[str, str]:
    """Return the parts of a path as one text in six languages, without duplicates and values."""
    kept = {part[SOURCE_LANGUAGE]: part for part in parts if not needs_no_translation(part[SOURCE_LANGUAGE])}
    return {
        language: PATH_PART_SEPARATOR.join(part[language] for part in kept.values())
        for language in (SOURCE_LANGUAGE, *TARGET_LANGUAGES)
    }


def number_unit(unit: Texts, number: str) -> dict[str, str]:
    """Return a number with its unit in six languages."""
    return {language: f"{number} {text}" for language, text in unit.items()}


def mask_pair(texts: Texts, language: str, kind: str) -> Example | None:
    """Return a text and its translation with placeholders; None if it needs no translation or a number differs."""
    source = texts[SOURCE_LANGUAGE]
    protected = mask_untranslated_spans(source)
    if protected is None or needs_no_translation(source):
        return None
    target = texts[language]
    for stand_in, original in protected.stand_ins:
        if target.count(original) != 1:
            return None
        target = target.replace(original, stand_in)
    return Example(protected.text, target, language, kind)


def _choose_labels(world: WorldData) -> dict[str, Texts]:
    """Return English label → labels; if several share one, a property's, else those of the item with the lowest QID.

    A translator gets only the label, and cannot distinguish the town of Georgia from the country.
    """
    items = sorted(world.items.values(), key=lambda item: int(item.qid[1:]))
    chosen: dict[str, Texts] = {}
    for labels in [thing.labels for thing in world.properties.values()] + [item.labels for item in items]:
        chosen.setdefault(labels[SOURCE_LANGUAGE], labels)
    return chosen


def _fill_slot(world: WorldData, classes: Sequence[str], labels: Mapping[str, Texts]) -> list[Texts]:
    if not classes:
        return [_year(str(year)) for year in YEARS]
    return [labels[name] for name in dict.fromkeys(item.labels["en"] for item in _instances_of(world, classes))]


def _year(year: str) -> Texts:
    return dict.fromkeys((SOURCE_LANGUAGE, *TARGET_LANGUAGES), year)


def _instances_of(world: WorldData, classes: Sequence[str]) -> list[Item]:
    """Return the items of some classes or their subclasses."""
    wanted, before = set(classes), set[str]()
    while wanted != before:
        before = set(wanted)
        wanted |= {item.qid for item in world.items.values() if before & set(_objects(item, "P279"))}
    return [item for item in world.items.values() if wanted & set(_objects(item, "P31"))]


def _objects(item: Item, pid: str) -> list[str]:
    return [s.value.qid for s in item.list_statements_of(pid) if isinstance(s.value, ItemValue)]


def _list_units(world: WorldData, labels: Mapping[str, Texts]) -> list[Texts]:
    """Return the labels of items that are units of some quantity, and some plurals."""
    used = {
        value.unit
        for item in world.items.values()
        for statement in item.statements
        for value in (statement.value, *(qualifier.value for qualifier in statement.qualifiers))
        if isinstance(value, QuantityValue) and value.unit
    }
    several = [
        dict(zip((SOURCE_LANGUAGE, *TARGET_LANGUAGES), line.split(" / "), strict=True))
        for line in _SEVERAL.strip().splitlines()
    ]
    return [*(labels[world.items[qid].labels[SOURCE_LANGUAGE]] for qid in sorted(used)), *several]


def _list_paths(world: WorldData) -> Iterator[list[str]]:
    """Yield the labels of each path of one hop, and of one path of two hops that begins with it."""
    for item in world.items.values():
        for statement in item.statements:
            lines = [item.labels["en"], world.properties[statement.pid].labels["en"]]
            if not isinstance(statement.value, ItemValue):
                yield lines
                continue
            other = world.items[statement.value.qid]
            lines.append(other.labels["en"])
            yield lines
            onward = [s for s in other.statements if isinstance(s.value, ItemValue)]
            if onward:
                last = onward[derive_seed(item.qid, statement.pid, other.qid) % len(onward)]
                assert isinstance(last.value, ItemValue)
                yield [*lines, world.properties[last.pid].labels["en"], world.items[last.value.qid].labels["en"]]
