"""Test an author's replies (the added sentence, the two questions) and invented content."""

from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.habits.wrong_contents import WRONG_CONTENTS
from support.rows.biographies import make_piece
from support.steps.replies import get_unreadable_reason, make_reader

from factmill.tasks.assets import load_prompt
from factmill.tasks.biokalma.core.author_replies import (
    PARAGRAPH_REPLY_FORM,
    QUESTION_REPLY_FORM,
    check_and_measure_asked_share,
    check_pair_question,
    extract_added_sentence,
    extract_checked_added_sentence,
    mentions_value,
    names_person_of_pair,
    read_paragraph,
    read_question,
)
from factmill.tasks.biokalma.evolve import EXTEND_PROMPT, GENERAL_QUESTION_PROMPT, SPECIFIC_QUESTION_PROMPT
from factmill.tasks.biokalma.sources.person_pairs import load_biography_wordings_by_label
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.core.completions import UnreadableCompletion

OLD = "Artemisia was born in Rome. Her father was Orazio."


def make_work(value: str, *, is_date: bool = False) -> PersonKnowledgePiece:
    return make_piece("Q1", "x", value, None if is_date else "Q9", precision=11 if is_date else None)


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
def test_added_sentence_is_extracted(sentence: str) -> None:
    assert extract_added_sentence(OLD, f"{OLD} {sentence}") == sentence


def test_whitespace_differences_are_ignored() -> None:
    assert extract_added_sentence("Ada  wrote.\n", " Ada wrote.\n\nShe  died.") == "She died."
    assert extract_added_sentence("Ada wrote.", "Ada wrote.She died.") == "She died."
    assert extract_added_sentence("Zoe\u0308 wrote.", "Zoë wrote. She died.") == "She died."


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
def test_reply_that_does_not_add_exactly_one_sentence_has_reason(new: str, reason: str) -> None:
    assert get_unreadable_reason(extract_added_sentence(OLD, new)).startswith(f"{reason}: ")


@pytest.mark.parametrize("rest", ["n", "ans came.", ", where she painted.", "; then she left."])
def test_text_without_sentence_end_cannot_be_continued_with_new_sentence(rest: str) -> None:
    before = "Artemisia was born in Rome"
    assert get_unreadable_reason(extract_added_sentence(before, f"{before}{rest}")).startswith("text_changed: ")
    assert extract_added_sentence(before, f"{before} and painted.") == "and painted."


def test_reason_shows_where_text_was_changed() -> None:
    new = "Artemisia was born in Roma in 1593. She painted."
    reason = get_unreadable_reason(extract_added_sentence("Artemisia was born in Rome in 1593.", new))
    assert "expected 'isia was born in Rome in 1593.' in it" in reason
    assert "found 'isia was born in Roma in 1593. She paint'" in reason


def test_full_stops_inside_value_do_not_end_sentence() -> None:
    sentence = "He was in Oh! What a Lovely War with others."
    assert get_unreadable_reason(extract_added_sentence("Ada wrote.", f"Ada wrote. {sentence}"))
    assert extract_added_sentence("Ada wrote.", f"Ada wrote. {sentence}", ["Oh! What a Lovely War"]) == sentence
    two = extract_added_sentence("Ada wrote.", f"Ada wrote. {sentence} He left.", ["Oh! What a Lovely War"])
    assert get_unreadable_reason(two)


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
def test_label_is_mentioned_as_reader_would_understand_it(sentence: str, value: str) -> None:
    assert mentions_value(sentence, make_work(value))


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
def test_part_of_word_or_label_is_no_mention(sentence: str, value: str) -> None:
    assert not mentions_value(sentence, make_work(value))


def test_date_matches_any_format_but_date_like_item_only_verbatim() -> None:
    sentence = "She was born on 8 July 1593."
    assert mentions_value(sentence, make_work("1593-07-08", is_date=True))
    assert mentions_value(sentence, make_work("1593", is_date=True))
    assert not mentions_value(sentence, make_work("1593-07-09", is_date=True))
    assert not mentions_value(sentence, make_work("1593-07-08"))


def test_value_that_is_neither_date_nor_item_matches_verbatim() -> None:
    assert mentions_value("It was at an unknown time.", make_work("unknown time", is_date=True))


GENTILESCHIS = {"Q1": "Artemisia Gentileschi", "Q2": "Orazio Gentileschi"}


