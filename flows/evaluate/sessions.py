"""Entry point for programs and other harnesses: open a benchmark's evaluation on the rows of a source."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from factmill.flows.evaluate.evaluations import BROKEN_EVALUATIONS, EVALUATIONS
from factmill.tasks.errors import UnknownBuild, UsageError
from factmill.tasks.evaluation import offline
from factmill.tasks.evaluation.harness.lm_eval_tasks import write_tasks
from factmill.tasks.evaluation.offline import Session
from factmill.tasks.evaluation.record import Evaluation
from factmill.tasks.settings import default_warehouse
from factmill.tasks.storage.builds import BuildRecord, find_build
from factmill.tasks.storage.stores import Store
from factmill.tasks.text.whole import suggest_name


def find_evaluation(benchmark: str) -> Evaluation:
    """Return the evaluation of a benchmark; UsageError if there is none."""
    if benchmark in BROKEN_EVALUATIONS:
        raise UsageError(f"the evaluation of {benchmark} could not be loaded from {BROKEN_EVALUATIONS[benchmark]}")
    if benchmark not in EVALUATIONS:
        known = ", ".join(EVALUATIONS)
        raise UsageError(f"no benchmark {benchmark}{suggest_name(benchmark, EVALUATIONS)}; there are: {known}")
    return EVALUATIONS[benchmark]


def open_store(source: str | Path | Store | None = None) -> Store:
    """Open a warehouse, a folder of tables, or a build of the home's warehouse by id; None: that warehouse."""
    if isinstance(source, Store):
        return source
    home = default_warehouse()
    if source is not None and Path(source).exists():
        return Store(Path(source))
    if not home.exists():
        told = f"nothing is built yet in {home}; make something: factmill build granola"
        raise UnknownBuild(told if source is None else f"{source}: no such file or folder, and {told}")
    if source is None:
        return Store(home)
    try:
        return Store(home, find_build(home, str(source)).build_id)
    except UnknownBuild as error:
        raise UnknownBuild(f"{source}: no such file or folder, and {error}") from error


def open_session(
    benchmark: str, source: str | Path | Store | None, settings: Sequence[str], reads: bool = True, **options: Any
) -> Session:
    """Open a session that evaluates on the rows of a source; UsageError and SourceError say what was expected.

    `reads`: False if the caller supplies the questions, so that no source is opened.
    """
    store = open_store(source) if reads else None
    return offline.open_session(find_evaluation(benchmark), store, settings, **options)


def write_lm_eval(
    warehouse: Path, build: BuildRecord, folder: Path, asked: Collection[str] | None = None, canary: str = ""
) -> list[Path]:
    """Write the lm-evaluation-harness tasks of a build and return their files; UsageError if it has no evaluation.

    `asked`: ids of the rows to include; None: all. `canary`: line that every file contains.
    """
    evaluation = find_evaluation(build.benchmark)
    session = offline.open_session(evaluation, Store(warehouse, build.build_id), list(evaluation.settings))
    if asked is not None:
        session = session.narrow(asked)
    return write_tasks(session, folder, build.build_id, canary)
