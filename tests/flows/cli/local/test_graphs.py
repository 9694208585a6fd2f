"""Test the commands `factmill graph …`: output and exit codes."""

import gzip
import json
import re
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from rich.console import Console
from support.commands.command import Factmill, Ran

from factmill.flows.commands import local_data
from factmill.tasks.graph import load
from factmill.tasks.graph.loading.staging import LoadProgress

DIRECT = "<http://www.wikidata.org/entity/Q%d> <http://www.wikidata.org/prop/direct/P31> <http://www.wikidata.org/entity/Q5> .\n"
LINES = "".join(DIRECT % nth for nth in range(1, 30))


def run(home: Path, *arguments: str | Path, stdin: bytes = b"") -> Ran:
    return Factmill(home)("graph", *arguments, stdin=stdin)


def read_json(ran: Ran) -> Any:
    assert "Traceback" not in ran.err, ran.err
    return json.loads(ran.out)


def test_graph_is_loaded_listed_checked_and_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (tmp_path / "a.nt.gz").write_bytes(gzip.compress(LINES.encode()))
    made = read_json(run(home, "load", tmp_path / "a.nt.gz", "--name", "mine", "--dump-date", "2024-05-06", "--json"))
    assert (made["stored"]["edges"], made["dump_date"]) == (29, "2024-05-06")
    assert read_json(run(home, "--json")) == [
        {
            "name": "mine",
            "state": "whole",
            "edges": 29,
            "digest": made["digest"],
            "dump_date": "2024-05-06",
            "advice": None,
        }
    ]
    assert read_json(run(home, "--check", "--name", "mine", "--json"))["agrees"]
    path = home / "graphs" / "mine" / "items.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    checked = run(home, "--check", "--name", "mine")
    assert checked.code == 1
    assert "items.npy" in checked.out
    assert "mine: DAMAGED; load it again: `factmill graph load FILE... --name mine --replace`" in checked.out
    damage = read_json(run(home, "--check", "--name", "mine", "--json"))
    assert [file for file, result in damage["files"].items() if result["damage"]] == ["items.npy"]
    assert run(home, "remove", "mine").out == "removed the graph mine\n"
    listed = run(home)
    assert (listed.code, listed.out) == (0, "")
    gone = run(home, "remove", "mine")
    assert gone.code == 1
    assert gone.err.startswith("factmill: no graph mine in ")


def test_check_lists_malformed_lines_on_request(tmp_path: Path) -> None:
    source = tmp_path / "a.nt"
    source.write_text(LINES + "no triple\n<a:s> <a:p>\n")
    assert run(tmp_path, "load", source, "--name", "mine").code == 0
    checked = run(tmp_path, "--check", "--name", "mine", "--malformed", "1")
    assert f"{source}, line 30: not a triple: no triple\n2 malformed lines were skipped\n" in checked.out
    result = read_json(run(tmp_path, "--check", "--name", "mine", "--malformed", "5", "--json"))
    assert (result["malformed"], [line["line_no"] for line in result["malformed_lines"]]) == (2, [30, 31])


def test_format_option_reads_turtle_from_standard_input(tmp_path: Path) -> None:
    text = LINES.replace(
        "<http://www.wikidata.org/entity/Q5> .",
        "<http://www.wikidata.org/entity/Q6> , <http://www.wikidata.org/entity/Q5> .",
    )
    made = run(tmp_path, "load", "-", "--format", "turtle", "--name", "piped", "--json", stdin=text.encode())
    assert read_json(made)["stored"]["edges"] == 58


def test_partial_load_is_listed_and_resumed(tmp_path: Path) -> None:
    source = tmp_path / "a.nt"
    source.write_text(LINES)

    def fail(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "write_graph_arrays", fail)
        done = run(tmp_path, "load", source, "--name", "mine")
    assert done.code == 1
    assert done.err.startswith(f"factmill: cannot write graph mine in {tmp_path / 'graphs'}: No space left")
    listed = run(tmp_path).out
    assert (
        f"half loaded  to resume: `factmill graph load {source} --name=mine`; to remove it: `factmill graph remove mine`"
        in listed
    )
    again = run(tmp_path, "load", source, "--name", "mine")
    assert "graph mine: all files were read before; resuming with the tables" in again.err
    assert again.code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["load", "/absent.nt", "--name", "x"], 2, "/absent.nt: no such file"),
        (["load", "/", "--name", "x"], 2, "is a folder"),
        (["load", "-", "--name", "x"], 2, "-: is empty"),
        (["load", "-", "--name", "x", "--format", "rdfxml"], 2, "is not one of 'ntriples', 'turtle'"),
        (["load", "-", "--name", "x", "--dump-date", "May"], 2, "dump date 'May': expected ISO 8601, such as "),
        (["--check", "--name", "x"], 1, "no graph x in"),
    ],
)
def test_invalid_usage_is_explained(tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    done = run(tmp_path, *arguments, stdin=b"")
    assert (done.code, message in done.err) == (code, True), done.err
    assert "Traceback" not in done.err
    assert not list(tmp_path.glob("graphs/.*")), "some files were left"


def test_help_lists_one_example_per_line() -> None:
    examples = [line for line in run(Path(), "load", "--help").out.splitlines() if "factmill graph load" in line]
    for part in (".nt.gz --name", "Q42.ttl Q64.ttl.gz", "--language de", "| factmill graph load -", "--format turtle"):
        assert any(part in line for line in examples), part
    assert all(line.count("factmill") == 1 for line in examples)


NEWS = LoadProgress(
    phase="reading",
    source="a.nt.gz",
    lines=1_234_567,
    bytes_read=250,
    bytes_total=1000,
    seconds=20.0,
    lines_per_s=61_728.3,
    text_bytes_per_s=7_700_000.0,
    eta_s=3725.0,
)


def test_load_progress_fits_one_line() -> None:
    assert local_data.format_graph_load_progress(NEWS) == (
        "reading a.nt.gz, 25 %, 1,234,567 lines, 61,728 lines/s, 8 MB/s, reading ends in 1 h 02 min"
    )


def test_progress_lines_are_printed_periodically_without_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_data, "PROGRESS_LINE_EVERY_S", 0.01)
    monkeypatch.setattr(local_data, "_console", Console(stderr=True, force_terminal=False))
    with local_data._showing_live_progress("loading [mine]") as show:
        show("sorting tables, 5 lines")
        while "sorting" not in (err := capfd.readouterr().err):
            time.sleep(0.01)
    assert re.fullmatch(r"loading \[mine\]: \d+ s, sorting tables, 5 lines", err.splitlines()[-1])
