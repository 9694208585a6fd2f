"""Convert an NLLB checkpoint from Hugging Face to CTranslate2, or copy one that CTranslate2 already converted.

checkpoints.py reads the weights. The vocabulary is made here: from tokenizer.json, or from the SentencePiece file and
the language codes in NLLB's order (<s>, <pad>, </s>, <unk>, the pieces, the codes, <mask>). The tokenizer of
transformers 5 is unusable: without tokenizer.json it has no codes, so that every language becomes <unk>, and where
codes are given it numbers them after <mask>, one too high.
"""

import re
from functools import partial
from pathlib import Path

from factmill.tasks.errors import UsageError
from factmill.tasks.files import absolute_path
from factmill.tasks.models.converting.checkpoints import (
    Vocabulary,
    convert_weights,
    import_for_conversion,
    list_weights,
    read_json,
    refuse_missing,
    store_conversion,
)
from factmill.tasks.models.converting.weights import WEIGHTS, Quantization
from factmill.tasks.models.model_folder import MANIFEST, IfThere, ModelManifest, Origin, copy_files, digest_files
from factmill.tasks.models.translate import END, KNOWN_WORDS, VOCABULARY, TranslatorSettings
from factmill.tasks.text.translating.translation import LANGUAGE_CODES

SPECIAL = ("<s>", "<pad>", END, "<unk>")
"""First tokens of an NLLB vocabulary; they include the first three of the SentencePiece file."""
MASK = "<mask>"
_POSITIONS = 1024
"""Positions of every published NLLB-200 checkpoint."""
_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_SOURCE = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    VOCABULARY,
)
_CONVERTED = (WEIGHTS, "config.json", "shared_vocabulary.json", VOCABULARY)


def add_translator(
    checkpoint: Path,
    folder: Path,
    name: str | None = None,
    if_there: IfThere = "refuse",
    quantization: Quantization | None = None,
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Takes a Hugging Face NLLB checkpoint (config.json, weights, sentencepiece.bpe.model), or a folder with CTranslate2's
    conversion of one and its sentencepiece.bpe.model. `quantization` is how weights are stored (default: int8, in 7
    bits; weights.py); a folder that factmill made keeps its own unless another is given. UsageError names what is
    missing or not supported.
    """
    if checkpoint.is_dir() and not (checkpoint / VOCABULARY).is_file():
        raise UsageError(
            f"{absolute_path(checkpoint)}: no {VOCABULARY} in it; put the checkpoint's own SentencePiece file there, "
            "which words are cut by"
        )
    stored = quantization or (None if (checkpoint / MANIFEST).is_file() else "int8")
    convert = partial(convert_checkpoint, quantization=stored or "int8")
    return store_conversion(checkpoint, folder, name, "translator", if_there, convert, _take_in, stored)


def convert_checkpoint(checkpoint: Path, making: Path, quantization: Quantization) -> Origin:
    """Write a checkpoint's conversion into an empty folder."""
    config = read_json(checkpoint / "config.json")
    if config.get("model_type") != "m2m_100":
        raise UsageError(
            f"{checkpoint}: a model of type {config.get('model_type')!r}; NLLB-200 checkpoints are of type 'm2m_100'"
        )
    bos, pad, eos, unk = SPECIAL
    vocabulary = Vocabulary(number_tokens(checkpoint, config["vocab_size"]), bos, eos, unk, pad)
    made_with = convert_weights(checkpoint, making, vocabulary, quantization)
    copy_files(checkpoint, [VOCABULARY], making)
    is_legacy = read_json(checkpoint / "tokenizer_config.json", {}).get("legacy_behaviour") is True
    settings = TranslatorSettings(
        identity=checkpoint.name,
        codes=LANGUAGE_CODES,
        code_first=not is_legacy,
        max_tokens=config["max_position_embeddings"],
    )
    return Origin(digest_files(checkpoint, [*_SOURCE, *list_weights(checkpoint)]), settings.model_dump(), made_with)


def read_pieces(checkpoint: Path) -> list[str]:
    """Return the pieces of a checkpoint's SentencePiece file, without its three special ones."""
    import sentencepiece

    try:
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(checkpoint / VOCABULARY))
    except RuntimeError as error:
        raise UsageError(f"{checkpoint / VOCABULARY}: no SentencePiece model: {error}") from error
    first = [pieces.id_to_piece(number) for number in range(3)]
    if first != ["<unk>", "<s>", END]:
        raise UsageError(f"{checkpoint / VOCABULARY}: begins with {first}; NLLB's begins with <unk>, <s>, {END}")
    return [pieces.id_to_piece(number) for number in range(3, pieces.get_piece_size())]


