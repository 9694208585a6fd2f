"""Test equal questions, and review items made from flags."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.rows.fanout_questions import release_sub
from support.rows.fanout_rows import flagged_row
from support.steps.steps import run_step

from factmill.tasks.core.review import decide_review_items, make_review_item
from factmill.tasks.fanoutqa.core.flags import FLAGS
from factmill.tasks.fanoutqa.core.questions import dump_json
from factmill.tasks.fanoutqa.core.rows import QuestionFlag
from factmill.tasks.fanoutqa.publish import make_published_question
from factmill.tasks.fanoutqa.review import FANOUTQA_AUTO_RULES, flag_duplicates
from factmill.tasks.models.embedders import CharNgramEmbedder


def test_auto_policy_decides_every_flag() -> None:
    items = [make_review_item("fanoutqa", "q", code, "said", "seen") for code in FLAGS]
    decided = {item.flag: item.decision for item in decide_review_items(items, [], FANOUTQA_AUTO_RULES)}
    assert decided.keys() == FLAGS.keys()
    assert decided["unscored"] == "keep"
    assert decided["unproven_unit"] == "open"
    assert {decided[flag] for flag in FLAGS if flag not in ("unscored", "unproven_unit")} == {"drop"}


def test_flags_are_published_without_details() -> None:
    flags = [
        QuestionFlag(code="answer_not_found", path="then[1]", detail="does not say 42"),
        QuestionFlag(code="duplicate", path="", detail="asks the same"),
        QuestionFlag(code="duplicate", path="", detail="asks the same as another"),
    ]
    row = flagged_row(flags=flags)
    assert make_published_question(row, row.tree(), "dev").flags == ["answer_not_found then[1]", "duplicate"]


def test_generated_paraphrase_of_authored_question_is_duplicate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mountains = dump_json([release_sub(name, 1000 + at) for at, name in enumerate("abcdef")])
    ours = flagged_row(id="ours", question="Put the six peaks in order of height.", decomposition=mountains)
    made = flagged_row(
        id="made", question="How many metres high is each of them?", decomposition=mountains, source="generated"
    )
    another = flagged_row(id="another", question="Which of these is the lowest mountain?", decomposition=mountains)
    left = run_step(
        flag_duplicates, [ours, made, another], SimpleNamespace(embedder=CharNgramEmbedder), tmp_path, monkeypatch
    )
    assert [(row_id, [each["code"] for each in row["flags"]]) for row_id, row in left.rows.items()] == [
        ("ours", []), ("made", ["duplicate"]), ("another", [])
    ]  # fmt: skip
    assert (
        left.rows["made"]["flags"][0]["detail"]
        == f"asks the same as ours (100% of the facts of the smaller one): {ours.question}"
    )
