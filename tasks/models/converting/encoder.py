"""Convert Hugging Face checkpoints of BERT-family encoders, with their tokenizers, to CTranslate2, without torch.

The weights go unchanged from the safetensors file into CTranslate2's encoder specification, in float32: int8 embeddings
of all-MiniLM-L6-v2 have a cosine of 0.989 with the original ones, below the 0.99 at which MultiHal merges two questions
(paper §2.1). A checkpoint whose meaning the conversion would change is refused, with the setting named.

A cross-encoder is converted like a sentence encoder; its head (…ForSequenceClassification in transformers) goes into a
separate file. BERT has the first of the head's two layers in the encoder's pooler.

Tokenizers are read and written with the `tokenizers` package, which transformers' own use too; transformers itself,
many times as large and slower to import, would add nothing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.checkpoints import (
    SafetensorsFile,
    Tensor,
    load_checkpoint_json,
    make_converted_model_folder,
)
from factmill.tasks.models.cross_encoder import HEAD_FILE, CrossEncoderSettings
from factmill.tasks.models.model_folder import (
    ConversionManifestFields,
    ExistingModelPolicy,
    ModelManifest,
    digest_existing_files,
)

if TYPE_CHECKING:
    from ctranslate2.specs.common_spec import LayerNormSpec, LinearSpec
    from ctranslate2.specs.transformer_spec import TransformerEncoderModelSpec

SAFETENSORS_FILE = "model.safetensors"
_ENCODER_SOURCE_FILES = (
    "config.json",
    SAFETENSORS_FILE,
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)
"""Files of a checkpoint that a conversion reads if they exist; for a sentence encoder also _POOLING."""
_POOLING_FILES = ("1_Pooling/config.json", "modules.json")
_ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_new": "GELUTanh",
    "gelu_pytorch_tanh": "GELUTanh",
    "relu": "RELU",
    "silu": "SWISH",
    "swish": "SWISH",
}
_ARCHITECTURES = ("bert", "roberta", "xlm-roberta", "camembert")
_DEFAULT_LABELS = {"0": "LABEL_0", "1": "LABEL_1"}
"""Labels of a config.json that names none: transformers omits these defaults."""


@dataclass(frozen=True, slots=True)
class EncoderTokenizerJson:
    """A tokenizer.json with the data that the encoder needs."""

    content: str
    vocabulary: list[str]
    """Token of each row of the word embeddings; rows without one are named <unused_N>."""
    unknown: str
    max_tokens: int
    """Most tokens of a text, special ones included; the rest is cut off."""


@dataclass(frozen=True, slots=True)
class EncoderShape:
    """The encoder's architecture and sizes from config.json."""

    architecture: str
    layers: int
    heads: int
    width: int
    inner_width: int
    vocabulary: int
    token_types: int
    positions: int
    first_position: int
    """Row of the position embeddings for the first token: RoBERTa counts from the row after the padding's id."""
    activation: str
    epsilon: float


