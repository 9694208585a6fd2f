"""Test that every command which reads a damaged release folder ends with a message."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from support.builds.damaged_releases import (
    COMMANDS,
    DAMAGES,
    DEV,
    INDEX,
    REPLACED,
    alter_questions,
    copy_damaged,
    edit,
    fill_column,
    make_released,
    resum,
    rewrite,
    run_commands,
)
from support.commands.command import Factmill
from support.commands.without_privileges import PROGRAM, find_hindrance
from support.hostile import within

from factmill.tasks.errors import OutputError, SourceError
from factmill.tasks.fanoutqa.evaluation.definition import FANOUTQA_EVALUATION
from factmill.tasks.options import RunOptions
from factmill.tasks.release.files import open_release_draft
from factmill.tasks.storage import released_folders
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.released_folders import load_verified_release

TO_ALL_COMMANDS = {
    *REPLACED,
    "table cut off",
    "rows altered, sums and digests of tables updated",
    "table a link to /etc/passwd",
    "index missing",
    "index a list",
    "index a FIFO",
    "lock without services, all digests updated",
    "sums missing",
}
"""One kind of damage for each check in the code; `trials.damaged --only release` runs all with all commands."""


@pytest.fixture(scope="module")
def factmill(tmp_path_factory: pytest.TempPathFactory) -> Factmill:
    return Factmill(tmp_path_factory.mktemp("home"), on_prefect=False)


@pytest.fixture(scope="module")
def released(factmill: Factmill, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_released(factmill, tmp_path_factory.mktemp("released"))


@pytest.fixture(autouse=True)
def _bounded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep bombs small, and fail where a command would wait forever."""
    monkeypatch.setattr(released_folders, "_MAX_TABLE_BYTES", 64 << 20)
    with within(300):
        yield


def copy(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released / "whole", tmp_path / "copy"))


@pytest.mark.parametrize("damage", DAMAGES)
def test_command_names_damage_of_release(released: Path, factmill: Factmill, tmp_path: Path, damage: str) -> None:
    folder = copy_damaged(released, tmp_path / "copy", damage)
    run_commands(factmill, released, folder, damage, COMMANDS if damage in TO_ALL_COMMANDS else ["evaluate"])


def test_complete_release_equals_build_rows(released: Path, factmill: Factmill, tmp_path: Path) -> None:
    build = resolve_build(released / "w.duckdb", "latest:fanoutqa")
    found = load_verified_release(released / "whole")
    assert found.record.content_digest == build.content_digest
    assert (found.record.lock, found.record.build_id) == (build.lock, build.build_id)
    ran = factmill("diff", released / "whole", build.build_id, "--warehouse", released / "w.duckdb", "--exit-code")
    assert (ran.code, "3 rows before, 3 after: 3 the same" in ran.out) == (0, True), ran.err


def test_altered_rows_with_recomputed_digests_never_equal_build(
    released: Path, factmill: Factmill, tmp_path: Path
) -> None:
    folder = copy(released, tmp_path)
    rewrite(alter_questions, content=True)(folder)
    found = load_verified_release(folder)
    build = resolve_build(released / "w.duckdb", "latest:fanoutqa")
    assert found.record.build_id == build.build_id
    assert found.record.content_digest != build.content_digest
    params = FANOUTQA_EVALUATION.params(model="silent", release=str(folder))
    locked = FANOUTQA_EVALUATION.resolve_inputs(params, RunOptions(warehouse=tmp_path / "none.duckdb"))
    assert locked.inputs.dump_for_manifest()["source_digest"] == found.record.content_digest
    with pytest.raises(SourceError, match=rf"{build.build_id}.*w\.duckdb"):
        FANOUTQA_EVALUATION.resolve_inputs(params, RunOptions(warehouse=released / "w.duckdb"))


