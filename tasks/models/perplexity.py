"""Causal language models that say how probable a text is: any decoder on CTranslate2 (GPT-2, Llama, Qwen, …).

BioKaLMA finds the piece of knowledge that suits a paragraph by the perplexity of the paragraph with a sentence of that
piece (paper, Appendix A). core/calls/perplexity.py says what is weighed; models/converting/perplexity.py makes model
folders.

Builds must come out the same byte for byte, so a text gets the same bits whatever it is weighed with
(exact_batches.py). A text is weighed in one pass, so that little is lost where each is a batch of its own. float32, in
which processors differ in the last bits only, is what a conversion is made for; int8 is for models that would not fit or
take too long.

The embedded model, `embedded-lm-1`, is no model of English: a tiny one, taught the articles and facts of the embedded
world and how its paragraphs go on (data/models/train_perplexity.py). It reads any text, letter by letter where it must.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.assets import ROOT
from tasks.core.calls.perplexity import NOTHING, Outcome, Unweighable, add_up
from tasks.core.rows import StrictModel
from tasks.core.service_settings import ComputeType
from tasks.models.decoder_tokens import open_cutter
from tasks.models.devices import (
    Device,
    choose_compute_type,
    choose_device,
    count_workers,
    describe_numbers,
    name_device,
    open_model,
)
from tasks.models.exact_batches import Batching, choose_batching, run_batches
from tasks.models.model_folder import ModelManifest, check_model, find_model, read_model, read_settings

EMBEDDED = "embedded-lm-1"
"""Name of the embedded model; changes whenever it is taught anew with another result."""
EMBEDDED_FOLDER = ROOT / "data" / "models" / "embedded-perplexity"

VOCABULARY = "vocabulary.json"
_BATCH_TOKENS = 1024
"""Tokens of a batch, at most: each takes a float for every token of the vocabulary, which may have 256,000."""


class PerplexitySettings(StrictModel):
    """How a converted model is to be used (ModelManifest.settings)."""

    identity: str
    """Name that rows and reports give."""
    tokenizer: str
    """Name of the file by which texts are cut."""
    start: str | None
    """Token that stands before every text and is not weighed; None: the model has none."""
    unknown: str | None
    """Token that stands for what the vocabulary does not have; None: it has everything, or such a text is refused."""
    max_tokens: int | None
    """Positions that the model knows, the start token's with them; None: as many as memory allows."""


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
        """Open a model folder; `threads` batches run at once on the CPU (default: one a core)."""
        manifest = check_model(path, "perplexity")
        self.settings = read_settings(path, manifest, PerplexitySettings)
        self._cut = open_cutter(path / self.settings.tokenizer).cut
        vocabulary: list[str] = json.loads((path / VOCABULARY).read_text("utf-8"))
        self._numbers = {token: number for number, token in enumerate(vocabulary)}
        self.device, numbers = choose_device(device), choose_compute_type(path, compute_type)
        self.batching = choose_batching(batching, self.device, numbers)
        self.identity = _identify(manifest, numbers, self.device)
        self._workers = count_workers(self.device, threads)
        self._model = open_model("Generator", path, self.device, numbers, self._workers, manifest.made_with)

    def weigh(self, texts: Sequence[str]) -> list[Outcome]:
        """Return how probable each text is, or why that cannot be told."""
        found = dict(self.weigh_each(texts))
        return [found[place] for place in range(len(texts))]

    def weigh_each(self, texts: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
        """Yield each text's place with how probable it is, as soon as that is known: the longest texts first."""
        places: dict[str, list[int]] = {}
        for place, text in enumerate(texts):
            places.setdefault(text, []).append(place)
        to_weigh: list[tuple[str, list[str]]] = []
        for text, its_places in places.items():
            tokens = self.tokenize(text)
            if isinstance(tokens, Unweighable):
                yield from ((place, tokens) for place in its_places)
            else:
                to_weigh.append((text, tokens))
        for number, outcome in self._weigh_tokens([tokens for _, tokens in to_weigh]):
            yield from ((place, outcome) for place in places[to_weigh[number][0]])

    def tokenize(self, text: str) -> list[str] | Unweighable:
        """Return what the model is shown of a text, the start token first, or why the text cannot be weighed."""
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            return Unweighable("unknown_characters", "half of a surrogate pair, which is no text")
        shown = [self.settings.start] if self.settings.start is not None else []
        for token in self._cut(text):
            if token in self._numbers:
                shown.append(token)
            elif self.settings.unknown is not None:
                shown.append(self.settings.unknown)
            else:
                return Unweighable("unknown_characters", f"not in the vocabulary: {token!r}")
        most = self.settings.max_tokens
        if most is not None and len(shown) > most:
            return Unweighable("too_long", f"{len(shown)} tokens; at most {most} are read")
        return shown if len(shown) > 1 else NOTHING

    def _weigh_tokens(self, tokens: Sequence[list[str]]) -> Iterator[tuple[int, Outcome]]:
        numbers = [[self._numbers[token] for token in shown] for shown in tokens]
        lengths = [len(shown) for shown in numbers]
        with ThreadPoolExecutor(self._workers) as pool:

            def start(places: list[int]) -> Callable[[], list[Outcome]]:
                return pool.submit(self._weigh_batch, [numbers[place] for place in places]).result

            yield from run_batches(lengths, lengths, self.batching, _BATCH_TOKENS, start)

    def _weigh_batch(self, shown: Sequence[Sequence[int]]) -> list[Outcome]:
        """Return how probable texts of one length are."""
        import ctranslate2

        # the last token is weighed, but nothing after it
        logits = self._model.forward_batch([numbers[:-1] for numbers in shown], return_log_probs=False)
        logits = np.asarray(logits.to_device(ctranslate2.Device.cpu))
        return [add_up(weigh_tokens(each, numbers[1:])) for each, numbers in zip(logits, shown, strict=True)]


def weigh_tokens(logits: npt.NDArray[np.float32], numbers: Sequence[int]) -> list[float]:
    """Return the logarithm of the probability of each token (its number) under its row of logits (tokens × vocabulary).

    CTranslate2's own sum over the vocabulary is in float32 and with generic instructions off by 3e-6; this one is not.
    Overwrites `logits`.
    """
    chosen = logits[np.arange(len(numbers)), numbers].astype(np.float64)
    highest = logits.max(axis=1, keepdims=True)
    np.subtract(logits, highest, out=logits)
    np.exp(logits, out=logits)
    total = logits.sum(axis=1).astype(np.float64)
    return [float(log) for log in chosen - highest[:, 0] - np.log(total)]


def identify_perplexity(
    name_or_path: str | Path, home_folder: Path, device: Device = "auto", compute_type: ComputeType | None = None
) -> str:
    """Return a language model's identity without opening it (`LanguageModel.identity`)."""
    path = find_perplexity(name_or_path, home_folder)
    manifest = read_model(path, "perplexity")
    return _identify(manifest, choose_compute_type(path, compute_type), name_device(device))


def find_perplexity(name_or_path: str | Path, home_folder: Path) -> Path:
    """Return the folder of a language model: `embedded-lm-1`, one of a home by name, or any by path; else UsageError."""
    if str(name_or_path) == EMBEDDED:
        return EMBEDDED_FOLDER
    return find_model(str(name_or_path), home_folder, "perplexity", EMBEDDED)


def _identify(manifest: ModelManifest, compute_type: ComputeType, device: str) -> str:
    """Return what a logarithm depends on: the model and how it computes; not how texts are batched."""
    name = manifest.settings.get("identity", manifest.name)
    return f"{name}@{manifest.digest[:16]}-{describe_numbers(compute_type, device)}"
