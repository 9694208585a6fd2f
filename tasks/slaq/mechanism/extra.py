"""The libraries of the extra `mechanism`: imported where they are used and nowhere else, since most users never need them."""

import importlib
from typing import Any

from tasks.errors import UsageError

MODULES = ("torch", "transformers", "sklearn", "ot", "scipy")
"""What the extra brings, as modules; scipy comes with scikit-learn and POT."""
_INSTALL = "pip install 'factmill[mechanism]'"


def import_extra(module: str) -> Any:
    """Return a module of the extra `mechanism`; UsageError says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"the mechanistic analysis needs {error.name or module}, which is not installed: {_INSTALL} (for torch's build for "
            "CPUs alone, install torch by its own instructions first)"
        ) from error


def require_extra() -> None:
    """UsageError unless the whole extra is installed, said before anything is begun."""
    for module in MODULES:
        import_extra(module)