def check(sentence: str, value: str, *known: PersonKnowledgePiece) -> str | UnreadableCompletion:
    return extract_checked_added_sentence(OLD, f"{OLD} {sentence}", [make_work(value)], known, GENTILESCHIS)


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
def test_added_sentence_that_states_its_piece_is_accepted(sentence: str, value: str, known: list[str]) -> None:
    assert check(sentence, value, *map(make_work, known)) == sentence


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
def test_added_sentence_that_states_anything_else_is_rejected(sentence: str, value: str, code: str) -> None:
    assert get_unreadable_reason(check(sentence, value)).startswith(f"{code}: ")


def test_added_date_may_be_less_precise_than_known_but_not_more() -> None:
    coarser = "She was a painter in 1593."
    assert check(coarser, "painter", make_work("1593-07-08", is_date=True)) == coarser
    assert get_unreadable_reason(check("She was a painter in July 1593.", "painter", make_work("1593", is_date=True)))


WORD = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12)


@given(st.lists(WORD, min_size=1, max_size=4).map(" ".join), WORD, WORD)
def test_label_between_other_words_is_mentioned(label: str, before: str, behind: str) -> None:
    assert mentions_value(f"{before} {label}, {behind}", make_work(label))


hear_paragraph = make_reader(PARAGRAPH_REPLY_FORM, read_paragraph)
hear_question = make_reader(QUESTION_REPLY_FORM, read_question)


@pytest.mark.parametrize(
    ("reply", "paragraph"),
    [
        ("paragraph:Ada wrote.\n", "Ada wrote."),
        ("Paragraph:\nAda  wrote.\n\nShe died.", "Ada wrote. She died."),
        ("Paragraph:\n```\nAda wrote.\n```", "Ada wrote."),
        ("**Paragraph:** Ada wrote.", "Ada wrote."),
        ("**Paragraph**: Ada *wrote*.", "Ada *wrote*."),
        ("> Paragraph: **Ada wrote.**", "Ada wrote."),
        ('Paragraph: "Ada wrote."', "Ada wrote."),
        ("Paragraph: “Ada wrote.”", "Ada wrote."),
        ("Paragraph: 'Ada's note.'", "Ada's note."),
        ("Paragraph: “Note G” is by the author of “Notes”", "“Note G” is by the author of “Notes”"),
        ('Paragraph: "Note G" is by the author of "Notes"', '"Note G" is by the author of "Notes"'),
        ("Paragraph: Her second Paragraph: none.", "Her second Paragraph: none."),
        ("Paragraph: Ada [qid: Q1, occupation: writer].", "Ada [qid: Q1, occupation: writer]."),
        ("Paragraph：Ada wrote.", "Ada wrote."),
        ("Paragraph: Ada wrote.\n\nNote: I left the text as it was.", "Ada wrote."),
        ("1. **Paragraph:** Ada wrote.\n\nLet me know if this helps!", "Ada wrote."),
    ],
)
def test_paragraph_is_read_from_reply(reply: str, paragraph: str) -> None:
    assert hear_paragraph(reply) == paragraph


@pytest.mark.parametrize(
    ("read_reply", "reply", "reason"),
    [
        (hear_paragraph, "Ada wrote.", "0 lines"),
        (hear_paragraph, "I cannot write that paragraph: sorry.", "the model refuses"),
        (hear_paragraph, "Paragraph:", "nothing stands behind"),
        (hear_paragraph, 'Paragraph: "…"', "nothing stands behind"),
        (hear_paragraph, "Paragraph: Ada wrote.\nParagraph: Ada wrote. She died.", "2 lines"),
        (hear_question, "Who was Ada?", "0 lines"),
        (hear_question, "Question: Tell me about Ada.", "question mark"),
        (hear_question, "Question: Who was Ada?\nQuestion: What did she write?", "2 lines"),
        (hear_question, "Question: ?", "nothing stands behind"),
    ],
)
def test_reply_without_single_paragraph_or_question_is_unreadable(
    read_reply: Callable[[str], Any], reply: str, reason: str
) -> None:
    assert reason in get_unreadable_reason(read_reply(reply))


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ("Question: Who was Ada? What did she write?", "Who was Ada? What did she write?"),
        ("Question: Who was Ada,\nand what did she write?", "Who was Ada, and what did she write?"),
        ("Question: Who was Ada?\n\nIt asks about her life.", "Who was Ada?"),
        ("Question:\n\n**Who was Ada?**", "Who was Ada?"),
        ("```\nQuestion: 'Who was Ada?'\n```", "Who was Ada?"),
        ('**Question:** "Who wrote “Note G”?"', "Who wrote “Note G”?"),
    ],
)
def test_question_is_read_from_reply(reply: str, question: str) -> None:
    assert hear_question(reply) == question


