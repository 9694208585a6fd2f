"""Test the embedded translator on its own domain: held-out sentences and paths, texts of the samples, labels."""

import csv
import random
import re
from collections.abc import Mapping
from functools import cache

import pytest
from translator_corpus import Corpus, draw_outside, is_path_held_out, list_held_out, number_unit, read_corpus

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.models.translator import EMBEDDED_TRANSLATOR_FOLDER, Translator
from factmill.tasks.multihal.core.rows import FoundationQuestion
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS, find_foundation_files
from factmill.tasks.storage.source_files import make_source_file_without_digest
from factmill.tasks.text.translating.placeholders import (
    format_localized_amount,
    localize_dates_and_numbers,
    needs_no_translation,
)
from factmill.tasks.text.translating.translation import SOURCE_LANGUAGE, TARGET_LANGUAGES, PathPart, TranslationOutcome

SEED = 11
"""Differs from the seed of the training's own test."""


@pytest.fixture(scope="module")
def translator() -> Translator:
    # takes half the time; the last bits of floats change no sentence here
    return Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu", batching="length")


@cache
def corpus() -> Corpus:
    return read_corpus()


def share_exact(found: list[TranslationOutcome], expected: list[str]) -> float:
    wrong = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
    print(f"{len(expected) - len(wrong)} of {len(expected)} exact; first others: {wrong[:5]}")
    return 1 - len(wrong) / len(expected)


def translate_all(translator: Translator, texts: list[Mapping[str, str]]) -> tuple[list[TranslationOutcome], list[str]]:
    asked = [(text[SOURCE_LANGUAGE], language) for text in texts for language in TARGET_LANGUAGES]
    return translator.translate(asked), [text[language] for text in texts for language in TARGET_LANGUAGES]


@pytest.mark.slow
def test_at_least_94_percent_of_held_out_sentences_are_exact(translator: Translator) -> None:
    # 94.6: the model was trained for 3,600 steps (training.json), not the script's 6,500
    assert share_exact(*translate_all(translator, list_held_out(corpus(), SEED, 300))) >= 0.94


@pytest.mark.slow
def test_at_least_95_percent_of_held_out_paths_are_exact(translator: Translator) -> None:
    chance = random.Random(SEED)
    paths = chance.sample([path for path in corpus().paths if is_path_held_out(path)], 300)
    wanted = [([corpus().labels[label] for label in path], chance.choice(TARGET_LANGUAGES)) for path in paths]
    found = translator.translate_path_parts(
        [([PathPart(label) for label in p], w[1]) for p, w in zip(paths, wanted, strict=True)]
    )
    expected = ["; ".join(part[language] for part in parts) for parts, language in wanted]
    assert share_exact([path.problem or path.text for path in found], expected) >= 0.95
    assert sum(path.partwise_reason is None for path in found) > len(found) / 3


def test_at_least_98_percent_of_labels_are_exact(translator: Translator) -> None:
    labels = random.Random(SEED).sample(corpus().all_labels, 400)
    assert share_exact(*translate_all(translator, labels)) >= 0.98


def test_numbers_with_units_are_exact(translator: Translator) -> None:
    values = [number_unit(unit, "8,848.86") for unit in corpus().units]
    found, plain = translate_all(translator, values)
    asked = [(value[SOURCE_LANGUAGE], language) for value in values for language in TARGET_LANGUAGES]
    # CLDR's words if it knows the unit, else the corpus's with the number in the language's form
    wanted = [
        format_localized_amount(*each) or localize_dates_and_numbers(text, *each)
        for each, text in zip(asked, plain, strict=True)
    ]
    assert share_exact(found, wanted) == 1
    assert ("8.848,86 Kilogramm" in found, "8,848.86" in " ".join(map(str, found))) == (True, False)


