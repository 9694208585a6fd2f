"""`char-ngrams-1`: texts as vectors of hashed character n-grams, where no sentence encoder is at hand.

It is no neural model and knows no meaning: two texts are near when they are written nearly alike. That finds questions
that occur twice, in other case or punctuation; a paraphrase it does not find. Everything is counted in whole numbers
until the last division, so that a text gets the same bits whatever it is encoded with.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tasks.core.fingerprints import digest_json

CHAR_NGRAMS = "char-ngrams-1"

_DIMENSIONS = 1024
_SIZES = (3, 4, 5)
_TEXTS_AT_ONCE = 512


class CharNgrams:
    """Vectors of how often the n-grams of 3 to 5 characters occur, hashed into 1,024 dimensions with a sign."""

    name = CHAR_NGRAMS
    digest = digest_json({"embedder": CHAR_NGRAMS, "dimensions": _DIMENSIONS, "sizes": _SIZES})
    dimensions = _DIMENSIONS

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1 (len(texts) × 1,024); an empty text's is zero."""
        parts = [_count(texts[start : start + _TEXTS_AT_ONCE]) for start in range(0, len(texts), _TEXTS_AT_ONCE)]
        return np.concatenate([np.zeros((0, _DIMENSIONS), np.float32), *parts])


def _count(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    written = [_normalise(text) for text in texts]
    lengths = np.array([len(text) for text in written])
    rows = np.repeat(np.arange(len(written)), lengths)
    characters = np.frombuffer("".join(written).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    counts = np.zeros(len(written) * _DIMENSIONS, np.int64)
    for size in _SIZES:
        within = np.flatnonzero(rows[size - 1 :] == rows[: max(0, len(rows) - size + 1)])
        hashes = np.full(len(within), size, np.uint64)
        for step in range(size):
            hashes = _mix(hashes ^ characters[within + step])
        places = rows[within] * _DIMENSIONS + (hashes % np.uint64(_DIMENSIONS)).astype(np.int64)
        signs = np.where(hashes >> np.uint64(63), 1, -1)
        np.add.at(counts, places, signs)
    table = counts.reshape(len(written), _DIMENSIONS)
    squares = (table * table).sum(axis=1)
    return (table / np.sqrt(np.maximum(squares, 1))[:, None]).astype(np.float32)


def _normalise(text: str) -> str:
    """Return the letters, numbers and symbols of a text without case, with one space around every word."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(char if unicodedata.category(char)[0] in "LMNS" else " " for char in folded)
    words = kept.split()
    return f" {' '.join(words)} " if words else ""


def _mix(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return well-mixed 64-bit numbers (the last steps of splitmix64)."""
    hashes = (hashes + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return hashes ^ (hashes >> np.uint64(31))
