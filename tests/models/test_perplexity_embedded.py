"""The embedded language model on what it was made for: held-out sentences, and paragraphs that go on."""

import json
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from perplexity_corpus import (
    Corpus,
    draw_taught,
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
"""Another than the one that the training examines itself with."""


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
    """Return in which share of pairs the first text is less perplexing."""
    pairs = list(zip(find_perplexities(model, natural), find_perplexities(model, strange), strict=True))
    lost = [
        texts for texts, (one, other) in zip(zip(natural, strange, strict=True), pairs, strict=True) if one >= other
    ]
    print(f"{len(pairs) - len(lost)} of {len(pairs)}; first others: {lost[:5]}")
    return 1 - len(lost) / len(pairs)


def test_held_out_sentences_are_less_perplexing_than_their_words_in_disorder(model: LanguageModel) -> None:
    chance = random.Random(SEED)
    plain, prose = list_held_out_facts(corpus(), SEED, 400), list_held_out_prose(corpus())
    assert share_lower(model, plain, [scramble(text, chance) for text in plain]) >= 0.95
    assert share_lower(model, prose, [scramble(text, chance) for text in prose]) >= 0.95


def test_a_paragraph_goes_on_about_its_people_and_not_about_others(model: LanguageModel) -> None:
    continued = list_continuations(corpus(), SEED, 400)
    own = [f"{one.paragraph} {one.coherent}" for one in continued]
    assert share_lower(model, own, [f"{one.paragraph} {one.other}" for one in continued]) >= 0.9


def test_a_paragraph_keeps_to_people_that_nobody_has_heard_of(model: LanguageModel) -> None:
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
def test_any_text_can_be_weighed(model: LanguageModel, text: str) -> None:
    outcome = model.compute_log_probabilities([text])[0]
    assert isinstance(outcome, TextLogProbability)
    assert 1 < outcome.perplexity < 1e9


def test_a_paragraph_of_five_rounds_is_read_whole(model: LanguageModel) -> None:
    documents = draw_taught(corpus(), SEED)
    longest = max((next(documents) for _ in range(500)), key=len)
    assert isinstance(model.compute_log_probabilities([f"{longest} {longest[:600]}"])[0], TextLogProbability)


def test_the_model_says_what_it_is_and_how_it_came_to_be(model: LanguageModel) -> None:
    assert model.identity.startswith(f"{EMBEDDED_LANGUAGE_MODEL}@")
    record = json.loads((EMBEDDED_LANGUAGE_MODEL_FOLDER / "training.json").read_text("utf-8"))
    assert "no model of English" in record["what"]
    assert record["examined"]["plain_sentences_and_disorder"]["share"] >= 0.95
    assert sum(path.stat().st_size for path in Path(EMBEDDED_LANGUAGE_MODEL_FOLDER).iterdir()) < 2_000_000
