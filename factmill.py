"""factmill from Python: read what was built and score answers, with no server and no network.

Build first (`factmill build all` makes every benchmark in the embedded world), or name a folder that `factmill export`
wrote. Tables are Arrow's; `.to_pandas()` makes a data frame of one.

>>> import factmill
>>> store = factmill.open()  # the warehouse of factmill's home; or open("release/")
>>> store.table("granola_eq").num_rows == len(store.table("granola_eq").to_pandas())
True
>>> questions = factmill.questions("granola", setting="greedy", limit=3)
>>> sorted(questions[0])
['id', 'messages', 'question', 'setting']
>>> answers = [{"id": each["id"], "answer": "IDK"} for each in questions]
>>> scored = factmill.score("granola", answers, limit=3)
>>> metrics = scored.metrics.to_pandas().set_index("id")
>>> float(metrics.loc["greedy/share_idk", "value"]), int(metrics.loc["greedy/share_idk", "n"])
(1.0, 3)

What goes wrong is a `factmill.FactmillError`, which says what was found and what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import FactmillError

if TYPE_CHECKING:
    from tasks.evaluation.offline import Scored, Session
    from tasks.storage.stores import Store

__all__ = ["FactmillError", "open", "questions", "score"]


def open(path: str | Path | None = None) -> Store:
    """Return what is read from: a warehouse file, or a folder of exported tables; by default the home's warehouse.

    `store.builds()` lists builds, `store.table(name, build)` reads a table of one, by default of the newest that has it;
    the metrics of an evaluation are its table `evaluation_metrics`.

    >>> factmill.open().builds().column_names
    ['build_id', 'benchmark', 'author', 'world', 'rows', 'published_at', 'caution']
    >>> factmill.open("nowhere")
    Traceback (most recent call last):
    tasks.errors.UsageError: nowhere: no such file or folder; expected a warehouse, or a folder of exported tables
    """
    from tasks.errors import UnknownBuild, UsageError
    from tasks.settings import default_warehouse
    from tasks.storage.stores import Store

    place = default_warehouse() if path is None else Path(path)
    if path is None and not place.exists():
        raise UnknownBuild(f"nothing is built yet in {place}; make something: factmill build granola")
    if not place.exists():
        raise UsageError(f"{path}: no such file or folder; expected a warehouse, or a folder of exported tables")
    return Store(place)


def questions(
    benchmark: str,
    *,
    source: str | Path | Store | None = None,
    setting: str | Sequence[str] = (),
    **options: Any,
) -> list[dict[str, Any]]:
    """Return what a model is asked: id, setting, question and messages each, as `factmill evaluate --questions` writes it.

    `source`: a build's id, a folder of exported tables, a warehouse or what `open` returned; by default the newest build
    of the home's warehouse. `setting`: one or several, by default those of the paper. `options`: what else `factmill
    evaluate BENCHMARK --help` names, as Python names it (`limit=20`, `languages=["eng"]`). Of a setting with several
    turns the messages are the first.

    >>> factmill.questions("slaq", setting="long", limit=1)[0]["messages"][-1]["role"]
    'user'
    """
    from tasks.core.rows import rows_from_arrow

    session = open_session(benchmark, source, setting, **options)
    evaluation, params = session.evaluation, session.inputs.params
    return [
        {
            "id": asked.question_id,
            "setting": asked.setting,
            "question": asked.question,
            "messages": evaluation.fill(asked, params).messages(),
        }
        for asked in rows_from_arrow(evaluation.asked, session.list_questions())
    ]


def score(
    benchmark: str,
    answers: str | Path | Mapping[str, str] | Iterable[Mapping[str, Any]],
    *,
    source: str | Path | Store | None = None,
    setting: str | Sequence[str] = (),
    model: str = "answers",
    only_answered: bool = False,
    **options: Any,
) -> Scored:
    """Return what answers are worth: `.answers`, `.scores` and `.metrics` as Arrow tables, `.notes` on what does not fit.

    The numbers are those of `factmill evaluate BENCHMARK --answers FILE`. `answers`: objects with id, answer and, where
    there are several, setting; or id → answer; or a file of such objects, one a line; or oracle, guesser, silent.
    `only_answered`: a question without an answer was not asked; else it is unscored, as missing. `model`: what the model
    is called; the rest as in `questions`. No judge is asked: where there is one, the program `exact` stands in, and its
    accuracy is a lower bound.

    >>> factmill.score("slaq", "oracle", setting="short").metrics["value"][0].as_py()
    1.0
    >>> factmill.score("slaq", {}, tau=1)
    Traceback (most recent call last):
    tasks.errors.UsageError: slaq: there is no option tau
    """
    from tasks.core.evaluation.answers_file import read_answers
    from tasks.evaluation.answering import load_answers
    from tasks.evaluation.record import BUILT_IN
    from tasks.storage.source_files import lock_source

    session = open_session(benchmark, source, setting, answers_given=True, **options)
    if isinstance(answers, str) and answers in BUILT_IN:
        return session.score_answers(answers, answers)
    if isinstance(answers, str | Path):
        found = load_answers(lock_source(Path(answers)))
    else:
        pairs = answers.items() if isinstance(answers, Mapping) else None
        rows = answers if pairs is None else ({"id": each, "answer": text} for each, text in pairs)
        found = read_answers(enumerate(rows, 1), "answers")
    return session.score_answers(found, model, only_answered)


def open_session(
    benchmark: str,
    source: str | Path | Store | None,
    setting: str | Sequence[str] = (),
    answers_given: bool = False,
    **options: Any,
) -> Session:
    """Return a way to measure on a source, for `questions`, `score` and other harnesses."""
    from flows.evaluate.evaluations import EVALUATIONS
    from tasks.errors import UsageError
    from tasks.evaluation import offline
    from tasks.storage.stores import Store
    from tasks.text.suggestions import suggest_name

    if benchmark not in EVALUATIONS:
        known = ", ".join(EVALUATIONS)
        raise UsageError(f"no benchmark {benchmark}{suggest_name(benchmark, EVALUATIONS)}; there are: {known}")
    evaluation = EVALUATIONS[benchmark]
    settings = (setting,) if isinstance(setting, str) else tuple(setting)
    if isinstance(source, Store):
        store = source
    elif source is None or Path(source).exists():
        store = open(source)
    else:
        store = Store(open().path, str(source))
    return offline.open_session(
        evaluation, store, settings or (evaluation.plain if answers_given else evaluation.usual), **options
    )
