"""Forecasts in the warehouse: what earlier builds and pilots asked, and what was forecast of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.storage.builds import forget_run
from tasks.storage.warehouse import Connection, open_warehouse, read_json, read_records


@dataclass(frozen=True, slots=True)
class Asked:
    """What a build, or a pilot, has asked."""

    stages: list[dict[str, Any]]
    """Its stages in order, with their counts."""
    calls: list[dict[str, Any]]
    """The calls that its rows rest on, by stage and row; `is_new`: its own run sent it; `is_failed`: it got no
    answer. `parts` of chats of which no usage is told."""


def read_asked(warehouse: Path, build_id: str, begun: datetime) -> Asked:
    """Return what a build has asked; `begun`: when it began."""
    with open_warehouse(warehouse) as db:
        stages = read_records(db, "SELECT * FROM build_stages WHERE build_id = ? ORDER BY position", build_id)
        calls = read_records(
            db,
            "SELECT u.stage, u.id AS row, c.key, c.service, c.operation, coalesce(c.parts->>'model', '') AS model, "
            "coalesce(CAST(c.parts->>'samples' AS INTEGER), 1) AS samples, c.tokens_in, c.tokens_out, c.cost_usd, c.latency_s, "
            "c.asked_at >= $2 AS is_new, c.status = 'failed' AS is_failed, "
            "CASE WHEN c.status = 'failed' THEN 0 ELSE length(c.body) END AS said, "
            "CASE WHEN c.operation = 'chat' AND c.tokens_in = 0 THEN c.parts END AS parts "
            "FROM build_calls u JOIN calls c USING (record_id) JOIN build_stages s USING (build_id, stage) "
            "WHERE u.build_id = $1 ORDER BY s.position, u.id, c.key",
            build_id,
            begun,
        )
    return Asked(stages, calls)


def forget_pilot(warehouse: Path, run_id: str) -> None:
    """Remove what a pilot left under its own id; its calls stay."""
    with open_warehouse(warehouse) as db:
        forget_run(db, run_id)


def keep_forecast(warehouse: Path, benchmark: str, lock_digest: str, told: Mapping[str, Any]) -> None:
    """Keep a forecast in place of earlier ones of the same build."""
    with open_warehouse(warehouse) as db:
        db.execute("DELETE FROM forecasts WHERE lock_digest = ?", [lock_digest])
        now = datetime.now(UTC)
        db.execute("INSERT INTO forecasts VALUES (?, ?, ?, ?)", [lock_digest, benchmark, now, json.dumps(dict(told))])


def find_forecast(db: Connection, lock_digest: str) -> dict[str, Any]:
    """Return what was forecast for a build with this lock; empty where nothing was."""
    found = db.execute("SELECT told FROM forecasts WHERE lock_digest = ?", [lock_digest]).fetchall()
    where = f"forecasts.told of {lock_digest}"
    told: dict[str, Any] = read_json(found[0][0], where, dict) if found else {}
    return told


def count_untold_calls(db: Connection, build_id: str) -> list[dict[str, Any]]:
    """Return, by `service` and `model` of the chats that a build rests on, how many got a reply that told no usage (`untold`)."""
    return read_records(
        db,
        "SELECT service, parts->>'model' AS model, count_if(tokens_in = 0 AND tokens_out = 0 AND "
        "(status = 'ok' OR regexp_matches(error, '^(empty_reply|cut_off)'))) AS untold "
        "FROM calls WHERE operation = 'chat' AND record_id IN (SELECT record_id FROM build_calls WHERE build_id = ?) "
        "GROUP BY ALL ORDER BY ALL",
        build_id,
    )


def sum_up_calls(db: Connection, build_id: str) -> dict[str, float]:
    """Return what a build rests on: different calls, those of chat models, their tokens and their price."""
    (found,) = read_records(
        db,
        "SELECT count(*) AS calls, coalesce(sum(tokens_in), 0) AS tokens_in, coalesce(sum(tokens_out), 0) AS tokens_out, "
        "coalesce(sum(cost_usd), 0.0) AS usd FROM calls WHERE record_id IN "
        "(SELECT record_id FROM build_calls WHERE build_id = ? AND stage <> 'since')",
        build_id,
    )
    return {name: float(each) for name, each in found.items()}
