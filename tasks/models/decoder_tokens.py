"""How a causal language model cuts texts: by tokenizer.json (Hugging Face's tokenizers), or by a SentencePiece file.

Both give the tokens as CTranslate2's vocabulary spells them. A text is text throughout: `</s>` in it is five characters,
never the token of that name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import UsageError

TOKENIZER = "tokenizer.json"
SENTENCEPIECE = ("tokenizer.model", "sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
"""Names that checkpoints give to a SentencePiece file."""


@dataclass(frozen=True, slots=True)
class TokenCutter:
    """A tokenizer read from a file."""

    path: Path
    cut: Callable[[str], list[str]]
    """Text → its tokens, without any at its beginning or end that the text does not hold."""
    numbers: Mapping[str, int]
    """Token → its number."""
    unknown: str | None
    """Token that stands for what the vocabulary does not have; None where it has everything."""


def open_cutter(path: Path) -> TokenCutter:
    """Read tokenizer.json or a SentencePiece file; UsageError when it is neither."""
    return _open_tokenizer(path) if path.name == TOKENIZER else _open_sentencepiece(path)


def find_tokenizer(folder: Path) -> Path:
    """Return the file by which a folder's model cuts texts; UsageError when there is none."""
    for name in (TOKENIZER, *SENTENCEPIECE):
        if (folder / name).is_file():
            return folder / name
    raise UsageError(
        f"{folder}: neither {TOKENIZER} nor {SENTENCEPIECE[0]} in it, by which words are cut; put the checkpoint's own file "
        "there, or write one where transformers is installed: "
        "AutoTokenizer.from_pretrained(PATH, use_fast=True).save_pretrained(PATH)"
    )


def _open_tokenizer(path: Path) -> TokenCutter:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises no narrower one
        raise UsageError(f"{path}: not a file of tokenizers: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True

    # one by one: after encode_batch the tokenizer's threads complain whenever this process forks
    def cut(text: str) -> list[str]:
        return list(tokenizer.encode(text, add_special_tokens=False).tokens)

    unknown = getattr(tokenizer.model, "unk_token", None)
    return TokenCutter(path, cut, tokenizer.get_vocab(with_added_tokens=True), unknown)


def _open_sentencepiece(path: Path) -> TokenCutter:
    import sentencepiece

    try:
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (RuntimeError, OSError) as error:
        raise UsageError(f"{path}: no SentencePiece model: {error}") from error

    def cut(text: str) -> list[str]:
        return list(pieces.encode(text, out_type=str))

    numbers = {pieces.id_to_piece(number): number for number in range(pieces.get_piece_size())}
    return TokenCutter(path, cut, numbers, pieces.id_to_piece(pieces.unk_id()))
