"""The search for translations on CTranslate2, in batches that change nothing (exact_batches.py).

With a large model a batch for each text, as floats are computed, is slower by far; tests/speed/models/translate.py says by how
much.

CTranslate2 takes tokens that the no-repeat rule forbids out before it turns what is left into probabilities, transformers
takes them out after. A search by CTranslate2 thus pays nothing for being turned away from what it wanted to say, and with
the rule the two can find different translations; without it they find the same.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.models.devices import Device, choose_device, count_workers, open_model
from tasks.models.exact_batches import Batching, choose_batching, run_batches
from tasks.settings import ComputeType

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
    batch_texts: int = 64
    """Texts of a batch, at most: each takes a float for every beam and token of the vocabulary, 330 MB of NLLB's in all, and
    more do not make a core quicker (tests/speed/models/translate.py)."""


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
        made_with: str,
    ) -> None:
        """Open a model folder; `threads`: batches at once on the CPU (None: one a core); `positions`: the model's."""
        self.device = choose_device(device)
        self.batching = choose_batching(batching, self.device, compute_type)
        self._decoding, self._positions = decoding, positions
        workers = count_workers(self.device, threads)
        self._model = open_model("Translator", path, self.device, compute_type, workers, made_with)

    def find(self, sources: Sequence[Tokens], codes: Sequence[str], is_free: bool = False) -> list[Found]:
        """Return the best translation of each source; `codes`: the code of the language that each is wanted in.

        The search ends, as in the paper, when as many translations as beams have ended, though a better one may be
        under way. `is_free`: it goes on until three times as many have, and no token is forbidden.
        """
        decoding = self._decoding

        def start(places: list[int]) -> Callable[[], list[Any]]:
            begun = self._model.translate_batch(
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
            return lambda: [each.result() for each in begun]

        results = self._run([len(source) for source in sources], [len(source) for source in sources], start)
        return [Found(tuple(result.hypotheses[0][1:]), result.scores[0]) for result in results]

    def weigh(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[list[float]]:
        """Return the logarithm of the probability of each token of a translation, without the no-repeat rule.

        A target begins with the code of its language, which is not weighed, and stands without </s>, which is.
        """

        def start(places: list[int]) -> Callable[[], list[Any]]:
            begun = self._model.score_batch(
                [sources[place] for place in places],
                [targets[place] for place in places],
                max_input_length=0,
                offset=1,
                asynchronous=True,
            )
            return lambda: [each.result() for each in begun]

        shapes = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        results = self._run(shapes, [sum(shape) for shape in shapes], start)
        return [list(result.log_probs) for result in results]

    def _run(
        self, shapes: Sequence[Hashable], lengths: Sequence[int], start: Callable[[list[int]], Callable[[], list[Any]]]
    ) -> list[Any]:
        """Return what `start` gives for each place, started in batches of one shape each."""
        found: list[Any] = [None] * len(shapes)
        decoding = self._decoding
        batches = run_batches(shapes, lengths, self.batching, decoding.batch_tokens, start, decoding.batch_texts)
        for place, result in batches:
            found[place] = result
        return found
