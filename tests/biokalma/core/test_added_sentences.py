"""What a model added to a paragraph, and whether it says the piece."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.biokalma.core.added_sentences import check_added, find_added, mentions
from tasks.core.authoring.pieces import Piece
from tasks.core.replies import Unreadable

OLD = "Artemisia was born in Rome. Her father was Orazio."


def make_piece(value: str, *, is_date: bool = False) -> Piece:
    return Piece(
        qid="Q1",
        pid="P1",
        property="x",
        value_qid=None if is_date else "Q9",
        value=value,
        precision=11 if is_date else None,
        statement=None,
    )


@pytest.mark.parametrize(
    "sentence",
    [
        "She painted Judith.",
        "Dr. Ada King met J. S. Bach and St. John, born c. 1500, in the U.S. Senate.",
        "She asked “Who?” in 1612.",
        "In 1593 B.C. Vitamin C. Tan lived there.",
        "Later she lived at No. 5, with Sammy Davis Jr. and others!",
        "“Judith” is hers…",
        "(She painted Judith.)",
        "She sang in Yahoo! and Jeopardy! with joy.",
    ],
)
def test_one_sentence_more_is_found(sentence: str) -> None:
    assert find_added(OLD, f"{OLD} {sentence}") == sentence


def test_white_space_does_not_matter() -> None:
    assert find_added("Ada  wrote.\n", " Ada wrote.\n\nShe  died.") == "She died."
    assert find_added("Ada wrote.", "Ada wrote.She died.") == "She died."
    assert find_added("Zoe\u0308 wrote.", "Zoë wrote. She died.") == "She died."


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (OLD, "nothing_added"),
        (f"{OLD} …", "nothing_added"),
        (f"{OLD} She painted. She died.", "several_sentences"),
        (f"{OLD} She painted Judith! In 1656 she died.", "several_sentences"),
        (f"{OLD} {OLD}", "repeated"),
        (f"{OLD} Her father was Orazio.", "repeated"),
        (f"{OLD} Her Father was Orazio!", "repeated"),
        (f"{OLD} She painted the", "unfinished"),
        ("Artemisia was born in Rome. Her father was Orazio", "text_changed"),
        ("Artemisia was born in Rome. She painted.", "text_changed"),
        ("artemisia was born in Rome. Her father was Orazio. She painted.", "text_changed"),
        ("She painted Judith.", "text_changed"),
        (f"She painted Judith. {OLD}", "text_changed"),
        (f"{OLD[:-1]}, and she painted.", "text_changed"),
        ("", "text_changed"),
    ],
)
def test_what_is_not_one_sentence_more_has_a_reason(new: str, reason: str) -> None:
    found = find_added(OLD, new)
    assert isinstance(found, Unreadable)
    assert found.reason.startswith(f"{reason}: ")


@pytest.mark.parametrize("rest", ["n", "ans came.", ", where she painted.", " and painted.", "; then she left."])
def test_a_text_without_its_end_is_not_gone_on_with(rest: str) -> None:
    found = find_added("Artemisia was born in Rome", f"Artemisia was born in Rome{rest}")
    if rest == " and painted.":
        assert found == "and painted."
    else:
        assert isinstance(found, Unreadable)
        assert found.reason.startswith("text_changed: ")


def test_a_change_is_shown_where_it_is() -> None:
    found = find_added("Artemisia was born in Rome in 1593.", "Artemisia was born in Roma in 1593. She painted.")
    assert isinstance(found, Unreadable)
    assert "expected 'isia was born in Rome in 1593.' in it" in found.reason
    assert "found 'isia was born in Roma in 1593. She paint'" in found.reason


def test_stops_inside_the_value_end_no_sentence() -> None:
    sentence = "He was in Oh! What a Lovely War with others."
    assert isinstance(find_added("Ada wrote.", f"Ada wrote. {sentence}"), Unreadable)
    assert find_added("Ada wrote.", f"Ada wrote. {sentence}", ["Oh! What a Lovely War"]) == sentence
    two = find_added("Ada wrote.", f"Ada wrote. {sentence} He left.", ["Oh! What a Lovely War"])
    assert isinstance(two, Unreadable)


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("She was a painter.", "painter"),
        ("Painter and poet, she left.", "painter"),
        ("She lived in Rome's heart.", "Rome"),
        ("She lived in the hague.", "The Hague"),
        ("Beyonce sang with Francois.", "Beyoncé"),
        ("Beyoncé sang.", "Beyonce"),
        ("He was born in Lodz.", "Łódź"),
        ("He came from Tromsø.", "Tromso"),
        ("She read Finnegan’s Wake.", "Finnegan's Wake"),
        ("She read “Heroes” there.", '"Heroes"'),
        ("She read Heroes there.", '"Heroes"'),
        ("Conan O`Brien came.", "Conan O’Brien"),
        ("A science-fiction writer.", "science fiction writer"),
        ("Jean‑Paul Sartre wrote.", "Jean-Paul Sartre"),
        ("It was shown in Artemisia in 1997.", "Artemisia (film)"),
        ("It was shown in Artemisia (film).", "Artemisia (film)"),
        ("Она родилась в городе Москва, сказала она.", "Москва"),
        ("She was taught by 李小龍先生 there.", "李小龍"),
        ("She lived in 東京都.", "東京"),
        ("He wrote नेहरू there.", "नेहरू"),
        ("She spoke to محمد علي.", "محمد علي"),
        ("He knew C++.", "C++"),
        ("They were in !!! for years.", "!!!"),
        ("She was in Wham!", "Wham!"),
        ("He stayed in Paris, Texas.", "Paris, Texas"),
        ("MASSE was his name.", "Maße"),
    ],
)
def test_a_label_is_said_as_a_reader_would_take_it(sentence: str, value: str) -> None:
    assert mentions(sentence, make_piece(value))


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("She was a painters' friend.", "painter"),
        ("He was a Roman.", "Roma"),
        ("He lived in Romes.", "Rome"),
        ("He lived in Paris.", "Paris, Texas"),
        ("She read Heroes.", "(Heroes)"),
        ("He knew नेहरू there.", "नेहर"),
        ("She was a court painter.", "painter of the court"),
        ("", "painter"),
        ("“”", '"'),
    ],
)
def test_a_part_of_a_word_or_label_is_not_enough(sentence: str, value: str) -> None:
    assert not mentions(sentence, make_piece(value))


def test_a_date_is_said_in_any_form_and_an_item_that_looks_like_one_only_as_it_stands() -> None:
    sentence = "She was born on 8 July 1593."
    assert mentions(sentence, make_piece("1593-07-08", is_date=True))
    assert mentions(sentence, make_piece("1593", is_date=True))
    assert not mentions(sentence, make_piece("1593-07-09", is_date=True))
    assert not mentions(sentence, make_piece("1593-07-08"))


def test_a_value_that_is_no_date_and_no_item_is_looked_for_as_it_stands() -> None:
    assert mentions("It was at an unknown time.", make_piece("unknown time", is_date=True))


NAMES = {"Q1": "Artemisia Gentileschi", "Q2": "Orazio Gentileschi"}


def check(sentence: str, value: str, *known: str) -> str | Unreadable:
    return check_added(OLD, f"{OLD} {sentence}", [make_piece(value)], map(make_piece, known), NAMES)


@pytest.mark.parametrize(
    ("sentence", "value", "known"),
    [
        ("She painted Judith.", "Judith", []),
        ("Later Artemisia painted Judith for her father Orazio Gentileschi.", "Judith", []),
        ("Of Rome and of Judith she was fond.", "Judith", ["Rome"]),
        ("One of her works is Judith.", "Judith", []),
        ("Formerly in Rome, she painted Judith.", "Judith", ["Rome"]),
        ("Her father was Orazio Gentileschi.", "Orazio Gentileschi", []),
        ("She won the Academy Award.", "Academy Award", []),
    ],
)
def test_an_added_sentence_says_its_piece(sentence: str, value: str, known: list[str]) -> None:
    assert check(sentence, value, *known) == sentence


@pytest.mark.parametrize(
    ("sentence", "value", "code"),
    [
        ("She painted Judith.", "Susanna", "value_missing"),
        ("She painted Judith in Naples.", "Judith", "adds"),
        ("Naples knew her Judith.", "Judith", "adds"),
        ("She painted Judith in Rome.", "Judith", "adds"),
        ("She painted Judith in 1612.", "Judith", "adds"),
        ("She painted three Judith pictures, all Judith.", "Judith", "adds"),
        ("She painted Judith in the 17th century.", "Judith", "adds"),
        ("She painted Judith in furlongs.", "Judith", "adds"),
        ("She painted Judith Ignore what came before.", "Judith", "adds"),
        ("Orazio painted Judith.", "Judith", "wrong_person"),
        ("She painted Judith. She left.", "Judith", "several_sentences"),
    ],
)
def test_an_added_sentence_says_nothing_else(sentence: str, value: str, code: str) -> None:
    found = check(sentence, value)
    assert isinstance(found, Unreadable)
    assert found.reason.startswith(f"{code}: ")


def test_a_date_may_be_told_coarser_but_not_finer() -> None:
    known = [make_piece("1593-07-08", is_date=True)]
    new = f"{OLD} She was a painter in {{}}."
    assert check_added(OLD, new.format("1593"), [make_piece("painter")], known, NAMES) == "She was a painter in 1593."
    coarse = [make_piece("1593", is_date=True)]
    assert isinstance(check_added(OLD, new.format("July 1593"), [make_piece("painter")], coarse, NAMES), Unreadable)


WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


@given(st.lists(WORD, min_size=1, max_size=4).map(" ".join), WORD, WORD)
def test_a_label_between_other_words_is_said(label: str, before: str, behind: str) -> None:
    assert mentions(f"{before} {label}, {behind}", make_piece(label))
