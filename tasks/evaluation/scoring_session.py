"""Scoring of answers outside a build, for the Python API and other harnesses: no model is called, no build is written.

It uses the same functions as recipes (`Evaluation`), so the same answers give the same metrics.
"""

import atexit
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_origin

import pyarrow as pa
from pydantic import ValidationError

from factmill.tasks.core.batch_receipts import StageBatch
from factmill.tasks.core.evaluation.answers import ParsedAnswersFile
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.measures.metrics import format_metric_with_interval
from factmill.tasks.core.rows import make_arrow_table, rows_from_arrow
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.evaluation.answering_and_judging import (
    AnswerJudgment,
    make_built_in_predictions,
    make_predictions_from_file,
)
from factmill.tasks.evaluation.definition import (
    EXACT_JUDGE,
    Evaluation,
    EvaluationInputs,
    JudgedEvaluationParams,
    list_setting_and_question_id_pairs,
)
from factmill.tasks.evaluation.measured_build import (
    check_answers_match_build,
    check_release_tables_fit_row_models,
    is_held_out_of_release,
    load_benchmark_table_with_digest,
)
from factmill.tasks.options import format_invalid_option, format_unknown_option
from factmill.tasks.settings import default_warehouse_path, factmill_home
from factmill.tasks.storage.builds import (
    LATEST_PREFIX,
    format_latest_build_choice_note,
    list_builds,
    rank_builds_for_latest,
    resolve_build,
)
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.released_folders import is_release, load_verified_release
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.text.html_tables import render_titled_html_table
from factmill.tasks.text.sanitize import escape_control_characters

_RESERVED_OPTIONS = EvaluationInputs.resolved | {"model"}
"""Parameters that are no options of a session, which takes the build and the answers as arguments."""
_MAX_PRINTED_METRICS = 12
_METRIC_HEADINGS = ("setting", "metric", "value", "95 % interval", "n", "unscored", "note")


@dataclass(frozen=True, slots=True)
class ScoringResult:
    """Scores and metrics of a set of answers."""

    answers: pa.Table
    """Rows of the benchmark's table of answers."""
    scores: pa.Table
    """Rows of `<benchmark>_scores`: one per answer and metric."""
    metrics: pa.Table
    """Rows of `evaluation_metrics`: value, n, n_unscored, bounds, interval; overall and by group."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Mismatches between answers and questions: missing, extra and repeated ids."""

    def __repr__(self) -> str:
        """Return the first metrics over all items with their intervals, one a line."""
        metrics = rows_from_arrow(EvaluationMetric, self.metrics)
        overall = [each for each in metrics if not each.group_by]
        shown = [
            f"{each.setting:12} {each.metric:26} {format_metric_with_interval(each)}"
            for each in overall[:_MAX_PRINTED_METRICS]
        ]
        left = len(overall) - len(shown)
        lines = [*shown, *([f"{left} more in .metrics"] if left else []), *self._list_note_lines()]
        return "\n  ".join([f"<ScoringResult {_format_model_and_benchmark(metrics)}", *lines]) + ">"

    def _repr_html_(self) -> str:
        """Return the metrics over all items as HTML, for notebooks."""
        metrics = rows_from_arrow(EvaluationMetric, self.metrics)
        return render_metrics_html(_format_model_and_benchmark(metrics), metrics, notes=self._list_note_lines())

    def _list_note_lines(self) -> list[str]:
        return [f"{kind}: {what}" for kind, what in self.notes.items()]


def _format_model_and_benchmark(metrics: Sequence[EvaluationMetric]) -> str:
    return f"{escape_control_characters(metrics[0].model)} on {metrics[0].benchmark}" if metrics else "no metric"


