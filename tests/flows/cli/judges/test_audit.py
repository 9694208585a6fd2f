"""Test `factmill audit`: export the sample, import verdicts, store the figures with the build."""

from pathlib import Path
from typing import Any

import pytest
from support.builds.published import publish_rows
from support.builds.released import multihal_tables
from support.commands.command import Factmill
from support.rows.csv_files import read_csv, write_csv

from factmill.flows.benchmarks import BENCHMARKS
from factmill.tasks.storage.warehouse import open_warehouse


@pytest.fixture
def warehouse(factmill: Factmill, tmp_path: Path) -> Path:
    path = tmp_path / "w.duckdb"
    assert factmill("build", "granola", "--limit", "6", "--samples", "2", "--warehouse", path).code == 0
    return path


def test_verdicts_from_sheet_are_stored_with_build(factmill: Factmill, warehouse: Path, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    asked = ("audit", "granola", "--warehouse", warehouse)
    assert "has a verdict yet" in factmill(*asked).out
    result = factmill(*asked, "--rows", "4", "--to", sheet)
    assert result.code == 0, result.err
    rows = read_csv(sheet)
    assert len(rows) == 4
    assert all("  question " in row["shown"] and "items of embedded-" in row["shown"] for row in rows)
    rows[0] |= {"informativeness": "x", "reviewer": "ada"}
    for row in rows[1:3]:
        row["reviewer"] = "ada"
    write_csv(sheet, rows)

    taken = factmill(*asked, "--from", sheet)
    assert "3 verdicts imported" in taken.out
    line = "informativeness: 33.3% (6.2% to 79.2%; 3 rows; paper 6.0%)"
    assert line in taken.out
    figures = {each["kind"]: each for each in factmill(*asked, "--json").json["figures"]}
    assert (figures["correctness"]["here"], figures["correctness"]["rows"]) == (0.0, 3)
    assert line in factmill("show", "granola", "--warehouse", warehouse).out
    factmill("export", "latest:granola", "--to", tmp_path / "out", "--warehouse", warehouse)
    assert f"- {line}" in (tmp_path / "out" / "build.md").read_text("utf-8")

    rows[0]["correctness"] = "perhaps"
    write_csv(sheet, rows)
    wrong = factmill(*asked, "--from", sheet)
    assert wrong.code == 2
    assert "sheet.csv, line 2: correctness is 'perhaps'" in wrong.err


def test_terminal_asks_about_rows_one_by_one_and_saves_each_verdict(
    factmill: Factmill, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from factmill.flows.commands.human_review import (
        ask_and_save_audit_verdicts,
        compute_build_audit_results,
        load_audit_sample,
    )

    known = BENCHMARKS["granola"]
    build_id = factmill("builds", "--warehouse", warehouse, "--json").json[-1]["build_id"]
    given = iter(["", "no idea", "x", "", "q"])

    class Terminal:
        def readline(self) -> str:
            return f"{next(given)}\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    sample = load_audit_sample(warehouse, known, build_id, 4, 0)
    assert ask_and_save_audit_verdicts(warehouse, known, sample, "ada") == 1
    figures: dict[str, Any] = {each.kind: each.here for each in compute_build_audit_results(warehouse, known, build_id)}
    assert figures == {"correctness": 0.0, "informativeness": 1.0, "granularity": 0.0}
    assert len(load_audit_sample(warehouse, known, build_id, 4, 0).verdicts) == 1


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_audit_criteria_have_unique_codes_and_end_with_question_mark(benchmark: str) -> None:
    kinds = BENCHMARKS[benchmark].audit.criteria
    assert len({kind.code for kind in kinds}) == len(kinds) > 0
    assert all(kind.instruction.endswith("?") for kind in kinds)


def test_build_made_before_column_was_added_must_be_rebuilt(factmill: Factmill, tmp_path: Path) -> None:
    warehouse = tmp_path / "w.duckdb"
    publish_rows(warehouse, BENCHMARKS["multihal"], multihal_tables())
    asked = ("audit", "multihal", "--warehouse", warehouse, "--to", tmp_path / "sheet.csv")
    assert factmill(*asked).code == 0
    with open_warehouse(warehouse) as db:
        db.execute("UPDATE multihal SET licence = NULL")
    ran = factmill(*asked)
    assert (ran.code, "licence; rebuild it with the same command" in " ".join(ran.err.split())) == (1, True), ran.err
