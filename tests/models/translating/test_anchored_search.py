"""Test anchored search: a text's translation does not depend on the other texts of its batch."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from support.models.random_translator import make_random_translator

from factmill.tasks.models import devices
from factmill.tasks.models.devices import find_amd_onednn_matmul_instructions, open_ctranslate2_model
from factmill.tasks.models.exact_batches import list_avx2_row_ranges_summed_differently
from factmill.tasks.models.translator import (
    EMBEDDED_TRANSLATOR_FOLDER,
    BeamSearchOptions,
    Translator,
    choose_batch_invariant_search_text_counts,
)
from factmill.tasks.text.translating.translation import TARGET_LANGUAGES, TranslationRequest

TEXTS = [
    "Where was Marie Curie born?",
    "Who founded Microsoft?",
    "What is the capital of Australia?",
    "In which country does the birthplace of Albert Einstein lie?",
    "Berlin",
    "Ada Lovelace; occupation; mathematician",
]
Multiplier = Literal["avx512", "avx2"]
MULTIPLIERS: tuple[Multiplier, ...] = ("avx512", "avx2")
needs_onednn = pytest.mark.skipif(
    find_amd_onednn_matmul_instructions("cpu") is None,
    reason="this CPU multiplies floats by other than oneDNN with AVX2 or AVX-512",
)
ASKED: list[TranslationRequest] = [(text, language) for text in TEXTS for language in TARGET_LANGUAGES]


@pytest.fixture(scope="module")
def random_small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_random_translator(tmp_path_factory.mktemp("small"), width=64, heads=4, inner_width=256, layers=2)


@pytest.fixture(scope="module")
def random_nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_random_translator(tmp_path_factory.mktemp("nllb"), width=1024, heads=16, inner_width=4096, layers=1)


def anchor(translator: Translator, multiplier: Multiplier) -> Translator:
    """Enable anchored batching on any CPU."""
    translator.search.anchored_batching = choose_batch_invariant_search_text_counts(multiplier, translator.decoding)
    return translator


class Watched:
    """A CTranslate2 model that records its calls."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.asked: list[tuple[list[list[str]], dict[str, Any]]] = []

    def translate_batch(self, sources: list[list[str]], **how: Any) -> Any:
        self.asked.append((sources, how))
        return self._model.translate_batch(sources, **how)


def watch(translator: Translator) -> Watched:
    translator.search._model = Watched(translator.search._model)
    return translator.search._model


@pytest.mark.slow
@needs_onednn
@pytest.mark.parametrize("model", ["random_small", "random_nllb", "embedded"])
def test_row_bits_are_same_in_products_of_any_number_of_rows(model: str, request: pytest.FixtureRequest) -> None:
    folder = EMBEDDED_TRANSLATOR_FOLDER if model == "embedded" else request.getfixturevalue(model)
    opened = open_ctranslate2_model("Translator", folder, "cpu", "float32", 1, "")
    source, seen = ["eng_Latn", "▁Berlin", "</s>"], set()
    for count in (*range(4, 40), 47, 48, 49, 63, 64, 80, 87):
        # in a greedy search a step has one row per text
        results = opened.translate_batch(
            [source] * count,
            target_prefix=[["deu_Latn"]] * count,
            beam_size=1,
            max_decoding_length=3,
            return_logits_vocab=True,
        )
        bits = Counter(b"".join(np.array(step).tobytes() for step in result.logits[0]) for result in results)
        if find_amd_onednn_matmul_instructions("cpu") == "avx2":
            odd = {row for rows in list_avx2_row_ranges_summed_differently(count) for row in rows}
            odd |= {
                row // len(source)
                for rows in list_avx2_row_ranges_summed_differently(len(source) * count)
                for row in rows
            }
            assert count - max(bits.values()) == len(odd), count
        elif count >= 16:
            assert len(bits) == 1, count
        if find_amd_onednn_matmul_instructions("cpu") == "avx2" or count >= 16:
            seen.add(bits.most_common(1)[0][0])
    assert len(seen) == 1


@needs_onednn
def test_tokens_and_score_bits_are_same_alone_and_in_anchored_batches() -> None:
    translator = Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu")
    assert translator.search.anchored_batching
    together = translator.find_best_translations(ASKED)
    assert len({found.score for found in together}) > 20
    assert together == [translator.find_best_translations([pair])[0] for pair in ASKED]


class Ending:
    """A CTranslate2 model with random weights whose texts end after different numbers of steps, as with real ones."""

    def __init__(self, model: Any, tokens: list[str]) -> None:
        self._model, self._ends = model, tokens

    def translate_batch(self, sources: list[list[str]], **how: Any) -> Any:
        return self._model.translate_batch(sources, end_token=self._ends, **how)


