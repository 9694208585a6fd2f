"""Test reading of given answers, and the rows that an evaluation measures."""

from pathlib import Path

import pytest
from support.builds.published import publish_rows
from support.builds.released import multihal_tables

from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.evaluation.answers import ParsedAnswersFile
from factmill.tasks.core.rows import make_arrow_table
from factmill.tasks.errors import BuildFormatTooOld
from factmill.tasks.evaluation.answering_and_judging import make_predictions_from_file, parse_model_response
from factmill.tasks.evaluation.measured_build import load_benchmark_table_with_digest
from factmill.tasks.fanoutqa.core.evaluation.grades import make_judgeable_fanoutqa_answer
from factmill.tasks.fanoutqa.core.evaluation.rows import FanOutEvaluationQuestion
from factmill.tasks.fanoutqa.evaluation.definition import FANOUTQA_EVALUATION
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import ReleaseOptions
from factmill.tasks.release.write import write_release
from factmill.tasks.storage.released_folders import load_verified_release
from factmill.tasks.storage.table_store import TableStore
from factmill.tasks.storage.warehouse import open_warehouse


def test_tokens_and_seconds_equal_recorded_values() -> None:
    body = {"texts": ["254 km"], "finish": ["stop"], "fingerprint": ""}
    given = parse_model_response(CallResponse(body, tokens_in=30, tokens_out=4, latency_s=1.25), "key")
    assert (given.texts, given.tokens_in, given.tokens_out, given.seconds) == (("254 km",), 30, 4, 1.25)


def test_answer_from_file_has_no_searches_or_tokens() -> None:
    prediction = make_judgeable_fanoutqa_answer("q", "How long?", "254 km", "254 km")
    question = make_arrow_table(FanOutEvaluationQuestion, [prediction])
    answers = ParsedAnswersFile({("", "q"): "254 km"}, ())
    (row,) = make_predictions_from_file(FANOUTQA_EVALUATION, question, answers, "mine").to_pylist()
    searched = {"searches": [], "context": [], "rounds": 0, "stopped": "", "tokens_in": 0, "tokens_out": 0}
    assert row == prediction.model_dump() | searched | {"model": "mine"}


OPEN = ("CC-BY-NC-2.0", "CC-BY-NC-SA-4.0")


@pytest.mark.parametrize(("without", "is_whole"), [((), True), (("felm",), False)])
def test_withheld_reject_details_do_not_change_content_digest(
    tmp_path: Path, without: tuple[str, ...], is_whole: bool
) -> None:
    warehouse = tmp_path / "w.duckdb"
    build = publish_rows(warehouse, MULTIHAL, multihal_tables())
    with open_warehouse(warehouse) as db:
        row = '{"licence": "none stated"}'
        db.execute("INSERT INTO rejects VALUES (?, 'mine_paths', 'q', 'no_path', 'none', ?)", [build.build_id, row])
    release = verify_and_assemble_release(warehouse, MULTIHAL, MULTIHAL_RELEASE, build, ReleaseOptions(without, OPEN))
    assert release.left_out, "rejects are withheld"
    folder = write_release(release, tmp_path / "out").folder
    assert (load_verified_release(folder).record.content_digest == build.content_digest) is is_whole


def test_build_made_before_column_was_added_must_be_rebuilt(tmp_path: Path) -> None:
    warehouse = tmp_path / "w.duckdb"
    build = publish_rows(warehouse, MULTIHAL, multihal_tables())
    store = TableStore(warehouse, build.build_id)
    assert load_benchmark_table_with_digest(MULTIHAL, store, "multihal")[0].num_rows == 6
    with open_warehouse(warehouse) as db:
        db.execute("UPDATE multihal SET licence = NULL")
        db.execute("UPDATE build_tables SET columns = list_filter(columns, lambda each: each.name <> 'licence')")
    with pytest.raises(BuildFormatTooOld, match="multihal lacks licence; rebuild it with the same command"):
        load_benchmark_table_with_digest(MULTIHAL, store, "multihal")
