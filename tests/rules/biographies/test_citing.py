"""Where the rules author finds a piece of knowledge stated in a paragraph."""

import re
from collections.abc import Sequence

import pytest

from tasks.rules.biographies.citing import cite_paragraph
from tasks.rules.biographies.pieces import Fact, Known, read_knowledge, read_piece

ADA = (
    "{qid: Q1, name: Ada Lovelace, place of birth: London, place of death: London, occupation: mathematician, "
    "occupation: writer, father: Lord Byron, student of: Augustus De Morgan, residence: Princeton, "
    "award received: Copley Medal, cause of death: cancer, date of birth: 1815-12-10, date of death: 1852-11-27}"
)
BYRON = (
    "{qid: Q2, name: Lord Byron, child: Ada Lovelace, occupation: poet, occupation: writer, place of birth: London, "
    "spouse: Annabella Milbanke, award received: Copley Medal, date of birth: 1788-01, date of death: 1824}"
)


def cite(paragraph: str, knowledge: str = f"{ADA}\n{BYRON}", genders: Sequence[str] = ("female", "male")) -> list[str]:
    """Return what was cited as `1 property: value`, by person, behind the word it stands at: `London|1 place of …`."""
    people = read_knowledge(knowledge)
    annotated = cite_paragraph(paragraph, people, [*genders, *[""] * len(people)][: len(people)])
    assert re.sub(r" \[qid: [^\]]*\]", "", annotated) == paragraph
    found = re.finditer(r"(\S+?)((?: \[qid: [^\]]*\])+)", annotated)
    brackets = [
        (place[1], re.findall(r"\[qid: Q(\d+), name: [^:]*?, ((?:[a-z ]+: )[^\]]*)\]", place[2])) for place in found
    ]
    return [f"{word}|{qid} {parts}" for word, cited in brackets for qid, parts in cited]


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("Ada Lovelace was born in London.", ["London|1 place of birth: London"]),
        ("Ada Lovelace died in London.", ["London|1 place of death: London"]),
        ("Ada Lovelace was born and died in London.", ["London|1 place of birth: London, place of death: London"]),
        ("Ada Lovelace liked London.", []),
        ("Ada Lovelace studied in London.", []),
        ("Ada Lovelace lived at Princeton University.", []),
        ("Ada Lovelace lived in Princeton.", ["Princeton|1 residence: Princeton"]),
        ("Her teacher was born in London.", []),
        ("Ada Lovelace's teacher was born in London.", []),
        ("Ada Lovelace, whose friend died in London, liked horses.", []),
        ("Ada Lovelace had a house, and a man who died in London owned it.", []),
        ("Ada Lovelace, who died in London, liked horses.", ["London|1 place of death: London"]),
        ("The mathematician Augustus De Morgan knew Ada Lovelace.", []),
        ("The mathematician Ada Lovelace knew him.", ["mathematician|1 occupation: mathematician"]),
        ("Ada Lovelace was taught by a mathematician.", []),
        ("Ada Lovelace was an English mathematician.", ["mathematician|1 occupation: mathematician"]),
        ("Ada Lovelace met the poet Lord Byron.", ["poet|2 occupation: poet"]),
        ("Ada Lovelace, a friend of Lord Byron, a writer.", ["writer|2 occupation: writer"]),
        ("Lovelace was honoured with the Copley Medal.", ["Medal|1 award received: Copley Medal"]),
        ("The Copley Medal was awarded to Byron.", ["Medal|2 award received: Copley Medal"]),
        ("Ada Lovelace died of cancer.", ["cancer|1 cause of death: cancer"]),
        ("Ada Lovelace wrote of cancerous growths.", []),
        ("Ada Day was born in London.", []),
        ("Ada Lovelace Day was born in London.", []),
    ],
)
def test_a_value_is_cited_where_the_sentence_tells_its_property_of_the_person(
    paragraph: str, expected: list[str]
) -> None:
    assert cite(paragraph) == expected


