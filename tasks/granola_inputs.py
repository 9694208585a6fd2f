"""What a build of GRANOLA-EQ depends on: its source, parameters, prompts, lists and queries (paper Appendix B)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tasks.assets import ROOT, load_relations
from tasks.context import WIKIDATA_QUERIES
from tasks.core.fingerprints import digest_bytes
from tasks.errors import UsageError
from tasks.identities import wikidata_identity
from tasks.locks import Inputs
from tasks.options import RunOptions
from tasks.settings import home, load_world
from tasks.sources.entity_questions import find_files

LEVELS_PROMPT = "granola/granular_answers"
CONSISTENCY_PROMPT = "granola/description_consistency"
TRIVIAL_LIST = "trivial_answers"
EMBEDDED_SOURCE = "entityquestions"
"""Name of the embedded world's own rows."""
WIKIDATA_SOURCE = "wikidata"
"""Source name that stands for the facts of the world's Wikidata."""


def lock_inputs(
    source: list[str] | None,
    relations: list[str] | None,
    limit: int | None,
    policy: str,
    samples: int,
    max_error_score: float,
    min_levels: int,
    run: RunOptions,
) -> Inputs:
    """Return what the build depends on; UsageError for an unknown relation or a source that cannot be placed."""
    wanted = check_relations(relations)
    world = load_world(run.world, run.graph)
    views_from, views_to = last_twelve_months(world.epoch_day())
    origin: dict[str, Any] = {
        "world": run.absolute_world(),
        "graph": run.graph,
        "flow": {
            "source": _absolute(source),
            "relations": relations,
            "limit": limit,
            "policy": policy,
            "samples": samples,
            "max_error_score": max_error_score,
            "min_levels": min_levels,
        },
        "files": {},
    }
    if source == [WIKIDATA_SOURCE] or (source is None and (run.graph or not world.is_embedded)):
        kind, sources = WIKIDATA_SOURCE, {WIKIDATA_SOURCE: wikidata_identity(world, home())}
    else:
        paths = [Path(path) for path in source] if source else [ROOT / "data" / "world" / "sources" / EMBEDDED_SOURCE]
        files = name_files(find_files(paths, wanted))
        kind, wanted = EMBEDDED_SOURCE, list(files)
        sources = {name: digest_bytes(path.read_bytes()) for found in files.values() for name, path in found}
        origin["files"] = {pid: [[name, str(path.resolve())] for name, path in found] for pid, found in files.items()}
    return Inputs(
        params={
            "source": kind,
            "relations": wanted,
            "limits": share_limit(limit, wanted),
            "policy": policy,
            "samples": samples,
            "max_error_score": max_error_score,
            "min_levels": min_levels,
            "views_from": views_from,
            "views_to": views_to,
        },
        sources=sources,
        prompts=(LEVELS_PROMPT, CONSISTENCY_PROMPT),
        lists=(f"{TRIVIAL_LIST}.txt", "granola_relations.csv"),
        queries=WIKIDATA_QUERIES,
        origin=origin,
    )


def _absolute(source: list[str] | None) -> list[str] | None:
    """Return the sources as paths that hold from any working directory."""
    if source is None or source == [WIKIDATA_SOURCE]:
        return source
    return [str(Path(path).resolve()) for path in source]


def name_files(files: Mapping[str, Sequence[Path]]) -> dict[str, list[tuple[str, Path]]]:
    """Return relation → (name in the lock, path): the file's own name, with its folder's before it if two are alike."""
    alike = Counter(path.name for found in files.values() for path in found)
    return {
        pid: [(path.name if alike[path.name] == 1 else f"{path.parent.name}/{path.name}", path) for path in found]
        for pid, found in files.items()
    }


def check_relations(relations: list[str] | None) -> list[str]:
    """Return the relations to build, the paper's 16 by default; UsageError for one without a template."""
    known = load_relations()
    if unknown := [relation for relation in relations or () if relation not in known]:
        raise UsageError(f"unknown relation {', '.join(unknown)}; there are templates for {', '.join(known)}")
    return list(dict.fromkeys(relations)) if relations else [pid for pid, relation in known.items() if relation.is_kept]


def last_twelve_months(epoch: date) -> tuple[str, str]:
    """Return the first and last day (YYYYMMDD) of the last 12 full months before the epoch."""
    last = date.fromordinal(epoch.replace(day=1).toordinal() - 1)
    first = epoch.replace(year=epoch.year - 1, day=1)
    return first.strftime("%Y%m%d"), last.strftime("%Y%m%d")


def share_limit(limit: int | None, relations: list[str]) -> dict[str, int]:
    """Return relation → most rows to read, so that `limit` rows are spread over the relations."""
    if limit is None:
        return {}
    share, rest = divmod(limit, len(relations))
    return {relation: share + (index < rest) for index, relation in enumerate(relations)}
