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
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.models.converting.checkpoints import (
    CTranslate2ConverterTokenizer,
    convert_weights_and_format_packages,
    import_convert_module,
    list_weight_files,
    load_checkpoint_json,
    make_converted_model_folder,
    require_converted_files,
)
from factmill.tasks.models.converting.weights import CTRANSLATE2_WEIGHTS_FILE, Quantization
from factmill.tasks.models.model_folder import (
    MODEL_MANIFEST_FILE,
    ConversionManifestFields,
    ExistingModelPolicy,
    ModelManifest,
    copy_files,
    digest_existing_files,
)
from factmill.tasks.models.translator import END_TOKEN, KNOWN_WORDS_FILE, NLLB_SENTENCEPIECE_FILE, TranslatorSettings
from factmill.tasks.text.translating.translation import NLLB_LANGUAGE_CODES

SPECIAL_TOKENS = ("<s>", "<pad>", END_TOKEN, "<unk>")
"""First tokens of an NLLB vocabulary; they include the first three of the SentencePiece file."""
MASK_TOKEN = "<mask>"
_NLLB_POSITIONS = 1024
"""Positions of every published NLLB-200 checkpoint."""
_LANGUAGE_CODE_PATTERN = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
_NLLB_SOURCE_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    NLLB_SENTENCEPIECE_FILE,
)
_CONVERTED_NLLB_FILES = (CTRANSLATE2_WEIGHTS_FILE, "config.json", "shared_vocabulary.json", NLLB_SENTENCEPIECE_FILE)


def make_translator_folder(
    checkpoint: Path,
    folder: Path,
    name: str | None = None,
    if_there: ExistingModelPolicy = "refuse",
    quantization: Quantization | None = None,
) -> ModelManifest:
    """Convert a checkpoint's directory into `folder`/`name` (default: the directory's own name); return its manifest.

    Takes a Hugging Face NLLB checkpoint (config.json, weights, sentencepiece.bpe.model), or a folder with CTranslate2's
    conversion of one and its sentencepiece.bpe.model. `quantization` is how weights are stored (default: int8, in 7
    bits; weights.py); a folder that factmill made keeps its own unless another is given. UsageError names what is
    missing or not supported.
    """
    if checkpoint.is_dir() and not (checkpoint / NLLB_SENTENCEPIECE_FILE).is_file():
        raise UsageError(
            f"{resolve_absolute_path(checkpoint)}: no {NLLB_SENTENCEPIECE_FILE}; put the checkpoint's own SentencePiece file there, "
            "which splits texts into tokens"
        )
    stored = quantization or (None if (checkpoint / MODEL_MANIFEST_FILE).is_file() else "int8")
    convert = partial(convert_nllb_checkpoint, quantization=stored or "int8")
    return make_converted_model_folder(
        checkpoint, folder, name, "translator", if_there, convert, _check_and_copy_converted_nllb, stored
    )


def convert_nllb_checkpoint(checkpoint: Path, making: Path, quantization: Quantization) -> ConversionManifestFields:
    """Write a checkpoint's conversion into an empty folder."""
    config = load_checkpoint_json(checkpoint / "config.json")
    if config.get("model_type") != "m2m_100":
        raise UsageError(
            f"{checkpoint}: model_type is {config.get('model_type')!r}; expected 'm2m_100', the type of NLLB-200 checkpoints"
        )
    bos, pad, eos, unk = SPECIAL_TOKENS
    vocabulary = CTranslate2ConverterTokenizer(list_nllb_tokens(checkpoint, config["vocab_size"]), bos, eos, unk, pad)
    made_with = convert_weights_and_format_packages(checkpoint, making, vocabulary, quantization)
    copy_files(checkpoint, [NLLB_SENTENCEPIECE_FILE], making)
    is_legacy = load_checkpoint_json(checkpoint / "tokenizer_config.json", {}).get("legacy_behaviour") is True
    settings = TranslatorSettings(
        identity=checkpoint.name,
        codes=NLLB_LANGUAGE_CODES,
        code_first=not is_legacy,
        max_tokens=config["max_position_embeddings"],
    )
    files = [*_NLLB_SOURCE_FILES, *list_weight_files(checkpoint)]
    return ConversionManifestFields(digest_existing_files(checkpoint, files), settings.model_dump(), made_with)


