"""Test `factmill report`: compare models on the toy benchmark, and refuse what is not comparable."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.command import ROOT, Factmill
from support.commands.toy_command import ToyCommand

NAMES = ("Germany", "France", "Italy", "Spain", "Portugal", "Austria", "Poland", "Japan")


@pytest.fixture
def toy(factmill: Factmill, tmp_path: Path) -> Iterator[ToyCommand]:
    command = ToyCommand(factmill, tmp_path)
    yield command
    command.close()


def test_report_covers_one_or_several_evaluations_and_rejects_incomparable(toy: ToyCommand, tmp_path: Path) -> None:
    builds = []
    for number, names in enumerate((NAMES, NAMES[:2])):
        (tmp_path / f"names{number}.txt").write_text("\n".join(names), "utf-8")
        builds.append(toy("build", "countries", "--file", f"names{number}.txt", "--json").json["build_id"])
    first, second = builds
    models = ("oracle", "guesser", "silent")
    evaluate = ("evaluate", "countries", "--json", "--reports", tmp_path / "reports", "--build")
    result = [toy(*evaluate, first, "--model", model).json for model in models]
    ids = [each["evaluation_id"] for each in result]
    other = toy(*evaluate, second, "--model", "oracle").json["evaluation_id"]
    assert sorted(Path(path).name for path in result[0]["reports"]) == [
        f"{ids[0]}.{form}" for form in ("html", "json", "md")
    ]
    written = toy("report", *ids, "--to", tmp_path / "all.json", "--to", tmp_path / "all.html").out
    assert f"{tmp_path / 'all.html'}\n" in written and "note: Only 0.0 % of the answers of silent" in written
    report = json.loads((tmp_path / "all.json").read_text("utf-8"))
    assert {each["model"]: each["ranks"] for each in report["rankings"][0]["placed"]} == {
        "oracle": [1, 1], "guesser": [2, 2], "silent": None
    }  # fmt: skip
    assert report["rankings"][0]["comparisons"][0]["better"] == "oracle"
    page = (tmp_path / "all.html").read_bytes()
    toy("report", *ids, "--to", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == page

    # the toy has no distributions of its own
    result = toy("report", first, "--to", tmp_path / "build.html", "--to", tmp_path / "build.md", "--json").json
    assert result["builds"] == [first] and len(result["files"]) == 2
    page = (tmp_path / "build.html").read_text("utf-8")
    assert "8 source rows = 8 published + 0 rejected + 0 merged." in page
    assert "Which number has Germany?" in page and "find items of " in page
    assert "# Countries, build countries-" in (tmp_path / "build.md").read_text("utf-8")

    def refuse(*arguments: str | Path) -> str:
        return toy("report", *arguments, "--to", tmp_path / "no.html", code=2).err

    assert f"factmill diff {first} {second}" in refuse(first, second)
    assert f"{first} is a build and {ids[0]} an evaluation; " in refuse(ids[0], first)
    assert "whose rows differ" in refuse(ids[0], other)
    assert f"{ids[0]} is given twice" in refuse(ids[0], ids[0])
    assert "expected a file that ends in .html, .md, .json" in toy("report", ids[0], "--to", "x.pdf", code=2).err


def test_build_and_evaluate_imports_avoid_report_and_turtle_libraries() -> None:
    heavy = "{'matplotlib', 'jinja2', 'pyoxigraph', 'pandas'}"
    look = f"import sys, factmill.flows.cli.main, factmill.flows.build_runner, factmill.flows.evaluate.evaluations, factmill.tasks.graph.lookup; print({heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
