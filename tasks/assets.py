"""Find and load the files that ship with the code: prompts/, sparql/ and data/, in a checkout or an installed wheel."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import MappingProxyType

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.prompts import PromptTemplate, parse_prompt_file
from factmill.tasks.core.question_relations import QuestionRelation, parse_question_relations_csv
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE, EMBEDDED_WORLD_SOURCE
from factmill.tasks.errors import PromptError, SettingsError
from factmill.tasks.text.article_html import RemovalRules, parse_removal_rules
from factmill.tasks.text.values.dates_and_numbers import parse_units_csv
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number, is_pid

_PACKAGED_ASSETS = Path(__file__).parent / "_assets"
ASSETS_ROOT = _PACKAGED_ASSETS if _PACKAGED_ASSETS.is_dir() else Path(__file__).resolve().parents[1]
"""Folder that holds factmill's own prompts/, sparql/ and data/."""
_extra_asset_roots: list[Path] = []
"""Asset folders of other packages that provide benchmarks."""
_own_prompts: ContextVar[Mapping[str, PromptTemplate]] = ContextVar("_own_prompts", default=MappingProxyType({}))
"""Id → prompt of the user's own that replaces the packaged one; each run has its own."""


def add_asset_root(root: Path) -> None:
    """Add the folder with the prompts, queries and lists of another package; factmill's own files take precedence."""
    if root not in _extra_asset_roots:
        _extra_asset_roots.append(root)


def load_prompt(prompt_id: str) -> PromptTemplate:
    """Return a prompt: the user's own within `using_own_prompts`, else that of `prompts/<prompt_id>.md`."""
    return _own_prompts.get().get(prompt_id) or load_packaged_prompt(prompt_id)


@cache
def load_packaged_prompt(prompt_id: str) -> PromptTemplate:
    """Return the prompt of `prompts/<prompt_id>.md`."""
    path = find_asset("prompts", f"{prompt_id}.md")
    if path is None:
        raise PromptError(f"no prompt file {ASSETS_ROOT / 'prompts' / prompt_id}.md")
    return parse_prompt_file(prompt_id, path.read_bytes())


def use_own_prompts(prompts: Mapping[str, PromptTemplate]) -> None:
    """Let `load_prompt` return these prompts, by id, in the rest of this context (a thread's, or a task's)."""
    _own_prompts.set(prompts)


@contextmanager
def using_own_prompts(prompts: Mapping[str, PromptTemplate]) -> Iterator[None]:
    """Let `load_prompt` return these prompts, by id, within the block; other threads and runs keep theirs."""
    before = _own_prompts.set(prompts)
    try:
        yield
    finally:
        _own_prompts.reset(before)


def list_packaged_prompts() -> list[str]:
    """Return the sorted ids of all prompts of factmill and of other packages."""
    folders = [root / "prompts" for root in (ASSETS_ROOT, *_extra_asset_roots)]
    return sorted(
        {
            path.relative_to(folder).with_suffix("").as_posix()
            for folder in folders
            for path in folder.rglob("*.md")
            if path.is_file()
        }
    )


@cache
def load_sparql_query(query_id: str) -> str:
    """Return the text of `sparql/<query_id>.rq`."""
    return asset_path("sparql", f"{query_id}.rq").read_text("utf-8")


@cache
def load_list_entries(name: str) -> tuple[str, ...]:
    """Return the entries of `data/lists/<name>.txt`, one per line, without blank lines and # comments."""
    lines = asset_path("data/lists", f"{name}.txt").read_text("utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


@cache
def load_property_numbers(name: str) -> frozenset[int]:
    """Return the PID numbers in `data/lists/<name>.txt`, whose lines hold a PID, then its label."""
    found = [line.split(maxsplit=1)[0] for line in load_list_entries(name)]
    if wrong := [pid for pid in found if not is_pid(pid)]:
        raise SettingsError(
            f"data/lists/{name}.txt: expected a property id at the start of each line, found {wrong[0]!r}"
        )
    return frozenset(map(get_wikidata_id_number, found))


@cache
def load_entity_questions_relations() -> dict[str, QuestionRelation]:
    """Return PID → relation of EntityQuestions, from `data/lists/granola_relations.csv`."""
    return parse_question_relations_csv(asset_path("data/lists", "granola_relations.csv").read_text("utf-8"))


@cache
def load_source_names_and_licences_by_digest() -> dict[str, tuple[str, str]]:
    """Return SHA-256 → (name, licence) of files with a known licence: those in `data/lists/known_sources.csv`, and our own.

    The content alone identifies a file: its format and its name do not determine its licence.
    """
    own = sorted(path for path in (ASSETS_ROOT / "data" / "world" / "sources").rglob("*") if path.is_file())
    with asset_path("data/lists", "known_sources.csv").open(encoding="utf-8", newline="") as file:
        listed = {row["sha256"]: (row["source"], row["licence"]) for row in csv.DictReader(file)}
    return listed | {digest_bytes(path.read_bytes()): (EMBEDDED_WORLD_SOURCE, EMBEDDED_WORLD_LICENCE) for path in own}


@cache
def load_article_text_removal_rules() -> RemovalRules:
    """Return the rules for parts to remove from an article's text, from `data/lists/removed_from_articles.txt`."""
    return parse_removal_rules(load_list_entries("removed_from_articles"))


@cache
def load_evidence_text_removal_rules() -> RemovalRules:
    """Return the rules for parts of an article that are no evidence about its subject, from
    `data/lists/removed_from_evidence.txt`."""
    return parse_removal_rules(load_list_entries("removed_from_evidence"))


@cache
def load_unit_qid_numbers_by_name() -> dict[str, int]:
    """Return name → QID number of the units used in answers, from `data/lists/units.csv`."""
    return parse_units_csv(asset_path("data/lists", "units.csv").read_text("utf-8"))


def asset_digest(folder: str, name: str) -> str:
    """Return the SHA-256 of one asset file."""
    return digest_bytes(asset_path(folder, name).read_bytes())


def asset_path(folder: str, name: str) -> Path:
    """Return the path of one asset file; SettingsError when it is missing."""
    path = find_asset(folder, name)
    if path is None:
        raise SettingsError(f"factmill's file {folder}/{name} is missing below {ASSETS_ROOT}; reinstall factmill")
    return path


def find_asset(folder: str, name: str) -> Path | None:
    """Return the path of one asset file below factmill's root, else below another package's; None where there is none."""
    return next((path for root in (ASSETS_ROOT, *_extra_asset_roots) if (path := root / folder / name).is_file()), None)