@pytest.mark.parametrize(
    ("written", "told", "is_said"),
    [
        ("10 December 1815", "1815-12-10", True),
        ("December 10, 1815", "1815-12-10", True),
        ("December 10 1815", "1815-12-10", True),
        ("the 10th of December 1815", "1815-12-10", True),
        ("1815-12-10", "1815-12-10", True),
        ("1815", "1815-12-10", False),
        ("December 1815", "1815-12-10", False),
        ("11 December 1815", "1815-12-10", False),
        ("December 1815", "1815-12", True),
        ("10 December 1815", "1815", True),
        ("the 1815s", "1815", False),
        ("44 BC", "44 BC", True),
        ("44", "44 BC", False),
        ("44 BC", "44", False),
        ("15 March 44 BC", "0044-03-15 BC", True),
        ("15 March 44", "0044-03-15 BC", False),
        ("the 1590s", "1590s", True),
        ("the 16th century", "16th century", True),
    ],
)
def test_a_date_is_cited_in_any_spelling_but_never_beyond_its_precision(written: str, told: str, is_said: bool) -> None:
    cited = cite(
        f"Ada Lovelace was born in {written} or so.", f"{{qid: Q1, name: Ada Lovelace, date of birth: {told}}}"
    )
    assert cited == ([f"{written.rsplit(maxsplit=1)[-1]}|1 date of birth: {told}"] if is_said else [])


def test_dates_in_brackets_behind_a_name_are_those_of_birth_and_death() -> None:
    expected = ["1815|1 date of birth: 1815-12-10", "1852|1 date of death: 1852-11-27"]
    assert cite("Ada Lovelace (10 December 1815 – 27 November 1852) wrote.") == expected
    assert cite("Ada Lovelace met Lord Byron (1788 – 1824).") == ["1824|2 date of death: 1824"]


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("Ada Lovelace wrote. She was born in London.", ["London|1 place of birth: London"]),
        ("Ada Lovelace wrote. He was born in London.", []),
        ("Ada Lovelace knew Lord Byron. She was born in London.", ["London|1 place of birth: London"]),
        ("Somebody wrote. She was born in London.", []),
        ("Ada Lovelace wrote. It rained. She was born in London.", []),
        (
            "Ada Lovelace knew Lord Byron. Both were born in London.",
            ["London|1 place of birth: London", "London|2 place of birth: London"],
        ),
        (
            "Ada Lovelace and Lord Byron received the Copley Medal.",
            ["Medal|1 award received: Copley Medal", "Medal|2 award received: Copley Medal"],
        ),
        ("Ada Lovelace knew that Lord Byron received the Copley Medal.", ["Medal|2 award received: Copley Medal"]),
    ],
)
def test_pronouns_go_on_about_whom_they_can_only_mean(paragraph: str, expected: list[str]) -> None:
    assert cite(paragraph) == expected


def test_without_genders_a_pronoun_is_only_read_behind_a_sentence_about_one() -> None:
    assert cite("Ada Lovelace wrote. She was born in London.", genders=()) == ["London|1 place of birth: London"]
    assert cite("Ada Lovelace knew Lord Byron. She was born in London.", genders=()) == []


@pytest.mark.parametrize(
    ("paragraph", "end"),
    [
        ("Ada Lovelace was the daughter of Lord Byron.", "Byron"),
        ("Lord Byron was the father of Ada Lovelace.", "Lovelace"),
        ("Ada Lovelace, daughter of Lord Byron, wrote.", "Byron"),
        ("The father of Ada Lovelace is Lord Byron.", "Byron"),
        ("Ada Lovelace wrote. Lord Byron was her father.", "Byron"),
    ],
)
def test_a_tie_between_the_two_is_cited_for_both_behind_who_is_named_last(paragraph: str, end: str) -> None:
    assert sorted(cite(paragraph)) == [f"{end}|1 father: Lord Byron", f"{end}|2 child: Ada Lovelace"]


