"""Test the embedded world's GRANOLA-EQ questions: a question in the present tense has a fact that is true today."""

import json
from collections.abc import Iterator

import pytest

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.core.question_relations import extract_subject_name
from factmill.tasks.world.data import WORLD_FOLDER, Item, ItemValue
from factmill.tasks.world.files import load_world_data

ITEMS = load_world_data().items
PRESENT = ("P26", "P127", "P131", "P159", "P264", "P276")


def list_facts(pid: str) -> Iterator[tuple[Item, Item, set[str]]]:
    """Yield subject, answer and the relation's end dates, for every pair in a relation's rows."""
    rows = json.loads((WORLD_FOLDER / f"sources/entityquestions/{pid}.json").read_text("utf-8"))
    names = {
        (extract_subject_name(row["question"], load_entity_questions_relations()[pid]), answer)
        for row in rows
        for answer in row["answers"]
    }
    for item in ITEMS.values():
        for statement in item.list_statements_of(pid):
            assert isinstance(statement.value, ItemValue)
            value = ITEMS[statement.value.qid]
            if any((item.labels["en"], name) in names for name in value.names):
                yield item, value, {str(each.value) for each in statement.qualifiers if each.pid == "P582"}


@pytest.mark.parametrize("pid", PRESENT)
def test_present_tense_questions_use_no_ended_facts(pid: str) -> None:
    ended = []
    # a marriage may end by death, and a label keeps the work of a disbanded band
    for subject, value, ends in list_facts(pid):
        deaths = {str(each.value) for item in (subject, value) for each in item.list_statements_of("P570")}
        lasting = (value,) if pid == "P264" else (subject, value)
        dissolved = [item.labels["en"] for item in lasting if item.list_statements_of("P576")]
        if over := [*sorted(ends - deaths), *dissolved]:
            ended.append((subject.labels["en"], value.labels["en"], *over))
    assert list(list_facts(pid)) and ended == []
