"""Test the lists for fan-out questions: parsing, and consistency of the packaged ones."""

import pytest

from factmill.tasks.errors import SettingsError
from factmill.tasks.fanoutqa.core.sets.set_kinds import (
    get_property_phrases,
    parse_phrases_by_property_and_members,
    parse_set_kinds_csv_by_source_unit,
)
from factmill.tasks.fanoutqa.sources.question_files import load_phrases_by_property_and_members, load_set_kinds

SETS = "relation,listed,owner_classes,member_classes,members,called,group,changes,properties\n"
LINE = "P47,by owner,Q6|Q7,Q6|Q7,countries,$place,the neighbours of $place,no,P36|P1082\n"
NAMED = "P57,by name,,Q11,films,the film $name,,no,P577\n"
PROPERTIES = "pid,members,kind,moment,question,most,least,above,below\n"
AREA = "P2046,,quantity,,What is the area of $x in $unit?,are largest,are smallest,exceed $limit,stay below $limit\n"


def test_set_kind_key_is_relation_and_first_class() -> None:
    found = parse_set_kinds_csv_by_source_unit(SETS + LINE + NAMED)
    assert list(found) == ["P47 Q6", "P57 Q11"]
    assert found["P47 Q6"].owner_classes == {"Q6", "Q7"}
    assert not found["P47 Q6"].is_named
    assert found["P57 Q11"].is_named
    assert found["P57 Q11"].properties == ("P577",)


@pytest.mark.parametrize(
    ("called", "name", "one", "listed"),
    [
        ("the film $name", "The Sting", "the film The Sting", "The Sting"),
        ("the $name", "Nile", "the Nile", "the Nile"),
        ("the $name", "The Fleet", "the Fleet", "the Fleet"),
        ("$place", "Matterhorn", "the Matterhorn", "the Matterhorn"),
        ("$place", "Mont Blanc", "Mont Blanc", "Mont Blanc"),
    ],
)
def test_formats_member_name_alone_and_in_list(called: str, name: str, one: str, listed: str) -> None:
    (kind,) = parse_set_kinds_csv_by_source_unit(SETS + NAMED.replace("the film $name", called)).values()
    assert (kind.format_member_name(name), kind.format_listed_name(name)) == (one, listed)


def test_changing_set_is_described_with_month() -> None:
    (kind,) = parse_set_kinds_csv_by_source_unit(SETS + LINE.replace(",no,", ",yes,")).values()
    assert kind.format_group("Netherlands", "May 2020") == "the neighbours of the Netherlands as of May 2020"
    (kind,) = parse_set_kinds_csv_by_source_unit(SETS + LINE).values()
    assert kind.format_group("France", "May 2020") == "the neighbours of France"


def test_property_phrase_for_member_class_precedes_general_phrase() -> None:
    line = "P577,{},time,,When was $x {}?,come last,come first,come after $limit,come before $limit\n"
    properties = parse_phrases_by_property_and_members(
        PROPERTIES + line.format("films", "shown") + line.format("", "published")
    )
    sets = parse_set_kinds_csv_by_source_unit(SETS + NAMED + NAMED.replace("Q11", "Q12").replace("films", "books"))
    lines = [get_property_phrases(properties, "P577", kind).question for kind in sets.values()]
    assert lines == ["When was $x shown?", "When was $x published?"]
    with pytest.raises(SettingsError, match=r"P57 Q11 .*property P36"):
        get_property_phrases(properties, "P36", sets["P57 Q11"])


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("relation,properties\n", "expected the columns relation, listed"),
        (SETS + LINE.replace("P47", "47"), "line 2: expected the id of a property"),
        (SETS + LINE.replace("Q6|Q7", "Q6|seven", 1), "expected ids .*, found 'seven'"),
        (SETS + LINE.replace("by owner", "by hand"), "expected by name or by owner, found 'by hand'"),
        (SETS + LINE.replace(",no,", ",perhaps,"), "expected yes or no"),
        (SETS + LINE.replace("countries,$place", "countries,$x"), r"expected \$name or \$place once in '\$x'"),
        (SETS + LINE.replace("the neighbours of $place", ""), "a group for sets listed by owner"),
        (SETS + NAMED.replace(",,no", ",the films of $name,no"), "no group for sets listed by name"),
        (SETS + LINE + LINE, "line 3: P47 Q6 .*twice"),
        (SETS + LINE.replace("P36|P1082", "P36|P1082,P2"), "expected 9 columns"),
    ],
)
def test_invalid_set_line_raises_settings_error_naming_it(text: str, part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        parse_set_kinds_csv_by_source_unit(text)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (PROPERTIES + AREA.replace("quantity", "number"), "line 2: expected one of item, time, quantity"),
        (
            PROPERTIES + AREA.replace("are largest", ""),
            "expected most, least, above and below for times and quantities",
        ),
        (PROPERTIES + AREA.replace("quantity", "item"), "none for items"),
        (PROPERTIES + AREA.replace("$x", "it"), r"expected \$x once"),
        (PROPERTIES + AREA.replace("exceed $limit", "are vast"), r"expected \$limit once"),
        (PROPERTIES + AREA.replace("$unit?", "$unit."), "ends in a question mark"),
        (PROPERTIES + AREA.replace("quantity,,", "quantity,yes,"), r"expected \$month once in 'yes'"),
        (PROPERTIES + AREA + AREA, "P2046 .*twice"),
    ],
)
def test_invalid_property_line_raises_settings_error_naming_it(text: str, part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        parse_phrases_by_property_and_members(text)


def test_shipped_set_kinds_use_exactly_shipped_properties() -> None:
    properties = load_phrases_by_property_and_members()
    used = {
        get_property_phrases(properties, pid, kind) for kind in load_set_kinds().values() for pid in kind.properties
    }
    assert used == set(properties.values())


@pytest.mark.parametrize("pid", ["P1082", "P2043", "P2044", "P2046", "P2053"])
def test_repeatedly_measured_property_is_asked_as_of_date(pid: str) -> None:
    (asked,) = (each for each in load_phrases_by_property_and_members().values() if each.pid == pid)
    assert asked.format_moment("May 2020") == "according to Wikipedia in May 2020"
