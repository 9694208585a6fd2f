"""Translate questions, answers and paths with any model (MultiHal, paper §2.4, Table 2).

Text that cannot be translated correctly becomes a value with a reason, never a garbled text. Models see no numbers,
dates and ids (text.translating.protected); where one loses any, the text is translated in the stretches between them.
In questions and answers they then take the language's own format (`localize_dates_and_numbers`). In paths they are values and stay
unchanged, except that a unit known to CLDR takes the plural form for its value.

The parts of a path are translated in one text with semicolons between them (the paper's finding: better than blanks).
Checks follow: the number of parts, that each kept its numbers, and that each has the words of its own translation: a
name the same words, a relation at least one of them, and none truncated ("Pra" for "Praga"). If one fails, the parts'
own translations are used. The paper also forbids a translation to contain any two tokens in a row twice. So a path
cannot contain one part twice, nor two parts whose translations share words in a row: each distinct part is sent once,
and parts that would repeat, judged by their separate translations, are not joined.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, Protocol

from factmill.tasks.text.translating.placeholders import (
    format_localized_amount,
    format_value_with_plural_unit,
    list_letter_runs,
    list_numbers_dates_and_ids,
    localize_dates_and_numbers,
    mask_untranslated_spans,
    needs_no_translation,
    restore_placeholders,
    split_text_flagging_translatable_spans,
)

NLLB_LANGUAGE_CODES = {
    **{"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn", "it": "ita_Latn", "es": "spa_Latn", "pt": "por_Latn"},
}
"""Language → code of NLLB-200, the source language first."""
SOURCE_LANGUAGE = "en"
TARGET_LANGUAGES = tuple(language for language in NLLB_LANGUAGE_CODES if language != SOURCE_LANGUAGE)
PATH_PART_SEPARATOR = "; "


@dataclass(frozen=True, slots=True)
class UntranslatableReason:
    """Why a text has no translation."""

    reason: str
    """Short snake_case code: unknown_characters, unknown_words, not_taught, too_long, unsure, unfinished, unreadable."""
    detail: str = ""
    """One sentence with the details."""


TranslationRequest = tuple[str, str]
"""A text and its target language."""
TranslationOutcome = str | UntranslatableReason


class TranslationEngine(Protocol):
    """A translation model from English."""

    no_repeat_ngram: int
    """Number of tokens that a translation never repeats in a row; 0: no such rule."""

    def run(self, asked: Sequence[TranslationRequest]) -> list[TranslationOutcome]:
        """Translate texts, without preprocessing."""
        ...

    def tokenize(self, text: str) -> list[str]:
        """Return the tokens of a text."""
        ...


PathPartOrigin = Literal["translated", "wikidata", "kept", "untranslatable"]
"""Source of a part of a translated path: the model, or CLDR for a unit; Wikidata's own label; the original, since it is
a number, date or id; the original, since the model cannot translate it."""
PartwiseReason = Literal[
    "untranslatable", "own_semicolon", "would_repeat", "wrong_count", "number_elsewhere", "other_words"
]
"""Why the parts of a path were translated one by one: one of them, or all in one text, cannot be translated; one
contains a semicolon; two would repeat tokens, which is forbidden; the translation had another number of parts; a
number, date or id stood in another part, or after its own part's words; or a part had other words than its own
translation."""


@dataclass(frozen=True, slots=True)
class PathPart:
    """A part of a path before translation."""

    text: str
    """English label, or a value formatted by `text.values.literals.format_value`."""
    label: str | None = None
    """Wikidata's label in the target language, where there is one and it is requested (`label_source = "wikidata"`)."""


@dataclass(frozen=True, slots=True)
class PathPartAfterTranslation:
    """A part of a path after translation."""

    text: str
    origin: PathPartOrigin
    problem: UntranslatableReason | None = None
    """Why the original stands here, with origin `untranslatable`."""


@dataclass(frozen=True, slots=True)
class TranslatedPath:
    """A path after translation."""

    parts: tuple[PathPartAfterTranslation, ...]
    partwise_reason: PartwiseReason | None = None
    """Why its parts were translated one by one; None when they were joined, or at most one needed translation."""

    @property
    def text(self) -> str:
        """The parts with semicolons between them, as rows show paths."""
        return PATH_PART_SEPARATOR.join(part.text for part in self.parts)

    @property
    def problem(self) -> UntranslatableReason | None:
        """The first part's problem; None when all parts are translated."""
        return next((part.problem for part in self.parts if part.problem), None)


