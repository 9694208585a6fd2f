"""What a module rests on, told from the text of modules."""

import pytest

from tasks.engine.naming.import_closure import close_over_imports, digest_closure, find_imports
from tasks.errors import BuildError


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
def test_every_way_to_import_is_found(text: str, found: set[str]) -> None:
    assert find_imports("room.rooms.one", text) == found


def test_a_package_names_what_is_beside_its_modules_from_within() -> None:
    assert find_imports("room.__init__", "from .b import c") == {"room.b", "room.b.c"}


CODE = {
    "flows.__init__": "",
    "flows.cake": "import tasks.bake\nfrom pathlib import Path\n",
    "flows.tart": "from tasks import bake\n",
    "flows.cli.main": "from flows.cake import cake\n",
    "tasks.__init__": "",
    "tasks.bake": "def bake():\n    from tasks.core import heat\n    return heat.Heat\n",
    "tasks.core.__init__": "from tasks.core.words import WORDS\n",
    "tasks.core.heat": "from tasks.bake import bake  # a ring\n",
    "tasks.core.words": "",
    "tasks.ice": "from tasks.bake import bake\n",
}
RESTS_ON = {
    "flows.__init__",
    "flows.cake",
    "tasks.__init__",
    "tasks.bake",
    "tasks.core.__init__",
    "tasks.core.heat",
    "tasks.core.words",
}


def test_a_module_rests_on_what_it_imports_in_turn_and_on_the_packages_around() -> None:
    assert close_over_imports(["flows.cake"], CODE) == RESTS_ON


def test_a_package_can_be_where_one_starts() -> None:
    assert close_over_imports(["tasks.core"], CODE) == {"tasks.__init__", "tasks.core.__init__", "tasks.core.words"}


@pytest.mark.parametrize("changed", sorted(CODE))
def test_the_digest_changes_with_what_a_module_rests_on_and_with_nothing_else(changed: str) -> None:
    after = {**CODE, changed: CODE[changed] + "\nLATER = True\n"}
    differs = digest_closure(["flows.cake"], after) != digest_closure(["flows.cake"], CODE)
    assert differs == (changed in RESTS_ON)


def test_a_module_that_is_newly_imported_counts() -> None:
    after = {**CODE, "tasks.core.words": "import tasks.ice\n"}
    assert close_over_imports(["flows.cake"], after) == RESTS_ON | {"tasks.ice"}


def test_the_order_in_which_code_was_read_does_not_count() -> None:
    assert digest_closure(["flows.cake"], dict(reversed(CODE.items()))) == digest_closure(["flows.cake"], CODE)


def test_a_module_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BuildError, match=r"no module flows\.pie"):
        close_over_imports(["flows.pie"], CODE)
