"""Attachments of a release: its build's rejects, review decisions, prompts, audit figures, judge cards, evaluations."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from factmill.tasks.assets import find_asset
from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.evaluation.judge_cards import JudgeCard
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.audits import AuditCriterionResult, compute_audit_criterion_results
from factmill.tasks.core.publishing.release_spec import REJECT_DETAILS_OMISSION
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.evaluation.definition import EXACT_JUDGE, Evaluation, find_judge_identity
from factmill.tasks.release.contents import BuildEvaluation, BuildPrompt, Release, ReleaseOmission, ReleaseOptions
from factmill.tasks.release.core.licences import list_licences_refused_unless_allowed
from factmill.tasks.reports.builds.build_page import BuildPageVisibility
from factmill.tasks.storage.builds import BuildRecord, list_builds, load_published_table, load_table_digests
from factmill.tasks.storage.export import read_rejects
from factmill.tasks.storage.human_judgments import load_audit_verdicts_by_row_id, load_judge_cards
from factmill.tasks.storage.warehouse import Connection, open_warehouse, query_rows

_METRICS_TABLE = "evaluation_metrics"
_EMPTY_REVIEW_TEXTS = {"detail": "", "context": "", "proposed": [], "edited": [], "note": ""}
"""Empty texts for a review item whose own texts would reveal held-out answers."""


@dataclass(frozen=True, slots=True)
class BuildRejectsEvaluationsAndAudit:
    """Data of the warehouse about a build, apart from its tables."""

    rejects: pa.Table
    """stage, id, reason, detail."""
    reject_licences: Sequence[str]
    """Licences of the rejected rows."""
    evaluations: tuple[BuildEvaluation, ...]
    judge_cards: tuple[JudgeCard, ...]
    audit: tuple[AuditCriterionResult, ...]

    def redact_rejects(
        self, choices: ReleaseOptions, held_out: Collection[str]
    ) -> tuple[pa.Table, tuple[ReleaseOmission, ...]]:
        """Return the rejects, without detail texts if these may quote what is left out, and the omission so made."""
        why = _explain_withheld_reject_details(choices, held_out, self.reject_licences)
        if not why:
            return self.rejects, ()
        at = self.rejects.column_names.index("detail")
        empty = pa.array([""] * self.rejects.num_rows, pa.string())
        left = ReleaseOmission(REJECT_DETAILS_OMISSION, why, self.rejects.num_rows)
        return self.rejects.set_column(at, "detail", empty), (left,)


def load_build_rejects_evaluations_and_audit(
    warehouse: Path, benchmark: Benchmark, build: BuildRecord
) -> BuildRejectsEvaluationsAndAudit:
    """Load the data of the warehouse about a build."""
    builds = list_builds(warehouse)
    with open_warehouse(warehouse) as db:
        evaluations = tuple(_load_evaluations(db, builds, build))
        return BuildRejectsEvaluationsAndAudit(
            rejects=read_rejects(db, build.build_id),
            reject_licences=_load_reject_licences(db, build.build_id),
            evaluations=evaluations,
            judge_cards=tuple(_load_evaluation_judge_cards(db, benchmark, evaluations)),
            audit=tuple(
                compute_audit_criterion_results(
                    benchmark.audit, list(load_audit_verdicts_by_row_id(db, build.build_id).values())
                )
            ),
        )


def make_page_visibility(release: Release, rows_with_answers: frozenset[str]) -> BuildPageVisibility:
    """Return what the report page of a release may show: the rows of the release, and nothing that it leaves out.

    `rows_with_answers`: ids of the rows whose answers the release contains.
    """
    tables = {*release.forms.configs[0].splits.values()}
    splits = [split for config in release.configs for split in config.splits if split.table in tables]
    rows = frozenset(row_id for split in splits for row_id in split.rows["id"].to_pylist())
    withheld = [each.why for each in release.left_out if each.what == REJECT_DETAILS_OMISSION]
    return BuildPageVisibility(
        rows=rows,
        unanswered=rows - rows_with_answers,
        withheld=f"The content is left out: {withheld[0]}." if withheld else "",
        decisions=release.decisions,
        canary=release.forms.canary_line,
    )


def load_build_prompts(build: BuildRecord) -> Iterator[BuildPrompt]:
    """Yield the prompts of the build's manifest: own ones with the texts that were recorded, others with those of their
    files if these are unchanged since."""
    for name, digest in sorted(build.lock["prompts"].items()):
        if name in build.own_prompts:
            yield BuildPrompt(name, digest, build.own_prompts[name], is_own=True)
            continue
        path = find_asset("prompts", f"{name}.md")
        data = path.read_bytes() if path else b""
        yield BuildPrompt(name, digest, data.decode("utf-8") if digest_bytes(data) == digest else None)


def iterate_review_items_blank_if_held_out(
    tables: Mapping[str, pa.Table], benchmark: Benchmark, held_out: Collection[str]
) -> Iterator[ReviewItem]:
    """Yield the items of the review queue; without texts if these would reveal held-out answers."""
    name = f"{benchmark.name}_review"
    for row in tables[name].to_pylist() if name in tables else ():
        yield ReviewItem.model_validate(row | (_EMPTY_REVIEW_TEXTS if name in held_out else {}))


def _load_reject_licences(db: Connection, build_id: str) -> list[str]:
    """Load the licences of the build's rejected rows."""
    query = (
        'SELECT DISTINCT regexp_extract(row, \'"licence": ?"([^"]*)"\', 1) AS licence FROM rejects WHERE build_id = ?'
    )
    return sorted(row["licence"] for row in query_rows(db, query, build_id) if row["licence"])


def _explain_withheld_reject_details(
    choices: ReleaseOptions, held_out: Collection[str], reject_licences: Sequence[str]
) -> str:
    """Return why the detail texts of rejects, which may quote rows, are left out; empty if they are not."""
    if held_out:
        return "they may reveal answers of the test part"
    if choices.excluded or list_licences_refused_unless_allowed(reject_licences, choices.allowed_licences):
        return "they may quote rows that are left out, or rows whose licence forbids redistribution"
    return ""


def _load_evaluations(db: Connection, builds: Sequence[BuildRecord], build: BuildRecord) -> Iterator[BuildEvaluation]:
    """Yield the evaluations on builds with this build's content, oldest first."""
    for each in builds:
        if each.lock["params"].get("source_digest") == build.content_digest and _METRICS_TABLE in load_table_digests(
            db, each.build_id
        ):
            yield BuildEvaluation(
                each, rows_from_arrow(EvaluationMetric, load_published_table(db, each.build_id, _METRICS_TABLE))
            )


def _load_evaluation_judge_cards(
    db: Connection, benchmark: Benchmark, evaluations: Sequence[BuildEvaluation]
) -> Iterator[JudgeCard]:
    """Yield the judge cards of the judges of these evaluations; of a model, those made with the same prompts."""
    judged = [each.record for each in evaluations if each.record.report["facts"].get("judge")]
    if not judged:
        return
    evaluation: Evaluation = load_named_object(benchmark.evaluation)
    identities = {find_judge_identity(evaluation, record.lock) for record in judged}
    for judge in dict.fromkeys(record.report["facts"]["judge"] for record in judged):
        for card in load_judge_cards(db, benchmark.name, judge):
            if judge == EXACT_JUDGE or card.identity in identities:
                yield card
