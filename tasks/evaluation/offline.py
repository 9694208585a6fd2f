"""Scoring of answers outside a build, for the Python API and other harnesses: no model is called, no build is written.

It uses the same functions as recipes (`Evaluation`), so the same answers give the same metrics.
"""

import atexit
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_origin

import pyarrow as pa
from pydantic import ValidationError

from factmill.tasks.core.evaluation.answers import AnswersFile
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.receipts import Batch
from factmill.tasks.core.rows import arrow_table, rows_from_arrow
from factmill.tasks.engine.batches import Work
from factmill.tasks.engine.runs import Run
from factmill.tasks.engine.services import Services
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.evaluation.answering import Judged, answer_built_in, take_answers
from factmill.tasks.evaluation.measured import check_asked_of, check_tables, is_held_back, read_held
from factmill.tasks.evaluation.record import EXACT, Evaluation, EvaluationInputs, JudgedParams, list_keys
from factmill.tasks.settings import default_warehouse, home
from factmill.tasks.storage.builds import LATEST_OF, describe_choice, find_build, list_builds, rank_latest
from factmill.tasks.storage.recording.recorder import Recorder
from factmill.tasks.storage.released_folders import is_release, open_release
from factmill.tasks.storage.stores import Store
from factmill.tasks.text.whole import suggest_name

_SAID_OTHERWISE = EvaluationInputs.resolved | {"model"}
"""Parameters that are no options of a session, which takes the build and the answers as arguments."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores and metrics of a set of answers."""

    answers: pa.Table
    """Rows of the benchmark's table of answers."""
    scores: pa.Table
    """Rows of `<benchmark>_scores`: one per answer and metric."""
    metrics: pa.Table
    """Rows of `evaluation_metrics`: value, n, n_unscored, bounds, interval; overall and by group."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Mismatches between answers and questions: missing, extra and repeated ids."""


@dataclass(frozen=True)
class Session:
    """An evaluation with fixed inputs, on the rows of one build."""

    evaluation: Evaluation
    inputs: EvaluationInputs
    rows: pa.Table
    """Rows of the measured build."""
    services: Services
    """Access to the local models that compute scores."""
    build: str = ""
    """Id of that build; empty if a folder of tables does not state it."""
    choice: str = ""
    """Which builds were passed over in choosing the latest one (`describe_choice`)."""
    lacks: Sequence[str] = ()
    """Tables of hidden answers that the measured release lacks; only its other questions are asked."""

    def narrow(self, ids: Collection[str]) -> "Session":
        """Return the session restricted to the rows of the measured build with these ids."""
        kept = pa.array([each in ids for each in self.rows["id"].to_pylist()], pa.bool_())
        return replace(self, rows=self.rows.filter(kept))

    @cached_property
    def work(self) -> Work:
        """Work that sends lookup requests; its calls are recorded in the home's warehouse and replayed from there."""
        recorder = Recorder(default_warehouse(), "record")
        atexit.register(recorder.close)
        batch = Batch(run="", stage="look_up", index=0, key="")
        return Work(batch, Run(Path(), {"params": {}}, {"files": {}}, {}, self.services, recorder, self.inputs))

    def look_up(self, row_id: str, wanted: object) -> Any:
        """Return the result of a dialogue's lookup request."""
        if self.evaluation.look is None:
            raise TypeError(f"{self.evaluation.name} looks up {wanted!r}, and has nothing that does")
        return self.evaluation.look(self.work, [(row_id, wanted)])[0]

    def list_questions(self) -> pa.Table:
        """Return the questions (rows of the evaluation's `asked`)."""
        return self.evaluation.list_questions(self.rows, self.inputs)

    def score_answers(self, answers: AnswersFile | str, name: str, asked: pa.Table | None = None) -> Scored:
        """Score answers: those given, or those of the built-in model of that name; `name`: of the model in the results.

        `asked`: the questions (rows of the evaluation's `asked`); None: all of the session's.
        """
        asked = self.list_questions() if asked is None else asked
        notes: dict[str, str] = {}
        if isinstance(answers, str):
            answered = answer_built_in(self.evaluation, asked, self.rows, answers, name)
        else:
            keys = list_keys(asked)
            answers.require_known(keys, f"answers to questions of {self.build or self.evaluation.of.name}")
            answered = take_answers(self.evaluation, asked, answers, name)
            notes |= answers.describe(keys)
        if self.lacks:
            lacking = ", ".join(self.lacks)
            notes["held out"] = f"the release has no {lacking}: questions with hidden answers are not measured"
        if self.choice:
            notes["latest"] = self.choice
        return replace(self.measure(self.score(self.judge(answered)), name), notes=notes)

    def judge(self, answers: pa.Table) -> pa.Table:
        """Return answers judged by the program `exact`; unchanged if the benchmark has no judge."""
        judging = self.evaluation.judging
        if judging is None:
            return answers
        judged = (
            judging.mark(row, Judged(judging.compare(row)) if judging.wants(row) else None, EXACT)
            for row in rows_from_arrow(self.evaluation.answers, answers)
        )
        return arrow_table(judging.row, judged)

    def score(self, answers: pa.Table) -> pa.Table:
        """Score answers, which are judged if the benchmark has a judge, and return rows of the main table."""
        return self.evaluation.score(answers, self.inputs, self.services)

    def measure(self, scored: pa.Table, name: str, judge: str = EXACT) -> Scored:
        """Compute the scores and metrics of rows of the main table."""
        scores, metrics = self.evaluation.measure(scored, self.inputs)
        told = self.evaluation.label_metrics(metrics, name, judge if self.evaluation.judging else "")
        return Scored(scored, scores, arrow_table(EvaluationMetric, told))


