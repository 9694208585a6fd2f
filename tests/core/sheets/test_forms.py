"""Test sheets as Label Studio tasks and Argilla records, and checked import of people's answers."""

import json
from dataclasses import replace
from pathlib import PurePath
from typing import Any
from xml.etree import ElementTree

import pytest

from factmill.tasks.core.measures.audits import (
    AuditCriterion,
    AuditMarksOfRow,
    AuditProtocol,
    make_audit_sheet,
    parse_audit_rows,
)
from factmill.tasks.core.review import TextEdit, make_review_item, make_review_sheet, parse_review_row
from factmill.tasks.core.sheets.forms import (
    SheetForm,
    format_sheet_files,
    parse_labelling_tool_tasks,
    resolve_sheet_form_from_ending,
    resolve_sheet_form_from_text,
)
from factmill.tasks.core.sheets.sheet import (
    ParsedSheet,
    Sheet,
    SheetLayout,
    SheetQuestion,
    are_all_choices_made,
    check_labelling_tool_tasks,
)
from factmill.tasks.errors import SourceError, UsageError

LABELS = SheetLayout(
    columns=("item", "question", "answer", "label", "note", "labels"),
    key="item",
    who="labeller",
    shown=("question", "answer"),
    questions=(SheetQuestion("label", "Is it right?", {"1": "right", "0": "wrong"}), SheetQuestion("note", "Note")),
    instruction='Is "it" <right> & true?',
    several_people=True,
)
ROWS = (
    {"item": "q1", "question": "Who?", "answer": "=<b>Ada</b>\u2028\n", "label": "", "note": "", "labels": "1; 0"},
    {"item": "q2", "question": "When?", "answer": "", "label": "", "note": "", "labels": "1; 0"},
)
AUDIT = AuditProtocol((AuditCriterion("wrong", "Is it wrong?"), AuditCriterion("nice", "How nice?", "score", 5)), "§1")
OTHER_TOOLS: tuple[SheetForm, ...] = ("label-studio", "argilla")
Given = dict[str, list[tuple[Any, dict[str, str]]]]
"""Maps a row to each person's (name, question → answer)."""


def export(sheet: Sheet, form: SheetForm, given: Given, name: str = "t.json") -> list[dict[str, Any]]:
    """Return the tool's export of a sheet's file, with people's answers in it."""
    text = format_sheet_files(sheet, PurePath(name), form)[name]
    tasks: list[dict[str, Any]] = (
        [json.loads(line) for line in text.splitlines()] if "jsonl" in name else json.loads(text)
    )
    key = sheet.layout.key
    for number, task in enumerate(tasks, 41):
        people = given.get(task["data"][key] if form == "label-studio" else task["id"], [])
        if form == "label-studio":
            task |= {"id": number, "annotations": [annotate(sheet, who, answers) for who, answers in people]}
        else:
            for who, answers in people:
                for question, answer in answers.items():
                    task["responses"].setdefault(question, []).append({"value": answer, "user_id": str(who)})
    return tasks


def annotate(sheet: Sheet, who: Any, answers: dict[str, str]) -> dict[str, Any]:
    choices = {question.name for question in sheet.layout.questions if question.choices}
    result = [
        {
            "from_name": name,
            "to_name": sheet.layout.shown[-1],
            "type": "choices" if name in choices else "textarea",
            "value": {"choices": [answer]} if name in choices else {"text": [answer]},
        }
        for name, answer in answers.items()
    ]
    return {"completed_by": who, "was_cancelled": False, "result": result}


def read(layout: SheetLayout, form: SheetForm, tasks: list[dict[str, Any]], who: str = "") -> ParsedSheet:
    assert form != "csv"
    text = json.dumps(tasks)
    assert resolve_sheet_form_from_text(text, PurePath("back.json")) == form
    return check_labelling_tool_tasks(
        layout, parse_labelling_tool_tasks(layout, text, "back.json", form), who, "--labeller"
    )


@pytest.mark.parametrize("form", OTHER_TOOLS)
def test_labels_of_two_people_are_parsed_by_person(form: SheetForm) -> None:
    given: Given = {
        "q1": [("ada", {"label": "1", "note": "é\nü"}), ("bob", {"label": "0"})],
        "q2": [("bob", {"label": "1"})],
    }
    found = read(LABELS, form, export(Sheet(LABELS, ROWS), form, given))
    assert found.problems == []
    assert [[row.get(name) for name in ("item", "labeller", "label", "note")] for row in found.rows] == [
        ["q1", "ada", "1", "é\nü"],
        ["q1", "bob", "0", ""],
        ["q2", "bob", "1", ""],
    ]
    assert found.rows[0].cells["answer"] == ROWS[0]["answer"]


