"""GRANOLA-EQ's parameters and the inputs resolved from them: source, relations, page view window (paper Appendix B)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from factmill.tasks.assets import ASSETS_ROOT, load_entity_questions_relations
from factmill.tasks.core.calls.pageviews import make_last_twelve_full_months_window
from factmill.tasks.core.review import ReviewPolicy, ReviewPolicyAndDecisions
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.engine.benchmark import (
    BuildInputs,
    ResolvedInputs,
    builds_from_wikidata,
    make_sources_absolute,
    split_limit_over_units,
)
from factmill.tasks.engine.naming.identities import wikidata_identity
from factmill.tasks.errors import UsageError
from factmill.tasks.granola.sources.entity_questions import find_relation_files, find_relation_pid_of_file
from factmill.tasks.options import BenchmarkParams, CliOption, RunOptions, split_commas
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.source_files import SourceFile, format_unused_files, list_source_files, pin_source_file

LEVELS_PROMPT, CONSISTENCY_PROMPT = "granola/granular_answers", "granola/description_consistency"
TRIVIAL_LIST = "trivial_answers"
_EMBEDDED_QUESTION_FILES = ASSETS_ROOT / "data" / "world" / "sources" / "entityquestions"


class GranolaParams(BenchmarkParams):
    """Parameters of a GRANOLA-EQ build."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """File or folder with questions (repeatable), or `wikidata` to make questions from facts of the world's Wikidata. Default: the questions that ship with factmill; `wikidata` if the world's Wikidata is not the embedded one."""
    relations: Annotated[tuple[str, ...], BeforeValidator(split_commas), CliOption(metavar="PIDS")] = ()
    """Only these relations (repeatable, or separated by commas). Default: the paper's sixteen."""
    limit: int | None = Field(default=None, ge=1, le=MAX_SETTING_NUMBER)
    """Maximum number of source rows, spread over the relations."""
    policy: Literal["smallest", "linked"] = "linked"
    """Item to choose if several have the same name: `linked`, the item for which Wikidata has the fact, else the one with the smallest number, and drops rows without such a confirmation; `smallest` (as in the paper), always the one with the smallest number."""
    levels: Literal["usual", "all"] = "usual"
    """Places that may be answers: `usual`, all except counties of the United States (unless the given answer is one); `all`."""
    samples: int = Field(default=8, ge=1, le=1000)
    """Number of samples to request from the judge for each description."""
    max_error_score: float = Field(default=0.5, ge=0, le=1)
    """Maximum share of the judge's samples that reject a description; rows above it are dropped."""
    min_levels: int = Field(default=2, ge=1, le=MAX_SETTING_NUMBER)
    """Minimum number of answers per row; rows with fewer are dropped."""
    answer_in_question: Literal["keep", "drop"] = "keep"
    """Keep or drop questions that contain their answer (Who is the author of Euclid's Elements?)."""
    review: ReviewPolicy = "auto"
    """How to treat rows with doubtful items: `auto` holds rows that the Wikidata contradicts for review and drops other doubtful rows; `manual` leaves all of them out until they are reviewed; `ask` pauses the run and asks in the Prefect UI."""


class GranolaInputs(BuildInputs):
    """Resolved inputs of GRANOLA-EQ's stages."""

    resolved: ClassVar = frozenset({"source", "relations", "limit", "review"})
    params: GranolaParams
    reviewing: ReviewPolicyAndDecisions
    from_wikidata: bool
    """True where questions are made from the facts of the world's Wikidata."""
    limits: dict[str, int | None]
    """Relation → maximum rows to read; None: all."""
    views_from: str
    """First day of the page views that popularity sums, YYYYMMDD."""
    views_to: str


def resolve_granola_inputs(params: GranolaParams, run: RunOptions) -> ResolvedInputs[GranolaInputs]:
    """Resolve the build's inputs; UsageError for an unknown relation or a source file that fits no relation."""
    from factmill.tasks.storage.human_judgments import load_review_inputs

    relations = resolve_granola_relations(params.relations)
    world = load_world(run.world, run.graph)
    from_wikidata = builds_from_wikidata(params.source, run, world)
    files: dict[str, list[SourceFile]] = {}
    notes: list[str] = []
    if not from_wikidata:
        paths = [Path(path) for path in params.source] or [_EMBEDDED_QUESTION_FILES]
        found = find_relation_files(paths, relations)
        files, notes = pin_relation_source_files(found), list_unused_file_notes(paths, found, params.relations)
        relations = list(files)
    window = make_last_twelve_full_months_window(world.epoch_day())
    return ResolvedInputs(
        GranolaInputs(
            params=params.model_copy(update={"source": make_sources_absolute(params.source)}),
            reviewing=load_review_inputs("granola", params.review, run),
            from_wikidata=from_wikidata,
            limits=split_limit_over_units(params.limit, relations),
            views_from=window.start_text,
            views_to=window.end_text,
        ),
        files,
        wikidata_identity(world, factmill_home()) if from_wikidata else None,
        notes=notes,
    )


def pin_relation_source_files(files: Mapping[str, Sequence[Path]]) -> dict[str, list[SourceFile]]:
    """Return relation → its files with their digests and names; files with equal names get their folder's name too."""
    alike = Counter(path.name for found in files.values() for path in found)
    return {
        pid: [
            pin_source_file(path, path.name if alike[path.name] == 1 else f"{path.parent.name}/{path.name}")
            for path in found
        ]
        for pid, found in files.items()
    }


def list_unused_file_notes(
    paths: Sequence[Path], used: Mapping[str, Sequence[Path]], requested_relations: Sequence[str]
) -> list[str]:
    """Return notes on files in the source's folders that no relation uses, except files of relations not asked for."""
    known = load_entity_questions_relations() if requested_relations else {}
    left = [file for path in paths for file in list_source_files(path) if find_relation_pid_of_file(file) in known]
    reason = f"because their names do not begin with {' or '.join(requested_relations or used)}"
    return format_unused_files(paths, [*left, *(file for files in used.values() for file in files)], reason)


def resolve_granola_relations(relations: Sequence[str]) -> list[str]:
    """Return the relations to build, by default the paper's 16; UsageError for one without a template."""
    known = load_entity_questions_relations()
    if unknown := [relation for relation in relations if relation not in known]:
        raise UsageError(
            f"--relations: unknown relation {', '.join(unknown)}; expected relations with a template: {', '.join(known)}"
        )
    return list(dict.fromkeys(relations)) or [pid for pid, relation in known.items() if relation.is_default]
