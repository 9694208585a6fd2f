"""What an evaluation is to everything around it: a build whose source is a published build and whose author is a model.

It has a record like a benchmark's, so what lists, shows, explains, verifies and exports builds knows it too.
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
"""Models that need no server; they say what each metric's ends are."""
EXACT = "exact"
"""The judge that is a program: it compares words, numbers and dates, and knows no other way to say the same."""
ANSWERER = "answerer"
ANSWERS = "answers"
"""Unit of an evaluation's source under which its file of answers lies."""
METRICS = "evaluation_metrics"
"""The table in which all evaluations have their metrics."""
_QUICK_BATCH = 20_000
"""Rows a batch where nothing is sent."""


class EvaluationParams(Params):
    """What every evaluation can be told; a benchmark adds its own."""

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
        """True where a model of the world is asked: the answers are neither a file's nor those of a built-in model."""
        return self.answers is None and self.model not in BUILT_IN

    def list_roles(self) -> tuple[str, ...]:
        """Return the models of the world that the evaluation asks, by their names in its file."""
        return (self.model,) if self.asks_model else ()


class JudgedParams(EvaluationParams):
    """Of an evaluation whose answers a judge looks at."""

    judge: Annotated[str, Option(metavar="NAME")] = "judge"
    """The model of the world's file that judges, [models.NAME]; or exact, a program that compares words, numbers and dates, which stands in where the world's judge is no model."""

    def list_roles(self) -> tuple[str, ...]:
        """Return the model under test, and the one that judges."""
        return (*super().list_roles(), *(() if self.judge in ("", EXACT) else (self.judge,)))


class EvaluationInputs(Inputs):
    """What the steps of an evaluation read."""

    resolved: ClassVar = frozenset({"build", "release", "answers"})
    params: EvaluationParams
    source_digest: str
    """Digest of what the measured build published."""
    settings: tuple[str, ...]
    """Ways in which the model is asked."""


I = TypeVar("I", bound=EvaluationInputs)  # noqa: E741 - inputs


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure that the paper published, beside which ours stands."""

    metric: str
    setting: str
    model: str
    value: float
    where: str
    """Table or figure of the paper."""
    note: str = ""
    """Why ours may not be comparable."""
    group_by: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """One answer as the browser of a report tells it."""

    answer_id: str
    setting: str
    question: str
    gold: str
    answer: str
    verdict: str
    """In a few words: right, level 2, wrong, unscored: refused."""
    score: float | None
    """By which the worst come first; None: unscored."""
    row_id: str
    """Row of the measured build, which `factmill explain` tells."""
    groups: Mapping[str, str]
    """By what the browser can be filtered: relation, language, …"""


def pick_worst(items: Iterable[Item]) -> list[Item]:
    """Return items, the worst first: what is unscored, then the lowest scores, by id among equals."""
    return sorted(items, key=lambda item: (item.score is not None, item.score or 0.0, item.answer_id))


class Tools(Protocol):
    """What scores are computed with beside the answers: models of this machine, opened when they are needed."""

    def embedder(self) -> "Embedder":
        """Return the world's sentence encoder."""

    def cross_encoder(self, name: str) -> "PairScorer":
        """Return a cross-encoder of the home; SettingsError where there is none of that name."""


Leave = Callable[[BuildReport, "Evaluation", pa.Table, Sequence[EvaluationMetric]], None]
"""What shows a finished evaluation: its report, record, rows of the main table and metrics."""
Dialogue = Generator[Any, Any, Any]
"""How a question is put: yields the next prompt (Ask) and is sent what the model said (Given), or yields what the room is to
look up and is sent what that found; returns the answer (Given)."""


def _ask_once(ask: Ask, read: Callable[[str], str]) -> Dialogue:
    given = yield ask
    return replace(given, read=tuple(map(read, given.read)))


def tell_answer(told: str, row: Answer) -> str:
    """Return what `explain` says of an answer first: its text, who gave it, and how it ended."""
    return f"  answer      {told or '(none)'}   (by {row.model}{f', ended by {row.finish}' if row.finish else ''})"


