"""The two questions about a pair, from the pieces of its set."""

import re

import pytest

from tasks.rules.biographies.pieces import Fact, Known
from tasks.rules.biographies.questions import Subject, ask_general, ask_specific
from tasks.rules.biographies.subjects import Kind
from tasks.rules.tables import load_biography_properties, load_biography_questions

WOMAN, MAN = Kind(True, "female", True), Kind(True, "male", True)
ADA, BYRON = "Ada Lovelace", "Lord Byron"


def subject(name: str, facts: str, kind: Kind, label: str = "") -> Subject:
    """Return whom a question is about; `facts` are `property: value`, with semicolons between."""
    told = (Fact(*each.split(": ")) for each in filter(None, facts.split("; ")))
    return Subject(Known(f"Q{len(name)}", name, tuple(told)), kind, label)


def pair(of_ada: str, of_byron: str, ada: Kind = WOMAN, byron: Kind = MAN) -> list[Subject]:
    return [subject(ADA, of_ada, ada), subject(BYRON, of_byron, byron, "George Byron")]


def ask_all(subjects: list[Subject]) -> set[str]:
    """Return the general questions that many paragraphs get of these pieces."""
    return {ask_general(f"Paragraph {number}.", subjects) for number in range(300)}


BORN = "place of birth: London; occupation: writer; father: Lord Byron"


@pytest.mark.parametrize(
    ("of_ada", "of_byron", "expected"),
    [
        ("father: Lord Byron", "", "Lord Byron and his daughter Ada Lovelace"),
        ("father: George Byron", "", "Ada Lovelace and her father Lord Byron"),
        ("", "child: Ada Lovelace", "Lord Byron and his daughter Ada Lovelace"),
        ("spouse: Lord Byron", "", "their marriage"),
        ("", "sibling: Ada Lovelace", "siblings"),
        ("student of: Lord Byron", "", "Ada Lovelace and her teacher Lord Byron"),
        ("", "doctoral student: Ada Lovelace", "Lord Byron and his doctoral student Ada Lovelace"),
        ("influenced by: Lord Byron", "", "Ada Lovelace, whom he influenced"),
        ("occupation: writer", "occupation: poet", "about Ada Lovelace, and what about Lord Byron"),
    ],
)
def test_the_general_question_fits_the_tie(of_ada: str, of_byron: str, expected: str) -> None:
    asked = ask_all(pair(of_ada, of_byron))
    assert any(expected in question for question in asked), asked
    assert all(ADA in question and BYRON in question for question in asked)


@pytest.mark.parametrize("tie", ["father: Lord Byron", "student of: Lord Byron", "doctoral advisor: Lord Byron"])
def test_the_elder_is_never_the_younger(tie: str) -> None:
    for question in ask_all(pair(tie, "")) | ask_all(pair(tie, "")[::-1]):
        short = question.replace(ADA, "Y").replace(BYRON, "E")
        assert not re.search(r"her (?:daughter|(?:doctoral )?student)|his (?:father|teacher|doctoral advisor)", short)
        assert not re.search(r"Y and his|E and her|Y influence|E, who", short), question


def test_there_are_many_kinds_of_general_questions() -> None:
    assert len(ask_all(pair(BORN, "award received: Prize; place of death: Rome"))) >= 15
    assert (
        len([each for kind, told in load_biography_questions().items() if kind[0] == "general" for each in told]) > 20
    )


def test_things_have_no_lives() -> None:
    asked = ask_all(pair(BORN, "", Kind(False, "")))
    assert not any(re.search(r"\b(?:life|lives)\b", question) for question in asked)


@pytest.mark.parametrize("alive", [Kind(True, "female", False), Kind(False, "", False)])
def test_were_is_said_of_the_dead_alone(alive: Kind) -> None:
    assert any(re.search(r"\b(?:was|were)\b", question) for question in ask_all(pair(BORN, "")))
    for question in ask_all(pair(BORN, "", alive)) | ask_all(pair(BORN, "", WOMAN, alive)):
        assert not re.search(r"\b(?:was|were)\b", question), question


