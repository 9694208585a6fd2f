"""The tokenizer of an encoder as one tokenizer.json, cutting texts where the encoder was trained to.

Written and read with the `tokenizers` package, which transformers' own tokenizers run on; transformers itself, which is
many times as large and slower to import, adds nothing to it here.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import UsageError
from tasks.models.converting.checkpoints import read_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """A tokenizer.json and what the encoder has to know of it."""

    content: str
    vocabulary: list[str]
    """Token of each row of the word embeddings; rows without one are named <unused_N>."""
    unknown: str
    max_tokens: int
    """Tokens of a text, special ones included; the rest is cut off."""


def convert_tokenizer(checkpoint: Path, positions: int, vocabulary: int) -> TokenizerFile:
    """Read a checkpoint's tokenizer.json or vocab.txt for an encoder with so many positions and word embeddings.

    As sentence-transformers does, texts are cut at max_seq_length of sentence_bert_config.json, else at
    model_max_length of tokenizer_config.json, whatever tokenizer.json itself says.
    """
    from tokenizers.normalizers import Lowercase, Sequence

    options = read_json(checkpoint / "tokenizer_config.json", {})
    more = read_json(checkpoint / "sentence_bert_config.json", {})
    tokenizer = _open_tokenizer(checkpoint, options)
    max_tokens = min(positions, int(more.get("max_seq_length") or options.get("model_max_length") or positions))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    if more.get("do_lower_case"):
        first = [Lowercase()]
        tokenizer.normalizer = Sequence([*first, tokenizer.normalizer] if tokenizer.normalizer else first)
    names = {place: token for token, place in tokenizer.get_vocab().items()}
    if names and max(names) >= vocabulary:
        raise UsageError(
            f"{checkpoint}: the tokenizer knows {max(names) + 1:,} tokens, the encoder {vocabulary:,}: "
            "they do not belong together"
        )
    unknown = options.get("unk_token", "[UNK]")
    return TokenizerFile(
        content=tokenizer.to_str(),
        vocabulary=[names.get(place, f"<unused_{place}>") for place in range(vocabulary)],
        unknown=unknown["content"] if isinstance(unknown, dict) else unknown,
        max_tokens=max_tokens,
    )


def _open_tokenizer(checkpoint: Path, options: dict[str, Any]) -> "Tokenizer":
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    whole, words = checkpoint / "tokenizer.json", checkpoint / "vocab.txt"
    if whole.is_file():
        try:
            return Tokenizer.from_file(str(whole))
        except Exception as error:  # the package raises nothing narrower
            raise UsageError(f"{whole}: no tokenizer: {error}") from error
    if not words.is_file():
        raise UsageError(f"{checkpoint}: neither tokenizer.json nor vocab.txt: not an encoder's checkpoint")
    opened = BertWordPieceTokenizer(
        str(words),
        lowercase=options.get("do_lower_case", True),
        strip_accents=options.get("strip_accents"),
        handle_chinese_chars=options.get("tokenize_chinese_chars", True),
    )
    return Tokenizer.from_str(opened.to_str())
