"""Load a Wikidata dump's RDF into a named graph, or resume an interrupted load.

Rows go from the sources into a staging database (tasks/graph/loading/staging.py), from which the sorted tables and the
arrays are written. The same command resumes an interrupted load: at the last commit, or with the tables if everything
was read. All of this happens in a separate loading folder (tasks/graph/folders.py).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from factmill.tasks.core.digests import combine_digests, digest_bytes
from factmill.tasks.errors import LocalGraphError, SourceError, UsageError
from factmill.tasks.graph.arrays import write_graph_arrays
from factmill.tasks.graph.folders import (
    BUILT_GRAPH_FOLDER,
    FORMAT_VERSION,
    GRAPH_DATABASE_FILE,
    LOAD_REQUEST_FILE,
    GraphManifest,
    LoadRequest,
    find_load_request,
    flush_digest_and_record_graph_files,
    get_graph_folder,
    get_loading_folder,
    install_built_graph,
    lock_temporary_loading_folder,
    remove_folder_contents,
    write_graph_manifest,
    write_load_request,
)
from factmill.tasks.graph.loading.sources.streams import (
    STDIN,
    RdfSourceReader,
    RdfSyntax,
    SourceChangedError,
    check_readable_file,
)
from factmill.tasks.graph.loading.staging import (
    STAGING_FILE,
    LoadMeter,
    LoadProgress,
    StagingDatabase,
    open_staging,
    read_sources_into_staging,
)
from factmill.tasks.graph.loading.staging_rows import STAGING_SCHEMAS
from factmill.tasks.graph.loading.tables import (
    digest_graph_tables,
    find_dump_date,
    write_tables_count_rows_and_drop_reasons,
)

READING_MODULES = (
    "compiling", "line_patterns", "ntriples", "staging_rows", "scanning", "sources/bzip2", "sources/streams",
)  # fmt: skip
"""Modules that decide which rows are read: a half load made by other versions of them is dropped."""

_LANGUAGE = re.compile(r"[a-z]{2,12}(-[a-z0-9]{1,12})*")

ProgressCallback = Callable[[LoadProgress], None]
NoticeCallback = Callable[[str], None]


def load_graph(
    files: Sequence[str | Path],
    name: str,
    folder: Path,
    languages: Sequence[str] = ("en",),
    progress: ProgressCallback | None = None,
    *,
    form: RdfSyntax | None = None,
    dump_date: str | None = None,
    replace: bool = False,
    notice: NoticeCallback | None = None,
) -> GraphManifest:
    """Load N-Triples or Turtle (plain or compressed, `-` for standard input) as the graph `name` in `folder`.

    `languages`: exact tags of the texts to keep (`en` excludes `en-gb`; names in `mul`, which are valid in all
    languages, are always kept). `form`: format of files whose name does not show it (.nt, .ttl). `dump_date` (ISO
    8601): overrides the dump's own date. An interrupted load of the same files, languages and form is resumed, any
    other restarts; `notice` gets a message. Raises SourceError for a file that is missing, empty, damaged or not RDF;
    LocalGraphError if a graph of that name exists and `replace` is not set, if it is being loaded, or if it cannot be
    written.
    """
    target = get_graph_folder(name, folder)
    request = _make_checked_load_request(files, languages, form)
    try:
        datetime.fromisoformat(dump_date or "2000-01-01")
    except ValueError as error:
        raise UsageError(f"dump date {dump_date!r}: expected ISO 8601, such as 2024-05-06") from error
    if target.exists() and not replace:
        raise LocalGraphError(
            f"graph {name} already exists in {folder}: choose another name, or replace it with --replace"
        )
    with _add_resume_advice_to_load_errors(name, folder), lock_temporary_loading_folder(name, folder) as loading_folder:
        job = _LoadJob(name, request, loading_folder, LoadMeter(progress or _ignore), notice or _ignore, dump_date)
        manifest = _build_graph(job)
        install_built_graph(name, folder, replace=replace)
    return manifest


@dataclass(slots=True)
class _LoadJob:
    """A load in progress."""

    name: str
    request: LoadRequest
    folder: Path
    """The loading folder."""
    meter: LoadMeter
    notice: NoticeCallback
    dump_date: str | None
    sources: list[RdfSourceReader] = field(default_factory=list)

    def notify(self, text: str) -> None:
        """Send the user a message about this graph."""
        self.notice(f"graph {self.name}: {text}")


def _build_graph(job: _LoadJob) -> GraphManifest:
    """Read the rest of the sources and write the graph's files."""
    _drop_unresumable_half_load(job)
    try:
        with open_staging(job.folder, job.name) as staging:
            tally = staging.tally
            job.sources = [RdfSourceReader(path, job.request.form, job.meter.report) for path in job.request.files]
            job.meter.set_sources(job.sources, tally.lines)
            if tally.is_whole:
                job.notify("all files were read before; resuming with the tables")
            elif tally.lines:
                job.notify(
                    f"resuming after line {tally.lines:,}; reading the lines before it again to check that they are unchanged"
                )
            job.meter.start_phase("checking" if tally.lines else "reading")
            read_sources_into_staging(
                job.sources,
                job.request.languages,
                staging,
                job.meter,
                lambda: write_load_request(job.folder, job.request),
            )
            written = _write_graph_and_make_manifest_fields(job, staging)
    except SourceChangedError as error:
        if any(source.size_bytes and not source.is_rereadable for source in job.sources):
            raise SourceError(f"{error}; pipe the same bytes again, from the start") from error
        job.notify(f"{error}; dropped the unfinished load")
        remove_folder_contents(job.folder)
        return _build_graph(job)
    # only after the connection is closed, since closing changes the database
    job.meter.start_phase("digesting")
    manifest = GraphManifest(
        name=job.name,
        format_version=FORMAT_VERSION,
        languages=job.request.languages,
        files=flush_digest_and_record_graph_files(job.folder / BUILT_GRAPH_FOLDER),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        **written,
    )
    write_graph_manifest(manifest, job.folder / BUILT_GRAPH_FOLDER)
    return manifest


