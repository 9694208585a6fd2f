"""What a build of MultiHal depends on: its foundations, parameters, models, prompts, lists and queries (paper §2)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tasks.assets import ROOT
from tasks.context import WIKIDATA_QUERIES
from tasks.core.fingerprints import digest_bytes
from tasks.core.linking import Linker
from tasks.core.multihal_rows import TAGS
from tasks.errors import UsageError
from tasks.identities import check_graph_languages, embedder_identity, has_translator, translator_identity
from tasks.locks import Inputs
from tasks.options import RunOptions
from tasks.progress import say
from tasks.settings import home, load_world
from tasks.sources.foundations import FOUNDATIONS, check_foundations, find_foundation_files

PROMPTS = ("multihal/select_paths", "multihal/score_path")
LISTS = (
    "refusals.txt",
    "function_words.txt",
    "units.csv",
    "time_properties.txt",
    "number_properties.txt",
    "rank_properties.txt",
    "ignored_properties.txt",
)
PATH_QUERIES = tuple(
    f"multihal/{operation}_{hops}" for operation in ("item_paths", "date_paths", "number_paths") for hops in (1, 2)
)
LANGUAGES = tuple(TAGS)
"""English and the five languages of the paper (§2.4)."""
SAME_ABOVE = 0.99
"""Cosine above which two questions are one (§2.1)."""
_EMBEDDED = ROOT / "data" / "world" / "sources"
_OWN_LICENCE = "Apache-2.0"


def lock_inputs(
    source: list[str] | None,
    foundations: list[str] | None,
    limit: int | None,
    linker: Linker,
    all_hops: bool,
    most_paths: int,
    min_score: int,
    languages: list[str] | None,
    label_source: str,
    run: RunOptions,
) -> Inputs:
    """Return the inputs of a build; UsageError and SourceError say what was expected."""
    paths = [Path(path) for path in source] if source else [_EMBEDDED / name for name in FOUNDATIONS]
    found = find_foundation_files(paths, check_foundations(foundations) if foundations else None)
    for sentence in found.left_out:
        say(sentence)
    named = _name_files(found.files)
    world = load_world(run.world, run.graph)
    wanted = check_languages(languages if languages or has_translator(world) else ["eng"])
    if label_source == "wikidata":
        check_graph_languages(world, home(), [TAGS[language] for language in wanted])
    if len(wanted) == 1 and not languages:
        say(f"the world {world.name} names no translator: rows in English alone")
    return Inputs(
        params={
            "foundations": list(named),
            "limits": {} if limit is None else dict.fromkeys(named, limit),
            "linker": linker,
            "all_hops": all_hops,
            "most_paths": most_paths,
            "min_score": min_score,
            "languages": wanted,
            "label_source": label_source,
            "same_above": SAME_ABOVE,
            "embedder": embedder_identity(world, home()),
            "translator": translator_identity(world, home()) if len(wanted) > 1 else None,
        },
        sources={name: digest_bytes(path.read_bytes()) for files in named.values() for name, path in files},
        prompts=PROMPTS,
        lists=LISTS,
        queries=(*WIKIDATA_QUERIES, *PATH_QUERIES, "dbpedia/same_as"),
        origin={
            "flow": {
                "source": None if source is None else [str(Path(path).resolve()) for path in source],
                "foundations": foundations,
                "limit": limit,
                "linker": linker,
                "all_hops": all_hops,
                "most_paths": most_paths,
                "min_score": min_score,
                "languages": languages,
                "label_source": label_source,
            },
            "world": run.absolute_world(),
            "graph": run.graph,
            "files": {
                foundation: [[name, str(path.resolve()), "" if source else _OWN_LICENCE] for name, path in files]
                for foundation, files in named.items()
            },
        },
    )


def check_languages(languages: Sequence[str] | None) -> list[str]:
    """Return the languages to publish in, English first; UsageError for one that is not among the paper's six."""
    if unknown := [language for language in languages or () if language not in LANGUAGES]:
        raise UsageError(f"unknown language {', '.join(unknown)}; there are {', '.join(LANGUAGES)}")
    return [language for language in LANGUAGES if not languages or language in languages or language == "eng"]


def _name_files(files: dict[str, list[Path]]) -> dict[str, list[tuple[str, Path]]]:
    """Return foundation → (name in the lock, path)."""
    alike = Counter(path.name for found in files.values() for path in found)
    return {
        foundation: [(path.name if alike[path.name] == 1 else f"{foundation}/{path.name}", path) for path in found]
        for foundation, found in files.items()
    }
