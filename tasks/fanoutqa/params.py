"""FanOutQA's parameters, and the inputs resolved from them: questions, epoch, models, review decisions (paper §3.1)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.epochs import FANOUTQA_SNAPSHOT, normalise_epoch_to_utc
from factmill.tasks.core.review import ReviewPolicy, ReviewPolicyAndDecisions
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.engine.benchmark import (
    WIKIDATA_SOURCE,
    BuildInputs,
    BuildInputsAndSourceFiles,
    make_sources_absolute,
)
from factmill.tasks.engine.naming.identities import embedder_name_and_digest, wikidata_identity
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.fanoutqa.core.questions import MIN_ARTICLES
from factmill.tasks.fanoutqa.core.sets.set_kinds import get_property_phrases
from factmill.tasks.fanoutqa.sources.question_files import (
    PROPERTY_FILE,
    QUESTION_TABLE_FORM,
    SET_FILE,
    check_has_decomposition_or_evidence,
    load_packaged_and_user_property_phrases,
    load_packaged_and_user_set_kinds,
    load_set_kinds,
    read_user_set_kinds_by_unit,
)
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import CliOption, RunOptions, UserSourceParams
from factmill.tasks.settings import World, factmill_home, load_world
from factmill.tasks.storage.source_files import SourceFile, list_source_files, make_source_file_with_digest
from factmill.tasks.storage.user_tables import (
    apply_stated_name_and_licence,
    check_and_digest_user_tables,
    make_user_source,
)
from factmill.tasks.text.sanitize import format_did_you_mean

QUESTION_FILES, TITLE_FILE = "files", "titles"
"""Names of the manifest's file groups: question files (also a unit, next to the kinds of sets), and the title list."""
_EMBEDDED_QUESTIONS = ASSETS_ROOT / "data" / "world" / "sources" / "fanoutqa"
_NO_TITLES_NOTE = "no --titles: the retrieval check searches only the articles of these questions"


def _parse_epoch_option_as_utc(given: str) -> str:
    try:
        return normalise_epoch_to_utc(given)
    except UsageError as error:
        raise ValueError(str(error)) from error


class FanOutParams(UserSourceParams):
    """Options of a FanOutQA build."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """File or folder of questions (repeatable): in FanOutQA's authored or released form, or in your own table. Or `wikidata`: make questions from the facts in the Wikidata of --world or --graph. Default: the questions that ship with factmill, and `wikidata`."""
    sets: Annotated[tuple[str, ...], CliOption(metavar="KIND")] = ()
    """Kinds of sets, such as P47 (the countries that share a border with a country), to make questions from (repeatable). Default: all kinds, or those of --set-file."""
    set_file: Annotated[str | None, CliOption(metavar="FILE")] = None
    """CSV file of your own kinds of sets. It has the columns of data/lists/fanout_sets.csv."""
    property_file: Annotated[str | None, CliOption(metavar="FILE")] = None
    """CSV file with the wording of further properties in questions. It has the columns of data/lists/fanout_properties.csv."""
    sets_a_kind: int = Field(default=12, ge=1, le=MAX_SETTING_NUMBER)
    """Maximum number of sets of each kind."""
    epoch: Annotated[str, AfterValidator(_parse_epoch_option_as_utc), CliOption(metavar="DATE")] = FANOUTQA_SNAPSHOT[
        :10
    ]
    """Date of the article revisions to read: a day (at 00:00 UTC), or a time in UTC."""
    titles: Annotated[str | None, CliOption(metavar="FILE")] = None
    """File with all titles of the wiki for the retrieval check, one per line (.gz is allowed). Default: the titles of the questions' articles."""
    near: int = Field(default=30, ge=1, le=1000)
    """Number of articles that the retrieval check reads per question. It reads the articles whose titles are most similar to the question."""
    seed: int = Field(default=7, ge=-MAX_SETTING_NUMBER, le=MAX_SETTING_NUMBER)
    """Seed of the split into dev and test. Questions that share half of their articles go to the same split."""
    review: ReviewPolicy = "auto"
    """What to do with flagged rows. `auto` follows the rule of each flag, which usually drops the row. `manual` leaves flagged rows out until people have reviewed them. `ask` pauses the run and asks in the Prefect UI."""


