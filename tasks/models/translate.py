"""NLLB translation models on CTranslate2: from texts to texts (Translator), and the search between, in batches that change nothing (Search).

MultiHal translates with NLLB-200 3.3B by beam search (paper, §2.4, Table 2). A model shows `<code of the source language>
tokens </s>` to its encoder (`tokens </s> <code>` in checkpoints of the older manner) and starts its answer with the
code of the target language. Words are cut by SentencePiece itself, which gives what the Hugging Face tokenizer gives.

The embedded translator, `embedded-nllb-1`, is no real NLLB: a tiny model of the same architecture, taught the sentence
forms and labels of the embedded world (data/models/train_translator.py). It knows its words, and refuses texts with
others; of texts of its words that are unlike those it was taught, it was taught to say so. It also knows when it is
unsure, by the least probable token of what was found. That may be the fault of the search, which forbids to say two
tokens twice and ends early (Table 2), so such a text is searched for once more without either; when it is unsure again,
it refuses. Real NLLB models have none of these limits.

With a large model a batch for each text, as floats are computed, is slower by far; bench/speed/models/translate.py says by how
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
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import babel

from factmill.tasks.assets import ROOT
from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.errors import UsageError
from factmill.tasks.models.devices import (
    Device,
    Multiplier,
    choose_compute_type,
    choose_device,
    count_workers,
    describe_numbers,
    find_multiplier,
    name_device,
    open_model,
)
from factmill.tasks.models.exact_batches import LEAST_ROWS, MOST_ROWS, Batching, choose_batching, run_batches
from factmill.tasks.models.model_folder import ModelManifest, check_model, find_model, read_model, read_settings
from factmill.tasks.text.translating.protected import find_words
from factmill.tasks.text.translating.translation import (
    SOURCE_LANGUAGE,
    Asked,
    Outcome,
    PathPart,
    TranslatedPath,
    Untranslatable,
    translate_paths,
    translate_texts,
)

EMBEDDED = "embedded-nllb-1"
"""Name of the embedded translator; its identity holds the digest of what it was taught as well."""
EMBEDDED_FOLDER = ROOT / "data" / "models" / "embedded-translator"

VOCABULARY = "sentencepiece.bpe.model"
KNOWN_WORDS = "known_words.txt"
END = "</s>"


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
    more do not make a core quicker (bench/speed/models/translate.py)."""


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

    @classmethod
    def of(cls, result: Any) -> "Found":
        """Return the best of CTranslate2's hypotheses."""
        return cls(tuple(result.hypotheses[0][1:]), result.scores[0])


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

        return [Found.of(result) for result in self._run(lengths, lengths, start)]

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
        return [Found.of(found[place]) for place in range(len(sources))]

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
        decoding = self._decoding
        found = dict(
            run_batches(
                shapes,
                lengths,
                batching or self.batching,
                decoding.batch_tokens,
                start,
                batch_texts or decoding.batch_texts,
            )
        )
        return [found[place] for place in range(len(shapes))]


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


class TranslatorSettings(StrictModel):
    """How a converted model is to be used (ModelManifest.settings)."""

    identity: str
    """Name that rows and reports give."""
    codes: dict[str, str]
    """Language → the model's code; English and every language it translates to."""
    code_first: bool
    """True when the code of the source language stands before the text, False when it stands at the end."""
    max_tokens: int
    """Positions that the model knows."""
    least_probability: float | None = None
    """A translation is refused as unsure when a token of it has a lower probability; None: none is refused."""
    refusal: str | None = None
    """What the model was taught to say of a text unlike all others; None: it was taught no such thing."""


