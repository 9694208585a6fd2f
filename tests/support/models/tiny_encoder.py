"""Make a tiny sentence encoder with random weights: its checkpoint, and its embeddings by plain numpy."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("who", "wrote", "was", "born", "in", "the", "paris", "19", "##46", "##s", "?", "a", "river", "flows")
VOCABULARY = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)
WIDTH, INNER, HEADS, LAYERS, POSITIONS = 24, 40, 3, 2, 16

Weights = dict[str, np.ndarray[Any, Any]]


def make_weights(seed: int = 7, prefix: str = "") -> Weights:
    """Return the weights of a BERT of this file's sizes, under BERT's names."""
    random = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        "embeddings.position_embeddings.weight": (POSITIONS, WIDTH),
    }
    linear = {
        "attention.output.dense": (WIDTH, WIDTH),
        "intermediate.dense": (INNER, WIDTH),
        "output.dense": (WIDTH, INNER),
    }
    linear |= {f"attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")}
    norms = ["embeddings.LayerNorm"]
    for layer in range(LAYERS):
        norms += [f"encoder.layer.{layer}.{part}.LayerNorm" for part in ("attention.output", "output")]
        for name, (rows, columns) in linear.items():
            shapes[f"encoder.layer.{layer}.{name}.weight"] = (rows, columns)
            shapes[f"encoder.layer.{layer}.{name}.bias"] = (rows,)
    weights = {name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}
    for name in norms:
        weights[f"{name}.weight"] = random.normal(1, 0.2, WIDTH).astype(np.float32)
        weights[f"{name}.bias"] = random.normal(0, 0.2, WIDTH).astype(np.float32)
    return {prefix + name: values for name, values in weights.items()}


def make_head(labels: int, prefix: str = "bert.") -> Weights:
    """Return the weights of a classifier's head, under BERT's names, or RoBERTa's with another prefix."""
    random = np.random.default_rng(11)
    dense, out = (
        ("bert.pooler.dense", "classifier") if prefix == "bert." else ("classifier.dense", "classifier.out_proj")
    )
    shapes: dict[str, tuple[int, ...]] = {f"{dense}.weight": (WIDTH, WIDTH), f"{dense}.bias": (WIDTH,)}
    shapes |= {f"{out}.weight": (labels, WIDTH), f"{out}.bias": (labels,)}
    return {name: random.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def classify_by_numpy(
    tokens: list[int], types: list[int], weights: Weights, head: Weights, first_position: int = 0
) -> np.ndarray[Any, Any]:
    """Return the raw output of a classifier's head for a pair of texts, in float64."""
    state = encode_by_numpy(tokens, weights, first_position, types=types)[0]
    dense_weight, dense_bias, out_weight, out_bias = (values.astype(np.float64) for values in head.values())
    return out_weight @ np.tanh(dense_weight @ state + dense_bias) + out_bias


def embed_by_numpy(
    tokens: list[int], weights: Weights, first_position: int = 0, layers: int = LAYERS, heads: int = HEADS
) -> np.ndarray[Any, Any]:
    """Return the mean of the last layer's token vectors, of length 1, in float64."""
    mean = encode_by_numpy(tokens, weights, first_position, layers, heads).mean(axis=0)
    return mean / np.linalg.norm(mean)


def encode_by_numpy(
    tokens: list[int],
    weights: Weights,
    first_position: int = 0,
    layers: int = LAYERS,
    heads: int = HEADS,
    types: list[int] | None = None,
) -> np.ndarray[Any, Any]:
    """Return the last layer's token vectors (tokens × width) in float64; `types`: token types, 0 by default."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    width = w["embeddings.LayerNorm.weight"].size

    def norm(values: Any, name: str) -> Any:
        centred = values - values.mean(axis=-1, keepdims=True)
        return (
            centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12) * w[f"{name}.weight"]
            + w[f"{name}.bias"]
        )

    def linear(values: Any, name: str) -> Any:
        return values @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    positions = np.arange(len(tokens)) + first_position
    states = w["embeddings.word_embeddings.weight"][tokens] + w["embeddings.position_embeddings.weight"][positions]
    states = norm(
        states + w["embeddings.token_type_embeddings.weight"][types or [0] * len(tokens)], "embeddings.LayerNorm"
    )
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        query, key, value = (
            linear(states, f"{at}.attention.self.{part}").reshape(len(tokens), heads, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(width // heads))
        mixed = (scores / scores.sum(axis=-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(tokens), width)
        states = norm(states + linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        inner = linear(states, f"{at}.intermediate.dense")
        inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        states = norm(states + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    return states


def write_checkpoint(folder: Path, weights: Weights, dtype: str = "F32", **config: Any) -> Path:
    """Write a checkpoint in the layout of Hugging Face and sentence-transformers; return its folder."""
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    written = {
        "model_type": "bert",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": POSITIONS,
        "vocab_size": len(VOCABULARY),
        "type_vocab_size": 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        **config,
    }
    (folder / "config.json").write_text(json.dumps(written))
    (folder / "1_Pooling" / "config.json").write_text(
        '{"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}'
    )
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY))
    write_tensors(folder / "model.safetensors", weights, dtype)
    return folder


def write_tensors(path: Path, weights: Weights, dtype: str = "F32") -> None:
    """Write a safetensors file."""
    header, parts, place = {}, [], 0
    for name, values in weights.items():
        data = (values.view(np.uint32) >> 16).astype("<u2").tobytes() if dtype == "BF16" else values.tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [place, place + len(data)]}
        place += len(data)
        parts.append(data)
    packed = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(packed).to_bytes(8, "little") + packed + b"".join(parts))
