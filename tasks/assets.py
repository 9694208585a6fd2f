"""Find and load the files that ship with the code: prompts/, sparql/ and data/, in a checkout or an installed wheel."""

import csv
from functools import cache
from pathlib import Path

from factmill.tasks.core.fingerprints import digest_bytes
from factmill.tasks.core.prompts import Prompt, read_prompt
from factmill.tasks.core.relations import Relation, read_relations
from factmill.tasks.core.rows import OWN_LICENCE, OWN_WORLD
from factmill.tasks.errors import PromptError, SettingsError
from factmill.tasks.text.article import Removed, read_removed
from factmill.tasks.text.ids import id_number, is_pid
from factmill.tasks.text.values.written import read_units

_PACKAGED = Path(__file__).parent / "_assets"
ROOT = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).resolve().parents[1]
"""Folder that holds factmill's own prompts/, sparql/ and data/."""
_roots: list[Path] = []
"""Asset folders of other packages that provide benchmarks."""


def add_root(root: Path) -> None:
    """Add the folder with the prompts, queries and lists of another package; factmill's own files take precedence."""
    if root not in _roots:
        _roots.append(root)


@cache
def load_prompt(prompt_id: str) -> Prompt:
    """Return the prompt of `prompts/<prompt_id>.md`."""
    path = find_asset("prompts", f"{prompt_id}.md")
    if path is None:
        raise PromptError(f"no prompt file {ROOT / 'prompts' / prompt_id}.md")
    return read_prompt(prompt_id, path.read_bytes())


@cache
def load_query(query_id: str) -> str:
    """Return the text of `sparql/<query_id>.rq`."""
    return asset_path("sparql", f"{query_id}.rq").read_text("utf-8")


@cache
def load_list(name: str) -> tuple[str, ...]:
    """Return the entries of `data/lists/<name>.txt`, one per line, without blank lines and # comments."""
    lines = asset_path("data/lists", f"{name}.txt").read_text("utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


@cache
def load_properties(name: str) -> frozenset[int]:
    """Return the PID numbers in `data/lists/<name>.txt`, whose lines hold a PID, then its label."""
    found = [line.split(maxsplit=1)[0] for line in load_list(name)]
    if wrong := [pid for pid in found if not is_pid(pid)]:
        raise SettingsError(
            f"data/lists/{name}.txt: expected the id of a property first on each line, found {wrong[0]!r}"
        )
    return frozenset(map(id_number, found))


@cache
def load_relations() -> dict[str, Relation]:
    """Return PID → relation of EntityQuestions, from `data/lists/granola_relations.csv`."""
    return read_relations(asset_path("data/lists", "granola_relations.csv").read_text("utf-8"))


@cache
def load_known_sources() -> dict[str, tuple[str, str]]:
    """Return SHA-256 → (name, licence) of files with a known licence: those in `data/lists/known_sources.csv`, and our own.

    The content alone identifies a file: its format and its name do not determine its licence.
    """
    own = sorted(path for path in (ROOT / "data" / "world" / "sources").rglob("*") if path.is_file())
    with asset_path("data/lists", "known_sources.csv").open(encoding="utf-8", newline="") as file:
        listed = {row["sha256"]: (row["source"], row["licence"]) for row in csv.DictReader(file)}
    return listed | {digest_bytes(path.read_bytes()): (OWN_WORLD, OWN_LICENCE) for path in own}


@cache
def load_removed() -> Removed:
    """Return the rules for parts to remove from an article's text, from `data/lists/removed_from_articles.txt`."""
    return read_removed(load_list("removed_from_articles"))


@cache
def load_removed_from_evidence() -> Removed:
    """Return the rules for parts of an article that are no evidence about its subject, from
    `data/lists/removed_from_evidence.txt`."""
    return read_removed(load_list("removed_from_evidence"))


@cache
def load_units() -> dict[str, int]:
    """Return name → QID number of the units used in answers, from `data/lists/units.csv`."""
    return read_units(asset_path("data/lists", "units.csv").read_text("utf-8"))


def asset_digest(folder: str, name: str) -> str:
    """Return the SHA-256 of one asset file."""
    return digest_bytes(asset_path(folder, name).read_bytes())


def asset_path(folder: str, name: str) -> Path:
    """Return the path of one asset file; SettingsError when it is missing."""
    path = find_asset(folder, name)
    if path is None:
        raise SettingsError(f"the file {folder}/{name} that belongs to factmill is missing below {ROOT}")
    return path


def find_asset(folder: str, name: str) -> Path | None:
    """Return the path of one asset file below factmill's root, else below another package's; None where there is none."""
    return next((path for root in (ROOT, *_roots) if (path := root / folder / name).is_file()), None)
