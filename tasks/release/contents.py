"""Contents of a release (`verify_and_assemble_release`), from which card, Croissant metadata, tables and licences are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from factmill.tasks.core.evaluation.judge_cards import JudgeCard
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.audits import AuditCriterionResult
from factmill.tasks.core.publishing.release_index import ReleasedTable
from factmill.tasks.core.publishing.release_spec import BenchmarkReleaseSpec, SourceArticleRevision
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.release.core.authorship import Author
from factmill.tasks.release.core.licences import Licence
from factmill.tasks.reports.builds.build_page import format_caution_or_scripted_notice
from factmill.tasks.reports.formatting import format_language_names, format_user_source_name
from factmill.tasks.storage.builds import BuildRecord


@dataclass(frozen=True, slots=True)
class ReleaseOptions:
    """The publisher's options for a release."""

    excluded: tuple[str, ...] = ()
    """Sources and licences whose rows are excluded."""
    allowed_licences: tuple[str, ...] = ()
    """Licences that are refused by default, but that the publisher may redistribute rows under."""
    includes_hidden_answers: bool = False
    """Include the hidden answers of a test part."""
    authors: tuple[Author, ...] = ()
    """Authors of the release, in the order of the citation; empty: none are named."""
    doi: str = ""
    """DOI of the release (10.…/…); empty: it has none."""


@dataclass(frozen=True, slots=True)
class ReleaseDataFile:
    """A data file of a release."""

    path: str
    """Path below the release's folder, with slashes."""
    format: str
    """parquet, jsonl or csv."""
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True, slots=True)
class ReleaseSplit:
    """The rows of one split of a config."""

    name: str
    table: str
    """Published table with these rows."""
    own_columns: tuple[str, ...]
    """Columns of that table; the config's other columns are null in this split."""
    rows: pa.Table
    """Sorted by id, with the config's columns; the canary is the last column."""
    files: tuple[ReleaseDataFile, ...] = ()
    """Empty until they are written."""


@dataclass(frozen=True, slots=True)
class ReleaseDatasetConfig:
    """One config: what `load_dataset(DIR, name)` returns."""

    name: str
    title: str
    splits: tuple[ReleaseSplit, ...]
    docs: Mapping[str, str]
    """Column → description, in the columns' order."""

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types, the same in every split."""
        return self.splits[0].rows.schema


@dataclass(frozen=True, slots=True)
class SourceRowCount:
    """Number of rows of one source under one licence."""

    source: str
    licence: str
    """Several are joined by AND, where rows of several sources were merged."""
    rows: int
    """Rows of the main table."""


@dataclass(frozen=True, slots=True)
class ReleaseOmission:
    """Rows or tables of the build that the release lacks."""

    what: str
    """A source, a licence or a table."""
    why: str
    rows: int


@dataclass(frozen=True, slots=True)
class BuildPrompt:
    """A prompt that the build used."""

    id: str
    digest: str
    """SHA-256 of its file, from the build's manifest."""
    text: str | None
    """Content of the file; None if the file has changed since, so that the text used is not available."""
    is_own: bool = False
    """True if it is of the user's own and replaced the packaged prompt."""


