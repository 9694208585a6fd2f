"""Run whole builds against the server with habits, on small sources, and collect their results."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from support.commands.command import Factmill
from support.habits.server import HabitsServer, write_habit_world

from factmill.tasks.assets import ASSETS_ROOT

AUTHORS = frozenset({"author", "author_call", "judge", "judge_call", "judged_by", "fact_types_by", "call", "build_id"})
"""Columns that name the build and model that wrote a row."""


@dataclass(frozen=True)
class Came:
    """The result of one build."""

    code: int
    asked: int
    published: int
    reasons: Counter[str]
    """Reason → number of rejects."""
    answered: int
    """Number of answered requests."""
    corrected: int
    """Number of answered requests that correct a reply."""
    refused: int
    """Number of refused requests."""
    err: str
    tables: dict[str, list[dict[str, Any]]]
    """Published table → its rows, without AUTHORS."""

    @property
    def written(self) -> int:
        """Return the number of published rows that a model wrote; a model only judges FanOutQA's human questions."""
        rows = self.tables.get("fanoutqa")
        return self.published if rows is None else sum(row["source"] == "generated" for row in rows)


@dataclass(frozen=True)
class HabitRuns:
    """Makes builds; those of one benchmark share a warehouse, so that they call the world once."""

    factmill: Factmill
    server: HabitsServer
    folder: Path
    rows: int
    """Approximate number of source rows."""

    def build(self, benchmark: str, habit: str | None) -> Came:
        """Build a benchmark with the models of a habit, or with the embedded world itself for None."""
        world = str(write_habit_world(self.folder, self.server, habit)) if habit else "embedded"
        counts = (self.server.answered, self.server.corrected, self.server.refused)
        before = [count[habit or ""] for count in counts]
        warehouse = self.folder / f"{benchmark}.duckdb"
        ran = self.factmill(
            *("build", benchmark, "--world", world, "--warehouse", warehouse, "--json"),
            *small_arguments(benchmark, self.rows, self.folder),
        )
        printed = [line for line in ran.out.splitlines() if line.startswith("{")]
        report = json.loads(printed[-1]) if printed else {}
        reasons: Counter[str] = Counter()
        for of_stage in report.get("reasons", {}).values():
            reasons.update(of_stage)
        answered, corrected, refused = (count[habit or ""] - was for count, was in zip(counts, before, strict=True))
        return Came(
            code=ran.code,
            asked=report.get("inputs", 0),
            published=report.get("rows", 0),
            reasons=reasons,
            answered=answered,
            corrected=corrected,
            refused=refused,
            err=ran.err,
            tables=read_tables(warehouse, report),
        )


def small_arguments(benchmark: str, rows: int, folder: Path) -> list[str]:
    """Return options for a build of about this many rows in the embedded world; its files go into the folder."""
    half, quarter = str(-(-rows // 2)), str(-(-rows // 4))
    if benchmark == "granola":
        return ["--limit", str(rows), "--samples", "2"]
    if benchmark == "multihal":
        return ["--limit", str(-(-rows // 8)), "--languages", "eng"]
    if benchmark == "biokalma":
        return ["--limit", half, "--rounds", "3"]
    if benchmark == "slaq":
        return ["--categories", "Astronomy", "--per-half", quarter, "--candidates", str(2 * rows)]
    path = folder / "questions.json"
    questions = json.loads((ASSETS_ROOT / "data/world/sources/fanoutqa/places.json").read_text("utf-8"))
    path.write_text(json.dumps(questions[: int(half)]), "utf-8")
    sets = ["--sets", "P40", "--sets", "P57", "--sets-a-kind", quarter]
    return ["--source", str(path), "--source", "wikidata", *sets]


def read_tables(warehouse: Path, report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return published table → its rows, without AUTHORS."""
    if not report.get("tables"):
        return {}
    with duckdb.connect(str(warehouse), read_only=True) as db:
        found = {}
        for name in report["tables"]:
            result = db.execute(f'SELECT * FROM "{name}" WHERE build_id = ?', [report["build_id"]])
            columns = [column[0] for column in result.description]
            found[name] = [
                {key: value for key, value in zip(columns, row, strict=True) if key not in AUTHORS}
                for row in result.fetchall()
            ]
    return found