@pytest.mark.parametrize("form", OTHER_TOOLS)
def test_task_problems_are_reported_with_task_and_advice(form: SheetForm) -> None:
    given: Given = {"q1": [("ada", {"label": "2"}), (None, {"label": "1"})]}
    tasks = export(Sheet(LABELS, ROWS), form, given)
    place = "task 41" if form == "label-studio" else "record q1"
    other = "task 42" if form == "label-studio" else "record q2"
    assert [(each.kind, each.message) for each in read(LABELS, form, tasks).problems] == [
        (
            "unreadable",
            f"{place}: the label by ada is '2'; expected one of 1, 0; correct it in the tool and export again",
        ),
        ("annotator", f"{place}: the answer names no person; say who it was with --labeller NAME"),
        ("missing", f"{other}: nobody has answered it; answer it in the tool and export again"),
    ]
    assert [row.get("labeller") for row in read(LABELS, form, tasks, "cyd").rows] == ["cyd"]
    tasks[0]["data" if form == "label-studio" else "fields"]["answer"] = "something else"
    changed = read(LABELS, form, tasks)
    assert [each.kind for each in changed.problems] == ["changed", "missing"] and changed.rows == []
    assert "what was shown is not what factmill wrote; import factmill's file again" in changed.problems[0].message


def test_skipped_tasks_and_drafts_are_reported_and_not_counted_as_answers() -> None:
    tasks = export(
        Sheet(LABELS, ROWS), "label-studio", {"q1": [(7, {})], "q2": [({"email": "b@x.org"}, {"label": "1"})]}
    )
    tasks[0]["annotations"][0]["was_cancelled"] = True
    found = read(LABELS, "label-studio", tasks)
    assert [each.message.partition(";")[0] for each in found.problems] == ["task 41: it was skipped by user 7"]
    assert [row.get("labeller") for row in found.rows] == ["b@x.org"]
    records = export(Sheet(LABELS, ROWS), "argilla", {"q1": [("a", {"label": "1"})], "q2": [("a", {"label": "1"})]})
    for record, status in zip(records, ("draft", "discarded"), strict=True):
        record["responses"]["label"][0]["status"] = status
    assert [each.kind for each in read(LABELS, "argilla", records).problems] == ["draft", "skipped"]


@pytest.mark.parametrize("form", OTHER_TOOLS)
def test_audits_are_parsed_as_verdicts_people_entered(form: SheetForm) -> None:
    earlier = {"r1": AuditMarksOfRow(row_id="r1", marks={"wrong": 0, "nice": 5}, reviewer="old")}
    sheet = make_audit_sheet(AUDIT, "b-1", {"r1": "row one", "r2": "row two", "r3": "row three"}, earlier)
    ones, twos = {"wrong": "1", "nice": "4"}, {"wrong": "0", "nice": "2"}
    given: Given = {
        "r1": [("ada", ones), ("bob", ones)],
        "r2": [("ada", ones), ("bob", twos)],
        "r3": [("ada", {"wrong": "1"})],
    }
    found = read(sheet.layout, form, export(sheet, form, given))
    assert parse_audit_rows(AUDIT, "b-1", found.rows, "f") == [
        AuditMarksOfRow(row_id="r1", marks={"wrong": 1, "nice": 4}, reviewer="ada, bob")
    ]
    assert [each.kind for each in found.problems] == ["missing", "contradicting"]
    assert "no nice by ada; expected one of 1, 2, 3, 4, 5" in found.problems[0].message
    assert "ada and bob decided differently on r2; none is used; agree on one answer" in found.problems[1].message
    # an earlier verdict goes out as a suggestion, and counts as no answer until a person submits one
    assert read(sheet.layout, form, export(sheet, form, {})).rows == []


@pytest.mark.parametrize("form", OTHER_TOOLS)
def test_reviews_are_parsed_with_edits_and_original_ids(form: SheetForm) -> None:
    edits = [TextEdit(field="ShortQ1", text="Who built\nit?")]
    item = make_review_item("slaq", "t-1", "wording", "unclear", "=context", edits)
    answers = {"decision": "edit", "edited": "ShortQ1: Who built it?", "note": "n"}

    def answer(**answers: str) -> ParsedSheet:
        sheet = make_review_sheet([item])
        return read(sheet.layout, form, export(sheet, form, {item.id: [("ada", answers)]}))

    back = parse_review_row(answer(**answers).rows[0], "f")
    edited = {
        "decision": "edit",
        "edited": [TextEdit(field="ShortQ1", text="Who built it?")],
        "reviewer": "ada",
        "note": "n",
    }
    assert back.model_copy(update={"file": "", "line": 0}) == item.model_copy(update=edited)
    for wrong, said in (
        (
            {"decision": "edit"},
            "no text for edited by ada, but the decision is 'edit'; expected a text with edit, and none",
        ),
        (
            {"decision": "keep", "edited": "a: b"},
            "a text for edited by ada, but the decision is 'keep'; expected a text with",
        ),
    ):
        found = answer(**wrong)
        assert found.rows == [] and found.problems[0].kind == "unreadable" and said in found.problems[0].message
    with pytest.raises(SourceError, match=r"f, (task 41|record .*), line 1, column edited: 'no name' does not have"):
        parse_review_row(answer(**answers | {"edited": "no name"}).rows[0], "f")


