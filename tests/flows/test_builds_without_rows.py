"""Test that a build which publishes nothing exits with code 1, gives the reason, keeps earlier data, and can retry."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.commands.command import Factmill, Ran
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world

GOOD = (200, "1:: Ulm\n2:: Germany")


class Author:
    """An author with a test's replies that counts its requests."""

    def __init__(self) -> None:
        self.said: tuple[int, str] = GOOD
        self.asked = 0
        self.web = ScriptedChat(self.answer)

    def answer(self, _messages: Sequence[Message]) -> tuple[int, str]:
        self.asked += 1
        return self.said


@pytest.fixture
def author() -> Iterator[Author]:
    author = Author()
    yield author
    author.web.close()


def write_source(folder: Path) -> Path:
    path = folder / "P19.people.json"
    path.write_text(json.dumps([{"question": "Where was Albert Einstein born?", "answers": ["Ulm"]}]))
    return path


@pytest.mark.usefixtures("factmill")  # its scripted replies answer for the judge
@pytest.mark.parametrize(
    ("said", "reason", "detail"),
    [
        ((400, "Unsupported parameter: 'max_tokens'"), "model_failed", "Unsupported parameter: 'max_tokens'"),
        ((200, "Ulm, of course!"), "reply_not_in_format", "Ulm, of course!"),
    ],
    ids=["refused parameter", "no format"],
)
def test_model_losing_every_row_ends_build_and_fixed_model_is_requested_again(
    factmill_on_prefect: Factmill, author: Author, tmp_path: Path, said: tuple[int, str], reason: str, detail: str
) -> None:
    factmill = factmill_on_prefect
    world = write_chat_world(tmp_path, author.web.url, ["author"])
    warehouse = ("--warehouse", tmp_path / "w.duckdb")

    def build(*more: str) -> Ran:
        source = write_source(tmp_path)
        return factmill("build", "granola", "--world", world, "--source", source, *warehouse, *more, TEST_KEY="x")

    author.said = said
    lost = build("--json")
    assert (lost.code, lost.json["rows"]) == (1, 0)
    assert lost.json["reasons"] == {"generate_granular_answers": {reason: 1}}
    assert f"generate_granular_answers lost 1 to {reason}, first reject: " in lost.err
    assert detail in lost.err
    assert "run the same command again" in lost.err
    assert "Traceback" not in lost.err
    rejects = factmill("show", "granola", "--rejects", "--build", lost.json["build_id"], *warehouse, "--json").json
    assert [each["reason"] for each in rejects["rejects"]] == [reason]
    reject_id = rejects["rejects"][0]["id"]
    trace = factmill("explain", "granola", reject_id, "--build", lost.json["build_id"], *warehouse, "--json").json
    assert (trace["reject"]["reason"], trace["calls"][-1]["operation"]) == (reason, "chat")
    assert "no builds yet" in factmill("builds", *warehouse).err

    before = author.asked
    again = build("--json")
    assert (again.code, again.json["reasons"]) == (1, lost.json["reasons"]), again.err
    assert author.asked > before, again.err

    author.said = GOOD
    mended = build("--json")
    assert (mended.code, mended.json["rows"]) == (0, 1), mended.err
    asked = author.asked
    assert build("--json").json["up_to_date"]
    assert author.asked == asked
    assert factmill("verify", mended.json["build_id"], *warehouse).code == 0

    author.said = said
    assert build("--mode", "refresh").code == 1
    assert factmill("show", "granola", *warehouse, "--json").json["build_id"] == mended.json["build_id"]
    author.said = GOOD
    assert build("--force", "--json").json["tables"] == mended.json["tables"]


def test_filter_emptying_build_is_reported_and_older_builds_remain(factmill: Factmill, tmp_path: Path) -> None:
    build = ("build", "granola", "--source", write_source(tmp_path), "--warehouse", tmp_path / "w.duckdb", "--json")
    first = factmill(*build)
    assert first.code == 0, first.err
    ran = factmill(*build, "--min-levels", "9")
    assert ran.code == 1
    assert "1 rows were read and nothing is published: remove_trivial_answers lost 1 to too_few_levels" in ran.err
    assert "these are verdicts on the rows, not failures of the run" in ran.err
    assert factmill(*build, "--min-levels", "9").code == 1
    shown = factmill("show", "granola", "--warehouse", tmp_path / "w.duckdb", "--json").json
    assert shown["build_id"] == first.json["build_id"]


def test_build_without_source_rows_is_reported(factmill: Factmill, tmp_path: Path) -> None:
    path = tmp_path / "P19.none.json"
    path.write_text("[]")
    ran = factmill("build", "granola", "--source", path, "--warehouse", tmp_path / "w.duckdb")
    assert ran.code == 2
    assert f"{path}: no rows; remove the file from the source" in ran.err


def test_misspelt_category_is_reported_before_drawing(factmill: Factmill, tmp_path: Path) -> None:
    categories = ("--categories", "Algebra", "--categories", "Astronmy")
    ran = factmill("build", "slaq", *categories, "--warehouse", tmp_path / "w.duckdb")
    assert ran.code == 2
    assert "--categories 'Astronmy': " in ran.err
    assert "has no such category; did you mean Astronomy?" in ran.err
    assert "draw_category_pages" not in ran.err
    assert not [path for path in tmp_path.rglob("slaq-*") if path.is_dir()]
