"""Definition of an evaluation: a build whose source is a published build and whose author is the model under test.

An `Evaluation` is a `Benchmark`, so all commands that list, show, explain, verify and export builds handle it too.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeVar

import pyarrow as pa
from pydantic import Field

from factmill.tasks.core.evaluation.judge_cards import JudgeIdentity
from factmill.tasks.core.evaluation.labels import LabelScheme
from factmill.tasks.core.evaluation.rows import Answer, Asked, EvaluationMetric
from factmill.tasks.core.fingerprints import digest_json
from factmill.tasks.core.measures.audits import draw_sample
from factmill.tasks.core.measures.figures import Figure
from factmill.tasks.core.measures.metrics import Metric
from factmill.tasks.core.prompts import Ask
from factmill.tasks.core.replies import TEXT, Form
from factmill.tasks.core.rows import MOST, Matching, arrow_table
from factmill.tasks.core.service_settings import CHAT_KINDS
from factmill.tasks.engine.batches import Work
from factmill.tasks.engine.benchmark import Benchmark, Inputs, Locked
from factmill.tasks.errors import SettingsError
from factmill.tasks.evaluation.measured import LATEST, find_measured, load_answers, read_held
from factmill.tasks.options import BuildReport, Option, Params, RunOptions
from factmill.tasks.settings import World, load_world
from factmill.tasks.storage.source_files import SourceFile
from factmill.tasks.storage.stores import Store
from factmill.tasks.text.whole import suggest_name

if TYPE_CHECKING:
    from prefect import Flow

    from factmill.tasks.evaluation.answering import Judging
    from factmill.tasks.models.cross_encoder import PairScorer
    from factmill.tasks.models.embed import Embedder

BUILT_IN = {
    "oracle": "the gold answers: every metric's best end",
    "guesser": "the commonest answer of the same kind: the floor",
    "silent": "no answer at all",
}
"""Models that need no server; they show the best and the worst value of each metric."""
EXACT = "exact"
"""The judge that is a program: it compares words, numbers and dates, and recognises no paraphrase."""
ANSWERER = "answerer"
ANSWERS = "answers"
"""Unit of an evaluation's source that holds its file of answers."""
METRICS = "evaluation_metrics"
"""Table with the metrics of every evaluation."""
_QUICK_BATCH = 20_000
"""Rows per batch of an evaluation that sends no requests."""


class EvaluationParams(Params):
    """Parameters of every evaluation; a benchmark adds its own."""

    build: Annotated[str, Option(metavar="BUILD")] = LATEST
    """The build to measure on: its id, the beginning of one, or latest: of whole builds of the default source the newest, else the newest of all. Default: the build whose questions --answers has answers to, where the file says it, else latest."""
    release: Annotated[str | None, Option(metavar="DIR")] = None
    """Measure on this release's folder instead: no build is needed; its files must be those of SHA256SUMS."""
    model: Annotated[str, Option(metavar="NAME")] = ANSWERER
    """A model of the world's file, [models.NAME]; or oracle, guesser, silent, which need no server. With --answers: what the model is called."""
    answers: Annotated[str | None, Option(metavar="FILE")] = None
    """Score these answers and ask no model: one JSON object a line, {"id": …, "answer": …}, with "setting" where there are several, and the "build" of the file of --questions."""
    limit: int | None = Field(default=None, ge=1, le=MOST)
    """Questions, drawn with the seed; those that rest on the same facts are drawn together."""
    seed: int = Field(default=0, ge=-MOST, le=MOST)
    """Seed of the draw of questions and of the intervals."""
    setting: Annotated[tuple[str, ...], Option("--setting", "NAME")] = ()
    """Only this setting (repeatable); an evaluation's own parameters name its settings."""

    @property
    def asks_model(self) -> bool:
        """True if a model of the world is called: the answers come neither from a file nor from a built-in model."""
        return self.answers is None and self.model not in BUILT_IN

    def list_roles(self) -> tuple[str, ...]:
        """Return the names, in the world's file, of the models that the evaluation calls."""
        return (self.model,) if self.asks_model else ()


class JudgedParams(EvaluationParams):
    """Parameters of an evaluation whose answers are judged."""

    judge: Annotated[str, Option(metavar="NAME")] = "judge"
    """The model of the world's file that judges, [models.NAME]; or exact, a program that compares words, numbers and dates, which stands in where the world's judge is no model."""

    def list_roles(self) -> tuple[str, ...]:
        """Return the names of the model under test and of the judge model."""
        return (*super().list_roles(), *(() if self.judge in ("", EXACT) else (self.judge,)))


