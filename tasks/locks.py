"""Locks: every input of a build, by content. Two builds with one lock have the same bytes, given the same replies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tasks.assets import asset_digest, load_prompt
from tasks.core.import_closure import digest_closure
from tasks.identities import rules_identity, service_identities
from tasks.own_code import read_code
from tasks.settings import home, load_world


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a benchmark's build depends on, beside world and code."""

    params: Mapping[str, Any]
    """Parameters of the recipe, JSON-able; steps read them from here."""
    sources: Mapping[str, str]
    """Source name → SHA-256 of its bytes, or the identity of the Wikidata it is drawn from."""
    prompts: Sequence[str] = ()
    lists: Sequence[str] = ()
    """Files of data/lists."""
    queries: Sequence[str] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Where the inputs were found; kept with the build, no part of the lock."""


def make_lock(benchmark: str, world_name: str, graph: str | None, inputs: Inputs) -> dict[str, Any]:
    """Return the lock of a build as JSON."""
    world = load_world(world_name, graph)
    uses_rules = any(model.kind == "rules" for model in world.models.values())
    return {
        "benchmark": benchmark,
        "code": code_digest(benchmark),
        "version": package_version(),
        "world": {"name": world.name, "digest": world.digest(), "epoch": world.epoch_day().isoformat()},
        "services": service_identities(world, home()),
        "models": {role: model.name for role, model in sorted(world.models.items())},
        "rules": rules_identity(world, home()) if uses_rules else None,
        "sources": dict(inputs.sources),
        "prompts": {prompt: load_prompt(prompt).digest for prompt in inputs.prompts},
        "lists": {name: asset_digest("data/lists", name) for name in inputs.lists},
        "queries": {name: asset_digest("sparql", f"{name}.rq") for name in inputs.queries},
        "params": dict(inputs.params),
    }


def code_digest(benchmark: str) -> str:
    """Return the digest of the code that makes a benchmark's rows: its recipe and what that imports, in turn.

    The command and what it prints are imported by no recipe. Migrations do not count: they apply to the rows of all
    builds alike, those made before among them, so no lock can tell them apart.
    """
    return digest_closure([f"flows.{benchmark}"], read_code())[:16]


def package_version() -> str:
    """Return factmill's version."""
    try:
        return version("factmill")
    except PackageNotFoundError:
        return "0+uninstalled"
