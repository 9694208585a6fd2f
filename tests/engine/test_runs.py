"""Test the files that describe a run in its folder."""

import os
import shutil
from pathlib import Path

import pytest

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.digests import digest_text
from factmill.tasks.engine import runs
from factmill.tasks.engine.runs import (
    RUN_FILE,
    acquire_run_lock,
    load_run_description,
    remove_finished_run_folder,
    write_run_description,
)
from factmill.tasks.errors import BuildError
from factmill.tasks.options import RunOptions


@pytest.mark.parametrize("content", ["", "{", "[]", '{"lock": {}, "origin": {}}', "[" * 10_000, "9" * 5000])
def test_damaged_run_description_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / RUN_FILE).write_text(content)
    assert load_run_description(tmp_path) is None


def test_intact_run_description_is_loaded(tmp_path: Path) -> None:
    assert load_run_description(tmp_path) is None
    (tmp_path / RUN_FILE).write_text('{"lock": {}, "origin": {}, "options": {"mode": "record"}}')
    assert load_run_description(tmp_path) == {"lock": {}, "origin": {}, "options": {"mode": "record"}}


def test_resumed_run_uses_current_world_and_source_files(tmp_path: Path) -> None:
    copy = shutil.copy(ASSETS_ROOT / "data" / "worlds" / "embedded.toml", tmp_path)
    write_run_description(tmp_path, {}, {"files": {"P19": "before"}}, RunOptions(warehouse=tmp_path / "w.duckdb"))
    write_run_description(
        tmp_path, {}, {"files": {"P19": "moved"}}, RunOptions(world=str(copy), warehouse=tmp_path / "w.duckdb")
    )
    described = load_run_description(tmp_path)
    assert described
    assert (described["options"]["world"], described["origin"]) == (str(copy), {"files": {"P19": "moved"}})


def test_manually_edited_run_description_starts_new_run(tmp_path: Path) -> None:
    options = RunOptions(warehouse=tmp_path / "w.duckdb")
    write_run_description(tmp_path, {}, {}, options)
    begun = load_run_description(tmp_path)["options"]["begun"]
    (tmp_path / RUN_FILE).write_text((tmp_path / RUN_FILE).read_text().replace(begun, "2020-01-01T00:00:00+00:00"))
    write_run_description(tmp_path, {}, {}, options)
    assert load_run_description(tmp_path)["options"]["begun"] > begun


def test_resumed_run_keeps_start_time_but_not_mode(tmp_path: Path) -> None:
    described = []
    for mode in ("record", "replay", "record"):
        write_run_description(tmp_path, {}, {}, RunOptions(mode=mode, warehouse=tmp_path / "w.duckdb"))
        described.append(load_run_description(tmp_path)["options"])
    assert [each["mode"] for each in described] == ["record", "replay", "record"]
    assert len({each["begun"] for each in described}) == 1
    write_run_description(tmp_path, {}, {}, RunOptions(stale_if_error=True, warehouse=tmp_path / "w.duckdb"))
    assert load_run_description(tmp_path)["options"]["begun"] > described[0]["begun"]


def test_abandoned_run_folder_is_removed_and_locked_one_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "toy-1"
    remove_finished_run_folder(folder)
    (folder / "stage").mkdir(parents=True)
    holder = acquire_run_lock(folder)
    remove_finished_run_folder(folder)
    assert (folder / "stage").is_dir()
    with pytest.raises(BuildError, match=rf"process {os.getpid()} is making the same build"):
        acquire_run_lock(folder)
    os.close(holder)
    remove_finished_run_folder(folder)
    assert list(tmp_path.iterdir()) == []


def test_prompt_edited_while_build_starts_stops_build() -> None:
    text = '+++\nrole = "judge"\ninputs = ["question", "answer"]\n+++\n# user\n$question $answer\n'
    lock = {"prompts": {"slaq/fact_type": digest_text(text)}}
    assert list(runs._parse_recorded_own_prompts(lock, {"prompts": {"slaq/fact_type": text}})) == ["slaq/fact_type"]
    assert runs._parse_recorded_own_prompts(lock, {}) == {}
    with pytest.raises(BuildError, match="slaq/fact_type was edited while the build began"):
        runs._parse_recorded_own_prompts(lock, {"prompts": {"slaq/fact_type": f"{text}More."}})