def test_altered_rows_differ_from_build_even_when_release_omits_rows(released: Path, tmp_path: Path) -> None:
    folder = copy(released, tmp_path)
    rewrite(alter_questions, tables=True)(folder)
    left_out = [{"what": "nothing", "why": "", "rows": 0}]

    def change(index: dict[str, object]) -> dict[str, object]:
        tables = {name: table for name, table in dict(index["tables"]).items() if name != "fanoutqa_review"}  # type: ignore[call-overload]
        return index | {"left_out": left_out, "tables": tables}

    edit(INDEX, change)(folder)
    found = load_verified_release(folder)
    assert found.record.content_digest not in (
        found.index.content_digest,
        load_verified_release(released / "whole").record.content_digest,
    )


def test_invalid_json_text_is_named_before_any_request(released: Path, tmp_path: Path) -> None:
    folder = copy(released, tmp_path)
    rewrite(fill_column("answer", lambda rows: pa.array(["[" * 5000] * rows)), content=True)(folder)
    params = FANOUTQA_EVALUATION.params(model="silent", release=str(folder))
    with pytest.raises(SourceError, match=r"table fanoutqa_dev: row 'q0': expected JSON in answer"):
        FANOUTQA_EVALUATION.resolve_inputs(params, RunOptions(warehouse=tmp_path / "none.duckdb"))


def test_changed_release_is_read_again(released: Path, tmp_path: Path) -> None:
    folder = copy(released, tmp_path)
    assert load_verified_release(folder) is load_verified_release(folder)
    data = (folder / DEV).read_bytes()
    (folder / DEV).write_bytes(data[:-8] + b"\0\0\0\0PAR1")
    with pytest.raises(SourceError, match="files differ from the released ones"):
        load_verified_release(folder)
    (folder / DEV).write_bytes(data)
    assert load_verified_release(folder).index.rows == 3


@pytest.mark.parametrize(("most", "said"), [(1_000, "bytes of files; expected at most"), (1_000_000, "bytes of rows")])
def test_release_larger_than_memory_limit_is_rejected(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, said: str
) -> None:
    folder = copy(released, tmp_path)
    rewrite(fill_column("question", lambda rows: pa.array(["x" * 1_000_000] * rows)), content=True)(folder)
    monkeypatch.setattr(released_folders, "_MAX_TOTAL_BYTES", most)
    with pytest.raises(SourceError, match=said):
        load_verified_release(folder)


def test_file_added_during_release_replacement_is_not_removed(released: Path, tmp_path: Path) -> None:
    folder = copy(released, tmp_path)
    with pytest.raises(OutputError, match=r"not replaced.*'mine\.txt'"), open_release_draft(folder, force=True):
        (folder / "mine.txt").write_text("mine")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    assert (folder / "mine.txt").read_text() == "mine"


def test_files_of_hub_and_tools_are_ignored(released: Path, factmill: Factmill, tmp_path: Path) -> None:
    folder = copy(released, tmp_path)
    for name in (".git", ".cache/huggingface", "lm_eval/__pycache__"):
        (folder / name).mkdir(parents=True)
        os.mkfifo(folder / name / "pipe")
    (folder / ".gitattributes").write_text("*.parquet filter=lfs\n")
    assert load_verified_release(folder).index.rows == 3


def test_unreadable_file_is_named(released: Path, factmill: Factmill, tmp_path: Path) -> None:
    if hindrance := find_hindrance():
        pytest.skip(hindrance)
    folder = copy(released, tmp_path)
    (folder / DEV).chmod(0)
    someone = Factmill(tmp_path / "home", factmill.prefect_api, PROGRAM)
    ran = someone.run_process("diff", folder, released / "whole", "--warehouse", released / "w.duckdb")
    assert (ran.code, f"{folder / DEV}: cannot be read: Permission denied" in ran.err) == (2, True), ran.err


def test_rewritten_checksums_equal_original_release(released: Path, tmp_path: Path) -> None:
    """The damaging helper leaves an undamaged release whole.

    Otherwise commands might reject every damaged release for the wrong reason.
    """
    folder = copy(released, tmp_path)
    resum(folder, content=True)
    assert (
        load_verified_release(folder).record.content_digest
        == load_verified_release(released / "whole").record.content_digest
    )
