"""Causal language models that compute the probability of a text: any decoder on CTranslate2 (GPT-2, Llama, Qwen, …).

BioKaLMA chooses the piece of knowledge for a paragraph by the perplexity of the paragraph with a sentence of that piece
(paper, Appendix A). core/calls/translation_and_perplexity.py defines the calls; models/converting/language_model.py makes model folders.

Builds must be identical byte for byte, so a text gets the same bits in every batch (exact_batches.py). A text takes one
pass, so that little speed is lost if each is its own batch. Conversions are meant for float32, in which processors
differ only in the last bits; int8 is for models that would not fit or take too long.

Texts are tokenised by tokenizer.json (Hugging Face's tokenizers) or by a SentencePiece file; both give tokens as
CTranslate2's vocabulary spells them. Special tokens in a text are plain text: `</s>` is four characters, never the
token of that name.

The embedded model, `embedded-lm-1`, is tiny and no general model of English: it is trained on the articles, facts and
paragraphs of the embedded world (data/models/train_perplexity.py). It reads any text, by single letters where
necessary.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.calls.translation_and_perplexity import (
    NO_TOKENS_TO_SCORE,
    NoPerplexity,
    PerplexityOutcome,
    sum_log_probabilities,
)
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.errors import UsageError
from factmill.tasks.models.devices import (
    Device,
    choose_compute_type_by_weights,
    choose_ctranslate2_device,
    count_workers,
    format_compute_type_and_device,
    open_ctranslate2_model,
    resolve_identity_device,
)
from factmill.tasks.models.exact_batches import Batching, choose_batching, run_batches
from factmill.tasks.models.model_folder import (
    ModelManifest,
    load_manifest_and_check_sizes,
    load_verified_manifest,
    parse_settings_in_manifest,
    resolve_model_folder,
)

EMBEDDED_LANGUAGE_MODEL = "embedded-lm-1"
"""Name of the embedded model; changes whenever retraining changes the model."""
EMBEDDED_LANGUAGE_MODEL_FOLDER = ASSETS_ROOT / "data" / "models" / "embedded-perplexity"

VOCABULARY_FILE = "vocabulary.json"
_BATCH_TOKENS = 1024
"""Most tokens of a batch: each takes a float for every token of the vocabulary, which may have 256,000."""


TOKENIZER_JSON = "tokenizer.json"
SENTENCEPIECE_FILES = ("tokenizer.model", "sentencepiece.bpe.model", "sentencepiece.model", "spiece.model")
"""Names that checkpoints give their SentencePiece file."""


@dataclass(frozen=True, slots=True)
class TextTokenizer:
    """A tokenizer loaded from a file."""

    path: Path
    tokenise_text: Callable[[str], list[str]]
    """Text → its tokens, without added start or end tokens."""
    token_ids: Mapping[str, int]
    """Token → its id."""
    unknown: str | None
    """Token for text outside the vocabulary; None if there is no such text."""


def get_tokenizer_file(folder: Path) -> Path:
    """Return the tokenizer file of a model's folder; UsageError if there is none."""
    for name in (TOKENIZER_JSON, *SENTENCEPIECE_FILES):
        if (folder / name).is_file():
            return folder / name
    raise UsageError(
        f"{folder}: neither {TOKENIZER_JSON} nor {SENTENCEPIECE_FILES[0]}, which split texts into tokens; put the checkpoint's own file "
        "there, or write one where transformers is installed: "
        "AutoTokenizer.from_pretrained(PATH, use_fast=True).save_pretrained(PATH)"
    )


