"""The Python interface of factmill: read builds and score answers, without a server and without network access.

Build first (`factmill build all` makes every benchmark in the embedded world), or name a folder that `factmill release`
or `factmill export` wrote. Tables are Arrow tables; `.to_pandas()` converts one to a data frame.

>>> import factmill
>>> store = factmill.open()  # the warehouse of factmill's home; or open("release/")
>>> store.table("granola_eq").num_rows == len(store.table("granola_eq").to_pandas())
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

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from factmill.tasks.errors import FactmillError

if TYPE_CHECKING:
    from factmill.tasks.evaluation.scoring_session import ScoringResult
    from factmill.tasks.storage.table_store import TableStore

__all__ = ["FactmillError", "open", "questions", "score"]


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
    from factmill.flows.evaluate.sessions import open_store

    return open_store(path)


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
    (where there are several) and the build from `questions`, which then selects the build to measure on; or id →
    answer; or a file with one such object a line; or oracle, guesser, silent. A question without an answer is unscored,
    as missing. `asked`: question rows as in `.answers`, in place of a source; `model`: the model's name; the rest as in
    `questions`. No judge model is called: the program `exact` replaces it, and its accuracy is a lower bound.

    >>> factmill.score("slaq", "oracle", setting="short").metrics["value"][0].as_py()
    1.0
    >>> factmill.score("slaq", {}, tau=1)
    Traceback (most recent call last):
    factmill.tasks.errors.UsageError: slaq: unknown option tau
    """
    from factmill.flows.evaluate.sessions import get_evaluation, open_evaluation_session
    from factmill.tasks.core.evaluation.answers import AnswersFile, parse_answers_file
    from factmill.tasks.evaluation.definition import BUILT_IN_MODELS
    from factmill.tasks.evaluation.measured_build import load_answers_file
    from factmill.tasks.evaluation.scoring_session import make_question_table
    from factmill.tasks.storage.source_files import pin_source_file

    evaluation = get_evaluation(benchmark)
    settings = _as_settings_tuple(setting) or evaluation.offline_settings
    found: AnswersFile | str
    if isinstance(answers, str) and answers in BUILT_IN_MODELS:
        found, model = answers, answers
    elif isinstance(answers, str | Path):
        found = load_answers_file(pin_source_file(Path(answers)))
    else:
        pairs = answers.items() if isinstance(answers, Mapping) else None
        rows = answers if pairs is None else ({"id": each, "answer": text} for each, text in pairs)
        found = parse_answers_file(enumerate(rows, 1), "answers")
    asked_of = "" if isinstance(found, str) else found.build
    session = open_evaluation_session(
        benchmark, source, settings, read_source=asked is None, asked_of=asked_of, **options
    )
    return session.score_answers(found, model, None if asked is None else make_question_table(evaluation, asked))