def number_tokens(checkpoint: Path, size: int) -> list[str]:
    """Return a checkpoint's tokens in the order of their ids, filled up to `size`, the number that its weights have.

    Ids come from tokenizer.json if it exists; else from NLLB's order, with the codes that the checkpoint lists as
    special tokens, or those of NLLB-200.
    """
    pieces = read_pieces(checkpoint)
    tokenizer = read_json(checkpoint / "tokenizer.json", {})
    numbers = dict(tokenizer.get("model", {}).get("vocab", {}))
    numbers |= {entry["content"]: entry["id"] for entry in tokenizer.get("added_tokens", [])}
    numbers = numbers or {token: n for n, token in enumerate([*SPECIAL, *pieces, *_list_codes(checkpoint), MASK])}
    if missing := sorted(set(LANGUAGE_CODES.values()) - set(numbers)):
        raise UsageError(f"{checkpoint}: knows no language {', '.join(missing)}")
    if strange := [piece for piece in (*SPECIAL, *pieces) if piece not in numbers]:
        raise UsageError(f"{checkpoint}: {VOCABULARY} and tokenizer.json do not belong together: {strange[0]!r}")
    if max(numbers.values()) >= size:
        raise UsageError(
            f"{checkpoint}: its tokens are numbered to {max(numbers.values())}, but the model has {size}; "
            f"give the {VOCABULARY} and the list of special tokens that belong to it"
        )
    tokens = [f"madeupword{number}" for number in range(size)]
    for token, number in numbers.items():
        tokens[number] = token
    return tokens


def _list_codes(checkpoint: Path) -> list[str]:
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        content = read_json(checkpoint / file, {})
        for key in ("additional_special_tokens", "extra_special_tokens"):
            if listed := [code for code in content.get(key) or [] if isinstance(code, str) and _CODE.fullmatch(code)]:
                return listed
    nllb = import_for_conversion("transformers.models.nllb.tokenization_nllb")
    return list(nllb.FAIRSEQ_LANGUAGE_CODES)


def _take_in(converted: Path, making: Path) -> Origin:
    """Check a folder that CTranslate2's own command made, and copy it."""
    refuse_missing(converted, _CONVERTED, "translator")
    tokens = read_json(converted / "shared_vocabulary.json")
    if unknown := sorted(set(LANGUAGE_CODES.values()) - set(tokens)):
        raise UsageError(
            f"{converted}: its vocabulary has no {', '.join(unknown)}, so it would take every language for <unk>; "
            "convert the checkpoint itself: factmill models add translator CHECKPOINT"
        )
    if (expected := [*SPECIAL, *read_pieces(converted)]) != tokens[: len(expected)]:
        raise UsageError(f"{converted}: {VOCABULARY} and shared_vocabulary.json do not belong together")
    copy_files(converted, [*_CONVERTED, *([KNOWN_WORDS] if (converted / KNOWN_WORDS).is_file() else [])], making)
    settings = TranslatorSettings(identity=converted.name, codes=LANGUAGE_CODES, code_first=True, max_tokens=_POSITIONS)
    return Origin(digest_files(converted, _CONVERTED), settings.model_dump(), "converted before")
