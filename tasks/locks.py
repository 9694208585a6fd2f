"""Locks: every input of a build, by content. Two builds with one lock have the same bytes, given the same replies."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tasks.assets import asset_digest, load_prompt
from tasks.benchmark import Assets, Benchmark, Inputs, Locked
from tasks.core.fingerprints import combine_digests, digest_bytes
from tasks.identities import rules_identity, service_identities
from tasks.options import RunOptions
from tasks.settings import home, load_world


def make_lock(benchmark: Benchmark, inputs: Locked[Inputs], run: RunOptions) -> dict[str, Any]:
    """Return the lock of a build as JSON."""
    world = load_world(run.world, run.graph)
    uses_rules = any(model.kind == "rules" for model in world.models.values())
    files = {unit: [[file.name, file.sha256] for file in found] for unit, found in inputs.files.items()}
    return {
        "benchmark": benchmark.name,
        "code": code_digest(),
        "version": package_version(),
        "world": {"name": world.name, "digest": world.digest(), "epoch": world.epoch_day().isoformat()},
        "services": service_identities(world, home()),
        "models": {role: model.name for role, model in sorted(world.models.items())},
        "rules": rules_identity(world, home()) if uses_rules else None,
        "sources": {"files": files, "wikidata": inputs.wikidata},
        **digest_assets(benchmark.assets),
        "params": inputs.inputs.as_locked(),
    }


def digest_assets(assets: Assets) -> dict[str, dict[str, str]]:
    """Return kind → name → digest of the project's files that a build reads; an error names one that is missing."""
    return {
        "prompts": {prompt: load_prompt(prompt).digest for prompt in assets.prompts},
        "lists": {name: asset_digest("data/lists", name) for name in assets.lists},
        "queries": {name: asset_digest("sparql", f"{name}.rq") for name in assets.queries},
    }


def describe_origin(inputs: Locked[Inputs], run: RunOptions) -> dict[str, Any]:
    """Return where the inputs were found, JSON-able: kept with the build, no part of its lock."""
    return {
        "flow": inputs.inputs.params.model_dump(mode="json"),
        "world": run.absolute_world(),
        "graph": run.graph,
        "files": {
            unit: [[str(file.path.resolve()), file.name, file.sha256, file.licence] for file in found]
            for unit, found in inputs.files.items()
        },
    }


@cache
def code_digest() -> str:
    """Return the digest of the code that makes rows: every module of tasks/ and flows/."""
    here = Path(__file__).parent
    files = sorted([*here.rglob("*.py"), *here.rglob("*.sql"), *(here.parent / "flows").rglob("*.py")])
    return combine_digests(f"{path.relative_to(here.parent)} {digest_bytes(path.read_bytes())}" for path in files)[:16]


def package_version() -> str:
    """Return factmill's version."""
    try:
        return version("factmill")
    except PackageNotFoundError:
        return "0+uninstalled"
