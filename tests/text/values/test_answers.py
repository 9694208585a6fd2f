"""Test whether a text states an answer, as a reader would decide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.fanoutqa.core.flags import contains_all_substrings, list_required_word_prefixes
from factmill.tasks.text.text_normalization import fold_case_accents_and_punctuation
from factmill.tasks.text.values.answer_search import AnswerPresence, find_answer_and_missing_parts, index_text


def is_found(answer: object, text: str) -> bool | None:
    return find_answer_and_missing_parts(answer, index_text(text)).found


FOUND = [
    # numbers
    (680000, "It has 680,000 inhabitants."),
    ("680,000", "Some 680000 live there."),
    ("680,000", "Some 680 000 live there."),
    (680000, "Some 680\u202f000 live there."),
    (5, "She had five children."),
    (43, "Forty-three boats sank."),
    (5.2, "It measures 5.2 on the scale."),
    (37.0, "It fell to 37 in the night."),
    (-40, "Frost of −40 °C was measured."),
    ("11.5%", "A share of 11.5 per cent."),
    ("12%", "Some 12.0% of it."),
    ("10%–20%", "Between 10 and 20 percent of it."),
    ("5th", "It was the fifth bridge."),
    ("thirteenth", "He came 13th."),
    ("+62", "Its code is +62."),
    # units
    ("73.35 sq km", "It covers 73.35 square kilometres (28.3 sq mi)."),
    ("73.35 sq km", "It covers 73.35 km² of land."),
    ("73.35 km2", "Area\n\n73.35"),
    ("242,495 km2", "Area\n\n242,495 km² (93,628 sq mi)"),
    ("77116 Sq Miles", "It measures 77,116 square miles."),
    ("3930m", "Its top lies 3,930 m high."),
    ("3930m", "Its top lies 3,930 metres (12,890 ft) high."),
    ("7 feet 2 inches", "He stands 7 ft 2 in (2.18 m) tall."),
    ("60 mph", "It ran at 60 miles per hour."),
    ("40.9 degrees Celsius", "The record is 40.9 °C."),
    ("27 km × 22 km × 18 km", "It measures 27 × 22 × 18 km."),
    ("161,000 employees", "It has 161,000 full-time employees."),
    ("161,000 employees", "Employees\n\n161,000 (2021)"),
    ("about 450 acres", "A campus of 450 acres."),
    # money and scales
    ("$1.2 billion", "It cost 1,200,000,000 US dollars."),
    ("$1.2 billion", "It cost US$1.2bn."),
    ("US$1.2bn", "It cost $1,200 million."),
    ("USD 236 billion", "The product was CN¥1.6 trillion (US$236 billion)."),
    ("£5m", "He paid five million pounds."),
    ("€2.50", "Tickets cost EUR 2.50 each."),
    ("$23.5 billions", "A fund of $23.5 billion."),
    ("$57410", "Product a head\n\n57,410"),
    ("5.2 million", "There are 5,200,000 of them."),
    (5200000, "There are 5.2 million of them."),
    ("5.2 million", "There are 5,237,000 of them."),
    ("$5.2 million", "It made $5,237,481."),
    (527, "It made $527 million."),
    (2.923, "It made $2.923 billion."),
    # ranges
    ("1990–1995", "It was built between 1990 and 1995."),
    ("1990-1995", "It was built from 1990 to 1995."),
    ("1990 to 1995", "It was built 1990–95."),
    ("1922-1931", "Begun in 1922, it was not done before 12 October 1931."),
    ("2019–20", "the 2019–2020 season"),
    ("44-71 lb", "Dogs weigh 44 lb to 71 lb."),
    ("44-71 lb", "Dogs weigh 20–32 kg (44–71 lb)."),
    ("$94-102 million", "It cost $94 million to $102 million."),
    ("$350–460 million", "It cost between $350 and $460 million."),
    # dates
    ("July 5, 1994", "Founded on 5 July 1994."),
    ("5 July 1994", "Founded\n\n1994-07-05"),
    ("July 1994", "Founded on July 5, 1994."),
    (1994, "Founded on July 5, 1994."),
    ("1994", "Founded in 1994."),
    ("July 5", "Founded on 5 July 1994."),
    ("July", "Founded on 5 July 1994."),
    ("July", "It is held on 5 July."),
    ("12/19/1987", "She was born on 19 December 1987."),
    ("02/05/1985", "He was born on 5 February 1985."),
    ("44 BC", "He died on 15 March 44 BC."),
    ("5th century BC", "It is of the fifth century BC."),
    ("around 1450", "It was built about 1450."),
    # durations
    ("3:58", "The song takes 3 minutes and 58 seconds."),
    ("3 minutes 58 seconds", "Length\n\n3:58"),
    ("3 min 5 s", "Length\n\n3:05"),
    ("1:02:03", "A time of 1 hour, 2 minutes and 3 seconds."),
    ("2 h 43 min", "It runs for 2 hours 43 minutes."),
    # names
    ("Łódź", "He came to Lodz."),
    ("Émile d'Ornay", "The prize went to EMILE D’ORNAY."),
    ("The Heron", "Her novel Heron."),
    ("Stay (song)", "Their hit was “Stay”."),
    ("Frozen River (2008)", "Then came Frozen River."),
    ("Jean-Luc Abel", "It was Jean–Luc Abel."),
    ("French terriers", "The French terrier is small."),
    ("J. J. Ostrom", "It was directed by J.J. Ostrom."),
    ("Washington, D.C.", "They moved to Washington DC."),
    ("Ann Arbor, Michigan", "The firm sits in Ann Arbor. It is the oldest of Michigan."),
    ("Bend, Oregon, U.S.", "Born in Bend, Oregon.\n\nUnited States"),
    ("Bend, Oregon, USA", "Born in Bend, Oregon, in the U.S., in 1950."),
    ("https://example.org/otters/", "Its site is www.example.org/otters."),
    ("http://www.example.org/", "Its site is example.org."),
    ("Ciara Hale", "It was written by Ciara Louise Hale."),
    ("David J. Vineyard", "It was shown by David Vineyard."),
    ("David J. Vineyard", "It was shown by David James Vineyard."),
    ("David James Vineyard", "It was shown by David J. Vineyard."),
    # several in one
    ("Ada Vogt and Grace Lund", "Grace Lund met Ada Vogt."),
    ("Ada Vogt & Grace Lund", "Grace Lund met Ada Vogt."),
    ("Anna Vogt and Grace Vogt", "It was led by Anna and Grace Vogt."),
    ("UAA, UAG, and UGA", "UAA stops it. So do UGA and UAG."),
    ("Otter / Stoat", "A stoat is no otter."),
    ("Ada Vogt, 1817", "Found in 1817 by Ada Vogt."),
    ("Yes, Ada Vogt", "Ada Vogt leads it."),
    ("Trinidad and Tobago", "a visit to Trinidad and Tobago"),
    (["Ada", "Grace"], "Grace and Ada"),
    ([1990, 2001], "in 1990 and in 2001"),
    ({"2014": "Norway", "2018": ["Chile", "Peru"]}, "2014\n\nNorway\n\n2018\n\nPeru, Chile"),
    ({"Otters": True}, "Otters swim."),
    (["N/A", "Ada"], "Ada"),
]

NOT_FOUND = [
    (5.2, "It is 52 years old."),
    ("5.2", "There are 5,200 of them."),
    (11, "It was in 2011, at 11.5 degrees."),
    (11, "It has 11,571 members."),
    (58, "Length\n\n3:58"),
    (40, "Frost of −40 °C was measured."),
    (-40, "Heat of 40 °C was measured."),
    (5, "He came fifth."),
    (5, "There are 5 million of them."),
    (200000, "It made $200 million."),
    ("73.35 sq km", "It is 73.35 miles long."),
    ("73.35 sq km", "It covers 73.35 square miles."),
    ("73.35 km", "It covers 73.35 km²."),
    ("65 kg", "It seats 65 people and weighs 12 kg."),
    ("3930m", "It is 3,930 ft high."),
    ("12 miles", "It is 19 km long."),
    ("$1.2 billion", "It cost €1.2 billion."),
    ("$1.2 billion", "It cost A$1.2 billion."),
    ("$1.2 billion", "It cost $1.2 million."),
    ("5.2 million", "There are 5,270,000 of them."),
    (5237000, "There are 5.2 million of them."),
    (5200000, "There are 5,237,000 of them."),
    ("5,200,000", "There are 5,237,000 of them."),
    ("1990–1995", "Built in 1990.\n\nSold in 1995."),
    ("1990–1995", "It was built from 1990 to 1994."),
    ("July 5, 1994", "Founded in July 1994."),
    ("July 5, 1994", "Founded on 7 May 1994."),
    ("October 4, 1977", "On October 4, 1980 he recalled 1977."),
    ("12/19/1987", "She was born on 18 December 1987."),
    ("44 BC", "He died in AD 44."),
    ("July", "It is held in June 1994."),
    ("3:58", "It was 3 to 58."),
    ("3:58", "Length\n\n13:58"),
    ("Ada Vogt", "Ada met Grace Vogt."),
    ("Vogt, Ada", "Grace Vogt."),
    ("Paul Reed", "Paul and Reed came."),
    ("Paul Reed", "Paul met Reed."),
    ("Harvard School", "He left Harvard Law School."),
    ("Columbia Business School", "He left Columbia School."),
    ("David J. Vineyard", "It was shown by David Karl Vineyard."),
    ("David James Vineyard", "It was shown by David Karl Vineyard."),
    ("United States", "She left the U.S.S.R. in 1950."),
    ("https://example.org/otters", "Its site is example.org; it is about otters."),
    ("Rome", "the Romeo of Verona"),
    ("New York", "New\n\nYork"),
    ("Ann Arbor, Michigan", "The firm sits in Ann Arbor."),
    ("Ada Vogt and Grace Lund", "Ada Vogt came alone."),
    (["Ada", "Grace"], "Ada"),
    ({"2014": "Norway"}, "Norway won in 2015."),
    ("A red scaly patch", "a red patch of scaly skin"),
]

UNTOLD = [
    True,
    False,
    "Yes",
    "no",
    "N/A",
    "None",
    "unknown.",
    "",
    "—",
    "the",
    [],
    {},
    [True],
    None,
    0,
    "The source of this river lies at a height of some 2,400 metres above the sea and is called the White Brook",
]


@pytest.mark.parametrize(("answer", "text"), FOUND)
def test_answer_that_reader_would_find_is_found(answer: object, text: str) -> None:
    assert is_found(answer, text) is True


@pytest.mark.parametrize(("answer", "text"), FOUND)
def test_prefix_filter_never_excludes_answer_that_is_found(answer: object, text: str) -> None:
    assert contains_all_substrings(list_required_word_prefixes([answer]), fold_case_accents_and_punctuation(text))


@pytest.mark.parametrize(("answer", "text"), NOT_FOUND)
def test_answer_that_reader_would_not_find_is_not_found(answer: object, text: str) -> None:
    assert is_found(answer, text) is False


@pytest.mark.parametrize("answer", UNTOLD)
def test_answer_that_text_cannot_decide_is_undecided(answer: object) -> None:
    assert find_answer_and_missing_parts(answer, index_text("A text of no matter.")) == AnswerPresence(None)


def test_zero_is_found_if_present() -> None:
    assert is_found(0, "It ended 0 to 0.") is True


def test_prose_is_found_only_verbatim() -> None:
    prose = "The otter of the northern lakes builds its holt under the roots of old alders, close to deep water"
    assert is_found(prose, f"As is known, {prose}.") is True
    assert is_found(prose, "Otters build holts.") is None


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("Ann Arbor, Ohio", ("Ohio",)),
        ({"Ada": "Grace Lund", "Mary": 7}, ("Grace Lund", "7")),
        ([1.50, 1.5, "Ada"], ("1.5",)),
        ("Grace Lund", ("Grace Lund",)),
    ],
)
def test_missing_words_are_listed_once(answer: object, missing: tuple[str, ...]) -> None:
    assert find_answer_and_missing_parts(answer, index_text("Mary met Ada in Ann Arbor.")) == AnswerPresence(
        False, missing
    )


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_contains_itself_or_is_undecided(text: str) -> None:
    assert is_found(text, text) is not False


@given(st.integers(1000, 10**12), st.sampled_from([str, "{:,}".format, lambda number: f"{number:,}".replace(",", " ")]))
def test_number_is_found_with_any_thousands_separator(number: int, write) -> None:
    assert is_found(number, f"It has {write(number)} of them.") is True
    assert is_found(number + 1, f"It has {write(number)} of them.") is False
