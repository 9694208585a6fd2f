"""A benchmark that is nowhere but in a folder of its own is built, shown, explained, verified and exported by its record."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import Factmill
from support.commands.toy_command import ToyCommand


@pytest.fixture
def command(factmill_on_prefect: Factmill, tmp_path: Path) -> Iterator[ToyCommand]:
    """Run `factmill` where the benchmark's module lies in a temporary folder and its record is in the list."""
    toy = ToyCommand(factmill_on_prefect, tmp_path)
    yield toy
    toy.close()


def test_a_new_benchmark_needs_its_record_alone(command: ToyCommand, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Germany\nAtlantis of the tests\nFrance\n", "utf-8")
    build = ("build", "countries", "--file", "names.txt", "--most-others", "1")
    report = json.loads(command(*build, "--json").out)
    assert (report["inputs"], report["rows"], report["reasons"]) == (3, 2, {"ask_countries": {"no_such_item": 1}})
    assert "already built from the same inputs" in command(*build).out

    assert "Which number has Germany?" in command("show", "countries").out
    told = command("explain", "countries", "c-Ger").out
    assert "  answer      Q183\n" in told
    assert "ask_countries: find_items of embedded-" in told
    assert "no item is called 'Atlantis of the tests'" in command("explain", "countries", "c-Atl").out

    assert "rebuilt byte for byte" in command("verify", "latest:countries").out
    command("export", "latest:countries", "--to", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "countries.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["qid"]) for row in rows] == [("c-France", "Q142"), ("c-Germany", "Q183")]

    assert "Other items of the name that are listed. [default: 3; from 0 to 9]" in " ".join(
        command("build", "countries", "--help").out.split()
    )
    refused = command(*build[:-1], "10", code=2).err
    assert "Invalid value for '--most-others': '10': Input should be less than or equal to 9" in refused
