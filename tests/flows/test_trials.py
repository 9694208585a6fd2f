"""The trials (bench/trials), small: `make trials` has all of them whole."""

from pathlib import Path

import pytest
from support.commands.command import Factmill
from trials.faulty import build_with_a_faulty_model
from trials.four import build_at_once
from trials.trial import Trial


@pytest.fixture
def trial(factmill: Factmill, tmp_path: Path) -> Trial:
    return Trial(tmp_path, factmill.prefect_api, factmill.home, factmill)


def test_builds_at_once_of_which_one_is_killed_leave_what_each_leaves_alone_and_ask_nothing_twice(trial: Trial) -> None:
    assert build_at_once(trial, [["granola", "--limit", "4"], ["granola", "--limit", "5"]], kills=1, seed=4) == []


def test_what_faults_of_services_and_a_model_cost_a_build_the_next_run_mends(trial: Trial) -> None:
    assert build_with_a_faulty_model(trial, 0.25, seed=1) == []
