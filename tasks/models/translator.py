"""NLLB translation models on CTranslate2: text to text (Translator), by beam search in bit-exact batches (Search).

MultiHal translates with NLLB-200 3.3B by beam search (paper, §2.4, Table 2). The encoder reads `<code of the source
language> tokens </s>` (`tokens </s> <code>` in older checkpoints), and the output starts with the code of the target
language. SentencePiece itself splits texts; it gives the same tokens as the Hugging Face tokenizer.

The embedded translator, `embedded-nllb-1`, is no real NLLB: a tiny model of the same architecture, trained on the
sentence forms and labels of the embedded world (data/models/train_translator.py). It refuses texts with unknown words,
and was trained to refuse texts of known words unlike its training texts. It also refuses when unsure, by the least
probable token of the translation. That may be the fault of the search, which forbids repeating two tokens and ends
early (Table 2), so such a text is searched once more without either; if still unsure, it is refused. Real NLLB models
have none of these limits.

With a large model, one batch for each text, as floats need, is far slower; bench/speed/models/translate.py measures how
much. Where rows get the same bits in products of certain sizes (`devices.find_amd_onednn_matmul_instructions`), float32 searches texts of
one length together, anchored: the last texts of the batch are forced to continue to the last step. So no product of a
step has too few rows, even if all other texts but one have ended (AVX-512), and the rows summed in another order, the
last, always belong to the anchors (AVX2). A search that has not ended when its anchors end starts again with more
steps. A single text gets anchors too, so its bits are the same as in any batch.

CTranslate2 removes tokens that the no-repeat rule forbids before it computes probabilities, transformers after. So
CTranslate2's search pays nothing when the rule blocks its first choice, and with the rule the two can find different
translations; without it they find the same.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import babel

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.rows import StrictModel
from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.errors import UsageError
from factmill.tasks.models.devices import (
    Device,
    MatmulInstructions,
    choose_compute_type_by_weights,
    choose_ctranslate2_device,
    count_workers,
    find_amd_onednn_matmul_instructions,
    format_compute_type_and_device,
    open_ctranslate2_model,
    resolve_identity_device,
)
from factmill.tasks.models.exact_batches import (
    MAX_EXACT_ROWS_AVX2,
    MIN_EXACT_ROWS_AVX512,
    Batching,
    choose_batching,
    run_batches,
)
from factmill.tasks.models.model_folder import (
    ModelManifest,
    load_manifest_and_check_sizes,
    load_verified_manifest,
    parse_settings_in_manifest,
    resolve_model_folder,
)
from factmill.tasks.text.translating.placeholders import list_letter_runs
from factmill.tasks.text.translating.translation import (
    SOURCE_LANGUAGE,
    PathPart,
    TranslatedPath,
    TranslationOutcome,
    TranslationRequest,
    UntranslatableReason,
    translate_path_parts,
    translate_texts,
)

EMBEDDED_TRANSLATOR = "embedded-nllb-1"
"""Name of the embedded translator; its identity also contains the digest of its model files."""
EMBEDDED_TRANSLATOR_FOLDER = ASSETS_ROOT / "data" / "models" / "embedded-translator"

NLLB_SENTENCEPIECE_FILE = "sentencepiece.bpe.model"
KNOWN_WORDS_FILE = "known_words.txt"
END_TOKEN = "</s>"


TokenList = list[str]


@dataclass(frozen=True, slots=True)
class BeamSearchOptions:
    """Options of the beam search; defaults from the paper's Table 2."""

    beam_size: int = 5
    length_penalty: float = 1.1
    no_repeat_ngram: int = 2
    max_tokens: int = 1024
    """Longest text and longest translation; a longer one is an UntranslatableReason, never cut."""
    batch_tokens: int = 4096
    """Most source tokens of a batch, unless a single text has more."""
    batch_texts: int = 64
    """Most texts of a batch: each takes a float for every beam and token of the vocabulary, 330 MB for 64 texts with
    NLLB's, and more texts do not make a core faster (bench/speed/models/translate.py)."""