class EvaluationInputs(Inputs):
    """Inputs of the steps of an evaluation."""

    resolved: ClassVar = frozenset({"build", "release", "answers"})
    params: EvaluationParams
    source_digest: str
    """Digest of what the measured build published."""
    settings: tuple[str, ...]
    """Settings (ways to ask the model) that are measured."""


I = TypeVar("I", bound=EvaluationInputs)  # noqa: E741 - inputs


@dataclass(frozen=True, slots=True)
class PaperFigure:
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
class Item:
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


def pick_worst(items: Iterable[Item]) -> list[Item]:
    """Sort items from worst to best: unscored items first, then by score ascending; ties by answer id."""
    return sorted(items, key=lambda item: (item.score is not None, item.score or 0.0, item.answer_id))


class Tools(Protocol):
    """Local models that compute scores, opened when they are first needed."""

    def embedder(self) -> "Embedder":
        """Return the world's sentence encoder."""

    def cross_encoder(self, name: str) -> "PairScorer":
        """Return the cross-encoder `name` of factmill's home; SettingsError if the home has none of that name."""


Leave = Callable[[BuildReport, "Evaluation", pa.Table, Sequence[EvaluationMetric]], None]
"""Callback that presents a finished evaluation: takes its report, definition, rows of the main table and metrics."""
Dialogue = Generator[Any, Any, Any]
"""Generator that puts one question to a model: yields a prompt (Ask) and receives the model's completion (Given), or
yields a lookup request of its benchmark and receives the result; returns the answer (Given)."""


def _ask_once(ask: Ask, read: Callable[[str], str]) -> Dialogue:
    given = yield ask
    return replace(given, read=tuple(map(read, given.read)))


def tell_answer(told: str, row: Answer) -> str:
    """Format the line of `explain` with an answer's text, its model and its finish reason."""
    return f"  answer      {told or '(none)'}   (by {row.model}{f', ended by {row.finish}' if row.finish else ''})"