def _drop_unresumable_half_load(job: _LoadJob) -> None:
    """Drop a half load that cannot be resumed, and notify the user."""
    before = find_load_request(job.folder)
    if not before or not before.loads_same_rows(job.request):
        if (job.folder / LOAD_REQUEST_FILE).exists():
            job.notify("dropped an unfinished load of other files or options, or by another version")
        remove_folder_contents(job.folder)
    elif not (job.folder / STAGING_FILE).exists():
        job.notify("the rows of the unfinished load are missing; reading all files from the start")
    elif before.files != job.request.files:
        job.notify(f"resuming the unfinished load of {', '.join(before.files)}, since the files have the same sizes")
        write_load_request(job.folder, job.request)


def _write_graph_and_make_manifest_fields(job: _LoadJob, staging: StagingDatabase) -> dict[str, Any]:
    """Write tables and arrays; return the manifest's fields about them."""
    graph, connection, tally = job.folder / BUILT_GRAPH_FOLDER, staging.connection, staging.tally
    graph.mkdir()
    job.meter.start_phase("sorting")
    stored, left_out = write_tables_count_rows_and_drop_reasons(connection, graph / GRAPH_DATABASE_FILE)
    date = job.dump_date or find_dump_date(connection)
    languages = job.request.languages
    digest = digest_graph_tables(connection, languages=languages, dump_date=date, format_version=FORMAT_VERSION)
    job.meter.start_phase("writing")
    write_graph_arrays(connection, graph)
    return {
        "digest": digest,
        "dump_date": date,
        "sources": tuple(tally.finished),
        "lines": tally.lines,
        "blank": tally.blank,
        "malformed": tally.read["malformed"],
        "not_kept": dict(sorted(tally.not_kept.items())),
        "read": {table: tally.read[table] for table in STAGING_SCHEMAS if table != "malformed"},
        "stored": stored,
        "left_out": left_out,
    }


def _make_checked_load_request(
    files: Sequence[str | Path], languages: Sequence[str], form: RdfSyntax | None
) -> LoadRequest:
    """Check the options and that every file exists, before any is read; return the request."""
    if not files:
        raise UsageError("no file to load: give N-Triples or Turtle, plain or compressed, or `-` for standard input")
    paths = tuple(dict.fromkeys(map(str, files)))
    for path in paths:
        if path != STDIN:
            check_readable_file(path)
    tags = tuple(sorted({language.lower() for language in languages}))
    if not tags or not all(_LANGUAGE.fullmatch(tag) for tag in tags):
        raise UsageError(f"languages {list(languages)}: expected at least one language tag, such as en or pt-br")
    modules = (Path(__file__).parent / "loading" / f"{name}.py" for name in READING_MODULES)
    code = combine_digests(digest_bytes(module.read_bytes()) for module in modules)
    sizes = tuple(RdfSourceReader(path).find_size_bytes() for path in paths)
    return LoadRequest(files=paths, languages=tags, form=form, code=code, sizes=sizes)


@contextmanager
def _add_resume_advice_to_load_errors(name: str, folder: Path) -> Iterator[None]:
    """Add to errors the graph's name and what is kept; enter before the folder is locked."""
    try:
        yield
    except SourceError as error:
        raise SourceError(f"{error}{_format_resume_advice(name, folder, 'correct it')}") from error
    except (duckdb.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        kept = _format_resume_advice(name, folder, "free disk space if the disk is full")
        raise LocalGraphError(f"cannot write graph {name} in {folder}: {reason}{kept}") from error
    except RuntimeError as error:
        # DuckDB's error for Ctrl-C
        if "interrupted" in str(error):
            raise KeyboardInterrupt from error
        raise


def _format_resume_advice(name: str, folder: Path, advice: str) -> str:
    if not (get_loading_folder(name, folder) / LOAD_REQUEST_FILE).exists():
        return ""
    return (
        f". The rows read so far stay: {advice} and run the same command again to resume, or remove"
        f" them: `factmill graph remove {name}`"
    )


def _ignore(news: object) -> None:
    """Do nothing."""
