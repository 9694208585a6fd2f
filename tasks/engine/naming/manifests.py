"""Manifests: every input of a build, by content. Builds with equal manifests and replies have the same bytes."""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import shorten
from typing import Any

from factmill.tasks.assets import asset_digest, load_packaged_prompt
from factmill.tasks.core.digests import digest_json, digest_text
from factmill.tasks.engine.benchmark import Benchmark, BenchmarkAssetNames, BuildInputs, BuildInputsAndSourceFiles
from factmill.tasks.engine.naming.code_versions import make_code_manifest
from factmill.tasks.engine.naming.identities import service_identities
from factmill.tasks.errors import SettingsError
from factmill.tasks.options import BenchmarkParams, RunOptions, resolve_warehouse_path
from factmill.tasks.own_prompts import OwnPrompt, load_own_prompts
from factmill.tasks.settings import World, factmill_home, load_world
from factmill.tasks.storage.builds import resolve_build


def make_build_manifest(
    benchmark: Benchmark, inputs: BuildInputsAndSourceFiles[BuildInputs], run: RunOptions
) -> dict[str, Any]:
    """Return a build's manifest as JSON; SettingsError if the world lacks a service that the benchmark needs."""
    world = load_world(run.world, run.graph)
    required = benchmark.required_services(inputs.inputs.params)
    world.require_services(*required)
    if problem := find_problem_of_using_wikipedia_file(world, benchmark, inputs.inputs.params):
        raise SettingsError(f"{problem}; name a wiki by its url in [wikipedia] of the world {world.name}")
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
        **digest_assets(benchmark.assets, resolve_own_prompt_texts(benchmark.assets, run)),
        "params": inputs.inputs.dump_for_manifest(),
    }


def find_problem_of_using_wikipedia_file(world: World, benchmark: Benchmark, params: BenchmarkParams) -> str:
    """Return why a benchmark cannot use the file that is a world's Wikipedia; empty if it can, or needs none."""
    is_needed = "wikipedia" in benchmark.required_services(params) and world.is_local("wikipedia")
    if not is_needed or benchmark.reads_wikipedia_files:
        return ""
    return f"{benchmark.name} asks for items of articles, which the world's Wikipedia, a ZIM file, does not hold"


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


def resolve_own_prompt_texts(assets: BenchmarkAssetNames, run: RunOptions) -> dict[str, str]:
    """Return id → text of the user's own prompts, for those of a benchmark's prompts whose text is not the packaged one.

    They come from the folder of the options, else of the world's file; for the replay of a build, from the texts recorded
    with it, so that the folder may have changed or gone. SettingsError or PromptError for a wrong folder (own_prompts.py).
    """
    if run.pinned_build is not None:
        recorded: dict[str, str] = resolve_build(resolve_warehouse_path(run), run.pinned_build).own_prompts
        return recorded
    return {name: own.text for name, own in _load_own_prompts_replacing_packaged(assets, run).items()}


def _load_own_prompts_replacing_packaged(assets: BenchmarkAssetNames, run: RunOptions) -> dict[str, OwnPrompt]:
    folder = run.prompts or load_world(run.world, run.graph).prompts
    found = load_own_prompts(Path(folder)) if folder else {}
    return {name: own for name, own in found.items() if name in assets.prompts and not own.is_packaged_text}


def digest_assets(assets: BenchmarkAssetNames, own_prompts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return kind → name → digest of the files that a build reads; raises an error if one is missing.

    `own_prompts`: id → text of the prompts that replace packaged ones.
    """
    own = {name: digest_text(text) for name, text in own_prompts.items()}
    return {
        "prompts": {name: own.get(name) or load_packaged_prompt(name).digest for name in assets.prompts},
        "lists": {name: asset_digest("data/lists", name) for name in assets.lists},
        "queries": {name: asset_digest("sparql", f"{name}.rq") for name in assets.queries},
    }


def make_build_input_origins(
    benchmark: Benchmark, inputs: BuildInputsAndSourceFiles[BuildInputs], run: RunOptions
) -> dict[str, Any]:
    """Return where the inputs were found, JSON-serializable; stored with the build, but not part of its manifest.

    It has the texts of own prompts, of which the manifest has the digests.
    """
    own_prompts = resolve_own_prompt_texts(benchmark.assets, run)
    files = {} if run.pinned_build is not None else _load_own_prompts_replacing_packaged(benchmark.assets, run)
    return {
        "version": get_factmill_version(),
        "flow": inputs.inputs.params.model_dump(mode="json"),
        "world": run.resolve_world_path(),
        "graph": run.graph,
        **({"prompts": own_prompts} if own_prompts else {}),
        **({"prompt_files": {name: str(own.path) for name, own in files.items()}} if files else {}),
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
