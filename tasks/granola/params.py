"""GRANOLA-EQ's parameters and the inputs resolved from them: source, relations, page view window (paper Appendix B)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from factmill.tasks.assets import ASSETS_ROOT, load_entity_questions_relations
from factmill.tasks.core.calls.pageviews import make_last_twelve_full_months_window
from factmill.tasks.core.question_relations import QuestionRelation
from factmill.tasks.core.review import ReviewPolicy, ReviewPolicyAndDecisions
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.engine.benchmark import (
    BuildInputs,
    BuildInputsAndSourceFiles,
    builds_from_wikidata,
    make_sources_absolute,
    split_limit_over_units,
)
from factmill.tasks.engine.naming.identities import wikidata_identity
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.granola.sources.entity_questions import find_relation_files, find_relation_pid_of_file
from factmill.tasks.granola.sources.user_questions import (
    QUESTION_FORM,
    are_other_than_entityquestions_files,
    find_relation,
    format_unknown_relation,
)
from factmill.tasks.granola.sources.user_relations import (
    RELATION_FILE,
    load_packaged_and_user_relations,
    read_user_relations,
)
from factmill.tasks.options import CliOption, RunOptions, UserSourceParams, split_each_text_at_commas
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.source_files import (
    SourceFile,
    format_unused_files_note,
    list_source_files,
    make_source_file_with_digest,
)
from factmill.tasks.storage.user_tables import (
    USER_TABLE_UNIT,
    CheckedUserTables,
    apply_stated_name_and_licence,
    check_and_digest_user_tables,
    make_user_source,
)

LEVELS_PROMPT, CONSISTENCY_PROMPT = "granola/granular_answers", "granola/description_consistency"
TRIVIAL_LIST = "trivial_answers"
_EMBEDDED_QUESTION_FILES = ASSETS_ROOT / "data" / "world" / "sources" / "entityquestions"


class GranolaParams(UserSourceParams):
    """Parameters of a GRANOLA-EQ build."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """File or folder to read (repeatable): EntityQuestions' files, or your own table with the columns question, answers and relation. Or `wikidata`: make questions from the facts in the Wikidata of --world or --graph. Default: the questions that ship with factmill if the world is embedded and --graph is not given; otherwise `wikidata`."""
    relations: Annotated[tuple[str, ...], BeforeValidator(split_each_text_at_commas), CliOption(metavar="PIDS")] = ()
    """Only these relations (repeatable, or separated by commas). Default: the paper's sixteen relations, or all relations in your own table."""
    relation_file: Annotated[str | None, CliOption(metavar="FILE")] = None
    """Table of your own relations, with the columns pid, template (a question with [X] for the subject) and label."""
    limit: int | None = Field(default=None, ge=1, le=MAX_SETTING_NUMBER)
    """Maximum number of source rows in total, taken equally from all relations."""
    policy: Literal["smallest", "linked"] = "linked"
    """Item to choose if several have the same name. `linked`: the item for which Wikidata states the fact that the question asks for. If there is none, factmill takes the item with the smallest Q number, and the row may be doubtful (see --review). `smallest`: always the item with the smallest Q number, as in the paper."""
    levels: Literal["usual", "all"] = "usual"
    """Kinds of geographic places that may be answers. `usual`: all but counties of the United States; a county stays if it is the source's answer. `all`: all places."""
    samples: int = Field(default=8, ge=1, le=1000)
    """How many times the judge model is asked whether the description of an item is correct."""
    max_error_score: float = Field(default=0.5, ge=0, le=1)
    """Drop a row if more than this share of the judge model's replies (see --samples) reject the description of the row's item."""
    min_levels: int = Field(default=2, ge=1, le=MAX_SETTING_NUMBER)
    """Minimum number of answers per row; rows with fewer are dropped."""
    answer_in_question: Literal["keep", "drop"] = "keep"
    """Keep or drop questions that contain their own answer, such as "Who is the author of Euclid's Elements?"."""
    review: ReviewPolicy = "auto"
    """What to do with doubtful rows. A row is doubtful if Wikidata does not state its fact, so that its items may be the wrong ones. `auto`: if Wikidata states another value, the row waits until people have reviewed it; other doubtful rows are dropped. `manual`: all doubtful rows wait for review. `ask` pauses the run and asks in the Prefect UI."""


class GranolaInputs(BuildInputs):
    """Resolved inputs of GRANOLA-EQ's stages."""

    resolved: ClassVar = frozenset({"source", "relations", "relation_file", "limit", "review"})
    params: GranolaParams
    reviewing: ReviewPolicyAndDecisions
    from_wikidata: bool
    """True where questions are made from the facts of the world's Wikidata."""
    limits: dict[str, int | None]
    """Relation → maximum rows to read; None: all."""
    views_from: str
    """First day of the page views that popularity sums, YYYYMMDD."""
    views_to: str


