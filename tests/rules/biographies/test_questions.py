"""The two questions that a paragraph answers."""

import re

import pytest

from tasks.rules.biographies.questions import Subject, ask_general, ask_specific
from tasks.rules.tables import load_biography_properties, load_biography_questions

ADA, BYRON = Subject("Ada Lovelace", True, "female"), Subject("Lord Byron", True, "male")
GIT, MICROSOFT = Subject("GitHub", False), Subject("Microsoft", False)


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("Ada Lovelace was a daughter of Lord Byron.", "parent and child"),
        ("Lord Byron married Ada Lovelace.", "as a couple"),
        ("Ada Lovelace and Lord Byron, both writers, were married.", "as a couple"),
        ("Ada Lovelace was a sister of Lord Byron.", "relatives"),
        ("Ada Lovelace was taught by Lord Byron.", "teacher and student"),
        ("Lord Byron supervised the doctorate of Ada Lovelace.", "doctoral advisor and student"),
        ("Ada Lovelace was influenced by Lord Byron.", "influence"),
        ("Ada Lovelace met Lord Byron.", "the two|link"),
        ("Ada Lovelace lived. Lord Byron married.", "the two|link"),
    ],
)
def test_the_general_question_fits_the_tie(paragraph: str, expected: str) -> None:
    question = ask_general(paragraph, [ADA, BYRON])
    assert re.search(expected, question), question
    assert "Ada Lovelace" in question
    assert "Lord Byron" in question


def who_are(paragraph: str, *subjects: Subject) -> str:
    """Return how a general question begins; the paragraph is varied until one of that kind is drawn."""
    for more in range(20):
        question = ask_general(paragraph + " So it is." * more, subjects)
        if question.startswith("Wh") and not question.startswith("What is there"):
            return question.split(", and")[0]
    raise AssertionError(f"no question of this kind for {paragraph}")


@pytest.mark.parametrize(
    ("paragraph", "subjects", "expected"),
    [
        ("Ada Lovelace knew Lord Byron.", (ADA, BYRON), "Who were Ada Lovelace and Lord Byron"),
        ("Ada Lovelace is a writer. Lord Byron is a poet.", (ADA, BYRON), "Who are Ada Lovelace and Lord Byron"),
        ("Ada Lovelace is a writer. Lord Byron was a poet.", (ADA, BYRON), "Who is Ada Lovelace, who was Lord Byron"),
        ("Ada Lovelace is a writer. She died in London.", (ADA,), "Who was Ada Lovelace"),
        ("Ada Lovelace and Lord Byron are sisters.", (ADA, BYRON), "Who are Ada Lovelace and Lord Byron"),
        ("Ada Lovelace is a student of Lord Byron.", (ADA, BYRON), "Who were Ada Lovelace and Lord Byron"),
        ("GitHub belongs to Microsoft.", (GIT, MICROSOFT), "What were GitHub and Microsoft"),
        ("GitHub was founded by Lord Byron.", (GIT, BYRON), "What was GitHub, who was Lord Byron"),
    ],
)
def test_the_tense_is_that_of_the_paragraph(paragraph: str, subjects: tuple[Subject, ...], expected: str) -> None:
    assert who_are(paragraph, *subjects) == expected


@pytest.mark.parametrize(
    ("paragraph", "aspects_of_ada", "aspects_of_byron"),
    [
        ("Ada Lovelace was born in London on 10 December 1815.", "date of birth and birthplace", ""),
        ("Ada Lovelace, born in London, married Lord Byron in 1835.", "birthplace", ""),
        ("Ada Lovelace died of cancer. Lord Byron died in 1824.", "cause of death", "date of death"),
        ("Ada Lovelace was an English mathematician.", "occupation", ""),
        ("Ada Lovelace was a daughter of Annabella Milbanke.", "parents", ""),
        ("Annabella Milbanke was the mother of Ada Lovelace.", "parents", ""),
        ("Ada Lovelace was the mother of Anne Blunt.", "children", ""),
        ("Ada Lovelace was a daughter of Lord Byron.", "", ""),
        ("Ada Lovelace, Lord Byron's friend, knew him. His mother was a writer.", "", "parents"),
        (
            "Lord Byron rode. He was educated at Harrow School. Ada Lovelace played the harp.",
            "instruments",
            "education",
        ),
        ("Ada Lovelace knew Lord Byron. Both were born in London.", "birthplace", "birthplace"),
        ("In matters of religion, Ada Lovelace belonged to the Church of England.", "beliefs", ""),
        ("Ada Lovelace made a career as a voice actor.", "occupation", ""),
        ("Ada Lovelace worked as a university teacher.", "occupation", ""),
    ],
)
def test_the_specific_question_names_what_is_told_of_whom(
    paragraph: str, aspects_of_ada: str, aspects_of_byron: str
) -> None:
    question = ask_specific(paragraph, [ADA, BYRON])
    for name, aspects in (("Ada Lovelace", aspects_of_ada), ("Lord Byron", aspects_of_byron)):
        if aspects:
            forms = (
                f"{name}'s {aspects}",
                f"the {aspects} of {name}",
                f"the {aspects} of the ",
                f"the {aspects} of each",
            )
            assert any(form in question for form in forms), question
    if not aspects_of_ada and not aspects_of_byron:
        assert "How exactly" in question


@pytest.mark.parametrize(
    "value", ["London", "1815", "cancer", "mathematician", "Annabella Milbanke", "Harrow", "Church of England"]
)
def test_a_question_gives_no_value_away(value: str) -> None:
    paragraph = (
        "Ada Lovelace, a mathematician, was born in London in 1815 as a daughter of Lord Byron and Annabella Milbanke. "
        "Lord Byron attended Harrow School. By religion, Ada Lovelace belonged to the Church of England. "
        "The cause of Ada Lovelace's death was cancer."
    )
    assert value not in ask_general(paragraph, [ADA, BYRON])
    assert value not in ask_specific(paragraph, [ADA, BYRON])


def test_a_long_paragraph_gives_a_question_of_some_aspects() -> None:
    paragraph = (
        "Ada Lovelace was born in London in 1815, studied at Oxford, worked as a writer, received a prize, lived in Rome, "
        "played the harp, spoke French, was a member of a club and was buried in Paris."
    )
    question = ask_specific(paragraph, [ADA])
    assert question.count(",") <= 4
    assert "date of birth, birthplace, education" in question


def test_every_kind_of_tie_is_known_to_the_list_of_properties() -> None:
    asked = {tie for question, tie in load_biography_questions() if question == "general"} - {"", "alone", "nobody"}
    assert asked <= {known.tie for known in load_biography_properties().values()}


def test_the_two_questions_never_share_a_wording() -> None:
    wordings = load_biography_questions()
    general = {each for (question, _), told in wordings.items() if question == "general" for each in told}
    specific = {each for (question, _), told in wordings.items() if question == "specific" for each in told}
    assert general.isdisjoint(specific)
