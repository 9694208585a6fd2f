"""Convert a causal language model from Hugging Face to CTranslate2, or copy one that CTranslate2 already converted.

Any decoder that CTranslate2 supports will do: GPT-2, Llama, Mistral, Qwen, Gemma, OPT, … checkpoints.py reads the
weights. The vocabulary comes from the checkpoint's tokenizer file, so that tokens and weights always match; tokens that
only the weights have get names that occur in no text.

A text is preceded by the start token (BOS) that the tokenizer's files name, else by that of config.json; if neither
names one, by nothing.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.checkpoints import (
    CTranslate2ConverterTokenizer,
    convert_weights_and_format_packages,
    list_weight_files,
    load_checkpoint_json,
    make_converted_model_folder,
    require_converted_files,
)
from factmill.tasks.models.converting.weights import (
    CTRANSLATE2_WEIGHTS_FILE,
    MappedWeights,
    Quantization,
    load_mapped_model_bin,
)
from factmill.tasks.models.model_folder import (
    ConversionManifestFields,
    ExistingModelPolicy,
    ModelManifest,
    copy_files,
    digest_existing_files,
)
from factmill.tasks.models.perplexity import (
    VOCABULARY_FILE,
    LanguageModelSettings,
    TextTokenizer,
    get_tokenizer_file,
    load_text_tokenizer,
)

_CONVERTED_DECODER_FILES = (CTRANSLATE2_WEIGHTS_FILE, "config.json", VOCABULARY_FILE)
_SPECIAL_TOKEN_FILES = ("tokenizer_config.json", "special_tokens_map.json")
"""Files of a checkpoint that name its special tokens."""
_POSITION_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len")
"""Keys of the number of positions in the config.json of different model families."""
_DECODER_SPEC, _POSITION_TABLE = "TransformerDecoderSpec", "decoder/position_encodings/encodings"


def make_language_model_folder(
    checkpoint: Path,
    folder: Path,
    name: str | None = None,
    if_there: ExistingModelPolicy = "refuse",
    quantization: Quantization = "float16",
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Takes a decoder's Hugging Face checkpoint (config.json, weights, tokenizer.json or a SentencePiece file), or a
    folder with CTranslate2's conversion of one and its tokenizer file. `quantization` is how weights are stored, int8
    in 7 bits (weights.py); a conversion in floats keeps its own. UsageError names what is missing or not supported, and
    what to do.
    """
    convert = partial(convert_decoder_checkpoint, quantization=quantization)
    return make_converted_model_folder(
        checkpoint, folder, name, "perplexity", if_there, convert, _check_and_copy_converted_decoder, quantization
    )


def convert_decoder_checkpoint(checkpoint: Path, making: Path, quantization: Quantization) -> ConversionManifestFields:
    """Write a checkpoint's conversion into an empty folder."""
    config = load_checkpoint_json(checkpoint / "config.json")
    config = config.get("text_config", config)
    cutter = load_text_tokenizer(get_tokenizer_file(checkpoint))
    tokens = list_decoder_tokens(cutter, config.get("vocab_size"))
    start, unknown = _find_start_token(checkpoint, config, tokens), cutter.unknown
    # CTranslate2 requires a token for each, and stores the names without using them here
    names = (start or unknown or tokens[0], start or unknown or tokens[0], unknown or "")
    made_with = convert_weights_and_format_packages(
        checkpoint, making, CTranslate2ConverterTokenizer(tokens, *names), quantization
    )
    header = load_mapped_model_bin(making / CTRANSLATE2_WEIGHTS_FILE)
    _require_decoder(checkpoint, header)
    copy_files(checkpoint, [cutter.path.name], making)
    settings = LanguageModelSettings(
        identity=checkpoint.name,
        tokenizer=cutter.path.name,
        start=start,
        unknown=unknown,
        max_tokens=_find_max_positions(header, config),
    )
    names_of_files = ("config.json", *_SPECIAL_TOKEN_FILES, cutter.path.name, *list_weight_files(checkpoint))
    return ConversionManifestFields(digest_existing_files(checkpoint, names_of_files), settings.model_dump(), made_with)


