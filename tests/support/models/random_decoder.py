"""Make a causal language model with random weights, without torch: nonsense probabilities, but real computing."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

POSITIONS = 96
START = "<|start|>"
SENTENCES = [
    "Ada Lovelace's place of birth is London.",
    "Lord Byron is the father of Ada Lovelace.",
    "Charles Babbage was educated at Trinity College in Cambridge.",
    "The Analytical Engine was never built, and the notes on it are longer than the article.",
]


def train_tokenizer(texts: Iterable[str], vocabulary: int, special: Iterable[str] = (START,)) -> Any:
    """Return a GPT-2-style tokenizer that knows pieces of the texts' words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def write_tokenizer(path: Path, special: Iterable[str] = (START,)) -> list[str]:
    """Write a small tokenizer.json; return its tokens in the order of their numbers."""
    tokenizer = train_tokenizer(SENTENCES * 3, 340, special)
    tokenizer.save(str(path))
    numbers = tokenizer.get_vocab(with_added_tokens=True)
    return sorted(numbers, key=numbers.__getitem__)


def write_random_decoder(
    folder: Path,
    width: int = 32,
    heads: int = 2,
    layers: int = 2,
    rotary: bool = False,
    seed: int = 0,
    quantization: str = "float32",
) -> Path:
    """Write the output of CTranslate2's converter and a tokenizer.json, in the shape of GPT-2 or Llama."""
    from ctranslate2.specs import common_spec, transformer_spec

    folder.mkdir(parents=True, exist_ok=True)
    tokens = write_tokenizer(folder / "tokenizer.json")
    chance = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return chance.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def fill_linear(spec: Any, rows: int, columns: int) -> None:
        spec.weight = matrix(rows, columns)
        if not rotary:
            spec.bias = matrix(1, rows)[0]

    def fill_norm(spec: Any) -> None:
        spec.gamma = np.ones(width, np.float32)
        if not rotary:
            spec.beta = np.zeros(width, np.float32)

    shape: dict[str, Any] = {"activation": common_spec.Activation.GELUTanh}
    if rotary:
        shape = {"activation": common_spec.Activation.SWISH, "ffn_glu": True, "rms_norm": True,
                 "rotary_dim": 0, "rotary_interleave": False}  # fmt: skip
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(layers, heads, pre_norm=True, **shape)
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = matrix(len(tokens), width) * 4
    if not rotary:
        decoder.position_encodings.encodings = matrix(POSITIONS, width)
    fill_norm(decoder.layer_norm)
    for layer in decoder.layer:
        fill_norm(layer.self_attention.layer_norm)
        fill_norm(layer.ffn.layer_norm)
        fill_linear(layer.self_attention.linear[0], 3 * width, width)
        fill_linear(layer.self_attention.linear[1], width, width)
        fill_linear(layer.ffn.linear_0, 4 * width, width)
        if rotary:
            fill_linear(layer.ffn.linear_0_noact, 4 * width, width)
        fill_linear(layer.ffn.linear_1, width, 4 * width)
    decoder.projection.weight = matrix(len(tokens), width) * 4
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = START
    spec.register_vocabulary(tokens)
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))
    assert json.loads((folder / "vocabulary.json").read_text("utf-8")) == tokens
    return folder
