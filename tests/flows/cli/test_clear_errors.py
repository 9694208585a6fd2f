"""Test that usage errors and damaged files end in one or two lines, before Prefect starts where possible."""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.commands.command import Factmill, Ran
from support.commands.without_privileges import PROGRAM, find_hindrance

from factmill.flows.serve_options import RebuildParams, check_rebuild_models_and_credentials
from factmill.tasks.core.calls.call import Call, CallResponse
from factmill.tasks.errors import SettingsError
from factmill.tasks.options import RunOptions
from factmill.tasks.storage.recording.journal import encode_line, make_record

GOOD = {"question": "Where was Abbas Kiarostami born?", "answers": ["Tehran"]}
DEEP, LONG = "[" * 10_000 + "]" * 10_000, "9" * 5000
HEADER = "paragraph,person,relation,other\n"
REMOTE = 'name = "x"\nuser_agent = "x"\n' + "".join(
    f'[{name}]\nurl = "http://127.0.0.1:9/"\n' for name in ("wikidata", "wikipedia", "pageviews")
)
OUTSIDE = REMOTE.replace("http://127.0.0.1:9/", "http://wiki.invalid/")
SERVED = "".join(
    f'[models.{role}]\nkind = "openai"\nname = "m"\nurl = "http://127.0.0.1:9/v1"\n' for role in ("author", "judge")
)
SCRIPTED = "".join(f'[models.{role}]\nkind = "scripted"\n' for role in ("author", "judge"))
KEYED = (
    'name = "x"\nuser_agent = "x"\n'
    + "".join(f'[{name}]\nurl = "embedded"\n' for name in ("wikidata", "wikipedia", "pageviews"))
    + SCRIPTED.replace(
        'kind = "scripted"', 'kind = "openai"\nname = "m"\nurl = "http://127.0.0.1:9/v1"\nkey_env = "NO_SUCH_KEY"'
    )
)


@pytest.fixture
def alone(tmp_path: Path) -> Factmill:
    """Return the command in an empty home without a usable Prefect server."""
    return Factmill(tmp_path / "home")


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def check(ran: Ran, code: int, error: str, named: str) -> None:
    """Check that a command ends quickly, with the error's code and subject and without a traceback."""
    assert (ran.code, ran.err.endswith(f" [{error}]\n"), named in ran.err) == (code, True, True), ran.err
    assert "starting Prefect" not in ran.err
    assert "Traceback" not in ran.err
    assert len(ran.err.splitlines()) <= 2, ran.err


def make_loop(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path)
    return path


SOURCES: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "deep": ("granola", lambda at: write(at, "P19.json", f'[{{"question": {DEEP}}}]'), "row 1 (line 1)"),
    "long number": ("granola", lambda at: write(at, "P19.json", f'[{{"question": {LONG}}}]'), "4,300 digits"),
    "loop": ("granola", lambda at: make_loop(at, "P19.json"), "P19.json: "),
    "loop inside": ("granola", lambda at: make_loop(at, "s/P19.json").parent, "s/P19.json: "),
    "folder inside": ("granola", lambda at: write(at, "s/P19.json/x", "").parent.parent, "P19.json: "),
    "none used": ("granola", lambda at: write(at, "s/people.json", "[]").parent, "people.json"),
    "no rows": ("granola", lambda at: write(at, "P19.json", "[]"), "P19.json: "),
    "empty": ("granola", lambda at: write(at, "P19.json", " \n"), "P19.json: "),
    "fanout deep": ("fanoutqa", lambda at: write(at, "q.json", f'[{{"strategy": {DEEP}}}]'), "q.json: "),
    "fanout no rows": ("fanoutqa", lambda at: write(at, "q.json", "[]"), "q.json: "),
    "fanout loop": ("fanoutqa", lambda at: make_loop(at, "q.json"), "q.json: "),
    "pairs no rows": ("biokalma", lambda at: write(at, "pairs.csv", HEADER), "pairs.csv: "),
    "pairs long number": ("biokalma", lambda at: write(at, "p.jsonl", f'{{"person": {LONG}}}'), "4,300 digits"),
    "pairs unused": ("biokalma", lambda at: write(at, "s/a.csv", "a,b\n1,2\n").parent, "a.csv"),
    "foundation no rows": ("multihal", lambda at: write(at, "qa_data.json", "[]"), "qa_data.json: "),
    "foundation none used": ("multihal", lambda at: write(at, "s/a.csv", "a,b\n1,2\n").parent, "a.csv"),
}  # fmt: skip


@pytest.mark.parametrize("case", SOURCES)
def test_unusable_source_is_named_before_prefect_starts(alone: Factmill, tmp_path: Path, case: str) -> None:
    benchmark, make, named = SOURCES[case]
    check(alone("build", benchmark, "--source", make(tmp_path)), 2, "source", named)


