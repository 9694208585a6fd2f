"""The text of our own modules, and that reading only import statements finds every import of them."""

import ast
from pathlib import Path

import pytest

from tasks.engine.naming.import_closure import digest_closure, find_imports
from tasks.engine.naming.own_code import read_code
from tasks.errors import BuildError


def test_the_import_statements_cut_out_are_those_of_the_whole_module() -> None:
    for module, text in read_code().items():
        whole = {node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))}
        assert find_imports(module, text) == find_imports(module, "\n".join(map(ast.unparse, whole))), module


def test_our_own_modules_are_all_read() -> None:
    folder = Path(__file__).resolve().parents[3]
    paths = [path for package in ("flows", "tasks") for path in (folder / package).rglob("*.py")]
    assert set(read_code()) == {".".join(path.relative_to(folder).with_suffix("").parts) for path in paths}


def test_code_is_read_where_python_finds_it_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "some_bakery" / "room"
    room.mkdir(parents=True)
    (room.parent / "__init__.py").touch()
    (room.parent / "cake.py").write_text("from some_bakery.room import heat\n")
    (room.parent / "notes.txt").write_text("no code")
    (room / "heat.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = read_code(("some_bakery",))
    assert code == {
        "some_bakery.__init__": "",
        "some_bakery.cake": "from some_bakery.room import heat\n",
        "some_bakery.room.heat": "raise RuntimeError\n",
    }
    (room / "heat.py").write_text("raise ValueError\n")
    read_code.cache_clear()
    after = read_code(("some_bakery",))
    assert digest_closure(["some_bakery.cake"], after) != digest_closure(["some_bakery.cake"], code)


def test_a_package_that_is_not_installed_is_an_error() -> None:
    with pytest.raises(BuildError, match="package no_such_bakery is not installed"):
        read_code(("no_such_bakery",))