@dataclass(frozen=True)
class EvaluationSession:
    """An evaluation with fixed inputs, on the rows of one build."""

    evaluation: Evaluation
    inputs: EvaluationInputs
    rows: pa.Table
    """Rows of the measured build."""
    services: WorldServices
    """Access to the local models that compute scores."""
    build_id: str = ""
    """Id of that build; empty if a folder of tables does not state it."""
    latest_choice: str = ""
    """Which builds were passed over in choosing the latest one (`format_latest_build_choice_note`)."""
    lacking_tables: Sequence[str] = ()
    """Tables of hidden answers that the measured release lacks; only its other questions are asked."""

    def with_build_rows(self, ids: Collection[str]) -> "EvaluationSession":
        """Return the session restricted to the rows of the measured build with these ids."""
        kept = pa.array([each in ids for each in self.rows["id"].to_pylist()], pa.bool_())
        return replace(self, rows=self.rows.filter(kept))

    @cached_property
    def lookup_work(self) -> BatchInProgress:
        """Work that sends lookup requests; its calls are recorded in the home's warehouse and replayed from there."""
        recorder = CallCache(default_warehouse_path(), "record")
        atexit.register(recorder.close)
        return self.make_work(recorder)

    def make_work(self, call_cache: CallCache, model: str = "") -> BatchInProgress:
        """Return work that sends requests through a call cache; `model`: the model under test, by its name in the world's file."""
        batch = StageBatch(run="", stage="ask", index=0, key="")
        manifest = {"params": {"params": {"model": model}}}
        return BatchInProgress(
            batch, BuildRun(Path(), manifest, {"files": {}}, {}, self.services, call_cache, self.inputs)
        )

    def look_up(self, row_id: str, request: object) -> Any:
        """Return the result of a dialogue's lookup request."""
        if self.evaluation.look_up is None:
            raise TypeError(
                f"{self.evaluation.name}: its dialogue requests the lookup {request!r}, but the evaluation defines no look_up"
            )
        return self.evaluation.look_up(self.lookup_work, [(row_id, request)])[0]

    def list_questions(self) -> pa.Table:
        """Return the questions (rows of the evaluation's `question_model`)."""
        return self.evaluation.list_questions(self.rows, self.inputs)

    def score_answers(
        self, answers: ParsedAnswersFile | str, model_name: str, questions: pa.Table | None = None
    ) -> ScoringResult:
        """Score answers: those given, or those of the built-in model of that name; `model_name`: of the model in the results.

        `questions`: the questions (rows of the evaluation's `question_model`); None: all of the session's.
        """
        questions = self.list_questions() if questions is None else questions
        notes: dict[str, str] = {}
        if isinstance(answers, str):
            answered = make_built_in_predictions(self.evaluation, questions, self.rows, answers, model_name)
        else:
            keys = list_setting_and_question_id_pairs(questions)
            answers.require_any_match(
                keys, f"answers to questions of {self.build_id or self.evaluation.benchmark.name}"
            )
            answered = make_predictions_from_file(self.evaluation, questions, answers, model_name)
            notes |= answers.format_mismatches(keys)
        if self.lacking_tables:
            lacking = ", ".join(self.lacking_tables)
            notes["held out"] = f"the release has no {lacking}: questions with hidden answers are left out"
        if self.latest_choice:
            notes["latest"] = self.latest_choice
        return replace(
            self.compute_metrics(self.score_predictions(self.judge_exactly(answered)), model_name), notes=notes
        )

    def judge_exactly(self, answers: pa.Table) -> pa.Table:
        """Return answers judged by the program `exact`; unchanged if the benchmark has no judge."""
        judging = self.evaluation.judging_spec
        if judging is None:
            return answers
        judged = (
            judging.make_judged_row(
                row, AnswerJudgment(judging.judge_exactly(row)) if judging.needs_verdict(row) else None, EXACT_JUDGE
            )
            for row in rows_from_arrow(self.evaluation.prediction_model, answers)
        )
        return make_arrow_table(judging.row_model, judged)

    def score_predictions(self, answers: pa.Table) -> pa.Table:
        """Score answers, which are judged if the benchmark has a judge, and return rows of the main table."""
        return self.evaluation.score_predictions(answers, self.inputs, self.services)

    def compute_metrics(self, scored: pa.Table, model_name: str, judge: str = EXACT_JUDGE) -> ScoringResult:
        """Compute the scores and metrics of rows of the main table."""
        scores, metrics = self.evaluation.compute_metrics(scored, self.inputs)
        labelled = self.evaluation.label_metrics(metrics, model_name, judge if self.evaluation.judging_spec else "")
        return ScoringResult(scored, scores, make_arrow_table(EvaluationMetric, labelled))