def test_setup_files_list_choices_and_escape_markup() -> None:
    files = format_sheet_files(Sheet(LABELS, ROWS), PurePath("t.json"), "label-studio")
    view = ElementTree.fromstring(files["t.label-studio.xml"])
    assert view[0].attrib["value"] == LABELS.instruction
    assert [each.attrib["value"] for each in view.iter("Text")] == ["$question", "$answer"]
    assert [(each.attrib["alias"], each.attrib["value"]) for each in view.iter("Choice")] == [
        ("1", "1: right"),
        ("0", "0: wrong"),
    ]
    assert not [task for task in json.loads(files["t.json"]) if "predictions" in task]
    records = format_sheet_files(Sheet(LABELS, ROWS), PurePath("t.jsonl"), "argilla")
    assert [json.loads(line)["id"] for line in records["t.jsonl"].strip().split("\n")] == ["q1", "q2"]
    settings = json.loads(records["t.argilla-settings.json"])
    # an empty cell is no field of a record, so only the first may be required
    assert [(each["name"], each["required"]) for each in settings["fields"]] == [("question", True), ("answer", False)]
    assert [each["value"] for each in settings["questions"][0]["settings"]["options"]] == ["1", "0"]


@pytest.mark.parametrize(("choices", "visible"), [("ab", None), ("abc", 3), ("abcde", 5)])
def test_argilla_shows_all_options_of_question(choices: str, visible: int | None) -> None:
    """Argilla accepts a number of visible options of 3 or more."""
    layout = replace(LABELS, questions=(SheetQuestion("label", "Which?", dict.fromkeys(choices, "")),))
    files = format_sheet_files(Sheet(layout, ROWS), PurePath("t.json"), "argilla")
    [question] = json.loads(files["t.argilla-settings.json"])["questions"]
    assert question["settings"]["visible_options"] == visible


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("[]", "holds no task"),
        ("[1]", "expected a list of tasks"),
        ('{"a": 1}x', "not valid JSON"),
        ("[" * 2_000 + "]" * 2_000, "nested too deeply|expected a list"),
        (
            '[{"question": "min"}]',
            "task 1: expected an object with data and annotations, as Label Studio exports them in the form JSON",
        ),
        ('[{"data": {}, "annotations": [1]}]', "task 1: expected annotations with a result"),
        (
            '[{"id": "q", "fields": []}, {"id": "r", "fields": [1]}]',
            "record r: expected fields, metadata and responses",
        ),
        ('[{"id": "q", "fields": {}, "responses": {"label": "1"}}]', "record q: expected a list of responses to label"),
    ],
)
def test_non_export_file_is_rejected_with_expected_format(text: str, said: str) -> None:
    with pytest.raises(SourceError, match=f"x.json.*({said})"):
        form = resolve_sheet_form_from_text(text, PurePath("x.json"))
        assert form != "csv"
        parse_labelling_tool_tasks(LABELS, text, "x.json", form)


def test_file_of_unrelated_tasks_is_reported_as_unknown() -> None:
    found = read(LABELS, "label-studio", [{"id": 3, "data": {"text": "x"}, "annotations": []}])
    assert [(each.kind, each.message.partition(";")[0]) for each in found.problems] == [
        ("unknown", "task 3: it has no item")
    ]


def test_sheet_form_follows_option_or_file_extension() -> None:
    endings = {name: resolve_sheet_form_from_ending(PurePath(name)) for name in ("a.csv", "a.JSON", "a.jsonl", "a")}
    assert list(endings.values()) == ["csv", "label-studio", "argilla", "csv"]
    assert resolve_sheet_form_from_ending(PurePath("a.json"), "argilla") == "argilla"
    with pytest.raises(UsageError, match="--form excel: expected one of csv, label-studio, argilla"):
        resolve_sheet_form_from_ending(PurePath("a.xls"), "excel")


def test_row_is_decided_once_all_choices_and_required_texts_are_filled() -> None:
    layout = make_review_sheet([]).layout
    assert [are_all_choices_made(layout, each) for each in ({}, {"decision": "keep"}, {"decision": "edit"})] == [
        False,
        True,
        False,
    ]
    assert are_all_choices_made(layout, {"decision": "edit", "edited": "a: b"})
