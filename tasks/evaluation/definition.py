"""Definition of an evaluation: a build whose source is a published build and whose author is the model under test.

An `Evaluation` is a `Benchmark`, so all commands that list, show, explain, verify and export builds handle it too.
"""

import json
import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeVar

import pyarrow as pa
from pydantic import Field

from factmill.tasks.core.completions import PLAIN_TEXT_FORMAT, CompletionFormat
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.evaluation.human_labels import JudgeVerdictLabelScheme
from factmill.tasks.core.evaluation.judge_cards import JudgeIdentity
from factmill.tasks.core.evaluation.rows import EvaluationMetric, EvaluationPrediction, EvaluationQuestion
from factmill.tasks.core.measures.audits import draw_audit_sample_ids
from factmill.tasks.core.measures.metrics import MeasuredMetric
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.core.rows import MAX_SETTING_NUMBER, BuildRowMatchingRules, make_arrow_table
from factmill.tasks.core.service_settings import CHAT_MODEL_KINDS
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.engine.benchmark import Benchmark, BuildInputs, BuildInputsAndSourceFiles
from factmill.tasks.errors import SettingsError
from factmill.tasks.evaluation.measured_build import (
    LATEST_BUILD_KEYWORD,
    load_answers_file,
    load_benchmark_table_with_digest,
    resolve_measured_build,
)
from factmill.tasks.options import BenchmarkParams, BuildReport, CliOption, RunOptions
from factmill.tasks.settings import SHIPPED_WORLDS, World, load_world
from factmill.tasks.storage.source_files import SourceFile
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.text.sanitize import format_did_you_mean

if TYPE_CHECKING:
    from prefect import Flow

    from factmill.tasks.evaluation.answering_and_judging import JudgingSpec
    from factmill.tasks.models.cross_encoder import PairScorer
    from factmill.tasks.models.embedders import Embedder

BUILT_IN_MODELS = {
    "oracle": "gives the gold answers, to show the best value that each metric can reach",
    "guesser": "gives the most common gold answer among questions of the same kind, as a baseline",
    "silent": "gives no answer",
}
"""Models that need no server; they show the best and the worst value of each metric."""
EXACT_JUDGE = "exact"
"""The judge that is a program: it compares words, numbers and dates, and recognises no paraphrase."""
ANSWERER_MODEL_NAME = "answerer"
ANSWERS_FILE_UNIT = "answers"
"""Unit of an evaluation's source that holds its file of answers."""
EVALUATION_METRICS_TABLE = "evaluation_metrics"
"""Table with the metrics of every evaluation."""
_OFFLINE_BATCH_ROWS = 20_000
"""Rows per batch of an evaluation that sends no requests."""


class EvaluationParams(BenchmarkParams):
    """Parameters of every evaluation; a benchmark adds its own."""

    build: Annotated[str, CliOption(metavar="BUILD")] = LATEST_BUILD_KEYWORD
    """Build to measure on: its id, the start of its id, latest:BENCHMARK or latest. latest:BENCHMARK is the newest full build, made from the default source without options of `factmill build` such as --source and --limit. If there is none, it is the newest of all the benchmark's builds. latest is short for latest:BENCHMARK with this benchmark. If you give --world or --prompts, latest considers only builds made with them. Default: the build named in the --answers file, if any; otherwise latest."""
    release: Annotated[str | None, CliOption(metavar="DIR")] = None
    """Measure on the release in this folder instead of a build. Its files must match its SHA256SUMS."""
    model: Annotated[str, CliOption(metavar="NAME")] = ANSWERER_MODEL_NAME
    """Model to measure: [models.NAME] in the world's file, or a built-in model (oracle, guesser or silent), which needs no server. With --answers: the model's name in tables and reports."""
    answers: Annotated[str | None, CliOption(metavar="FILE")] = None
    """Score the answers in this file instead of asking the model to measure. The judge may still be a model (see --judge). Each line is a JSON object with the keys id, setting, build and answer; copy the first three from the file that --questions wrote."""
    limit: int | None = Field(default=None, ge=1, le=MAX_SETTING_NUMBER)
    """Number of questions to draw at random (see --seed). Questions about the same facts are drawn together. Default: all."""
    seed: int = Field(default=0, ge=-MAX_SETTING_NUMBER, le=MAX_SETTING_NUMBER)
    """Seed for drawing the questions and for the confidence intervals."""
    setting: Annotated[tuple[str, ...], CliOption(metavar="NAME")] = ()
    """Only this setting (repeatable)."""

    @property
    def calls_tested_model(self) -> bool:
        """True if a model of the world is called: the answers come neither from a file nor from a built-in model."""
        return self.answers is None and self.model not in BUILT_IN_MODELS

    def list_model_names(self) -> tuple[str, ...]:
        """Return the names, in the world's file, of the models that the evaluation calls."""
        return (self.model,) if self.calls_tested_model else ()


