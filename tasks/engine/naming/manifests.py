"""Manifests: every input of a build, by content. Builds with equal manifests and replies have the same bytes."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from textwrap import shorten
from typing import Any

from factmill.tasks.assets import asset_digest, load_prompt
from factmill.tasks.core.digests import digest_json
from factmill.tasks.engine.benchmark import Benchmark, BenchmarkAssets, BuildInputs, ResolvedInputs
from factmill.tasks.engine.naming.code_versions import make_code_manifest
from factmill.tasks.engine.naming.identities import service_identities
from factmill.tasks.options import RunOptions
from factmill.tasks.settings import factmill_home, load_world


def make_build_manifest(benchmark: Benchmark, inputs: ResolvedInputs[BuildInputs], run: RunOptions) -> dict[str, Any]:
    """Return a build's manifest as JSON; SettingsError if the world lacks a service that the benchmark needs."""
    world = load_world(run.world, run.graph)
    world.require_services(*benchmark.required_services(inputs.inputs.params))
    roles = benchmark.model_roles(inputs.inputs.params)
    models = {role: model for role, model in sorted(world.models.items()) if role in roles}
    files = {unit: [[file.name, file.sha256] for file in found] for unit, found in inputs.files.items()}
    scripted = None
    if any(model.kind == "scripted" for model in models.values()):
        from factmill.tasks.world.scripted_replies import digest_scripted_replies

        scripted = {prompt: digest_scripted_replies(prompt) for prompt in benchmark.assets.prompts}
    return {
        "benchmark": benchmark.name,
        "code": make_code_manifest(benchmark.recipe),
        "world": {
            "name": world.name,
            "digest": world.digest_answer_settings(roles),
            "epoch": world.epoch_day().isoformat(),
        },
        "services": service_identities(world, factmill_home()),
        "models": {role: model.name for role, model in models.items()},
        "author": inputs.author or (models["author"].name if "author" in models else ""),
        "scripted": scripted,
        "sources": {"files": files, "wikidata": inputs.wikidata_identity},
        **digest_assets(benchmark.assets),
        "params": inputs.inputs.dump_for_manifest(),
    }


def format_manifest_summary(manifest: Mapping[str, Any]) -> str:
    """Return benchmark, world, source and parameters of a manifest, in three lines of text."""
    world, sources = manifest["world"], manifest["sources"]
    files = [name for found in sources["files"].values() for name, _ in found]
    read = [shorten(", ".join(files), 300, placeholder=" …")] if files else []
    read += [f"facts of {sources['wikidata']}"] if sources["wikidata"] else []
    author = f", author {manifest['author']}" if manifest["author"] else ""
    params = {name: value for name, value in manifest["params"]["params"].items() if value not in (None, [], ())}
    return "\n".join(
        [
            f"building {manifest['benchmark']} in world {world['name']} ({world['digest'][:12]}), epoch {world['epoch']}"
            f"{author}; factmill {get_factmill_version()}, code {digest_json(manifest['code'])[:12]}, "
            f"lock {digest_json(manifest)[:12]}",
            f"source: {'; '.join(read) or 'requested from the services'}",
            f"parameters: {', '.join(f'{name} {value}' for name, value in params.items())}",
        ]
    )


def digest_assets(assets: BenchmarkAssets) -> dict[str, dict[str, str]]:
    """Return kind → name → digest of the project files that a build reads; raises an error if one is missing."""
    return {
        "prompts": {prompt: load_prompt(prompt).digest for prompt in assets.prompts},
        "lists": {name: asset_digest("data/lists", name) for name in assets.lists},
        "queries": {name: asset_digest("sparql", f"{name}.rq") for name in assets.queries},
    }


def make_build_origin(inputs: ResolvedInputs[BuildInputs], run: RunOptions) -> dict[str, Any]:
    """Return where the inputs were found, JSON-serializable; stored with the build, but not part of its manifest."""
    return {
        "version": get_factmill_version(),
        "flow": inputs.inputs.params.model_dump(mode="json"),
        "world": run.resolve_world_path(),
        "graph": run.graph,
        "files": {
            unit: [[str(file.path.resolve()), file.name, file.sha256, file.licence] for file in found]
            for unit, found in inputs.files.items()
        },
    }


def get_factmill_version() -> str:
    """Return factmill's version."""
    try:
        return version("factmill")
    except PackageNotFoundError:
        return "0+uninstalled"