def open_session(
    evaluation: Evaluation,
    store: Store | None,
    settings: Sequence[str],
    world: str = "embedded",
    asked_of: str = "",
    **options: Any,
) -> Session:
    """Open a session that measures on the rows of a build; `world`: the world whose sentence encoder compares texts.

    `store`: None if the caller has the questions already; `asked_of`: the build that the answers refer to, which is
    then measured on, or empty; `options`: parameters of the evaluation. UsageError for wrong options, SourceError for
    rows that do not fit.
    """
    known = evaluation.params.model_fields
    for name, value in options.items():
        if get_origin(known[name].annotation if name in known else None) is tuple and isinstance(value, str):
            options[name] = (value,)
        if name not in known or name in _SAID_OTHERWISE:
            raise UsageError(f"{evaluation.of.name}: there is no option {name}{suggest_name(name, known)}")
    if issubclass(evaluation.params, JudgedParams) and options.setdefault("judge", EXACT) != EXACT:
        raise UsageError(f"judge is {options['judge']}; here no model is asked: expected {EXACT}")
    try:
        params = evaluation.params(**options, setting=tuple(settings))
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{evaluation.of.name}: {first['loc'][0]} is {first['input']!r}: {first['msg']}") from error
    digests: list[str] = []
    lacks: list[str] = []
    build, choice = "", ""
    if store and store.path.is_file():
        if not store.build and not asked_of:
            mine = [each for each in list_builds(store.path) if each.benchmark == evaluation.of.name]
            choice = describe_choice(rank_latest(mine))
        build = find_build(store.path, store.build or asked_of or f"{LATEST_OF}{evaluation.of.name}").build_id
        store = Store(store.path, build)
    elif store and is_release(store.path):
        build = open_release(store.path).record.build_id
    if store:
        check_asked_of(asked_of if build else "", build, "answers")
        check_tables(evaluation.of, store)

    def read(table: str) -> pa.Table:
        if store and is_held_back(evaluation.of, store, table):
            lacks.append(table)
        rows, digest = read_held(evaluation.of, store, table) if store else (pa.table({}), "")
        digests.append(digest)
        return rows

    rows = evaluation.gather_rows(read) if store else pa.table({})
    inputs = evaluation.inputs(params=params, source_digest="".join(digests[:1]), settings=params.setting)
    return Session(evaluation, inputs, rows, Services.open(world, None, home()), build, choice, lacks)


def describe_question(asked: Any, messages: Sequence[Mapping[str, str]], build: str) -> dict[str, Any]:
    """Return a question (a row of `asked`) as JSON for other programs; `build`: id of its build."""
    told = {"id": asked.question_id, "setting": asked.setting, "question": asked.question}
    return {**told, "messages": list(messages), "build": build}


def take_asked(evaluation: Evaluation, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return questions (rows of `asked`) from rows with at least their columns; SourceError if they do not fit."""
    model = evaluation.asked
    try:
        kept = [model.model_validate({name: row[name] for name in model.model_fields}) for row in rows]
    except (KeyError, ValidationError) as error:
        raise SourceError(f"asked: no rows of what {evaluation.of.name} asks: {error}") from error
    return arrow_table(model, kept)
