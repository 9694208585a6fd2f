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
    Vocabulary,
    convert_weights,
    list_weights,
    read_json,
    refuse_missing,
    store_conversion,
)
from factmill.tasks.models.converting.weights import WEIGHTS, Header, Quantization, read_header
from factmill.tasks.models.model_folder import IfThere, ModelManifest, Origin, copy_files, digest_files
from factmill.tasks.models.perplexity import VOCABULARY, PerplexitySettings, TokenCutter, find_tokenizer, open_cutter

_CONVERTED = (WEIGHTS, "config.json", VOCABULARY)
_NAMING = ("tokenizer_config.json", "special_tokens_map.json")
"""Files of a checkpoint that name its special tokens."""
_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "seq_length", "max_seq_len")
"""Keys of the number of positions in the config.json of different model families."""
_DECODER, _TABLE = "TransformerDecoderSpec", "decoder/position_encodings/encodings"


def add_perplexity(
    checkpoint: Path,
    folder: Path,
    name: str | None = None,
    if_there: IfThere = "refuse",
    quantization: Quantization = "float16",
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Takes a decoder's Hugging Face checkpoint (config.json, weights, tokenizer.json or a SentencePiece file), or a
    folder with CTranslate2's conversion of one and its tokenizer file. `quantization` is how weights are stored, int8
    in 7 bits (weights.py); a conversion in floats keeps its own. UsageError names what is missing or not supported, and
    what to do.
    """
    convert = partial(convert_checkpoint, quantization=quantization)
    return store_conversion(checkpoint, folder, name, "perplexity", if_there, convert, _take_in, quantization)


def convert_checkpoint(checkpoint: Path, making: Path, quantization: Quantization) -> Origin:
    """Write a checkpoint's conversion into an empty folder."""
    config = read_json(checkpoint / "config.json")
    config = config.get("text_config", config)
    cutter = open_cutter(find_tokenizer(checkpoint))
    tokens = number_tokens(cutter, config.get("vocab_size"))
    start, unknown = _find_start(checkpoint, config, tokens), cutter.unknown
    # CTranslate2 requires a token for each, and stores the names without using them here
    names = (start or unknown or tokens[0], start or unknown or tokens[0], unknown or "")
    made_with = convert_weights(checkpoint, making, Vocabulary(tokens, *names), quantization)
    header = read_header(making / WEIGHTS)
    _refuse_others(checkpoint, header)
    copy_files(checkpoint, [cutter.path.name], making)
    settings = PerplexitySettings(
        identity=checkpoint.name,
        tokenizer=cutter.path.name,
        start=start,
        unknown=unknown,
        max_tokens=_count_positions(header, config),
    )
    names_of_files = ("config.json", *_NAMING, cutter.path.name, *list_weights(checkpoint))
    return Origin(digest_files(checkpoint, names_of_files), settings.model_dump(), made_with)


def number_tokens(cutter: TokenCutter, size: int | None) -> list[str]:
    """Return a model's tokens in the order of their ids; `size`: how many the weights have.

    Some weights have more than the tokenizer, rounded up; some tokenizers have tokens that the weights lack.
    """
    if not isinstance(size, int) or size < 1:
        raise UsageError(
            f"{cutter.path.parent}/config.json: vocab_size is {size!r}; expected how many tokens there are"
        )
    tokens = [f"madeupword{number}" for number in range(size)]
    for token, number in cutter.numbers.items():
        if number < size:
            tokens[number] = token
    if len(set(tokens)) < size:
        raise UsageError(f"{cutter.path}: two tokens of one name; the vocabulary cannot be told apart")
    return tokens


def _refuse_others(path: Path, header: Header) -> None:
    if header.kind != _DECODER:
        raise UsageError(
            f"{path}: its model is of CTranslate2's kind {header.kind}; a perplexity needs a causal language model "
            f"({_DECODER}), such as GPT-2, Llama or Qwen"
        )


def _count_positions(header: Header, config: Mapping[str, Any]) -> int | None:
    """Return the smaller of the positions in config.json and in the position table; None if neither is given."""
    told = [config[key] for key in _POSITIONS if isinstance(config.get(key), int)]
    return min([*told, *header.shapes.get(_TABLE, ())[:1]], default=None)


def _find_start(checkpoint: Path, config: Mapping[str, Any], tokens: list[str]) -> str | None:
    """Return the token that precedes a text; None if no file names one."""
    for file in _NAMING:
        named = read_json(checkpoint / file, {}).get("bos_token")
        content = named.get("content") if isinstance(named, dict) else named
        if content is not None:
            if content not in tokens:
                raise UsageError(f"{checkpoint / file}: the start token {content!r} is not in the vocabulary")
            return str(content)
    number = config.get("bos_token_id")
    return tokens[number] if isinstance(number, int) and 0 <= number < len(tokens) else None


def _take_in(converted: Path, making: Path) -> Origin:
    """Check a folder that CTranslate2's own command made, and copy it."""
    refuse_missing(converted, _CONVERTED, "perplexity")
    header = read_header(converted / WEIGHTS)
    _refuse_others(converted, header)
    cutter = open_cutter(find_tokenizer(converted))
    tokens, config = read_json(converted / VOCABULARY), read_json(converted / "config.json")
    _refuse_strange_tokens(converted, cutter, tokens)
    start = config.get("bos_token")
    settings = PerplexitySettings(
        identity=converted.name,
        tokenizer=cutter.path.name,
        start=start if start in tokens else None,
        unknown=cutter.unknown if cutter.unknown in tokens else None,
        max_tokens=_count_positions(header, config),
    )
    files = (*_CONVERTED, cutter.path.name)
    copy_files(converted, files, making)
    return Origin(digest_files(converted, files), settings.model_dump(), "converted before")


def _refuse_strange_tokens(converted: Path, cutter: TokenCutter, tokens: Any) -> None:
    """Raise UsageError unless the vocabulary gives the tokenizer's tokens the same ids."""
    if not isinstance(tokens, list):
        raise UsageError(f"{converted / VOCABULARY}: expected a list of tokens, found {json.dumps(tokens)[:60]}")
    for token, number in cutter.numbers.items():
        if number < len(tokens) and tokens[number] != token:
            raise UsageError(
                f"{converted}: {cutter.path.name} and {VOCABULARY} do not belong together: token {number} is {token!r} in "
                f"one and {tokens[number]!r} in the other; put the checkpoint's own file there"
            )
