"""FanOutQA's parameters, and the inputs resolved from them: questions, epoch, models, review decisions (paper §3.1)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from factmill.tasks.assets import ROOT
from factmill.tasks.core.epochs import SNAPSHOT, read_epoch
from factmill.tasks.core.review import Policy, Reviewing
from factmill.tasks.core.rows import MOST
from factmill.tasks.engine.benchmark import WIKIDATA_SOURCE, Inputs, Locked, find_absolute
from factmill.tasks.engine.naming.identities import embedder_identity, wikidata_identity
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.fanoutqa.core.questions import LEAST_ARTICLES
from factmill.tasks.fanoutqa.sources.files import load_fanout_sets
from factmill.tasks.files import absolute_path
from factmill.tasks.options import Option, Params, RunOptions
from factmill.tasks.settings import home, load_world
from factmill.tasks.storage.source_files import list_source, lock_source
from factmill.tasks.text.whole import suggest_name

FILES, TITLES = "files", "titles"
"""Names of the manifest's file groups: question files (also a unit, next to the kinds of sets), and the title list."""
_EMBEDDED = ROOT / "data" / "world" / "sources" / "fanoutqa"
_GRAPH_LICENCE = "CC0-1.0"
_WITHOUT_TITLES = "no --titles: the retrieval check looks among the articles of these questions alone"


def _read_epoch(given: str) -> str:
    try:
        return read_epoch(given)
    except UsageError as error:
        raise ValueError(str(error)) from error


class FanOutParams(Params):
    """Options of a FanOutQA build."""

    source: Annotated[tuple[str, ...], Option(metavar="PATH")] = ()
    """File or folder of questions, authored or released (repeatable); `wikidata`: made from the facts of the Wikidata. Default: our own, and wikidata."""
    sets: Annotated[tuple[str, ...], Option(metavar="KIND")] = ()
    """Kinds of sets to make questions from (repeatable). Default: all."""
    sets_a_kind: int = Field(default=12, ge=1, le=MOST)
    """Sets of one kind, at most."""
    epoch: Annotated[str, AfterValidator(_read_epoch), Option(metavar="DATE")] = SNAPSHOT[:10]
    """Articles are those of this day or moment (UTC)."""
    titles: Annotated[str | None, Option(metavar="FILE")] = None
    """All titles of the wiki, one a line (.gz too), for the retrieval check. Default: those of the questions."""
    near: int = Field(default=30, ge=1, le=1000)
    """Articles near a question that the retrieval check reads."""
    seed: int = Field(default=7, ge=-MOST, le=MOST)
    """Seed of the split into dev and test. A question that shares half of its articles with another lies on its side."""
    review: Policy = "auto"
    """What becomes of flagged rows: what each flag's rule says, mostly dropped (auto), left out until reviewed (manual), or asked for in a pause of the run in the Prefect UI (ask)."""


class FanOutInputs(Inputs):
    """Resolved inputs that the steps of FanOutQA read."""

    resolved: ClassVar = frozenset({"source", "sets", "epoch", "titles", "review"})
    params: FanOutParams
    units: tuple[str, ...]
    """`files` if there are question files, and kinds of sets."""
    epoch: str
    """Moment to which articles are pinned (ISO 8601, UTC)."""
    least_members: int = LEAST_ARTICLES
    wiki: str
    """Address of the world's Wikipedia, or `embedded`; article addresses are built from it."""
    licence: str
    embedder: dict[str, str]
    """Name and digest of the sentence encoder."""
    reviewing: Reviewing


def lock_inputs(params: FanOutParams, run: RunOptions) -> Locked[FanOutInputs]:
    """Resolve the inputs that decide a build; UsageError or SourceError says what was expected."""
    from factmill.tasks.storage.reviews import open_review

    world = load_world(run.world, run.graph)
    moment = check_epoch(params.epoch)
    wanted = list(dict.fromkeys(params.source)) or [str(_EMBEDDED), WIKIDATA_SOURCE]
    from_wikidata = WIKIDATA_SOURCE in wanted
    if params.sets and not from_wikidata:
        raise UsageError("--sets is for questions made from a Wikidata; add --source wikidata")
    found = find_question_files([Path(each) for each in wanted if each != WIKIDATA_SOURCE])
    kinds = check_sets(params.sets) if from_wikidata else []
    files = {
        FILES: [lock_source(path, name) for name, path in found.items()],
        TITLES: [lock_source(path) for path in check_titles(params.titles)],
    }
    absolute = {
        "source": find_absolute(params.source),
        "epoch": moment,
        "titles": params.titles and str(absolute_path(params.titles)),
    }
    return Locked(
        FanOutInputs(
            params=params.model_copy(update=absolute),
            units=(*([FILES] if found else []), *kinds),
            epoch=moment,
            wiki=world.wikipedia.url,
            licence=_GRAPH_LICENCE,
            embedder=embedder_identity(world, home()),
            reviewing=open_review("fanoutqa", params.review, run),
        ),
        files,
        wikidata_identity(world, home()) if from_wikidata else None,
        notes=() if params.titles or run.world == "embedded" else (_WITHOUT_TITLES,),
    )


def find_question_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Return name → question file; of folders the .json and .jsonl files. SourceError for a folder without any."""
    files: list[Path] = []
    for path in paths:
        found = [file for file in list_source(path) if file == path or file.suffix.lower() in (".json", ".jsonl")]
        if not found:
            raise SourceError(
                f"{path}: no .json or .jsonl file in that folder; expected questions in the authored or the released form"
            )
        files += [each for each in map(Path.resolve, found) if each not in files]
    return {_name_file(path, files): path for path in files}


def _name_file(path: Path, files: Sequence[Path]) -> str:
    """Return a file's name, preceded by as few folders as make it unique among the files."""
    for count in range(1, len(path.parts)):
        name = "/".join(path.parts[-count:])
        if sum("/".join(each.parts[-count:]) == name for each in files) == 1:
            return name
    return str(path)


def check_sets(sets: Sequence[str]) -> list[str]:
    """Return the kinds of sets to make questions from, by default all; a relation means all of its kinds.

    UsageError for an unknown kind.
    """
    known = list(load_fanout_sets())
    if unknown := [each for each in sets if not any(each in (kind, kind.split()[0]) for kind in known)]:
        raise UsageError(
            f"--sets: unknown kind of sets {unknown[0]!r}; data/lists/fanout_sets.csv has {', '.join(known)}"
            f"{suggest_name(unknown[0], known)}"
        )
    return [kind for kind in known if not sets or kind in sets or kind.split()[0] in sets]


def check_epoch(epoch: str) -> str:
    """Return a past day or ISO 8601 moment in UTC; UsageError for anything else."""
    moment = read_epoch(epoch)
    if moment > f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}":
        raise UsageError(f"epoch {epoch!r} is still to come; expected a day or moment of the past")
    return moment


def check_titles(titles: str | None) -> list[Path]:
    """Return the file of all article titles, if given; UsageError if it does not exist."""
    if titles is None:
        return []
    path = Path(titles)
    if not path.is_file():
        raise UsageError(
            f"--titles {titles}: no such file; expected one title a line, as in a wiki's dump of all titles"
        )
    return [path]