@pytest.mark.parametrize(
    ("of_ada", "of_byron", "aspects_of_ada", "aspects_of_byron"),
    [
        ("date of birth: 1815; place of birth: London", "", "birth", ""),
        ("cause of death: cancer", "date of death: 1824", "cause of death", "date of death"),
        ("occupation: mathematician; father: Lord Byron", "", "occupation", ""),
        ("mother: Annabella Milbanke; father: Lord Byron", "", "mother", ""),
        ("father: Lord Byron", "mother: Catherine Gordon", "", "mother"),
        ("instrument: harp; instrument: piano", "educated at: Harrow School", "instruments", "education"),
        ("place of birth: London", "place of birth: Rome", "birthplace", "birthplace"),
        ("pet name: Bell", "", "pet name", ""),
    ],
)
def test_the_specific_question_names_the_aspect_of_every_piece(
    of_ada: str, of_byron: str, aspects_of_ada: str, aspects_of_byron: str
) -> None:
    question = ask_specific("Paragraph.", pair(of_ada, of_byron))
    both = (f"the {aspects_of_ada} of Ada Lovelace and of Lord Byron",)
    for name, its, aspects in ((ADA, "her", aspects_of_ada), (BYRON, "his", aspects_of_byron)):
        assert name in question
        assert not aspects or any(form in question for form in (f"{name}'s {aspects}", f"{its} {aspects}", *both)), (
            question
        )
    assert ("related" in question) is ("Lord Byron" in of_ada)


@pytest.mark.parametrize(
    ("of_ada", "of_byron", "expected"),
    [
        (
            "cause of death: cancer; occupation: writer; place of birth: x",
            "",
            "birthplace, occupation and cause of death",
        ),
        ("field of work: x; date of death: y; occupation: z; place of death: u", "", "Ada Lovelace's work and death"),
        (
            "mother: x; sibling: y; spouse: z; employer: u; notable work: v; award received: w; member of: t",
            "",
            "Ada Lovelace's family, work and honours",
        ),
        (
            "occupation: x; residence: y",
            "residence: z; occupation: u",
            "homes and occupation of Ada Lovelace and of Lord",
        ),
        (
            "occupation: x; residence: y; spouse: z",
            "residence: z; occupation: u; pet: v",
            "homes and occupation of Ada Lovelace and of Lord Byron, about her marriages and about his pets",
        ),
        ("spouse: Lord Byron; pet: x", "", "What is known about the marriage of Ada Lovelace and Lord Byron"),
        ("student of: Lord Byron", "", "Which of Ada Lovelace and Lord Byron taught the other?"),
    ],
)
def test_the_aspects_of_a_specific_question_are_few_and_in_the_order_of_a_life(
    of_ada: str, of_byron: str, expected: str
) -> None:
    assert expected in ask_specific("Paragraph.", pair(of_ada, of_byron))


def test_of_two_women_none_is_her() -> None:
    asked = ask_specific("x", pair("occupation: x; pet: y; child: z", "pet: a; child: b; sport: c", WOMAN, WOMAN))
    assert "about Ada Lovelace's occupation and about Lord Byron's sport" in asked


def test_of_a_father_and_a_son_of_one_name_one_is_meant() -> None:
    winston = subject("Winston Churchill", "father: Randolph Churchill", MAN)
    randolph = subject("Randolph Churchill", "father: Winston Churchill", MAN)
    assert "Randolph Churchill's father" in ask_specific("x", [winston, randolph]).replace(
        "his father", "Randolph Churchill's father"
    )


@pytest.mark.parametrize("value", ["London", "1815", "Annabella Milbanke", "Harrow", "Prize"])
def test_a_question_gives_no_value_away(value: str) -> None:
    subjects = pair(
        f"{BORN}; date of birth: 1815; mother: Annabella Milbanke", "educated at: Harrow; award received: Prize"
    )
    assert value not in ask_specific("x", subjects)
    assert all(value not in question for question in ask_all(subjects))


def test_every_kind_of_tie_is_known_to_the_list_of_properties() -> None:
    asked = {tie for question, tie in load_biography_questions() if question == "general"} - {"any", "apart"}
    assert asked <= {known.tie for known in load_biography_properties().values()}


def test_the_two_questions_never_share_a_wording() -> None:
    wordings = load_biography_questions()
    general = {each for (question, _), told in wordings.items() if question == "general" for each in told}
    specific = {each for (question, _), told in wordings.items() if question == "specific" for each in told}
    assert general.isdisjoint(specific)