@pytest.mark.parametrize(
    ("world", "options", "code", "named"),
    [
        (KEYED, [], 2, "key_env"),
        ("name = " + LONG, [], 2, "world.toml"),
        ("name = " + DEEP, [], 2, "world.toml"),
        (None, ["--graph", ""], 2, "''"),
        (None, ["--world", "x" * 4000], 2, "xxxx"),
        (None, ["--world", "a\x1b[31mb"], 2, "a\\x1b[31mb"),
        (REMOTE.replace("http://127.0.0.1:9/", "file:///etc/passwd"), [], 2, "wikidata.url"),
    ],
    ids=["no key", "long number", "deep", "no graph", "long name", "control", "file address"],
)  # fmt: skip
def test_unusable_world_is_named_before_prefect_starts(
    alone: Factmill, tmp_path: Path, world: str | None, options: list[str], code: int, named: str
) -> None:
    given = [] if world is None else ["--world", write(tmp_path, "world.toml", world)]
    check(
        alone("build", "granola", *given, *options), code, "usage" if options[:1] == ["--graph"] else "settings", named
    )


@pytest.mark.parametrize(
    ("agent", "more", "message"),
    [
        ("factmill/0.1 (you@example.org)", "", "[wikidata] at http://wiki.invalid/ requires a user_agent with your web page or mail address; found 'factmill/0.1 (you@example.org)'"),
        ("factmill", "", 'Add a line like this, with your own address, to the world\'s file (for `live`, to a copy'),
        ("factmill (me@uni.edu)", 'token_env = "NO_SUCH_TOKEN"\n', "[wikidata]: the environment variable NO_SUCH_TOKEN (token_env) is not set; set it to "),
        ("factmill (me@uni.edu)", 'token_env = "eyJ0eXAi.c2VjcmV0"\n', "wikidata.token_env: expected the name of an environment variable"),
    ],
    ids=["placeholder", "no address", "no token", "a token itself"],
)  # fmt: skip
def test_invalid_service_access_is_named_before_prefect_starts(
    alone: Factmill, tmp_path: Path, agent: str, more: str, message: str
) -> None:
    text = OUTSIDE.replace('user_agent = "x"', f'user_agent = "{agent}"') + SERVED
    world = write(tmp_path, "world.toml", text.replace("[wikipedia]", f"{more}[wikipedia]"))
    for forecast in ([], ["--forecast"]):
        ran = alone("build", "granola", "--world", world, "--relations", "P19", *forecast)
        check(ran, 2, "settings", message)
        assert "c2VjcmV0" not in ran.err
    serving = RunOptions(world=str(world))
    with pytest.raises(SettingsError, match=re.escape(message)):
        check_rebuild_models_and_credentials(RebuildParams(benchmarks=("granola",)), serving)


def test_replay_needs_no_contact_address(alone: Factmill, tmp_path: Path) -> None:
    world = write(tmp_path, "world.toml", OUTSIDE + SERVED)
    check_rebuild_models_and_credentials(
        RebuildParams(benchmarks=("granola",)), RunOptions(world=str(world), mode="replay")
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", "subject,object\n", "p.csv: "),
        ("p.csv", "", "p.csv: "),
        ("p.csv", "subject,object\n\x1b[31mred,\n", "row 1"),
        ("p.jsonl", "5\n", "row 1"),
        ("p.jsonl", f'{{"subject": {DEEP}}}', "p.jsonl"),
        ("p.jsonl", f'{{"subject": {LONG}}}', "4,300 digits"),
    ],
)
def test_unreadable_pairs_are_named(alone: Factmill, tmp_path: Path, name: str, content: str, message: str) -> None:
    check(alone("paths", "--pairs", write(tmp_path, name, content)), 2, "source", message)


def test_ids_of_no_item_are_reported_as_unknown(factmill: Factmill) -> None:
    for subject, target in (("Q99999999999999999999", "Q1"), ("Q937", "Q" + LONG[:4000]), ("Q937", LONG[:4000])):
        ran = factmill("paths", subject, target, "--json")
        assert (ran.code, ran.json["status"] in ("unknown_subject", "unknown_object", "none")) == (0, True), ran.err


def test_source_files_used_by_no_relation_are_reported(factmill: Factmill, tmp_path: Path) -> None:
    source = write(tmp_path, "s/P19.json", json.dumps([GOOD])).parent
    write(source, "P999.json", "[]"), write(source, "people.json", "[]"), write(source, "notes.txt", "")
    ran = factmill("build", "granola", "--source", source, "--warehouse", tmp_path / "w.duckdb")
    assert (ran.code, "do not begin with P19: P999.json, people.json\n" in ran.err) == (0, True), ran.err


@pytest.fixture
def built(factmill: Factmill, tmp_path: Path) -> Path:
    warehouse = tmp_path / "built" / "w.duckdb"
    source = write(tmp_path, "P19.json", json.dumps([GOOD]))
    assert factmill("build", "granola", "--source", source, "--warehouse", warehouse).code == 0
    return warehouse


