"""Run small versions of the trials (bench/trials); `make trials` runs the full ones."""

from pathlib import Path

import pytest
from support.commands.command import Factmill
from trials.faulty import build_with_a_faulty_model
from trials.four import build_at_once
from trials.trial import Trial


@pytest.fixture
def trial(factmill: Factmill, tmp_path: Path) -> Trial:
    return Trial(tmp_path, factmill.prefect_api, factmill.home, factmill)


def test_concurrent_builds_with_one_killed_match_separate_builds(trial: Trial) -> None:
    assert build_at_once(trial, [["granola", "--limit", "4"], ["granola", "--limit", "5"]], kills=1, seed=4) == []


def test_next_run_recovers_rows_lost_to_service_and_model_faults(trial: Trial) -> None:
    assert build_with_a_faulty_model(trial, 0.25, seed=1) == []