def translate_texts(requests: Sequence[TranslationRequest], engine: TranslationEngine) -> list[TranslationOutcome]:
    """Translate texts, with dates, numbers and units in the language's format; an amount alone needs no model."""
    amounts = {pair: amount for pair in requests if (amount := format_localized_amount(*pair))}
    words = _translate_distinct_keeping_numbers([pair for pair in requests if pair not in amounts], engine)

    found = [amounts.get(pair) or words[pair] for pair in requests]
    return [
        each if isinstance(each, UntranslatableReason) else localize_dates_and_numbers(each, text, language)
        for each, (text, language) in zip(found, requests, strict=True)
    ]


def translate_path_parts(
    asked: Sequence[tuple[Sequence[PathPart], str]], engine: TranslationEngine
) -> list[TranslatedPath]:
    """Translate the parts of paths, each path with its language; every part names its source."""
    paths = []
    for parts, language in asked:
        own_texts = dict.fromkeys(part.text for part in parts if part.label is None)
        words = [text for text in own_texts if not needs_no_translation(text)]
        texts = [text for text in words if format_value_with_plural_unit(text, language) is None]
        paths.append((parts, language, texts))
    singles = _translate_path_parts_alone([(text, language) for _, language, texts in paths for text in texts], engine)
    reasons = [
        _find_reason_to_translate_parts_alone([singles[text, language] for text in texts], texts, engine)
        for _, language, texts in paths
    ]
    joined = _translate_distinct_keeping_numbers(
        [
            (PATH_PART_SEPARATOR.join(texts), language)
            for (_, language, texts), reason in zip(paths, reasons, strict=True)
            if len(texts) > 1 and reason is None
        ],
        engine,
    )
    translated = []
    for (parts, language, texts), reason in zip(paths, reasons, strict=True):
        found: Mapping[str, TranslationOutcome] | PartwiseReason | None = reason
        if len(texts) > 1 and reason is None:
            own = {text: str(singles[text, language]) for text in texts}
            found = _split_joined_translation(
                own, joined[PATH_PART_SEPARATOR.join(texts), language], {part.text for part in parts[::2]}
            )
        by_text = found if isinstance(found, Mapping) else {text: singles[text, language] for text in texts}
        finished = tuple(_make_translated_part(part, by_text, language) for part in parts)
        translated.append(TranslatedPath(finished, None if isinstance(found, Mapping) else found))
    return translated


def repeats_ngram(tokens: Sequence[str], size: int) -> bool:
    """True when some `size` tokens in a row occur twice; False for size 0."""
    if size <= 0:
        return False
    ngrams = [tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1)]
    return len(set(ngrams)) < len(ngrams)


def _translate_distinct_keeping_numbers(
    asked: Iterable[TranslationRequest], engine: TranslationEngine
) -> dict[TranslationRequest, TranslationOutcome]:
    """Translate texts and keep their numbers; equal ones are sent once, those of only numbers, dates or ids not at all."""
    texts = {pair: " ".join(pair[0].split()) for pair in asked}
    found: dict[TranslationRequest, TranslationOutcome] = {
        pair: text for pair, text in texts.items() if needs_no_translation(text)
    }
    shown = {
        pair: kept for pair, text in texts.items() if pair not in found and (kept := mask_untranslated_spans(text))
    }
    answers = _run_engine_on_unique([(protected.text, language) for (_, language), protected in shown.items()], engine)
    for pair, protected in shown.items():
        answer = answers[protected.text, pair[1]]
        restored = answer if isinstance(answer, UntranslatableReason) else restore_placeholders(protected, answer)
        if restored is not None:
            found[pair] = restored
    # texts that need too many stand-ins, or lost one
    lost = [pair for pair in texts if pair not in found]
    return found | dict(
        zip(lost, _translate_between_numbers([(texts[pair], pair[1]) for pair in lost], engine), strict=True)
    )


def _run_engine_on_unique(
    asked: Iterable[TranslationRequest], engine: TranslationEngine
) -> dict[TranslationRequest, TranslationOutcome]:
    """Translate each distinct text once, without preprocessing."""
    different = list(dict.fromkeys(asked))
    return dict(zip(different, engine.run(different), strict=True))


