"""Test language models: correct perplexities with the same bits in every batch, and named errors."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import numpy as np
import pytest
from support.models.random_decoder import POSITIONS, SENTENCES, START, write_random_decoder

from factmill.tasks.core.calls.translation_and_perplexity import NoPerplexity, TextLogProbability
from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.language_model import make_language_model_folder
from factmill.tasks.models.converting.weights import Quantization
from factmill.tasks.models.devices import get_cpu_instruction_class
from factmill.tasks.models.exact_batches import Batching
from factmill.tasks.models.model_folder import get_models_folder
from factmill.tasks.models.perplexity import (
    EMBEDDED_LANGUAGE_MODEL,
    LanguageModel,
    get_language_model_identity,
    resolve_language_model_folder,
)

TEXTS = [
    *SENTENCES,
    "Ada",
    "Ada Lovelace",
    "L'Aquila; “quotes”, commas",
    "Пётр Ильич Чайковский was a composer.",
    "東京 is a city.",
    "</s> <s> <|start|>",
    " two  spaces ",
    "one line\nand another",
    "🙂",
    " ".join(SENTENCES[:3]),
]
Make = Callable[..., Path]
STORED: dict[str, Quantization] = {"": "float32", "-int8": "int8"}
"""Suffix of a model's name → the number format of its weights."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with two small random models and one of realistic width, each in int8 too."""
    home = tmp_path_factory.mktemp("home")
    shapes = {
        "table": {},
        "rotary": {"rotary": True},
        "wide": {"rotary": True, "width": 512, "heads": 8, "layers": 1},
    }
    for name, shape in shapes.items():
        made = write_random_decoder(home / "made" / name, **shape)
        for added, stored in STORED.items():
            make_language_model_folder(made, get_models_folder(home), f"{name}{added}", quantization=stored)
    return home


@pytest.mark.parametrize("added", STORED)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["table", "rotary", "wide"])
def test_text_gets_same_bits_in_every_batch(home: Path, name: str, added: str, threads: int) -> None:
    model = LanguageModel(resolve_language_model_folder(f"{name}{added}", home), "cpu", threads=threads)
    alone = {text: model.compute_log_probabilities([text])[0] for text in TEXTS}
    assert len(
        {outcome.log_probability for outcome in alone.values() if isinstance(outcome, TextLogProbability)}
    ) == len(TEXTS)
    chance = random.Random(1)
    for _ in range(10):
        some = chance.choices(TEXTS, k=chance.randint(2, 40))
        assert model.compute_log_probabilities(some) == [alone[text] for text in some]


def test_int8_model_batches_by_length_and_float_model_runs_texts_alone(home: Path) -> None:
    folder = get_models_folder(home)
    batchings = [LanguageModel(folder / name, "cpu", threads=1).batching for name in ("table-int8", "table")]
    assert batchings == ["length", "alone"]
    assert LanguageModel(folder / "table-int8", "cpu", "float32", 1).batching == "alone"
    assert LanguageModel(folder / "table", "cpu", "float32", 1, batching="length").batching == "length"


def test_shared_batches_give_same_results_as_single_texts(home: Path) -> None:
    texts = [text[:-1] + letter for text in SENTENCES for letter in "abcdefgh"]
    batchings: list[Batching] = ["length", "alone"]
    shared, alone = (
        LanguageModel(get_models_folder(home) / "table-int8", "cpu", "int8", 1, batching).compute_log_probabilities(
            texts
        )
        for batching in batchings
    )
    assert shared == alone


@pytest.mark.parametrize("name", ["table", "rotary"])
def test_each_token_is_scored_after_those_before_it(home: Path, name: str) -> None:
    """Compares with the model's plain output, with the logarithm taken here."""
    path = get_models_folder(home) / name
    model = LanguageModel(resolve_language_model_folder(name, home), "cpu")
    engine = ctranslate2.Generator(str(path), "cpu", compute_type="float32")
    numbers = {token: n for n, token in enumerate(json.loads((path / "vocabulary.json").read_text("utf-8")))}
    for text, outcome in zip(TEXTS, model.compute_log_probabilities(TEXTS), strict=True):
        tokens = model.tokenize(text)
        assert not isinstance(tokens, NoPerplexity) and isinstance(outcome, TextLogProbability)
        assert tokens[0] == START
        logits = np.array(engine.forward_batch([tokens]))[0].astype(np.float64)
        logs = (
            logits
            - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
            - logits.max(-1, keepdims=True)
        )
        expected = sum(logs[place, numbers[token]] for place, token in enumerate(tokens[1:]))
        assert outcome.tokens == len(tokens) - 1
        assert outcome.log_probability == pytest.approx(expected, rel=1e-5)
        assert outcome.perplexity == float(f"{math.exp(-expected / outcome.tokens):.3g}")


