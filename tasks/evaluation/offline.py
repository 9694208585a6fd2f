"""Answers scored without a build around them, for programs and for other harnesses: nothing is asked, nothing is recorded.

The same functions as in a recipe (record.py), so the same answers give the same numbers.
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
"""Parameters that a program has no option for: what is measured on and who answers are its arguments."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What answers are worth."""

    answers: pa.Table
    """Rows of the benchmark's table of answers."""
    scores: pa.Table
    """Rows of `<benchmark>_scores`: one an answer and metric."""
    metrics: pa.Table
    """Rows of `evaluation_metrics`: value, n, n_unscored, bounds, interval; overall and by group."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What does not fit of the answers: missing, extra and doubled ids."""


@dataclass(frozen=True)
class Session:
    """One way to measure on the rows of one build."""

    evaluation: Evaluation
    inputs: EvaluationInputs
    rows: pa.Table
    """Of the measured build."""
    services: Services
    """For the models of this machine that scores are computed with."""
    build: str = ""
    """Id of that build; empty where a folder of tables does not say it."""
    choice: str = ""
    """What was passed over where the latest build is measured on (`describe_choice`)."""
    lacks: Sequence[str] = ()
    """Tables of hidden answers that the release which is measured on was made without: its other questions are asked."""

    def narrow(self, ids: Collection[str]) -> "Session":
        """Return the session with these rows of the measured build alone."""
        kept = pa.array([each in ids for each in self.rows["id"].to_pylist()], pa.bool_())
        return replace(self, rows=self.rows.filter(kept))

    @cached_property
    def work(self) -> Work:
        """What looks things up with: its calls are recorded in the home's warehouse, and served from there."""
        recorder = Recorder(default_warehouse(), "record")
        atexit.register(recorder.close)
        batch = Batch(run="", stage="look_up", index=0, key="")
        return Work(batch, Run(Path(), {"params": {}}, {"files": {}}, {}, self.services, recorder, self.inputs))

    def look_up(self, row_id: str, wanted: object) -> Any:
        """Return what a dialogue wants looked up."""
        if self.evaluation.look is None:
            raise TypeError(f"{self.evaluation.name} looks up {wanted!r}, and has nothing that does")
        return self.evaluation.look(self.work, [(row_id, wanted)])[0]

    def list_questions(self) -> pa.Table:
        """Return the questions that are asked (rows of the evaluation's `asked`)."""
        return self.evaluation.list_questions(self.rows, self.inputs)

    def score_answers(self, answers: AnswersFile | str, name: str, asked: pa.Table | None = None) -> Scored:
        """Return what answers are worth: those given, or those of a built-in model; `name`: what the model is called.

        `asked`: what was asked (rows of the evaluation's `asked`); None: all of the session's questions.
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
        """Return answers as judged rows by the program `exact`, where the benchmark has its answers judged."""
        judging = self.evaluation.judging
        if judging is None:
            return answers
        judged = (
            judging.mark(row, Judged(judging.compare(row)) if judging.wants(row) else None, EXACT)
            for row in rows_from_arrow(self.evaluation.answers, answers)
        )
        return arrow_table(judging.row, judged)

    def score(self, answers: pa.Table) -> pa.Table:
        """Return answers, judged where they are to be, as rows of the main table."""
        return self.evaluation.score(answers, self.inputs, self.services)

    def measure(self, scored: pa.Table, name: str, judge: str = EXACT) -> Scored:
        """Return what rows of the main table are worth."""
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
    """Return a way to measure on the rows of a build; `world`: whose sentence encoder compares texts.

    `store`: None where what was asked is at hand; `asked_of`: the build whose questions were answered, where the answers say
    it, which is then measured on; `options`: parameters of the evaluation. UsageError says what was
    expected, SourceError what is wrong with the rows.
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
    """Return a question (a row of `asked`) as other programs are given it; `build`: whose question it is."""
    told = {"id": asked.question_id, "setting": asked.setting, "question": asked.question}
    return {**told, "messages": list(messages), "build": build}


def take_asked(evaluation: Evaluation, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return what was asked, by rows that have its columns and perhaps others; SourceError says what is wrong."""
    model = evaluation.asked
    try:
        kept = [model.model_validate({name: row[name] for name in model.model_fields}) for row in rows]
    except (KeyError, ValidationError) as error:
        raise SourceError(f"asked: no rows of what {evaluation.of.name} asks: {error}") from error
    return arrow_table(model, kept)
