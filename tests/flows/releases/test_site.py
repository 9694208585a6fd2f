"""Test `factmill site`: builds over time, models on the same rows, withheld answers, and replaced folders."""

import json
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill, Ran
from support.worlds.replies import replying

STRONG, ALIKE, WEAK = "strong <b>& co</b>", "alike", "weak"


@dataclass
class Maker:
    """A warehouse with two GRANOLA-EQ builds: models evaluated on the later, a baseline on the earlier."""

    factmill: Factmill
    folder: Path
    builds: list[str]

    def __call__(self, *arguments: str | Path, code: int = 0) -> Ran:
        ran = self.factmill(*arguments, "--warehouse", self.folder / "w.duckdb")
        assert ran.code == code, ran
        return ran

    def evaluate(self, model: str, right: int, *options: str) -> str:
        """Score a file of answers whose first `right` are gold answers; return the evaluation's id."""
        asked, answers = self.folder / "q.jsonl", self.folder / "a.jsonl"
        self("evaluate", "granola", "--build", self.builds[1], "--setting", "greedy", "--questions", asked)
        with duckdb.connect(str(self.folder / "w.duckdb"), read_only=True) as db:
            rows = db.execute("SELECT id, granola_answers[1] FROM granola_eq WHERE build_id = ?", [self.builds[1]])
            gold = dict(rows.fetchall())
        questions = [json.loads(line) for line in asked.read_text("utf-8").splitlines()]
        lines = [
            json.dumps({**question, "answer": gold[question["id"]] if at < right else "Ulm"})
            for at, question in enumerate(questions)
        ]
        answers.write_text("\n".join(lines), "utf-8")
        result = self("evaluate", "granola", "--answers", answers, "--model", model, "--json", *options).json
        return str(result["evaluation_id"])


@pytest.fixture(scope="module")
def maker(factmill: Factmill, small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    folder = tmp_path_factory.mktemp("site")
    earlier = small_builds.copy("granola", folder / "w.duckdb")
    made = Maker(factmill, folder, [earlier])
    with replying():
        later = made("build", "granola", "--relations", "P19", "--limit", "30", "--json").json
    assert later["rows"] > 15
    made.builds.append(later["build_id"])
    return made


@pytest.fixture(scope="module")
def ids(maker: Maker) -> dict[str, str]:
    """Map each model to its evaluation."""
    found = {model: maker.evaluate(model, right) for model, right in ((STRONG, 14), (ALIKE, 13), (WEAK, 0))}
    maker.evaluate(ALIKE, 13, "--limit", "5")
    for model, build in (("oracle", 1), ("guesser", 0)):
        options = ("--build", maker.builds[build], "--setting", "greedy", "--json")
        found[model] = maker("evaluate", "granola", "--model", model, *options).json["evaluation_id"]
    return found


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read_row(page: str, name: str) -> list[str]:
    """Return the cells of a table's first row whose second cell begins with a name."""
    for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL):
        cells = [
            unescape(re.sub("<[^>]+>", "", each)).strip() for each in re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL)
        ]
        if len(cells) > 5 and cells[1].startswith(name):
            return cells
    raise AssertionError(f"no row of {name}")


def test_models_on_same_rows_are_ranked_with_ties_and_figures_link_evaluation(
    maker: Maker, ids: dict[str, str], tmp_path: Path
) -> None:
    result = maker("site", "--to", tmp_path / "s", "--json").json
    boards = result["benchmarks"]["granola"]["leaderboards"]
    assert boards == [
        {"measured": maker.builds[1], "models": 3, "may_be_first": [STRONG, ALIKE]},
        {"measured": maker.builds[0], "models": 0, "may_be_first": []},
    ]
    page = (tmp_path / "s" / "granola.html").read_text("utf-8")
    assert "compared on the same rows only, so each build has a table of its own" in page
    assert "Scripted replies, not a language model, wrote the rows of" not in page
    assert "No language model wrote these rows" in page.partition("<h1>")[0]
    main = page.partition("Other headline metrics")[0]
    ranks = {model: (read_row(main, model)[0], read_row(main, model)[-1]) for model in (STRONG, ALIKE, WEAK, "oracle")}
    assert ranks == {STRONG: ("1–2", ALIKE), ALIKE: ("1–2", STRONG), WEAK: ("3", "–"), "oracle": ("baseline", "–")}
    assert read_row(main, "oracle")[2] == "1.000"
    assert f'<a href="evaluations/{ids[WEAK]}.html#metrics"><strong>0.000</strong></a>' in main
    assert "(limit: 5)" in page
    assert "Only built-in baselines were measured on these rows" in page
    index = (tmp_path / "s" / "index.html").read_text("utf-8")
    assert '<span class="tie">tie</span>' in index and "strong &lt;b&gt;&amp; co&lt;/b&gt;, alike" in index


def test_builds_are_listed_by_date_with_changes_by_cause(maker: Maker, ids: dict[str, str], tmp_path: Path) -> None:
    maker("site", "--to", tmp_path / "s")
    page = (tmp_path / "s" / "granola.html").read_text("utf-8").partition('id="builds"')[2]
    diff = maker("diff", *maker.builds, "--json").json
    earlier, later = (read_row(page, build) for build in maker.builds)
    counts = [diff["same"], *(diff["counts"][kind] for kind in ("added", "removed", "changed"))]
    assert (later[3:7], earlier[3:7]) == ([*map(str, counts)], ["–"] * 4)
    assert "rows: parameter limits" in later[7]
    changes = f"changes/{'_'.join(maker.builds)}.html"
    assert f'href="{changes}#causes"' in page and (tmp_path / "s" / changes).is_file()
    maker("site", "--to", tmp_path / "s", "--limit", "1")
    assert "1 older build is not shown" in (tmp_path / "s" / "granola.html").read_text("utf-8")


