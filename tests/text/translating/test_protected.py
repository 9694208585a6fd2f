"""Test that numbers, dates and ids are found, hidden and restored, unchanged or in each language's form."""

import pytest

from factmill.tasks.text.translating.placeholders import (
    PLACEHOLDER_YEARS,
    format_localized_amount,
    format_value_with_plural_unit,
    localize_dates_and_numbers,
    mask_untranslated_spans,
    needs_no_translation,
    restore_placeholders,
    split_text_flagging_translatable_spans,
)


@pytest.mark.parametrize(
    "text",
    [
        *("1994", "5 October 1975", "October 5, 1975", "5th of May 1901", "October 1947", "3,198,645", "1636."),
        *("1879-03-14", "1879-03", "44 BC", "0044-03-15 BC", "1950s", "20th century", "about 5000 BC", "−5", "12 %"),
        *("$1,200.50", "14:30", "1.98 m", "357,386 km²", "1914–1918", "Q42", "K2", "https://example.org/a#b"),
        *("10.1000/xyz123",),
    ],
)
def test_number_date_or_id_text_needs_no_translation(text: str) -> None:
    assert needs_no_translation(text)


@pytest.mark.parametrize(
    "text", ["about 500 people", "1094 metres", "5 miles", "the 19th Amendment", "World War II", "May", "second"]
)
def test_text_with_words_needs_translation(text: str) -> None:
    assert not needs_no_translation(text)


@pytest.mark.parametrize(
    ("text", "shown", "originals"),
    [
        ("How high is K2?", "How high is 2001?", ["K2"]),
        (
            "In 2011, how many lived in Madrid, the 3rd city?",
            "In 2001, how many lived in Madrid, the 3rd city?",
            ["2011"],
        ),
        ("born on May 5, 1901 in Room 7", "born on 2001 in Room 2002", ["May 5, 1901", "7"]),
        ("COVID-19, F-16 and H2O", "2001, 2002 and 2003", ["COVID-19", "F-16", "H2O"]),
        ("See https://example.org/a, or 12%.", "See 2001, or 2002.", ["https://example.org/a", "12%"]),
        ("2001: A Space Odyssey", "2001: A Space Odyssey", ["2001"]),
        ("no number", "no number", []),
        ("the 2001st of 7", "the 2001st of 2002", ["7"]),
    ],
)
def test_placeholders_replace_protected_numbers(text: str, shown: str, originals: list[str]) -> None:
    protected = mask_untranslated_spans(text)
    assert protected is not None
    assert protected.text == shown
    assert [original for _, original in protected.stand_ins] == originals


def test_text_with_more_numbers_than_placeholders_cannot_be_protected() -> None:
    assert mask_untranslated_spans(" and ".join(map(str, range(len(PLACEHOLDER_YEARS))))) is not None
    assert mask_untranslated_spans(" and ".join(map(str, range(len(PLACEHOLDER_YEARS) + 1)))) is None


@pytest.mark.parametrize(
    ("translation", "restored"),
    [
        ("Im Jahr 2001 waren es 2002.", "Im Jahr 1851 waren es 3,755,251."),
        ("Es waren 2002 im Jahr 2001.", "Es waren 3,755,251 im Jahr 1851."),
        ("Im Jahr 2001 waren es viele.", None),
        ("Im Jahr 2001 waren es 2002, ja 2002.", None),
        ("Im Jahr 2001 waren es 2.002.", None),
        ("Im Jahr 2001 waren es 20021.", None),
    ],
)
def test_placeholders_are_restored_only_if_each_occurs_once(translation: str, restored: str | None) -> None:
    protected = mask_untranslated_spans("In 1851 there were 3,755,251.")
    assert protected is not None
    assert restore_placeholders(protected, translation) == restored


@pytest.mark.parametrize(
    ("text", "stretches"),
    [
        ("In 1851, it was (about) 7.", [("In", True), (" ", False), ("1851", False), (", ", False), ("it was (about", True),
                                        (") ", False), ("7", False), (".", False)]),
        ("K2 1", [("K2", False), (" ", False), ("1", False)]),
        ("words only", [("words only", True)]),
    ],
)  # fmt: skip
def test_text_is_split_so_that_only_words_are_translated(text: str, stretches: list[tuple[str, bool]]) -> None:
    assert split_text_flagging_translatable_spans(text) == stretches
    assert "".join(stretch for stretch, _ in stretches) == text


NNBSP, NBSP = "\u202f", "\u00a0"


@pytest.mark.parametrize(
    ("text", "language", "form"),
    [
        ("5 October 1975", "fr", "5 octobre 1975"),
        ("October 5th, 1975", "de", "5. Oktober 1975"),
        ("5 October", "es", "5 de octubre"),
        ("April 1940", "pt", "abril de 1940"),
        ("29 February 1500", "it", "29 febbraio 1500"),
        ("15 March 44 BC", "de", "15. März 44 v. Chr."),
        ("44 BC", "fr", "44 av. J.-C."),
        ("3,198,645", "fr", f"3{NNBSP}198{NNBSP}645"),
        ("$12,000.50", "de", "$12.000,50"),
        ("12.5%", "de", f"12,5{NBSP}%"),
        *(
            (same, "de", same)
            for same in ("1936", "1.10", "K2", "1914–1918", "1879-03-14", "Q42", "12:30", "10.1000/x1")
        ),
    ],
)
def test_untranslated_spans_are_localized(text: str, language: str, form: str) -> None:
    assert localize_dates_and_numbers(f"a {text} b", f"x {text} y", language) == f"a {form} b"


def test_only_numbers_present_in_source_are_localized() -> None:
    assert localize_dates_and_numbers("5,000 und 15,000, 2,000", "15,000 of 5,000", "de") == "5.000 und 15.000, 2,000"


@pytest.mark.parametrize(
    ("text", "language", "form"),
    [
        ("8,611 metres", "de", "8.611 Meter"),
        ("8611 meters", "it", "8.611 metri"),
        ("1 metre", "it", "1 metro"),
        ("1.5 kilometres", "fr", f"1,5{NBSP}kilomètre"),
        ("4,805.50 m", "pt", "4.805,50 m"),
        ("-4.5 °C", "de", "-4,5 °C"),
        ("1301432", "es", "1.301.432"),
        ("443.2.", "de", "443,2"),
        *(
            (none, "de", None)
            for none in ("1636.", "62", "5 apples", "8,611 metres high", "12 million", "Berlin", "1,23")
        ),
    ],
)
def test_only_text_that_is_complete_cldr_amount_is_localized(text: str, language: str, form: str | None) -> None:
    assert format_localized_amount(text, language) == form


@pytest.mark.parametrize(
    ("text", "language", "form"),
    [
        ("1.98 metre", "en", "1.98 metres"),
        ("1.98 metre", "it", "1.98 metri"),
        ("1.98 metres", "pt", "1.98 metro"),
        ("8611 metres", "fr", "8611 mètres"),
        ("1 metric ton", "en", "1 metric ton"),
        ("20 year", "en", "20 years"),
        *((none, "en", None) for none in ("127 Hours", "62", "5 United States dollar", "metre", "8,611 metre")),
    ],
)
def test_value_is_kept_with_localized_plural_unit(text: str, language: str, form: str | None) -> None:
    assert format_value_with_plural_unit(text, language) == form
