"""Attachments of a release: its build's rejects, review decisions, prompts, audit figures, judge cards, evaluations."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from factmill.tasks.assets import find_asset
from factmill.tasks.core.evaluation.judge_cards import JudgeCard
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.fingerprints import digest_bytes
from factmill.tasks.core.measures.audits import AuditFigure, measure
from factmill.tasks.core.publishing.release_forms import REJECT_DETAILS
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.benchmark import Benchmark
from factmill.tasks.release.contents import Choices, LeftOut, Measured, PromptText, Release
from factmill.tasks.release.core.licences import find_refused
from factmill.tasks.reports.builds.contents import Shown
from factmill.tasks.storage.builds import BuildRecord, list_builds, published_names, published_table
from factmill.tasks.storage.export import read_rejects
from factmill.tasks.storage.reviews import find_cards, load_verdicts
from factmill.tasks.storage.warehouse import Connection, open_warehouse, read_records

_METRICS = "evaluation_metrics"
_NO_TEXTS = {"detail": "", "context": "", "proposed": [], "edited": [], "note": ""}
"""Empty texts for a review item whose own texts would reveal held-out answers."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Data of the warehouse about a build, apart from its tables."""

    rejects: pa.Table
    """stage, id, reason, detail."""
    licences: Sequence[str]
    """Licences of the rejected rows."""
    evaluations: tuple[Measured, ...]
    judge_cards: tuple[JudgeCard, ...]
    audit: tuple[AuditFigure, ...]

    def withhold(self, choices: Choices, held_out: Collection[str]) -> tuple[pa.Table, tuple[LeftOut, ...]]:
        """Return the rejects, without detail texts if these may quote what is left out, and the omission so made."""
        why = _tell_withheld(choices, held_out, self.licences)
        if not why:
            return self.rejects, ()
        at = self.rejects.column_names.index("detail")
        empty = pa.array([""] * self.rejects.num_rows, pa.string())
        left = LeftOut(REJECT_DETAILS, why, self.rejects.num_rows)
        return self.rejects.set_column(at, "detail", empty), (left,)


def read_beside(warehouse: Path, benchmark: Benchmark, build: BuildRecord) -> Beside:
    """Load the data of the warehouse about a build."""
    builds = list_builds(warehouse)
    with open_warehouse(warehouse) as db:
        evaluations = tuple(_find_evaluations(db, builds, build))
        return Beside(
            rejects=read_rejects(db, build.build_id),
            licences=_list_licences(db, build.build_id),
            evaluations=evaluations,
            judge_cards=tuple(_find_cards(db, benchmark.name, evaluations)),
            audit=tuple(measure(benchmark.audit, list(load_verdicts(db, build.build_id).values()))),
        )


def choose_shown(release: Release, answered: frozenset[str]) -> Shown:
    """Return what the report page of a release may show: the rows of the release, and nothing that it leaves out.

    `answered`: ids of the rows whose answers the release contains.
    """
    tables = {*release.forms.configs[0].splits.values()}
    splits = [split for config in release.configs for split in config.splits if split.table in tables]
    rows = frozenset(row_id for split in splits for row_id in split.rows["id"].to_pylist())
    withheld = [each.why for each in release.left_out if each.what == REJECT_DETAILS]
    return Shown(
        rows=rows,
        unanswered=rows - answered,
        withheld=f"What it says is left out: {withheld[0]}." if withheld else "",
        decisions=release.decisions,
        canary=release.forms.canary_line,
    )


def read_prompts(build: BuildRecord) -> Iterator[PromptText]:
    """Yield the prompts of the build's manifest; with their texts if the files are unchanged since."""
    for name, digest in sorted(build.lock["prompts"].items()):
        path = find_asset("prompts", f"{name}.md")
        data = path.read_bytes() if path else b""
        yield PromptText(name, digest, data.decode("utf-8") if digest_bytes(data) == digest else None)


def read_decisions(
    tables: Mapping[str, pa.Table], benchmark: Benchmark, held_out: Collection[str]
) -> Iterator[ReviewItem]:
    """Yield the items of the review queue; without texts if these would reveal held-out answers."""
    name = f"{benchmark.name}_review"
    for row in tables[name].to_pylist() if name in tables else ():
        yield ReviewItem.model_validate(row | (_NO_TEXTS if name in held_out else {}))


def _list_licences(db: Connection, build_id: str) -> list[str]:
    """Load the licences of the build's rejected rows."""
    query = (
        'SELECT DISTINCT regexp_extract(row, \'"licence": ?"([^"]*)"\', 1) AS licence FROM rejects WHERE build_id = ?'
    )
    return sorted(row["licence"] for row in read_records(db, query, build_id) if row["licence"])


def _tell_withheld(choices: Choices, held_out: Collection[str], under: Sequence[str]) -> str:
    """Return why the detail texts of rejects, which may quote rows, are left out; empty if they are not."""
    if held_out:
        return "they may tell answers of the test part"
    if choices.without or find_refused(under, choices.allowed):
        return "they may quote rows that are left out, or whose licence forbids it"
    return ""


def _find_evaluations(db: Connection, builds: Sequence[BuildRecord], build: BuildRecord) -> Iterator[Measured]:
    """Yield the evaluations on builds with this build's content, oldest first."""
    for each in builds:
        if each.lock["params"].get("source_digest") == build.content_digest and _METRICS in published_names(
            db, each.build_id
        ):
            yield Measured(each, rows_from_arrow(EvaluationMetric, published_table(db, each.build_id, _METRICS)))


def _find_cards(db: Connection, benchmark: str, evaluations: Sequence[Measured]) -> Iterator[JudgeCard]:
    """Yield the judge cards of the judges of these evaluations."""
    for judge in dict.fromkeys(each.record.report["facts"].get("judge") for each in evaluations):
        if judge:
            yield from find_cards(db, benchmark, judge)
