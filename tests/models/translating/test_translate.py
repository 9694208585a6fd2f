"""Test translators: the same translation in every batch, and named errors."""

import json
import random
from functools import partial
from pathlib import Path

import pytest
from support.models.random_translator import make_random_translator

from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.translator import make_translator_folder
from factmill.tasks.models.model_folder import get_models_folder
from factmill.tasks.models.translator import (
    EMBEDDED_TRANSLATOR,
    EMBEDDED_TRANSLATOR_FOLDER,
    KNOWN_WORDS_FILE,
    BeamSearchOptions,
    Translator,
    get_translator_identity,
    resolve_translator_folder,
)
from factmill.tasks.text.translating.translation import TARGET_LANGUAGES, TranslationRequest, UntranslatableReason

SHORT = BeamSearchOptions(max_tokens=24)
"""A limit, since random weights never end a translation."""
QUESTIONS = [
    "Where was Marie Curie born?",
    "In which city did Karl Marx die?",
    "Who founded Microsoft?",
    "What is the capital of Australia?",
    "How long is the river Elbe?",
    "Which currency is used in Switzerland?",
    "In which country does the birthplace of Albert Einstein lie?",
    "What is the capital of the country in which Osaka lies?",
    "How many people lived in Madrid in 2001?",
    "Berlin",
    "place of birth",
    "Ada Lovelace; occupation; mathematician",
]


@pytest.fixture(scope="module")
def embedded() -> Translator:
    return Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu")


@pytest.fixture(scope="module")
def random_small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_random_translator(tmp_path_factory.mktemp("small"), width=64, heads=4, inner_width=256, layers=2)


