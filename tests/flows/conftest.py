"""Fixtures with the command and a home where every benchmark is built, once a session, by the command itself.

The builds run in an environment that differs from this one as much as possible (support/processes/other_machine.py).
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill, Ran
from support.processes.other_machine import HOME, other_machine
from support.processes.standing_prefect import copy_history, standing_server, wait_ready
from support.webs.prepared import copy_prepared
from support.worlds.replies import replying


@pytest.fixture(scope="session")
def session_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home, with the output of `factmill doctor --prepare` if the checkout has it."""
    home = copy_prepared(tmp_path_factory.mktemp(HOME))
    copy_history(home)
    return home


@pytest.fixture(scope="session")
def prefect_api(pytestconfig: pytest.Config) -> Iterator[str]:
    """Return the address of a running Prefect server: the one that all test processes share, or a new one."""
    with ExitStack() as stack:
        api = getattr(pytestconfig, "workerinput", {}).get("prefect_api") or stack.enter_context(standing_server())
        wait_ready(api)
        yield api


@pytest.fixture(scope="session")
def build_of_all(session_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Build every benchmark by `factmill build all`, in its own process with its own Prefect server.

    Every stage has several batches of 20 rows, since other batch sizes must give the same rows.
    """
    with other_machine(tmp_path_factory.mktemp("locale")) as environment:
        options = ["--batch-size", "20", "--concurrency", "2", "--json"]
        ran = Factmill(session_home).run_process("build", "all", *options, **environment)
    assert ran.code == 0, ran.err
    return ran


@pytest.fixture(scope="session")
def embedded_builds(build_of_all: Ran) -> dict[str, Any]:
    """Return benchmark → report of its build in the session's home."""
    return {report["benchmark"]: report for report in map(json.loads, build_of_all.out.splitlines())}


@pytest.fixture(scope="session")
def embedded_build(embedded_builds: dict[str, Any]) -> Any:
    """Return the report of GRANOLA-EQ."""
    return embedded_builds["granola"]


@pytest.fixture(scope="session")
def factmill(session_home: Path, prefect_api: str) -> Iterator[Factmill]:
    """Return the command; in this process its flows run without Prefect.

    Prompts about the tests' own sources get the plainest replies.
    """
    with replying():
        yield Factmill(session_home, prefect_api, on_prefect=False)


@pytest.fixture(scope="session")
def factmill_on_prefect(session_home: Path, prefect_api: str) -> Factmill:
    """Return the command with Prefect, for tests of Prefect's records and of how Prefect stops a run."""
    return Factmill(session_home, prefect_api)


@pytest.fixture(scope="session")
def small_builds(
    factmill: Factmill, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> SmallBuilds:
    folder = tmp_path_factory.getbasetemp()
    is_one_of_several = hasattr(pytestconfig, "workerinput")
    return SmallBuilds(factmill, (folder.parent if is_one_of_several else folder) / "small-builds")