class FanOutInputs(BuildInputs):
    """Resolved inputs that the steps of FanOutQA read."""

    resolved: ClassVar = frozenset({"source", "sets", "set_file", "property_file", "epoch", "titles", "review"})
    params: FanOutParams
    units: tuple[str, ...]
    """`files` if there are question files, and kinds of sets."""
    epoch: str
    """Moment to which articles are pinned (ISO 8601, UTC)."""
    least_members: int = MIN_ARTICLES
    wiki: str
    """Address of the world's Wikipedia, or `embedded`; article addresses are built from it."""
    licence: str
    embedder: dict[str, str]
    """Name and digest of the sentence encoder."""
    reviewing: ReviewPolicyAndDecisions


def resolve_fanoutqa_inputs(params: FanOutParams, run: RunOptions) -> BuildInputsAndSourceFiles[FanOutInputs]:
    """Resolve the inputs that decide a build; UsageError or SourceError says what was expected."""
    from factmill.tasks.storage.human_judgments import load_review_inputs

    world = load_world(run.world, run.graph)
    moment = parse_past_epoch(choose_asked_or_world_epoch(params.epoch, world))
    wanted = list(dict.fromkeys(params.source)) or [str(_EMBEDDED_QUESTIONS), WIKIDATA_SOURCE]
    from_wikidata = WIKIDATA_SOURCE in wanted
    for name in ("sets", "set_file", "property_file"):
        if getattr(params, name) and not from_wikidata:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} needs questions made from a Wikidata; add --source wikidata")
    lists = {
        group: [make_source_file_with_digest(Path(path))]
        for group, path in ((SET_FILE, params.set_file), (PROPERTY_FILE, params.property_file))
        if path
    }
    given = [each for each in params.source if each != WIKIDATA_SOURCE]
    own = make_user_source(params, bool(given))
    source_rows: int | None = None
    notes = [] if params.titles or run.world == "embedded" else [_NO_TITLES_NOTE]
    if given and (params.map or params.source_split or holds_only_tables([Path(each) for each in given])):
        tables = check_and_digest_user_tables(params.model_copy(update={"source": tuple(given)}), QUESTION_TABLE_FORM)
        check_has_decomposition_or_evidence(tables.own.columns, ", ".join(given))
        questions, own, notes = tables.files, tables.own, [*tables.notes, *notes]
        source_rows = None if from_wikidata else tables.row_count
    else:
        found = find_question_files([Path(each) for each in wanted if each != WIKIDATA_SOURCE])
        questions = [
            apply_stated_name_and_licence(make_source_file_with_digest(path, name), own) for name, path in found.items()
        ]
    kinds = select_question_set_kinds(params.sets, lists) if from_wikidata else []
    paths = {name: getattr(params, name) for name in ("titles", "set_file", "property_file")}
    absolute = {
        "source": make_sources_absolute(params.source),
        "epoch": moment,
        **{name: path and str(resolve_absolute_path(path)) for name, path in paths.items()},
    }
    return BuildInputsAndSourceFiles(
        FanOutInputs(
            params=params.model_copy(update=absolute),
            own_source=own if own != UserSourceSettings() else None,
            units=(*([QUESTION_FILES] if questions else []), *kinds),
            epoch=moment,
            wiki=world.wikipedia.article_site,
            licence="CC0-1.0",
            embedder=embedder_name_and_digest(world, factmill_home()),
            reviewing=load_review_inputs("fanoutqa", params.review, run),
        ),
        {QUESTION_FILES: questions, TITLE_FILE: pin_titles_file(params.titles), **lists},
        wikidata_identity(world, factmill_home()) if from_wikidata else None,
        notes=notes,
        source_rows=source_rows,
    )