def _translate_between_numbers(
    asked: Sequence[TranslationRequest], engine: TranslationEngine
) -> list[TranslationOutcome]:
    """Translate texts between their numbers, dates and ids, which keep their places."""
    cut = [(split_text_flagging_translatable_spans(text), language) for text, language in asked]
    answers = _run_engine_on_unique(
        [(text, language) for stretches, language in cut for text, is_words in stretches if is_words], engine
    )
    outcomes: list[TranslationOutcome] = []
    for stretches, language in cut:
        pieces = [answers[text, language] if is_words else text for text, is_words in stretches]
        problems = [piece for piece in pieces if isinstance(piece, UntranslatableReason)]
        outcomes.append(problems[0] if problems else "".join(map(str, pieces)))
    return outcomes


def _translate_path_parts_alone(
    asked: Iterable[TranslationRequest], engine: TranslationEngine
) -> dict[TranslationRequest, TranslationOutcome]:
    """Translate parts of paths separately; a number at the beginning, as in values, stays there."""
    found = _translate_distinct_keeping_numbers(asked, engine)
    moved = [
        pair
        for pair, translation in found.items()
        if isinstance(translation, str) and not _keeps_number_at_start(pair[0], translation)
    ]
    return found | dict(zip(moved, _translate_between_numbers(moved, engine), strict=True))


def _keeps_number_at_start(text: str, translation: str) -> bool:
    """True unless a text begins with a number that its translation has elsewhere."""
    first = split_text_flagging_translatable_spans(text)[:1]
    return not first or first[0][1] or translation.startswith(first[0][0])


def _find_reason_to_translate_parts_alone(
    singles: Sequence[TranslationOutcome], texts: Sequence[str], engine: TranslationEngine
) -> PartwiseReason | None:
    """Return why the parts of a path cannot be translated in one text; None when they can, or there is only one."""
    if len(texts) < 2:
        return None
    translated = [single for single in singles if isinstance(single, str)]
    if len(translated) < len(singles):
        return "untranslatable"
    if any(";" in text for text in texts):
        return "own_semicolon"
    if repeats_ngram(engine.tokenize(PATH_PART_SEPARATOR.join(translated)), engine.no_repeat_ngram):
        return "would_repeat"
    return None


def _split_joined_translation(
    own: Mapping[str, str], answer: TranslationOutcome, names: Set[str]
) -> Mapping[str, TranslationOutcome] | PartwiseReason:
    """Split the translation of all parts into those of each part, or return why that fails.

    `own`: text of a part → its separate translation, in the order of the path; `names`: texts of the path's items.
    """
    if isinstance(answer, UntranslatableReason):
        return "untranslatable"
    pieces = [piece.strip() for piece in answer.split(";")]
    if len(pieces) != len(own) or not all(pieces):
        return "wrong_count"
    for text, piece in zip(own, pieces, strict=True):
        if mask_untranslated_spans(text) is None or sorted(list_numbers_dates_and_ids(piece)) != sorted(
            list_numbers_dates_and_ids(text)
        ):
            return "number_elsewhere"
        if not _keeps_number_at_start(text, piece):
            return "number_elsewhere"
        found, wanted = list_letter_runs(piece.casefold()), list_letter_runs(own[text].casefold())
        lost = {*wanted} - {*found}
        is_cut = any(word.startswith(short) for short in {*found} - {*wanted} for word in lost)
        # of a relation one word is enough
        keeps_some_words = text not in names and not is_cut and len(lost) < len({*wanted})
        if found != wanted and not keeps_some_words:
            return "other_words"
    return dict(zip(own, pieces, strict=True))


def _make_translated_part(
    part: PathPart, by_text: Mapping[str, TranslationOutcome], language: str
) -> PathPartAfterTranslation:
    if part.label is not None:
        return PathPartAfterTranslation(part.label, "wikidata")
    found = by_text.get(part.text, format_value_with_plural_unit(part.text, language))
    if found is None:
        return PathPartAfterTranslation(part.text, "kept")
    if isinstance(found, UntranslatableReason):
        return PathPartAfterTranslation(part.text, "untranslatable", found)
    return PathPartAfterTranslation(found, "translated")
