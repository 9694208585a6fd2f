"""Convert a sentence encoder of the BERT family from its Hugging Face checkpoint for CTranslate2, without torch.

The weights go from the safetensors file into CTranslate2's encoder specification as they are, in float32: in int8 the
embeddings of all-MiniLM-L6-v2 keep a cosine of 0.989 with their own, which is below the 0.99 at which MultiHal unites
two questions (paper §2.1). What would come out as something else than the checkpoint means is refused by name.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tasks.errors import UsageError
from tasks.models.converting.checkpoints import open_checkpoint, read_json
from tasks.models.converting.tensor_file import Tensor, TensorFile
from tasks.models.converting.tokenizer_file import convert_tokenizer
from tasks.models.model_folder import MANIFEST, IfThere, ModelManifest, Origin, copy_model, digest_files, store_model

if TYPE_CHECKING:
    from ctranslate2.specs.common_spec import LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import TransformerEncoderModelSpec

WEIGHTS = "model.safetensors"

_SOURCE = (
    "config.json",
    WEIGHTS,
    "1_Pooling/config.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)
"""Files of a checkpoint that a conversion reads, where they are there."""

_ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_new": "GELUTanh",
    "gelu_pytorch_tanh": "GELUTanh",
    "relu": "RELU",
    "silu": "SWISH",
    "swish": "SWISH",
}
_ARCHITECTURES = ("bert", "roberta", "xlm-roberta", "camembert")
_POOLINGS = {"cls_token": "cls", "mean_tokens": "mean"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What config.json says of the encoder."""

    layers: int
    heads: int
    width: int
    inner_width: int
    vocabulary: int
    token_types: int
    positions: int
    first_position: int
    """Row of the position embeddings that the first token gets: RoBERTa counts from the padding's id on."""
    activation: str
    epsilon: float