def load_non_special_sentencepiece_pieces(checkpoint: Path) -> list[str]:
    """Return the pieces of a checkpoint's SentencePiece file, without its three special ones."""
    import sentencepiece

    try:
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(checkpoint / NLLB_SENTENCEPIECE_FILE))
    except RuntimeError as error:
        raise UsageError(f"{checkpoint / NLLB_SENTENCEPIECE_FILE}: not a SentencePiece model: {error}") from error
    first = [pieces.id_to_piece(number) for number in range(3)]
    if first != ["<unk>", "<s>", END_TOKEN]:
        raise UsageError(
            f"{checkpoint / NLLB_SENTENCEPIECE_FILE}: its first pieces are {first}; expected those of NLLB, <unk>, <s>, {END_TOKEN}"
        )
    return [pieces.id_to_piece(number) for number in range(3, pieces.get_piece_size())]


def list_nllb_tokens(checkpoint: Path, size: int) -> list[str]:
    """Return a checkpoint's tokens in the order of their ids, filled up to `size`, the number that its weights have.

    Ids come from tokenizer.json if it exists; else from NLLB's order, with the codes that the checkpoint lists as
    special tokens, or those of NLLB-200.
    """
    pieces = load_non_special_sentencepiece_pieces(checkpoint)
    tokenizer = load_checkpoint_json(checkpoint / "tokenizer.json", {})
    numbers = dict(tokenizer.get("model", {}).get("vocab", {}))
    numbers |= {entry["content"]: entry["id"] for entry in tokenizer.get("added_tokens", [])}
    numbers = numbers or {
        token: n for n, token in enumerate([*SPECIAL_TOKENS, *pieces, *_list_language_codes(checkpoint), MASK_TOKEN])
    }
    if missing := sorted(set(NLLB_LANGUAGE_CODES.values()) - set(numbers)):
        raise UsageError(f"{checkpoint}: its tokenizer has no token for the languages {', '.join(missing)}")
    if strange := [piece for piece in (*SPECIAL_TOKENS, *pieces) if piece not in numbers]:
        raise UsageError(
            f"{checkpoint}: {NLLB_SENTENCEPIECE_FILE} and tokenizer.json do not belong together: tokenizer.json has no token {strange[0]!r}"
        )
    if max(numbers.values()) >= size:
        raise UsageError(
            f"{checkpoint}: its highest token id is {max(numbers.values())}, but the model has {size} tokens; "
            f"give the {NLLB_SENTENCEPIECE_FILE} and the list of special tokens that belong to it"
        )
    tokens = [f"madeupword{number}" for number in range(size)]
    for token, number in numbers.items():
        tokens[number] = token
    return tokens


def _list_language_codes(checkpoint: Path) -> list[str]:
    for file in ("special_tokens_map.json", "tokenizer_config.json"):
        content = load_checkpoint_json(checkpoint / file, {})
        for key in ("additional_special_tokens", "extra_special_tokens"):
            if listed := [
                code
                for code in content.get(key) or []
                if isinstance(code, str) and _LANGUAGE_CODE_PATTERN.fullmatch(code)
            ]:
                return listed
    nllb = import_convert_module("transformers.models.nllb.tokenization_nllb")
    return list(nllb.FAIRSEQ_LANGUAGE_CODES)


def _check_and_copy_converted_nllb(converted: Path, making: Path) -> ConversionManifestFields:
    """Check a folder that CTranslate2's own command made, and copy it."""
    require_converted_files(converted, _CONVERTED_NLLB_FILES, "translator")
    tokens = load_checkpoint_json(converted / "shared_vocabulary.json")
    if unknown := sorted(set(NLLB_LANGUAGE_CODES.values()) - set(tokens)):
        raise UsageError(
            f"{converted}: its vocabulary has no {', '.join(unknown)}, so the model would read every language as <unk>; "
            "convert the checkpoint itself: `factmill models add translator CHECKPOINT`"
        )
    if (expected := [*SPECIAL_TOKENS, *load_non_special_sentencepiece_pieces(converted)]) != tokens[: len(expected)]:
        raise UsageError(f"{converted}: {NLLB_SENTENCEPIECE_FILE} and shared_vocabulary.json do not belong together")
    known_words = [KNOWN_WORDS_FILE] if (converted / KNOWN_WORDS_FILE).is_file() else []
    copy_files(converted, [*_CONVERTED_NLLB_FILES, *known_words], making)
    settings = TranslatorSettings(
        identity=converted.name, codes=NLLB_LANGUAGE_CODES, code_first=True, max_tokens=_NLLB_POSITIONS
    )
    sources = digest_existing_files(converted, _CONVERTED_NLLB_FILES)
    return ConversionManifestFields(sources, settings.model_dump(), "converted before")