@dataclass(frozen=True, slots=True)
class BatchInvariantSearchTextCounts:
    """Sizes of a search with anchors, which give each text the same bits in every batch."""

    anchors: int
    """Texts at the end of a batch that continue to the last step."""
    max_texts: int
    """Most texts besides the anchors."""
    sizes: tuple[int, ...]
    """Allowed numbers of texts, anchors included, or any above the last; the first text is repeated to reach one."""
    max_short_tokens: int = 0
    """Tokens of a text up to which every size is allowed; for longer texts only the last."""

    def count_filling(self, texts: int, length: int) -> int:
        """Return how often to repeat the first of some texts of one length to fill a search up."""
        sizes = self.sizes if length <= self.max_short_tokens else self.sizes[-1:]
        wanted = texts + self.anchors
        return next((size for size in sizes if size >= wanted), wanted) - wanted


@dataclass(frozen=True, slots=True)
class BeamSearchResult:
    """The best translation of a search, as tokens."""

    tokens: tuple[str, ...]
    """Without the language code; the last one is </s>, unless no end was found."""
    score: float
    """Log probability under the no-repeat rule, divided by the length to the power of the penalty."""

    @classmethod
    def from_ctranslate2(cls, result: Any) -> "BeamSearchResult":
        """Return the best of CTranslate2's hypotheses."""
        return cls(tuple(result.hypotheses[0][1:]), result.scores[0])


