"""`factmill.answer`: put questions to a model of a world's file, or to an async function, and return answers to score.

What fails to be delivered is no answer: it is recorded as unscored, with the reason. A model of a world is asked as in
`factmill evaluate`: the same prompts, dialogues, clients and recorded calls, so that neither asks what the other has asked.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from factmill.flows.evaluate.sessions import get_evaluation, open_evaluation_session, open_table_store
from factmill.tasks.core.evaluation.rows import EvaluationQuestion
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.engine.services import check_model_variables_and_libraries
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.answering_and_judging import run_dialogues
from factmill.tasks.evaluation.definition import BUILT_IN_MODELS, check_tested_model
from factmill.tasks.evaluation.scoring_session import EvaluationSession
from factmill.tasks.settings import default_warehouse_path, load_world
from factmill.tasks.storage.builds import resolve_build
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.released_folders import is_release, load_verified_release
from factmill.tasks.storage.table_store import TableStore

AskFunction = Callable[[list[dict[str, str]]], Awaitable[str]]
"""Async function: messages of the chat protocol → the model's text."""
Asked = Mapping[str, Any]
"""A question as `factmill.questions` returns it."""
_MAX_DETAIL_CHARACTERS = 500
_BATCH_QUESTIONS = 500
"""Questions whose dialogues run together."""


async def answer_questions(
    model: str | AskFunction,
    asked: Sequence[Asked],
    *,
    benchmark: str,
    world: str,
    source: str | Path | TableStore | None,
    concurrency: int,
    options: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return an answer to each question, in order; see `factmill.answer`."""
    for number, each in enumerate(asked, 1):
        if not isinstance(each, Mapping) or not {"id", "setting", "messages"} <= each.keys():
            raise UsageError(
                f"asked, row {number}: expected a question with id, setting and messages, as factmill.questions returns them"
            )
    if isinstance(model, str):
        session = _open_session(model, asked, benchmark, world, source, options)
        return await asyncio.to_thread(
            _answer_questions_with_named_model, model, asked, session, open_table_store(source)
        )
    if options:
        raise UsageError(f"{', '.join(options)}: an async function is given the messages and takes no options")
    if not callable(model):
        raise UsageError(f"model is {model!r}; expected the name of a model in the world's file, or an async function")
    if concurrency < 1:
        raise UsageError(f"concurrency is {concurrency}; expected 1 or more")
    return await _answer_questions_with_function(model, asked, concurrency)


async def _answer_questions_with_function(
    ask: AskFunction, asked: Sequence[Asked], concurrency: int
) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = [{}] * len(asked)
    left = iter(enumerate(asked))

    async def work() -> None:
        for place, question in left:
            answers[place] = await _answer_question_with_function(ask, question)

    try:
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(concurrency, len(asked))):
                workers.create_task(work())
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return answers


async def _answer_question_with_function(ask: AskFunction, question: Asked) -> dict[str, Any]:
    try:
        pending = ask([dict(message) for message in question["messages"]])
        if not inspect.isawaitable(pending):
            raise UsageError(
                f"model returned a {type(pending).__name__} at once; expected an async function (async def), which is awaited"
            )
        text: object = await pending
    except UsageError:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        assert task
        if task.cancelling():  # what awaits this was cancelled, not the call inside
            raise
        return _make_answer(question, "", "model_failed", _format_error(error))
    except Exception as error:  # noqa: BLE001 - a function of the user's may fail in any way; the reason is recorded
        return _make_answer(question, "", "model_failed", _format_error(error))
    if not isinstance(text, str):
        return _make_answer(
            question, "", "model_failed", f"the function returned a {type(text).__name__}; expected text"
        )
    return _make_answer(question, text)


def _format_error(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:_MAX_DETAIL_CHARACTERS]


def _make_answer(question: Asked, text: str, unscored: str = "", detail: str = "") -> dict[str, Any]:
    kept = {name: question[name] for name in ("id", "setting", "build") if name in question}
    return {**kept, "answer": text, **({"unscored": unscored, "detail": detail} if unscored else {})}


def _open_session(
    model: str,
    asked: Sequence[Asked],
    benchmark: str,
    world: str,
    source: str | Path | TableStore | None,
    options: Mapping[str, Any],
) -> EvaluationSession:
    """Open the session that the questions are of; UsageError or SettingsError, before anything is sent."""
    builds = sorted({str(each.get("build") or "") for each in asked})
    if len(builds) > 1:
        raise UsageError(f"asked: the questions are of several builds: {', '.join(builds)}; expected one")
    build = builds[0] if builds else ""
    if model in BUILT_IN_MODELS:
        raise UsageError(
            f"model {model}: built-in models are not asked; score them: factmill.score(BENCHMARK, {model!r})"
        )
    loaded = load_world(world, None)
    check_tested_model(loaded, model, "model")
    check_model_variables_and_libraries(loaded, [model])
    name = benchmark or _find_benchmark(open_table_store(source), build)
    settings = list(dict.fromkeys(str(each["setting"]) for each in asked))
    return open_evaluation_session(
        name, source, settings or [*get_evaluation(name).default_settings], asked_of=build, world=world, **options
    )


def _find_benchmark(store: TableStore, build: str) -> str:
    if store.path.is_dir():
        if is_release(store.path):
            return load_verified_release(store.path).record.benchmark
    elif store.build or build:
        return resolve_build(store.path, store.build or build).benchmark
    raise UsageError("asked: the questions name no build; name their benchmark: benchmark='granola'")


def _answer_questions_with_named_model(
    model: str, asked: Sequence[Asked], session: EvaluationSession, store: TableStore
) -> list[dict[str, Any]]:
    """Put questions to a model of the world's file, and record the calls in the warehouse that the questions are of."""
    evaluation = session.evaluation
    found = {
        (each.setting, each.question_id): each
        for each in rows_from_arrow(evaluation.question_model, session.list_questions())
    }
    questions = [_get_question(found, each, session) for each in asked]
    size = min(evaluation.max_concurrent_questions or _BATCH_QUESTIONS, _BATCH_QUESTIONS)
    warehouse = store.path if store.path.is_file() else default_warehouse_path()
    recorder = CallCache(warehouse, "record")
    try:
        predictions = [
            given
            for start in range(0, len(questions), size)
            for _, given in run_dialogues(
                session.make_work(recorder, model), evaluation, questions[start : start + size]
            )
        ]
    finally:
        recorder.close()
        session.services.close()
    return [
        _make_answer(question, given.texts[0] if given.texts else "", given.unscored, given.detail)
        for question, given in zip(asked, predictions, strict=True)
    ]


def _get_question(
    questions: Mapping[tuple[str, str], EvaluationQuestion], asked: Asked, session: EvaluationSession
) -> EvaluationQuestion:
    question = questions.get((asked["setting"], asked["id"]))
    if question is None:
        raise UsageError(
            f"asked: {session.build_id or session.evaluation.benchmark.name} has no question {asked['id']!r} in the setting "
            f"{asked['setting']!r}; give the options that factmill.questions was given, such as limit, seed or languages"
        )
    return question