def make_embedder_folder(
    checkpoint: Path, folder: Path, name: str | None = None, if_there: ExistingModelPolicy = "refuse"
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Needs config.json, model.safetensors, 1_Pooling/config.json (mean or cls), and tokenizer.json or vocab.txt;
    UsageError names what is missing or not supported. An already converted folder is copied unchanged.
    """

    def convert(checkpoint: Path, making: Path) -> ConversionManifestFields:
        shape = _parse_encoder_shape(checkpoint, load_checkpoint_json(checkpoint / "config.json"))
        pooling = _load_pooling_mode(checkpoint, shape.width)
        prompts = load_checkpoint_json(checkpoint / "config_sentence_transformers.json", {})
        if prompts.get("default_prompt_name"):
            raise UsageError(
                f"{checkpoint}: it puts the prompt {prompts['default_prompt_name']!r} before every text; give an encoder without a default prompt"
            )
        max_tokens, made_with = _write_encoder_get_limit_and_converter(checkpoint, shape, making)
        settings = {"dimensions": shape.width, "pooling": pooling, "normalised": True, "max_tokens": max_tokens}
        files = digest_existing_files(checkpoint, (*_ENCODER_SOURCE_FILES, *_POOLING_FILES))
        return ConversionManifestFields(files, settings, made_with)

    return make_converted_model_folder(checkpoint, folder, name, "embedder", if_there, convert)


def make_cross_encoder_folder(
    checkpoint: Path, folder: Path, name: str | None = None, if_there: ExistingModelPolicy = "refuse"
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Needs config.json, model.safetensors, and tokenizer.json or vocab.txt; UsageError names what is missing or not
    supported. An already converted folder is copied unchanged.
    """

    def convert(checkpoint: Path, making: Path) -> ConversionManifestFields:
        config = load_checkpoint_json(checkpoint / "config.json")
        shape = _parse_encoder_shape(checkpoint, config)
        is_bert = shape.architecture == "bert"
        named = config.get("id2label") or _DEFAULT_LABELS
        labels = [named.get(str(number)) for number in range(len(named))]
        if None in labels:
            raise UsageError(
                f"{checkpoint / 'config.json'}: id2label has the keys {', '.join(named)}; expected consecutive numbers from 0"
            )
        activation = _parse_score_activation(checkpoint, config, len(labels))
        max_tokens, made_with = _write_encoder_get_limit_and_converter(checkpoint, shape, making)
        tensors = SafetensorsFile(checkpoint / SAFETENSORS_FILE)
        head: dict[str, Any] = _load_head_tensors(tensors, shape.width, len(labels), is_bert)
        np.savez(making / HEAD_FILE, **head)
        settings = CrossEncoderSettings(
            labels=[str(label) for label in labels],
            activation=activation,
            # RoBERTa-like encoders use no token types, whatever their tokenizer.json says
            is_typed=is_bert and shape.token_types > 1,
            max_tokens=max_tokens,
        )
        files = digest_existing_files(checkpoint, _ENCODER_SOURCE_FILES)
        return ConversionManifestFields(files, settings.model_dump(), made_with)

    return make_converted_model_folder(checkpoint, folder, name, "cross-encoder", if_there, convert)


def _parse_encoder_shape(checkpoint: Path, config: dict[str, Any]) -> EncoderShape:
    """Read the encoder's shape from config.json; UsageError if the architecture is not of the BERT family."""
    path, architecture = checkpoint / "config.json", config.get("model_type")
    if architecture not in _ARCHITECTURES:
        raise UsageError(f"{path}: model_type is {architecture!r}; expected one of: {', '.join(_ARCHITECTURES)}")
    if not (checkpoint / SAFETENSORS_FILE).is_file():
        other = " (there is a pytorch_model.bin: save the model as safetensors)"
        raise UsageError(
            f"{checkpoint}: no {SAFETENSORS_FILE}{other if (checkpoint / 'pytorch_model.bin').is_file() else ''}"
        )
    positions, activation = config.get("position_embedding_type", "absolute"), config.get("hidden_act", "gelu")
    if positions != "absolute" or activation not in _ACTIVATIONS or config.get("is_decoder"):
        raise UsageError(
            f"{path}: position_embedding_type {positions!r}, hidden_act {activation!r}, is_decoder "
            f"{config.get('is_decoder', False)}; expected: absolute, one of {', '.join(_ACTIVATIONS)}, false"
        )
    try:
        return EncoderShape(
            architecture=architecture,
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
        raise UsageError(f"{path}: no {error}, which a {architecture} encoder needs") from error


def _load_pooling_mode(checkpoint: Path, width: int) -> Literal["mean", "cls"]:
    """Return how token vectors are pooled into one; UsageError unless by mean or by the first token."""
    for module in load_checkpoint_json(checkpoint / "modules.json", []):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UsageError(f"{checkpoint / 'modules.json'}: cannot convert a {kind} module")
    config = load_checkpoint_json(checkpoint / "1_Pooling/config.json")
    # older checkpoints have a flag for each pooling mode, newer ones the mode itself
    chosen = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    known = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    ways = {known.get(key, key) for key in chosen} or {config.get("pooling_mode")}
    size = config.get("word_embedding_dimension", config.get("embedding_dimension", width))
    if ways not in ({"mean"}, {"cls"}) or size != width:
        found = ", ".join(sorted(map(str, ways)))
        raise UsageError(
            f"{checkpoint / '1_Pooling/config.json'}: pooling {found} of {size} dimensions; expected mean or cls of {width}"
        )
    return "mean" if ways == {"mean"} else "cls"


def _parse_score_activation(
    checkpoint: Path, config: dict[str, Any], labels: int
) -> Literal["softmax", "sigmoid", "none"]:
    """Return the activation for the head's outputs that transformers and sentence-transformers use."""
    kind = config.get("problem_type")
    if labels > 1:
        if kind not in (None, "single_label_classification"):
            raise UsageError(
                f"{checkpoint / 'config.json'}: problem_type {kind} of {labels} labels; expected "
                "single_label_classification, or one score"
            )
        return "softmax"
    own = config.get("sentence_transformers") or {}
    named = own.get("activation_fn") or config.get("sbert_ce_default_activation_function")
    named = named or ("Identity" if kind == "regression" else "Sigmoid")
    if (last := named.rsplit(".", 1)[-1]) not in ("Identity", "Sigmoid"):
        raise UsageError(
            f"{checkpoint / 'config.json'}: the activation of the score is {named}; expected Sigmoid or Identity"
        )
    return "sigmoid" if last == "Sigmoid" else "none"


def load_encoder_tokenizer(checkpoint: Path, positions: int, vocabulary: int) -> EncoderTokenizerJson:
    """Read a checkpoint's tokenizer.json or vocab.txt for an encoder's numbers of positions and word embeddings.

    As in sentence-transformers, texts are cut at max_seq_length of sentence_bert_config.json, else at model_max_length
    of tokenizer_config.json, whatever tokenizer.json itself says.
    """
    from tokenizers import BertWordPieceTokenizer, Tokenizer
    from tokenizers.normalizers import Lowercase, Sequence

    options = load_checkpoint_json(checkpoint / "tokenizer_config.json", {})
    more = load_checkpoint_json(checkpoint / "sentence_bert_config.json", {})
    tokenizer_file, vocabulary_file = checkpoint / "tokenizer.json", checkpoint / "vocab.txt"
    if tokenizer_file.is_file():
        try:
            tokenizer = Tokenizer.from_file(str(tokenizer_file))
        except Exception as error:  # the package raises nothing narrower
            raise UsageError(f"{tokenizer_file}: not a file of the tokenizers package: {error}") from error
    elif vocabulary_file.is_file():
        opened = BertWordPieceTokenizer(
            str(vocabulary_file),
            lowercase=options.get("do_lower_case", True),
            strip_accents=options.get("strip_accents"),
            handle_chinese_chars=options.get("tokenize_chinese_chars", True),
        )
        tokenizer = Tokenizer.from_str(opened.to_str())
    else:
        raise UsageError(f"{checkpoint}: neither tokenizer.json nor vocab.txt, so it is not an encoder's checkpoint")
    max_tokens = min(positions, int(more.get("max_seq_length") or options.get("model_max_length") or positions))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    if more.get("do_lower_case"):
        first = [Lowercase()]
        tokenizer.normalizer = Sequence([*first, tokenizer.normalizer] if tokenizer.normalizer else first)
    names = {place: token for token, place in tokenizer.get_vocab().items()}
    if names and max(names) >= vocabulary:
        raise UsageError(
            f"{checkpoint}: the tokenizer has {max(names) + 1:,} tokens, the encoder {vocabulary:,}, so "
            "they do not belong together"
        )
    unknown = options.get("unk_token", "[UNK]")
    return EncoderTokenizerJson(
        content=tokenizer.to_str(),
        vocabulary=[names.get(place, f"<unused_{place}>") for place in range(vocabulary)],
        unknown=unknown["content"] if isinstance(unknown, dict) else unknown,
        max_tokens=max_tokens,
    )


def _write_encoder_get_limit_and_converter(checkpoint: Path, shape: EncoderShape, making: Path) -> tuple[int, str]:
    """Write tokenizer.json and CTranslate2's files of a checkpoint's encoder into an empty folder.

    Returns the most tokens of a text, and the package that made the files. Ignores a head on top.
    """
    import ctranslate2

    tokenizer = load_encoder_tokenizer(checkpoint, shape.positions - shape.first_position, shape.vocabulary)
    (making / "tokenizer.json").write_text(tokenizer.content, "utf-8")
    spec = _make_encoder_spec(_BertTensorsByUnprefixedName(SafetensorsFile(checkpoint / SAFETENSORS_FILE)), shape)
    spec.config.layer_norm_epsilon = shape.epsilon
    spec.config.unk_token = tokenizer.unknown
    spec.register_vocabulary(tokenizer.vocabulary)
    spec.validate()
    spec.optimize("float32")
    spec.save(str(making))
    return tokenizer.max_tokens, f"ctranslate2 {ctranslate2.__version__}"


class _BertTensorsByUnprefixedName:
    """Tensors by BERT's own names, whatever prefix a checkpoint gives them (bert., roberta.)."""

    def __init__(self, tensors: SafetensorsFile) -> None:
        self._tensors = tensors
        anchor = "embeddings.word_embeddings.weight"
        self._prefix = next((name.removesuffix(anchor) for name in tensors.entries if name.endswith(anchor)), "")

    def read(self, name: str, *shape: int) -> Tensor:
        return self._tensors.read(self._prefix + name, shape)

    def fill_linear(self, spec: "LinearSpec", names: list[str], rows: int, columns: int) -> None:
        """Set a linear layer's weights and biases; several layers are stacked along the rows."""
        spec.weight = np.concatenate([self.read(f"{name}.weight", rows, columns) for name in names])
        spec.bias = np.concatenate([self.read(f"{name}.bias", rows) for name in names])

    def fill_norm(self, spec: "LayerNormSpec", name: str, width: int) -> None:
        # checkpoints from TensorFlow call them gamma and beta
        is_old = f"{self._prefix}{name}.gamma" in self._tensors.entries
        spec.gamma = self.read(f"{name}.{'gamma' if is_old else 'weight'}", width)
        spec.beta = self.read(f"{name}.{'beta' if is_old else 'bias'}", width)


def _make_encoder_spec(weights: _BertTensorsByUnprefixedName, shape: EncoderShape) -> "TransformerEncoderModelSpec":
    """Make CTranslate2's specification of a post-norm encoder with the checkpoint's weights."""
    from ctranslate2.specs import common_spec, transformer_spec

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


def _load_head_tensors(tensors: SafetensorsFile, width: int, labels: int, is_bert: bool) -> dict[str, Tensor]:
    """Read the arrays of the head's two layers (cross_encoder.HEAD)."""
    read = _BertTensorsByUnprefixedName(tensors).read if is_bert else lambda name, *shape: tensors.read(name, shape)
    dense, out = ("pooler.dense", "classifier") if is_bert else ("classifier.dense", "classifier.out_proj")
    return {
        "dense_weight": read(f"{dense}.weight", width, width),
        "dense_bias": read(f"{dense}.bias", width),
        "out_weight": tensors.read(f"{out}.weight", (labels, width)),
        "out_bias": tensors.read(f"{out}.bias", (labels,)),
    }
