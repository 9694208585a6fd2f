"""Make an NLLB-shaped translator with random weights, without torch: its output is nonsense, its computing is real."""

import json
import shutil
from pathlib import Path

import numpy as np

from factmill.tasks.models.model_folder import ConversionManifestFields, write_model_folder
from factmill.tasks.models.translator import EMBEDDED_TRANSLATOR_FOLDER, NLLB_SENTENCEPIECE_FILE, TranslatorSettings
from factmill.tasks.text.translating.translation import NLLB_LANGUAGE_CODES

POSITIONS = 128


def make_random_translator(folder: Path, width: int, heads: int, inner_width: int, layers: int, seed: int = 0) -> Path:
    """Write a model with the embedded translator's vocabulary; return its folder."""
    from ctranslate2.specs import common_spec, transformer_spec

    chance = np.random.default_rng(seed)
    tokens = json.loads((EMBEDDED_TRANSLATOR_FOLDER / "shared_vocabulary.json").read_text("utf-8"))

    def matrix(rows: int, columns: int) -> np.ndarray:
        return chance.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def fill_linear(spec: common_spec.LinearSpec, rows: int, columns: int) -> None:
        spec.weight, spec.bias = matrix(rows, columns), np.zeros(rows, np.float32)

    def fill_norm(spec: common_spec.LayerNormSpec) -> None:
        spec.gamma, spec.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

    def fill_layer(layer: transformer_spec.TransformerEncoderLayerSpec) -> None:
        for name in ("self_attention", "attention"):
            if attention := getattr(layer, name, None):
                sizes = [3 * width, width] if name == "self_attention" else [width, 2 * width, width]
                for linear, rows in zip(attention.linear, sizes, strict=True):
                    fill_linear(linear, rows, width)
                fill_norm(attention.layer_norm)
        fill_linear(layer.ffn.linear_0, inner_width, width)
        fill_linear(layer.ffn.linear_1, width, inner_width)
        fill_norm(layer.ffn.layer_norm)

    spec = transformer_spec.TransformerSpec.from_config(
        (layers, layers), heads, pre_norm=True, activation=common_spec.Activation.RELU
    )
    embeddings = matrix(len(tokens), width)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = np.dtype("float32").type(width**0.5)
        side.position_encodings.encodings = matrix(POSITIONS, width)
        fill_norm(side.layer_norm)
        for layer in side.layer:
            fill_layer(layer)
    spec.encoder.embeddings[0].weight = embeddings
    spec.decoder.embeddings.weight = embeddings
    spec.decoder.projection.weight, spec.decoder.projection.bias = embeddings, np.zeros(len(tokens), np.float32)
    spec.config.decoder_start_token = "</s>"
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)

    def write(making: Path) -> ConversionManifestFields:
        spec.validate()
        spec.optimize("float32")
        spec.save(str(making))
        shutil.copyfile(EMBEDDED_TRANSLATOR_FOLDER / NLLB_SENTENCEPIECE_FILE, making / NLLB_SENTENCEPIECE_FILE)
        settings = TranslatorSettings(
            identity=f"random-{width}", codes=NLLB_LANGUAGE_CODES, code_first=True, max_tokens=POSITIONS
        )
        return ConversionManifestFields({}, settings.model_dump(), "random weights")

    write_model_folder(f"random-{width}", folder, "translator", write)
    return folder / f"random-{width}"
