"""Test translation of texts and paths by any engine: numbers kept, parts checked, failures returned as a reason."""

from collections.abc import Mapping, Sequence

import pytest

from factmill.tasks.text.translating.translation import (
    PathPart,
    TranslatedPath,
    TranslationOutcome,
    TranslationRequest,
    UntranslatableReason,
    repeats_ngram,
    translate_path_parts,
    translate_texts,
)


class Dictionary:
    """An engine that knows some texts; it cannot translate other texts or words mapped to None."""

    def __init__(self, known: Mapping[str, str | None], no_repeat_ngram: int = 2) -> None:
        self.known, self.no_repeat_ngram = known, no_repeat_ngram
        self.sent: list[TranslationRequest] = []

    def run(self, asked: Sequence[TranslationRequest]) -> list[TranslationOutcome]:
        self.sent += asked
        return [self.known.get(text) or UntranslatableReason("unknown_words", text) for text, _ in asked]

    def tokenize(self, text: str) -> list[str]:
        return text.replace(";", " ;").split()


def translate(engine: Dictionary, *texts: str, language: str = "de") -> TranslatedPath:
    """Translate one path."""
    return translate_path_parts([([PathPart(text) for text in texts], language)], engine)[0]


def test_equal_texts_are_sent_once_regardless_of_spaces() -> None:
    engine = Dictionary({"red house": "rotes Haus"})
    assert translate_texts([("red house", "de"), ("red  house ", "de")], engine) == ["rotes Haus"] * 2
    assert engine.sent == [("red house", "de")]


def test_numbers_and_dates_are_localized_and_not_sent_if_alone() -> None:
    engine = Dictionary({"2001 inhabitants in 2002": "im Jahr 2002: 2001 Einwohner"})
    asked = [("3,755,251 inhabitants in 1851", "de"), ("14 March 1879", "de"), ("Q42", "de"), ("1 mile", "de")]
    assert translate_texts(asked, engine) == ["im Jahr 1851: 3.755.251 Einwohner", "14. März 1879", "Q42", "1 Meile"]
    assert len(engine.sent) == 1


@pytest.mark.parametrize("whole", ["etwa zweitausend Einwohner", "2001 und 2001 Einwohner", "2.001 Einwohner"])
def test_lost_number_is_recovered_by_translating_text_around_it(whole: str) -> None:
    engine = Dictionary({"about 2001 inhabitants": whole, "about": "etwa", "inhabitants": "Einwohner"})
    assert translate_texts([("about 3,755,251 inhabitants", "de")], engine) == ["etwa 3.755.251 Einwohner"]


def test_text_with_too_many_numbers_is_translated_between_them() -> None:
    engine = Dictionary({"and": "und"})
    numbers = [str(number) for number in range(12)]
    assert translate_texts([(" and ".join(numbers), "de")], engine) == [" und ".join(numbers)]


def test_untranslatable_text_has_reason_and_does_not_affect_others() -> None:
    engine = Dictionary({"red": "rot", "blue 2001": "lost"})
    found = translate_texts([("green", "de"), ("red", "de"), ("blue 7", "de")], engine)
    assert found == [
        UntranslatableReason("unknown_words", "green"),
        "rot",
        UntranslatableReason("unknown_words", "blue"),
    ]


def test_path_parts_are_translated_in_one_text() -> None:
    engine = Dictionary(
        {"Germany": "Deutschland", "capital": "Hauptstadt von", "Germany; capital": "DEUTSCHLAND; die Hauptstadt"}
    )
    path = translate(engine, "Germany", "capital", "1871-01-18")
    assert path.text == "DEUTSCHLAND; die Hauptstadt; 1871-01-18"
    assert [part.origin for part in path.parts] == ["translated", "translated", "kept"]
    assert path.partwise_reason is None
    assert path.problem is None


WORDS = {"Germany": "Deutschland", "capital": "Hauptstadt", "Berlin": "Berlin"}


@pytest.mark.parametrize(
    "answer",
    ["Deutschland Hauptstadt; Berlin", "Deutschland; Hauptstadt; ; Berlin", "Deutschland; Hauptstadt;", "Deutschland"],
)
def test_wrong_number_of_parts_falls_back_to_single_parts(answer: str) -> None:
    engine = Dictionary({**WORDS, "Germany; capital; Berlin": answer})
    path = translate(engine, "Germany", "capital", "Berlin")
    assert path.text == "Deutschland; Hauptstadt; Berlin"
    assert path.partwise_reason == "wrong_count"


def test_number_moved_to_other_part_falls_back_to_single_parts() -> None:
    engine = Dictionary({"Apollo 2001": "Apollo 2001", "Symphony No. 2001": "Sinfonie Nr. 2001",
                         "Apollo 2001; Symphony No. 2002": "Apollo 2002; Sinfonie Nr. 2001"})  # fmt: skip
    path = translate(engine, "Apollo 11", "Symphony No. 9")
    assert path.text == "Apollo 11; Sinfonie Nr. 9"
    assert path.partwise_reason == "number_elsewhere"