@pytest.mark.slow
@needs_onednn
@pytest.mark.parametrize(
    ("model", "beams"), [("random_small", 1), ("random_small", 2), ("random_small", 5), ("random_nllb", 5)]
)
def test_bits_of_texts_of_any_length_are_same_in_anchored_batches(
    model: str, beams: int, request: pytest.FixtureRequest
) -> None:
    decoding = BeamSearchOptions(beam_size=beams, max_tokens=12)
    translator = Translator(request.getfixturevalue(model), "cpu", decoding=decoding)
    tokens = json.loads((EMBEDDED_TRANSLATOR_FOLDER / "shared_vocabulary.json").read_text("utf-8"))
    translator.search._model = Ending(translator.search._model, ["</s>", *tokens[1000::4]])
    chance = random.Random(5)
    pieces = [piece for text in TEXTS for piece in translator.tokenize(text)]
    sources = [
        ["eng_Latn", *chance.choices(pieces, k=long), "</s>"] for long in (1, 5, 12, 15, 23, 31) for _ in range(13)
    ]
    chance.shuffle(sources)
    codes = ["deu_Latn"] * len(sources)
    together = translator.search.find_best_translations(sources, codes)
    assert len({found.score for found in together}) > 60
    assert len({len(found.tokens) for found in together}) >= 3
    by_length = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    for places in (by_length[start : start + few] for few in (1, 4, 9) for start in range(0, len(sources), few + 6)):
        found = translator.search.find_best_translations([sources[place] for place in places], codes[: len(places)])
        assert found == [together[place] for place in places]


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_anchored_batches_return_same_tokens_as_single_searches(multiplier: Multiplier) -> None:
    alone = Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu", batching="alone")
    anchored = anchor(Translator(EMBEDDED_TRANSLATOR_FOLDER, "cpu"), multiplier)
    assert [found.tokens for found in anchored.find_best_translations(ASKED)] == [
        found.tokens for found in alone.find_best_translations(ASKED)
    ]
    assert anchored.find_best_translations([]) == []


@pytest.mark.parametrize("multiplier", MULTIPLIERS)
def test_no_step_has_rows_that_are_summed_in_different_order(multiplier: Multiplier, random_small: Path) -> None:
    for beams, asked in [(5, ASKED), (5, ASKED[:1]), (1, ASKED[:2]), (12, ASKED)]:
        translator = Translator(random_small, "cpu", decoding=BeamSearchOptions(beam_size=beams, max_tokens=12))
        watched = watch(anchor(translator, multiplier))
        translator.find_best_translations(asked)
        assert watched.asked
        for sources, how in watched.asked:
            assert len({len(source) for source in sources}) == 1
            lasting = [prefix for prefix in how["target_prefix"] if len(prefix) >= how["max_decoding_length"]]
            assert how["target_prefix"][-len(lasting) :] == lasting
            if multiplier == "avx512":
                assert len(sources) >= 16
                assert len(lasting) * beams >= 16
            else:
                assert len(sources) in (4, 6, 12) and len(sources) * beams <= 144
                assert len(lasting) * beams >= 3


def test_no_text_row_is_leftover_row_in_avx2_search() -> None:
    for beams in (1, 2, 5, 12):
        company = choose_batch_invariant_search_text_counts("avx2", BeamSearchOptions(beam_size=beams))
        assert company
        for length in range(3, 1025):
            for texts in range(1, company.max_texts + 1):
                size = texts + company.count_filling(texts, length) + company.anchors
                assert size == 12 or 12 * length <= 263
                for tokens in (1, length):
                    odd = [row for rows in list_avx2_row_ranges_summed_differently(size * tokens) for row in rows]
                    assert all(row >= (size - company.anchors) * tokens for row in odd), (length, texts)
    assert (
        choose_batch_invariant_search_text_counts("avx2", BeamSearchOptions(beam_size=13)) is None
        and choose_batch_invariant_search_text_counts(None, BeamSearchOptions()) is None
    )


def test_search_that_needs_more_steps_gets_them(random_small: Path) -> None:
    """Random weights never end a text, so each search restarts with more steps up to the maximum."""
    decoding = BeamSearchOptions(max_tokens=100)
    alone = Translator(random_small, "cpu", batching="alone", decoding=decoding)
    anchored = anchor(Translator(random_small, "cpu", decoding=decoding), "avx512")
    watched = watch(anchored)
    found = anchored.find_best_translations(ASKED[:1])
    assert [how["max_decoding_length"] for _, how in watched.asked] == list(steps_of(len(watched.asked[0][0][0])))
    assert [each.tokens for each in found] == [each.tokens for each in alone.find_best_translations(ASKED[:1])]


def steps_of(length: int) -> Iterator[int]:
    steps = length + length // 2 + 8
    while steps < 100:
        yield steps
        steps *= 4
    yield 100


FULL = "sse4_1 avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq"


@pytest.mark.parametrize(
    ("vendor", "flags", "held", "found"),
    [
        ("AuthenticAMD", FULL, {}, "avx512"),
        ("AuthenticAMD", FULL, {"CT2_USE_MKL": "0"}, "avx512"),
        ("AuthenticAMD", FULL, {"CT2_USE_MKL": "1"}, None),
        ("AuthenticAMD", FULL, {"DNNL_MAX_CPU_ISA": "AVX2"}, "avx2"),
        ("AuthenticAMD", FULL, {"ONEDNN_MAX_CPU_ISA": "avx2"}, "avx2"),
        ("AuthenticAMD", FULL, {"ONEDNN_MAX_CPU_ISA": "SSE41"}, None),
        ("AuthenticAMD", "sse4_1 avx2 fma", {}, "avx2"),
        ("AuthenticAMD", "sse4_1 avx", {}, None),
        ("GenuineIntel", FULL, {}, None),
    ],
)
def test_matmul_instructions_follow_cpu_and_library_limits(
    vendor: str, flags: str, held: dict[str, str], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CT2_USE_MKL", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in held.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n", "utf-8")
    monkeypatch.setattr(devices, "_CPU_INFO_FILE", tmp_path / "cpuinfo")
    monkeypatch.setattr(devices.platform, "machine", lambda: "x86_64")
    assert find_amd_onednn_matmul_instructions("cpu") == found