class JudgedEvaluationParams(EvaluationParams):
    """Parameters of an evaluation whose answers are judged."""

    judge: Annotated[str, CliOption(metavar="NAME")] = "judge"
    """Who decides whether an answer is right: a model ([models.NAME] in the world's file), or "exact" (a program that compares words, numbers and dates). The embedded world has no judge model, so exact is used there."""

    def list_model_names(self) -> tuple[str, ...]:
        """Return the names of the model under test and of the judge model."""
        return (*super().list_model_names(), *(() if self.judge in ("", EXACT_JUDGE) else (self.judge,)))


class EvaluationInputs(BuildInputs):
    """Inputs of the steps of an evaluation."""

    resolved: ClassVar = frozenset({"build", "release", "answers"})
    params: EvaluationParams
    source_digest: str
    """Digest of what the measured build published."""
    settings: tuple[str, ...]
    """Settings (ways to ask the model) that are measured."""


I = TypeVar("I", bound=EvaluationInputs)  # noqa: E741 - inputs


@dataclass(frozen=True, slots=True)
class PaperResult:
    """A metric value that the paper reports, for comparison with ours."""

    metric: str
    setting: str
    model: str
    value: float
    where: str
    """Table or figure of the paper."""
    note: str = ""
    """Why our value may not be comparable."""
    group_by: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class AnswerShownInReport:
    """One answer as a report's item browser shows it."""

    answer_id: str
    setting: str
    question: str
    gold: str
    answer: str
    verdict: str
    """In a few words, such as right, level 2, wrong, unscored: refused."""
    score: float | None
    """Sort key of the browser, lowest first; None: unscored."""
    row_id: str
    """Row of the measured build, for `factmill explain`."""
    groups: Mapping[str, str]
    """Filter of the browser (relation, language, …) → the answer's value."""


def sort_answers_worst_first(items: Iterable[AnswerShownInReport]) -> list[AnswerShownInReport]:
    """Sort items from worst to best: unscored items first, then by score ascending; ties by answer id."""
    return sorted(items, key=lambda item: (item.score is not None, item.score or 0.0, item.answer_id))


class LocalScoringModels(Protocol):
    """Local models that compute scores, opened when they are first needed."""

    def embedder(self) -> "Embedder":
        """Return the world's sentence encoder."""

    def cross_encoder(self, name: str) -> "PairScorer":
        """Return the cross-encoder `name` of factmill's home; SettingsError if the home has none of that name."""


FinishedEvaluationHandler = Callable[[BuildReport, "Evaluation", pa.Table, Sequence[EvaluationMetric]], None]
"""Callback that presents a finished evaluation: takes its report, definition, rows of the main table and metrics."""
DialogueGenerator = Generator[Any, Any, Any]
"""Generator that puts one question to a model: yields a FilledPrompt and receives a ModelPrediction, or
yields a lookup request of its benchmark and receives the result; returns the answer, a ModelPrediction."""


def _make_single_turn_dialogue(ask: FilledPrompt, read_answer: Callable[[str], str]) -> DialogueGenerator:
    given = yield ask
    return replace(given, read_texts=tuple(map(read_answer, given.read_texts)))


def format_explain_answer_line(answer: str, row: EvaluationPrediction) -> str:
    """Format the line of `explain` with an answer's text, its model and its finish reason."""
    return f"  answer      {answer or '(none)'}   (by {row.model}{f', ended by {row.finish}' if row.finish else ''})"


