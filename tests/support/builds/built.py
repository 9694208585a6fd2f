"""Publish builds whose rows, rejects, calls and review try to be more than text, for tests of a build's page."""

import json
from pathlib import Path
from typing import Any

from support.builds.published import publish_rows
from support.builds.released import NASTY, fanout_tables, multihal_row

from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.storage.builds import BuildRecord
from factmill.tasks.storage.recording.call_records import compress_long_body
from factmill.tasks.storage.warehouse import Connection, open_warehouse

HOSTILE = (
    *NASTY,
    "</style><style>@import url(http://elsewhere.example/x.css)</style>",
    '<img src="http://elsewhere.example/x.png" onerror="alert(1)"> & more',
    "![x](http://elsewhere.example/y.png) | cell",
    "nothing\x00here",
    '"><svg/onload=alert(1)>',
)


def publish_hostile(warehouse: Path) -> BuildRecord:
    """Publish MultiHal rows whose texts are all hostile, with hostile rejects and calls."""
    rows = [
        multihal_row(
            f"simpleqa_{at}", input=text, output=text, domain=text, source_dataset=text, source_name=text,
            trip_labels=[text] * 3, optional_output=[text], judged_by=text, chosen_by="all",
        )
        for at, text in enumerate(HOSTILE)
    ]  # fmt: skip
    build = publish_rows(
        warehouse,
        MULTIHAL,
        {"multihal": rows},
        {"params": {"source": list(HOSTILE)}},
        models={"author": HOSTILE[0], "judge": HOSTILE[1]},
    )
    with open_warehouse(warehouse) as db:
        for at, text in enumerate(HOSTILE):
            row = json.dumps({"id": text, "input": text})
            db.execute("INSERT INTO rejects VALUES (?, 'read', ?, ?, ?, ?)", [build.build_id, text, text, text, row])
            add_call(db, build, f"simpleqa_{at}", {"variables": {text: text}, "prompt": text}, {"texts": [text]}, text)
        facts = {
            "domains": {text: {"questions": 1, "paths": 1} for text in HOSTILE},
            "answer_types": {},
            HOSTILE[1]: HOSTILE,
        }
        origin = {**build.origin, "files": {"u": [["/p", text, "d", 1] for text in HOSTILE]}, "graph": HOSTILE[1]}
        report = {
            **build.report,
            "facts": facts,
            "reasons": {"read": dict.fromkeys(HOSTILE, 1)},
            "notes": list(HOSTILE),
        }
        db.execute(
            "UPDATE builds SET report = ?, origin = ? WHERE build_id = ?",
            [json.dumps(report), json.dumps(origin), build.build_id],
        )  # fmt: skip
    return build


def publish_withheld(warehouse: Path) -> BuildRecord:
    """Publish one dev and two test questions of FanOutQA, with a call and a reject that reveal their answers."""
    build = publish_rows(warehouse, FANOUTQA, fanout_tables())
    with open_warehouse(warehouse) as db:
        for at in range(3):
            add_call(db, build, f"q{at}", {"variables": {"answer": f"secret {at}"}}, {"texts": [f"secret {at}"]})
        db.execute("UPDATE rejects SET detail = 'secret 1', row = '{\"answer\": \"secret 1\"}'")
    return build


def add_call(
    db: Connection,
    build: BuildRecord,
    row_id: str,
    parts: dict[str, Any],
    body: Any,
    service: str = "live/x",
    key: str = "",
    operation: str = "chat",
) -> None:
    """Record a call that a row depends on."""
    key = key or f"key-{row_id}"
    db.execute(
        "INSERT INTO calls VALUES (?, ?, ?, ?, ?, 'ok', NULL, false, ?, 1, 1, 0.5, 0.1, '2026-04-30 12:00:00+00')",
        [key, key, service, operation, json.dumps(parts), compress_long_body(json.dumps(body))],
    )
    db.execute("INSERT INTO build_calls VALUES (?, 'read', ?, ?, ?, NULL)", [build.build_id, row_id, key, key])
    known = "INSERT INTO build_stages SELECT $1, 0, 'read', 9, 9, 0, 0, 0, 0, 0, 0, 0, 0 WHERE NOT EXISTS "
    db.execute(f"{known} (SELECT 1 FROM build_stages WHERE build_id = $1)", [build.build_id])
