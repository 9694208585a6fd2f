"""Test conversion of decoder checkpoints: perplexities equal those of transformers, or an error names the reason."""

import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.models.random_decoder import POSITIONS, SENTENCES, START, write_random_decoder, write_tokenizer
from support.models.random_translator import make_random_translator

from factmill.tasks.core.calls.translation_and_perplexity import NoPerplexity, TextLogProbability
from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.language_model import list_decoder_tokens, make_language_model_folder
from factmill.tasks.models.model_folder import MODEL_MANIFEST_FILE, load_manifest_and_check_sizes
from factmill.tasks.models.perplexity import EMBEDDED_LANGUAGE_MODEL_FOLDER, LanguageModel, load_text_tokenizer

SIZE = 344
"""Rounded up, as weights often are: the tokenizer has fewer tokens."""
SHAPE: dict[str, Any] = {
    "vocab_size": SIZE,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": POSITIONS,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
WIDE = {"intermediate_size": 64, "initializer_range": 0.4}
CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", {"vocab_size": SIZE, "n_positions": POSITIONS, "n_embd": 32, "n_layer": 2, "n_head": 2,
                            "initializer_range": 0.4, "bos_token_id": 0, "eos_token_id": 0}),
    "llama": ("LlamaConfig", SHAPE | WIDE),
    "llama_tied": ("LlamaConfig", SHAPE | WIDE | {"num_key_value_heads": 1, "tie_word_embeddings": True}),
    "mistral": ("MistralConfig", SHAPE | WIDE | {"num_key_value_heads": 2, "sliding_window": None}),
    "qwen2": ("Qwen2Config", SHAPE | WIDE | {"num_key_value_heads": 2}),
    "opt": ("OPTConfig", SHAPE | {"ffn_dim": 64, "init_std": 0.4, "pad_token_id": 1, "word_embed_proj_dim": 32}),
}  # fmt: skip
Make = Callable[..., Path]


@pytest.fixture
def make_checkpoint(tmp_path: Path) -> Make:
    """Write a checkpoint with random weights, in the form of Hugging Face."""
    reason = "converting needs the extra `convert`"
    torch = pytest.importorskip("torch", reason=reason)
    transformers = pytest.importorskip("transformers", reason=reason)

    def make(family: str = "gpt2", **changed: Any) -> Path:
        folder = tmp_path / family
        name, shape = CONFIGS[family]
        torch.manual_seed(3)
        model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, name)(**(shape | changed)))
        model.save_pretrained(folder)
        write_tokenizer(folder / "tokenizer.json")
        return folder

    return make


