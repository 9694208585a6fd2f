"""Convert a cross-encoder of the BERT family from its Hugging Face checkpoint for CTranslate2, without torch.

The encoder is converted as a sentence encoder is (encoder.py), in float32; the head, which transformers calls
…ForSequenceClassification, goes into a file of its own. BERT keeps the first of its two layers in the encoder's pooler.
"""

from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tasks.errors import UsageError
from tasks.models.converting.checkpoints import open_checkpoint, read_json
from tasks.models.converting.encoder import WEIGHTS, Weights, convert_encoder, read_shape
from tasks.models.converting.tensor_file import Tensor, TensorFile
from tasks.models.cross_encoder import HEAD, CrossEncoderSettings
from tasks.models.model_folder import MANIFEST, IfThere, ModelManifest, Origin, copy_model, digest_files, store_model

_SOURCE = ("config.json", WEIGHTS, "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
"""Files of a checkpoint that a conversion reads, where they are there."""
_UNNAMED = {"0": "LABEL_0", "1": "LABEL_1"}
"""Labels of a config.json that names none: transformers leaves these out."""


def add_cross_encoder(
    checkpoint: Path, folder: Path, name: str | None = None, if_there: IfThere = "refuse"
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Needs config.json, model.safetensors, and tokenizer.json or vocab.txt; UsageError names what is missing or not
    supported. A folder that was converted before is copied as it is.
    """
    checkpoint = open_checkpoint(checkpoint)
    if (checkpoint / MANIFEST).is_file():
        copy = partial(copy_model, checkpoint, "cross-encoder")
        return store_model(name or checkpoint.name, folder, "cross-encoder", copy, if_there)
    config = read_json(checkpoint / "config.json")
    shape, labels = read_shape(checkpoint, config), _read_labels(checkpoint, config)
    activation = _read_activation(checkpoint, config, len(labels))
    is_bert = config["model_type"] == "bert"

    def write(making: Path) -> Origin:
        max_tokens, made_with = convert_encoder(checkpoint, shape, making)
        head: dict[str, Any] = _read_head(TensorFile(checkpoint / WEIGHTS), shape.width, len(labels), is_bert)
        np.savez(making / HEAD, **head)
        # the tokenizers of RoBERTa and its kin tell no types, whatever their tokenizer.json says
        is_typed = is_bert and shape.token_types > 1
        settings = CrossEncoderSettings(labels=labels, activation=activation, is_typed=is_typed, max_tokens=max_tokens)
        return Origin(digest_files(checkpoint, _SOURCE), settings.model_dump(), made_with)

    return store_model(name or checkpoint.name, folder, "cross-encoder", write, if_there)


def _read_labels(checkpoint: Path, config: dict[str, Any]) -> list[str]:
    """Return the names of the head's outputs in their order."""
    named = config.get("id2label") or _UNNAMED
    labels = [named.get(str(number)) for number in range(len(named))]
    if None in labels:
        raise UsageError(
            f"{checkpoint / 'config.json'}: id2label names {', '.join(named)}; expected the numbers from 0 on"
        )
    return [str(label) for label in labels]


def _read_activation(checkpoint: Path, config: dict[str, Any], labels: int) -> Literal["softmax", "sigmoid", "none"]:
    """Return what makes scores of the head's outputs, as transformers and sentence-transformers do."""
    kind = config.get("problem_type")
    if labels > 1:
        if kind not in (None, "single_label_classification"):
            raise UsageError(
                f"{checkpoint / 'config.json'}: problem_type {kind} of {labels} labels; expected labels of which one "
                "holds, or one score"
            )
        return "softmax"
    own = config.get("sentence_transformers") or {}
    named = own.get("activation_fn") or config.get("sbert_ce_default_activation_function")
    named = named or ("Identity" if kind == "regression" else "Sigmoid")
    if (last := named.rsplit(".", 1)[-1]) not in ("Identity", "Sigmoid"):
        raise UsageError(f"{checkpoint / 'config.json'}: the score goes through {named}; expected: Sigmoid, Identity")
    return "sigmoid" if last == "Sigmoid" else "none"


def _read_head(tensors: TensorFile, width: int, labels: int, is_bert: bool) -> dict[str, Tensor]:
    """Return the two layers of the head (cross_encoder.HEAD)."""
    read = Weights(tensors).read if is_bert else lambda name, *shape: tensors.read(name, shape)
    dense, out = ("pooler.dense", "classifier") if is_bert else ("classifier.dense", "classifier.out_proj")
    return {
        "dense_weight": read(f"{dense}.weight", width, width),
        "dense_bias": read(f"{dense}.bias", width),
        "out_weight": tensors.read(f"{out}.weight", (labels, width)),
        "out_bias": tensors.read(f"{out}.bias", (labels,)),
    }
