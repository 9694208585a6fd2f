"""Test 7-bit weights: no product overflows on any CPU; and which numbers each component computes in."""

import struct
from pathlib import Path

import numpy as np
import pytest
from support.models.random_decoder import SENTENCES, write_random_decoder

from factmill.tasks import progress
from factmill.tasks.errors import UsageError
from factmill.tasks.models import devices
from factmill.tasks.models.converting.language_model import make_language_model_folder
from factmill.tasks.models.converting.translator import make_translator_folder
from factmill.tasks.models.converting.weights import (
    CTRANSLATE2_WEIGHTS_FILE,
    is_stored_as_int8,
    load_mapped_model_bin,
    rewrite_weights_in_seven_bits,
)
from factmill.tasks.models.devices import (
    choose_compute_type_by_weights,
    format_compute_type_and_device,
    get_cpu_instruction_class,
)
from factmill.tasks.models.model_folder import digest_file
from factmill.tasks.models.perplexity import EMBEDDED_LANGUAGE_MODEL_FOLDER, LanguageModel, get_language_model_identity
from factmill.tasks.models.translator import EMBEDDED_TRANSLATOR_FOLDER as TRANSLATOR
from factmill.tasks.models.translator import Translator

MATRIX = "decoder/layer_0/self_attention/linear_0/weight"


def read_variable(path: Path, name: str) -> np.ndarray:
    """Return a copy of a model.bin's variable, so that the file may be overwritten later."""
    return np.array(load_mapped_model_bin(path).variables[name])


@pytest.fixture
def floats(tmp_path: Path) -> Path:
    return write_random_decoder(tmp_path / "floats")


def test_matrix_is_stored_from_minus_63_to_63_with_one_scale_per_row(floats: Path) -> None:
    before = read_variable(floats / CTRANSLATE2_WEIGHTS_FILE, MATRIX).astype(np.float32)
    assert not is_stored_as_int8(floats / CTRANSLATE2_WEIGHTS_FILE)
    rewrite_weights_in_seven_bits(floats / CTRANSLATE2_WEIGHTS_FILE)
    assert is_stored_as_int8(floats / CTRANSLATE2_WEIGHTS_FILE)
    after, scale = (
        read_variable(floats / CTRANSLATE2_WEIGHTS_FILE, MATRIX),
        read_variable(floats / CTRANSLATE2_WEIGHTS_FILE, f"{MATRIX}_scale"),
    )
    assert after.dtype == np.int8
    assert np.abs(after).max(axis=1).tolist() == [63] * len(after)
    assert np.allclose(after / scale[:, None], before, atol=float(np.abs(before).max()) / 126)


def test_rows_of_zeros_and_tiny_numbers_keep_finite_scale(floats: Path) -> None:
    path = floats / CTRANSLATE2_WEIGHTS_FILE
    before = read_variable(path, MATRIX)
    changed = before.copy()
    changed[0], changed[1] = 0, 1e-30
    path.write_bytes(path.read_bytes().replace(before.tobytes(), changed.tobytes()))
    rewrite_weights_in_seven_bits(path)
    after, scale = read_variable(path, MATRIX), read_variable(path, f"{MATRIX}_scale")
    assert not after[0].any() and scale[0] == 1
    assert (after[1] == 63).all() and np.isfinite(scale).all()


def test_weights_already_in_seven_bits_stay_unchanged(floats: Path) -> None:
    rewrite_weights_in_seven_bits(floats / CTRANSLATE2_WEIGHTS_FILE)
    first = digest_file(floats / CTRANSLATE2_WEIGHTS_FILE)
    rewrite_weights_in_seven_bits(floats / CTRANSLATE2_WEIGHTS_FILE)
    assert digest_file(floats / CTRANSLATE2_WEIGHTS_FILE) == first


