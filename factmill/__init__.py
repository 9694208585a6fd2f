"""The Python interface of factmill, for programs and notebooks: build benchmarks, read them, measure and compare models.

`load`, `builds`, `explain` and `compare` read builds; `questions`, `answer` and `score` measure a model of one's own: without
a server, and without network access but that of the model. `build` and `evaluate` run the commands of these names, each in a
process of its own, so that they work in a notebook too. Options have their Python names: `--max-cost` is `max_cost`.

>>> import factmill
>>> granola = factmill.load("granola")  # of the warehouse in factmill's home; or load("granola", source="release/")
>>> granola.num_rows == len(granola.to_pandas()) == len(granola.to_polars())
True
>>> questions = factmill.questions("granola", setting="greedy", limit=3)
>>> sorted(questions[0])
['build', 'id', 'messages', 'question', 'setting']
>>> answers = [{"id": each["id"], "answer": "IDK"} for each in questions]
>>> scored = factmill.score("granola", answers, limit=3)
>>> metrics = scored.metrics.to_pandas().set_index("id")
>>> float(metrics.loc["greedy/share_idk", "value"]), int(metrics.loc["greedy/share_idk", "n"])
(1.0, 3)

Every error is a `factmill.FactmillError`, which says what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factmill.tasks.errors import FactmillError

if TYPE_CHECKING:
    from factmill.flows.api.building import BuildResult, EvaluationResult
    from factmill.flows.api.reading import ModelComparisonResult, RowExplanation
    from factmill.tasks.evaluation.scoring_session import ScoringResult
    from factmill.tasks.storage.published_table import PublishedTable
    from factmill.tasks.storage.table_store import TableStore

__all__ = [
    "FactmillError",
    "answer",
    "build",
    "builds",
    "compare",
    "evaluate",
    "explain",
    "load",
    "open",
    "questions",
    "score",
]


def load(name: str, *, build: str = "", source: str | Path | TableStore | None = None) -> PublishedTable:
    """Load a table by the name of a benchmark (its main table), of an evaluation, or of the table itself.

    `build`: its id, the beginning of one, `latest`, or latest:BENCHMARK; by default the latest that has the table. `source`:
    what `open` takes or returns; by default the home's warehouse. The rows are `.arrow`; `.to_pandas()` and `.to_polars()`
    make data frames.

    >>> factmill.load("granola").arrow == factmill.load("granola_eq", build="latest").arrow
    True
    >>> factmill.load("granola_review").column_names[0]
    'id'
    >>> factmill.load("granolla")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    factmill.tasks.errors.UnknownBuild: ...has no table granolla; tables: ...; did you mean granola...?
    """
    from factmill.flows.api.reading import load_table

    return load_table(name, build, source)


def builds(benchmark: str = "", *, source: str | Path | TableStore | None = None) -> PublishedTable:
    """List the builds of a warehouse, oldest first; `benchmark`: only those of this benchmark or evaluation.

    >>> {"granola", "slaq"} <= set(factmill.builds()["benchmark"].to_pylist())
    True
    >>> factmill.builds("slaq").column_names
    ['build_id', 'benchmark', 'author', 'world', 'rows', 'published_at', 'caution']
    """
    from factmill.flows.api.reading import list_builds_as_table

    return list_builds_as_table(benchmark, source)


def explain(
    row_id: str, *, benchmark: str = "", build: str = "", source: str | Path | TableStore | None = None
) -> RowExplanation:
    """Explain where a row comes from: its source, items, calls and verdicts; also where a rejected row was lost.

    `row_id`: an id, or the beginning of one, of a row of the latest builds, or of `build`. `benchmark`: needed only where rows
    of several benchmarks begin so. `.trace` holds what is printed as data.

    >>> print(factmill.explain(granola["id"][0].as_py()))  # doctest: +ELLIPSIS
    P...-... in granola-...
      source ...
    """
    from factmill.flows.api.reading import explain_row

    return explain_row(row_id, benchmark, build, source)


def build(benchmark: str, *, quiet: bool = False, force: bool = False, **options: Any) -> BuildResult:
    """Build a benchmark, as `factmill build` does, in a process of its own; it works in a notebook.

    `options`: those of `factmill build BENCHMARK --help` under their Python names (`limit=20`, `relations=["P19"]`,
    `world="my-world.toml"`, `max_cost=5`). Progress goes to standard error, unless `quiet`. An interrupt stops the build; what
    was done is kept, and the same call goes on. `force`: build even when a build with the same inputs is there.

    >>> built = factmill.build("granola", quiet=True)
    >>> built.report.up_to_date, built.rows == granola.num_rows, built.cost_usd
    (True, True, 0.0)
    >>> factmill.build("granola", relation=["P19"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    factmill.tasks.errors.UsageError: granola: unknown option relation; there are: answer_in_question, ...; did you mean relations?
    """
    from factmill.flows.api.building import run_build

    return run_build(benchmark, quiet, force, options)


def evaluate(
    benchmark: str, *, quiet: bool = False, force: bool = False, reports: str | Path | None = None, **options: Any
) -> EvaluationResult:
    """Measure a model on a benchmark, as `factmill evaluate` does, in a process of its own; it works in a notebook.

    `options`: those of `factmill evaluate BENCHMARK --help` under their Python names (`model="mine"`, `limit=20`,
    `answers="answers.jsonl"`, `judge="exact"`). `.metrics` is a table; `.reports` are its pages, in `reports` of factmill's
    home or in the folder `reports`. The rest as in `build`.

    >>> guesser = factmill.evaluate("granola", model="guesser", setting="greedy", limit=20, quiet=True)
    >>> guesser.model, guesser.metrics["n"][0].as_py() > 0, [path.suffix for path in guesser.reports]
    ('guesser', True, ['.html', '.md', '.json'])
    """
    from factmill.flows.api.building import run_evaluation

    return run_evaluation(benchmark, quiet, force, reports, options)


def compare(
    first: str | EvaluationResult | ScoringResult,
    second: str | EvaluationResult | ScoringResult,
    *,
    benchmark: str = "",
    source: str | Path | TableStore | None = None,
) -> ModelComparisonResult:
    """Compare two models by their paired differences, with 95 % intervals, on the questions that both have a score for.

    Each is a result of `evaluate` or `score`, an evaluation's id, or, with `benchmark`, a model's name: its latest evaluation.
    The figures are those of `factmill report EVALUATION EVALUATION`; `.arrow` and `.to_pandas()` give them as rows.

    >>> oracle, guesser = (
    ...     factmill.evaluate("granola", model=model, setting="greedy", limit=20, quiet=True) for model in ("oracle", "guesser")
    ... )
    >>> found = factmill.compare(oracle, guesser).comparisons[0]
    >>> found.better, found.difference > 0
    ('oracle', True)
    """
    from factmill.flows.api.reading import compare_results

    return compare_results(first, second, benchmark, source)


async def answer(
    model: str | Callable[[list[dict[str, str]]], Awaitable[str]],
    asked: Sequence[Mapping[str, Any]],
    *,
    concurrency: int = 8,
    world: str = "embedded",
    benchmark: str = "",
    source: str | Path | TableStore | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Answer questions with a model; return answers that `score` takes, in the order of `asked`.

    `model`: an async function from messages to text, of which `concurrency` calls run at a time; it is given the messages of
    the first turn. Or the name of [models.NAME] in the file of `world`, which is asked as by `factmill evaluate`: in all turns,
    within the limits of that file, each call recorded and never sent twice. `asked`: of `questions`. A name also takes
    `source`, `options` (as they were given to `questions`), and `benchmark` where the questions name no build.

    What is not delivered, since the function raised an error or the model failed, has `unscored` and `detail` in the place
    of an answer: it counts as unscored.

    >>> import asyncio
    >>> async def model(messages):
    ...     if "Who" in messages[-1]["content"]:
    ...         raise TimeoutError("too slow")
    ...     return "Paris"
    >>> answers = asyncio.run(factmill.answer(model, factmill.questions("granola", setting="greedy")))
    >>> sorted({each.get("detail", each["answer"]) for each in answers})
    ['Paris', 'TimeoutError: too slow']
    """
    from factmill.flows.api.asking import answer_questions

    return await answer_questions(
        model, asked, benchmark=benchmark, world=world, source=source, concurrency=concurrency, options=options
    )


def open(path: str | Path | None = None) -> TableStore:
    """Open a warehouse file, a folder of tables such as a release, or a build of the home's warehouse by its id.

    The default is the home's warehouse. `store.builds()` lists builds. `store.table(name, build)` reads a table of a
    build, by default of the latest that has it. The metrics of an evaluation are its table `evaluation_metrics`.

    >>> factmill.open().builds().column_names
    ['build_id', 'benchmark', 'author', 'world', 'rows', 'published_at', 'caution']
    >>> factmill.open().table("granola_ek")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    factmill.tasks.errors.UnknownBuild: ...; did you mean granola_eq?
    """
    from factmill.flows.evaluate.sessions import open_table_store

    return open_table_store(path)


def _as_settings_tuple(setting: str | Sequence[str]) -> tuple[str, ...]:
    return (setting,) if isinstance(setting, str) else tuple(setting)


def questions(
    benchmark: str,
    *,
    source: str | Path | TableStore | None = None,
    setting: str | Sequence[str] = (),
    prompts: str | Path | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Return the questions of a benchmark as dicts with id, setting, question, messages and build.

    They equal the output of `factmill evaluate --questions`. `source`: what `open` takes or returns; by default the
    home's warehouse, there the newest complete build of the default source, else the newest build. `setting`: one or
    several, by default those of the paper. `prompts`: a folder of own prompts (`factmill prompts`). `options`: the
    other options of `factmill evaluate BENCHMARK --help` under their Python names (`limit=20`, `languages=["eng"]`).
    For a setting with several turns, the messages are those of the first turn.

    >>> factmill.questions("slaq", setting="long", limit=1)[0]["messages"][-1]["role"]
    'user'
    """
    from factmill.flows.evaluate.sessions import get_evaluation, open_evaluation_session
    from factmill.tasks.assets import using_own_prompts
    from factmill.tasks.core.rows import rows_from_arrow
    from factmill.tasks.evaluation.scoring_session import make_question_json
    from factmill.tasks.own_prompts import load_own_prompts

    own = {} if prompts is None else {name: each.template for name, each in load_own_prompts(Path(prompts)).items()}
    session = open_evaluation_session(
        benchmark, source, _as_settings_tuple(setting) or get_evaluation(benchmark).default_settings, **options
    )
    evaluation, params = session.evaluation, session.inputs.params
    with using_own_prompts(own):
        return [
            make_question_json(asked, evaluation.make_prompt(asked, params).build_messages(), session.build_id)
            for asked in rows_from_arrow(evaluation.question_model, session.list_questions())
        ]


def score(
    benchmark: str,
    answers: str | Path | Mapping[str, str] | Iterable[Mapping[str, Any]],
    *,
    source: str | Path | TableStore | None = None,
    setting: str | Sequence[str] = (),
    model: str = "answers",
    asked: Sequence[Mapping[str, Any]] | None = None,
    **options: Any,
) -> ScoringResult:
    """Score answers: `.answers`, `.scores` and `.metrics` are Arrow tables, `.notes` lists answers that do not fit.

    The numbers equal those of `factmill evaluate BENCHMARK --answers FILE`. `answers`: objects with id, answer, setting
    (where there are several) and the build from `questions`, which then selects the build to measure on; what
    `answer` returns; or id → answer; or a file with one such object a line; or oracle, guesser, silent. A question without an answer is unscored,
    as missing. `asked`: question rows as in `.answers`, in place of a source; `model`: the model's name; the rest as in
    `questions`. No judge model is called: the program `exact` replaces it, and its accuracy is a lower bound.

    >>> factmill.score("slaq", "oracle", setting="short").metrics["value"][0].as_py()
    1.0
    >>> factmill.score("slaq", {}, tau=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    factmill.tasks.errors.UsageError: slaq: unknown option tau; there are: ...
    """
    from factmill.flows.evaluate.sessions import get_evaluation, open_evaluation_session
    from factmill.tasks.core.evaluation.answers import ParsedAnswersFile, parse_answers_file
    from factmill.tasks.evaluation.definition import BUILT_IN_MODELS
    from factmill.tasks.evaluation.measured_build import load_answers_file
    from factmill.tasks.evaluation.scoring_session import make_question_table
    from factmill.tasks.storage.source_files import make_source_file_with_digest

    evaluation = get_evaluation(benchmark)
    settings = _as_settings_tuple(setting) or evaluation.offline_settings
    found: ParsedAnswersFile | str
    if isinstance(answers, str) and answers in BUILT_IN_MODELS:
        found, model = answers, answers
    elif isinstance(answers, str | Path):
        found = load_answers_file(make_source_file_with_digest(Path(answers)))
    else:
        pairs = answers.items() if isinstance(answers, Mapping) else None
        rows = answers if pairs is None else ({"id": each, "answer": text} for each, text in pairs)
        found = parse_answers_file(enumerate(rows, 1), "answers")
    asked_of = "" if isinstance(found, str) else found.build
    session = open_evaluation_session(
        benchmark, source, settings, read_source=asked is None, asked_of=asked_of, **options
    )
    return session.score_answers(found, model, None if asked is None else make_question_table(evaluation, asked))
