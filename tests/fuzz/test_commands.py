"""Fuzz commands: each ends soon, with a permitted exit code and a message.

`python bench trials.hostile --cases 2000` runs more of the same cases.
"""

import time
from collections.abc import Iterator

import pytest
from support.commands.command import Factmill
from support.hostile import SETTINGS, Cases, describe, list_named, run_case
from support.webs.loopback import Loopback
from support.webs.prepared import copy_prepared

SEED, AT_ONCE, BLOCKS = 34, 25, 8
PATIENCE_S = 300.0
"""Timeout in seconds; no machine needs longer for a command that does not hang."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return Cases(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Factmill]:
    """Return the command with a stub in place of a Prefect server, since no run gets that far."""
    web = Loopback()
    web.script({"json": True})
    yield Factmill(copy_prepared(tmp_path_factory.mktemp("home")), f"{web.url}/api", on_prefect=False)
    web.close()


def test_former_crashes_and_hangs_end_with_message(cases: Cases, alone: Factmill) -> None:
    for name, arguments in list_named(cases).items():
        ran, trouble = run_case(alone, arguments, PATIENCE_S)
        assert not trouble, f"{name}: {trouble}"
        assert ran is not None and ran.code in ((0,) if name.startswith("row") else (1, 2)), f"{name}: {ran}"
        assert len(ran.err) < 700 or "characters" not in name, ran.err


@pytest.mark.parametrize("block", range(BLOCKS))
def test_hostile_arguments_worlds_files_and_warehouses_end_with_message(
    cases: Cases, alone: Factmill, block: int
) -> None:
    for number in range(block * AT_ONCE, (block + 1) * AT_ONCE):
        case = cases.draw(SEED, number)
        ran, trouble = run_case(alone, case.all, PATIENCE_S)
        assert not trouble, f"seed {SEED}, case {number}: {trouble}: {describe(case.all)}\n{ran and ran.err}"


def test_drawn_cases_cover_every_command_and_setting_kind(cases: Cases) -> None:
    drawn = {cases.choose(SEED, number)[1] for number in range(1500)}
    assert drawn == cases.commands.keys()
    assert {
        *("wikidata.limits.timeout_s", "models.author.jobs.poll_s", "models.judge.extra_body", "compute.wait_s"),
        *("epoch",),
    } <= {*SETTINGS}


def test_hanging_command_is_detected() -> None:
    _, trouble = run_case(lambda *_: time.sleep(60), ["x"], 0.05)  # type: ignore[arg-type,func-returns-value]
    assert trouble == "hangs for more than 0 s"