@pytest.mark.parametrize(
    "answer",
    [
        *("Pra; capitale di; Repubblica Ceca", "Praga; capitale di; Ceca", "Praga; capita di; Repubblica Ceca"),
        *("Praga; sede; Repubblica Ceca", "Repubblica Ceca; capitale di; Praga"),
        *("Praga Praga; capitale di; Repubblica Ceca",),
    ],
)
def test_part_unlike_its_own_translation_falls_back_to_single_parts(answer: str) -> None:
    own = {"Prague": "Praga", "capital of": "capitale di", "Czech Republic": "Repubblica Ceca"}
    engine = Dictionary({**own, "; ".join(own): answer})
    path = translate(engine, *own, language="it")
    assert (path.text, path.partwise_reason) == ("Praga; capitale di; Repubblica Ceca", "other_words")


def test_value_stays_unchanged_before_its_unit() -> None:
    engine = Dictionary(
        {"cost": "Preis", "2001 euro": "Euro 2001", "euro": "Euro", "cost; 2001 euro": "Preis; Euro 2001"}
    )
    cost, value = translate(engine, "cost", "8611.5 euro").parts
    assert (cost.text, value.text) == ("Preis", "8611.5 Euro")


def test_unit_agrees_in_number_with_its_value() -> None:
    engine = Dictionary({"height": "altezza", "1.98 metre": "1.98 metro", "height; 1.98 metre": "altezza; 1.98 metro"})
    height, value = translate(engine, "height", "1.98 metre", language="it").parts
    assert (height.text, value.text, value.origin) == ("altezza", "1.98 metri", "translated")


def test_parts_that_fail_together_are_translated_one_by_one() -> None:
    path = translate(Dictionary(WORDS), "Germany", "Berlin")
    assert (path.text, path.partwise_reason, path.problem) == ("Deutschland; Berlin", "untranslatable", None)


def test_part_that_occurs_twice_is_sent_once() -> None:
    engine = Dictionary({"A": "a", "child": "Kind", "B": "b", "C": "c", "A; child; B; C": "a; Kind; b; c"})
    path = translate(engine, "A", "child", "B", "child", "C")
    assert path.text == "a; Kind; b; Kind; c"
    assert path.partwise_reason is None


def test_parts_that_repeat_words_in_sequence_are_not_joined() -> None:
    engine = Dictionary({"birthplace": "lieu de naissance", "place of death": "lieu de mort"})
    asked = ("birthplace", "place of death")
    assert translate(engine, *asked, language="fr").partwise_reason == "would_repeat"
    assert all(";" not in text for text, _ in engine.sent)
    free = Dictionary({**engine.known, "birthplace; place of death": "lieu de naissance; lieu de mort"}, 0)
    assert translate(free, *asked, language="fr").partwise_reason is None


def test_part_with_its_own_semicolon_is_translated_alone() -> None:
    engine = Dictionary({"this; that": "dies; das", "work": "Werk"})
    path = translate(engine, "this; that", "work")
    assert [part.text for part in path.parts] == ["dies; das", "Werk"]
    assert path.partwise_reason == "own_semicolon"


def test_untranslatable_part_is_kept_and_reported() -> None:
    path = translate(Dictionary(WORDS), "Germany", "Plimsollwerke")
    assert path.text == "Deutschland; Plimsollwerke"
    assert [part.origin for part in path.parts] == ["translated", "untranslatable"]
    assert path.problem == UntranslatableReason("unknown_words", "Plimsollwerke")
    assert path.partwise_reason == "untranslatable"
    alone = translate(Dictionary(WORDS), "Plimsollwerke", "1871-01-18")
    assert (alone.problem, alone.partwise_reason) == (path.problem, None)


def test_wikidata_label_is_used_and_only_rest_is_sent() -> None:
    engine = Dictionary(WORDS)
    path = translate_path_parts([([PathPart("Germany", "Deutschland!"), PathPart("capital")], "de")], engine)[0]
    assert [(part.text, part.origin) for part in path.parts] == [
        ("Deutschland!", "wikidata"),
        ("Hauptstadt", "translated"),
    ]
    assert engine.sent == [("capital", "de")]


def test_same_part_in_two_languages_is_sent_twice() -> None:
    class ByLanguage(Dictionary):
        def run(self, asked: Sequence[TranslationRequest]) -> list[TranslationOutcome]:
            return [f"{text}-{language}" for text, language in asked]

    result = translate_path_parts([([PathPart("capital")], language) for language in ("de", "fr")], ByLanguage({}))
    assert [path.text for path in result] == ["capital-de", "capital-fr"]


@pytest.mark.parametrize(
    ("tokens", "size", "repeats"),
    [("a b c a b", 2, True), ("a b c b a", 2, False), ("a a a", 2, True), ("a b a", 1, True), ("a b a b", 0, False), ("a", 2, False)],
)  # fmt: skip
def test_repeated_ngrams_are_found(tokens: str, size: int, repeats: bool) -> None:
    assert repeats_ngram(tokens.split(), size) is repeats
