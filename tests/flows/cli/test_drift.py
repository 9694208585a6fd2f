"""Test `factmill fanoutqa validate --drift` on published references to pages that changed after the build's epoch."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from support.commands.command import Factmill
from support.webs.page_histories import HISTORIES, LATER, THEN, copy_world, revid_of

from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.fanoutqa.core.drift import DRIFT_COLUMNS
from factmill.tasks.fanoutqa.core.rows import EvidenceReference, PublishedFanOutQuestion
from factmill.tasks.settings import ASSETS_ROOT
from factmill.tasks.storage.builds import publish_build_tables
from factmill.tasks.storage.warehouse import open_warehouse
from factmill.tasks.world.serving import running_world

SAMPLE = Path(__file__).parents[2] / "world" / "sample"


def refer(at: str, title: str, answer: Any, revision: int | None = None, **more: Any) -> EvidenceReference:
    """Return a published reference of a question; `revision` is the index in the page's history."""
    question_id, path = at.split()
    pinned = {} if revision is None else {
        "title": title, "pageid": 1, "revid": revid_of(title, revision), "timestamp": HISTORIES[title][revision][0]
    }  # fmt: skip
    values = {
        **{"title": None, "pageid": None, "revid": None, "timestamp": None, "problem": None, "found": None},
        **pinned,
        **{"question_id": question_id, "path": path, "sub_question": f"What of {title}?"},
        **{
            "answer": None if answer is None else json.dumps(answer),
            "title_asked": title,
            "url": f"https://en.wikipedia.org/wiki/{title}",
        },
        "missing": [],
    }
    return EvidenceReference(id=at, **{**values, **more})


REFERENCES = [
    refer("q1 strategy[0]", "Lighthouse of tests", 1902, 1, found=True),
    refer("q1 strategy[1]", "Lighthouse of tests", 1903, 1, found=False, missing=["1903"]),
    refer("q1 strategy[2]", "Lighthouse of tests", ["1902", "lit", "1777"], 1, found=False, missing=["1777"]),
    refer("q1 strategy[3]", "Lighthouse of tests", True, 1),
    refer("q1 strategy[4]", "Lighthouse of tests", "lit", 1, found=True),
    # a reference that the build did not read
    refer("q2 strategy[0]", "Lighthouse of tests", "1902", 1),
    refer("q2 strategy[1]", "Young bridge", "a bridge", problem=f"younger_than_epoch: none of {THEN} or before"),
    refer("q2 strategy[2]", "Great mill", "nine floors", 0, found=True, title_asked="A page that has gone"),
    refer("q2 then[0]", "Merged mill", "three floors", 0, found=True),
    refer("q3 strategy[0]", "Harbour after its move", "a crane", 1, found=True, title_asked="Harbour before its move"),
    refer("q3 strategy[1]", "Tables of tests", "34", 0, found=True),
    refer("q3 evidence[0]", "Tables of tests", None, 0),
]
EXPECTED = {
    "q1 strategy[0]": "no_longer_found",
    "q1 strategy[1]": "now_found",
    "q1 strategy[2]": "other_parts_missing",
    "q2 strategy[0]": "no_longer_found",
    "q2 strategy[1]": "now_pinned",
    "q2 strategy[2]": "no_longer_pinned",
    "q2 then[0]": "no_longer_found",
    "q3 strategy[0]": "no_longer_found",
}


