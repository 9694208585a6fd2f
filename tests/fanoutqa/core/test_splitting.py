"""Dev and test by hash."""

import pytest

from tasks.fanoutqa.core.splitting import choose_split

IDS = [f"{number:016x}" for number in range(20_000)]


def test_three_in_ten_are_dev() -> None:
    share = sum(choose_split(each, 7) == "dev" for each in IDS) / len(IDS)
    assert share == pytest.approx(0.3, abs=0.01)


def test_a_side_hangs_on_id_and_seed_alone() -> None:
    before = {each: choose_split(each, 7) for each in IDS[:100]}
    after = {each: choose_split(each, 7) for each in reversed(IDS[:110])}
    assert {each: after[each] for each in before} == before
    assert before != {each: choose_split(each, 8) for each in before}


def test_shares_of_none_and_all_are_kept() -> None:
    assert {choose_split(each, 7, 0.0) for each in IDS[:100]} == {"test"}
    assert {choose_split(each, 7, 1.0) for each in IDS[:100]} == {"dev"}
