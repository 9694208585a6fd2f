"""The search for translations on CTranslate2, in batches that change nothing (exact_batches.py).

With a large model a batch for each text, as floats are computed, is slower by far; tests/speed/models/translate.py says by how
much. Where rows keep their bits in products of a kind (`devices.find_multiplier`), texts of one length are searched for
together in float32, anchored: last among them go some that are made to last to the last step. So no product of a step ever
has too few rows, also when all but one text have ended (AVX-512), and the rows that a product adds up another way, its last,
are always theirs (AVX2). A search that has not ended by the step up to which they last is begun anew with more steps. A
single text goes in company too, so its bits are those of every batch.

CTranslate2 takes tokens that the no-repeat rule forbids out before it turns what is left into probabilities, transformers
takes them out after. A search by CTranslate2 thus pays nothing for being turned away from what it wanted to say, and with
the rule the two can find different translations; without it they find the same.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tasks.core.service_settings import ComputeType
from tasks.models.devices import Device, Multiplier, choose_device, count_workers, find_multiplier, open_model
from tasks.models.exact_batches import LEAST_ROWS, MOST_ROWS, Batching, choose_batching, run_batches

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
class Company:
    """What texts are searched for with."""

    anchors: int
    """So many texts, the last ones, last to the last step."""
    most: int
    """Texts beside the anchors, at most."""
    sizes: tuple[int, ...]
    """A search has so many texts, anchors among them, or more than the last of these: the first text again fills it up."""
    short: int = 0
    """Tokens of a text up to which any of the sizes will do; of longer ones the last."""

    def count_filling(self, texts: int, length: int) -> int:
        """Return how often the first of some texts of one length is searched for again, to fill a search up."""
        sizes = self.sizes if length <= self.short else self.sizes[-1:]
        wanted = texts + self.anchors
        return next((size for size in sizes if size >= wanted), wanted) - wanted


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
        is_float = batching == "auto" and compute_type == "float32"
        self.company = gather(find_multiplier(self.device), decoding) if is_float else None
        self._decoding, self._longest = decoding, min(decoding.max_tokens, positions - 2)
        workers = count_workers(self.device, threads)
        self._model = open_model("Translator", path, self.device, compute_type, workers, made_with)

    def find(self, sources: Sequence[Tokens], codes: Sequence[str], is_free: bool = False) -> list[Found]:
        """Return the best translation of each source; `codes`: the code of the language that each is wanted in.

        The search ends, as in the paper, when as many translations as beams have ended, though a better one may be
        under way. `is_free`: it goes on until three times as many have, and no token is forbidden.
        """
        lengths = [len(source) for source in sources]
        if self.company and not is_free:
            return self._find_anchored(sources, codes, lengths, self.company)

        def start(places: list[int]) -> Callable[[], list[Any]]:
            prefixes = [[codes[place]] for place in places]
            return self._search([sources[place] for place in places], prefixes, self._longest, 1, is_free)

        return [_read(result) for result in self._run(lengths, lengths, start)]

    def _find_anchored(
        self, sources: Sequence[Tokens], codes: Sequence[str], lengths: Sequence[int], company: Company
    ) -> list[Found]:
        """Return the best translation of each source, searched for in company that lasts."""
        found: dict[int, Any] = {}
        left, reach = list(range(len(sources))), 1
        anchors = company.anchors
        while left:
            steps = [min(self._longest, reach * (lengths[place] + lengths[place] // 2 + 8)) for place in left]

            def start(among: list[int], left: list[int] = left, steps: list[int] = steps) -> Callable[[], list[Any]]:
                filled = among + among[:1] * company.count_filling(len(among), lengths[left[among[0]]])
                some, last = [left[each] for each in filled], steps[among[0]]
                texts = [sources[place] for place in some] + [sources[some[0]]] * anchors
                prefixes = [[codes[place]] for place in some] + [[codes[some[0]]] * last] * anchors
                wait = self._search(texts, prefixes, last, self._decoding.beam_size)
                return lambda: wait()[: len(among)]

            shapes = [lengths[place] for place in left]
            results = self._run(shapes, shapes, start, "length", company.most)
            found |= dict(zip(left, results, strict=True))
            # of fewer ends than beams before the last step, one of as many hypotheses goes to that step
            left = [
                place
                for place, result, last in zip(left, results, steps, strict=True)
                if last < self._longest and any(len(hypothesis) >= last for hypothesis in result.hypotheses)
            ]
            reach *= 4
        return [_read(found[place]) for place in range(len(sources))]

    def _search(
        self, sources: list[Tokens], prefixes: list[Tokens], steps: int, hypotheses: int, is_free: bool = False
    ) -> Callable[[], list[Any]]:
        """Begin a search of at most so many steps; return what waits for its results, each the best of what it found."""
        decoding = self._decoding
        begun = self._model.translate_batch(
            sources,
            target_prefix=prefixes,
            beam_size=decoding.beam_size,
            num_hypotheses=hypotheses,
            length_penalty=decoding.length_penalty,
            no_repeat_ngram_size=0 if is_free else decoding.no_repeat_ngram,
            patience=3 if is_free else 1,
            max_decoding_length=steps,
            max_input_length=0,
            max_batch_size=0,
            return_scores=True,
            return_end_token=True,
            asynchronous=True,
        )
        return lambda: [each.result() for each in begun]

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
        self,
        shapes: Sequence[Hashable],
        lengths: Sequence[int],
        start: Callable[[list[int]], Callable[[], list[Any]]],
        batching: Literal["length", "alone"] | None = None,
        batch_texts: int | None = None,
    ) -> list[Any]:
        """Return what `start` gives for each place, started in batches of one shape each."""
        found: list[Any] = [None] * len(shapes)
        manner, tokens = batching or self.batching, self._decoding.batch_tokens
        for place, result in run_batches(
            shapes, lengths, manner, tokens, start, batch_texts or self._decoding.batch_texts
        ):
            found[place] = result
        return found


def gather(multiplier: Multiplier | None, decoding: Decoding) -> Company | None:
    """Return what texts are searched for with, by what multiplies (`devices.find_multiplier`); None: each alone.

    A first step has a row for each text, each other one a row for each of its beams, and the encoder one for each token.
    With AVX2 a search of 4, 6 or 12 texts leaves none but rows of its last text over, whatever their length, and CTranslate2
    leaves so few texts in their order. The encoder's products are of one way of adding up to MOST_ROWS; where they may be
    larger, they are of one size for texts of one length.
    """
    beams = decoding.beam_size
    if multiplier == "avx512":
        return Company(math.ceil(LEAST_ROWS / beams), decoding.batch_texts, (LEAST_ROWS,))
    if multiplier == "avx2" and beams <= 12:
        anchors = math.ceil(3 / beams)
        return Company(anchors, 12 - anchors, (4, 6, 12), MOST_ROWS // 12)
    return None


def _read(result: Any) -> Found:
    """Return the best of the hypotheses."""
    return Found(tuple(result.hypotheses[0][1:]), result.scores[0])