@dataclass(frozen=True)
class Setup:
    """A warehouse with one build, and its world."""

    warehouse: Path
    build_id: str
    wikipedia: str
    """The Wikipedia's address."""
    stop: Callable[[], None]
    """Stops the Wikipedia."""


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    with ExitStack() as stack:
        folder = copy_world(tmp_path / "world", SAMPLE)
        url = stack.enter_context(running_world(tmp_path / "home", folder)).endpoints["wikipedia"]
        text = (ASSETS_ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
        world = tmp_path / "world.toml"
        world.write_text(text.replace('[wikipedia]\nurl = "embedded"', f'[wikipedia]\nurl = "{url}"'), "utf-8")
        warehouse = tmp_path / "w.duckdb"
        yield Setup(warehouse, publish_builds(warehouse, str(world)), url, stack.close)


def publish_builds(warehouse: Path, world: str) -> str:
    """Publish a build of FanOutQA with the references and one of another benchmark; return the first one's id."""
    questions = [
        PublishedFanOutQuestion(
            id=question_id, split="dev", source="authored", source_name="x.json", source_row=1, question="?",
            sub_questions=1, articles=[], epoch=THEN, statements=[], flags=[], judge=None, author=None, reviewed_by=[], licence="",
        )
        for question_id in ("q1", "q2", "q3")
    ]  # fmt: skip
    unpublished = refer("q9 strategy[0]", "Lighthouse of tests", 1902, 1, found=True)
    tables = {
        "fanoutqa": make_arrow_table(PublishedFanOutQuestion, questions),
        "fanoutqa_references": make_arrow_table(EvidenceReference, [*REFERENCES, unpublished]),
    }
    lock, origin, now = {"params": {"epoch": THEN}}, {"world": world, "graph": None}, datetime.now(UTC)
    with open_warehouse(warehouse) as db:
        publish_build_tables(db, "run", "slaq", {"params": {}}, origin, {}, {}, now)
        return publish_build_tables(db, "run", "fanoutqa", lock, origin, tables, {}, now).build_id


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with both builds, whose world receives no requests."""
    warehouse = tmp_path_factory.mktemp("published") / "w.duckdb"
    publish_builds(warehouse, "embedded")
    return warehouse


def test_drift_lists_exact_changes_and_second_run_sends_no_request(
    factmill: Factmill, setup: Setup, tmp_path: Path
) -> None:
    ran = factmill("fanoutqa", "validate", "--drift", "--epoch", LATER[:10], "--warehouse", setup.warehouse, "--json")
    assert ran.code == 0, ran.err
    report = ran.json
    assert (report["build_id"], report["epoch_before"], report["epoch"]) == (setup.build_id, THEN, LATER)
    assert {f"{row['question_id']} {row['path']}": row["kind"] for row in report["drift"]} == EXPECTED
    counts = report["counts"]
    assert (counts["references"], counts["questions"], counts["unchanged"]) == (12, 3, 12 - len(EXPECTED))
    assert (counts["no_longer_found"], counts["now_found"], counts["not_looked_up"]) == (4, 1, 0)
    by_id = {f"{row['question_id']} {row['path']}": row for row in report["drift"]}
    lost = by_id["q1 strategy[0]"]
    assert (lost["revid_before"], lost["revid_after"]) == (8910001, 8910002)
    assert (lost["timestamp_before"], lost["timestamp_after"]) == ("2022-05-05T05:05:05Z", "2024-03-03T03:03:03Z")
    assert (lost["missing_before"], lost["missing_after"]) == ([], ["1902"])
    assert sorted(by_id["q1 strategy[2]"]["missing_after"]) == ["1777", "1902"]
    assert by_id["q2 strategy[1]"]["problem_before"].startswith("younger_than_epoch")
    assert by_id["q2 strategy[2]"]["problem_after"].startswith("evidence_missing")
    assert by_id["q2 then[0]"]["title_after"] == "Great mill"
    assert by_id["q3 strategy[0]"]["title_after"] == "Harbour after its move"

    setup.stop()
    file = tmp_path / "drift.csv"
    again = factmill(
        "fanoutqa", "validate", "--drift", "--epoch", LATER, "--warehouse", setup.warehouse, "--to", file, "--all"
    )
    assert again.code == 0, again.err
    assert "0 calls sent" in again.err
    assert f"n = {len(REFERENCES)} references of 3 questions" in again.out
    rows = list(csv.DictReader(io.StringIO(file.read_bytes().decode("utf-8"), newline="")))
    assert tuple(rows[0]) == DRIFT_COLUMNS
    result = {f"{row['question_id']} {row['path']}": row["kind"] for row in rows}
    assert result == {each.id: EXPECTED.get(each.id, "unchanged") for each in REFERENCES}


def test_drift_list_is_printed_as_text(factmill: Factmill, setup: Setup) -> None:
    ran = factmill(
        "fanoutqa", "validate", "--drift", "--epoch", LATER, "--build", setup.build_id, "--warehouse", setup.warehouse
    )
    assert ran.code == 0, ran.err
    assert (
        "no longer found: q1 strategy[0]  What of Lighthouse of tests?\n    answer 1902; missing now: 1902" in ran.out
    )
    assert (
        "Lighthouse of tests, revision 8910001 of 2022-05-05T05:05:05Z → Lighthouse of tests, revision 8910002 of "
        "2024-03-03T03:03:03Z" in ran.out
    )
    assert "now pinned: q2 strategy[1]" in ran.out
    assert ran.out.splitlines()[-1].startswith(
        f"{setup.build_id}, {THEN} → {LATER}: n = 12 references of 3 questions, "
    )
    assert "4 no longer found, 1 now found, 1 other parts missing, 1 no longer pinned, 1 now pinned" in ran.out


def test_service_outage_is_not_reported_as_change(factmill: Factmill, setup: Setup) -> None:
    fault = {"path": "/w/api.php", "kind": "status", "status": 503, "times": 1000}
    requests.post(f"{setup.wikipedia}/faults", json=fault, timeout=60).raise_for_status()
    command = ("fanoutqa", "validate", "--drift", "--epoch", LATER, "--warehouse", setup.warehouse)
    result = factmill.get_json(*command)
    counts = result["counts"]
    assert (counts["not_looked_up"], counts["unchanged"]) == (len(REFERENCES), 0)
    # requests with transient failures are sent again
    requests.delete(f"{setup.wikipedia}/faults", timeout=60).raise_for_status()
    again = factmill(*command, "--json")
    assert {f"{row['question_id']} {row['path']}": row["kind"] for row in again.json["drift"]} == EXPECTED


def test_stale_lookups_are_repeated_but_revision_texts_stay_cached(factmill: Factmill, setup: Setup) -> None:
    command = ("fanoutqa", "validate", "--drift", "--epoch", LATER, "--warehouse", setup.warehouse, "--json")
    first = factmill(*command).json
    with open_warehouse(setup.warehouse) as db:
        (asked,) = db.execute("SELECT count(*) FROM calls WHERE operation <> 'page_text'").fetchone() or (0,)
        db.execute("UPDATE calls SET asked_at = asked_at - INTERVAL 2 DAY")
    assert "0 calls sent" in factmill(*command).err
    assert "0 calls sent" in factmill(*command, "--max-age", "3d").err
    again = factmill(*command, "--max-age", "1d")
    assert f" {asked} calls sent" in again.err
    assert again.json == first
    # the setting also works in a world's file
    world = setup.warehouse.parent / "world.toml"
    world.write_text(world.read_text("utf-8").replace("[wikipedia]", '[wikipedia]\nmax_age = "0s"'), "utf-8")
    assert f" {asked} calls sent" in factmill(*command).err


def test_exit_code_says_whether_lost_share_exceeds_limit(factmill: Factmill, setup: Setup) -> None:
    # drift is measured at the world's epoch
    command = ("fanoutqa", "validate", "--drift", "--warehouse", setup.warehouse, "--json")
    within = factmill(*command, "--fail-over", "0.5")
    assert (within.code, within.json["epoch"], within.json["verdict"]) == (0, LATER, "within")
    assert within.json["share_lost"] == 6 / 12
    over = factmill(*command, "--fail-over", "0.4")
    assert (over.code, over.json["verdict"]) == (1, "over")
    assert over.err.endswith("drift: 50.00% of the sub-answers are lost, more than 40.00%\n")
    fault = {"path": "/w/api.php", "kind": "status", "status": 503, "times": 1000}
    requests.post(f"{setup.wikipedia}/faults", json=fault, timeout=60).raise_for_status()
    untold = factmill(*command[:-1], "--max-age", "0s", "--fail-over", "0.4")
    assert untold.code == 1
    assert "12 of 12 sub-answers could not be looked up" in untold.err and "40.00%" in untold.err
    assert "lost:" not in untold.out


def test_unreachable_wikipedia_is_reported(factmill: Factmill, setup: Setup) -> None:
    setup.stop()
    ran = factmill("fanoutqa", "validate", "--drift", "--epoch", LATER, "--warehouse", setup.warehouse)
    assert (ran.code, ran.out) == (1, "")
    assert "cannot be reached" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--epoch", "next week"], 2, "expected a day like"),
        (["--epoch", "2099-01-01"], 2, "epoch '2099-01-01' is in the future"),
        (["--epoch", LATER, "--build", "nothing"], 2, "no build 'nothing'"),
        (["--epoch", LATER, "--build", "latest:slaq"], 2, "has no table fanoutqa_references"),
        (["--epoch", LATER, "--to", "/no/such/folder/drift.csv"], 1, "cannot be written"),
        (["--max-age", "1y"], 2, "'1y' is not an age; expected one such as 90m, 12h, 30d"),
        (["--fail-over", "5"], 2, "'--fail-over'"),
    ],
)
def test_invalid_usage_of_drift_is_reported(
    factmill: Factmill, published: Path, arguments: list[str], code: int, text: str
) -> None:
    ran = factmill("fanoutqa", "validate", "--drift", "--warehouse", published, *arguments)
    assert ran.code == code
    assert text in ran.err
    assert "Traceback" not in ran.err
