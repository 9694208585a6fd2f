"""Test releases as folders: their files, their permissions, and the folder after a failure."""

import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml
from support.builds.published import publish_rows
from support.builds.released import NASTY, fanout_tables, multihal_row, multihal_tables

from factmill.tasks.core.publishing.release_spec import BenchmarkReleaseSpec
from factmill.tasks.core.review import parse_review_queue_csv
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.errors import OutputError, SourceError
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.release import FANOUTQA_RELEASE
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import Release, ReleaseOptions
from factmill.tasks.release.dataset_card import render_dataset_card
from factmill.tasks.release.write import write_release
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.table_store import TableStore

OPEN = ReleaseOptions(excluded=("CC-BY-NC-2.0", "CC-BY-NC-SA-4.0"))
FORMS: dict[str, BenchmarkReleaseSpec] = {"multihal": MULTIHAL_RELEASE, "fanoutqa": FANOUTQA_RELEASE}
NOTHING = ReleaseOptions()
REVIEWING = {
    "policy": "manual",
    "decisions": [{"id": "i1", "row_id": "q1", "decision": "keep", "context": "secret 1", "note": "s"}],
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a warehouse with a build of each benchmark, which tests leave unchanged."""
    path = tmp_path_factory.mktemp("published") / "factmill.duckdb"
    publish_rows(path, MULTIHAL, multihal_tables())
    publish_rows(path, FANOUTQA, fanout_tables(), {"reviewing": REVIEWING})
    return path


def read(warehouse: Path, benchmark: Benchmark, choices: ReleaseOptions = NOTHING) -> Release:
    build = resolve_build(warehouse, f"latest:{benchmark.name}")
    return verify_and_assemble_release(warehouse, benchmark, FORMS[benchmark.name], build, choices)


def make(tmp_path: Path, benchmark: Benchmark, tables: Any, **lock: Any) -> Release:
    """Return the release of a new build of these rows."""
    own = tmp_path / "own"
    own.mkdir()
    publish_rows(own / "factmill.duckdb", benchmark, tables, **lock)
    return read(own / "factmill.duckdb", benchmark)


def read_all(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_digests_cover_every_file(warehouse: Path, tmp_path: Path) -> None:
    made = write_release(read(warehouse, FANOUTQA), tmp_path / "out")
    ran = subprocess.run(
        ["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=tmp_path / "out", capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert len(ran.stdout.splitlines()) == len(made.files) - 1 == len(read_all(tmp_path / "out")) - 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_repeated_release_has_same_bytes(warehouse: Path, tmp_path: Path) -> None:
    release = read(warehouse, MULTIHAL, OPEN)
    write_release(release, tmp_path / "one")
    write_release(release, tmp_path / "two")
    assert read_all(tmp_path / "one") == read_all(tmp_path / "two")


def test_every_file_with_rows_has_canary(warehouse: Path, tmp_path: Path) -> None:
    write_release(read(warehouse, FANOUTQA), tmp_path / "out")
    without = [
        name for name, data in read_all(tmp_path / "out").items() if FANOUTQA_RELEASE.canary.encode() not in data
    ]
    assert without == []


def test_hidden_answers_appear_in_no_file(warehouse: Path, tmp_path: Path) -> None:
    release = read(warehouse, FANOUTQA)
    write_release(release, tmp_path / "out")
    lines = [name for name, data in read_all(tmp_path / "out").items() if b"secret 1" in data or b"secret 2" in data]
    assert lines == []
    lock = json.loads((tmp_path / "out/lock.json").read_text("utf-8"))
    assert lock["lock"]["params"]["reviewing"]["decisions"] == [{"id": "i1", "row_id": "q1", "decision": "keep"}]
    assert "texts of review decisions" in lock["withheld"] and "digest" in lock["withheld"]
    with_them = read(warehouse, FANOUTQA, ReleaseOptions(includes_hidden_answers=True))
    write_release(with_them, tmp_path / "all")
    queue = (tmp_path / "all/decisions.csv").read_text("utf-8")
    assert "secret 1" in [item.detail for item in parse_review_queue_csv(queue, "decisions.csv")]
    whole = json.loads((tmp_path / "all/lock.json").read_text("utf-8"))
    assert (whole["withheld"], whole["lock"]["params"]["reviewing"]) == ("", REVIEWING)


def test_manifest_omits_decision_texts_of_excluded_rows(tmp_path: Path) -> None:
    first, *others = (tables := fanout_tables())["fanoutqa"]
    mixed = {**tables, "fanoutqa": [{**first, "source": "theirs"}, *others]}
    publish_rows(tmp_path / "w.duckdb", FANOUTQA, mixed, {"reviewing": REVIEWING})
    fewer = read(tmp_path / "w.duckdb", FANOUTQA, ReleaseOptions(excluded=("theirs",), includes_hidden_answers=True))
    write_release(fewer, tmp_path / "out")
    lock = json.loads((tmp_path / "out/lock.json").read_text("utf-8"))
    assert lock["lock"]["params"]["reviewing"]["decisions"] == [{"id": "i1", "row_id": "q1", "decision": "keep"}]
    assert "texts of review decisions" in lock["withheld"] and "rows" in lock["withheld"]


def test_table_store_reads_release_like_warehouse(warehouse: Path, tmp_path: Path) -> None:
    release = read(warehouse, FANOUTQA)
    write_release(release, tmp_path / "out")
    released, warehouse = TableStore(tmp_path / "out"), TableStore(warehouse)
    for name in ("fanoutqa", "fanoutqa_dev", "fanoutqa_test", "fanoutqa_articles"):
        assert released.table(name).to_pylist() == warehouse.table(name).to_pylist()
    with pytest.raises(SourceError, match="no table fanoutqa_test_answers; it has: fanoutqa, fanoutqa_articles"):
        released.table("fanoutqa_test_answers")
    data = tmp_path / "out/data/fanoutqa/dev.parquet"
    data.write_bytes(data.read_bytes() + b" ")
    with pytest.raises(SourceError, match=r"files differ from the released ones: 'data/fanoutqa/dev\.parquet'"):
        released.table("fanoutqa_dev")


def test_languages_are_read_back_as_one_table(warehouse: Path, tmp_path: Path) -> None:
    write_release(
        read(warehouse, MULTIHAL, ReleaseOptions(allowed_licences=("CC-BY-NC-2.0", "CC-BY-NC-SA-4.0"))),
        tmp_path / "out",
    )
    found = TableStore(tmp_path / "out").table("multihal")
    assert found.equals(TableStore(warehouse).table("multihal"))


def test_hostile_texts_stay_unchanged_and_name_no_file(tmp_path: Path) -> None:
    rows = [
        multihal_row(f"simpleqa_{at}", language, input=text, domain=text, source_name=text, optional_output=[text, ""])
        for at, text in enumerate(NASTY)
        for language in ("eng", "../up", "zh/../x", "con\n")
    ]
    made = write_release(make(tmp_path, MULTIHAL, {"multihal": rows}), tmp_path / "out")
    folders = {path.parts[1] for path in map(Path, made.files) if path.parts[0] == "data"}
    assert len(folders) == 5 and all(name.replace("-", "").isalnum() for name in folders - {"dropped_paths"})
    for language in made.release.configs[:4]:
        (split,) = language.splits
        paths = {file.format: tmp_path / "out" / file.path for file in split.files}
        assert {*pq.read_table(paths["parquet"])["input"].to_pylist()} == {*NASTY}
        lines = [json.loads(line) for line in paths["jsonl"].open("r", encoding="utf-8", newline="\n")]
        assert {line["input"] for line in lines} == {*NASTY}


def test_card_shortens_names_and_escapes_source_text(tmp_path: Path) -> None:
    rows = [
        multihal_row(f"simpleqa_{at}", input=text, domain=text, source_dataset=text, source_name=text)
        for at, text in enumerate((*NASTY, "nothing\x00here"))
    ]
    card = render_dataset_card(make(tmp_path, MULTIHAL, {"multihal": rows}))
    outside = "".join(card.split("```")[::2])
    assert "&lt;script&gt;alert(1)" in outside and "<script" not in outside and "</textarea" not in outside
    assert not any(each in card for each in ("\u202e", "\x00", "\u2028", "\r"))
    assert len(card) < 40_000


def test_citation_is_valid_and_names_paper_and_build(tmp_path: Path) -> None:
    release = make(
        tmp_path, FANOUTQA, fanout_tables(), author="scripted replies", scripted={"fanoutqa/word_question": "1"}
    )
    write_release(release, tmp_path / "out")
    result = yaml.safe_load((tmp_path / "out/CITATION.cff").read_text("utf-8"))
    schema = files("check_jsonschema") / "builtin_schemas/vendor/citation-file-format.json"
    jsonschema.validate(result, json.loads(schema.read_text("utf-8")))
    assert (result["version"], result["license"]) == (release.build.build_id, "CC-BY-SA-4.0")
    assert result["references"][0]["authors"][0] == {"given-names": "Andrew", "family-names": "Zhu"}
    assert result["abstract"].startswith("These rows demonstrate the pipeline and are not for use: scripted replies")


def test_folder_without_release_is_left_unchanged(warehouse: Path, tmp_path: Path) -> None:
    release = read(warehouse, FANOUTQA)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("years of work")
    (tmp_path / "file").write_text("mine too")
    for force in (False, True):
        with pytest.raises(OutputError, match=r"mine: .*--to"):
            write_release(release, tmp_path / "mine", force=force)
        with pytest.raises(OutputError, match=r"file: .*expected a folder.*--to"):
            write_release(release, tmp_path / "file", force=force)
    assert read_all(tmp_path / "mine") == {"thesis.tex": b"years of work"}
    (tmp_path / "empty").mkdir()
    write_release(release, tmp_path / "empty")
    assert (tmp_path / "empty/SHA256SUMS").is_file()


def test_release_is_replaced_only_with_force(warehouse: Path, tmp_path: Path) -> None:
    write_release(read(warehouse, FANOUTQA), tmp_path / "out")
    other = read(warehouse, FANOUTQA, ReleaseOptions(includes_hidden_answers=True))
    with pytest.raises(OutputError, match="replace it with --force"):
        write_release(other, tmp_path / "out")
    (tmp_path / "out/.git").mkdir()
    (tmp_path / "out/.git/HEAD").write_text("ref: refs/heads/main", "utf-8")
    write_release(other, tmp_path / "out", force=True)
    assert (tmp_path / "out/data/test_answers/test.parquet").is_file()
    assert (tmp_path / "out/.git/HEAD").read_text("utf-8") == "ref: refs/heads/main"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_failed_write_keeps_previous_release(warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = read(warehouse, FANOUTQA)
    write_release(release, tmp_path / "out")
    before = read_all(tmp_path / "out")
    plain = Path.write_bytes

    def fill_disk(path: Path, data: Any) -> int:
        if path.name == "lock.json":
            raise OSError(28, "No space left on device", str(path))
        return plain(path, data)

    monkeypatch.setattr(Path, "write_bytes", fill_disk)
    with pytest.raises(OutputError, match=r"lock\.json: cannot be written: No space left on device"):
        write_release(release, tmp_path / "out", force=True)
    assert read_all(tmp_path / "out") == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_concurrent_release_into_same_folder_is_reported(warehouse: Path, tmp_path: Path) -> None:
    release = read(warehouse, FANOUTQA)

    def write_another(_: Path) -> None:
        other = tmp_path / "elsewhere"
        write_release(release, other)
        other.rename(tmp_path / "out")

    with pytest.raises(OutputError, match=r"out: .*meanwhile.*--force"):
        write_release(release, tmp_path / "out", write_more=write_another)
    assert (tmp_path / "out/SHA256SUMS").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_leftovers_of_killed_run_are_removed_and_moved_release_is_restored(warehouse: Path, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    release = read(warehouse, FANOUTQA)
    write_release(release, tmp_path / "out")
    before = read_all(tmp_path / "out")
    shutil.move(tmp_path / "out", tmp_path / f".out.{gone.pid}.old")
    # a leftover draft may have our own process id, as in containers; no process has the longest id
    killed = (f".out.{gone.pid}.draft", f".out.{os.getpid()}.draft")
    for name in (*killed, f".out.{os.getppid()}.draft", f".other.{gone.pid}.draft", f".out.{'9' * 30}.draft"):
        (tmp_path / name).mkdir()
    with pytest.raises(OutputError, match=r"out: .*--force.*--to"):
        write_release(release, tmp_path / "out")
    assert read_all(tmp_path / "out") == before
    left = {path.name for path in tmp_path.iterdir()} - {"out"}
    assert left == {f".out.{os.getppid()}.draft", f".other.{gone.pid}.draft", f".out.{'9' * 30}.draft"}
    (tmp_path / f".out.{gone.pid}.old/.git").mkdir(parents=True)
    write_release(release, tmp_path / "out", force=True)
    assert (tmp_path / "out/.git").is_dir()
    assert {path.name for path in tmp_path.iterdir()} - {"out"} == left


KILLED = """
import os, signal
from pathlib import Path
from factmill.tasks.release import write
from factmill.tasks.release.files import open_release_draft
with open_release_draft(Path({place!r}), False) as draft:
    (draft / "release.json").write_text("{{}}")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_during_write_leaves_no_partial_release(warehouse: Path, tmp_path: Path) -> None:
    code = KILLED.format(place=str(tmp_path / "out"))
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, check=False
    )
    assert ran.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    write_release(read(warehouse, FANOUTQA), tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_split_without_rows_is_written_as_empty_file(tmp_path: Path) -> None:
    made = write_release(make(tmp_path, FANOUTQA, fanout_tables(("dev",))), tmp_path / "out")
    dev, test = made.release.configs[0].splits
    assert (dev.rows.num_rows, test.rows.num_rows) == (1, 0)
    table = pq.read_table(tmp_path / "out/data/fanoutqa/test.parquet")
    assert (table.num_rows, table.column_names) == (
        0,
        pq.read_table(tmp_path / "out/data/fanoutqa/dev.parquet").column_names,
    )
    assert (tmp_path / "out/csv/fanoutqa/test.csv").read_text(
        "utf-8"
    ) == "id,question,necessary_evidence,categories,canary\n"