def test_foreign_eight_bit_weights_are_stored_in_seven_bits_with_warning(
    floats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = write_random_decoder(tmp_path / "wide", quantization="int8")
    assert np.abs(read_variable(wide / CTRANSLATE2_WEIGHTS_FILE, MATRIX).astype(int)).max() == 127
    models = tmp_path / "models"
    progress.set_progress_style()
    make_language_model_folder(wide, models)
    assert "8 bits" in capsys.readouterr().err
    assert np.abs(read_variable(models / "wide" / CTRANSLATE2_WEIGHTS_FILE, MATRIX).astype(int)).max() == 63
    make_language_model_folder(models / "wide", models, "again")
    assert capsys.readouterr().err == "", "7 bits are taken without a word"
    assert digest_file(models / "again" / CTRANSLATE2_WEIGHTS_FILE) == digest_file(
        models / "wide" / CTRANSLATE2_WEIGHTS_FILE
    )
    make_language_model_folder(floats, models, "exact", quantization="float32")
    exact, near = (
        LanguageModel(models / name, "cpu").compute_log_probabilities(SENTENCES) for name in ("exact", "wide")
    )
    for one, other in zip(exact, near, strict=True):
        assert abs(other.perplexity / one.perplexity - 1) < 0.05


def test_names_sharing_matrix_still_share_it(tmp_path: Path) -> None:
    """The embedded translator's encoder, decoder and output share one table."""
    before = load_mapped_model_bin(TRANSLATOR / CTRANSLATE2_WEIGHTS_FILE)
    make_translator_folder(TRANSLATOR, tmp_path, "narrow", quantization="int8")
    after = load_mapped_model_bin(tmp_path / "narrow" / CTRANSLATE2_WEIGHTS_FILE)
    table = "decoder/embeddings/weight"
    shared = {alias for alias, name in before.aliases.items() if name == table}
    assert shared == {"decoder/projection/weight", "encoder/embeddings_0/weight"}
    assert {alias for alias, name in after.aliases.items() if name == table} == shared
    assert {a for a, name in after.aliases.items() if name == f"{table}_scale"} == {f"{each}_scale" for each in shared}
    assert Translator(tmp_path / "narrow", "cpu").translate([("Berlin", "de")]) == ["Berlin"]


def test_truncated_weights_file_is_rejected_by_name(floats: Path) -> None:
    content = (floats / CTRANSLATE2_WEIGHTS_FILE).read_bytes()
    (floats / CTRANSLATE2_WEIGHTS_FILE).write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match="not a model that CTranslate2 wrote"):
        load_mapped_model_bin(floats / CTRANSLATE2_WEIGHTS_FILE)
    (floats / CTRANSLATE2_WEIGHTS_FILE).write_bytes(struct.pack("<I", 6))
    with pytest.raises(UsageError, match="convert the checkpoint"):
        load_mapped_model_bin(floats / CTRANSLATE2_WEIGHTS_FILE)


def test_model_computes_in_int8_only_if_weights_are_stored_as_int8(floats: Path) -> None:
    assert choose_compute_type_by_weights(floats, None) == "float32"
    with pytest.raises(UsageError, match="--quantization int8"):
        choose_compute_type_by_weights(floats, "int8")
    rewrite_weights_in_seven_bits(floats / CTRANSLATE2_WEIGHTS_FILE)
    assert choose_compute_type_by_weights(floats, None) == "int8"
    assert choose_compute_type_by_weights(floats, "float32") == "float32"


def test_embedded_models_compute_in_float32(tmp_path: Path) -> None:
    assert get_language_model_identity(EMBEDDED_LANGUAGE_MODEL_FOLDER, tmp_path, "cpu").endswith("-float32-cpu")
    assert Translator(TRANSLATOR, "cpu").identity.endswith("-float32-cpu")


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        ("fpu sse2 avx avx2 fma avx512f avx512cd avx512vl avx512bw avx512dq avx512_vnni", "avx512"),
        ("fpu sse2 avx avx2 fma avx512f", "avx2"),
        ("fpu sse2 avx avx2", "avx"),
        ("fpu sse2", "generic"),
        ("", "generic"),
    ],
)
def test_cpu_class_matches_instruction_set_chosen_by_ctranslate2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, name: str
) -> None:
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    monkeypatch.setattr(devices.platform, "machine", lambda: "x86_64")
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n", "utf-8")
    monkeypatch.setattr(devices, "_CPU_INFO_FILE", tmp_path / "cpuinfo")
    assert get_cpu_instruction_class() == name
    assert format_compute_type_and_device("int8", "cpu") == f"int8-{name}"
    assert format_compute_type_and_device("float32", "cpu") == "float32-cpu"
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", "AVX")
    assert get_cpu_instruction_class() == "avx"


def test_class_of_other_processors_is_their_machine_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    monkeypatch.setattr(devices.platform, "machine", lambda: "aarch64")
    assert get_cpu_instruction_class() == "aarch64"