class Translator:
    """A converted NLLB model."""

    def __init__(
        self,
        path: Path,
        device: Device = "auto",
        compute_type: ComputeType | None = None,
        threads: int | None = None,
        batching: Batching = "auto",
        decoding: Decoding | None = None,
    ) -> None:
        """Open a model folder; `threads` batches run at once on the CPU (default: one a core)."""
        import sentencepiece

        manifest = check_model(path, "translator")
        self.settings = read_settings(path, manifest, TranslatorSettings)
        self.decoding = decoding or Decoding()
        self.no_repeat_ngram = self.decoding.no_repeat_ngram
        positions, made_with = self.settings.max_tokens, manifest.made_with
        numbers = choose_compute_type(path, compute_type)
        self.search = Search(path, device, numbers, threads, batching, self.decoding, positions, made_with)
        self.identity = _identify(manifest, numbers, self.search.device, self.decoding)
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(path / VOCABULARY))
        words = path / KNOWN_WORDS
        self._known_words = frozenset(words.read_text("utf-8").split("\n")) if words.is_file() else None

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages it translates to."""
        return tuple(language for language in self.settings.codes if language != SOURCE_LANGUAGE)

    def translate(self, asked: Sequence[Asked]) -> list[Outcome]:
        """Translate English texts, each into its language; numbers, dates and ids stay as they are."""
        return translate_texts(asked, self)

    def translate_paths(self, asked: Sequence[tuple[Sequence[PathPart], str]]) -> list[TranslatedPath]:
        """Translate the parts of paths, each path into its language."""
        return translate_paths(asked, self)

    def tokenize(self, text: str) -> Tokens:
        """Return the pieces of a text."""
        return list(self._pieces.encode(text, out_type=str))

    def is_known(self, piece: str) -> bool:
        """True when a piece stands in the vocabulary."""
        return bool(self._pieces.piece_to_id(piece) != self._pieces.unk_id())

    def run(self, asked: Sequence[Asked]) -> list[Outcome]:
        """Translate texts as they stand, without regard to numbers."""
        if missing := {language for _, language in asked} - set(self.languages):
            raise UsageError(f"{self.identity} translates to {', '.join(self.languages)}, not to {min(missing)}")
        outcomes: list[Outcome] = [""] * len(asked)
        sources: dict[int, Tokens] = {}
        for place, (text, _) in enumerate(asked):
            checked = self._check_source(text)
            if isinstance(checked, Untranslatable):
                outcomes[place] = checked
            elif checked:
                sources[place] = checked
        codes = {place: self.settings.codes[asked[place][1]] for place in sources}
        found = self._search(sources, codes, is_free=False)
        unsure = (
            p for p, outcome in found.items() if isinstance(outcome, Untranslatable) and outcome.reason == "unsure"
        )
        if again := list(unsure):
            found |= self._search({p: sources[p] for p in again}, {p: codes[p] for p in again}, is_free=True)
        return [found.get(place, outcome) for place, outcome in enumerate(outcomes)]

    def find(self, asked: Sequence[Asked]) -> list[Found]:
        """Return tokens and score of each translation, without any check: what tests and benchmarks compare."""
        codes = [self.settings.codes[language] for _, language in asked]
        return self.search.find([self._frame(self.tokenize(text)) for text, _ in asked], codes)

    def weigh(self, asked: Sequence[Asked], translations: Sequence[str]) -> list[float]:
        """Return the probability of the least probable token of each given translation, as it is compared."""
        sources = [self._frame(self.tokenize(text)) for text, _ in asked]
        targets = [
            [self.settings.codes[language], *self.tokenize(translation)]
            for (_, language), translation in zip(asked, translations, strict=True)
        ]
        return [_round_least(logs) for logs in self.search.weigh(sources, targets)]

    def _check_source(self, text: str) -> Tokens | Untranslatable:
        """Return the tokens that the encoder is shown, none for an empty text, or why the text cannot be translated."""
        pieces = self.tokenize(text)
        if not pieces:
            return []
        if outside := [piece for piece in pieces if not self.is_known(piece)]:
            return Untranslatable("unknown_characters", f"not in the vocabulary: {outside[0]!r}")
        known = self._known_words
        if known is not None and (strange := [word for word in find_words(text) if word not in known]):
            return Untranslatable("unknown_words", f"not among the words it was taught: {strange[0]!r}")
        source = self._frame(pieces)
        if len(source) > min(self.settings.max_tokens, self.decoding.max_tokens):
            return Untranslatable("too_long", f"{len(source)} tokens; at most {self.settings.max_tokens} are read")
        return source

    def _frame(self, pieces: Tokens) -> Tokens:
        code = self.settings.codes[SOURCE_LANGUAGE]
        return [code, *pieces, END] if self.settings.code_first else [*pieces, END, code]

    def _search(self, sources: Mapping[int, Tokens], codes: Mapping[int, str], is_free: bool) -> dict[int, Outcome]:
        """Return for each place the text that was found, or why there is none."""
        found = dict(zip(sources, self.search.find(list(sources.values()), list(codes.values()), is_free), strict=True))
        outcomes: dict[int, Outcome] = {
            place: Untranslatable("unfinished", f"no end within {len(one.tokens)} tokens")
            for place, one in found.items()
            if not one.tokens or one.tokens[-1] != END
        }
        said = {place: list(one.tokens[:-1]) for place, one in found.items() if place not in outcomes}
        least = self.settings.least_probability
        if least is not None:
            targets = [[codes[place], *pieces] for place, pieces in said.items()]
            logs = self.search.weigh([sources[place] for place in said], targets)
            for place, probability in zip(said, map(_round_least, logs), strict=True):
                if probability < least:
                    detail = f"a token of probability {probability:.3f}; at least {least:.3f} is wanted"
                    outcomes[place] = Untranslatable("unsure", detail)
        return outcomes | {place: self._spell(pieces) for place, pieces in said.items() if place not in outcomes}

    def _spell(self, pieces: Sequence[str]) -> Outcome:
        if strange := [piece for piece in pieces if not self.is_known(piece)]:
            return Untranslatable("unreadable", f"the translation holds {strange[0]!r}")
        text = str(self._pieces.decode_pieces(list(pieces))).strip()
        if text == self.settings.refusal:
            return Untranslatable("not_taught", "words it was taught, in a text unlike those it was taught")
        return text or Untranslatable("unreadable", "the translation is empty")


def identify_translator(
    name_or_path: str | Path,
    home_folder: Path,
    device: Device = "auto",
    compute_type: ComputeType | None = None,
    decoding: Decoding | None = None,
) -> str:
    """Return a translator's identity without opening it (`Translator.identity`)."""
    path = find_translator(name_or_path, home_folder)
    manifest = read_model(path, "translator")
    return _identify(manifest, choose_compute_type(path, compute_type), name_device(device), decoding or Decoding())


def find_translator(name_or_path: str | Path, home_folder: Path) -> Path:
    """Return the folder of a translator: `embedded-nllb-1`, a model of a home by name, or any by path; else UsageError."""
    if str(name_or_path) == EMBEDDED:
        return EMBEDDED_FOLDER
    return find_model(str(name_or_path), home_folder, "translator", EMBEDDED)


def _identify(manifest: ModelManifest, compute_type: ComputeType, device: str, decoding: Decoding) -> str:
    """Return what a translation depends on: the model, how it computes and searches, and whose forms dates and numbers take;
    not how it is batched."""
    asked = decoding.beam_size, decoding.length_penalty, decoding.no_repeat_ngram, decoding.max_tokens
    search = [*asked, f"babel {babel.__version__}"]
    name = manifest.settings.get("identity", manifest.name)
    return f"{name}@{digest_json([manifest.digest, search])[:16]}-{describe_numbers(compute_type, device)}"


def _round_least(logs: Sequence[float]) -> float:
    """Return the least probability of a token; beyond two digits CPUs differ (520 texts in ten ways of computing)."""
    return round(math.exp(min(logs)), 2)
