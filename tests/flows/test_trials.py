"""The trials (tests/trials), small: `make trials` has all of them whole."""

import signal
from pathlib import Path

import pytest
from support.work.command import Factmill
from trials.faulty import build_with_a_faulty_model, build_with_faults
from trials.four import build_at_once
from trials.kills import stop_at_random
from trials.month import live_a_month
from trials.trial import Trial


@pytest.fixture
def trial(factmill: Factmill, tmp_path: Path) -> Trial:
    return Trial(tmp_path, factmill.prefect_api, factmill.home, factmill)


def test_a_build_that_is_stopped_ends_like_one_that_is_not(trial: Trial) -> None:
    assert stop_at_random(trial, ["build", "granola", "--limit", "8"], [signal.SIGKILL], seed=4) == []


def test_builds_at_once_leave_what_they_leave_alone_and_ask_nothing_twice(trial: Trial) -> None:
    assert build_at_once(trial, [["granola", "--limit", "30"], ["granola", "--limit", "31"]]) == []


def test_what_faults_cost_a_build_the_next_run_mends(trial: Trial) -> None:
    assert build_with_faults(trial, [["granola", "--limit", "8"]], 0.25) == []


def test_what_a_faulty_model_costs_a_build_the_next_run_mends(trial: Trial) -> None:
    assert build_with_a_faulty_model(trial, 0.25, seed=1) == []


def test_rebuilds_ask_what_is_too_old_and_nothing_else(trial: Trial) -> None:
    assert live_a_month(trial, days=2, seed=1, limit=6, max_age="1d") == []