class TokenLevelTranslationModel:
    """Beam search and scoring of token lists by a converted model."""

    def __init__(
        self,
        path: Path,
        device: Device,
        compute_type: ComputeType,
        threads: int | None,
        batching: Batching,
        decoding: BeamSearchOptions,
        positions: int,
        made_with: str,
    ) -> None:
        """Open a model folder; `threads`: parallel batches on the CPU (None: one a core); `positions`: the model's."""
        self.device = choose_ctranslate2_device(device)
        self.batching = choose_batching(batching, self.device, compute_type)
        is_float = batching == "auto" and compute_type == "float32"
        self.anchored_batching = (
            choose_batch_invariant_search_text_counts(find_amd_onednn_matmul_instructions(self.device), decoding)
            if is_float
            else None
        )
        self._decoding, self._longest = decoding, min(decoding.max_tokens, positions - 2)
        workers = count_workers(self.device, threads)
        self._model = open_ctranslate2_model("Translator", path, self.device, compute_type, workers, made_with)

    def find_best_translations(
        self, sources: Sequence[TokenList], codes: Sequence[str], is_free: bool = False
    ) -> list[BeamSearchResult]:
        """Return the best translation of each source; `codes`: the code of each target language.

        As in the paper, the search ends when as many translations as beams have ended, though a better one may be
        unfinished. `is_free`: it continues until three times as many have ended, and no token is forbidden.
        """
        lengths = [len(source) for source in sources]
        if self.anchored_batching and not is_free:
            return self._find_anchored(sources, codes, lengths, self.anchored_batching)

        def start(places: list[int]) -> Callable[[], list[Any]]:
            prefixes = [[codes[place]] for place in places]
            return self._start_search([sources[place] for place in places], prefixes, self._longest, 1, is_free)

        return [BeamSearchResult.from_ctranslate2(result) for result in self._run_in_batches(lengths, lengths, start)]

    def _find_anchored(
        self,
        sources: Sequence[TokenList],
        codes: Sequence[str],
        lengths: Sequence[int],
        company: BatchInvariantSearchTextCounts,
    ) -> list[BeamSearchResult]:
        """Return the best translation of each source, searched together with anchors."""
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
                wait = self._start_search(texts, prefixes, last, self._decoding.beam_size)
                return lambda: wait()[: len(among)]

            shapes = [lengths[place] for place in left]
            results = self._run_in_batches(shapes, shapes, start, "length", company.max_texts)
            found |= dict(zip(left, results, strict=True))
            # with fewer ends than beams before the last step, one of the hypotheses reaches that step
            left = [
                place
                for place, result, last in zip(left, results, steps, strict=True)
                if last < self._longest and any(len(hypothesis) >= last for hypothesis in result.hypotheses)
            ]
            reach *= 4
        return [BeamSearchResult.from_ctranslate2(found[place]) for place in range(len(sources))]

    def _start_search(
        self, sources: list[TokenList], prefixes: list[TokenList], steps: int, hypotheses: int, is_free: bool = False
    ) -> Callable[[], list[Any]]:
        """Start a search of at most `steps` steps; return a function that waits for the result of each source."""
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

    def score_translations(self, sources: Sequence[TokenList], targets: Sequence[TokenList]) -> list[list[float]]:
        """Return the log probability of each token of a translation, without the no-repeat rule.

        A target begins with its language code, which is not scored, and omits </s>, which is.
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
        results = self._run_in_batches(shapes, [sum(shape) for shape in shapes], start)
        return [list(result.log_probs) for result in results]

    def _run_in_batches(
        self,
        shapes: Sequence[Hashable],
        lengths: Sequence[int],
        start: Callable[[list[int]], Callable[[], list[Any]]],
        batching: Literal["length", "alone"] | None = None,
        batch_texts: int | None = None,
    ) -> list[Any]:
        """Run `start` on batches of one shape each; return the result of each place."""
        way, most = batching or self.batching, batch_texts or self._decoding.batch_texts
        found = dict(run_batches(shapes, lengths, way, self._decoding.batch_tokens, start, most))
        return [found[place] for place in range(len(shapes))]


def choose_batch_invariant_search_text_counts(
    matmul_instructions: MatmulInstructions | None, decoding: BeamSearchOptions
) -> BatchInvariantSearchTextCounts | None:
    """Return the sizes of an anchored search for an instruction set (`devices.find_amd_onednn_matmul_instructions`); None: each text alone.

    The first step has a row for each text, later steps one for each beam, and the encoder one for each token. With
    AVX2, in a search of 4, 6 or 12 texts the leftover rows all belong to the last text, whatever the length, and
    CTranslate2 does not reorder so few texts. The encoder's products have one summation order up to MOST_ROWS; where
    they may be larger, texts of one length get one size.
    """
    beams = decoding.beam_size
    if matmul_instructions == "avx512":
        return BatchInvariantSearchTextCounts(
            math.ceil(MIN_EXACT_ROWS_AVX512 / beams), decoding.batch_texts, (MIN_EXACT_ROWS_AVX512,)
        )
    if matmul_instructions == "avx2" and beams <= 12:
        anchors = math.ceil(3 / beams)
        return BatchInvariantSearchTextCounts(anchors, 12 - anchors, (4, 6, 12), MAX_EXACT_ROWS_AVX2 // 12)
    return None


class TranslatorSettings(StrictModel):
    """How to use a converted translator (ModelManifest.settings)."""

    identity: str
    """The model's name in rows and reports."""
    codes: dict[str, str]
    """Language → the model's code; English and every language it translates to."""
    code_first: bool
    """True if the code of the source language precedes the text, False if it follows it."""
    max_tokens: int
    """Context length of the model."""
    least_probability: float | None = None
    """A translation with a less probable token is refused as unsure; None: none is refused."""
    refusal: str | None = None
    """The model's trained output for a text unlike all others; None: it has none."""