def test_empty_and_too_long_texts_return_reason(home: Path) -> None:
    model = LanguageModel(resolve_language_model_folder("table", home), "cpu")
    longest = "x " * (POSITIONS // 2 - 1)
    tokens = model.tokenize(longest)
    assert not isinstance(tokens, NoPerplexity) and len(tokens) == POSITIONS - 1
    outcomes = model.compute_log_probabilities(["", longest, longest + "xxx", "fine", "half \ud83d"])
    reasons = [outcome.reason if isinstance(outcome, NoPerplexity) else None for outcome in outcomes]
    assert reasons == ["nothing_to_weigh", None, "too_long", None, "unknown_characters"]


def test_model_with_position_table_accepts_its_full_length(home: Path) -> None:
    model = LanguageModel(resolve_language_model_folder("table", home), "cpu")
    full = "x " * (POSITIONS // 2 - 1) + "x"
    assert model.settings.max_tokens == POSITIONS
    tokens = model.tokenize(full)
    assert not isinstance(tokens, NoPerplexity) and len(tokens) == POSITIONS
    assert isinstance(model.compute_log_probabilities([full])[0], TextLogProbability)


def test_token_outside_vocabulary_is_reported_or_scored_as_unknown(home: Path) -> None:
    model = LanguageModel(resolve_language_model_folder("table", home), "cpu")
    del model._numbers["x"]
    outcome = model.compute_log_probabilities(["x"])[0]
    assert isinstance(outcome, NoPerplexity) and outcome.reason == "unknown_characters"
    model.settings = model.settings.model_copy(update={"unknown": START})
    assert model.tokenize("x") == [START, START]
    assert isinstance(model.compute_log_probabilities(["x"])[0], TextLogProbability)


def test_first_token_is_not_scored_without_start_token(home: Path) -> None:
    model = LanguageModel(resolve_language_model_folder("table", home), "cpu")
    with_start = model.compute_log_probabilities(["Ada Lovelace"])[0]
    model.settings = model.settings.model_copy(update={"start": None})
    without, single = model.compute_log_probabilities(["Ada Lovelace", "A"])
    assert isinstance(with_start, TextLogProbability) and isinstance(without, TextLogProbability)
    assert without.tokens == with_start.tokens - 1
    assert isinstance(single, NoPerplexity) and single.reason == "nothing_to_weigh"


def test_each_outcome_is_yielded_once_as_soon_as_found(home: Path) -> None:
    model = LanguageModel(resolve_language_model_folder("rotary", home), "cpu", threads=1)
    asked = ["Ada", "", *SENTENCES, "Ada"]
    found = list(model.iterate_log_probabilities(asked))
    assert sorted(place for place, _ in found) == list(range(len(asked)))
    assert dict(found)[0] == dict(found)[len(asked) - 1]
    assert found[0][0] == 1, "replies without a model come first"
    assert model.compute_log_probabilities([]) == []


def test_identity_contains_model_and_compute_type_but_not_threads(home: Path) -> None:
    identity = get_language_model_identity("table", home, "cpu")
    assert identity.startswith("table@")
    assert LanguageModel(resolve_language_model_folder("table", home), "cpu", threads=2).identity == identity
    int8 = get_language_model_identity("table-int8", home, "cpu")
    others = {
        int8,
        get_language_model_identity("table-int8", home, "cpu", "float32"),
        get_language_model_identity("rotary", home, "cpu"),
    }
    assert len({identity, *others}) == 4
    assert identity.endswith("-float32-cpu"), "the same bytes on any CPU"
    assert int8.endswith(f"-int8-{get_cpu_instruction_class()}"), "the same bytes on CPUs of one class"


def test_unknown_name_error_lists_available_models(home: Path) -> None:
    with pytest.raises(
        UsageError,
        match=rf"no language model gpt2 .*there: {EMBEDDED_LANGUAGE_MODEL}, rotary, rotary-int8, table, .*wide-int8\).*add perplexity",
    ):
        LanguageModel(resolve_language_model_folder("gpt2", home))


def test_compute_type_unsupported_by_device_is_usage_error(home: Path) -> None:
    with pytest.raises(UsageError, match=r"CTranslate2 .* cannot open it as float16 on cpu"):
        LanguageModel(resolve_language_model_folder("table", home), "cpu", "float16")
