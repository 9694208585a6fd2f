"""Sentences that tell one piece of knowledge."""

import re

import pytest

from tasks.rules.biographies.pieces import Fact
from tasks.rules.biographies.reading import read_paragraph
from tasks.rules.biographies.sentences import name_with_article, verbalise_facts
from tasks.rules.biographies.told import find_properties
from tasks.rules.tables import Wordings, load_biography_properties, load_biography_sentences
from tasks.text.sentences import split_sentences

VALUES = {
    "cause of death": "pneumonia",
    "date of birth": "1879-03-14",
    "date of death": "44 BC",
    "place of birth": "Ulm",
    "place of death": "Ulm",
}


def verbalise(
    property_label: str, value: str, *, gender: str = "", is_person: bool = True, is_repeated: bool = False
) -> str:
    return verbalise_facts(
        "Ada Lovelace", [Fact(property_label, value)], gender, is_person=is_person, is_repeated=is_repeated
    )


def verbalise_in_every_wording(
    property_label: str, value: str, monkeypatch: pytest.MonkeyPatch, **options: bool
) -> list[str]:
    """Return the sentence in every wording that fits the value."""
    told: list[str] = []
    number = 0

    def choose(wordings: tuple[str, ...], _: str) -> str:
        nonlocal number
        number = len(wordings)
        return wordings[len(told)]

    with monkeypatch.context() as patched:
        patched.setattr("tasks.rules.biographies.sentences.choose_wording", choose)
        told.append(verbalise(property_label, value, **options))
        while len(told) < number:
            told.append(verbalise(property_label, value, **options))
    return told