class Translator:
    """A converted NLLB model."""

    def __init__(
        self,
        path: Path,
        device: Device = "auto",
        compute_type: ComputeType | None = None,
        threads: int | None = None,
        batching: Batching = "auto",
        decoding: BeamSearchOptions | None = None,
    ) -> None:
        """Open a model folder; `threads` batches run in parallel on the CPU (default: one a core)."""
        import sentencepiece

        manifest = load_verified_manifest(path, "translator")
        self.settings = parse_settings_in_manifest(path, manifest, TranslatorSettings)
        self.decoding = decoding or BeamSearchOptions()
        self.no_repeat_ngram = self.decoding.no_repeat_ngram
        positions, made_with = self.settings.max_tokens, manifest.made_with
        numbers = choose_compute_type_by_weights(path, compute_type)
        self.search = TokenLevelTranslationModel(
            path, device, numbers, threads, batching, self.decoding, positions, made_with
        )
        self.identity = _format_translator_identity(manifest, numbers, self.search.device, self.decoding)
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(path / NLLB_SENTENCEPIECE_FILE))
        words = path / KNOWN_WORDS_FILE
        self._known_words = frozenset(words.read_text("utf-8").split("\n")) if words.is_file() else None

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages it translates to."""
        return tuple(language for language in self.settings.codes if language != SOURCE_LANGUAGE)

    def translate(self, asked: Sequence[TranslationRequest]) -> list[TranslationOutcome]:
        """Translate English texts, each into its language; numbers, dates and ids stay as they are."""
        return translate_texts(asked, self)

    def translate_path_parts(self, asked: Sequence[tuple[Sequence[PathPart], str]]) -> list[TranslatedPath]:
        """Translate the parts of paths, each path into its language."""
        return translate_path_parts(asked, self)

    def tokenize(self, text: str) -> TokenList:
        """Split a text into SentencePiece pieces."""
        return list(self._pieces.encode(text, out_type=str))

    def is_known(self, piece: str) -> bool:
        """True if a piece is in the vocabulary."""
        return bool(self._pieces.piece_to_id(piece) != self._pieces.unk_id())

    def run(self, asked: Sequence[TranslationRequest]) -> list[TranslationOutcome]:
        """Translate texts as they are, without protecting numbers."""
        if missing := {language for _, language in asked} - set(self.languages):
            raise UsageError(f"{self.identity} translates to {', '.join(self.languages)}, not to {min(missing)}")
        outcomes: list[TranslationOutcome] = [""] * len(asked)
        sources: dict[int, TokenList] = {}
        for place, (text, _) in enumerate(asked):
            checked = self._check_source(text)
            if isinstance(checked, UntranslatableReason):
                outcomes[place] = checked
            elif checked:
                sources[place] = checked
        codes = {place: self.settings.codes[asked[place][1]] for place in sources}
        found = self._search(sources, codes, is_free=False)
        again = [
            p
            for p, outcome in found.items()
            if isinstance(outcome, UntranslatableReason) and outcome.reason == "unsure"
        ]
        if again:
            found |= self._search({p: sources[p] for p in again}, {p: codes[p] for p in again}, is_free=True)
        return [found.get(place, outcome) for place, outcome in enumerate(outcomes)]

    def find_best_translations(self, asked: Sequence[TranslationRequest]) -> list[BeamSearchResult]:
        """Return tokens and score of each translation, unchecked, for tests and benchmarks."""
        codes = [self.settings.codes[language] for _, language in asked]
        return self.search.find_best_translations([self._frame(self.tokenize(text)) for text, _ in asked], codes)

    def _check_source(self, text: str) -> TokenList | UntranslatableReason:
        """Return the tokens that the encoder reads, none for an empty text, or why the text cannot be translated."""
        pieces = self.tokenize(text)
        if not pieces:
            return []
        if outside := [piece for piece in pieces if not self.is_known(piece)]:
            return UntranslatableReason("unknown_characters", f"not in the vocabulary: {outside[0]!r}")
        known = self._known_words
        if known is not None and (strange := [word for word in list_letter_runs(text) if word not in known]):
            return UntranslatableReason("unknown_words", f"not among the words it was taught: {strange[0]!r}")
        source = self._frame(pieces)
        if len(source) > min(self.settings.max_tokens, self.decoding.max_tokens):
            return UntranslatableReason(
                "too_long", f"{len(source)} tokens; at most {self.settings.max_tokens} are read"
            )
        return source

    def _frame(self, pieces: TokenList) -> TokenList:
        code = self.settings.codes[SOURCE_LANGUAGE]
        return [code, *pieces, END_TOKEN] if self.settings.code_first else [*pieces, END_TOKEN, code]

    def _search(
        self, sources: Mapping[int, TokenList], codes: Mapping[int, str], is_free: bool
    ) -> dict[int, TranslationOutcome]:
        """Return the translation for each place, or why there is none."""
        best = self.search.find_best_translations(list(sources.values()), list(codes.values()), is_free)
        found = dict(zip(sources, best, strict=True))
        outcomes: dict[int, TranslationOutcome] = {
            place: UntranslatableReason("unfinished", f"no end within {len(one.tokens)} tokens")
            for place, one in found.items()
            if not one.tokens or one.tokens[-1] != END_TOKEN
        }
        found_tokens = {place: list(one.tokens[:-1]) for place, one in found.items() if place not in outcomes}
        least = self.settings.least_probability
        if least is not None:
            targets = [[codes[place], *pieces] for place, pieces in found_tokens.items()]
            logs = self.search.score_translations([sources[place] for place in found_tokens], targets)
            for place, probability in zip(found_tokens, map(_compute_least_probability, logs), strict=True):
                if probability < least:
                    detail = f"a token of probability {probability:.3f}; at least {least:.3f} is wanted"
                    outcomes[place] = UntranslatableReason("unsure", detail)
        return outcomes | {
            place: self._decode_pieces(pieces) for place, pieces in found_tokens.items() if place not in outcomes
        }

    def _decode_pieces(self, pieces: Sequence[str]) -> TranslationOutcome:
        if strange := [piece for piece in pieces if not self.is_known(piece)]:
            return UntranslatableReason("unreadable", f"the translation holds {strange[0]!r}")
        text = str(self._pieces.decode_pieces(list(pieces))).strip()
        if text == self.settings.refusal:
            return UntranslatableReason("not_taught", "words it was taught, in a text unlike those it was taught")
        return text or UntranslatableReason("unreadable", "the translation is empty")


def get_translator_identity(
    name_or_path: str | Path,
    home_folder: Path,
    device: Device = "auto",
    compute_type: ComputeType | None = None,
    decoding: BeamSearchOptions | None = None,
) -> str:
    """Return a translator's identity (`Translator.identity`) without opening it."""
    path = resolve_translator_folder(name_or_path, home_folder)
    manifest = load_manifest_and_check_sizes(path, "translator")
    numbers, computed_on = choose_compute_type_by_weights(path, compute_type), resolve_identity_device(device)
    return _format_translator_identity(manifest, numbers, computed_on, decoding or BeamSearchOptions())


def resolve_translator_folder(name_or_path: str | Path, home_folder: Path) -> Path:
    """Return the folder of a translator: `embedded-nllb-1`, by name (below the home) or by path; else UsageError."""
    if str(name_or_path) == EMBEDDED_TRANSLATOR:
        return EMBEDDED_TRANSLATOR_FOLDER
    return resolve_model_folder(str(name_or_path), home_folder, "translator", EMBEDDED_TRANSLATOR)


def _format_translator_identity(
    manifest: ModelManifest, compute_type: ComputeType, device: str, decoding: BeamSearchOptions
) -> str:
    """Format what translations depend on: the model and how it computes and searches, and Babel; not the batching."""
    asked = decoding.beam_size, decoding.length_penalty, decoding.no_repeat_ngram, decoding.max_tokens
    digest = digest_json([manifest.digest, [*asked, f"babel {babel.__version__}"]])
    name = manifest.settings.get("identity", manifest.name)
    return f"{name}@{digest[:16]}-{format_compute_type_and_device(compute_type, device)}"


def _compute_least_probability(logs: Sequence[float]) -> float:
    """Return the least probability of a token; beyond two digits CPUs differ (520 texts computed in ten ways)."""
    return round(math.exp(min(logs)), 2)
