"""Test which modules a definition depends on, and that its identity follows from what it computes."""

from collections.abc import Mapping
from textwrap import dedent

import pytest

from factmill.tasks.engine.naming.definition_digests import (
    MODULE_STATEMENTS,
    DigestedCodeDependencies,
    collect_code_dependencies,
)
from factmill.tasks.errors import BuildError

CODE = {
    "factmill.flows.cake": """
        from prefect import flow
        from factmill.tasks.cake import steps
        from factmill.tasks.engine.building import open_build

        @flow
        def cake():
            open_build()
            return steps.bake(1)
    """,
    "factmill.tasks.cake.__init__": "",
    "factmill.tasks.cake.steps": """
        import json
        import babel
        from typing import TYPE_CHECKING
        from factmill.tasks.core.rows import Cake as Row, UNUSED

        if TYPE_CHECKING:
            from factmill.tasks.core.heat import Heat

        HEAT = 180
        TABLE = {}
        TABLE["flour"] = 500
        for each in ("egg", "milk"):
            TABLE[each] = len(each)

        def bake(how, heat: "Heat | None" = None):
            "Bake."
            # slowly
            from factmill.tasks.core.sugar import sweeten
            return Row(f"{how} at {HEAT!r}" f" for {len(TABLE)}"), sweeten(json.dumps(babel.x))

        def burn():
            return HEAT + 100
    """,
    "factmill.tasks.core.rows": """
        class Base: kind = 1
        class Cake(Base):
            "A cake."
            layers: int
            "How many."
            def cut(self): return slices(self.layers)
        def slices(n): return n * 8
        UNUSED = 5
    """,
    "factmill.tasks.core.heat": "class Heat: degrees = 1\n",
    "factmill.tasks.core.sugar": "from factmill.tasks.core.sweet import sweeten\n",
    "factmill.tasks.core.sweet": "def sweeten(x): return x\n",
    "factmill.tasks.engine.building": "def open_build(): return 1\n",
}


def find_room(module: str) -> str | None:
    return "engine" if module.startswith("factmill.tasks.engine") else ""


def reach(changed: Mapping[str, tuple[str, str]] | None = None) -> DigestedCodeDependencies:
    code = {name: dedent(text) for name, text in CODE.items()}
    for module, (old, new) in (changed or {}).items():
        assert old in code[module]
        code[module] = code[module].replace(old, new)
    return collect_code_dependencies([("factmill.flows.cake", "cake")], code, find_room)


def test_dependencies_cover_mentioned_definitions_and_nothing_else() -> None:
    found = reach()
    assert {module: set(names) for module, names in found.digests.items()} == {
        "factmill.flows.cake": {"cake"},
        "factmill.tasks.cake.steps": {"bake", "HEAT", "TABLE", "each", MODULE_STATEMENTS},
        "factmill.tasks.core.rows": {"Base", "Cake", "slices"},
        "factmill.tasks.core.heat": {"Heat"},
        "factmill.tasks.core.sweet": {"sweeten"},
    }
    assert found.packages == {"engine"}
    assert found.libraries == {"prefect", "babel"}


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("factmill.tasks.cake.steps", "HEAT = 180", "HEAT = 190"),
        ("factmill.tasks.cake.steps", '"egg"', '"eggs"'),
        ("factmill.tasks.cake.steps", '["flour"] = 500', '["flour"] = 501'),
        ("factmill.tasks.core.rows", "kind = 1", "kind = True"),
        ("factmill.tasks.core.rows", "layers: int", "layers: float"),
        ("factmill.tasks.core.rows", "n * 8", "n * 9"),
        ("factmill.tasks.core.heat", "degrees = 1", "degrees = 2"),
        ("factmill.tasks.core.sweet", "return x", "return -x"),
        ("factmill.flows.cake", "bake(1)", "bake(1.0)"),
        ("factmill.tasks.cake.steps", "import json", "import marshal as json"),
    ],
)
def test_changed_computation_changes_digest(module: str, old: str, new: str) -> None:
    assert reach({module: (old, new)}).digests != reach().digests


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("factmill.tasks.cake.steps", '"Bake."', '"Bake a cake, well."'),
        ("factmill.tasks.cake.steps", "# slowly", "# fast"),
        ("factmill.tasks.cake.steps", "as Row", "as Row, slices as sliced"),
        ("factmill.tasks.cake.steps", "HEAT + 100", "HEAT + 200"),
        ("factmill.tasks.cake.steps", "HEAT = 180", "HEAT = (180)"),
        ("factmill.tasks.cake.steps", 'f"{how} at {HEAT!r}" f" for', 'f"{how} at {HEAT!r} for'),
        ("factmill.tasks.core.rows", '"How many."', '"Their number."'),
        ("factmill.tasks.core.rows", "UNUSED = 5", "UNUSED = 6"),
        ("factmill.tasks.engine.building", "return 1", "return 2"),
    ],
)
def test_comments_formatting_and_unreached_code_do_not_change_digests(module: str, old: str, new: str) -> None:
    assert reach({module: (old, new)}) == reach()