def keep_answers(answers: pa.Table, _inputs: EvaluationInputs, _tools: Tools) -> pa.Table:
    """Return the answers unchanged, where scores are verdicts or follow from existing columns."""
    return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Benchmark):
    """Definition of how models are measured on one benchmark, shared by recipes, the Python API and other harnesses."""

    trace: tuple[str, ...] = ("id",)
    roles: Callable[[Any], Collection[str]] = lambda params: params.list_roles()
    matching: Matching = field(default_factory=partial(Matching, marks=("call", "tokens_in", "tokens_out")))
    params: type[EvaluationParams]
    lock_inputs: Callable[[Any, RunOptions], Locked[EvaluationInputs]]
    of: Benchmark
    """The benchmark that is measured on; questions are made of the rows of its main table."""
    settings: Mapping[str, str]
    """Setting → one line on how the model is asked."""
    usual: tuple[str, ...]
    """Default settings of an evaluation: those that the paper reports."""
    plain: tuple[str, ...]
    """Default settings where no model is called: of a file of answers that names none, and of the built-in models,
    whose answers do not depend on the setting."""
    headline: tuple[str, ...]
    """Metrics that `factmill evaluate` prints first, in this order."""
    main: str
    """The headline metric that represents the benchmark on a model's card."""
    meaning: str
    """What that metric measures, in one sentence for a reader who knows no metric by name."""
    gather: Callable[[Callable[[str], pa.Table]], pa.Table] | None = None
    """Loader of the measured build's tables by name → rows that questions are made of; None: the main table."""
    questions: Callable[[pa.Table, Any], Iterable[Asked] | pa.Table]
    """Rows of the measured build and the evaluation's inputs → the questions, as row models or as a table."""
    fill: Callable[[Any, Any], Ask]
    """A question and the evaluation's parameters → its first prompt."""
    converse: Callable[[Any, Any], Dialogue] | None = None
    """A question and the evaluation's parameters → its dialogue of several turns; None: the prompt of `fill`, once."""
    look: Callable[[Work, Sequence[tuple[str, Any]]], Sequence[Any]] | None = None
    """(row id, lookup request of its dialogue) pairs → the results, in the same order."""
    inputs: type[EvaluationInputs]
    asked: type[Asked]
    """Row model of questions."""
    answers: type[Answer]
    """Row model of answers before judging and scoring: the columns of `asked` and of `Answer`."""
    form: Form = TEXT
    """Format by which a completion is parsed."""
    read: Callable[[str], str] = str.strip
    """Text of a completion parsed by `form` → the answer that is scored."""
    oracle: Callable[[pa.Table], Callable[[Any], str]]
    """Rows of the measured build → function from a question to its gold answer."""
    guess: Callable[[pa.Table], Callable[[Any], str]]
    """Rows of the measured build → function from a question to the most common answer of its kind."""
    judging: "Judging[Any, Any, Any] | None" = None
    """How answers are judged; None: by no judge."""
    score: Callable[[pa.Table, Any, Tools], pa.Table] = keep_answers
    """Answers (judged if there is a judge), inputs of the evaluation and scoring models → rows of the main table."""
    measure: Callable[[pa.Table, Any], tuple[pa.Table, list[Metric]]]
    """Rows of the main table and inputs of the evaluation → rows of `Score` and the metrics."""
    notes: Callable[[Any], Sequence[str]] = lambda _: ()
    """Inputs of the evaluation → notes on its figures, one sentence each."""
    most_asked: int | None = None
    """Maximum number of questions per batch, where each takes much memory; None: the usual batch size."""
    figures: Callable[[Sequence[EvaluationMetric]], Sequence[Figure]]
    """Metrics of one or several models → figures like the paper's."""
    items: Callable[[pa.Table], Sequence[Item]]
    """Rows of the main table → items of a report's browser."""
    paper: tuple[PaperFigure, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    """Headline metrics where lower values are better."""
    labels: LabelScheme | None = None
    """Verdicts of the judge, for human raters to give the same labels; None: there is no judge."""

    def gather_rows(self, read: Callable[[str], pa.Table]) -> pa.Table:
        """Return the rows that questions are made of; `read` loads a table of the measured build by name."""
        return read(self.of.main_table) if self.gather is None else self.gather(read)

    def make_flow(self, leave: "Leave") -> "Flow[..., BuildReport]":
        """Return the Prefect flow of the evaluation: ask, answer, judge if there is a judge, score, measure, publish.

        `leave` adds the results to Prefect's UI.
        """
        from factmill.tasks.evaluation import (
            steps,  # Prefect's settings are fixed when a flow is made, not when this module is imported
        )

        return steps.make_flow(self, leave)

    def start(self, asked: Asked, params: EvaluationParams) -> Dialogue:
        """Start the dialogue that puts a question to a model."""
        if self.converse is not None:
            return self.converse(asked, params)
        return _ask_once(self.fill(asked, params), self.read)

    def label_metrics(self, metrics: Sequence[Metric], model: str, judge: str) -> list[EvaluationMetric]:
        """Return metrics as rows of the published table, with the benchmark, the model under test and the judge."""
        return [
            EvaluationMetric(
                id="/".join(filter(None, (metric.setting, metric.metric, metric.group_by, metric.group))),
                benchmark=self.of.name,
                model=model,
                judge=judge,
                **metric.model_dump(),
            )
            for metric in metrics
        ]

    def list_questions(self, rows: pa.Table, inputs: EvaluationInputs) -> pa.Table:
        """Return the questions (rows of `asked`) made of rows of the measured build."""
        found = self.questions(rows, inputs)
        return found if isinstance(found, pa.Table) else arrow_table(self.asked, found)


def identify_judge(evaluation: Evaluation, lock: Mapping[str, Any]) -> JudgeIdentity | None:
    """Return the identity of an evaluation's judge from its manifest; None if nothing was judged."""
    name = name_judge(lock)
    if not name or evaluation.labels is None:
        return None
    prompts = {prompt: lock["prompts"][prompt] for prompt in evaluation.labels.prompts}
    digest = digest_json(lock["code"] if name == EXACT else prompts)
    return JudgeIdentity(benchmark=evaluation.of.name, judge=name, prompt_digest=digest)


def name_judge(lock: Mapping[str, Any]) -> str:
    """Return the name of an evaluation's judge from its manifest: the model's name, `exact`, or empty."""
    judge: str = lock["params"]["params"].get("judge", "")
    return judge if judge in ("", EXACT) else str(lock["models"][judge])


def lock_evaluation(
    evaluation: Evaluation, params: EvaluationParams, run: RunOptions, inputs: type[I], **more: Any
) -> Locked[I]:
    """Resolve the inputs of an evaluation; UsageError for options that do not fit.

    `more`: further fields of the benchmark's own inputs.
    """
    world = load_world(run.world, run.graph)
    measured = find_measured(evaluation.of, params, run)
    changed: dict[str, Any] = {"build": measured.record.build_id}
    if params.release is not None:
        changed["release"] = str(measured.store.path)
    files: dict[str, list[SourceFile]] = {}
    if measured.answers is not None:
        changed["answers"] = str(measured.answers.path)
        files[ANSWERS] = [measured.answers]
    else:
        check_model(world, params.model, "--model")
    if isinstance(params, JudgedParams):
        changed["judge"] = choose_judge(world, params.judge)
    settings = tuple(dict.fromkeys(params.setting))
    locked = inputs(
        params=params.model_copy(update=changed),
        source_digest=measured.record.content_digest,
        settings=settings or (evaluation.usual if not files and params.model not in BUILT_IN else evaluation.plain),
        **more,
    )
    if measured.answers is not None:
        keys = list_keys(list_asked(evaluation, measured.store, locked))
        load_answers(measured.answers).require_known(keys, f"{params.answers}, measured on {measured.record.build_id}")
    return Locked(locked, files, author=name_model(params, world), notes=measured.notes)


def list_asked(evaluation: Evaluation, store: Store, inputs: EvaluationInputs) -> pa.Table:
    """Load the rows of a store and return the questions made of them (rows of `asked`)."""
    return evaluation.list_questions(
        evaluation.gather_rows(lambda name: read_held(evaluation.of, store, name)[0]), inputs
    )


def list_keys(asked: pa.Table) -> list[tuple[str, str]]:
    """Return the (setting, question id) pairs of a table of questions or of answers."""
    return list(zip(asked["setting"].to_pylist(), asked["question_id"].to_pylist(), strict=True))


def settle_batches(params: EvaluationParams, run: RunOptions) -> RunOptions:
    """Return options with larger batches for an evaluation that calls no model, where a failed batch loses no reply."""
    return run if params.asks_model else run.model_copy(update={"batch_size": max(run.batch_size, _QUICK_BATCH)})


def name_model(params: EvaluationParams, world: World) -> str:
    """Return the name of the model under test in tables and reports."""
    if params.answers is not None:
        return Path(params.answers).stem if params.model == ANSWERER else params.model
    if params.model in BUILT_IN:
        return params.model
    name = world.models[params.model].name
    return name if params.model in (ANSWERER, name) else f"{params.model} ({name})"


def read_params(work: Work) -> dict[str, Any]:
    """Return an evaluation's parameters from its manifest, for any benchmark."""
    params: dict[str, Any] = work.run.lock["params"]["params"]
    return params


def draw_clusters(clusters: Sequence[str], params: EvaluationParams) -> set[str]:
    """Return the clusters whose questions are asked: all, or `params.limit` of them drawn with the seed."""
    distinct = sorted(set(clusters))
    return set(distinct if params.limit is None else draw_sample(distinct, params.limit, params.seed))


def choose_judge(world: World, name: str) -> str:
    """Return the judge's name: a chat model of the world, or `exact` where the world's own judge is no real model."""
    if name == EXACT or (name == "judge" and (name not in world.models or world.models[name].kind == "scripted")):
        return EXACT
    _require_model(world, name, "--judge", [EXACT])
    return name


def check_model(world: World, name: str, option: str) -> None:
    """SettingsError unless `name` is a built-in model or a chat model of the world; `option`: that named it."""
    if name not in BUILT_IN:
        _require_model(world, name, option, [*BUILT_IN])


def _require_model(world: World, name: str, option: str, others: Sequence[str]) -> None:
    """SettingsError unless the world has a chat model of that name."""
    there = [each for each, model in world.models.items() if model.kind in CHAT_KINDS and each != "perplexity"]
    if name not in there:
        known = ", ".join([*there, *others])
        raise SettingsError(
            f"{option} {name}: the world {world.name} names no model so that could be asked; there are: {known}"
            f'{suggest_name(name, [*there, *others])}. Add [models.{name}] with kind = "openai" to the world\'s file'
        )
