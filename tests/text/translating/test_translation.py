"""Texts and paths are translated by any engine: numbers kept, parts checked, trouble a value with a reason."""

from collections.abc import Mapping, Sequence

import pytest

from factmill.tasks.text.translating.translation import (
    PathPart,
    TranslatedPath,
    TranslationOutcome,
    TranslationRequest,
    Untranslatable,
    repeats_ngram,
    translate_paths,
    translate_texts,
)


class Dictionary:
    """An engine that knows some texts; the others, and words that are given as None, it cannot translate."""

    def __init__(self, known: Mapping[str, str | None], no_repeat_ngram: int = 2) -> None:
        self.known, self.no_repeat_ngram = known, no_repeat_ngram
        self.sent: list[TranslationRequest] = []

    def run(self, asked: Sequence[TranslationRequest]) -> list[TranslationOutcome]:
        self.sent += asked
        return [self.known.get(text) or Untranslatable("unknown_words", text) for text, _ in asked]

    def tokenize(self, text: str) -> list[str]:
        return text.replace(";", " ;").split()


def translate(engine: Dictionary, *texts: str, language: str = "de") -> TranslatedPath:
    """Translate one path."""
    return translate_paths([([PathPart(text) for text in texts], language)], engine)[0]


def test_equal_texts_are_sent_once_and_blanks_do_not_count() -> None:
    engine = Dictionary({"red house": "rotes Haus"})
    assert translate_texts([("red house", "de"), ("red  house ", "de")], engine) == ["rotes Haus"] * 2
    assert engine.sent == [("red house", "de")]


def test_numbers_and_dates_take_the_languages_form_and_alone_are_not_sent() -> None:
    engine = Dictionary({"2001 inhabitants in 2002": "im Jahr 2002: 2001 Einwohner"})
    asked = [("3,755,251 inhabitants in 1851", "de"), ("14 March 1879", "de"), ("Q42", "de"), ("1 mile", "de")]
    assert translate_texts(asked, engine) == ["im Jahr 1851: 3.755.251 Einwohner", "14. März 1879", "Q42", "1 Meile"]
    assert len(engine.sent) == 1


@pytest.mark.parametrize("whole", ["etwa zweitausend Einwohner", "2001 und 2001 Einwohner", "2.001 Einwohner"])
def test_a_lost_number_is_made_good_by_translating_what_stands_around_it(whole: str) -> None:
    engine = Dictionary({"about 2001 inhabitants": whole, "about": "etwa", "inhabitants": "Einwohner"})
    assert translate_texts([("about 3,755,251 inhabitants", "de")], engine) == ["etwa 3.755.251 Einwohner"]


def test_a_text_with_too_many_numbers_is_translated_between_them() -> None:
    engine = Dictionary({"and": "und"})
    numbers = [str(number) for number in range(12)]
    assert translate_texts([(" and ".join(numbers), "de")], engine) == [" und ".join(numbers)]


def test_a_text_that_cannot_be_translated_says_why_and_harms_no_other() -> None:
    engine = Dictionary({"red": "rot", "blue 2001": "lost"})
    found = translate_texts([("green", "de"), ("red", "de"), ("blue 7", "de")], engine)
    assert found == [Untranslatable("unknown_words", "green"), "rot", Untranslatable("unknown_words", "blue")]


def test_parts_of_a_path_are_translated_in_one_text() -> None:
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
def test_a_wrong_number_of_parts_is_made_good_part_by_part(answer: str) -> None:
    engine = Dictionary({**WORDS, "Germany; capital; Berlin": answer})
    path = translate(engine, "Germany", "capital", "Berlin")
    assert path.text == "Deutschland; Hauptstadt; Berlin"
    assert path.partwise_reason == "wrong_count"


def test_a_number_that_went_into_another_part_is_made_good_part_by_part() -> None:
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
def test_a_part_that_says_other_words_than_its_own_translation_is_made_good_part_by_part(answer: str) -> None:
    own = {"Prague": "Praga", "capital of": "capitale di", "Czech Republic": "Repubblica Ceca"}
    engine = Dictionary({**own, "; ".join(own): answer})
    path = translate(engine, *own, language="it")
    assert (path.text, path.partwise_reason) == ("Praga; capitale di; Repubblica Ceca", "other_words")


