"""What every page has in common: its three figures at the top, how to cite it, how to reproduce it, and all rows to search.

Every page opens with a headline and three figures and ends with a citation and commands, so that a reader who knows one
page knows all.
"""

import base64
import shlex
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.publishing.release_spec import PaperCitation
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.options import CliOption
from factmill.tasks.reports.formatting import (
    format_interval,
    format_number,
    format_share,
    format_snake_case_as_words,
    replace_cluster_term_in_note,
    shorten_line,
)
from factmill.tasks.storage.builds import BuildRecord

MAX_INDEXED_ROWS = 100_000
"""Maximum number of rows that a page's search looks at."""
_MAX_INDEXED_CHARACTERS = 240
"""Maximum characters of a value in a page's search."""


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One of the three figures at the top of a page."""

    label: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class CitationAndCommands:
    """How to cite what a page is about, and how to make it again."""

    bibtex: str
    note: str
    """What the commands give."""
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchablePageRows:
    """All rows of a page that shows only some, for its search."""

    headings: tuple[str, ...]
    """Names of the values that are shown of a row, the id first."""
    filters: tuple[str, ...]
    """Names of the filters whose values follow in a row."""
    rows: int
    packed: str
    """Rows as lines of tab-separated values, compressed (zlib), as base64; U+001F parts several values of a filter."""


def pack_rows_for_page_search(
    headings: Sequence[str], filters: Sequence[str], rows: Iterable[Sequence[str | Sequence[str]]]
) -> SearchablePageRows:
    """Return rows for a page's search; each has a value for each heading, then for each filter one or several."""
    lines = [
        "\t".join(
            "\x1f".join(
                shorten_line(each, _MAX_INDEXED_CHARACTERS) for each in ([value] if isinstance(value, str) else value)
            )
            for value in row
        )
        for row in rows
    ]
    packed = zlib.compress("\n".join(lines).encode("utf-8", "replace"), 9)
    return SearchablePageRows(tuple(headings), tuple(filters), len(lines), base64.b64encode(packed).decode())


def format_bibtex(
    key: str, title: str, note: str, year: int, paper: PaperCitation | None, authors: str = "", doi: str = ""
) -> str:
    """Return BibTeX entries: of the paper if there is one, and of what factmill made.

    `note` names it by its id; `authors`: in BibTeX's form; empty fields are left out.
    """
    fields = {"title": title, "author": authors, "note": note, "year": str(year), "doi": doi}
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    made = f"@misc{{{key}_factmill,\n{lines}\n}}"
    return f"{_format_paper_bibtex(key, paper)}\n{made}" if paper else made


def make_build_reference(benchmark: Benchmark, build: BuildRecord) -> CitationAndCommands:
    """Return how to cite a build and its paper, and the commands that make it again."""
    title = benchmark.title.partition(":")[0]
    return CitationAndCommands(
        format_bibtex(
            benchmark.name, f"{title}, rebuilt by factmill", f"build {build.build_id}", build.published_at.year,
            find_paper(benchmark),
        ),
        "The first command rebuilds it from recorded calls alone and compares every table byte for byte; the second asks "
        f"everything again. Build {build.build_id}, manifest SHA-256 {build.lock_digest[:16]}…, published tables SHA-256 "
        f"{build.content_digest[:16]}….{describe_own_prompts_folder([build])}",
        (f"factmill verify {build.build_id}", format_build_command(["build", benchmark.name], benchmark.params, build)),
    )  # fmt: skip


def make_evaluations_reference(
    name: str, title: str, paper: PaperCitation | None, records: Sequence[BuildRecord], commands: Sequence[str]
) -> CitationAndCommands:
    """Return how to cite evaluations, and the commands that make them and their report again."""
    ids = [record.build_id for record in records]
    year = max(record.published_at.year for record in records)
    return CitationAndCommands(
        format_bibtex(name, title, f"evaluation {', '.join(ids)}", year, paper),
        "Models are asked once: a recorded answer is scored again, and no model is called. The last command writes this page."
        f"{describe_own_prompts_folder(records)}",
        tuple(commands),
    )