def keep_answers(answers: pa.Table, _inputs: EvaluationInputs, _tools: Tools) -> pa.Table:
    """Return answers as they are: the scores are verdicts, or follow from columns that are there."""
    return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Benchmark):
    """How models are measured on one benchmark: all that a recipe, a program and another harness go by alike."""

    trace: tuple[str, ...] = ("id",)
    roles: Callable[[Any], Collection[str]] = lambda params: params.list_roles()
    matching: Matching = field(default_factory=partial(Matching, marks=("call", "tokens_in", "tokens_out")))
    params: type[EvaluationParams]
    lock_inputs: Callable[[Any, RunOptions], Locked[EvaluationInputs]]
    of: Benchmark
    """What it measures on; the rows are those of its main table."""
    settings: Mapping[str, str]
    """Setting → a line that says how the model is asked."""
    usual: tuple[str, ...]
    """Settings of an evaluation that names none: what the paper reports."""
    plain: tuple[str, ...]
    """Settings that answers of a file belong to where it names none; those of the built-in models, which answer alike
    however they are asked."""
    headline: tuple[str, ...]
    """Metrics that the command prints first, in this order."""
    main: str
    """The headline metric that stands for the benchmark on a model's card."""
    meaning: str
    """What that metric's number says of a model, in one sentence for a reader who knows no metric by name."""
    gather: Callable[[Callable[[str], pa.Table]], pa.Table] | None = None
    """The measured build's tables by name → the rows that questions are made of; None: those of its main table."""
    questions: Callable[[pa.Table, Any], Iterable[Asked] | pa.Table]
    """Rows of the measured build and the evaluation's inputs → the questions that are asked, as rows or as columns."""
    fill: Callable[[Any, Any], Ask]
    """A question and the evaluation's parameters → the first prompt that it is put in."""
    converse: Callable[[Any, Any], Dialogue] | None = None
    """A question and the evaluation's parameters → how it is put where that takes several turns; None: `fill`, once."""
    look: Callable[[Work, Sequence[tuple[str, Any]]], Sequence[Any]] | None = None
    """(row id, what a dialogue wants looked up) → what was found, in that order."""
    inputs: type[EvaluationInputs]
    asked: type[Asked]
    """Row model of what is asked."""
    answers: type[Answer]
    """Row model of answers, before they are judged and scored: the columns of `asked` and of `Answer`."""
    form: Form = TEXT
    """How an answer is read."""
    read: Callable[[str], str] = str.strip
    """An answer, read in its form, as it is scored."""
    oracle: Callable[[pa.Table], Callable[[Any], str]]
    """Rows of the measured build → a question → its gold answer."""
    guess: Callable[[pa.Table], Callable[[Any], str]]
    """Rows of the measured build → a question → the commonest answer of its kind."""
    judging: "Judging[Any, Any, Any] | None" = None
    """How answers are judged, where a judge is asked."""
    score: Callable[[pa.Table, Any, Tools], pa.Table] = keep_answers
    """Answers, judged where there is a judge → rows of the main table; inputs of the evaluation."""
    measure: Callable[[pa.Table, Any], tuple[pa.Table, list[Metric]]]
    """Rows of the main table and inputs of the evaluation → rows of `Score`, and the metrics."""
    notes: Callable[[Any], Sequence[str]] = lambda _: ()
    """Inputs of the evaluation → what is to be said beside the figures, a sentence each."""
    most_asked: int | None = None
    """Questions that a model is asked side by side, where each holds much in memory."""
    figures: Callable[[Sequence[EvaluationMetric]], Sequence[Figure]]
    """Metrics, of one model or several, as the paper's figures."""
    items: Callable[[pa.Table], Sequence[Item]]
    """Rows of the main table, as a report's browser tells them."""
    paper: tuple[PaperFigure, ...] = ()
    lower_is_better: tuple[str, ...] = ()
    """Headline metrics of which less is better."""
    labels: LabelScheme | None = None
    """What a judge's verdicts are, for people to give the same; None: no judge is asked."""

    def gather_rows(self, read: Callable[[str], pa.Table]) -> pa.Table:
        """Return the rows that questions are made of; `read`: a table of the measured build, by name."""
        return read(self.of.main_table) if self.gather is None else self.gather(read)

    def make_flow(self, leave: "Leave") -> "Flow[..., BuildReport]":
        """Return the Prefect flow of the evaluation: asks, answers, judges where there is a judge, scores, measures, publishes.

        `leave`: leaves in Prefect's UI what the flow made.
        """
        from factmill.tasks.evaluation import (
            steps,  # Prefect's settings stand when a flow is made, not when a record is read
        )

        return steps.make_flow(self, leave)

    def start(self, asked: Asked, params: EvaluationParams) -> Dialogue:
        """Return how a question is put to a model, turn by turn."""
        if self.converse is not None:
            return self.converse(asked, params)
        return _ask_once(self.fill(asked, params), self.read)

    def label_metrics(self, metrics: Sequence[Metric], model: str, judge: str) -> list[EvaluationMetric]:
        """Return metrics as rows of the published table, with the benchmark, the model under test and what judged."""
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
        """Return the questions that are asked (rows of `asked`), by the rows of the measured build."""
        found = self.questions(rows, inputs)
        return found if isinstance(found, pa.Table) else arrow_table(self.asked, found)