def list_reading(factmill: Factmill, warehouse: Path, to: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the commands that read a build."""
    row = factmill("show", "granola", "--warehouse", warehouse, "--json").json["rows"][0]["id"]
    yield ("builds",)
    yield ("show", "granola")
    yield ("show", "granola", "--rejects")
    yield ("explain", "granola", row)
    yield ("export", "latest:granola", "--to", to)


def test_every_command_reports_damaged_warehouse(factmill: Factmill, built: Path, tmp_path: Path) -> None:
    reading = [*list_reading(factmill, built, tmp_path / "out"), ("verify", "latest:granola"), ("build", "granola")]
    content = bytearray(built.read_bytes())
    for at in range(12288 + 3000, len(content), 262144):
        content[at] ^= 255
    built.write_bytes(content)
    for command in reading:
        ran = factmill(*command, "--warehouse", built)
        assert (ran.code, "Traceback" in ran.err) == (1, False), (command, ran.err)
        assert str(built) in ran.err and ran.err.endswith(" [warehouse]\n"), (command, ran.err)


def test_read_only_warehouse_is_read_but_not_written(factmill: Factmill, built: Path, tmp_path: Path) -> None:
    if why := find_hindrance():
        pytest.skip(why)
    held = Factmill(factmill.home, factmill.prefect_api, PROGRAM)
    reading = list(list_reading(factmill, built, tmp_path / "out"))
    before = built.read_bytes()
    try:
        built.chmod(0o444)
        for command in [*reading, ("verify", "latest:granola")]:
            ran = held.run_process(*command, "--warehouse", built)
            assert (ran.code, "Traceback" in ran.err) == (0, False), (command, ran.err)
        build = ("build", "granola", "--relations", "P40", "--warehouse", built)
        check(held.run_process(*build), 1, "warehouse", "file")
        built.chmod(0o644), built.parent.chmod(0o555)
        assert held.run_process("show", "granola", "--warehouse", built).code == 0
        check(held.run_process(*build), 1, "warehouse", "folder")
    finally:
        built.parent.chmod(0o755)
    assert built.read_bytes() == before


def test_unreadable_and_unwritable_paths_are_named(factmill: Factmill, tmp_path: Path) -> None:
    if why := find_hindrance():
        pytest.skip(why)
    home, source = tmp_path / "closed", write(tmp_path, "P19.json", json.dumps([GOOD]))
    home.mkdir()
    home.chmod(0o555), source.chmod(0)
    for here in (home, home / "deeper"):
        ran = Factmill(here, factmill.prefect_api, PROGRAM).run_process("build", "granola", "--relations", "P19")
        check(ran, 2, "settings", f"{here} ")
    for benchmark in ("granola", "fanoutqa", "multihal", "biokalma"):
        ran = Factmill(tmp_path / "home", factmill.prefect_api, PROGRAM).run_process(
            "build", benchmark, "--source", source
        )
        check(ran, 2, "source", f"{source}: ")


@pytest.mark.parametrize(
    ("options", "lack"),
    [
        ("size=8m", "8,388,608 bytes are free on its disk, 64,000,000 are needed"),
        ("size=200m,nr_inodes=20", "19 inodes are free on its disk, 1,000 are needed"),
        ("size=200m,ro", "Read-only file system"),
    ],
)
def test_full_disk_is_named_before_prefect_starts_and_by_doctor(
    alone: Factmill, tmp_path: Path, options: str, lack: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        full = Factmill(disk, alone.prefect_api)
        ran = full("build", "granola", "--limit", "2")
        check(ran, 2, "settings", lack)
        assert "PREFECT_API_URL" not in ran.err
        found = {each["what"]: each for each in full("doctor", "--json").json["findings"]}
        assert not found["disk"]["ok"] and f"{disk} cannot be written: {lack}" in found["disk"]["found"]
        assert f"{disk} cannot be written: " in full("doctor").out
    finally:
        subprocess.run(["umount", disk], check=True)


def test_damaged_journal_is_renamed_reported_and_its_intact_replies_are_used(factmill: Factmill, built: Path) -> None:
    record = make_record(Call("s", "o", {"n": "whole"}), CallResponse(body=1))
    journal = built.with_name(f"{built.name}.runs") / "journal" / "1-x.journal"
    journal.write_bytes(b"no line of a journal\n" + encode_line(record))
    ran = factmill("build", "granola", "--relations", "P40", "--limit", "1", "--warehouse", built)
    assert ran.code == 0, ran.err
    aside = journal.with_suffix(".damaged")
    text = f"1 line of a journal is damaged, the first is line 1; its 1 complete reply is kept, lost ones are requested again, and the journal is renamed to {aside}"
    assert text in ran.err
    assert not journal.exists() and aside.read_bytes().startswith(b"no line")
    with duckdb.connect(str(built), read_only=True) as db:
        assert db.execute("SELECT count(*) FROM calls WHERE record_id = ?", [record.record_id]).fetchone() == (1,)


def test_symlink_loop_as_warehouse_is_reported(alone: Factmill, tmp_path: Path) -> None:
    check(alone("builds", "--warehouse", make_loop(tmp_path, "w.duckdb")), 1, "warehouse", "w.duckdb: ")


@pytest.mark.parametrize(
    "arguments", [["build", "granola"], ["worker", "--address", "tcp://127.0.0.1:9"]], ids=["build", "worker"]
)
def test_missing_temporary_directory_stops_command_at_start(
    alone: Factmill, arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "gone")])
    check(alone(*arguments), 2, "settings", "TMPDIR")
