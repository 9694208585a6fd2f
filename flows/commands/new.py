"""`factmill new`: write a benchmark package from templates, which installs, builds and passes its tests as written."""

import keyword
import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.options import JsonOption, print_result, write_text_file
from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.errors import OutputError, UsageError

PackageForm = Literal["facts", "file"]


def new(
    name: str = typer.Argument(
        ..., help="Name of the benchmark and its package: lower-case letters, digits and _.", metavar="NAME"
    ),
    form: PackageForm = typer.Option(
        ..., "--from", help="Source of the questions: facts of Wikidata, or a file with questions and answers."
    ),
    to: Path | None = typer.Option(None, "--to", metavar="FOLDER", help="Folder to create. Default: ./NAME."),
    title: str = typer.Option(
        "", "--title", metavar="TEXT", help="Title of the benchmark for readers. Default: derived from the name."
    ),
    as_json: JsonOption = False,
) -> None:
    """Create a package for a new benchmark, ready to build and test.

    \b
    Examples:
      factmill new my_facts --from facts
      factmill new my_questions --from file
    """
    folder = to or Path(name)
    written = write_benchmark_package(name, form, folder, title)
    result = {"folder": str(folder), "files": [str(path) for path in written]}
    then = f"{len(written)} files; next: pip install -e {folder}, factmill build {name}, pytest {folder}"
    print_result(as_json, result, [*(f"  {path}" for path in written), then])


TEMPLATES = ASSETS_ROOT / "data" / "templates" / "package"
_PACKAGE_FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "{name}/__init__.py": "init.py",
    "{name}/benchmark.py": "{form}.py",
    "{name}/publishing.py": "publishing.py",
    "{name}/prompts/{name}/answer.md": "answer.md",
    "{name}/data/questions.csv": "questions.csv",
    "tests/test_{name}.py": "test.py",
}
"""Path in the package → template; questions.csv for the form `file` only."""


def render_benchmark_package(name: str, form: PackageForm, canary: str, title: str = "") -> dict[str, str]:
    """Return path in the package's folder → text of the file.

    `form`: the source of questions, facts of Wikidata or a file. `canary`: GUID by which training sets can exclude the
    benchmark. `title`: the benchmark's name for readers; by default `name`.
    """
    from jinja2 import (  # takes a tenth of a second, and only `new` needs it
        Environment,
        FileSystemLoader,
        StrictUndefined,
    )

    camel = "".join(part.capitalize() for part in name.split("_"))
    values = {
        "name": name,
        "form": form,
        "title": title or name.replace("_", " ").capitalize(),
        "upper": name.upper(),
        "camel": camel,
        "row": f"{camel}Question",
        "canary": canary,
    }
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # code and Markdown, whose values are names
    )
    return {
        path.format(name=name): templates.get_template(f"{template.format(form=form)}.jinja").render(values)
        for path, template in _PACKAGE_FILES.items()
        if form == "file" or template != "questions.csv"
    }


def write_benchmark_package(name: str, form: PackageForm, folder: Path, title: str = "") -> list[Path]:
    """Write a package and return its files; UsageError for an unusable name, OutputError for a non-empty folder."""
    if not name.isidentifier() or not name.islower() or not name.isascii() or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot be a benchmark's name; expected lower-case letters, digits and _, such as my_facts"
        )
    if not title.isprintable() or {*title} & {*'"\\{}'}:
        raise UsageError(f"--title {title!r}: expected printable characters without quotes, backslash and braces")
    if name in BENCHMARKS:
        raise UsageError(f"the benchmark {name} already exists; choose another name")
    if find_spec(name) is not None:
        raise UsageError(f"a Python module named {name} is already installed; choose another name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder}: the folder exists and is not empty; give another folder with --to, or remove it")
    return [
        write_text_file(text, folder / place, "--to")
        for place, text in render_benchmark_package(name, form, str(uuid.uuid4()), title).items()
    ]