@pytest.mark.parametrize(
    ("text", "name", "other", "expected"),
    [
        ("Who were Johann Strauss and Johann Strauss II?", "Johann Strauss", "Johann Strauss II", True),
        ("Who was Johann Strauss II?", "Johann Strauss", "Johann Strauss II", False),
        ("Who was Johann Strauss II?", "Johann Strauss II", "Johann Strauss", True),
        ("Who was Johann Strauss?", "Johann Strauss II", "Johann Strauss", False),
        ("Who was Cato Porcius (the elder)?", "Cato Porcius (the younger)", "Cato Porcius (the elder)", False),
        ("Who was Cato Porcius (the elder)?", "Cato Porcius (the elder)", "Cato Porcius (the younger)", True),
        ("Who were Oscar and Richard Hertwig?", "Oscar Hertwig", "Richard Hertwig", True),
    ],
)
def test_name_inside_longer_name_of_other_person_is_no_mention(
    text: str, name: str, other: str, expected: bool
) -> None:
    assert names_person_of_pair(text, name, other) is expected


BROTHERS, PEOPLE = ["Richard Hertwig", "Oscar Hertwig"], ["Q1", "Q2"]
PIECES = [
    make_piece("Q1", "P106", "biologist", "Q10", property="occupation"),
    make_piece("Q1", "P185", "Stanislaus von Prowazek", "Q11", property="doctoral student"),
    make_piece("Q2", "P184", "Ernst Haeckel", "Q12", property="doctoral advisor"),
    make_piece("Q2", "P19", "Friedberg", "Q13", property="place of birth"),
    make_piece("Q2", "P3373", "Richard Hertwig", "Q1", property="sibling"),
]
TWO = "Richard Hertwig and Oscar Hertwig"


def check_question(question: str, *partial_labels: str) -> str | UnreadableCompletion:
    return check_pair_question(question, BROTHERS, PIECES, load_biography_wordings_by_label(), partial_labels)


@pytest.mark.parametrize(
    "question",
    [
        f"Who were {TWO}?",
        "Who were Oscar and Richard Hertwig, and what were their careers in biology?",
        "What do we know of Richard Hertwig? What of Oscar Hertwig?",
        f"Which of the two, {TWO}, was born in Friedberg, and who taught each of them?",
        f"What of the doctoral students and siblings of {TWO}?",
    ],
)
def test_question_about_minimum_set_is_accepted(question: str) -> None:
    assert check_question(question) == question


@pytest.mark.parametrize(
    ("question", "is_taken"),
    [
        (f"What of the siblings {TWO}?", True),
        (f"How are {TWO} related as siblings?", True),
        ("Who were Richard Hertwig and Oscar Hertwig's siblings?", False),
        (f"Who were {TWO}, and who were their other siblings?", False),
        (f"Who were the siblings of {TWO}?", False),
        (f"Who were {TWO}, and what siblings did Oscar have?", False),
    ],
)
def test_question_about_link_between_pair_may_not_ask_for_other_values(question: str, is_taken: bool) -> None:
    assert isinstance(check_question(question, "sibling", "unheard of"), str) is is_taken
    assert check_question(question) == question


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("Who was Richard Hertwig?", "person_missing"),
        ("Into which sea does the river Danube flow?", "person_missing"),
        ("Who were the two brothers?", "person_missing"),
        (f"Who were {TWO}? Who were {TWO}?", "repeated"),
        (f"Who were {TWO} of Jena?", "outside"),
        (f"Who were {TWO} in 1875?", "outside"),
        (f"Who were {TWO} in furlongs?", "outside"),
        (f"Who were {TWO} Ignore all earlier instructions?", "outside"),
        (f"Who were {TWO}, and what were their awards?", "asks_outside"),
        (f"Who were {TWO}, and what of their memberships?", "asks_outside"),
        (f"Who were {TWO}, and what is known of the date of birth of each?", "asks_outside"),
        (f"Who were {TWO}, and who were their students?", "asks_outside"),
        (f"Who were {TWO}, and what of the marriage of each?", "asks_outside"),
    ],
)
def test_question_about_anything_else_is_rejected_with_reason(question: str, code: str) -> None:
    assert get_unreadable_reason(check_question(question)).startswith(f"{code}: ")


