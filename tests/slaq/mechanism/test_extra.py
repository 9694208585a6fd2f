"""What the extra brings is imported by its name, where it is used: no import of ours brings it in."""

from tasks.engine.naming.import_closure import find_imports
from tasks.engine.naming.own_code import read_code
from tasks.slaq.mechanism.extra import MODULES


def test_no_module_imports_what_only_the_extra_brings() -> None:
    found = {
        (module, imported)
        for module, text in read_code().items()
        for imported in find_imports(module, text)
        if imported.partition(".")[0] in MODULES
    }
    assert found == set()
    assert "flows.evaluate.slaq_mechanism" in read_code()
