"""Test which modules a module depends on, derived from source text."""

import ast
from pathlib import Path

import pytest

from factmill.tasks.engine.naming.code_versions import (
    collect_import_closure,
    digest_import_closure,
    find_imports,
    load_source_code,
)
from factmill.tasks.errors import BuildError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import a", {"a"}),
        ("import a.b, c as d", {"a.b", "c"}),
        ("from a import b", {"a", "a.b"}),
        ("from a.b import (\n    c,  # said why\n    d as e,\n)\n", {"a.b", "a.b.c", "a.b.d"}),
        ("from a import b, \\\n    c\n", {"a", "a.b", "a.c"}),
        ("from a import (  # one (or two)\n    b,\n    c,\n)\n", {"a", "a.b", "a.c"}),
        ("def f():\n    from a import b\n    return b\n", {"a", "a.b"}),
        ("try:\n\timport a\nexcept ImportError: import b\n", {"a", "b"}),
        ("x = 1; import a; from b import c", {"a", "b", "b.c"}),
        ("if TYPE_CHECKING:\n    from a import b\n", {"a", "a.b"}),
        ('"""Cars:\nimport duties are high.\n"""\nimport a\n', {"a"}),
        ("from . import b", {"room.rooms", "room.rooms.b"}),
        ("from .b import c", {"room.rooms.b", "room.rooms.b.c"}),
        ("from ..b import c", {"room.b", "room.b.c"}),
        ("important = 1\nfromage = important\n", set()),
        ("def f():\n    yield from g()\n", set()),
    ],
)
def test_all_import_forms_are_found(text: str, found: set[str]) -> None:
    assert find_imports("room.rooms.one", text) == found


def test_package_resolves_relative_imports_of_its_modules() -> None:
    assert find_imports("room.__init__", "from .b import c") == {"room.b", "room.b.c"}


CODE = {
    "factmill.flows.__init__": "",
    "factmill.flows.cake": "import factmill.tasks.bake\nfrom pathlib import Path\n",
    "factmill.flows.tart": "from factmill.tasks import bake\n",
    "factmill.flows.cli.main": "from factmill.flows.cake import cake\n",
    "factmill.tasks.__init__": "",
    "factmill.tasks.bake": "def bake():\n    from factmill.tasks.core import heat\n    return heat.Heat\n",
    "factmill.tasks.core.__init__": "from factmill.tasks.core.words import WORDS\n",
    "factmill.tasks.core.heat": "from factmill.tasks.bake import bake  # a ring\n",
    "factmill.tasks.core.words": "",
    "factmill.tasks.ice": "from factmill.tasks.bake import bake\n",
}
RESTS_ON = {
    "factmill.flows.__init__",
    "factmill.flows.cake",
    "factmill.tasks.__init__",
    "factmill.tasks.bake",
    "factmill.tasks.core.__init__",
    "factmill.tasks.core.heat",
    "factmill.tasks.core.words",
}


def test_import_closure_includes_transitive_imports_and_parent_packages() -> None:
    assert collect_import_closure(["factmill.flows.cake"], CODE) == RESTS_ON


def test_import_closure_can_start_at_package() -> None:
    assert collect_import_closure(["factmill.tasks.core"], CODE) == {
        "factmill.tasks.__init__",
        "factmill.tasks.core.__init__",
        "factmill.tasks.core.words",
    }


@pytest.mark.parametrize("changed", sorted(CODE))
def test_digest_changes_only_with_modules_of_import_closure(changed: str) -> None:
    after = {**CODE, changed: CODE[changed] + "\nLATER = True\n"}
    differs = digest_import_closure(["factmill.flows.cake"], after) != digest_import_closure(
        ["factmill.flows.cake"], CODE
    )
    assert differs == (changed in RESTS_ON)


def test_newly_imported_module_joins_import_closure() -> None:
    after = {**CODE, "factmill.tasks.core.words": "import factmill.tasks.ice\n"}
    assert collect_import_closure(["factmill.flows.cake"], after) == RESTS_ON | {"factmill.tasks.ice"}


def test_module_order_does_not_change_digest() -> None:
    assert digest_import_closure(["factmill.flows.cake"], dict(reversed(CODE.items()))) == digest_import_closure(
        ["factmill.flows.cake"], CODE
    )


def test_missing_module_raises_build_error() -> None:
    with pytest.raises(BuildError, match=r"no module factmill\.flows\.pie"):
        collect_import_closure(["factmill.flows.pie"], CODE)


def test_extracted_import_statements_match_full_module_parse() -> None:
    for module, text in load_source_code().items():
        whole = {node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))}
        assert find_imports(module, text) == find_imports(module, "\n".join(map(ast.unparse, whole))), module


def test_source_of_all_own_modules_is_loaded() -> None:
    folder = Path(__file__).resolve().parents[3]
    paths = [path for package in ("flows", "tasks") for path in (folder / package).rglob("*.py")]
    modules = {f"factmill.{'.'.join(path.relative_to(folder).with_suffix('').parts)}" for path in paths}
    modules |= {f"factmill.{path.stem}" for path in (folder / "factmill").glob("*.py")}
    assert set(load_source_code()) == modules


def test_source_code_is_located_without_executing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "some_bakery" / "room"
    room.mkdir(parents=True)
    (room.parent / "__init__.py").touch()
    (room.parent / "cake.py").write_text("from some_bakery.room import heat\n")
    (room.parent / "notes.txt").write_text("no code")
    (room / "heat.py").write_text("raise RuntimeError\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = load_source_code(("some_bakery",))
    assert code == {
        "some_bakery.__init__": "",
        "some_bakery.cake": "from some_bakery.room import heat\n",
        "some_bakery.room.heat": "raise RuntimeError\n",
    }
    (room / "heat.py").write_text("raise ValueError\n")
    load_source_code.cache_clear()
    after = load_source_code(("some_bakery",))
    assert digest_import_closure(["some_bakery.cake"], after) != digest_import_closure(["some_bakery.cake"], code)


def test_package_that_is_not_installed_raises_build_error() -> None:
    with pytest.raises(BuildError, match="package no_such_bakery is not installed"):
        load_source_code(("no_such_bakery",))
