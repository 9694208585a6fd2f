"""Where the files that belong to the code are: prompts/, sparql/ and data/, in a checkout or an installed wheel."""

from functools import cache
from pathlib import Path

from tasks.biokalma.core.knowledge_sentences import RelationForm, read_relation_forms
from tasks.biokalma.core.pair_relations import PairRelations, read_pair_relations
from tasks.core.calls.knowledge import id_number, is_pid
from tasks.core.fingerprints import digest_bytes
from tasks.core.prompts import Prompt, read_prompt
from tasks.core.relations import Relation, read_relations
from tasks.errors import PromptError, SettingsError
from tasks.fanoutqa.core.sets.lists import Property, SetKind, read_fanout_properties, read_fanout_sets
from tasks.text.article import Removed, read_removed
from tasks.text.values.written import read_units

_PACKAGED = Path(__file__).parent / "_assets"
ROOT = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parent.parent
"""Folder that holds prompts/, sparql/ and data/."""


@cache
def load_prompt(prompt_id: str) -> Prompt:
    """Return the prompt of `prompts/<prompt_id>.md`."""
    path = ROOT / "prompts" / f"{prompt_id}.md"
    if not path.is_file():
        raise PromptError(f"no prompt file {path}")
    return read_prompt(prompt_id, path.read_bytes())


@cache
def load_query(query_id: str) -> str:
    """Return the text of `sparql/<query_id>.rq`."""
    return _asset("sparql", f"{query_id}.rq").read_text("utf-8")


@cache
def load_list(name: str) -> tuple[str, ...]:
    """Return the entries of `data/lists/<name>.txt`: one a line, blank lines and # comments left out."""
    lines = _asset("data/lists", f"{name}.txt").read_text("utf-8").splitlines()
    return tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


@cache
def load_properties(name: str) -> frozenset[int]:
    """Return the numbers of the properties in `data/lists/<name>.txt`: a PID first on each line, then its label."""
    found = [line.split(maxsplit=1)[0] for line in load_list(name)]
    if wrong := [pid for pid in found if not is_pid(pid)]:
        raise SettingsError(
            f"data/lists/{name}.txt: expected the id of a property first on each line, found {wrong[0]!r}"
        )
    return frozenset(map(id_number, found))


@cache
def load_relations() -> dict[str, Relation]:
    """Return PID → relation of EntityQuestions, from `data/lists/granola_relations.csv`."""
    return read_relations(_asset("data/lists", "granola_relations.csv").read_text("utf-8"))


@cache
def load_pair_relations() -> PairRelations:
    """Return the relations that join pairs of people or organisations, from `data/lists/pair_relations.csv`."""
    return read_pair_relations(_asset("data/lists", "pair_relations.csv").read_text("utf-8"))


@cache
def load_relation_forms() -> dict[str, RelationForm]:
    """Return PID → how the relation is said in a sentence, from `data/lists/relation_forms.csv`."""
    return read_relation_forms(_asset("data/lists", "relation_forms.csv").read_text("utf-8"))


@cache
def load_removed() -> Removed:
    """Return what is no part of an article's text, from `data/lists/removed_from_articles.txt`."""
    return read_removed(load_list("removed_from_articles"))


@cache
def load_removed_from_evidence() -> Removed:
    """Return what of an article says nothing about its subject, from `data/lists/removed_from_evidence.txt`."""
    return read_removed(load_list("removed_from_evidence"))


@cache
def load_fanout_sets() -> dict[str, SetKind]:
    """Return unit → kind of sets that fan-out questions are made from, from `data/lists/fanout_sets.csv`."""
    return read_fanout_sets(_asset("data/lists", "fanout_sets.csv").read_text("utf-8"))


@cache
def load_fanout_properties() -> dict[tuple[str, str], Property]:
    """Return (PID, members or empty) → how a property is asked, from `data/lists/fanout_properties.csv`."""
    return read_fanout_properties(_asset("data/lists", "fanout_properties.csv").read_text("utf-8"))


@cache
def load_units() -> dict[str, int]:
    """Return name → QID number of the units that answers are written in, from `data/lists/units.csv`."""
    return read_units(_asset("data/lists", "units.csv").read_text("utf-8"))


def asset_digest(folder: str, name: str) -> str:
    """Return the SHA-256 of one asset file."""
    return digest_bytes(_asset(folder, name).read_bytes())


def _asset(folder: str, name: str) -> Path:
    path = ROOT / folder / name
    if not path.is_file():
        raise SettingsError(f"the file {folder}/{name} that belongs to factmill is missing below {ROOT}")
    return path
