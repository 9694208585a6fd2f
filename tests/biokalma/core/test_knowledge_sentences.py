"""Test pieces of knowledge as plain sentences."""

from collections.abc import Mapping

import pytest
from support.rows.biographies import make_piece

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.core.knowledge_sentences import (
    RelationWording,
    derive_wording_from_label,
    parse_relation_wordings_by_pid,
    verbalise_piece,
)
from factmill.tasks.errors import SettingsError

HEAD = "pid,label,form,wording,article\n"


@pytest.fixture(scope="module")
def forms() -> Mapping[str, RelationWording]:
    return parse_relation_wordings_by_pid((ASSETS_ROOT / "data" / "lists" / "relation_forms.csv").read_text("utf-8"))


def verbalise(
    forms: Mapping[str, RelationWording], name: str, pid: str, value: str, label: str = "", *, is_date: bool = False
) -> str:
    piece = make_piece("Q1", pid, value, None if is_date else "Q2", property=label or pid)
    return verbalise_piece(piece, name, forms)


def test_several_values_of_relation_share_one_sentence(forms: Mapping[str, RelationWording]) -> None:
    def verbalise_values(pid: str, *values: str) -> str:
        first, *more = (make_piece("Q1", pid, value, "Q2") for value in values)
        return verbalise_piece(first, "Artemisia", forms, more)

    assert verbalise_values("P106", "painter", "poet") == "Artemisia's occupation is painter and poet."
    assert verbalise_values("P463", "A", "Royal Society", "C") == "Artemisia is a member of A, the Royal Society and C."


@pytest.mark.parametrize(
    ("name", "pid", "value", "sentence"),
    [
        ("Artemisia", "P19", "Rome", "Artemisia's place of birth is Rome."),
        ("Artemisia", "P463", "Royal Society", "Artemisia is a member of the Royal Society."),
        ("Artemisia", "P69", "King's College London", "Artemisia is educated at King's College London."),
        ("Artemisia", "P737", "Caravaggio", "Artemisia is influenced by Caravaggio."),
        ("Artemisia", "P1412", "Italian", "Artemisia speaks Italian."),
        ("Artemisia", "P140", "Catholic Church", "Artemisia's religion is the Catholic Church."),
        ("Artemisia", "P166", "Nobel Prize in Physics", "Artemisia received the Nobel Prize in Physics."),
        ("Artemisia", "P607", "World War I", "Artemisia took part in World War I."),
        (
            "George",
            "P39",
            "President of the United States",
            "George holds the position of President of the United States.",
        ),
        ("Douglas Adams", "P800", "Starship Titanic", "Douglas Adams' notable work is Starship Titanic."),
        ("Ada", "P737", "Alonzo Church", "Ada is influenced by Alonzo Church."),
        ("Ada", "P800", "Star Wars", "Ada's notable work is Star Wars."),
        ("Ada", "P800", "Help!", "Ada's notable work is Help!"),
        ("Ada", "P108", "Apple Inc.", "Ada's employer is Apple Inc."),
        ("Apple Inc.", "P1056", "iPhone", "Apple Inc. produces iPhone."),
        ("University of Jena", "P159", "Jena", "The University of Jena has its headquarters in Jena."),
        ("McDonald's", "P452", "fast food", "McDonald's industry is fast food."),
        ("Bentley", "P127", "Volkswagen Group", "Bentley is owned by the Volkswagen Group."),
        ("孔子", "P19", "曲阜", "孔子's place of birth is 曲阜."),
    ],
)
def test_each_relation_has_its_template(
    forms: Mapping[str, RelationWording], name: str, pid: str, value: str, sentence: str
) -> None:
    assert verbalise(forms, name, pid, value) == sentence


@pytest.mark.parametrize(
    ("text", "written"),
    [("1593-07-08", "8 July 1593"), ("44 BC", "44 BC"), ("5th century BC", "the 5th century BC")],
)
def test_dates_are_written_out(forms: Mapping[str, RelationWording], text: str, written: str) -> None:
    assert verbalise(forms, "Ada", "P569", text, is_date=True) == f"Ada's date of birth is {written}."


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        ("eye colour", "X's eye colour is Y."),
        ("head of government", "X's head of government is Y."),
        ("position held", "X's position held is Y."),
        ("archives", "X's archives include Y."),
        ("symptoms and signs", "X's symptoms and signs include Y."),
        ("series", "X's series is Y."),
        ("dissolved, abolished or demolished date", "X's dissolved, abolished or demolished date is Y."),
        ("member of the deme", "X is a member of the deme Y."),
        ("participant in", "X is a participant in Y."),
        ("admirer of", "X is an admirer of Y."),
        ("part of", "X is part of Y."),
        ("employed by", "X is employed by Y."),
        ("officially opened by", "X is officially opened by Y."),
        ("written by", "X is written by Y."),
        ("located on street", "X is located on street Y."),
        ("present in work", "X is present in work Y."),
        ("owns", "X owns Y."),
        ("shares border with", "X shares border with Y."),
        ("has part(s) of the class", "X has part of the class Y."),
        ("commander of (DEPRECATED)", "X is a commander of Y."),
    ],
)
def test_unlisted_relation_is_verbalised_by_its_label(label: str, sentence: str) -> None:
    assert verbalise({}, "X", "P99999", "Y", label) == sentence


def test_label_that_is_only_qualifier_is_kept() -> None:
    assert derive_wording_from_label("(unnamed)") == RelationWording("possessive", "(unnamed)")


def test_wording_list_uses_every_form_and_has_sorted_unique_entries(forms: Mapping[str, RelationWording]) -> None:
    assert {form.form for form in forms.values()} == {"possessive", "is", "verb"}
    rows = (ASSETS_ROOT / "data" / "lists" / "relation_forms.csv").read_text("utf-8").splitlines()[1:]
    assert len(rows) == len(forms)
    assert [int(row[1 : row.index(",")]) for row in rows] == sorted(int(pid[1:]) for pid in forms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pid,form\n", "expected the columns"),
        (f"{HEAD}Q1,a,is,,\n", "line 2: expected five columns and a new PID"),
        (f"{HEAD}P1,a,is,,\nP1,a,is,,\n", "line 3: expected five columns and a new PID"),
        (f"{HEAD}P1,a,is\n", "line 2: expected five columns"),
        (f"{HEAD}P1,a,was,,\n", "line 2: .*column form"),
        (f"{HEAD}P1,a,is,,no\n", "line 2: .*column form"),
    ],
)
def test_invalid_line_of_wording_list_is_named(text: str, expected: str) -> None:
    with pytest.raises(SettingsError, match=expected):
        parse_relation_wordings_by_pid(text)