def open_scoring_session(
    evaluation: Evaluation,
    store: TableStore | None,
    settings: Sequence[str],
    world: str = "embedded",
    asked_of: str = "",
    **options: Any,
) -> EvaluationSession:
    """Open a session that measures on the rows of a build; `world`: the world whose sentence encoder compares texts.

    `store`: None if the caller has the questions already; `asked_of`: the build that the answers refer to, which is
    then measured on, or empty; `options`: parameters of the evaluation. UsageError for wrong options, SourceError for
    rows that do not fit.
    """
    known = evaluation.params.model_fields
    for name, value in options.items():
        if get_origin(known[name].annotation if name in known else None) is tuple and isinstance(value, str):
            options[name] = (value,)
        if name not in known or name in _RESERVED_OPTIONS:
            text = format_unknown_option(name, known.keys() - _RESERVED_OPTIONS | {"setting", "source"})
            raise UsageError(f"{evaluation.benchmark.name}: {text}")
    if (
        issubclass(evaluation.params, JudgedEvaluationParams)
        and options.setdefault("judge", EXACT_JUDGE) != EXACT_JUDGE
    ):
        raise UsageError(f"judge is {options['judge']!r}; no model is called here, expected {EXACT_JUDGE!r}")
    try:
        params = evaluation.params(**options, setting=tuple(settings))
    except ValidationError as error:
        raise UsageError(f"{evaluation.benchmark.name}: {format_invalid_option(error)}") from error
    digests: list[str] = []
    lacks: list[str] = []
    build, choice = "", ""
    if store and store.path.is_file():
        if not store.build and not asked_of:
            builds = [each for each in list_builds(store.path) if each.benchmark == evaluation.benchmark.name]
            choice = format_latest_build_choice_note(rank_builds_for_latest(builds))
        build = resolve_build(
            store.path, store.build or asked_of or f"{LATEST_PREFIX}{evaluation.benchmark.name}"
        ).build_id
        store = TableStore(store.path, build)
    elif store and is_release(store.path):
        build = load_verified_release(store.path).record.build_id
    if store:
        check_answers_match_build(asked_of if build else "", build, "answers")
        check_release_tables_fit_row_models(evaluation.benchmark, store)

    def read(table: str) -> pa.Table:
        if store and is_held_out_of_release(evaluation.benchmark, store, table):
            lacks.append(table)
        rows, digest = (
            load_benchmark_table_with_digest(evaluation.benchmark, store, table) if store else (pa.table({}), "")
        )
        digests.append(digest)
        return rows

    rows = evaluation.load_question_rows(read) if store else pa.table({})
    inputs = evaluation.inputs_model(params=params, source_digest="".join(digests[:1]), settings=params.setting)
    return EvaluationSession(
        evaluation, inputs, rows, WorldServices.open(world, None, factmill_home()), build, choice, lacks
    )


def make_question_json(question: Any, messages: Sequence[Mapping[str, str]], build: str) -> dict[str, Any]:
    """Return a question (a row of `question_model`) as JSON for other programs; `build`: id of its build."""
    fields = {"id": question.question_id, "setting": question.setting, "question": question.question}
    return {**fields, "messages": list(messages), "build": build}


def make_question_table(evaluation: Evaluation, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return questions (rows of `question_model`) from rows with at least their columns; SourceError if they do not fit."""
    model = evaluation.question_model
    try:
        kept = [model.model_validate({name: row[name] for name in model.model_fields}) for row in rows]
    except (KeyError, ValidationError) as error:
        raise SourceError(f"asked: the rows are not questions of {evaluation.benchmark.name}: {error}") from error
    return make_arrow_table(model, kept)


def render_metrics_html(
    title: str, metrics: Iterable[EvaluationMetric], only: Collection[str] = (), notes: Sequence[str] = ()
) -> str:
    """Return the metrics over all items as an HTML table for notebooks, in the order given; `only`: names of the metrics to show; empty: all."""
    overall = [each for each in metrics if not each.group_by and (not only or each.metric in only)]
    rows = (
        (
            each.setting,
            each.metric,
            None if each.value is None else f"{each.value:.3f}",
            None if each.ci_low is None else f"{each.ci_low:.3f} to {each.ci_high:.3f}",
            each.n,
            each.n_unscored,
            each.note,
        )
        for each in overall
    )
    return render_titled_html_table(title, _METRIC_HEADINGS, rows, notes)