def test_a_tie_is_not_cited_where_another_one_is_told() -> None:
    assert cite("Ada Lovelace wrote to Lord Byron.") == []
    assert cite("Ada Lovelace married Augustus De Morgan.") == []


def test_father_and_child_of_one_name_are_told_apart_by_the_words_alone() -> None:
    randolph = "{qid: Q1, name: Randolph Churchill, father: Winston Churchill, child: Winston Churchill}"
    assert cite("Randolph Churchill's father was Winston Churchill.", randolph) == [
        "Churchill|1 father: Winston Churchill"
    ]
    assert cite("The child of Randolph Churchill is Winston Churchill.", randolph) == [
        "Churchill|1 child: Winston Churchill"
    ]
    assert cite("Randolph Churchill was the son of Winston Churchill.", randolph) == []


def test_people_with_one_last_name_are_known_by_their_first() -> None:
    curies = (
        "{qid: Q1, name: Marie Curie, place of birth: Warsaw}\n{qid: Q2, name: Pierre Curie, place of birth: Paris}"
    )
    assert cite("Marie was born in Warsaw, Pierre was born in Paris.", curies) == [
        "Warsaw|1 place of birth: Warsaw",
        "Paris|2 place of birth: Paris",
    ]
    assert cite("Curie was born in Warsaw.", curies) == []


def test_a_value_is_cited_once_and_behind_its_possessive() -> None:
    assert cite("Lord Byron's daughter was Ada Lovelace. Ada Lovelace was a daughter of Lord Byron.") == [
        "Lovelace|1 father: Lord Byron",
        "Lovelace|2 child: Ada Lovelace",
    ]
    assert cite("Ada's father was Byron, Lord Byron's daughter was Ada.", BYRON) == []


def test_names_with_other_letters_quotes_and_commas_are_found() -> None:
    knowledge = (
        '{qid: Q1, name: 毛泽东, occupation: poet}\n{qid: Q2, name: Maria "Nannerl" Mozart, place of birth: Foo, Bar}'
    )
    assert cite("毛泽东 was a poet.", knowledge) == ["poet|1 occupation: poet"]
    assert cite('Maria "Nannerl" Mozart was born in Foo, Bar.', knowledge) == ["Bar|2 place of birth: Foo, Bar"]


def test_apostrophes_count_in_either_form() -> None:
    knowledge = "{qid: Q1, name: Flann O’Brien, educated at: St John's College}"
    assert cite("Flann O'Brien studied at St John’s College.", knowledge) == [
        "College|1 educated at: St John's College"
    ]


def test_knowledge_is_read_with_commas_and_colons_in_labels_and_values() -> None:
    line = (
        "{qid: Q1, name: Augusta King, Countess of Lovelace, languages spoken, written or signed: English, "
        "notable work: Good, Bad: A Story, unheard-of property: a, b}"
    )
    known = read_knowledge(f"nothing\n{line}\n")[0]
    assert isinstance(known, Known)
    assert known.name == "Augusta King, Countess of Lovelace"
    assert [(fact.property, fact.value) for fact in known.facts] == [
        ("languages spoken, written or signed", "English"),
        ("notable work", "Good, Bad: A Story"),
        ("unheard-of property", "a, b"),
    ]


def test_a_piece_of_a_property_with_a_capital_is_read() -> None:
    known = read_piece("{qid: Q1, name: Ada, IQ score: 3}")
    assert (known.name, known.facts) == ("Ada", (Fact("IQ score", "3"),))
    of_two = read_piece("{qid: Q1, name: Ada, IQ score: 3, IQ score: 4, or 5}")
    assert of_two.facts == (Fact("IQ score", "3"), Fact("IQ score", "4, or 5"))


@pytest.mark.parametrize("text", ["", "{qid: Q1, name: Ada}", "[qid: Q1, name: Ada, occupation: poet]"])
def test_what_is_no_piece_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="piece"):
        read_piece(text)