def holds_only_tables(paths: Sequence[Path]) -> bool:
    """True for a source without any JSON file, the form of the paper's questions, and with CSV, TSV or Parquet files."""
    suffixes = {file.suffix.lower() for path in paths for file in list_source_files(path, deep=True)}
    return bool(suffixes & {".csv", ".tsv", ".parquet"}) and not suffixes & {".json", ".jsonl"}


def choose_asked_or_world_epoch(asked: str, world: World) -> str:
    """Return the epoch of a build: `asked`, or the day of the file that is the world's Wikipedia.

    UsageError for another day than the file's, unless it is the default.
    """
    if not world.is_local("wikipedia"):
        return asked
    day = world.epoch_day().isoformat()
    if normalise_epoch_to_utc(asked)[:10] not in (day, FANOUTQA_SNAPSHOT[:10]):
        raise UsageError(
            f"--epoch {asked}: this world's Wikipedia is a ZIM file of {day}; other days' revisions are not there"
        )
    return day


def find_question_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Return name → question file; of folders the .json and .jsonl files. SourceError for a folder without any.

    A name is the file's, preceded by as few folders as make it unique.
    """
    files: list[Path] = []
    for path in paths:
        found = [file for file in list_source_files(path) if file == path or file.suffix.lower() in (".json", ".jsonl")]
        if not found:
            raise SourceError(
                f"{path}: the folder has no .json or .jsonl file; expected questions in the authored or released form"
            )
        files += [each for each in map(Path.resolve, found) if each not in files]
    names = {file: ["/".join(file.parts[-count:]) for count in range(1, len(file.parts))] for file in files}
    uses = Counter(name for of in names.values() for name in of)
    return {next((name for name in of if uses[name] == 1), str(file)): file for file, of in names.items()}


def select_question_set_kinds(
    sets: Sequence[str], lists: Mapping[str, Sequence[SourceFile]] = MappingProxyType({})
) -> list[str]:
    """Return the kinds of sets to make questions from, by default all, or those of the user's file (`lists`: SET_FILE and
    PROPERTY_FILE → files); a relation means all of its kinds.

    UsageError for an unknown kind, SettingsError for a property without phrases.
    """
    known = load_packaged_and_user_set_kinds(lists.get(SET_FILE, ()))
    if unknown := [each for each in sets if not any(each in (kind, kind.split()[0]) for kind in known)]:
        raise UsageError(
            f"--sets: unknown kind of sets {unknown[0]!r}; data/lists/fanout_sets.csv has {', '.join(load_set_kinds())}"
            f"{format_did_you_mean(unknown[0], known)}"
        )
    wanted = (
        set(sets)
        or {unit for file in lists.get(SET_FILE, ()) for unit in read_user_set_kinds_by_unit(file)}
        or set(known)
    )
    chosen = [kind for kind in known if kind in wanted or kind.split()[0] in sets]
    phrases = load_packaged_and_user_property_phrases(lists.get(PROPERTY_FILE, ()))
    for unit in chosen:
        for pid in known[unit].properties:
            get_property_phrases(phrases, pid, known[unit])
    return chosen


def parse_past_epoch(epoch: str) -> str:
    """Return a past day or ISO 8601 moment in UTC; UsageError for anything else."""
    moment = normalise_epoch_to_utc(epoch)
    if moment > f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}":
        raise UsageError(f"epoch {epoch!r} is in the future; expected a past day or moment")
    return moment


def pin_titles_file(titles: str | None) -> list[SourceFile]:
    """Return the file of all article titles, if given; UsageError if it does not exist."""
    if titles is None:
        return []
    if not Path(titles).is_file():
        raise UsageError(
            f"--titles {titles}: file not found; expected a file with one title per line, such as a wiki's dump of all titles"
        )
    return [make_source_file_with_digest(Path(titles))]
