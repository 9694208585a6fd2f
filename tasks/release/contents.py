"""What a release holds: card, Croissant, tables and licences are all made of it (`reading.py` reads it)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from factmill.tasks.core.evaluation.judge_cards import JudgeCard
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.audits import AuditFigure
from factmill.tasks.core.publishing.release_forms import Page, ReleaseForms
from factmill.tasks.core.publishing.release_index import ReleasedTable
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.release.core.licences import Licence
from factmill.tasks.reports.builds.contents import tell_notice
from factmill.tasks.storage.builds import BuildRecord


@dataclass(frozen=True, slots=True)
class Choices:
    """What a release is asked for."""

    without: tuple[str, ...] = ()
    """Sources and licences whose rows are left out."""
    allowed: tuple[str, ...] = ()
    """Licences that would be refused, and that the publisher may hand rows on under."""
    with_answers: bool = False
    """The answers of a test part too."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with rows."""

    path: str
    """Below the release's folder, with slashes."""
    format: str
    """parquet, jsonl or csv."""
    size: int
    """Bytes."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of one split of a config."""

    name: str
    table: str
    """Published table that they are from."""
    own_columns: tuple[str, ...]
    """Columns of that table; the others are null here, and other splits' alone."""
    rows: pa.Table
    """Sorted by id, with the config's columns; the canary is the last."""
    files: tuple[DataFile, ...] = ()
    """Once they are written."""


@dataclass(frozen=True, slots=True)
class Config:
    """One config: what `load_dataset(DIR, name)` gives."""

    name: str
    title: str
    splits: tuple[Split, ...]
    docs: Mapping[str, str]
    """Column → what it means, in the columns' order."""

    @property
    def schema(self) -> pa.Schema:
        """Columns and their types, the same in every split."""
        return self.splits[0].rows.schema


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source of rows under one licence."""

    source: str
    licence: str
    """Or several, joined by AND, where rows of several sources were united."""
    rows: int
    """Of the main table."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows or tables of the build that the release lacks."""

    what: str
    """A source, a licence or a table."""
    why: str
    rows: int


@dataclass(frozen=True, slots=True)
class PromptText:
    """A prompt that the build's models were asked with."""

    id: str
    digest: str
    """SHA-256 of its file, as the lock has it."""
    text: str | None
    """The file; None where it has changed since, so that what was asked is not at hand."""


@dataclass(frozen=True, slots=True)
class Measured:
    """An evaluation on this build."""

    record: BuildRecord
    metrics: Sequence[EvaluationMetric]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release, as all that is written of it knows it."""

    benchmark: Benchmark
    forms: ReleaseForms
    build: BuildRecord
    configs: tuple[Config, ...]
    """The first is the default one."""
    sources: tuple[SourceLine, ...]
    licences: tuple[Licence, ...]
    """Of the release as a whole."""
    pages: Mapping[Page, int]
    """Page → rows that carry its text or facts, by title."""
    pages_licence: Licence
    """Of the texts of these pages."""
    is_own_world: bool
    """True where these pages are factmill's own, of the embedded world, and are no pages of Wikipedia."""
    left_out: tuple[LeftOut, ...]
    prompts: tuple[PromptText, ...]
    tables: Mapping[str, ReleasedTable]
    """Table → rows and digest of what the release has of it; where it leaves nothing out, of all tables of the build."""
    examples: tuple[Mapping[str, Any], ...]
    """Rows of the default config's first split, drawn by a fixed seed; without the canary."""
    decisions: tuple[ReviewItem, ...]
    """The review queue with what was decided; texts are empty where they would tell answers that are held out."""
    rejects: pa.Table
    """stage, id, reason, detail."""
    judge_cards: tuple[JudgeCard, ...]
    audit: tuple[AuditFigure, ...]
    evaluations: tuple[Measured, ...]
    choices: Choices = field(default_factory=Choices)

    @property
    def name(self) -> str:
        """The benchmark's name as people write it."""
        return self.benchmark.title.partition(":")[0]

    @property
    def is_own_source(self) -> bool:
        """True where rows are of the embedded world's own files, written after the pattern of their sources."""
        return self.is_own_world and not self.build.origin["flow"].get("source")

    @property
    def notice(self) -> str:
        """What every text says first: rows by scripted replies are no benchmark; empty where nothing is to be said."""
        return tell_notice(self.build)

    @property
    def stages(self) -> Sequence[Mapping[str, Any]]:
        """Funnel: stage, rows_in, rows_out, opened, rejects, merged, calls, tokens, cost, seconds."""
        return self.build.report["stages"]

    @property
    def reasons(self) -> Mapping[str, Mapping[str, int]]:
        """Stage → reason → rejected rows."""
        return self.build.report["reasons"]

    @property
    def shape(self) -> Mapping[str, Mapping[str, Any]]:
        """Figure → `here`, `n` and `paper`."""
        return self.build.report["facts"].get("shape", {})

    @property
    def hub_configs(self) -> list[dict[str, Any]]:
        """The configs as the head of a dataset card has them, so that `datasets` finds splits and files.

        Splits without rows are left out: `datasets` opens none, nor the config that they stand in.
        """
        found = []
        for config in self.configs:
            files = [
                {"split": split.name, "path": file.path}
                for split in config.splits
                for file in split.files
                if file.format == "parquet" and split.rows.num_rows
            ]
            lead = {"default": True} if config is self.configs[0] else {}
            found += [{"config_name": config.name, **lead, "data_files": files}] if files else []
        return found

    @property
    def rows(self) -> int:
        """Rows of the default config, in all splits; where rows fall into configs by a column, of all of these."""
        tables = {*self.forms.configs[0].splits.values()}
        return sum(split.rows.num_rows for config in self.configs for split in config.splits if split.table in tables)