@dataclass(frozen=True, slots=True)
class BuildEvaluation:
    """An evaluation on the released build."""

    record: BuildRecord
    metrics: Sequence[EvaluationMetric]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """All contents of a release, from which its files are written."""

    benchmark: Benchmark
    forms: BenchmarkReleaseSpec
    build: BuildRecord
    configs: tuple[ReleaseDatasetConfig, ...]
    """The first is the default config."""
    sources: tuple[SourceRowCount, ...]
    licences: tuple[Licence, ...]
    """Licences of the complete release."""
    pages: Mapping[SourceArticleRevision, int]
    """Page → number of rows that carry its text or facts, sorted by title."""
    pages_licence: Licence
    """Licence of these pages' texts."""
    embedded_services: tuple[str, ...]
    """Those of the build's services that are of factmill's embedded world, by their sections of the world's file."""
    left_out: tuple[ReleaseOmission, ...]
    prompts: tuple[BuildPrompt, ...]
    tables: Mapping[str, ReleasedTable]
    """Table → row count and digest in the release; if the release is complete, for all tables of the build."""
    examples: tuple[Mapping[str, Any], ...]
    """Rows of the default config's first split, drawn with a fixed seed; without the canary."""
    decisions: tuple[ReviewItem, ...]
    """Review queue with its decisions; texts are empty where they would reveal held-out answers."""
    rejects: pa.Table
    """stage, id, reason, detail."""
    judge_cards: tuple[JudgeCard, ...]
    audit: tuple[AuditCriterionResult, ...]
    evaluations: tuple[BuildEvaluation, ...]
    options: ReleaseOptions = field(default_factory=ReleaseOptions)

    @property
    def name(self) -> str:
        """Display name of the benchmark."""
        return self.benchmark.title.partition(":")[0]

    @property
    def user_source_name(self) -> str:
        """Name of the source of the user's own that the rows are from, or of its files; empty for other sources."""
        return format_user_source_name(self.build.lock)

    @property
    def content(self) -> str:
        """What the rows are, in one sentence; of rows from a source of the user's own: the source and the languages."""
        if self.user_source_name:
            return f"Rows of {self.name} made from {self.user_source_name}, in {format_language_names(self.languages)}."
        about = self.benchmark.title.partition(":")[2].strip()
        return f"{about[:1].upper()}{about[1:]}."

    @property
    def about(self) -> str:
        """Content and purpose of a row."""
        card = self.forms.card
        return (self.user_source_name and card.about_user_source) or card.about

    @property
    def title(self) -> str:
        """Title of the release: the benchmark, and the source of the user's own."""
        of = f" of {self.user_source_name}" if self.user_source_name else ""
        return f"{self.name}{of}, rebuilt by factmill"

    @property
    def is_from_embedded_world(self) -> bool:
        """True if all services of the build are of factmill's embedded world."""
        return bool(self.embedded_services) and {*self.embedded_services} == self.build.lock["services"].keys()

    @property
    def is_from_embedded_files(self) -> bool:
        """True if the rows come from the embedded world's own files, in the format of the paper's sources."""
        return self.is_from_embedded_world and not self.build.origin["flow"].get("source")

    @property
    def has_embedded_pages(self) -> bool:
        """True if `pages` belong to factmill's embedded world and are no pages of Wikipedia."""
        return "wikipedia" in self.embedded_services

    @property
    def notice(self) -> str:
        """Notice at the start of every text: rows from scripted replies are no benchmark; empty if there are none."""
        return format_caution_or_scripted_notice(self.build)

    @property
    def stages(self) -> Sequence[Mapping[str, Any]]:
        """Funnel: stage, rows_in, rows_out, opened, rejects, merged, calls, tokens, cost, seconds."""
        return self.build.report["stages"]

    @property
    def reasons(self) -> Mapping[str, Mapping[str, int]]:
        """Stage → reason → rejected rows."""
        return self.build.report["reasons"]

    @property
    def shape_comparison(self) -> Mapping[str, Mapping[str, Any]]:
        """Figure of the dataset's shape → `here`, `n` and `paper`."""
        return self.build.report["facts"].get("shape", {})

    @property
    def languages(self) -> tuple[str, ...]:
        """BCP 47 codes of the languages that rows are in."""
        found = {config.name for config in self.configs}
        there = [code for value, code in self.forms.language_values.items() if value in found]
        return tuple(there) or self.forms.languages

    @property
    def united_configs(self) -> tuple[ReleaseDatasetConfig, ...]:
        """Configs that unite those which a column divides: all their rows, in their files; they have none of their own."""
        united = []
        for spec in self.forms.configs:
            tables = {*spec.splits.values()}
            parts = [config for config in self.configs if {split.table for split in config.splits} == tables]
            if not spec.config_column or len(parts) < 2:
                continue
            splits = tuple(
                replace(
                    first,
                    rows=pa.concat_tables([part.splits[at].rows for part in parts]),
                    files=tuple(file for part in parts for file in part.splits[at].files),
                )
                for at, first in enumerate(parts[0].splits)
            )
            united.append(ReleaseDatasetConfig(spec.name, spec.title, splits, parts[0].docs))
        return tuple(united)

    @property
    def hub_configs(self) -> list[dict[str, Any]]:
        """The configs as in the metadata of a dataset card, by which `datasets` finds splits and files.

        Splits without rows are left out, since `datasets` fails to open them and their config.
        """
        found = []
        for config in (*self.configs, *self.united_configs):
            files = []
            for split in config.splits:
                paths = [file.path for file in split.files if file.format == "parquet"]
                if paths and split.rows.num_rows:
                    files.append({"split": split.name, "path": paths if len(paths) > 1 else paths[0]})
            lead = {"default": True} if config is self.configs[0] else {}
            found += [{"config_name": config.name, **lead, "data_files": files}] if files else []
        return found

    @property
    def rows(self) -> int:
        """Number of rows of the default config in all splits; of all configs that a column divides its table into."""
        tables = {*self.forms.configs[0].splits.values()}
        return sum(split.rows.num_rows for config in self.configs for split in config.splits if split.table in tables)