def resolve_granola_inputs(params: GranolaParams, run: RunOptions) -> BuildInputsAndSourceFiles[GranolaInputs]:
    """Resolve the build's inputs; UsageError for an unknown relation, SourceError for a file that cannot be read."""
    from factmill.tasks.storage.human_judgments import load_review_inputs

    user_relations = [make_source_file_with_digest(Path(params.relation_file))] if params.relation_file else []
    known = load_packaged_and_user_relations(user_relations)
    world = load_world(run.world, run.graph)
    from_wikidata = builds_from_wikidata(params.source, run, world)
    paths = [Path(path) for path in params.source]
    files: dict[str, list[SourceFile]] = {}
    notes: Sequence[str] = []
    source_rows: int | None = None
    own = make_user_source(params, bool(paths) and not from_wikidata)
    if (
        paths
        and not from_wikidata
        and (params.map or params.source_split or are_other_than_entityquestions_files(paths, params.relations))
    ):
        relations, tables = choose_relations_and_check_user_tables(params, known)
        files, own, notes = {USER_TABLE_UNIT: tables.files}, tables.own, tables.notes
        source_rows = tables.row_count
    else:
        relations = resolve_granola_relations(params.relations, known, user_relations, from_wikidata)
        if not from_wikidata:
            paths = paths or [_EMBEDDED_QUESTION_FILES]
            found = find_relation_files(paths, relations)
            files = pin_relation_source_files(found, own)
            notes, relations = list_unused_file_notes(paths, found, params.relations), list(found)
    window = make_last_twelve_full_months_window(world.epoch_day())
    absolute = {
        "source": make_sources_absolute(params.source),
        "relation_file": params.relation_file and str(resolve_absolute_path(params.relation_file)),
    }
    return BuildInputsAndSourceFiles(
        GranolaInputs(
            params=params.model_copy(update=absolute),
            own_source=own if own != UserSourceSettings() else None,
            reviewing=load_review_inputs("granola", params.review, run),
            from_wikidata=from_wikidata,
            limits=split_limit_over_units(params.limit, relations),
            views_from=window.start_text,
            views_to=window.end_text,
        ),
        files | ({RELATION_FILE: user_relations} if user_relations else {}),
        wikidata_identity(world, factmill_home()) if from_wikidata else None,
        notes=notes,
        source_rows=source_rows,
    )


def choose_relations_and_check_user_tables(
    params: GranolaParams, known: Mapping[str, QuestionRelation]
) -> tuple[list[str], CheckedUserTables]:
    """Return the relations to read, and the own tables; UsageError for an unknown relation, SourceError for tables without any."""
    requested = check_and_deduplicate_relations(params.relations, known)
    defaults = {"relation": requested[0]} if len(requested) == 1 else {}
    tables = check_and_digest_user_tables(params, QUESTION_FORM, count_field="relation", defaults=defaults)
    stated = {each or "" for each in tables.counts}
    if None in tables.counts:
        stated |= set(filter(None, (find_relation_pid_of_file(Path(file.name)) for file in tables.files)))
    found = {pid for each in stated if (pid := find_relation(each, known))}
    relations = [pid for pid in known if pid in found and (not requested or pid in requested)]
    if not relations:
        problem = (
            f"no row is of {', '.join(requested)}; the rows are of {', '.join(sorted(found))}"
            if found
            else format_unknown_relation(min(stated), known)
        )
        raise SourceError(f"{', '.join(params.source)}: {problem}")
    return relations, tables


def pin_relation_source_files(
    files: Mapping[str, Sequence[Path]], own: UserSourceSettings
) -> dict[str, list[SourceFile]]:
    """Return relation → its files with their digests and names; files with equal names get their folder's name too."""
    alike = Counter(path.name for found in files.values() for path in found)

    def pin(path: Path) -> SourceFile:
        name = path.name if alike[path.name] == 1 else f"{path.parent.name}/{path.name}"
        return apply_stated_name_and_licence(make_source_file_with_digest(path, name), own)

    return {pid: list(map(pin, found)) for pid, found in files.items()}


def list_unused_file_notes(
    paths: Sequence[Path], used: Mapping[str, Sequence[Path]], requested_relations: Sequence[str]
) -> list[str]:
    """Return notes on files in the source's folders that no relation uses, except files of relations not asked for."""
    known = load_entity_questions_relations() if requested_relations else {}
    left = [file for path in paths for file in list_source_files(path) if find_relation_pid_of_file(file) in known]
    reason = f"because their names do not begin with {' or '.join(requested_relations or used)}"
    return format_unused_files_note(paths, [*left, *(file for files in used.values() for file in files)], reason)


def resolve_granola_relations(
    relations: Sequence[str],
    known: Mapping[str, QuestionRelation],
    user_relations: Sequence[SourceFile] = (),
    from_wikidata: bool = False,
) -> list[str]:
    """Return the relations to build; UsageError for one without a template.

    The default is the paper's sixteen and those of the user's file; for questions made from facts, the latter alone.
    """
    if requested := check_and_deduplicate_relations(relations, known):
        return requested
    own = {pid for file in user_relations for pid in read_user_relations(file)}
    return [pid for pid, each in known.items() if (pid in own if own and from_wikidata else each.is_default)]


def check_and_deduplicate_relations(relations: Sequence[str], known: Mapping[str, QuestionRelation]) -> list[str]:
    """Return each of some relations once; UsageError for one without a template."""
    if unknown := [relation for relation in relations if relation not in known]:
        raise UsageError(
            f"--relations: unknown relation {', '.join(unknown)}; expected relations with a template: {', '.join(known)}; "
            "--relation-file FILE adds your own"
        )
    return list(dict.fromkeys(relations))