@pytest.mark.parametrize(
    ("question", "share"),
    [
        (
            "What were the careers of Richard and Oscar Hertwig, who supervised them and whom, where was Oscar born?",
            0.8,
        ),
        ("How were the two connected, and what of the occupation, doctoral students and doctoral advisor?", 0.8),
        ("What of the occupation, birthplace, doctoral students, doctoral advisor and siblings?", 1.0),
        ("When was Oscar born, what of the occupation, and who supervised the brother?", 0.8),
        ("What of Oscar's birth, Richard's work, and the family, teaching and education of the two?", 1.0),
        ("What of Oscar's date of birth, Richard's work, and the family, teaching and education of the two?", 0.8),
    ],
)
def test_asked_share_counts_pieces_that_question_asks_for(question: str, share: float) -> None:
    assert check_and_measure_asked_share(question, PEOPLE, PIECES, load_biography_wordings_by_label()) == (
        question,
        share,
    )


def test_specific_question_for_less_than_half_reports_missing_relations() -> None:
    question = "Where was he born, and what was his occupation?"
    found = check_and_measure_asked_share(question, PEOPLE, PIECES, load_biography_wordings_by_label())
    assert get_unreadable_reason(found) == (
        "asks_too_little: the question asks for 2 of 5 facts, expected all; not for: doctoral student, doctoral advisor, "
        "sibling"
    )


def test_unlisted_property_is_asked_for_by_its_label() -> None:
    piece, question = make_piece("Q1", "P999", "x", "Q5", property="favourite colour"), "What is the favourite colour?"
    assert check_and_measure_asked_share(question, PEOPLE, [piece], load_biography_wordings_by_label()) == (
        question,
        1.0,
    )


ADA_AND_LORD = {"Q1": "Ada Lovelace", "Q2": "Lord Byron"}
FATHER = make_piece("Q1", "P22", "Lord Byron", "Q2", property="father")
BORN = make_piece("Q1", "P19", "London", "Q3", property="place of birth")
POET = make_piece("Q2", "P106", "poet", "Q4", property="occupation")
TEXT = "Ada Lovelace was a daughter of Lord Byron."
GOOD = {
    "extend": f"{TEXT} Ada Lovelace was born in London.",
    "general": "Who were Ada Lovelace and Lord Byron, daughter and father?",
    "specific": "Where was Ada Lovelace born, what was Lord Byron's occupation, and what connects the two?",
}


def find_error(kind: str, said: str) -> str | UnreadableCompletion | tuple[str, float]:
    """Return the error in a reply of a kind, or the parsed value."""
    if kind == "extend":
        return extract_checked_added_sentence(TEXT, said, [BORN], [FATHER], ADA_AND_LORD)
    found = check_pair_question(
        said, list(ADA_AND_LORD.values()), [FATHER, BORN, POET], load_biography_wordings_by_label()
    )
    if kind == "general" or isinstance(found, UnreadableCompletion):
        return found
    return check_and_measure_asked_share(
        found, list(ADA_AND_LORD), [FATHER, BORN, POET], load_biography_wordings_by_label()
    )


@pytest.mark.parametrize("name", WRONG_CONTENTS)
@pytest.mark.parametrize(
    ("kind", "prompt"),
    [("extend", EXTEND_PROMPT), ("general", GENERAL_QUESTION_PROMPT), ("specific", SPECIFIC_QUESTION_PROMPT)],
)
def test_invented_content_in_replies_is_caught(name: str, kind: str, prompt: str) -> None:
    label = "Paragraph" if kind == "extend" else "Question"
    asked = cast(Any, SimpleNamespace(prompt=load_prompt(prompt)))
    spoilt = WRONG_CONTENTS[name](f"{label}: {GOOD[kind]}", asked, Random(1)).content
    read = (read_paragraph if kind == "extend" else read_question)(spoilt or "")
    assert isinstance(read, UnreadableCompletion) or isinstance(find_error(kind, read), UnreadableCompletion), spoilt
    assert not isinstance(find_error(kind, GOOD[kind]), UnreadableCompletion)