def test_site_links_resolve_and_site_loads_nothing_external(maker: Maker, ids: dict[str, str], tmp_path: Path) -> None:
    maker("site", "--to", tmp_path / "s")
    files = {path: data.decode() for path, data in read_files(tmp_path / "s").items() if path.endswith(".html")}
    for path, page in files.items():
        assert "<b>" not in page and not re.search(r'(?:src|href|url\()\s*=?"?(?:https?:)?//', page), path
        for link in re.findall(r'<a [^>]*href="([^"]*)"', page):
            file, _, anchor = link.partition("#")
            other = files[posixpath.normpath(Path(path).parent / file) if file else path]
            assert not anchor or f'id="{anchor}"' in other, f"{path}: {link}"
        trail = re.findall(r'<a href="([^"]*)"', page.partition('<p class="trail">')[2].partition("</p>")[0])
        above = {"index.html": [], "granola.html": ["index.html"]}.get(path, ["../index.html", "../granola.html"])
        assert trail == above, path
        names = re.findall(r'\bid="([^"]*)"', page)
        assert len(names) == len(set(names)), path


def test_same_inputs_yield_same_bytes_and_only_own_site_is_replaced(
    maker: Maker, ids: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    maker("site", "--to", folder)
    before = read_files(folder)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref")
    maker("site", "--to", folder)
    after = read_files(folder)
    assert after.pop(".git/HEAD") == b"ref" and after == before
    (folder / "notes.txt").write_text("mine")
    assert "not those that this command wrote: notes.txt" in maker("site", "--to", folder, code=1).err
    (folder / "notes.txt").unlink()
    (folder / "index.html").write_text("changed")
    assert "not those that this command wrote: index.html" in maker("site", "--to", folder, code=1).err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("mine")
    assert "contains something other than a site" in maker("site", "--to", tmp_path / "other", code=1).err
    assert "this is a file" in maker("site", "--to", tmp_path / "other" / "x", code=1).err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_site_combines_releases_and_warehouses(maker: Maker, ids: dict[str, str], tmp_path: Path) -> None:
    releases = []
    for number, build in enumerate(maker.builds):
        releases.append(tmp_path / f"r{number}")
        maker("release", build, "--to", releases[-1], "--allow-licence", "none stated")
    result = maker.factmill("site", "--to", tmp_path / "s", *releases, "--json").json["benchmarks"]["granola"]
    assert (result["builds"], result["leaderboards"]) == (maker.builds[::-1], [])
    page = (tmp_path / "s" / "granola.html").read_text("utf-8")
    assert "No model was measured: <code>factmill evaluate granola --model NAME</code>" in page
    assert "parameter limits" in page
    both = maker("site", "--to", tmp_path / "s", releases[0], "--json").json["benchmarks"]["granola"]
    assert both["builds"] == maker.builds[::-1], "a release of an existing build counts as that build"
    assert "released" in (tmp_path / "s" / "granola.html").read_text("utf-8")
    assert "no build in" in maker.factmill("site", "--to", tmp_path / "t", _empty(maker, tmp_path)).err
    for name, why in ((tmp_path, "is not a release"), (tmp_path / "none", "not found; expected a release's folder")):
        ran = maker.factmill("site", "--to", tmp_path / "t", name)
        assert ran.code == 2 and why in ran.err
    assert not (tmp_path / "t").exists()


def _empty(maker: Maker, folder: Path) -> Path:
    """Return a warehouse without builds."""
    ran = maker.factmill("gc", "--warehouse", maker.folder / "w.duckdb", "--help")
    assert ran.code == 0
    from factmill.tasks.storage.warehouse import open_warehouse

    with open_warehouse(folder / "empty.duckdb"):
        return folder / "empty.duckdb"


@pytest.fixture(scope="module")
def fanout(factmill: Factmill, small_builds: SmallBuilds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("fanout")
    build = small_builds.copy("fanoutqa", folder / "w.duckdb")
    yield Maker(factmill, folder, [build])


def test_site_hides_test_split_answers(fanout: Maker, tmp_path: Path) -> None:
    evaluation = fanout("evaluate", "fanoutqa", "--model", "oracle", "--setting", "closed_book", "--json").json[
        "evaluation_id"
    ]
    fanout("site", "--to", tmp_path / "s")
    fanout("report", evaluation, "--to", tmp_path / "whole.html")
    shown = (tmp_path / "s" / "evaluations" / f"{evaluation}.html").read_text("utf-8")
    whole = (tmp_path / "whole.html").read_text("utf-8")
    with duckdb.connect(str(fanout.folder / "w.duckdb"), read_only=True) as db:
        test = [row for (row,) in db.execute("SELECT id FROM fanoutqa_test").fetchall()]
        dev = [row for (row,) in db.execute("SELECT id FROM fanoutqa_dev").fetchall()]
    assert test and dev
    assert all(f"explain fanoutqa {row} " in whole for row in [*test, *dev])
    assert not any(row in shown for row in test) and all(f"explain fanoutqa {row} " in shown for row in dev)
    assert "Items that a release withholds" in shown
