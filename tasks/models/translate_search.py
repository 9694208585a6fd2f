"""The search for translations on CTranslate2, in batches that change nothing.

Builds must come out the same byte for byte, so a text has to get the same translation whatever it is batched with. Two
things stand against it: padding, and that products of floats are added up in an order that depends on how many rows are
multiplied at once; and rows drop out of a batch as their translations end. So:

- int8 on the CPU (the default): texts of one number of tokens share a batch, without padding. Products of integers are
  exact in any order and all else is done row by row, so every bit is the same (a test compares scores bit for bit).
- float32, float16, and any GPU: one text a batch, several batches at once. Slower by far with a large model
  (benchmarks/translate.py says by how much); `batching = "length"` shares batches there too, for those who can bear
  that a translation between two near-equals may turn with its neighbours.

CTranslate2 takes tokens that the no-repeat rule forbids out before it turns what is left into probabilities, transformers
takes them out after. A search by CTranslate2 thus pays nothing for being turned away from what it wanted to say, and with
the rule the two can find different translations; without it they find the same.
"""

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasks.errors import UsageError

Device = Literal["auto", "cpu", "cuda"]
ComputeType = Literal["int8", "float32", "float16"]
Batching = Literal["auto", "length", "alone"]

Tokens = list[str]


@dataclass(frozen=True, slots=True)
class Decoding:
    """How a translation is searched for; the paper's Table 2."""

    beam_size: int = 5
    length_penalty: float = 1.1
    no_repeat_ngram: int = 2
    max_tokens: int = 1024
    """Longest text and longest translation; a longer one is Untranslatable, never cut."""
    batch_tokens: int = 4096
    """Source tokens of a batch, at most, unless a single text has more."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    tokens: tuple[str, ...]
    """Without the code of the language; the last one is </s>, unless no end was found."""
    score: float
    """Logarithm of its probability under the no-repeat rule, divided by its length to the power of the penalty."""


class Search:
    """A converted model, for tokens."""

    def __init__(
        self,
        path: Path,
        device: Device,
        compute_type: ComputeType,
        threads: int | None,
        batching: Batching,
        decoding: Decoding,
        positions: int,
    ) -> None:
        """Open a model folder; `threads`: batches at once on the CPU (None: one a core); `positions`: the model's."""
        import ctranslate2

        self.device = choose_device(device)
        self.batching = _choose_batching(batching, self.device, compute_type)
        self._decoding, self._positions = decoding, positions
        workers = 1 if self.device == "cuda" else threads or len(os.sched_getaffinity(0))
        try:
            self._model = ctranslate2.Translator(
                str(path), self.device, compute_type=compute_type, inter_threads=workers, intra_threads=1
            )
        except (RuntimeError, ValueError) as error:
            raise UsageError(
                f"{path}: CTranslate2 {ctranslate2.__version__} cannot open it as {compute_type} on {self.device}: {error}"
            ) from error

    def find(self, sources: Sequence[Tokens], codes: Sequence[str], is_free: bool = False) -> list[Found]:
        """Return the best translation of each source; `codes`: the code of the language that each is wanted in.

        The search ends, as in the paper, when as many translations as beams have ended, though a better one may be
        under way. `is_free`: it goes on until three times as many have, and no token is forbidden.
        """
        decoding = self._decoding

        def start(places: list[int]) -> Any:
            return self._model.translate_batch(
                [sources[place] for place in places],
                target_prefix=[[codes[place]] for place in places],
                beam_size=decoding.beam_size,
                length_penalty=decoding.length_penalty,
                no_repeat_ngram_size=0 if is_free else decoding.no_repeat_ngram,
                patience=3 if is_free else 1,
                max_decoding_length=min(decoding.max_tokens, self._positions - 2),
                max_input_length=0,
                max_batch_size=0,
                return_scores=True,
                return_end_token=True,
                asynchronous=True,
            )

        results = self._run([len(source) for source in sources], [len(source) for source in sources], start)
        return [Found(tuple(result.hypotheses[0][1:]), result.scores[0]) for result in results]

    def weigh(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[list[float]]:
        """Return the logarithm of the probability of each token of a translation, without the no-repeat rule.

        A target begins with the code of its language, which is not weighed, and stands without </s>, which is.
        """

        def start(places: list[int]) -> Any:
            return self._model.score_batch(
                [sources[place] for place in places],
                [targets[place] for place in places],
                max_input_length=0,
                offset=1,
                asynchronous=True,
            )

        shapes = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        results = self._run(shapes, [sum(shape) for shape in shapes], start)
        return [list(result.log_probs) for result in results]

    def _run(self, shapes: Sequence[Hashable], lengths: Sequence[int], start: Callable[[list[int]], Any]) -> list[Any]:
        """Return what `start` gives for each place, started in batches of one shape each."""
        batches = list(self._batch(shapes, lengths))
        started = [(places, start(places)) for places in batches]
        found: list[Any] = [None] * len(shapes)
        for places, results in started:
            for place, result in zip(places, results, strict=True):
                found[place] = result.result()
        return found

    def _batch(self, shapes: Sequence[Hashable], lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield places in batches, the longest first: alone, or with others of the very same shape."""
        by_shape: dict[Hashable, list[int]] = {}
        for place, shape in enumerate(shapes):
            by_shape.setdefault(shape, []).append(place)
        for places in sorted(by_shape.values(), key=lambda places: -lengths[places[0]]):
            most = 1 if self.batching == "alone" else max(1, self._decoding.batch_tokens // lengths[places[0]])
            for first in range(0, len(places), most):
                yield places[first : first + most]


def choose_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return the device to compute on; UsageError when a GPU is wanted and there is none."""
    import ctranslate2

    if device == "cpu":
        return "cpu"
    if ctranslate2.get_cuda_device_count() > 0:
        return "cuda"
    if device == "cuda":
        raise UsageError("device cuda: CTranslate2 finds no GPU on this machine; give auto or cpu")
    return "cpu"


def _choose_batching(batching: Batching, device: str, compute_type: ComputeType) -> Literal["length", "alone"]:
    """Return how texts are batched; `auto` is the fastest way that is exact."""
    if batching != "auto":
        return batching
    return "length" if device == "cpu" and compute_type == "int8" else "alone"