def identify_judge(evaluation: Evaluation, lock: Mapping[str, Any]) -> JudgeIdentity | None:
    """Return what judged an evaluation, by its lock; None where nothing did."""
    name = name_judge(lock)
    if not name or evaluation.labels is None:
        return None
    prompts = {prompt: lock["prompts"][prompt] for prompt in evaluation.labels.prompts}
    digest = digest_json(lock["code"] if name == EXACT else prompts)
    return JudgeIdentity(benchmark=evaluation.of.name, judge=name, prompt_digest=digest)


def name_judge(lock: Mapping[str, Any]) -> str:
    """Return what judged an evaluation, by its lock: the model's name, `exact`, or nothing."""
    judge: str = lock["params"]["params"].get("judge", "")
    return judge if judge in ("", EXACT) else str(lock["models"][judge])


def lock_evaluation(
    evaluation: Evaluation, params: EvaluationParams, run: RunOptions, inputs: type[I], **more: Any
) -> Locked[I]:
    """Return what an evaluation depends on; UsageError says what was expected.

    `more`: what the benchmark's own inputs hold beside.
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
    """Return the questions that are asked on the rows of a store (rows of `asked`)."""
    return evaluation.list_questions(
        evaluation.gather_rows(lambda name: read_held(evaluation.of, store, name)[0]), inputs
    )


def list_keys(asked: pa.Table) -> list[tuple[str, str]]:
    """Return (setting, question id) of questions, or of answers to them."""
    return list(zip(asked["setting"].to_pylist(), asked["question_id"].to_pylist(), strict=True))


def settle_batches(params: EvaluationParams, run: RunOptions) -> RunOptions:
    """Return the options of an evaluation that asks no model with larger batches: no reply is lost with one."""
    return run if params.asks_model else run.model_copy(update={"batch_size": max(run.batch_size, _QUICK_BATCH)})


def name_model(params: EvaluationParams, world: World) -> str:
    """Return what the model under test is called in tables and reports."""
    if params.answers is not None:
        return Path(params.answers).stem if params.model == ANSWERER else params.model
    if params.model in BUILT_IN:
        return params.model
    name = world.models[params.model].name
    return name if params.model in (ANSWERER, name) else f"{params.model} ({name})"


def read_params(work: Work) -> dict[str, Any]:
    """Return an evaluation's parameters as its lock has them, whichever benchmark it is of."""
    params: dict[str, Any] = work.run.lock["params"]["params"]
    return params


def draw_clusters(clusters: Sequence[str], params: EvaluationParams) -> set[str]:
    """Return the clusters whose questions are asked: all, or a seeded draw of so many."""
    distinct = sorted(set(clusters))
    return set(distinct if params.limit is None else draw_sample(distinct, params.limit, params.seed))


def choose_judge(world: World, name: str) -> str:
    """Return the judge of an evaluation: a model of the world, or the program where its judge is no model."""
    if name == EXACT or (name == "judge" and (name not in world.models or world.models[name].kind == "scripted")):
        return EXACT
    _require_model(world, name, "--judge", [EXACT])
    return name


def check_model(world: World, name: str, option: str) -> None:
    """SettingsError unless a model can be measured: one that is built in, or a chat model of the world; `option` named it."""
    if name not in BUILT_IN:
        _require_model(world, name, option, [*BUILT_IN])


def _require_model(world: World, name: str, option: str, others: Sequence[str]) -> None:
    """SettingsError unless the world names a chat model so."""
    there = [each for each, model in world.models.items() if model.kind in CHAT_KINDS and each != "perplexity"]
    if name not in there:
        known = ", ".join([*there, *others])
        raise SettingsError(
            f"{option} {name}: the world {world.name} names no model so that could be asked; there are: {known}"
            f'{suggest_name(name, [*there, *others])}. Add [models.{name}] with kind = "openai" to the world\'s file'
        )