def find_paper(benchmark: Benchmark) -> PaperCitation | None:
    """Return the paper that a benchmark rebuilds, or None."""
    paper: PaperCitation | None = load_named_object(benchmark.release).paper if benchmark.release else None
    return paper


def format_build_command(words: Sequence[str], params: type[BaseModel], build: BuildRecord) -> str:
    """Return the command with the options that a build or an evaluation was made with, without those left at their default.

    Files and folders are named without their place on the maker's machine, since pages leave it.
    """
    given: Mapping[str, Any] = build.origin.get("flow") or {}
    said = ["factmill", *words]
    for name, field in params.model_fields.items():
        value = given.get(name, field.default)
        if value is None or value == field.default or (isinstance(value, list) and tuple(value) == field.default):
            continue
        form = next((each for each in field.metadata if isinstance(each, CliOption)), CliOption())
        option = form.name or f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            on, _, off = option.partition("/")
            said.append(on if value else off or f"--no-{on.removeprefix('--')}")
        else:
            several = map(str, value if isinstance(value, list | tuple) else [value])
            is_path = form.metavar in ("PATH", "FILE", "DIR")
            said += [word for each in several for word in (option, (is_path and Path(each).name) or each)]
    for option, path in (("--world", build.origin.get("world")), ("--graph", build.origin.get("graph"))):
        said += [option, Path(path).name] if path and path != "embedded" else []
    return shlex.join([*said, *(["--prompts", format_own_prompts_folder_name(build)] if build.own_prompts else [])])


def format_own_prompts_folder_name(build: BuildRecord) -> str:
    """Return the name, without its path, of the folder of a build's own prompts, as `NAME/`; `my-prompts/` if it is not
    recorded."""
    files: Mapping[str, str] = build.origin.get("prompt_files") or {}
    folders = (Path(files[name]).parents[name.count("/")].name for name in build.own_prompts if name in files)
    return f"{next(folders, '') or 'my-prompts'}/"


def describe_own_prompts_folder(builds: Iterable[BuildRecord]) -> str:
    """Return a sentence on what the folder that commands give as `--prompts` holds; empty without own prompts."""
    for build in builds:
        if build.own_prompts:
            folder = format_own_prompts_folder_name(build)
            return f" {folder} holds the own prompts above, such as {folder}{next(iter(build.own_prompts))}.md."
    return ""


def make_metric_key_figure(metric: EvaluationMetric, model: str = "") -> KeyFigure:
    """Return a metric with its interval as a figure of a page's top."""
    ends = (
        f"95 % interval {format_interval(metric.ci_low, metric.ci_high)}"
        if metric.ci_low is not None
        else replace_cluster_term_in_note(metric.note)
    )
    return KeyFigure(
        f"{format_snake_case_as_words(metric.metric)}, {format_snake_case_as_words(metric.setting)}",
        format_number(metric.value),
        "; ".join(filter(None, [model, ends])),
    )


def make_coverage_key_figure(metric: EvaluationMetric, model: str = "") -> KeyFigure:
    """Return how many items of the metric's setting have a score, as a figure of a page's top."""
    note = f"coverage {format_share(metric.coverage)}" if metric.coverage is not None else ""
    return KeyFigure(
        f"items with a score, {format_snake_case_as_words(metric.setting)}",
        f"{metric.n:,} of {metric.n + metric.n_unscored:,}",
        "; ".join(filter(None, [model, note])),
    )


def _format_paper_bibtex(key: str, paper: PaperCitation) -> str:
    authors = " and ".join(f"{family}, {given}" for given, family in paper.authors)
    where = f"  booktitle = {{{paper.venue}}},\n" if paper.venue else f"  eprint = {{{paper.arxiv}}},\n"
    return (
        f"@{'inproceedings' if paper.venue else 'misc'}{{{key}{paper.year},\n  title = {{{paper.title}}},\n"
        f"  author = {{{authors}}},\n{where}  year = {{{paper.year}}},\n  url = {{{paper.url}}}\n}}"
    )
