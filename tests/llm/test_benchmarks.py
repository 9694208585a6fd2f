"""Test every benchmark in the embedded world with a real server that writes nonsense as author and judge.

Random weights may get every row rejected. A build must still end by its own rules: rows add up, every reject has its
reason, and a table without a row is no success.
"""

from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.habits.runs import small_arguments
from support.models.scripted_chat import write_chat_world

pytestmark = pytest.mark.llm

ROWS = 4
ASKED_BY = {
    "granola": {"generate_granular_answers"},
    "multihal": {"select_paths", "score_paths"},
    "biokalma": {"annotate_paragraph", "evolve_paragraph", "write_biography_questions"},
    "slaq": {"write_questions"},
    "fanoutqa": {"phrase_generated_questions", "judge_questions"},
}
"""Maps a benchmark to the stages in which a nonsense model may lose rows."""
CAUSES = {
    *("reply_not_in_format", "cut_off", "refused", "empty_reply", "model_failed"),
    *("unscored", "no_piece_brought_in"),
}
"""Reasons for invalid replies of a model."""


@pytest.fixture(scope="module")
def factmill(tmp_path_factory: pytest.TempPathFactory) -> Factmill:
    return Factmill(tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("benchmark", list(ASKED_BY))
def test_build_with_random_weight_model_completes_by_its_own_rules(
    benchmark: str, factmill: Factmill, chat_server: Any, tmp_path: Path
) -> None:
    world, warehouse = (
        write_chat_world(tmp_path, chat_server.url, ("author", "judge"), name="tiny"),
        tmp_path / "w.duckdb",
    )
    asked = chat_server.count_asked()
    arguments = ["build", benchmark, "--world", world, "--warehouse", warehouse, "--json"]
    ran = factmill.run_process(*arguments, *small_arguments(benchmark, ROWS, tmp_path), TEST_KEY=chat_server.key)

    assert "Traceback" not in ran.err
    report = ran.json
    assert ran.code == (0 if report["rows"] else 1), ran.err
    assert report["inputs"] + report["opened"] == report["rows"] + report["rejects"] + report["merged"]
    assert chat_server.count_asked() > asked
    lost = {stage: set(reasons) for stage, reasons in report["reasons"].items() if stage in ASKED_BY[benchmark]}
    assert set().union(*lost.values()) <= CAUSES
    if not report["rows"]:
        assert lost
        assert any(reason in ran.err for reasons in lost.values() for reason in reasons)

    shown = factmill.run_process("show", benchmark, "--build", report["build_id"], "--rejects", "--limit", "1000", "--json", "--warehouse", warehouse)  # fmt: skip
    assert shown.code == 0, shown.err
    rejects = shown.json["rejects"]
    assert len(rejects) == report["rejects"]
    assert all(reject["reason"] and reject["detail"] for reject in rejects)