@pytest.mark.parametrize(
    ("form", "labels", "language", "sentence"),
    [
        ("capital", {"country": "Switzerland"}, "de", "Wie heißt die Hauptstadt der Schweiz?"),
        ("capital", {"country": "Japan"}, "fr", "Quelle est la capitale du Japon ?"),
        ("capital", {"country": "Portugal"}, "pt", "Qual é a capital de Portugal?"),
        ("currency", {"country": "Austria"}, "it", "Qual è la valuta dell'Austria?"),
        ("flows_into", {"river": "Mississippi River", "sea": "Gulf of Mexico"}, "es",
         "El río Misisipi desemboca en el golfo de México."),
        ("award_year", {"person": "Albert Einstein", "award": "Nobel Prize in Physics"}, "fr",
         "En quelle année est-ce qu'Albert Einstein a reçu le prix Nobel de physique ?"),
        ("award_year", {"person": "Albert Einstein", "award": "Berlin"}, "pt",
         "Em que ano Albert Einstein recebeu Berlim?"),
    ],
)  # fmt: skip
def test_label_in_sentence_form_has_its_article(
    form: str, labels: dict[str, str], language: str, sentence: str
) -> None:
    (found,) = (each for each in corpus().forms if each.name == form)
    assert found.fill({slot: corpus().labels[label] for slot, label in labels.items()})[language] == sentence


def test_portuguese_is_brazilian() -> None:
    european = re.compile(r"[éó][nm][aeio]|\b(?:Óscar|Moscovo|Amesterdão|Irão|checo|polaco|desporto|equipa|prémio)\b")
    texts = [text["pt"] for text in (*corpus().all_labels, *(form.texts for form in corpus().forms))]
    assert [text for text in texts if european.search(text)] == []


@cache
def sample_texts() -> tuple[str, ...]:
    """Return the questions and answers of every row in the samples."""
    found = find_foundation_files([ASSETS_ROOT / "data" / "world" / "sources"], list(FOUNDATIONS))
    rows = [
        row.outcome
        for name, paths in found.files.items()
        for path in paths
        for row in FOUNDATIONS[name].read(make_source_file_without_digest(path))
    ]
    kept = [row for row in rows if isinstance(row, FoundationQuestion)]
    return tuple(dict.fromkeys(text for row in kept for text in (row.input, row.output, *row.optional_output)))


def test_at_least_98_percent_of_sample_forms_and_labels_are_exact(translator: Translator) -> None:
    wanted = [found for text in sample_texts() if (found := corpus().match(text)) and not needs_no_translation(text)]
    assert len(wanted) > 60
    assert share_exact(*translate_all(translator, wanted)) >= 0.98


def test_at_least_99_percent_of_samples_matching_no_form_are_rejected(translator: Translator) -> None:
    """These are the 14 other wordings of each DefAn question, and questions without an answer in the embedded world."""
    files = (ASSETS_ROOT / "data" / "world" / "sources" / "defan").glob("*.csv")
    rows = [row for path in files for row in csv.DictReader(path.read_text("utf-8").splitlines())]
    wordings = [row["questions"] for row in rows if not corpus().match(row["questions"])]
    assert len(wordings) > 25
    found = translator.translate([(text, language) for text in wordings for language in TARGET_LANGUAGES])
    answered = [outcome for outcome in found if isinstance(outcome, str)]
    print(f"{len(found) - len(answered)} of {len(found)} refused; others: {answered[:5]}")
    assert len(answered) <= 0.01 * len(found)


def test_at_least_91_percent_of_scrambled_texts_are_rejected(translator: Translator) -> None:
    chance = random.Random(SEED)
    texts = [draw_outside(corpus(), chance) for _ in range(400)]
    found = translator.translate(
        [(text, chance.choice(TARGET_LANGUAGES)) for text in texts if not needs_no_translation(text)]
    )
    answered = sum(isinstance(outcome, str) for outcome in found)
    print(f"{len(found) - answered} of {len(found)} refused")
    assert answered <= 0.09 * len(found)
