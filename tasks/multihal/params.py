"""MultiHal's build options and the inputs they resolve to: foundations, languages and models (paper §2)."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.engine.benchmark import BuildInputs, BuildInputsAndSourceFiles, make_sources_absolute
from factmill.tasks.engine.naming.identities import (
    check_graph_languages,
    embedder_name_and_digest,
    translator_identity,
)
from factmill.tasks.errors import UsageError
from factmill.tasks.multihal.core.linking import LinkerName
from factmill.tasks.multihal.core.path_selection import DEFAULT_MIN_SCORE
from factmill.tasks.multihal.core.preprocessing import DuplicateRule
from factmill.tasks.multihal.core.rows import LANGUAGE_TAGS
from factmill.tasks.multihal.sources.foundations import (
    FOUNDATIONS,
    FoundationName,
    find_foundation_files,
    holds_foundations,
)
from factmill.tasks.multihal.sources.user_questions import pin_user_questions
from factmill.tasks.options import CliOption, RunOptions, UserSourceParams, split_each_text_at_commas
from factmill.tasks.progress import print_and_log
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.source_files import SourceFile, make_source_file_with_digest
from factmill.tasks.storage.user_tables import USER_TABLE_UNIT, apply_stated_name_and_licence, make_user_source

_EMBEDDED_FOUNDATIONS = ASSETS_ROOT / "data" / "world" / "sources"


class MultiHalParams(UserSourceParams):
    """Options of a MultiHal build."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """File or folder to read (repeatable): files of the foundations (see --foundations), or your own table with the columns question and answer. Default: the files that ship with factmill."""
    foundations: Annotated[tuple[FoundationName, ...], BeforeValidator(split_each_text_at_commas)] = ()
    """Only these foundations, the benchmarks that supply the questions (repeatable, or separated by commas). Default: all."""
    limit: int | None = Field(default=None, ge=1, le=MAX_SETTING_NUMBER)
    """Maximum number of rows per foundation."""
    union: DuplicateRule = "ours"
    """Which similar questions to merge. ours: those with the same numbers, codes, names and passages. paper: all."""
    linker: LinkerName = "labels"
    """How to link names to items. labels: by the labels in the local graph. falcon: by the service Falcon 2.0."""
    all_hops: bool = False
    """Search paths of two hops even if one hop finds a path."""
    most_paths: int = Field(default=100, ge=1, le=MAX_SETTING_NUMBER)
    """Maximum number of paths between one subject and one object."""
    keep_ends_alike: bool = False
    """Keep paths whose two ends have the same label, such as "Devdas; based on; Devdas". Default: drop them."""
    min_score: int = Field(default=DEFAULT_MIN_SCORE, ge=1, le=5)
    """Minimum score that the judge must give a path. Paths with a lower score are dropped."""
    languages: Annotated[
        tuple[Literal["eng", "deu", "fra", "ita", "spa", "por"], ...], BeforeValidator(split_each_text_at_commas)
    ] = ()
    """Only these languages and English (repeatable, or separated by commas). por is Brazilian Portuguese. Default: all if the world has a translator, else only English."""
    label_source: Literal["translated", "wikidata"] = "translated"
    """Source of path labels in other languages. translated: the translator. wikidata: the Wikidata label if there is one, else the translator. For Portuguese, a Brazilian label is preferred to a European one."""


class MultiHalInputs(BuildInputs):
    """Resolved inputs of MultiHal's stages."""

    resolved: ClassVar = frozenset({"source", "foundations", "languages"})
    params: MultiHalParams
    languages: tuple[str, ...]
    """English first."""
    embedder: dict[str, str]
    """Name and digest of the sentence encoder."""
    translator: str | None
    """Identity of the translator; None for a build in English only."""


def resolve_multihal_inputs(params: MultiHalParams, run: RunOptions) -> BuildInputsAndSourceFiles[MultiHalInputs]:
    """Resolve options into a build's inputs and source files; UsageError and SourceError state what was expected."""
    own = make_user_source(params, bool(params.source))
    paths = [Path(path) for path in params.source] or [_EMBEDDED_FOUNDATIONS / name for name in FOUNDATIONS]
    files: dict[str, list[SourceFile]]
    source_rows: int | None = None
    if params.map or params.source_split or not (params.foundations or holds_foundations(paths)):
        if params.foundations:
            raise UsageError("--map and --source-split are for tables of your own; leave out --foundation")
        tables = pin_user_questions(params)
        files, own, notes = {USER_TABLE_UNIT: tables.files}, tables.own, tables.notes
        source_rows = tables.row_count
    else:
        found = find_foundation_files(paths, params.foundations or None)
        notes = found.left_out
        files = {
            foundation: [apply_stated_name_and_licence(make_source_file_with_digest(path), own) for path in each]
            for foundation, each in found.files.items()
        }
    world = load_world(run.world, run.graph)
    wanted = params.languages or (LANGUAGE_TAGS if "translator" in world.models else ())
    # the paper's order (§2.4); English always comes first
    languages = tuple(language for language in LANGUAGE_TAGS if language in wanted or language == "eng")
    if params.label_source == "wikidata":
        check_graph_languages(world, factmill_home(), [LANGUAGE_TAGS[language] for language in languages])
    if len(languages) == 1 and not params.languages:
        print_and_log(f"the world {world.name} has no translator: the build has only rows in English")
    return BuildInputsAndSourceFiles(
        MultiHalInputs(
            params=params.model_copy(update={"source": make_sources_absolute(params.source)}),
            own_source=own if own != UserSourceSettings() else None,
            languages=languages,
            embedder=embedder_name_and_digest(world, factmill_home()),
            translator=translator_identity(world, factmill_home()) if len(languages) > 1 else None,
        ),
        files,
        notes=notes,
        source_rows=source_rows,
    )