@pytest.mark.parametrize(
    ("property_label", "value", "said"),
    [
        ("date of birth", "1879-03-14", "on 14 March 1879"),
        ("date of birth", "1879-03", "in March 1879"),
        ("date of birth", "1879", "in 1879"),
        ("date of birth", "44 BC", "in 44 BC"),
        ("date of birth", "0044-03-15 BC", "on 15 March 44 BC"),
        ("date of birth", "0121-04-26", "on 26 April 121"),
        ("date of birth", "14", "in AD 14"),
        ("date of birth", "1590s", "in the 1590s"),
        ("date of birth", "16th century", "in the 16th century"),
        ("date of birth", "about 3000 BC", "about 3000 BC"),
        ("date of birth", "1879-13", "in the 1879-13"),
        ("inception", "1919", "in 1919"),
        ("place of birth", "Netherlands", "the Netherlands"),
        ("place of birth", "The Hague", "The Hague"),
        ("occupation", "actor", "an actor"),
        ("occupation", "university teacher", "a university teacher"),
        ("occupation", "heir", "an heir"),
        ("occupation", "monarch", "reigned as a monarch"),
        ("educated at", "University of Oxford", "the University of Oxford"),
        ("educated at", "Trinity College", " Trinity College"),
        ("educated at", "École normale supérieure", "the École normale supérieure"),
        ("educated at", "Royal College of Art", "the Royal College of Art"),
        ("employer", "BBC", "the BBC"),
        ("employer", "NASA", " NASA"),
        ("member of", "The Beatles", " The Beatles"),
        ("award received", "Copley Medal", "the Copley Medal"),
        ("award received", "Knight Bachelor", "made a Knight Bachelor"),
        ("award received", "honorary doctorate", "an honorary doctorate"),
        ("place of burial", "Panthéon", "the Panthéon"),
        ("place of burial", "Westminster Abbey", " Westminster Abbey"),
        ("cause of death", "stroke", "a stroke"),
        ("cause of death", "traffic accident", "in a traffic accident"),
        ("cause of death", "pneumonia", " pneumonia"),
        ("conflict", "World War II", " World War II"),
        ("conflict", "Crimean War", "the Crimean War"),
        ("movement", "Baroque", "the Baroque"),
        ("movement", "Romanticism", " Romanticism"),
        ("religion or worldview", "Catholic Church", "the Catholic Church"),
        ("religion or worldview", "atheism", " atheism"),
        ("member of sports team", "Chicago Bulls", "the Chicago Bulls"),
        ("member of sports team", "FC Barcelona", " FC Barcelona"),
        ("ethnic group", "Germans", "among the Germans"),
        ("ethnic group", "Irish American", "an Irish American"),
        ("position held", "President of the United States", "President of the United States"),
        ("instrument", "piano", "piano"),
        ("number of cats", "three", "Ada Lovelace's number of cats was three."),
    ],
)
def test_articles_prepositions_and_dates_suit_the_value(
    property_label: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sentence in verbalise_in_every_wording(property_label, value, monkeypatch):
        assert said in sentence.replace("The ", "the ") or said in sentence, sentence
        assert "Ada Lovelace" in sentence
        assert sentence.endswith(".")


def test_words_for_kin_follow_the_gender(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Ada Lovelace was a child of Lord Byron." in verbalise_in_every_wording("father", "Lord Byron", monkeypatch)
    assert verbalise("sibling", "X", gender="male") == "Ada Lovelace was a brother of X."
    assert verbalise("sibling", "X", gender="female") == "Ada Lovelace was a sister of X."
    assert verbalise("sibling", "X") == "Ada Lovelace was a sibling of X."


def test_the_wording_of_a_piece_stays_and_those_of_others_differ() -> None:
    told = [verbalise("occupation", job) for job in ("composer", "painter", "poet", "singer", "writer", "dancer")]
    assert told == [
        verbalise("occupation", job) for job in ("composer", "painter", "poet", "singer", "writer", "dancer")
    ]
    assert len({re.sub(r" an? .*", "", sentence) for sentence in told}) > 1


def test_what_was_told_before_is_told_with_also() -> None:
    for property_label in ("occupation", "award received", "influenced by", "member of"):
        assert " also " in verbalise(property_label, "X", is_repeated=True)
        assert " also " not in verbalise(property_label, "X")


@pytest.mark.parametrize(("value", "end"), [("Warner Bros.", "Warner Bros."), ("Oh!", "Oh!"), ("BMW", "BMW.")])
def test_a_value_with_its_own_stop_gets_no_second_one(value: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(
        sentence.endswith(f" {end}") for sentence in verbalise_in_every_wording("record label", value, monkeypatch)
    )


def test_several_values_are_one_sentence_with_a_verb_that_fits() -> None:
    def verbalise_all(label: str, *values: str) -> str:
        facts = [Fact(label, value) for value in values]
        return verbalise_facts("Ada Lovelace", facts, "", is_person=True, is_repeated=False)

    assert "a poet, an actor and a painter." in verbalise_all("occupation", "poet", "actor", "painter")
    assert "in Rome and the Netherlands." in verbalise_all("residence", "Rome", "Netherlands")
    for at in range(20):
        for label in ("instrument", "influenced by", "has subsidiary"):
            assert " was among" not in (told := verbalise_all(label, f"A{at}", "B")), told
            assert f"A{at} and" in told
            assert "B was" not in told


def test_what_is_no_person_may_have_an_article() -> None:
    told = verbalise_facts("University of Paris", [Fact("sport", "polo")], "", is_person=False, is_repeated=False)
    assert "he University of Paris" in told
    assert [name_with_article(name) for name in ("University of Paris", "iPhone", "The Who", "Paris")] == [
        "the University of Paris",
        "iPhone",
        "The Who",
        "Paris",
    ]


@pytest.mark.parametrize("label", [label for label in load_biography_sentences() if label])
def test_every_wording_is_one_sentence_that_questions_and_also_understand(
    label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = load_biography_properties()
    for wordings in load_biography_sentences()[label]:
        value = fitting_value(label, wordings)
        for is_repeated in (False, True):
            for sentence in verbalise_in_every_wording(label, value, monkeypatch, is_repeated=is_repeated):
                read = read_paragraph(sentence, ["Ada Lovelace"], [""])
                # "a child of" tells either parent
                told = {properties[found].tie or properties[found].aspect for found in find_properties(read[0], 0)}
                assert (properties[label].tie or properties[label].aspect) in told, sentence
                assert split_sentences(f"She lived. {sentence}") == ["She lived.", sentence]
                assert not re.search(r"[$\[\]]|  ", sentence), sentence


def fitting_value(label: str, wordings: Wordings) -> str:
    if not wordings.values:
        default = "David Hume" if load_biography_properties()[label].tie else "Hearts"
        return VALUES.get(
            label, "1919" if label in ("inception", "dissolved, abolished or demolished date") else default
        )
    plain = [value for value in wordings.values if "[" not in value]
    return (
        plain[0].replace("* ", "Old ").replace(" *", " Ends").replace("*", "old ")
        if plain
        else {"award received": "prize"}.get(label, "Hull Owls")
    )
