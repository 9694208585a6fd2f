"""Test questions of relations: made from a subject, and the subject extracted from them again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.core.question_relations import extract_subject_name, parse_question_relations_csv
from factmill.tasks.errors import SettingsError

RELATIONS = load_entity_questions_relations()
KEPT = [
    *("P19", "P20", "P26", "P40", "P50", "P69", "P112", "P127", "P131", "P159", "P170", "P175", "P176", "P264"),
    *("P276", "P740"),
]
HEAD = "pid,label,template,kept,subject_kinds,answer_kinds\n"


def test_sixteen_relations_are_default_and_nine_more_are_known() -> None:
    assert [pid for pid, relation in RELATIONS.items() if relation.is_default] == KEPT
    assert len(RELATIONS) == 25


@pytest.mark.parametrize("pid", RELATIONS)
@pytest.mark.parametrize(
    "subject", ["Ada", "Who Are You?", "St. John's", "What is the capital of X", "?", "東京 (band)", "a+b*c"]
)
def test_subject_name_is_extracted_from_question(pid: str, subject: str) -> None:
    relation = RELATIONS[pid]
    assert extract_subject_name(relation.template.replace("[X]", subject), relation) == subject


@given(st.sampled_from(sorted(RELATIONS)), st.text(min_size=1).filter(lambda text: text.split() != []))
def test_any_extracted_subject_has_normalised_spaces(pid: str, subject: str) -> None:
    relation = RELATIONS[pid]
    assert extract_subject_name(relation.template.replace("[X]", subject), relation) == " ".join(subject.split())


@pytest.mark.parametrize(
    ("pid", "question", "expected"),
    [
        ("P19", "  Where was Ada  Lovelace born ?", "Ada Lovelace"),
        ("P19", "Where was Ada Lovelace born", "Ada Lovelace"),
        ("P40", "Who is Bob’s child?", "Bob"),
        ("P40", "Who is James's child?", "James"),
        ("P131", "Where is Zug located?", "Zug"),
        ("P276", "Where is Zug located?", "Zug"),
        ("P19", "Where did Ada Lovelace die?", None),
        ("P19", "where was Ada Lovelace born?", None),
        ("P19", "Where was born?", None),
        ("P26", "Who is married to?", None),
        ("P50", "", None),
    ],
)
def test_subject_is_extracted_only_from_question_matching_template(
    pid: str, question: str, expected: str | None
) -> None:
    assert extract_subject_name(question, RELATIONS[pid]) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("pid,label\n", "columns"),
        (HEAD + "X19,a,Is [X]?,yes,,\n", "line 2"),
        (HEAD + "P19,a,Is [X]?,yes\n", "six columns"),
        (HEAD + "P19,a,Is it?,yes,,\n", "[X]"),
        (HEAD + "P19,a,Is [X],yes,,\n", "question mark"),
        (HEAD + "P19,a,Is [X]?,maybe,,\n", "yes or no"),
        (HEAD + "P19,a,Is [X]?,yes,,\nP19,b,Is [X]?,no,,\n", "line 3"),
    ],
)
def test_invalid_relations_file_is_rejected_with_line(text: str, part: str) -> None:
    with pytest.raises(SettingsError, match=part.replace("[", r"\[").replace("]", r"\]")):
        parse_question_relations_csv(text)