def weigh_with_transformers(checkpoint: Path, numbers: list[int]) -> float:
    """Return the perplexity from transformers' own loss."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    with torch.no_grad():
        return math.exp(model(torch.tensor([numbers]), labels=torch.tensor([numbers])).loss.item())


@pytest.mark.parametrize("family", list(CONFIGS))
def test_converted_decoder_scores_like_transformers(make_checkpoint: Make, tmp_path: Path, family: str) -> None:
    checkpoint = make_checkpoint(family)
    manifest = make_language_model_folder(checkpoint, tmp_path / "models", quantization="float32")
    assert manifest.settings == {
        "identity": family,
        "tokenizer": "tokenizer.json",
        "start": START,
        "unknown": None,
        "max_tokens": POSITIONS,
    }
    assert {"config.json", "tokenizer.json", "model.safetensors"} <= set(manifest.source)
    model = LanguageModel(tmp_path / "models" / family, "cpu")
    numbers = load_text_tokenizer(checkpoint / "tokenizer.json").token_ids
    for text, outcome in zip(SENTENCES, model.compute_log_probabilities(SENTENCES), strict=True):
        tokens = model.tokenize(text)
        assert not isinstance(tokens, NoPerplexity) and isinstance(outcome, TextLogProbability)
        expected = weigh_with_transformers(checkpoint, [numbers[token] for token in tokens])
        assert math.exp(-outcome.log_probability / outcome.tokens) == pytest.approx(expected, rel=1e-4)


def test_sentencepiece_checkpoint_scores_like_transformers(make_checkpoint: Make, tmp_path: Path) -> None:
    pieces = load_text_tokenizer(EMBEDDED_LANGUAGE_MODEL_FOLDER / "tokenizer.model")
    checkpoint = make_checkpoint("llama", vocab_size=len(pieces.token_ids), bos_token_id=1)
    (checkpoint / "tokenizer.json").unlink()
    shutil.copyfile(EMBEDDED_LANGUAGE_MODEL_FOLDER / "tokenizer.model", checkpoint / "tokenizer.model")
    settings = make_language_model_folder(checkpoint, tmp_path / "models", "made", quantization="float32").settings
    assert (settings["tokenizer"], settings["start"], settings["unknown"]) == ("tokenizer.model", "<s>", "<unk>")
    model = LanguageModel(tmp_path / "models" / "made", "cpu")
    text = "Ada Lovelace's friend is 東京."
    tokens, outcome = model.tokenize(text), model.compute_log_probabilities([text])[0]
    assert not isinstance(tokens, NoPerplexity) and isinstance(outcome, TextLogProbability)
    assert "<0xE6>" in tokens, "characters without a token are spelled as bytes"
    expected = weigh_with_transformers(checkpoint, [pieces.token_ids[token] for token in tokens])
    assert math.exp(-outcome.log_probability / outcome.tokens) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("quantization", ["float16", "int8"])
def test_quantized_weights_score_close_to_float32_weights(
    make_checkpoint: Make, tmp_path: Path, quantization: Any
) -> None:
    checkpoint = make_checkpoint("llama", initializer_range=0.1)
    sizes, figures = [], []
    for kind in ("float32", quantization):
        sizes.append(make_language_model_folder(checkpoint, tmp_path / "models", kind, quantization=kind).size_bytes)
        figures.append(LanguageModel(tmp_path / "models" / kind, "cpu").compute_log_probabilities(SENTENCES[:1])[0])
    assert sizes[1] < sizes[0]
    exact, near = figures
    assert isinstance(exact, TextLogProbability) and isinstance(near, TextLogProbability)
    assert near.perplexity == pytest.approx(exact.perplexity, rel=0.05)


@pytest.mark.parametrize(
    ("file", "content", "start"),
    [
        (None, {}, START),
        ("tokenizer_config.json", {"bos_token": "A"}, "A"),
        ("tokenizer_config.json", {"bos_token": {"content": "B", "lstrip": False}}, "B"),
        ("tokenizer_config.json", {"bos_token": None}, START),
        ("special_tokens_map.json", {"bos_token": "C"}, "C"),
    ],
)
def test_tokenizer_files_take_precedence_over_config_for_start_token(
    make_checkpoint: Make, tmp_path: Path, file: str | None, content: dict[str, Any], start: str
) -> None:
    checkpoint = make_checkpoint()
    if file:
        (checkpoint / file).write_text(json.dumps(content), "utf-8")
    assert make_language_model_folder(checkpoint, tmp_path / "models").settings["start"] == start


def test_model_without_start_token_scores_from_second_token_on(make_checkpoint: Make, tmp_path: Path) -> None:
    checkpoint = make_checkpoint("qwen2", bos_token_id=None, eos_token_id=None)
    assert make_language_model_folder(checkpoint, tmp_path / "models").settings["start"] is None
    model = LanguageModel(tmp_path / "models" / "qwen2", "cpu")
    tokens, outcome = model.tokenize(SENTENCES[0]), model.compute_log_probabilities(SENTENCES[:1])[0]
    assert not isinstance(tokens, NoPerplexity) and isinstance(outcome, TextLogProbability)
    assert outcome.tokens == len(tokens) - 1


def refuse(given: Path, tmp_path: Path, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        make_language_model_folder(given, tmp_path / "models", "made")
    assert not (tmp_path / "models" / "made").exists()
    assert not (tmp_path / "models" / ".made.making").exists()


def test_unusable_checkpoint_is_rejected_by_name(tmp_path: Path) -> None:
    refuse(tmp_path / "nothing", tmp_path, "no such directory")
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    refuse(folder, tmp_path, r"no config\.json")
    (folder / "config.json").write_text("{", "utf-8")
    refuse(folder, tmp_path, r"config\.json: not JSON")
    (folder / "config.json").write_text('{"model_type": "gpt2"}', "utf-8")
    refuse(folder, tmp_path, r"neither tokenizer\.json nor tokenizer\.model, .*save_pretrained")
    (folder / "tokenizer.model").write_text("x", "utf-8")
    refuse(folder, tmp_path, r"tokenizer\.model: not a SentencePiece model")
    (folder / "tokenizer.json").write_text("{}", "utf-8")
    refuse(folder, tmp_path, r"tokenizer\.json: not a file of the tokenizers package")
    write_tokenizer(folder / "tokenizer.json")
    refuse(folder, tmp_path, "vocab_size is None")


def test_missing_extra_error_names_package_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    write_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": SIZE}), "utf-8")
    refuse(tmp_path, tmp_path, r"pip install 'factmill\[convert\]'")


def test_model_unsupported_by_ctranslate2_is_rejected(make_checkpoint: Make, tmp_path: Path) -> None:
    checkpoint = make_checkpoint()
    (checkpoint / "model.safetensors").unlink()
    refuse(checkpoint, tmp_path, "cannot be converted")
    config = {"model_type": "xglm", "vocab_size": SIZE}
    (checkpoint / "config.json").write_text(json.dumps(config), "utf-8")
    refuse(checkpoint, tmp_path, "cannot be converted.*XGLMConfig")


def test_invalid_start_token_is_rejected(make_checkpoint: Make, tmp_path: Path) -> None:
    checkpoint = make_checkpoint()
    (checkpoint / "tokenizer_config.json").write_text('{"bos_token": "<bos>"}', "utf-8")
    refuse(checkpoint, tmp_path, "the start token '<bos>' is not in the vocabulary")


def test_token_list_is_extended_or_truncated_to_size_of_weights(tmp_path: Path) -> None:
    tokens = write_tokenizer(tmp_path / "tokenizer.json")
    cutter = load_text_tokenizer(tmp_path / "tokenizer.json")
    more, fewer = list_decoder_tokens(cutter, len(tokens) + 2), list_decoder_tokens(cutter, len(tokens) - 2)
    assert more == [*tokens, f"madeupword{len(tokens)}", f"madeupword{len(tokens) + 1}"]
    assert fewer == tokens[:-2]


def test_ctranslate2_folder_is_imported(tmp_path: Path) -> None:
    made = write_random_decoder(tmp_path / "made")
    manifest = make_language_model_folder(made, tmp_path / "models", "taken")
    assert manifest.made_with == "converted before"
    assert manifest.settings == {
        "identity": "made",
        "tokenizer": "tokenizer.json",
        "start": START,
        "unknown": None,
        "max_tokens": POSITIONS,
    }
    rotary = make_language_model_folder(write_random_decoder(tmp_path / "rotary", rotary=True), tmp_path / "models")
    assert rotary.settings["max_tokens"] is None


def test_incomplete_ctranslate2_folder_is_rejected(tmp_path: Path) -> None:
    made = write_random_decoder(tmp_path / "from")
    tokens = json.loads((made / "vocabulary.json").read_text("utf-8"))
    (made / "vocabulary.json").write_text(json.dumps(tokens[::-1]), "utf-8")
    refuse(made, tmp_path, r"tokenizer\.json and vocabulary\.json do not belong together: token \d+ is")
    (made / "vocabulary.json").write_text("{}", "utf-8")
    refuse(made, tmp_path, "expected a list of tokens")
    (made / "vocabulary.json").unlink()
    refuse(made, tmp_path, r"no .*vocabulary\.json, which .* kind perplexity")
    write_random_decoder(made)
    (made / "tokenizer.json").unlink()
    refuse(made, tmp_path, r"neither tokenizer\.json nor")
    write_random_decoder(made)
    whole = (made / "model.bin").read_bytes()
    for some in (whole[:200], whole[:-200]):
        (made / "model.bin").write_bytes(some)
        refuse(made, tmp_path, r"model\.bin: not a model that CTranslate2 wrote")


def test_translator_is_rejected_as_language_model(tmp_path: Path) -> None:
    made = make_random_translator(tmp_path, width=32, heads=2, inner_width=64, layers=1)
    refuse(made, tmp_path, "of kind translator, expected perplexity")
    (made / MODEL_MANIFEST_FILE).unlink()
    (made / "shared_vocabulary.json").rename(made / "vocabulary.json")
    refuse(made, tmp_path, "of CTranslate2's kind TransformerSpec; a perplexity needs a causal language model")


def test_factmill_folder_is_imported_unchanged(tmp_path: Path) -> None:
    manifest = make_language_model_folder(EMBEDDED_LANGUAGE_MODEL_FOLDER, tmp_path / "models", "copy")
    assert manifest.digest == load_manifest_and_check_sizes(EMBEDDED_LANGUAGE_MODEL_FOLDER).digest
    texts = ["Ada Lovelace's place of birth is London."]
    copies = [
        LanguageModel(path, "cpu").compute_log_probabilities(texts)
        for path in (EMBEDDED_LANGUAGE_MODEL_FOLDER, tmp_path / "models" / "copy")
    ]
    assert copies[0] == copies[1]
