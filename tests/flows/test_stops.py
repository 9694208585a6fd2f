"""Test that an interrupted or blocked command prints one line, and keeps finished work."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.commands.command import ROOT, Factmill
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.webs.loopback import Loopback, Seen
from trials.server_kills import kill_server

from factmill.flows.cli.entry import STOPPED_MESSAGE
from factmill.flows.prefect_server import standing_or_own_prefect_server

STOPPED = f"factmill: {STOPPED_MESSAGE}"
_LIMIT_S = 120
"""Far above any normal duration, so a command that waits wrongly fails the test."""


class Model:
    """A model that answers once released; the first request sets `asked`."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.says: Callable[[Sequence[Message]], str] = lambda _messages: "1:: Ulm\n2:: Germany"
        self.web = ScriptedChat(self._answer)
        self.web.free.clear()

    def _answer(self, messages: Sequence[Message]) -> tuple[int, str]:
        self.asked.set()
        return 200, self.says(messages)


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.web.close()


def build_options(tmp_path: Path, url: str) -> list[str | Path]:
    world = write_chat_world(tmp_path, url, ["author"])
    return ["build", "granola", "--world", world, "--limit", "4", "--samples", "1", "--json"]


LIBRARY_FAILS = "try: {stop}\n            except BaseException: raise ImportError('half imported')"
FINALIZER = "type('Left', (), {{'__del__': lambda self: {stop}}})()"


@pytest.mark.parametrize("while_importing", [LIBRARY_FAILS, FINALIZER])
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_stop_during_library_import_prints_one_line(how: signal.Signals, code: int, while_importing: str) -> None:
    # stop at the lookup of typer: the import fails as in an interrupted library, or the interrupt hits a finalizer
    stop = f"os.kill(os.getpid(), {int(how)})"
    program = (
        "import os, sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        f"            {while_importing.format(stop=stop)}\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from factmill.flows.cli.entry import main\n"
        "main()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "builds"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert (ran.returncode, ran.stderr.strip(), ran.stdout) == (code, STOPPED, "")


def test_sigterm_ends_build_during_requested_wait(factmill: Factmill, tmp_path: Path) -> None:
    web, result = Loopback(), threading.Event()

    def wait(_: Seen) -> dict[str, object]:
        result.set()
        return {"status": 429, "headers": {"Retry-After": "500"}, "text": "later"}

    web.handle = wait
    process = factmill.start(*build_options(tmp_path, f"{web.url}/v1"), TEST_KEY="x")
    try:
        assert result.wait(_LIMIT_S)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=_LIMIT_S)
    finally:
        process.kill()
        web.close()
    assert process.returncode == 143, err
    assert err.rstrip().endswith(STOPPED)
    assert "Traceback" not in err


def test_concurrent_identical_build_is_reported_before_prefect_starts(
    factmill: Factmill, model: Model, tmp_path: Path
) -> None:
    options = build_options(tmp_path, model.web.url)
    first = factmill.start(*options, TEST_KEY="x")
    try:
        assert model.asked.wait(_LIMIT_S)
        second = factmill.run_process(*options, TEST_KEY="x")
        assert second.code == 1
        assert f"process {first.pid} is making the same build in " in second.err
        assert "starting Prefect" not in second.err
    finally:
        model.web.free.set()
        first.communicate(timeout=_LIMIT_S)


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/api", "nonsense"])
def test_unresponsive_prefect_address_prints_one_line(factmill: Factmill, address: str) -> None:
    ran = Factmill(factmill.home).run_process("build", "granola", "--limit", "2", PREFECT_API_URL=address)
    assert ran.code == 1
    assert len(ran.err.strip().splitlines()) == 1
    assert f"no Prefect server answers where PREFECT_API_URL says ({address}): " in ran.err
    assert "unset PREFECT_API_URL" in ran.err


def test_lost_prefect_server_prints_one_line_and_build_resumes_with_other(
    factmill_on_prefect: Factmill, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    factmill = factmill_on_prefect
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    options = build_options(tmp_path, model.web.url)
    with standing_or_own_prefect_server(factmill.home) as server:
        assert server
        server.wait_ready()
        result = {"PREFECT_API_URL": os.environ["PREFECT_API_URL"], "PREFECT_CLIENT_MAX_RETRIES": "0", "TEST_KEY": "x"}
        process = Factmill(factmill.home).start(*options, **result)
        assert model.asked.wait(_LIMIT_S)
    model.web.free.set()
    _, err = process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    assert "ERROR" not in err
    assert f"the Prefect server at {result['PREFECT_API_URL']} has gone away while the flow ran" in err.splitlines()[-1]
    assert "link_question_entities: 4 rows, 0 rejected, calls 0 sent" in factmill(*options, TEST_KEY="x").err


def test_build_with_killed_own_prefect_server_publishes_without_new_requests(
    factmill: Factmill, model: Model, tmp_path: Path
) -> None:
    about = re.compile("<answer>(.*?)</answer>\\n<about_the_question>.*\\n<about_the_answer>(.*?)</about_the_answer>")
    model.says = lambda messages: "1:: {}\n2:: {}".format(*about.search(messages[-1]["content"]).groups())
    # without retries: Prefect's client finds no server when the flow ends
    result = {"PREFECT_CLIENT_MAX_RETRIES": "0", "TEST_KEY": "x"}
    process = Factmill(factmill.home).start(*build_options(tmp_path, model.web.url), **result)
    assert model.asked.wait(_LIMIT_S)
    kill_server(process.pid)
    model.web.free.set()
    out, err = process.communicate(timeout=_LIMIT_S)
    assert process.returncode == 0, err
    assert "note: factmill's own Prefect server ended (killed by SIGKILL" in err
    assert "Traceback" not in err and "PREFECT_API_URL" not in err
    asked = [seen.body for seen in model.web.web.seen]
    assert len(asked) == len(set(asked)) > 0
    report = json.loads(out)
    assert report["rows"] > 0 and report["rows"] + report["rejects"] == 4
