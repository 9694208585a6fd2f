"""Test the relations that join a pair, their names, and the initial paragraph about them."""

from functools import cache

import pytest

from factmill.tasks.assets import load_list_entries, load_property_numbers
from factmill.tasks.biokalma.core.pair_relations import (
    compose_opening_about_both_people,
    fold_name_case_and_apostrophes,
    join_lines_and_end_with_stop,
    parse_pair_relations_csv,
)
from factmill.tasks.biokalma.sources.person_pairs import load_packaged_pair_relations
from factmill.tasks.errors import SettingsError
from factmill.tasks.text.article_html import ArticleMainText, ArticleSection
from factmill.tasks.world.files import load_world_data

RELATIONS = load_packaged_pair_relations()
read_world = cache(load_world_data)
HEAD = "pid,label,between,inverse,other_names\n"


def test_twenty_relations_are_listed_and_fourteen_link_people() -> None:
    assert RELATIONS.people_pids == (
        "P26", "P40", "P22", "P25", "P3373", "P1066", "P802", "P184", "P185", "P737", "P451", "P1038", "P1327", "P3342",
    )  # fmt: skip
    assert tuple(RELATIONS.labels) == (*RELATIONS.people_pids, "P108", "P749", "P355", "P127", "P112", "P1830")
    assert RELATIONS.labels["P1066"] == "student of"


def test_inverse_relations_are_mutual() -> None:
    assert RELATIONS.inverses["P40"] == {"P22", "P25"}
    for pid, inverses in RELATIONS.inverses.items():
        assert all(pid in RELATIONS.inverses[other] for other in inverses), pid


@pytest.mark.parametrize(
    ("text", "pid"),
    [
        ("P26", "P26"),
        (" p26 ", "P26"),
        ("spouse", "P26"),
        ("Married  to", "P26"),
        ("wife", "P26"),
        ("father", "P22"),
        ("father of", "P40"),
        ("hasChild", "P40"),
        ("student", "P802"),
        ("student of", "P1066"),
        ("doctoral student of", "P184"),
        ("parent company", "P749"),
        ("subsidiary", "P355"),
        ("child of", None),
        ("P19", None),
        ("", None),
        ("|", None),
    ],
)
def test_relation_is_found_by_id_label_or_alias(text: str, pid: str | None) -> None:
    assert RELATIONS.find_pid(text) == pid


def test_name_comparison_ignores_case_spaces_and_apostrophe_style() -> None:
    assert (
        fold_name_case_and_apostrophes(" Sinéad\u00a0 O’Connor\n")
        == fold_name_case_and_apostrophes("sinéad o'connor")
        == "sinéad o'connor"
    )
    assert fold_name_case_and_apostrophes("O Connor") != fold_name_case_and_apostrophes("O'Connor")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("pid,label\n", "expected the columns"),
        (HEAD + "26,spouse,people,,\n", "line 2: expected five columns and a new PID"),
        (HEAD + "P26,spouse,people,\n", "line 2: expected five columns"),
        (HEAD + "P26,spouse,people,,wife,husband\n", "line 2: expected five columns"),
        (HEAD + "P26,spouse,people,,\nP26,mate,people,,\n", "line 3: expected five columns and a new PID"),
        (HEAD + "P26, ,people,,wife\n", "line 2: expected a label for P26"),
        (HEAD + "P26,spouse,two,,\n", "line 2: expected people or others in column between, found 'two'"),
        (HEAD + "P26,spouse,people,26,\n", "column inverse, found '26'"),
        (HEAD + "P26,spouse,people,,mate\nP451,lover,people,,Mate\n", "line 3: P26 already has the name 'mate'"),
        (HEAD + "P26,spouse,people,,P40\nP40,child,people,,\n", "line 3: P26 already has the name 'p40'"),
    ],
)
def test_invalid_relation_list_is_rejected_with_its_line(text: str, part: str) -> None:
    with pytest.raises(SettingsError, match=rf"pair_relations\.csv.*{part}"):
        parse_pair_relations_csv(text)


@pytest.mark.parametrize(
    ("name", "some"),
    [
        ("pool_left_out", {17, 21, 27, 31, 136, 373, 734, 735, 910, 935, 1343, 1792}),
        ("person_properties", {19, 20, 21, 22, 25, 26, 40, 69, 106}),
    ],
)
def test_property_list_names_each_property_once_by_id_and_label(name: str, some: set[int]) -> None:
    lines = load_list_entries(name)
    assert len(load_property_numbers(name)) == len(lines)
    assert some <= load_property_numbers(name)
    properties = read_world().properties
    labels = {f"{pid} {known.labels['en']}" for pid, known in properties.items()}
    in_world = [line for line in lines if line.split()[0] in properties]
    assert [line for line in in_world if line not in labels] == []


def test_pools_exclude_no_pair_relation() -> None:
    assert not {int(pid[1:]) for pid in RELATIONS.labels} & load_property_numbers("pool_left_out")


def test_relation_labels_match_embedded_world() -> None:
    known = read_world().properties
    assert {
        pid: known[pid].labels["en"] for pid in RELATIONS.labels if pid in known
    }.items() <= RELATIONS.labels.items()


def test_person_properties_in_embedded_world_belong_to_people_only() -> None:
    """One item is wrongly taken for a person: a body found in the ice, with a sex but no occupation."""
    listed = {f"P{number}" for number in load_property_numbers("person_properties")}
    taken = {
        item.labels["en"]
        for item in read_world().items.values()
        if any(statement.pid in listed for statement in item.statements)
        and not any(getattr(statement.value, "qid", "") == "Q5" for statement in item.list_statements_of("P31"))
    }
    assert taken == {"Ötzi"}


def make_article(*paragraphs: str) -> ArticleMainText:
    return ArticleMainText((ArticleSection((), 0, paragraphs[:1]), ArticleSection(("Life",), 2, paragraphs[1:])))


ADA = make_article(
    "Ada Lovelace was a mathematician. She lived in London.",
    "Her mother had her taught early. In 1833 she met Charles Babbage, who showed her a machine.",
    "Ada kin of Byronic poets",
)


@pytest.mark.parametrize(
    ("name", "other", "expected"),
    [
        (
            "Ada Lovelace",
            "charles babbage",
            "Ada Lovelace was a mathematician. In 1833 she met Charles Babbage, who showed her a machine.",
        ),
        ("Ada Lovelace", "Ada Lovelace", "Ada Lovelace was a mathematician."),
        ("Ada Lovelace", "Lord Byron", None),
        ("Ada Lovelace", "Charles Bab", None),
        ("Augusta King", "Charles Babbage", None),
    ],
)
def test_opening_names_both_people(name: str, other: str, expected: str | None) -> None:
    assert compose_opening_about_both_people(ADA, name, other) == expected


def test_first_sentence_without_full_stop_gets_one() -> None:
    article = make_article("Ada Lovelace, mathematician", "Ada knew Lord Byron only from his poems.")
    assert compose_opening_about_both_people(article, "Ada Lovelace", "Lord Byron") == (
        "Ada Lovelace, mathematician. Ada knew Lord Byron only from his poems."
    )
    assert compose_opening_about_both_people(ArticleMainText(()), "Ada Lovelace", "Lord Byron") is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained\n and  rained", "It rained and rained."),
        ("Done.", "Done."),
        ('He said "no."', 'He said "no."'),
        ("Why?)", "Why?)"),
    ],
)
def test_paragraph_ends_with_full_stop(text: str, expected: str) -> None:
    assert join_lines_and_end_with_stop(text) == expected