def list_decoder_tokens(tokenizer: TextTokenizer, size: int | None) -> list[str]:
    """Return a model's tokens in the order of their ids; `size`: how many the weights have.

    Some weights have more than the tokenizer, rounded up; some tokenizers have tokens that the weights lack.
    """
    if not isinstance(size, int) or size < 1:
        raise UsageError(f"{tokenizer.path.parent}/config.json: vocab_size is {size!r}; expected the number of tokens")
    tokens = [f"madeupword{number}" for number in range(size)]
    for token, number in tokenizer.token_ids.items():
        if number < size:
            tokens[number] = token
    if len(set(tokens)) < size:
        raise UsageError(f"{tokenizer.path}: two tokens have the same name, so the vocabulary is ambiguous")
    return tokens


def _require_decoder(path: Path, header: MappedWeights) -> None:
    if header.kind != _DECODER_SPEC:
        raise UsageError(
            f"{path}: its model is of CTranslate2's kind {header.kind}; a perplexity needs a causal language model "
            f"({_DECODER_SPEC}), such as GPT-2, Llama or Qwen"
        )


def _find_max_positions(header: MappedWeights, config: Mapping[str, Any]) -> int | None:
    """Return the smaller of the positions in config.json and in the position table; None if neither is given."""
    limits = [config[key] for key in _POSITION_KEYS if isinstance(config.get(key), int)]
    return min([*limits, *header.shapes.get(_POSITION_TABLE, ())[:1]], default=None)


def _find_start_token(checkpoint: Path, config: Mapping[str, Any], tokens: list[str]) -> str | None:
    """Return the token that precedes a text; None if no file names one."""
    for file in _SPECIAL_TOKEN_FILES:
        named = load_checkpoint_json(checkpoint / file, {}).get("bos_token")
        content = named.get("content") if isinstance(named, dict) else named
        if content is not None:
            if content not in tokens:
                raise UsageError(f"{checkpoint / file}: the start token {content!r} is not in the vocabulary")
            return str(content)
    number = config.get("bos_token_id")
    return tokens[number] if isinstance(number, int) and 0 <= number < len(tokens) else None


def _check_and_copy_converted_decoder(converted: Path, making: Path) -> ConversionManifestFields:
    """Check a folder that CTranslate2's own command made, and copy it."""
    require_converted_files(converted, _CONVERTED_DECODER_FILES, "perplexity")
    header = load_mapped_model_bin(converted / CTRANSLATE2_WEIGHTS_FILE)
    _require_decoder(converted, header)
    cutter = load_text_tokenizer(get_tokenizer_file(converted))
    tokens, config = load_checkpoint_json(converted / VOCABULARY_FILE), load_checkpoint_json(converted / "config.json")
    if not isinstance(tokens, list):
        raise UsageError(f"{converted / VOCABULARY_FILE}: expected a list of tokens, found {json.dumps(tokens)[:60]}")
    for token, number in cutter.token_ids.items():
        if number < len(tokens) and tokens[number] != token:
            raise UsageError(
                f"{converted}: {cutter.path.name} and {VOCABULARY_FILE} do not belong together: token {number} is {token!r} in "
                f"one and {tokens[number]!r} in the other; put the checkpoint's own file there"
            )
    start = config.get("bos_token")
    settings = LanguageModelSettings(
        identity=converted.name,
        tokenizer=cutter.path.name,
        start=start if start in tokens else None,
        unknown=cutter.unknown if cutter.unknown in tokens else None,
        max_tokens=_find_max_positions(header, config),
    )
    files = (*_CONVERTED_DECODER_FILES, cutter.path.name)
    copy_files(converted, files, making)
    return ConversionManifestFields(digest_existing_files(converted, files), settings.model_dump(), "converted before")
