"""Searches in company that lasts: what a text is told does not turn with what it is searched for with."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.random_translator import make_random_translator

from tasks.models import devices
from tasks.models.devices import keeps_rows, open_model
from tasks.models.translate import EMBEDDED_FOLDER, Decoding, Translator
from tasks.text.translating.translation import TARGET_LANGUAGES, Asked

TEXTS = [
    "Where was Marie Curie born?",
    "Who founded Microsoft?",
    "What is the capital of Australia?",
    "In which country does the birthplace of Albert Einstein lie?",
    "Berlin",
    "Ada Lovelace; occupation; mathematician",
]
ASKED: list[Asked] = [(text, language) for text in TEXTS for language in TARGET_LANGUAGES]


@pytest.fixture(scope="module")
def random_small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_random_translator(tmp_path_factory.mktemp("small"), width=64, heads=4, inner_width=256, layers=2)


@pytest.fixture(scope="module")
def random_nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_random_translator(tmp_path_factory.mktemp("nllb"), width=1024, heads=16, inner_width=4096, layers=1)


def anchor(translator: Translator) -> Translator:
    """Have it search in company on any CPU."""
    translator.search.is_anchored = True
    return translator


class Watched:
    """A CTranslate2 model that keeps what it is asked."""

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
@pytest.mark.skipif(not keeps_rows(), reason="this CPU's products of floats turn with the number of rows")
@pytest.mark.parametrize("model", ["random_small", "random_nllb", "embedded"])
def test_a_row_keeps_its_bits_from_sixteen_rows_on(model: str, request: pytest.FixtureRequest) -> None:
    folder = EMBEDDED_FOLDER if model == "embedded" else request.getfixturevalue(model)
    opened = open_model("Translator", folder, "cpu", "float32", 1, "")
    cutter, chance = Translator(EMBEDDED_FOLDER, "cpu", threads=1), random.Random(5)
    pieces = [piece for text in TEXTS for piece in cutter.tokenize(text)]
    sources = [["eng_Latn", *chance.choices(pieces, k=10), "</s>"] for _ in range(64)]

    def list_logits(count: int) -> list[bytes]:
        prefixes = [["deu_Latn"]] * count
        # in a greedy search a step has a row for each text
        results = opened.translate_batch(
            sources[:count], target_prefix=prefixes, beam_size=1, max_decoding_length=3, return_logits_vocab=True
        )
        return [b"".join(np.array(step).tobytes() for step in result.logits[0]) for result in results]

    whole = list_logits(64)
    assert len(set(whole)) == 64
    for count in (16, 17, 18, 20, 25, 31, 47, 63):
        assert list_logits(count) == whole[:count], count


@pytest.mark.skipif(not keeps_rows(), reason="this CPU's products of floats turn with the number of rows")
def test_tokens_and_scores_are_the_same_alone_and_in_company() -> None:
    translator = Translator(EMBEDDED_FOLDER, "cpu")
    assert translator.search.is_anchored
    together = translator.find(ASKED)
    assert len({found.score for found in together}) > 20
    assert together == [translator.find([pair])[0] for pair in ASKED]


def test_company_says_what_a_search_alone_says() -> None:
    alone = Translator(EMBEDDED_FOLDER, "cpu", batching="alone")
    anchored = anchor(Translator(EMBEDDED_FOLDER, "cpu"))
    assert [found.tokens for found in anchored.find(ASKED)] == [found.tokens for found in alone.find(ASKED)]
    assert anchored.find([]) == []


def test_no_step_ever_has_fewer_than_sixteen_rows(random_small: Path) -> None:
    for beams, asked in [(5, ASKED), (5, ASKED[:1]), (1, ASKED[:2])]:
        translator = anchor(Translator(random_small, "cpu", decoding=Decoding(beam_size=beams, max_tokens=12)))
        watched = watch(translator)
        translator.find(asked)
        assert watched.asked
        for sources, how in watched.asked:
            assert len(sources) >= 16
            assert len({len(source) for source in sources}) == 1
            lasting = [prefix for prefix in how["target_prefix"] if len(prefix) >= how["max_decoding_length"]]
            assert len(lasting) * beams >= 16
            assert how["target_prefix"][-len(lasting) :] == lasting


def test_a_search_that_needs_more_steps_gets_them(random_small: Path) -> None:
    """Random weights never end, so each is begun anew until the most that there may be."""
    decoding = Decoding(max_tokens=100)
    alone = Translator(random_small, "cpu", batching="alone", decoding=decoding)
    anchored = anchor(Translator(random_small, "cpu", decoding=decoding))
    watched = watch(anchored)
    found = anchored.find(ASKED[:1])
    assert [how["max_decoding_length"] for _, how in watched.asked] == list(steps_of(len(watched.asked[0][0][0])))
    assert [each.tokens for each in found] == [each.tokens for each in alone.find(ASKED[:1])]


def steps_of(length: int) -> Iterator[int]:
    steps = length + length // 2 + 8
    while steps < 100:
        yield steps
        steps *= 4
    yield 100


@pytest.mark.parametrize(
    ("vendor", "flags", "held", "keeps"),
    [
        ("AuthenticAMD", "sse4_1 avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq", {}, True),
        ("AuthenticAMD", "sse4_1 avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq", {"CT2_USE_MKL": "0"}, True),
        ("AuthenticAMD", "sse4_1 avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq", {"CT2_USE_MKL": "1"}, False),
        ("AuthenticAMD", "avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq", {"DNNL_MAX_CPU_ISA": "AVX2"}, False),
        ("AuthenticAMD", "avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq", {"ONEDNN_MAX_CPU_ISA": "AVX2"}, False),
        ("AuthenticAMD", "sse4_1 avx2 fma", {}, False),
        ("GenuineIntel", "sse4_1 avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq", {}, False),
    ],
)
def test_rows_are_kept_where_onednn_multiplies_with_avx512(
    vendor: str, flags: str, held: dict[str, str], keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CT2_USE_MKL", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in held.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n", "utf-8")
    monkeypatch.setattr(devices, "_CPU_FLAGS", tmp_path / "cpuinfo")
    monkeypatch.setattr(devices.platform, "machine", lambda: "x86_64")
    assert keeps_rows() is keeps