def return_answers_unscored(answers: pa.Table, _inputs: EvaluationInputs, _tools: LocalScoringModels) -> pa.Table:
    """Return the answers unchanged, where scores are verdicts or follow from existing columns."""
    return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Benchmark):
    """Definition of how models are measured on one benchmark, shared by recipes, the Python API and other harnesses."""

    trace_id_columns: tuple[str, ...] = ("id",)
    model_roles: Callable[[Any], Collection[str]] = lambda params: params.list_model_names()
    matching: BuildRowMatchingRules = field(
        default_factory=partial(
            BuildRowMatchingRules, provenance_columns=("call", "judge_call", "judge_calls", "tokens_in", "tokens_out")
        )
    )
    params: type[EvaluationParams]
    resolve_inputs: Callable[[Any, RunOptions], BuildInputsAndSourceFiles[EvaluationInputs]]
    benchmark: Benchmark
    """The benchmark that is measured on; questions are made of the rows of its main table."""
    settings: Mapping[str, str]
    """Setting → one line on how the model is asked."""
    default_settings: tuple[str, ...]
    """Default settings of an evaluation: those that the paper reports."""
    offline_settings: tuple[str, ...]
    """Default settings where no model is called: of a file of answers that names none, and of the built-in models,
    whose answers do not depend on the setting."""
    headline_metrics: tuple[str, ...]
    """Metrics that `factmill evaluate` prints first, in this order."""
    main_metric: str
    """The headline metric that represents the benchmark on a model's card."""
    main_metric_meaning: str
    """What that metric measures, in one sentence for a reader who knows no metric by name."""
    combine_tables: Callable[[Callable[[str], pa.Table]], pa.Table] | None = None
    """Loader of the measured build's tables by name → rows that questions are made of; None: the main table."""
    make_questions: Callable[[pa.Table, Any], Iterable[EvaluationQuestion] | pa.Table]
    """Rows of the measured build and the evaluation's inputs → the questions, as row models or as a table."""
    make_prompt: Callable[[Any, Any], FilledPrompt]
    """A question and the evaluation's parameters → its first prompt."""
    make_dialogue: Callable[[Any, Any], DialogueGenerator] | None = None
    """A question and the evaluation's parameters → its dialogue of several turns; None: the prompt of `make_prompt`, once."""
    look_up: Callable[[BatchInProgress, Sequence[tuple[str, Any]]], Sequence[Any]] | None = None
    """(row id, lookup request of its dialogue) pairs → the results, in the same order."""
    inputs_model: type[EvaluationInputs]
    question_model: type[EvaluationQuestion]
    """Row model of questions."""
    prediction_model: type[EvaluationPrediction]
    """Row model of answers before judging and scoring: the columns of `question_model` and of `EvaluationPrediction`."""
    completion_format: CompletionFormat = PLAIN_TEXT_FORMAT
    """Format by which a completion is parsed."""
    read_answer: Callable[[str], str] = str.strip
    """Text of a completion parsed by `completion_format` → the answer that is scored."""
    make_oracle: Callable[[pa.Table], Callable[[Any], str]]
    """Rows of the measured build → function from a question to its gold answer."""
    make_guesser: Callable[[pa.Table], Callable[[Any], str]]
    """Rows of the measured build → function from a question to the most common answer of its kind."""
    judging_spec: "JudgingSpec[Any, Any, Any] | None" = None
    """How answers are judged; None: by no judge."""
    score_predictions: Callable[[pa.Table, Any, LocalScoringModels], pa.Table] = return_answers_unscored
    """Answers (judged if there is a judge), inputs of the evaluation and scoring models → rows of the main table."""
    compute_metrics: Callable[[pa.Table, Any], tuple[pa.Table, list[MeasuredMetric]]]
    """Rows of the main table and inputs of the evaluation → rows of `Score` and the metrics."""
    list_notes: Callable[[Any], Sequence[str]] = lambda _: ()
    """Inputs of the evaluation → notes on its figures, one sentence each."""
    max_concurrent_questions: int | None = None
    """Maximum number of questions per batch, where each takes much memory; None: the usual batch size."""
    draw_figures: Callable[[Sequence[EvaluationMetric]], Sequence[ReportFigure]]
    """Metrics of one or several models → figures like the paper's."""
    list_report_items: Callable[[pa.Table], Sequence[AnswerShownInReport]]
    """Rows of the main table → items of a report's browser."""
    paper_results: tuple[PaperResult, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    """Headline metrics where lower values are better."""
    label_scheme: JudgeVerdictLabelScheme | None = None
    """Verdicts of the judge, for human raters to give the same labels; None: there is no judge."""

    def load_question_rows(self, load_table: Callable[[str], pa.Table]) -> pa.Table:
        """Return the rows that questions are made of; `load_table` loads a table of the measured build by name."""
        return load_table(self.benchmark.main_table) if self.combine_tables is None else self.combine_tables(load_table)

    def make_flow(self, on_finished: "FinishedEvaluationHandler") -> "Flow[..., BuildReport]":
        """Return the Prefect flow of the evaluation: ask, answer, judge if there is a judge, score, measure, publish.

        `on_finished` adds the results to Prefect's UI.
        """
        from factmill.tasks.evaluation import (
            steps,  # Prefect's settings are fixed when a flow is made, not when this module is imported
        )

        return steps.make_evaluation_flow(self, on_finished)

    def start_dialogue(self, question: EvaluationQuestion, params: EvaluationParams) -> DialogueGenerator:
        """Start the dialogue that puts a question to a model."""
        if self.make_dialogue is not None:
            return self.make_dialogue(question, params)
        return _make_single_turn_dialogue(self.make_prompt(question, params), self.read_answer)

    def label_metrics(self, metrics: Sequence[MeasuredMetric], model: str, judge: str) -> list[EvaluationMetric]:
        """Return metrics as rows of the published table, with the benchmark, the model under test and the judge."""
        return [
            EvaluationMetric(
                id="/".join(filter(None, (metric.setting, metric.metric, metric.group_by, metric.group))),
                benchmark=self.benchmark.name,
                model=model,
                judge=judge,
                **metric.model_dump(),
            )
            for metric in metrics
        ]

    def list_questions(self, rows: pa.Table, inputs: EvaluationInputs) -> pa.Table:
        """Return the questions (rows of `question_model`) made of rows of the measured build."""
        found = self.make_questions(rows, inputs)
        return found if isinstance(found, pa.Table) else make_arrow_table(self.question_model, found)


def find_judge_identity(evaluation: Evaluation, manifest: Mapping[str, Any]) -> JudgeIdentity | None:
    """Return the identity of an evaluation's judge from its manifest; None if nothing was judged."""
    name = get_judge_name(manifest)
    if not name or evaluation.label_scheme is None:
        return None
    prompts = {prompt: manifest["prompts"][prompt] for prompt in evaluation.label_scheme.prompts}
    digest = digest_json(manifest["code"] if name == EXACT_JUDGE else prompts)
    return JudgeIdentity(benchmark=evaluation.benchmark.name, judge=name, prompt_digest=digest)


def get_judge_name(manifest: Mapping[str, Any]) -> str:
    """Return the name of an evaluation's judge from its manifest: the model's name, `exact`, or empty."""
    judge: str = manifest["params"]["params"].get("judge", "")
    return judge if judge in ("", EXACT_JUDGE) else str(manifest["models"][judge])


def resolve_evaluation_inputs(
    evaluation: Evaluation, params: EvaluationParams, run: RunOptions, inputs_model: type[I], **more: Any
) -> BuildInputsAndSourceFiles[I]:
    """Resolve the inputs of an evaluation; UsageError for options that do not fit.

    `more`: further fields of the benchmark's own inputs.
    """
    world = load_world(run.world, run.graph)
    if params.answers is None:
        is_build_named = params.build != LATEST_BUILD_KEYWORD or params.release is not None
        build = "" if is_build_named else f"latest:{evaluation.benchmark.name}"
        check_tested_model(world, params.model, "--model", build)
    measured = resolve_measured_build(evaluation.benchmark, params, run)
    changed: dict[str, Any] = {"build": measured.record.build_id}
    if params.release is not None:
        changed["release"] = str(measured.store.path)
    files: dict[str, list[SourceFile]] = {}
    if measured.answers_file is not None:
        changed["answers"] = str(measured.answers_file.path)
        files[ANSWERS_FILE_UNIT] = [measured.answers_file]
    if isinstance(params, JudgedEvaluationParams):
        changed["judge"] = resolve_judge_name(world, params.judge, measured.record.build_id)
    settings = tuple(dict.fromkeys(params.setting))
    locked = inputs_model(
        params=params.model_copy(update=changed),
        source_digest=measured.record.content_digest,
        settings=settings
        or (
            evaluation.default_settings
            if not files and params.model not in BUILT_IN_MODELS
            else evaluation.offline_settings
        ),
        **more,
    )
    if measured.answers_file is not None:
        keys = list_setting_and_question_id_pairs(load_evaluation_questions(evaluation, measured.store, locked))
        load_answers_file(measured.answers_file).require_any_match(
            keys, f"{params.answers}, measured on {measured.record.build_id}"
        )
    return BuildInputsAndSourceFiles(locked, files, author=get_tested_model_name(params, world), notes=measured.notes)


def load_evaluation_questions(evaluation: Evaluation, store: TableStore, inputs: EvaluationInputs) -> pa.Table:
    """Load the rows of a store and return the questions made of them (rows of `question_model`)."""
    return evaluation.list_questions(
        evaluation.load_question_rows(
            lambda name: load_benchmark_table_with_digest(evaluation.benchmark, store, name)[0]
        ),
        inputs,
    )


def list_setting_and_question_id_pairs(questions: pa.Table) -> list[tuple[str, str]]:
    """Return the (setting, question id) pairs of a table of questions or of answers."""
    return list(zip(questions["setting"].to_pylist(), questions["question_id"].to_pylist(), strict=True))


def enlarge_batches_if_no_model_calls(params: EvaluationParams, run: RunOptions) -> RunOptions:
    """Return options with larger batches for an evaluation that calls no model, where a failed batch loses no reply."""
    return (
        run
        if params.calls_tested_model
        else run.model_copy(update={"batch_size": max(run.batch_size, _OFFLINE_BATCH_ROWS)})
    )


def get_tested_model_name(params: EvaluationParams, world: World) -> str:
    """Return the name of the model under test in tables and reports."""
    if params.answers is not None:
        return Path(params.answers).stem if params.model == ANSWERER_MODEL_NAME else params.model
    if params.model in BUILT_IN_MODELS:
        return params.model
    name = world.models[params.model].name
    return name if params.model in (ANSWERER_MODEL_NAME, name) else f"{params.model} ({name})"


def get_evaluation_params(work: BatchInProgress) -> dict[str, Any]:
    """Return an evaluation's parameters from its manifest, for any benchmark."""
    params: dict[str, Any] = work.run.manifest["params"]["params"]
    return params


def sample_question_clusters(clusters: Sequence[str], params: EvaluationParams) -> set[str]:
    """Return the clusters whose questions are asked: all, or `params.limit` of them drawn with the seed."""
    distinct = sorted(set(clusters))
    return set(distinct if params.limit is None else draw_audit_sample_ids(distinct, params.limit, params.seed))


def resolve_judge_name(world: World, name: str, build: str = "") -> str:
    """Return the judge's name: a chat model of the world, or `exact` where the world's own judge is no real model.

    `build`: the build that an error advises to name, if any.
    """
    if name == EXACT_JUDGE or (name == "judge" and (name not in world.models or world.models[name].kind == "scripted")):
        return EXACT_JUDGE
    _check_chat_model(world, name, "--judge", [EXACT_JUDGE], build)
    return name


def check_tested_model(world: World, name: str, option: str, build: str = "") -> None:
    """SettingsError unless `name` is a built-in model or a chat model of the world.

    `option`: the option that named it; `build`: the build that the error advises to name, if any.
    """
    if name not in BUILT_IN_MODELS:
        _check_chat_model(world, name, option, [*BUILT_IN_MODELS], build)


def _check_chat_model(world: World, name: str, option: str, others: Sequence[str], build: str) -> None:
    """SettingsError unless the world has a chat model of that name."""
    there = [each for each, model in world.models.items() if model.kind in CHAT_MODEL_KINDS and each != "perplexity"]
    if name in there:
        return
    is_built_in = world.name in SHIPPED_WORLDS
    key = name if re.fullmatch("[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
    advice = (
        _format_world_file_example(name, key, build)
        if is_built_in
        else f' To use another model, add [models.{key}] with kind = "openai", name and url to the world\'s file'
    )
    raise SettingsError(
        f"{option} {name}: the {'built-in ' if is_built_in else ''}world {world.name!r} has no chat model called {name!r}; "
        f"available: {', '.join([*there, *others])}{format_did_you_mean(name, [*there, *others]) or '.'}{advice}"
    )


def _format_world_file_example(model: str, model_key: str, build: str) -> str:
    """Return a world file with a model of the user's own, and the options with which to repeat the command."""
    return f"""
To use a model of your own, write a world file, for example mine.toml:

    name = "mine"
    user_agent = "factmill/0.1 (you@example.org)"  # your address, which Wikimedia's services require
    [models.{model_key}]
    kind = "openai"                      # the protocol, which most servers speak
    name = {json.dumps(model, ensure_ascii=False):<28}  # the model's name at its server
    url = "http://127.0.0.1:8000/v1"     # the server's address
    # key_env = "MY_KEY"                 # the variable that holds the API key, if the server needs one

Then repeat the command with {"these options (the build is named since it is not from this world)" if build else "this option"}:

    --world mine.toml{build and f" --build {build}"}"""
