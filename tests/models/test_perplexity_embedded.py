"""Test the embedded language model: its training texts, and its perplexity on held-out sentences and paragraphs."""

import json
import random
import re
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from perplexity_corpus import (
    Corpus,
    draw_taught,
    is_text_held_out,
    list_continuations,
    list_held_out_facts,
    list_held_out_prose,
    make_up_person,
    read_corpus,
    scramble,
    verbalise_plainly,
    write_paragraph,
)

from factmill.tasks.core.calls.translation_and_perplexity import TextLogProbability
from factmill.tasks.models.perplexity import EMBEDDED_LANGUAGE_MODEL, EMBEDDED_LANGUAGE_MODEL_FOLDER, LanguageModel

SEED = 11
"""Differs from the seed of the training's own test."""


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return LanguageModel(EMBEDDED_LANGUAGE_MODEL_FOLDER, "cpu")


@cache
def corpus() -> Corpus:
    return read_corpus()


def find_perplexities(model: LanguageModel, texts: Sequence[str]) -> list[float]:
    outcomes = model.compute_log_probabilities(texts)
    assert all(isinstance(outcome, TextLogProbability) for outcome in outcomes)
    return [outcome.perplexity for outcome in outcomes if isinstance(outcome, TextLogProbability)]


def share_lower(model: LanguageModel, natural: Sequence[str], strange: Sequence[str]) -> float:
    """Return the share of pairs in which the first text has the lower perplexity."""
    pairs = list(zip(find_perplexities(model, natural), find_perplexities(model, strange), strict=True))
    lost = [
        texts for texts, (one, other) in zip(zip(natural, strange, strict=True), pairs, strict=True) if one >= other
    ]
    print(f"{len(pairs) - len(lost)} of {len(pairs)}; first others: {lost[:5]}")
    return 1 - len(lost) / len(pairs)


def test_held_out_sentences_have_lower_perplexity_than_scrambled_ones(model: LanguageModel) -> None:
    chance = random.Random(SEED)
    plain, prose = list_held_out_facts(corpus(), SEED, 400), list_held_out_prose(corpus())
    assert share_lower(model, plain, [scramble(text, chance) for text in plain]) >= 0.95
    assert share_lower(model, prose, [scramble(text, chance) for text in prose]) >= 0.95


def test_sentence_about_same_people_has_lower_perplexity_in_paragraph(model: LanguageModel) -> None:
    continued = list_continuations(corpus(), SEED, 400)
    own = [f"{one.paragraph} {one.coherent}" for one in continued]
    assert share_lower(model, own, [f"{one.paragraph} {one.other}" for one in continued]) >= 0.9


def test_sentence_about_same_invented_person_has_lower_perplexity(model: LanguageModel) -> None:
    chance = random.Random(SEED)
    own, other = [], []
    while len(own) < 200:
        person, stranger = make_up_person(corpus(), chance), make_up_person(corpus(), chance)
        paragraph = write_paragraph([person], chance)
        if person.name in paragraph:
            fact = chance.choice(person.facts)
            own.append(f"{paragraph} {verbalise_plainly(person, fact)}")
            other.append(f"{paragraph} {verbalise_plainly(stranger, fact)}")
    assert share_lower(model, own, other) >= 0.8


@pytest.mark.parametrize(
    "text",
    [
        "東京",
        "Пётр Чайковский",
        "🙂",
        "Jean-Paul d'Alembert, «x» “y”",
        "\u0000\n\t",
        "عمر الخيام's place of birth is Nishapur.",
    ],
)
def test_any_text_gets_perplexity(model: LanguageModel, text: str) -> None:
    outcome = model.compute_log_probabilities([text])[0]
    assert isinstance(outcome, TextLogProbability)
    assert 1 < outcome.perplexity < 1e9


def test_paragraph_of_five_rounds_fits_model(model: LanguageModel) -> None:
    documents = draw_taught(corpus(), SEED)
    longest = max((next(documents) for _ in range(500)), key=len)
    assert isinstance(model.compute_log_probabilities([f"{longest} {longest[:600]}"])[0], TextLogProbability)


def test_embedded_model_documents_its_training_and_size(model: LanguageModel) -> None:
    assert model.identity.startswith(f"{EMBEDDED_LANGUAGE_MODEL}@")
    record = json.loads((EMBEDDED_LANGUAGE_MODEL_FOLDER / "training.json").read_text("utf-8"))
    assert "no model of English" in record["what"]
    assert record["examined"]["plain_sentences_and_disorder"]["share"] >= 0.95
    assert sum(path.stat().st_size for path in Path(EMBEDDED_LANGUAGE_MODEL_FOLDER).iterdir()) < 2_000_000


@cache
def taught() -> tuple[str, ...]:
    return tuple(islice(draw_taught(corpus(), 7), 4_000))


@pytest.mark.slow
def test_facts_of_held_out_people_are_not_in_training_data() -> None:
    sentences = list_held_out_facts(corpus(), 1, 10_000)
    assert len(sentences) > 300
    names = {person.name for person in corpus().people.values() if not person.is_held_out}
    own = [sentence for sentence in sentences if not any(sentence.startswith(name) for name in names)]
    assert len(own) > 0.9 * len(sentences)
    text = "\n".join(taught())
    assert [sentence for sentence in own if sentence in text] == []


def test_held_out_paragraphs_are_not_in_training_data() -> None:
    held_out = [text for _, paragraphs in corpus().articles for text in paragraphs if is_text_held_out(text)]
    assert len(held_out) > 20
    text = "\n".join(taught())
    assert [paragraph for paragraph in held_out if paragraph[:80] in text] == []


def test_training_documents_are_complete_sentences_without_markup() -> None:
    for document in taught():
        assert not re.search(r"\[[SV]\]|\bNone\b|  |[{}<>]|&\w+;", document), document
        assert document == document.strip()
    assert len(set(taught())) > 0.8 * len(taught())


def test_same_seed_draws_same_documents() -> None:
    assert tuple(islice(draw_taught(corpus(), 7), 100)) == taught()[:100]
    assert tuple(islice(draw_taught(corpus(), 8), 100)) != taught()[:100]


def test_statements_of_world_become_training_facts() -> None:
    ada = next(person for person in corpus().people.values() if person.name == "Ada Lovelace")
    result = {verbalise_plainly(ada, fact) for fact in ada.facts}
    assert {"Ada Lovelace's father is Lord Byron.", "Ada Lovelace's date of birth is 10 December 1815."} <= result
    dates = {fact.value for person in corpus().people.values() for fact in person.facts if fact.value_qid is None}
    assert {"1815-12-10", "0044-03-15 BC"} <= dates


def test_scrambled_text_has_same_words_in_different_order() -> None:
    chance = random.Random(1)
    for text in ("Rome is old.", "a b", "one two three"):
        for _ in range(20):
            mixed = scramble(text, chance)
            assert mixed != text and mixed.endswith(".") == text.endswith(".")
            assert sorted(mixed.removesuffix(".").split()) == sorted(text.removesuffix(".").split())
    with pytest.raises(ValueError, match="no other order"):
        scramble("Rome", chance)


def test_coherent_and_other_continuations_differ() -> None:
    for one in list_continuations(corpus(), 3, 50):
        assert one.coherent != one.other
        assert one.coherent not in one.paragraph
