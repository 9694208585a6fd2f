"""MultiHal's build options and the inputs they resolve to: foundations, languages and models (paper §2)."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from factmill.tasks.assets import ROOT
from factmill.tasks.core.rows import MOST
from factmill.tasks.engine.benchmark import Inputs, Locked, find_absolute
from factmill.tasks.engine.naming.identities import (
    check_graph_languages,
    embedder_identity,
    has_translator,
    translator_identity,
)
from factmill.tasks.multihal.core.linking import Linker
from factmill.tasks.multihal.core.path_choice import LOWEST_KEPT
from factmill.tasks.multihal.core.rows import TAGS
from factmill.tasks.multihal.core.uniting import Union
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS, FoundationName, find_foundation_files
from factmill.tasks.options import Option, Params, RunOptions
from factmill.tasks.progress import say
from factmill.tasks.settings import home, load_world
from factmill.tasks.storage.source_files import lock_source

_EMBEDDED = ROOT / "data" / "world" / "sources"


class MultiHalParams(Params):
    """Options of a MultiHal build."""

    source: Annotated[tuple[str, ...], Option(metavar="PATH")] = ()
    """File or folder with foundations' files (repeatable). Default: our own."""
    foundations: Annotated[tuple[FoundationName, ...], Option("--foundation")] = ()
    """Only this foundation, a benchmark that questions are taken from (repeatable). Default: all."""
    limit: int | None = Field(default=None, ge=1, le=MOST)
    """At most so many rows of each foundation."""
    union: Union = "ours"
    """Which near questions are one: those with the same numbers, codes, names and passages, or all, as in the paper."""
    linker: Linker = "labels"
    """How names are linked: by the local graph's labels, or Falcon 2.0."""
    all_hops: bool = False
    """Two hops even where one finds a path."""
    most_paths: int = Field(default=100, ge=1, le=MOST)
    """Paths kept of one subject-object pair."""
    keep_ends_alike: bool = False
    """Keep paths whose two ends have the same label (Devdas; based on; Devdas)."""
    min_score: int = Field(default=LOWEST_KEPT, ge=1, le=5)
    """Lowest score that is published."""
    languages: Annotated[tuple[Literal["eng", "deu", "fra", "ita", "spa", "por"], ...], Option("--language")] = ()
    """Only this beside English (repeatable). Default: all where the world names a translator. Portuguese is Brazil's."""
    label_source: Literal["translated", "wikidata"] = "translated"
    """Path labels in other languages: all translated, or Wikidata's own where there is one (Portuguese of either norm)."""


class MultiHalInputs(Inputs):
    """Resolved inputs of MultiHal's stages."""

    resolved: ClassVar = frozenset({"source", "foundations", "languages"})
    params: MultiHalParams
    languages: tuple[str, ...]
    """English first."""
    embedder: dict[str, str]
    """Name and digest of the sentence encoder."""
    translator: str | None
    """Identity of the translator; None for a build in English only."""


def lock_inputs(params: MultiHalParams, run: RunOptions) -> Locked[MultiHalInputs]:
    """Resolve options into a build's inputs and source files; UsageError and SourceError state what was expected."""
    paths = [Path(path) for path in params.source] or [_EMBEDDED / name for name in FOUNDATIONS]
    found = find_foundation_files(paths, params.foundations or None)
    world = load_world(run.world, run.graph)
    languages = choose_languages(params.languages or (TAGS if has_translator(world) else ()))
    if params.label_source == "wikidata":
        check_graph_languages(world, home(), [TAGS[language] for language in languages])
    if len(languages) == 1 and not params.languages:
        say(f"the world {world.name} names no translator: rows in English alone")
    return Locked(
        MultiHalInputs(
            params=params.model_copy(update={"source": find_absolute(params.source)}),
            languages=languages,
            embedder=embedder_identity(world, home()),
            translator=translator_identity(world, home()) if len(languages) > 1 else None,
        ),
        {foundation: [lock_source(path) for path in files] for foundation, files in found.files.items()},
        notes=found.left_out,
    )


def choose_languages(wanted: Collection[str]) -> tuple[str, ...]:
    """Return the languages to publish, in the paper's order (§2.4); English always comes first."""
    return tuple(language for language in TAGS if language in wanted or language == "eng")
