"""Shared fixtures and pytest hooks."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import settings
from support.processes.standing_prefect import standing_server

from factmill.flows.prefect_server import make_prefect_environment

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

_homes = count()
PREFECT_HOME = Path(tempfile.mkdtemp(prefix="factmill-tests-"))
_servers = ExitStack()


def pytest_configure() -> None:
    """Configure Prefect as the command does, before a test imports it, and configure Hypothesis.

    Prefect reads its settings only once.
    """
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        del os.environ[name]  # set by the process that distributes the tests
    os.environ.update(make_prefect_environment(PREFECT_HOME))
    # The tests' servers are standing servers, of which clients ask again as often as Prefect's default says: a database
    # that another process writes to answers 503.
    del os.environ["PREFECT_CLIENT_MAX_RETRIES"]
    _trust_few()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script's background job ignores SIGINT; commands that tests stop with Ctrl-C would inherit that and never
        # end.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # machines can be slow, so no Hypothesis example fails for its duration
    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")


def _trust_few() -> None:
    """Let clients trust one certificate authority: hundreds of clients read the list, and no test needs the others."""
    authorities = Path(certifi.where()).read_text("ascii")
    end = "-----END CERTIFICATE-----\n"
    one = PREFECT_HOME / "authority.pem"
    one.write_text(authorities.partition(end)[0] + end, "ascii")
    os.environ["SSL_CERT_FILE"] = os.environ["PREFECT_API_SSL_CERT_FILE"] = str(one)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector from scanning imported modules and thousands of tests again and again.

    It also runs less often than after every 700 objects, which took a tenth of the time of tests that make many
    objects.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start one Prefect server for all test processes, unless the tests that need it are deselected."""
    if "not slow" in node.config.getoption("markexpr"):
        return
    if "PREFECT_API_URL" not in os.environ:
        _servers.enter_context(standing_server())
    node.workerinput["prefect_api"] = os.environ["PREFECT_API_URL"]


def pytest_unconfigure() -> None:
    _servers.close()
    shutil.rmtree(PREFECT_HOME, ignore_errors=True)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give each test a home of its own, so that nothing is written into the checkout.

    The folder is not created here, nor is `tmp_path`, since most tests write nothing.
    """
    home = tmp_path_factory.getbasetemp() / "homes" / str(next(_homes)) / "home"
    monkeypatch.setenv("FACTMILL_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real inputs, or skip with the reason."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real inputs are not at hand: {SHARED_DATA} is missing")
    return SHARED_DATA


SLOW = (
    "tests/biokalma/core/evaluation/test_real_graphs.py",
    "tests/biokalma/test_evolve.py",
    "tests/biokalma/test_people.py",
    "tests/biokalma/test_people_real.py",
    "tests/biokalma/test_pools.py",
    "tests/clients",
    "tests/fanoutqa/test_judge.py",
    "tests/fanoutqa/test_retrieval_check.py",
    "tests/fanoutqa/test_sets.py",
    "tests/flows",
    "tests/fuzz",
    "tests/granola/test_disambiguate.py",
    "tests/granola/test_models.py",
    "tests/graph/loading/test_literals.py",
    "tests/graph/loading/test_load.py",
    "tests/graph/test_",
    "tests/lookups/test_evidence.py",
    "tests/mediawikis",
    "tests/models/test_embed",
    "tests/models/test_perplexity",
    "tests/models/translating",
    "tests/multihal/test_link.py",
    "tests/release",
    "tests/slaq/evaluation/test_judge_answers.py",
    "tests/slaq/test_questions.py",
    "tests/slaq/test_scrape.py",
    "tests/storage/housekeeping",
    "tests/test_parity.py",
    "tests/test_path_parity.py",
    "tests/world",
)
"""Tests that start servers or many processes, make whole builds, load whole dumps or translate for long.

`make test-quick` leaves them out, and also the tests with a slow mark of their own.
"""
SHARES_BUILDS = tuple(
    f"tests/flows/{name}.py"
    for name in (
        "cli/test_documented_commands",
        "cli/test_main",
        "evaluate/test_evaluate_planted",
        "harness/test_api_examples",
        "recipes/test_biokalma",
        "recipes/test_fanoutqa",
        "recipes/test_multihal",
        "recipes/test_slaq",
        "releases/test_release",
        "test_housekeeping",
        "test_same_bytes",
    )
)
"""Tests that need all builds of a session, and so run in one process."""
TOGETHER = (SHARES_BUILDS, ("tests/flows/harness/",), ("tests/mediawikis",))
"""Groups of tests that share a resource, and so run in one process each."""
FIRST = (
    *SHARES_BUILDS,
    "tests/mediawikis",
    "tests/flows",
    "tests/test_pa",
    "tests/graph",
    "tests/models",
)
"""The longest tests, which run first, so that no process waits at the end for another's long file."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests by their folder, and run the longest first."""
    root = Path(__file__).resolve().parent.parent
    for place in (*SLOW, *FIRST):
        assert any(root.glob(f"{place}*")), f"no test lies at {place}"
    for item in items:
        if item.path.relative_to(root).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(
        key=lambda item: next((at for at, place in enumerate(FIRST) if item.nodeid.startswith(place)), len(FIRST))
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Send each file to one process, and all tests with a shared resource to one."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            shared = next((places[0] for places in TOGETHER if nodeid.startswith(places)), "")
            return shared or nodeid.partition("::")[0]

    return Scheduling(config, log)
