"""Test benchmarks in other packages: `factmill new` writes working ones; a broken one stops no other."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from support.commands.command import ROOT, Factmill, Ran

from factmill.flows.commands.new import PackageForm, render_benchmark_package

FORMS = get_args(PackageForm)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a package of each form, and install both into one folder with a third that fails to import."""
    made, site = tmp_path_factory.mktemp("written"), tmp_path_factory.mktemp("site")
    for form in FORMS:
        for name, text in render_benchmark_package(f"my_{form}", form, "0" * 8).items():
            path = made / form / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    packages = [made / form for form in FORMS]
    subprocess.run([*pip, "--no-build-isolation", "--target", site, *packages], check=True, capture_output=True)
    for form in FORMS:
        (made / form / "tests").rename(site / f"tests_{form}")
    found = site / "broken-1.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    points = "broken = broken:BROKEN\nslaq = broken:SLAQ\nother = my_facts.benchmark:MY_FACTS\nnone = my_facts.benchmark:TEMPLATES\n"
    (found / "entry_points.txt").write_text(f"[factmill.benchmarks]\n{points}")
    (site / "broken.py").write_text("raise RuntimeError('no such luck')\n")
    return site


def run_there(site: Path, tmp_path: Path, *command: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command where the packages are installed, in a folder with a user's own `tasks.py` and `flows/`."""
    (tmp_path / "flows").mkdir(exist_ok=True)
    for name in ("tasks.py", "flows/__init__.py"):
        (tmp_path / name).write_text("raise RuntimeError('a module of the user was imported')\n")
    path = os.pathsep.join(map(str, (tmp_path, site, ROOT)))
    environment = os.environ | {"PYTHONPATH": path, "FACTMILL_HOME": str(tmp_path / "home")} | settings
    return subprocess.run(
        list(map(str, command)), cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )


def run_factmill(site: Path, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from factmill.flows.cli.entry import main; main()"
    return run_there(site, tmp_path, sys.executable, "-c", code, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_generated_package_builds_and_passes_its_tests(
    site: Path, tmp_path: Path, form: PackageForm, prefect_api: str
) -> None:
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", site / f"tests_{form}")
    ran = run_there(site, tmp_path, *command, PREFECT_API_URL=prefect_api)
    assert ran.returncode == 0 and "3 passed" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.slow
def test_fact_rows_have_every_name_and_equally_sized_bins(site: Path, tmp_path: Path) -> None:
    built = run_factmill(site, tmp_path, "build", "my_facts", "--property", "P36", "--bins", "3", "--json")
    assert built.returncode == 0, built.stderr
    exported = run_factmill(site, tmp_path, "export", json.loads(built.stdout)["build_id"], "--to", "out")
    assert exported.returncode == 0, exported.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "my_facts.jsonl").read_text("utf-8").splitlines()]
    (capital,) = [row for row in rows if row["question"] == "What is the capital of Germany?"]
    assert (capital["answers"][0], capital["values"], capital["fact"]) == ("Berlin", ["Q64"], "P36-Q183-Q64")
    assert any(len(row["answers"]) > 1 for row in rows)
    assert all((row["views"] is None) == (row["popularity"] == "unknown") for row in rows)
    sizes = Counter(row["popularity"] for row in rows if row["popularity"] != "unknown").values()
    assert (len(sizes), max(sizes) - min(sizes) <= 1) == (3, True)


@pytest.mark.parametrize("form", FORMS)
def test_generated_package_is_formatted_and_has_at_most_eight_files(form: PackageForm, tmp_path: Path) -> None:
    files = render_benchmark_package("my_own", form, "0" * 8)
    assert len(files) <= 8
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    for check in (["check", "--select", "E,F,I,UP,B,ARG,PL,N,RET,SIM"], ["format", "--check"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--isolated", "--line-length", "120", "."],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout


def test_packages_are_listed_and_broken_one_blocks_no_other(site: Path, tmp_path: Path) -> None:
    doctor = run_factmill(site, tmp_path, "doctor")
    lines = {" ".join(line.split()) for line in doctor.stdout.splitlines()}
    assert "ok package my_facts 0.1.0; benchmarks: my_facts" in lines
    assert any(line.startswith("ok package factmill") and "granola" in line for line in lines)
    assert doctor.returncode == 1
    for name, said in {
        "broken": "broken 1: RuntimeError: no such luck",
        "slaq": "broken 1: RuntimeError: no such luck",
        "other": "broken 1: SettingsError: the entry point is called other, its benchmark my_facts",
        "none": "broken 1: SettingsError: my_facts.benchmark:TEMPLATES is a dict, expected a Benchmark",
    }.items():
        assert any(f"benchmark {name} cannot be loaded from {said}" in line for line in lines), (name, lines)
    known = run_factmill(site, tmp_path, "build", "--help").stdout
    assert "my_facts" in known and "slaq" in known and "broken" not in known
    asked = run_factmill(site, tmp_path, "show", "broken")
    assert asked.returncode == 2
    assert "the benchmark broken could not be loaded from broken 1: RuntimeError: no such luck" in asked.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("granola", "the benchmark granola already exists"),
        ("json", "a Python module named json is already installed"),
        ("My-facts", "'My-facts' cannot be a benchmark's name; expected lower-case letters, digits and _"),
        ("class", "'class' cannot be a benchmark's name"),
        ("../up", "'../up' cannot be a benchmark's name"),
    ],
)
def test_invalid_package_name_is_rejected(factmill: Factmill, tmp_path: Path, name: str, said: str) -> None:
    ran: Ran = factmill("new", name, "--from", "facts", "--to", tmp_path / "made")
    assert (ran.code, said in ran.err) == (2, True), ran
    assert not (tmp_path / "made").exists()


def test_package_is_written_only_once(factmill: Factmill, tmp_path: Path) -> None:
    made: Any = factmill("new", "my_own", "--from", "file", "--to", tmp_path / "made", "--json").json
    assert {Path(path).relative_to(tmp_path / "made").as_posix() for path in made["files"]} == {
        *render_benchmark_package("my_own", "file", "")
    }
    again = factmill("new", "my_own", "--from", "facts", "--to", tmp_path / "made")
    assert again.code != 0 and "give another folder with --to" in again.err