def test_a_value_stays_before_its_unit_and_as_it_is() -> None:
    engine = Dictionary(
        {"cost": "Preis", "2001 euro": "Euro 2001", "euro": "Euro", "cost; 2001 euro": "Preis; Euro 2001"}
    )
    cost, value = translate(engine, "cost", "8611.5 euro").parts
    assert (cost.text, value.text) == ("Preis", "8611.5 Euro")


def test_the_unit_of_a_value_is_in_the_number_that_goes_with_it() -> None:
    engine = Dictionary({"height": "altezza", "1.98 metre": "1.98 metro", "height; 1.98 metre": "altezza; 1.98 metro"})
    height, value = translate(engine, "height", "1.98 metre", language="it").parts
    assert (height.text, value.text, value.origin) == ("altezza", "1.98 metri", "translated")


def test_parts_that_cannot_be_translated_together_are_translated_one_by_one() -> None:
    path = translate(Dictionary(WORDS), "Germany", "Berlin")
    assert (path.text, path.partwise_reason, path.problem) == ("Deutschland; Berlin", "untranslatable", None)


def test_a_part_that_occurs_twice_is_sent_once() -> None:
    engine = Dictionary({"A": "a", "child": "Kind", "B": "b", "C": "c", "A; child; B; C": "a; Kind; b; c"})
    path = translate(engine, "A", "child", "B", "child", "C")
    assert path.text == "a; Kind; b; Kind; c"
    assert path.partwise_reason is None


def test_parts_that_say_the_same_words_in_a_row_are_not_joined() -> None:
    engine = Dictionary({"birthplace": "lieu de naissance", "place of death": "lieu de mort"})
    asked = ("birthplace", "place of death")
    assert translate(engine, *asked, language="fr").partwise_reason == "would_repeat"
    assert all(";" not in text for text, _ in engine.sent)
    free = Dictionary({**engine.known, "birthplace; place of death": "lieu de naissance; lieu de mort"}, 0)
    assert translate(free, *asked, language="fr").partwise_reason is None


def test_a_part_with_a_semicolon_of_its_own_is_translated_alone() -> None:
    engine = Dictionary({"this; that": "dies; das", "work": "Werk"})
    path = translate(engine, "this; that", "work")
    assert [part.text for part in path.parts] == ["dies; das", "Werk"]
    assert path.partwise_reason == "own_semicolon"


def test_a_part_that_cannot_be_translated_stays_and_says_so() -> None:
    path = translate(Dictionary(WORDS), "Germany", "Plimsollwerke")
    assert path.text == "Deutschland; Plimsollwerke"
    assert [part.origin for part in path.parts] == ["translated", "untranslatable"]
    assert path.problem == Untranslatable("unknown_words", "Plimsollwerke")
    assert path.partwise_reason == "untranslatable"
    alone = translate(Dictionary(WORDS), "Plimsollwerke", "1871-01-18")
    assert (alone.problem, alone.partwise_reason) == (path.problem, None)


def test_a_label_of_wikidata_is_taken_and_only_the_rest_is_sent() -> None:
    engine = Dictionary(WORDS)
    path = translate_paths([([PathPart("Germany", "Deutschland!"), PathPart("capital")], "de")], engine)[0]
    assert [(part.text, part.origin) for part in path.parts] == [
        ("Deutschland!", "wikidata"),
        ("Hauptstadt", "translated"),
    ]
    assert engine.sent == [("capital", "de")]


def test_one_part_in_two_languages_is_two_texts() -> None:
    class ByLanguage(Dictionary):
        def run(self, asked: Sequence[TranslationRequest]) -> list[TranslationOutcome]:
            return [f"{text}-{language}" for text, language in asked]

    told = translate_paths([([PathPart("capital")], language) for language in ("de", "fr")], ByLanguage({}))
    assert [path.text for path in told] == ["capital-de", "capital-fr"]


@pytest.mark.parametrize(
    ("tokens", "size", "repeats"),
    [("a b c a b", 2, True), ("a b c b a", 2, False), ("a a a", 2, True), ("a b a", 1, True), ("a b a b", 0, False), ("a", 2, False)],
)  # fmt: skip
def test_repeated_ngrams_are_found(tokens: str, size: int, repeats: bool) -> None:
    assert repeats_ngram(tokens.split(), size) is repeats