def load_text_tokenizer(path: Path) -> TextTokenizer:
    """Load tokenizer.json or a SentencePiece file; UsageError if it is neither."""
    if path.name != TOKENIZER_JSON:
        import sentencepiece

        try:
            pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        except (RuntimeError, OSError) as error:
            raise UsageError(f"{path}: not a SentencePiece model: {error}") from error
        numbers = {pieces.id_to_piece(number): number for number in range(pieces.get_piece_size())}
        cut = lambda text: list(pieces.encode(text, out_type=str))  # noqa: E731
        return TextTokenizer(path, cut, numbers, pieces.id_to_piece(pieces.unk_id()))
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing narrower
        raise UsageError(f"{path}: not a file of the tokenizers package: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    # one by one: after encode_batch the tokenizer's threads warn whenever this process forks
    cut = lambda text: list(tokenizer.encode(text, add_special_tokens=False).tokens)  # noqa: E731
    numbers = tokenizer.get_vocab(with_added_tokens=True)
    return TextTokenizer(path, cut, numbers, getattr(tokenizer.model, "unk_token", None))


class LanguageModelSettings(StrictModel):
    """How to use a converted language model (ModelManifest.settings)."""

    identity: str
    """The model's name in rows and reports."""
    tokenizer: str
    """Name of the tokenizer file."""
    start: str | None
    """Token before every text, not scored itself; None: the model has none."""
    unknown: str | None
    """Token for text outside the vocabulary; None: there is no such text, or it is refused."""
    max_tokens: int | None
    """Context length, including the start token; None: limited by memory only."""


class LanguageModel:
    """A converted causal language model."""

    def __init__(
        self,
        path: Path,
        device: Device = "auto",
        compute_type: ComputeType | None = None,
        threads: int | None = None,
        batching: Batching = "auto",
    ) -> None:
        """Open a model folder; `threads` batches run in parallel on the CPU (default: one a core)."""
        manifest = load_verified_manifest(path, "perplexity")
        self.settings = parse_settings_in_manifest(path, manifest, LanguageModelSettings)
        self._cut = load_text_tokenizer(path / self.settings.tokenizer).tokenise_text
        vocabulary: list[str] = json.loads((path / VOCABULARY_FILE).read_text("utf-8"))
        self._numbers = {token: number for number, token in enumerate(vocabulary)}
        self.device, numbers = choose_ctranslate2_device(device), choose_compute_type_by_weights(path, compute_type)
        self.batching = choose_batching(batching, self.device, numbers)
        self.identity = _format_language_model_identity(manifest, numbers, self.device)
        self._workers = count_workers(self.device, threads)
        self._model = open_ctranslate2_model("Generator", path, self.device, numbers, self._workers, manifest.made_with)

    def compute_log_probabilities(self, texts: Sequence[str]) -> list[PerplexityOutcome]:
        """Return the log probability of each text, or why it has none."""
        found = dict(self.iterate_log_probabilities(texts))
        return [found[place] for place in range(len(texts))]

    def iterate_log_probabilities(self, texts: Sequence[str]) -> Iterator[tuple[int, PerplexityOutcome]]:
        """Yield each text's index with its log probability as soon as it is computed, the longest texts first."""
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            places.setdefault(text, []).append(place)
        to_weigh: list[tuple[list[int], list[int]]] = []
        """Places of a text, and the ids of its tokens."""
        for text, its_places in places.items():
            tokens = self.tokenize(text)
            if isinstance(tokens, NoPerplexity):
                yield from ((place, tokens) for place in its_places)
            else:
                to_weigh.append((its_places, [self._numbers[token] for token in tokens]))
        lengths = [len(numbers) for _, numbers in to_weigh]
        with ThreadPoolExecutor(self._workers) as pool:

            def start(batch: list[int]) -> Callable[[], list[PerplexityOutcome]]:
                return pool.submit(self._compute_batch, [to_weigh[at][1] for at in batch]).result

            for at, outcome in run_batches(lengths, lengths, self.batching, _BATCH_TOKENS, start):
                yield from ((place, outcome) for place in to_weigh[at][0])

    def tokenize(self, text: str) -> list[str] | NoPerplexity:
        """Return the tokens that the model reads, the start token first, or why the text cannot be scored."""
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            return NoPerplexity("unknown_characters", "half of a surrogate pair, which is no text")
        shown = [self.settings.start] if self.settings.start is not None else []
        for token in self._cut(text):
            if token in self._numbers:
                shown.append(token)
            elif self.settings.unknown is not None:
                shown.append(self.settings.unknown)
            else:
                return NoPerplexity("unknown_characters", f"not in the vocabulary: {token!r}")
        most = self.settings.max_tokens
        if most is not None and len(shown) > most:
            return NoPerplexity("too_long", f"{len(shown)} tokens; at most {most} are read")
        return shown if len(shown) > 1 else NO_TOKENS_TO_SCORE

    def _compute_batch(self, shown: Sequence[Sequence[int]]) -> list[PerplexityOutcome]:
        """Return the log probabilities of texts of one length, given as token ids."""
        import ctranslate2

        # the last token is scored, but predicts nothing
        logits = self._model.forward_batch([numbers[:-1] for numbers in shown], return_log_probs=False)
        logits = np.asarray(logits.to_device(ctranslate2.Device.cpu))
        return [
            sum_log_probabilities(compute_token_log_probabilities(each, numbers[1:]))
            for each, numbers in zip(logits, shown, strict=True)
        ]


def compute_token_log_probabilities(logits: npt.NDArray[np.float32], numbers: Sequence[int]) -> list[float]:
    """Return the log probability of each token (given by id) under its row of logits (tokens × vocabulary).

    Sums accurately: CTranslate2's own sum over the vocabulary, in float32, is off by 3e-6 with generic instructions.
    Overwrites `logits`.
    """
    chosen = logits[np.arange(len(numbers)), numbers].astype(np.float64)
    highest = logits.max(axis=1, keepdims=True)
    np.subtract(logits, highest, out=logits)
    np.exp(logits, out=logits)
    total = logits.sum(axis=1).astype(np.float64)
    return [float(log) for log in chosen - highest[:, 0] - np.log(total)]


def get_language_model_identity(
    name_or_path: str | Path, home_folder: Path, device: Device = "auto", compute_type: ComputeType | None = None
) -> str:
    """Return a language model's identity (`LanguageModel.identity`) without opening it."""
    path = resolve_language_model_folder(name_or_path, home_folder)
    manifest = load_manifest_and_check_sizes(path, "perplexity")
    numbers, computed_on = choose_compute_type_by_weights(path, compute_type), resolve_identity_device(device)
    return _format_language_model_identity(manifest, numbers, computed_on)


def resolve_language_model_folder(name_or_path: str | Path, home_folder: Path) -> Path:
    """Return the folder of a language model: `embedded-lm-1`, by name (below the home) or by path; else UsageError."""
    if str(name_or_path) == EMBEDDED_LANGUAGE_MODEL:
        return EMBEDDED_LANGUAGE_MODEL_FOLDER
    return resolve_model_folder(str(name_or_path), home_folder, "perplexity", EMBEDDED_LANGUAGE_MODEL)


def _format_language_model_identity(manifest: ModelManifest, compute_type: ComputeType, device: str) -> str:
    """Format what log probabilities depend on: the model and how it computes; not how texts are batched."""
    name = manifest.settings.get("identity", manifest.name)
    return f"{name}@{manifest.digest[:16]}-{format_compute_type_and_device(compute_type, device)}"
