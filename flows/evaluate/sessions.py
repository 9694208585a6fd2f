"""Entry point for programs and other harnesses: open a benchmark's evaluation on the rows of a source."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from factmill.flows.evaluate.evaluations import BROKEN_EVALUATIONS, EVALUATIONS
from factmill.tasks.errors import UnknownBuild, UsageError
from factmill.tasks.evaluation import scoring_session
from factmill.tasks.evaluation.definition import Evaluation
from factmill.tasks.evaluation.harness.lm_eval_tasks import write_lm_eval_folder
from factmill.tasks.evaluation.scoring_session import EvaluationSession
from factmill.tasks.settings import default_warehouse_path
from factmill.tasks.storage.builds import BuildRecord, resolve_build
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.text.sanitize import format_did_you_mean


def get_evaluation(benchmark: str) -> Evaluation:
    """Return the evaluation of a benchmark; UsageError if there is none."""
    if benchmark in BROKEN_EVALUATIONS:
        raise UsageError(f"the evaluation of {benchmark} could not be loaded from {BROKEN_EVALUATIONS[benchmark]}")
    if benchmark not in EVALUATIONS:
        known = ", ".join(EVALUATIONS)
        raise UsageError(f"no benchmark {benchmark}; there are: {known}{format_did_you_mean(benchmark, EVALUATIONS)}")
    return EVALUATIONS[benchmark]


def open_table_store(source: str | Path | TableStore | None = None) -> TableStore:
    """Open a warehouse, a folder of tables, or a build of the home's warehouse by id; None: that warehouse."""
    if isinstance(source, TableStore):
        return source
    home = default_warehouse_path()
    if source is not None and Path(source).exists():
        return TableStore(Path(source))
    if not home.exists():
        text = f"nothing is built yet in {home}; make something: `factmill build granola`"
        raise UnknownBuild(text if source is None else f"{source}: no such file or folder, and {text}")
    if source is None:
        return TableStore(home)
    try:
        return TableStore(home, resolve_build(home, str(source)).build_id)
    except UnknownBuild as error:
        raise UnknownBuild(f"{source}: no such file or folder, and {error}") from error


def open_evaluation_session(
    benchmark: str,
    source: str | Path | TableStore | None,
    settings: Sequence[str],
    read_source: bool = True,
    **options: Any,
) -> EvaluationSession:
    """Open a session that evaluates on the rows of a source; UsageError and SourceError say what was expected.

    `read_source`: False if the caller supplies the questions, so that no source is opened.
    """
    store = open_table_store(source) if read_source else None
    return scoring_session.open_scoring_session(get_evaluation(benchmark), store, settings, **options)


def write_lm_eval_tasks(
    warehouse: Path, build: BuildRecord, folder: Path, row_ids: Collection[str] | None = None, canary: str = ""
) -> list[Path]:
    """Write the lm-evaluation-harness tasks of a build and return their files; UsageError if it has no evaluation.

    `asked`: ids of the rows to include; None: all. `canary`: line that every file contains.
    """
    evaluation = get_evaluation(build.benchmark)
    session = scoring_session.open_scoring_session(
        evaluation, TableStore(warehouse, build.build_id), list(evaluation.settings)
    )
    if row_ids is not None:
        session = session.with_build_rows(row_ids)
    return write_lm_eval_folder(session, folder, build.build_id, canary)
