"""The earlier build that a forecast extrapolates from: which one fits a build best, and for how many source rows."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from factmill.tasks.engine.benchmark import Benchmark, BuildInputs, BuildInputsAndSourceFiles
from factmill.tasks.storage.builds import BuildRecord

_SOURCE_INPUTS = frozenset({"build", "release", "answers", "source_digest", "own_source"})
"""Parameters and inputs that say what is read, besides the benchmark's `narrowing_params`."""
_LIMIT_INPUTS = frozenset({"limit", "limits"})
"""Inputs that follow from --limit."""
_MAX_NAMED_CHARACTERS = 200


def choose_basis_build(
    benchmark: Benchmark, builds: Sequence[BuildRecord], manifest: Mapping[str, Any]
) -> BuildRecord | None:
    """Return the newest build of the benchmark with this manifest's world, models, prompts and parameters, of the same
    source files if any has these.

    Without one, the newest with its world, models and prompts; without that, the newest; None if there is no build.
    `builds`: oldest first.
    """
    own = [build for build in reversed(builds) if build.benchmark == benchmark.name]
    same_services = [build for build in own if not _list_world_model_prompt_differences(build.lock, manifest)]
    same_parameters = [
        each for each in same_services if not _list_parameter_differences(benchmark, each.lock, manifest)
    ]
    same_files = [each for each in same_parameters if each.lock["sources"] == manifest["sources"]]
    return next(iter([*same_files, *same_parameters, *same_services, *own]), None)


def format_basis_difference_warning(benchmark: Benchmark, basis: BuildRecord, manifest: Mapping[str, Any]) -> list[str]:
    """Return a warning that names what differs between a forecast's basis and the build, the source aside; else nothing."""
    different = [
        *_list_world_model_prompt_differences(basis.lock, manifest),
        *_list_parameter_differences(benchmark, basis.lock, manifest),
    ]
    if not different:
        return []
    named = "; ".join(different)
    return [
        f"warning: {basis.build_id} had other inputs, so requests and tokens per row may differ: {named}. Make a small build with "
        "these options first (--limit, or a short --source), or add --pilot N"
    ]


def count_forecast_source_rows(
    benchmark: Benchmark,
    basis: BuildRecord,
    builds: Sequence[BuildRecord],
    inputs: BuildInputsAndSourceFiles[BuildInputs],
    manifest: Mapping[str, Any],
) -> tuple[int, list[str]]:
    """Return the number of source rows that a build will read, and a warning if it is only that of another source.

    It is counted in the user's own tables; of another source it is known from a build that has read it. `builds`: oldest first.
    """
    limit = getattr(inputs.inputs.params, "limit", None)
    if inputs.source_rows is not None:
        return (inputs.source_rows if limit is None else min(limit, inputs.source_rows)), []
    wanted = _select_sources_and_narrowing_inputs(benchmark, manifest)
    own = [build for build in (basis, *reversed(builds)) if build.benchmark == benchmark.name]
    for build in own:
        if _select_sources_and_narrowing_inputs(benchmark, build.lock) == wanted:
            return count_source_rows_of_build(build), []
    if limit is not None:
        wanted = _select_sources_and_narrowing_inputs(benchmark, manifest, _LIMIT_INPUTS)
        for build in own:
            is_same_source = _select_sources_and_narrowing_inputs(benchmark, build.lock, _LIMIT_INPUTS) == wanted
            if is_same_source and limit <= count_source_rows_of_build(build):
                return limit, []
    rows = count_source_rows_of_build(basis)
    return rows, [
        f"warning: {basis.build_id} read another source, or another part of it, and no build has read this one: its {rows:,} source "
        "rows are assumed. State the number with --rows N, or add --pilot N"
    ]


def count_source_rows_of_build(build: BuildRecord) -> int:
    """Return the number of source rows that a build read."""
    rows: int = build.report["stages"][0]["rows_in"]
    return rows


def _list_world_model_prompt_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two manifests in world, models and prompts, as text."""
    found = []
    world_before, world_now = ({**each["world"], "epoch": ""} for each in (before, now))
    if world_before != world_now:
        names = (world_before["name"], world_now["name"])
        found.append(f"the world {names[0]}, now {names[1]}" if names[0] != names[1] else f"settings of {names[0]}")
    for kind in ("models", "prompts"):
        different = sorted(
            name
            for name in {*before.get(kind, {}), *now.get(kind, {})}
            if before.get(kind, {}).get(name) != now.get(kind, {}).get(name)
        )
        found += [f"{kind} {', '.join(different)[:_MAX_NAMED_CHARACTERS]}"] if different else []
    if before.get("author") != now.get("author"):
        found.append(f"the model {before.get('author') or 'none'}, now {now.get('author') or 'none'}")
    return found


def _list_parameter_differences(benchmark: Benchmark, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the parameters that differ between two manifests and do not say what is read, as text."""
    left_out = _SOURCE_INPUTS | benchmark.narrowing_params
    params_before, params_now = (each["params"]["params"] for each in (before, now))
    return [
        f"{name} {params_before.get(name)}, now {params_now.get(name)}"[:_MAX_NAMED_CHARACTERS]
        for name in sorted({*params_before, *params_now} - left_out)
        if params_before.get(name) != params_now.get(name)
    ]


def _select_sources_and_narrowing_inputs(
    benchmark: Benchmark, manifest: Mapping[str, Any], left_out: AbstractSet[str] = frozenset()
) -> list[Any]:
    """Return what a manifest says about the source: its files, and the inputs that choose the part to read.

    `left_out`: such inputs that do not matter.
    """
    names = sorted((_SOURCE_INPUTS | benchmark.narrowing_params) - left_out)
    inputs = manifest["params"]
    return [manifest["sources"], *(inputs.get(name, inputs["params"].get(name)) for name in names)]
