"""Test that a benchmark outside the package is built, shown, explained, verified and exported from its definition."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import ROOT, Factmill
from support.commands.toy_command import ToyCommand


@pytest.fixture
def command(factmill_on_prefect: Factmill, tmp_path: Path) -> Iterator[ToyCommand]:
    """Run `factmill` with the benchmark's module in a temporary folder and its definition in the list."""
    toy = ToyCommand(factmill_on_prefect, tmp_path)
    yield toy
    toy.close()


def test_new_benchmark_needs_only_its_record(command: ToyCommand, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Germany\nAtlantis of the tests\nFrance\n", "utf-8")
    build = ("build", "countries", "--file", "names.txt", "--most-others", "1")
    report = json.loads(command(*build, "--json").out)
    assert (report["inputs"], report["rows"], report["reasons"]) == (3, 2, {"ask_countries": {"no_such_item": 1}})
    assert report["author"] == ""
    assert "already built from the same inputs" in command(*build).out

    shown = command("show", "countries").out
    assert "Which number has Germany?" in shown
    result = command("explain", "countries", "c-Ger").out
    assert "  answer      Q183\n" in result
    assert "ask_countries: find_items of embedded-" in result
    assert "no item is called 'Atlantis of the tests'" in command("explain", "countries", "c-Atl").out

    assert "rebuilt byte for byte" in command("verify", "latest:countries").out
    command("export", "latest:countries", "--to", tmp_path / "out")
    rows = [json.loads(line) for line in (tmp_path / "out" / "countries.jsonl").read_text("utf-8").splitlines()]
    assert [(row["id"], row["qid"]) for row in rows] == [("c-France", "Q142"), ("c-Germany", "Q183")]

    assert "Other items of the name that are listed. [default: 3; from 0 to 9]" in " ".join(
        command("build", "countries", "--help").out.split()
    )
    refused = command(*build[:-1], "10", code=2).err
    assert "Invalid value for '--most-others': '10': expected a whole number" in refused


def test_benchmark_without_model_mentions_no_model(command: ToyCommand, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("Germany\nFrance\n", "utf-8")
    world = tmp_path / "no_models.toml"
    text = (ROOT / "data" / "worlds" / "embedded.toml").read_text("utf-8")
    world.write_text(text[: text.index("[models")].replace('"embedded"\nuser', '"bare"\nuser'), "utf-8")
    build = ("build", "countries", "--file", "names.txt", "--world", world)
    result = command(*build)
    said = {
        "build": result.out + result.err,
        "show": command("show", "countries").out,
        "builds": command("builds").out,
        "explain": command("explain", "countries", "c-Ger").out,
        "verify": command("verify", "latest:countries").out,
    }
    command("export", "latest:countries", "--to", tmp_path / "out")
    said["export"] = (tmp_path / "out" / "build.md").read_text("utf-8")
    words = re.compile(r"\b(author|judged?|models?|tokens|US\$|cost)\b", re.IGNORECASE)
    found = {name: words.findall(text.replace(world.name, "")) for name, text in said.items()}
    assert not any(found.values()), found
    page = tmp_path / "build.md"
    command("report", "latest:countries", "--to", page)
    report = page.read_text("utf-8")
    assert "2 rows of Countries" in report
    assert "Written by" not in report and "Models" not in report
    shown = command("build", "countries", "--help").out
    assert "--max-requests" in shown and "--max-hours" in shown
    assert not [each for each in ("--max-cost", "--requests", "--replies") if f"{each} " in shown]
    ran = command("doctor", "--world", world, "--json")
    lines = {each["what"]: each["found"] for each in ran.json["findings"]}
    assert lines["build countries"] == "this world has all it needs"
    assert lines["assets countries"] == "1 queries"
