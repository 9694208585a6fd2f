"""Dates, numbers and units in the form of each language; what is none stays as it is."""

import pytest

from tasks.text.translating.localised import localise, write_amount, write_value

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
def test_what_translation_leaves_alone_takes_the_languages_form(text: str, language: str, form: str) -> None:
    assert localise(f"a {text} b", f"x {text} y", language) == f"a {form} b"


def test_only_what_stands_in_the_source_is_changed() -> None:
    assert localise("5,000 und 15,000, 2,000", "15,000 of 5,000", "de") == "5.000 und 15.000, 2,000"


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
def test_a_whole_text_is_an_amount_in_a_unit_that_cldr_has(text: str, language: str, form: str | None) -> None:
    assert write_amount(text, language) == form


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
def test_a_value_stays_and_its_unit_goes_with_it(text: str, language: str, form: str | None) -> None:
    assert write_value(text, language) == form
