"""Helpers that all scripts share: the checkout's path, command-line options, and a Prefect server."""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def read_options(doc: str | None, **options: Any) -> argparse.Namespace:
    """Parse a script's command line; each keyword is an option.

    An option is a default, (default, meaning), (default, meaning, choices), or argparse's own keywords. A type means an
    optional value, False a flag, and a list several values of its first element's type. `arguments` and `sections` are
    positional.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, option in options.items():
        parts = option if isinstance(option, tuple) else (option,)
        text = option if isinstance(option, dict) else _describe_option(*parts)
        parser.add_argument(name if name in {"arguments", "sections"} else f"--{name.replace('_', '-')}", **text)
    return parser.parse_args()


def _describe_option(default: Any, meaning: str | None = None, choices: Any = None) -> dict[str, Any]:
    if default is False:
        return {"action": "store_true", "help": meaning}
    several = {"nargs": "*"} if isinstance(default, list) else {}
    first = default[0] if isinstance(default, list) else default
    if isinstance(first, type):
        return {"type": first, "default": [] if several else None, "help": meaning, "choices": choices, **several}
    read = Path if isinstance(first, Path) else type(first)
    return {"type": read, "default": default, "help": meaning, "choices": choices, **several}


@contextmanager
def folder_on_prefect() -> Iterator[tuple[Path, Path, str]]:
    """Yield a scratch folder, FACTMILL_HOME (by default inside it) and the address of a Prefect server.

    Uses a running Prefect server if there is one, and starts one otherwise."""
    from factmill.flows.prefect_server import make_prefect_environment, standing_or_own_prefect_server

    with tempfile.TemporaryDirectory() as scratch:
        home = Path(os.environ.get("FACTMILL_HOME", f"{scratch}/home"))
        os.environ.update(make_prefect_environment(home))
        with standing_or_own_prefect_server(home) as prefect:
            prefect.wait_ready()
            yield Path(scratch), home, os.environ["PREFECT_API_URL"]
