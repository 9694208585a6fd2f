"""NLLB translation models, from texts to texts; translate_search.py has what lies between.

MultiHal translates with NLLB-200 3.3B by beam search (paper, §2.4, Table 2). A model shows `<code of the source language>
tokens </s>` to its encoder (`tokens </s> <code>` in checkpoints of the older manner) and starts its answer with the
code of the target language. Words are cut by SentencePiece itself, which gives what the Hugging Face tokenizer gives.

The embedded translator, `embedded-nllb-1`, is no real NLLB: a tiny model of the same architecture, taught the sentence
forms and labels of the embedded world (data/models/train_translator.py). It knows its words, and refuses texts with
others; of texts of its words that are unlike those it was taught, it was taught to say so. It also knows when it is
unsure, by the least probable token of what was found. That may be the fault of the search, which forbids to say two
tokens twice and ends early (Table 2), so such a text is searched for once more without either; when it is unsure again,
it refuses. Real NLLB models have none of these limits.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import babel

from tasks.assets import ROOT
from tasks.core.fingerprints import digest_json
from tasks.core.rows import StrictModel
from tasks.core.service_settings import ComputeType
from tasks.errors import UsageError
from tasks.models.devices import Device, choose_compute_type, describe_numbers, name_device
from tasks.models.exact_batches import Batching
from tasks.models.model_folder import ModelManifest, check_model, find_model, read_model, read_settings
from tasks.models.translate_search import Decoding, Found, Search, Tokens
from tasks.text.translating.protected import find_words
from tasks.text.translating.translation import (
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
        if again := [place for place, outcome in found.items() if _is_unsure(outcome)]:
            found |= self._search({p: sources[p] for p in again}, {p: codes[p] for p in again}, is_free=True)
        for place, outcome in found.items():
            outcomes[place] = outcome
        return outcomes

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
        if self._known_words is not None:
            strange = [word for word in find_words(text) if word not in self._known_words]
            if strange:
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
    search: list[float | str] = [
        decoding.beam_size,
        decoding.length_penalty,
        decoding.no_repeat_ngram,
        decoding.max_tokens,
    ]
    search.append(f"babel {babel.__version__}")
    name = manifest.settings.get("identity", manifest.name)
    return f"{name}@{digest_json([manifest.digest, search])[:16]}-{describe_numbers(compute_type, device)}"


def _round_least(logs: Sequence[float]) -> float:
    """Return the least probability of a token; beyond two digits CPUs differ (520 texts in ten ways of computing)."""
    return round(math.exp(min(logs)), 2)


def _is_unsure(outcome: Outcome) -> bool:
    return isinstance(outcome, Untranslatable) and outcome.reason == "unsure"