@pytest.fixture(scope="module")
def random_nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one encoder and one decoder layer of the shape of NLLB-200-distilled-600M."""
    return make_random_translator(tmp_path_factory.mktemp("nllb"), width=1024, heads=16, inner_width=4096, layers=1)


def store_as_int8(folder: Path, models: Path) -> Path:
    make_translator_folder(folder, models, "narrow", quantization="int8")
    return models / "narrow"


def check_batchings(
    translators: list[Translator], asked: list[TranslationRequest], batchings: int, seed: int = 0
) -> None:
    """Compare the tokens and scores of each text, bit for bit, alone and in many random batches by each translator."""
    alone = {pair: translators[0].find_best_translations([pair])[0] for pair in asked}
    assert len({found.score for found in alone.values()}) > 1
    chance = random.Random(seed)
    for translator in translators * batchings:
        some = [chance.choice(asked) for _ in range(chance.randint(2, 3 * len(asked) // 2))]
        assert translator.find_best_translations(some) == [alone[pair] for pair in some]


@pytest.mark.slow
@pytest.mark.parametrize("numbers", ["int8", "float32"])
def test_embedded_translator_is_independent_of_batching_and_thread_count(tmp_path: Path, numbers: str) -> None:
    asked = [(text, language) for text in QUESTIONS for language in TARGET_LANGUAGES]
    folder = store_as_int8(EMBEDDED_TRANSLATOR_FOLDER, tmp_path) if numbers == "int8" else EMBEDDED_TRANSLATOR_FOLDER
    check_batchings([Translator(folder, "cpu", threads=threads) for threads in (1, 2)], asked, batchings=4)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", ["int8", "float32"])
def test_random_weights_give_same_translations_in_every_batch(random_small: Path, tmp_path: Path, numbers: str) -> None:
    asked = [(text, language) for text in QUESTIONS for language in ("de", "pt")]
    folder = store_as_int8(random_small, tmp_path) if numbers == "int8" else random_small
    check_batchings([Translator(folder, "cpu", decoding=SHORT)], asked, batchings=6)


@pytest.mark.slow
def test_nllb_layer_gives_same_translations_in_every_batch(random_nllb: Path, tmp_path: Path) -> None:
    asked = [(text, language) for text in QUESTIONS[:8] for language in ("de", "pt")]
    translator = Translator(store_as_int8(random_nllb, tmp_path), "cpu", decoding=BeamSearchOptions(max_tokens=16))
    check_batchings([translator], asked, batchings=5)


@pytest.mark.slow
def test_translations_and_rejects_are_same_in_every_batch(embedded: Translator) -> None:
    """Includes rejects and texts that are searched twice."""
    texts = [
        *QUESTIONS,
        "J. J. Thomson",
        "the of in which",
        "Quirin",
        "How many people lived in Madrid in 1999?",
        "1999",
    ]
    alone = {
        (text, language): embedded.translate([(text, language)])[0] for text in texts for language in TARGET_LANGUAGES
    }
    chance = random.Random(1)
    for _ in range(6):
        some = chance.choices(list(alone), k=chance.randint(2, 100))
        assert embedded.translate(some) == [alone[pair] for pair in some]


def test_small_batches_give_same_translations_as_large_ones(random_small: Path) -> None:
    asked = [(text, language) for text in QUESTIONS for language in ("de", "pt")]
    make = partial(Translator, random_small, "cpu")
    large, small = (make(decoding=BeamSearchOptions(max_tokens=24, batch_tokens=tokens)) for tokens in (4096, 40))
    assert large.find_best_translations(asked) == small.find_best_translations(asked)


def test_float_models_translate_texts_alone_unless_configured(tmp_path: Path) -> None:
    make = partial(Translator, EMBEDDED_TRANSLATOR_FOLDER, "cpu", threads=1)
    opened = [Translator(store_as_int8(EMBEDDED_TRANSLATOR_FOLDER, tmp_path), "cpu"), make(), make(batching="length")]
    assert [translator.search.batching for translator in opened] == [
        "length",
        "alone",
        "length",
    ]


def test_numbers_and_dates_are_localized_and_ids_stay(embedded: Translator) -> None:
    asked = [
        ("How many people lived in Madrid in 2011?", "de"),
        ("How high is K2?", "fr"),
        ("3,755,251", "es"),
        ("14 March 1879", "it"),
    ]
    assert embedded.translate(asked) == [
        "Wie viele Menschen lebten 2011 in Madrid?",
        "Quelle est l'altitude du K2 ?",
        "3.755.251",
        "14 marzo 1879",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Where was Quirin Vorndale born?", "unknown_words"),
        ("When did the Beatles tour Japan?", "unknown_words"),
        ("東京", "unknown_characters"),
        ("Where was Marie Curie born? 🙂", "unknown_characters"),
        ("Berlin " * 300, "too_long"),
        ("born born capital Berlin which river mountain was did", "not_taught"),
        ("the the the the of of of in which which", "not_taught"),
        ("who wrote Frankenstein", "not_taught"),
    ],
)
def test_text_unknown_to_embedded_translator_is_rejected(embedded: Translator, text: str, reason: str) -> None:
    outcome = embedded.translate([(text, "de")])[0]
    assert isinstance(outcome, UntranslatableReason)
    assert outcome.reason == reason
    assert outcome.detail


def test_uncertain_translation_is_rejected() -> None:
    translator = Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu", threads=1)
    translator.settings = translator.settings.model_copy(update={"least_probability": 1.01})
    outcome = translator.translate([("Germany", "de")])[0]
    assert isinstance(outcome, UntranslatableReason)
    assert outcome.reason == "unsure"


def test_translation_rejected_by_rule_is_searched_again_without_it(embedded: Translator) -> None:
    asked: list[TranslationRequest] = [("J. J. Thomson", "de"), ("J. R. R. Tolkien", "fr")]
    assert [embedded.find_best_translations([pair])[0].tokens[-2] for pair in asked] != ["▁Thomson", "▁Tolkien"]
    assert embedded.translate(asked) == ["J. J. Thomson", "J. R. R. Tolkien"]


def test_unfinished_translation_is_rejected(random_small: Path) -> None:
    outcome = Translator(random_small, "cpu", decoding=SHORT).translate([("Who founded Microsoft?", "de")])[0]
    assert isinstance(outcome, UntranslatableReason)
    assert outcome.reason == "unfinished"


def test_an_empty_text_stays_empty(embedded: Translator) -> None:
    assert embedded.translate([("", "de"), ("  ", "fr")]) == ["", ""]


def test_unsupported_language_is_usage_error(embedded: Translator) -> None:
    with pytest.raises(UsageError, match="translates to de, fr, it, es, pt, not to nl"):
        embedded.translate([("Berlin", "nl")])


def test_identity_contains_model_and_search_settings_but_not_threads(tmp_path: Path) -> None:
    identity = get_translator_identity(EMBEDDED_TRANSLATOR, tmp_path, "cpu")
    assert identity.startswith(f"{EMBEDDED_TRANSLATOR}@")
    assert Translator(resolve_translator_folder(EMBEDDED_TRANSLATOR, tmp_path), "cpu", threads=2).identity == identity
    assert get_translator_identity(EMBEDDED_TRANSLATOR, tmp_path, "cpu", "float32") == identity, (
        "what its weights are stored as"
    )
    store_as_int8(EMBEDDED_TRANSLATOR_FOLDER, get_models_folder(tmp_path))
    others = {
        get_translator_identity("narrow", tmp_path, "cpu"),
        get_translator_identity(EMBEDDED_TRANSLATOR, tmp_path, "cpu", decoding=BeamSearchOptions(beam_size=1)),
    }
    assert len({identity, *others}) == 3


def test_embedded_translator_is_small_and_documents_its_training() -> None:
    assert sum(path.stat().st_size for path in EMBEDDED_TRANSLATOR_FOLDER.iterdir()) < 4_000_000
    record = json.loads((EMBEDDED_TRANSLATOR_FOLDER / "training.json").read_text("utf-8"))
    assert "no real NLLB" in record["what"]
    assert {"seed", "inputs", "versions", "log", "examined"} <= record.keys()
    assert "Berlin" in (EMBEDDED_TRANSLATOR_FOLDER / KNOWN_WORDS_FILE).read_text("utf-8").split("\n")