def test_import_of_same_name_from_other_module_changes_dependencies() -> None:
    code = {
        "factmill.flows.cake": "from factmill.tasks.core.a import measure\nfrom factmill.tasks.core.shared import taste\n"
        "def cake(): return measure(), taste(), other()\n"
        "def other():\n    from factmill.tasks.core.b import measure as w\n    return w()\n",
        "factmill.tasks.core.a": "def measure(): return 1\n",
        "factmill.tasks.core.b": "def measure(): return 2\n",
        "factmill.tasks.core.shared": "from factmill.tasks.core.a import measure as taste\n",
    }

    def describe(changed: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
        return collect_code_dependencies([("factmill.flows.cake", "cake")], {**code, **changed}, find_room).digests

    swapped = code["factmill.flows.cake"].replace("core.a import measure\n", "core.b import measure\n")
    for changed in (
        {"factmill.flows.cake": swapped},
        {"factmill.tasks.core.shared": "from factmill.tasks.core.b import measure as taste\n"},
    ):
        assert {module: set(names) for module, names in describe(changed).items()} == {
            "factmill.flows.cake": {"cake", "other"},
            "factmill.tasks.core.a": {"measure"},
            "factmill.tasks.core.b": {"measure"},
        }
        assert describe(changed)["factmill.flows.cake"]["cake"] != describe({})["factmill.flows.cake"]["cake"]
        assert describe(changed)["factmill.flows.cake"]["other"] == describe({})["factmill.flows.cake"]["other"]
    reexported = {
        "factmill.flows.cake": code["factmill.flows.cake"].replace(
            "core.shared import taste", "core.a import measure as taste"
        )
    }
    assert describe(reexported) == describe({})


def test_versioned_package_counts_by_name_and_code_it_calls_by_definition() -> None:
    code = {
        "factmill.flows.cake": "from factmill.tasks.engine.work import ask\ndef cake(): return ask()\n",
        "factmill.tasks.engine.work": "import duckdb\nfrom factmill.tasks.core.completions import read\ndef ask(): return read(duckdb)\n",
        "factmill.tasks.core.completions": "import json5\ndef read(text): return json5.loads(text)\ndef unused(): return 1\n",
    }
    crossed = collect_code_dependencies([("factmill.flows.cake", "cake")], code, find_room, frozenset({"engine"}))
    assert {module: set(names) for module, names in crossed.digests.items()} == {
        "factmill.flows.cake": {"cake"},
        "factmill.tasks.core.completions": {"read"},
    }
    assert (crossed.packages, crossed.libraries) == ({"engine"}, {"json5"})
    moved = {**code, "factmill.flows.cake": code["factmill.flows.cake"].replace("engine.work", "engine.asking")}
    moved["factmill.tasks.engine.asking"] = moved.pop("factmill.tasks.engine.work")
    assert (
        collect_code_dependencies([("factmill.flows.cake", "cake")], moved, find_room, frozenset({"engine"})) == crossed
    )


def test_missing_recipe_is_named() -> None:
    with pytest.raises(BuildError, match=r"no .*factmill\.flows\.cake:tart"):
        collect_code_dependencies([("factmill.flows.cake", "tart")], {"factmill.flows.cake": "x = 1"}, find_room)