def add_embedder(
    checkpoint: Path,
    folder: Path,
    name: str | None = None,
    if_there: IfThere = "refuse",
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Needs config.json, model.safetensors, 1_Pooling/config.json (mean or cls), and tokenizer.json or vocab.txt;
    UsageError names what is missing or not supported. A folder that was converted before is copied as it is.
    """
    checkpoint = open_checkpoint(checkpoint)
    if (checkpoint / MANIFEST).is_file():
        copy = partial(copy_model, checkpoint, "embedder")
        return store_model(name or checkpoint.name, folder, "embedder", copy, if_there)
    config = read_json(checkpoint / "config.json")
    shape = read_shape(checkpoint, config)
    pooling = _read_pooling(checkpoint, shape.width)
    prompts = read_json(checkpoint / "config_sentence_transformers.json", {})
    if prompts.get("default_prompt_name"):
        raise UsageError(
            f"{checkpoint}: puts the prompt {prompts['default_prompt_name']!r} before every text; give an encoder without"
        )

    def write(making: Path) -> Origin:
        max_tokens, made_with = convert_encoder(checkpoint, shape, making)
        settings = {"dimensions": shape.width, "pooling": pooling, "normalised": True, "max_tokens": max_tokens}
        return Origin(digest_files(checkpoint, _SOURCE), settings, made_with)

    return store_model(name or checkpoint.name, folder, "embedder", write, if_there)


def convert_encoder(checkpoint: Path, shape: Shape, making: Path) -> tuple[int, str]:
    """Write tokenizer.json and CTranslate2's files of a checkpoint's encoder into an empty folder.

    Returns how many tokens of a text are read, and what made the files. A head on top is not looked at.
    """
    import ctranslate2

    tokenizer = convert_tokenizer(checkpoint, shape.positions - shape.first_position, shape.vocabulary)
    (making / "tokenizer.json").write_text(tokenizer.content, "utf-8")
    spec = _fill_model(TensorFile(checkpoint / WEIGHTS), shape)
    spec.config.layer_norm_epsilon = shape.epsilon
    spec.config.unk_token = tokenizer.unknown
    spec.register_vocabulary(tokenizer.vocabulary)
    spec.validate()
    spec.optimize("float32")
    spec.save(str(making))
    return tokenizer.max_tokens, f"ctranslate2 {ctranslate2.__version__}"


def read_shape(checkpoint: Path, config: dict[str, Any]) -> Shape:
    """Return what config.json says; UsageError when the architecture is another than BERT's."""
    architecture = config.get("model_type")
    if architecture not in _ARCHITECTURES:
        raise UsageError(
            f"{checkpoint / 'config.json'}: model_type is {architecture!r}; can be converted: {', '.join(_ARCHITECTURES)}"
        )
    if not (checkpoint / WEIGHTS).is_file():
        other = " (pytorch_model.bin is there: save the model anew as safetensors)"
        raise UsageError(f"{checkpoint}: no {WEIGHTS}{other if (checkpoint / 'pytorch_model.bin').is_file() else ''}")
    positions, activation = config.get("position_embedding_type", "absolute"), config.get("hidden_act", "gelu")
    if positions != "absolute" or activation not in _ACTIVATIONS or config.get("is_decoder"):
        raise UsageError(
            f"{checkpoint / 'config.json'}: position_embedding_type {positions!r}, hidden_act {activation!r}, is_decoder "
            f"{config.get('is_decoder', False)}; expected: absolute, one of {', '.join(_ACTIVATIONS)}, false"
        )
    try:
        return Shape(
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            width=config["hidden_size"],
            inner_width=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            token_types=config.get("type_vocab_size", 2),
            positions=config["max_position_embeddings"],
            first_position=0 if architecture == "bert" else config.get("pad_token_id", 1) + 1,
            activation=activation,
            epsilon=config.get("layer_norm_eps", 1e-12),
        )
    except KeyError as error:
        raise UsageError(f"{checkpoint / 'config.json'}: no {error}, expected of a {architecture} encoder") from error


def _read_pooling(checkpoint: Path, width: int) -> Literal["mean", "cls"]:
    """Return how token vectors become one; UsageError when it is not by mean or the first token alone."""
    for module in read_json(checkpoint / "modules.json", []):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UsageError(f"{checkpoint / 'modules.json'}: a {kind} module, which cannot be converted")
    config = read_json(checkpoint / "1_Pooling/config.json")
    # older checkpoints have a flag for each way of pooling, newer ones the way itself
    chosen = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    ways = {_POOLINGS.get(key.removeprefix("pooling_mode_"), key) for key in chosen} or {config.get("pooling_mode")}
    size = config.get("word_embedding_dimension", config.get("embedding_dimension", width))
    if ways not in ({"mean"}, {"cls"}) or size != width:
        told = ", ".join(sorted(map(str, ways)))
        raise UsageError(
            f"{checkpoint / '1_Pooling/config.json'}: pooling {told} of {size} dimensions; expected: mean or cls of {width}"
        )
    return "mean" if ways == {"mean"} else "cls"


def _fill_model(tensors: TensorFile, shape: Shape) -> "TransformerEncoderModelSpec":
    """Return the specification of a post-norm encoder with the checkpoint's weights."""
    from ctranslate2.specs import common_spec, transformer_spec

    weights = Weights(tensors)
    encoder = transformer_spec.TransformerEncoderSpec(
        shape.layers,
        shape.heads,
        pre_norm=False,
        activation=common_spec.Activation[_ACTIVATIONS[shape.activation]],
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    encoder.scale_embeddings = False
    width, inner = shape.width, shape.inner_width
    words, types = encoder.embeddings
    words.weight = weights.read("embeddings.word_embeddings.weight", shape.vocabulary, width)
    types.weight = weights.read("embeddings.token_type_embeddings.weight", shape.token_types, width)
    positions = weights.read("embeddings.position_embeddings.weight", shape.positions, width)
    encoder.position_encodings.encodings = positions[shape.first_position :]
    weights.fill_norm(encoder.layernorm_embedding, "embeddings.LayerNorm", width)
    for number, layer in enumerate(encoder.layer):
        at = f"encoder.layer.{number}"
        attention = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        weights.fill_linear(layer.self_attention.linear[0], attention, width, width)
        weights.fill_linear(layer.self_attention.linear[1], [f"{at}.attention.output.dense"], width, width)
        weights.fill_norm(layer.self_attention.layer_norm, f"{at}.attention.output.LayerNorm", width)
        weights.fill_linear(layer.ffn.linear_0, [f"{at}.intermediate.dense"], inner, width)
        weights.fill_linear(layer.ffn.linear_1, [f"{at}.output.dense"], width, inner)
        weights.fill_norm(layer.ffn.layer_norm, f"{at}.output.LayerNorm", width)
    return transformer_spec.TransformerEncoderModelSpec(encoder)


class Weights:
    """Tensors by BERT's own names, whatever a checkpoint puts before them (bert., roberta.)."""

    def __init__(self, tensors: TensorFile) -> None:
        self._tensors = tensors
        self._names = set(tensors.names())
        anchor = "embeddings.word_embeddings.weight"
        self._prefix = next((name.removesuffix(anchor) for name in self._names if name.endswith(anchor)), "")

    def read(self, name: str, *shape: int) -> Tensor:
        """Return a tensor of the encoder; UsageError says what is wrong with it."""
        return self._tensors.read(self._prefix + name, shape)

    def fill_linear(self, spec: "LinearSpec", names: list[str], rows: int, columns: int) -> None:
        """Set a linear layer's weights, several layers one below the other."""
        spec.weight = np.concatenate([self.read(f"{name}.weight", rows, columns) for name in names])
        spec.bias = np.concatenate([self.read(f"{name}.bias", rows) for name in names])

    def fill_norm(self, spec: "LayerNormSpec", name: str, width: int) -> None:
        """Set the scale and shift of a normalisation."""
        # checkpoints that came from TensorFlow call them gamma and beta
        is_old = f"{self._prefix}{name}.gamma" in self._names
        spec.gamma = self.read(f"{name}.{'gamma' if is_old else 'weight'}", width)
        spec.beta = self.read(f"{name}.{'beta' if is_old else 'bias'}", width)
