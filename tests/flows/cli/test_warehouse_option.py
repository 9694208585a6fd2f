"""Test `--warehouse`: a reading command fails if the file is missing, and does not create it."""

import fcntl
from pathlib import Path

import pytest
from support.commands.command import Factmill

from factmill.tasks.storage.recording.work_folders import work_folder

READING = [
    ["builds"],
    ["show", "granola"],
    ["show", "granola", "--rejects"],
    ["explain", "granola", "P19"],
    ["verify", "latest:granola"],
    ["export", "latest:granola", "--to", "out"],
    ["report", "latest:granola", "--to", "out.html"],
    ["release", "latest:granola", "--to", "out"],
    ["diff", "granola-1", "granola-2"],
    ["fanoutqa", "validate", "--drift", "--epoch", "2026-01-01"],
    ["build", "granola", "--forecast"],
    ["review", "latest:slaq", "--to", "out.csv"],
    ["label", "latest:slaq_evaluation", "--to", "out.csv"],
    ["label", "--from", "labels.csv"],
    ["judge-card", "--judge", "exact"],
    ["audit", "granola"],
    ["evaluate", "granola", "--model", "oracle"],
    ["evaluate", "granola", "--questions", "out.jsonl"],
    ["evaluate", "granola", "--forecast", "--model", "oracle"],
    ["mechanism", "latest:slaq_evaluation", "--model", "gpt2"],
    ["gc"],
    ["jobs"],
    ["gc", "--compact"],
]


@pytest.fixture
def factmill(own_home: Path) -> Factmill:
    own_home.mkdir(parents=True)
    return Factmill(own_home, on_prefect=False)


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_missing_warehouse_is_usage_error(command: list[str], factmill: Factmill, tmp_path: Path) -> None:
    ran = factmill(*command, "--warehouse", tmp_path / "w.duckdb")
    assert (ran.code, ran.out) == (2, "")
    assert f"{tmp_path}/w.duckdb" in ran.err and ran.err.endswith(" [usage]\n"), ran.err
    assert len(ran.err.splitlines()) == 1
    assert not list(tmp_path.glob("w.duckdb*"))


def test_missing_default_warehouse_is_reported_as_no_builds(factmill: Factmill) -> None:
    ran = factmill("builds")
    assert (ran.code, ran.out, ran.err) == (0, "", "no builds yet; make one: `factmill build granola`\n")
    assert "--pilot 20" in factmill("build", "granola", "--forecast").err


def test_show_says_that_first_build_runs(factmill: Factmill) -> None:
    folder = work_folder(factmill.home / "factmill.duckdb") / "granola-1"
    folder.mkdir(parents=True)
    with (folder / "held").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert factmill("show").err == f"no builds yet; the build in {folder} is running\n"
        ran = factmill("show", "granola")
        assert (
            ran.code != 0 and f"At present the build in {folder} is running; its rows are there when it ends" in ran.err
        )
    assert "is running" not in factmill("show", "granola").err
