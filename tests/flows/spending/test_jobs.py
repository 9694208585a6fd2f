"""Test `factmill jobs`: the state of batch jobs left on their servers, and the actions on each."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.batches.asking import answer, ask_all, bodies, collect, interrupt, open_chat
from support.batches.server import BatchServer
from support.commands.command import ROOT, Factmill

from factmill.tasks.clients.batch_jobs.job_files import BatchJobsFolderAndRun, JobFilesOfOneQueue, load_job_files
from factmill.tasks.errors import ServiceUnreachable

CALLS = ask_all(10)
KILLED = """
import os, sys
from pathlib import Path
from support.batches.asking import ask_all, open_chat
from factmill.tasks import progress

class Server:
    url = sys.argv[1]

progress.print_and_log = lambda line: os.kill(os.getpid(), 9) if "in_progress" in line else None
open_chat(Server(), Path(sys.argv[2])).send(ask_all(10), lambda call, reply: None)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BatchServer]:
    server = BatchServer(tmp_path / "server", answer)
    server.ends = {1: "never"}
    yield server
    server.close()


@pytest.fixture
def factmill(own_home: Path) -> Factmill:
    own_home.mkdir(parents=True)
    return Factmill(own_home, on_prefect=False)


@pytest.fixture
def left(server: BatchServer, factmill: Factmill) -> Path:
    """Leave a job while it is running; return the folder of its job files."""
    folder = factmill.home / "runs"
    interrupt(open_chat(server, folder), CALLS, lambda: any(job["status"] == "in_progress" for job in server.jobs))
    return folder


def list_known(factmill: Factmill, *options: str) -> list[dict[str, Any]]:
    result = factmill.get_json("jobs", *options, MY_KEY="key")
    return list(result["jobs"])


def test_job_of_killed_process_is_listed_and_resumed(server: BatchServer, factmill: Factmill) -> None:
    left = factmill.home / "runs"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}
    ended = subprocess.run([sys.executable, "-c", KILLED, server.url, str(left)], env=environment, check=False)
    assert ended.returncode == -9
    [known] = list_known(factmill)
    assert known.pop("age_s") < 3600
    assert known.pop("handed_in_at") > "2026"
    assert known == {
        "job": "batch_0001",
        "state": "in_progress",
        "model": "m-1",
        "url": server.url,
        "requests": 10,
        "left": 10,
        "done": 0,
        "failed": 0,
        "build": "granola-1a2b",
        "warehouse": str(factmill.home / "factmill.duckdb"),
        "followed": False,
        "note": "no process waits for it; run the same build again to continue with it",
    }
    asked = server.requests
    assert [each["state"] for each in list_known(factmill, "--no-ask")] == ["handed_in"]
    assert server.requests == asked
    result = factmill("jobs", MY_KEY="key").out
    assert result.startswith("batch_0001  in_progress    0 of 10 requests to m-1, ")
    assert "ago, for granola-1a2b\n    no process waits for it" in result
    server.ends.clear()
    assert len(collect(open_chat(server, left), CALLS)) == 10
    assert len(server.jobs) == 1
    assert max(server.answered.values()) == 1
    assert list_known(factmill) == []
    assert factmill("jobs").err.startswith(f"no batch jobs of {factmill.home}/factmill.duckdb; ")


def test_cancelled_job_is_reported_and_its_finished_responses_are_used(
    left: Path, server: BatchServer, factmill: Factmill
) -> None:
    ran = factmill("jobs", "--cancel", "batch", "--json", MY_KEY="key")
    assert ran.json == {"cancelled": [{"job": "batch_0001", "state": "cancelling", "done": 0, "requests": 10}]}
    with pytest.raises(
        ServiceUnreachable, match=r"job batch_0001 was cancelled. .* 5 requests remained without an answer"
    ):
        collect(open_chat(server, left), CALLS)
    again = collect(open_chat(server, left), CALLS)
    assert bodies(again) == bodies(collect(open_chat(server, None, mode="single"), CALLS))
    assert [job["status"] for job in server.jobs] == ["cancelled", "completed"]


def test_cancel_of_completed_job_is_rejected(left: Path, server: BatchServer, factmill: Factmill) -> None:
    server.ends.clear()
    while list_known(factmill)[0]["state"] != "completed":
        pass
    assert list_known(factmill)[0]["note"] == "it has ended; run the same build again to read its answers"
    ran = factmill("jobs", "--cancel", "batch_0001", MY_KEY="key")
    assert (ran.code, ran.out) == (1, "")
    assert "job batch_0001 has ended (10 of 10 done, completed), so there is nothing to cancel" in ran.err
    ran = factmill("jobs", "--cancel-all", MY_KEY="key")
    assert (ran.code, ran.err) == (0, "no job is running: nothing to cancel\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cancel", "batch_0001", "--cancel-all"], "only one of --cancel JOB, --cancel-all and --forget JOB"),
        (["--cancel", "nobody"], "nobody: no such job in "),
        (["--forget", ""], "known jobs: batch_0001. For a job of another warehouse, add --warehouse FILE"),
        (["--warehouse", "/nowhere/w.duckdb"], "/nowhere/w.duckdb: no such warehouse"),
        (["--cancel-all", "--warehouse", "/nowhere/w.duckdb"], "/nowhere/w.duckdb: no such warehouse"),
    ],
)
def test_invalid_usage_names_expected_value(arguments: list[str], text: str, left: Path, factmill: Factmill) -> None:
    ran = factmill("jobs", *arguments, MY_KEY="key")
    assert ran.code == 2
    assert text in ran.err


def test_job_with_unknown_server_state_is_reported(left: Path, server: BatchServer, factmill: Factmill) -> None:
    ran = factmill("jobs", MY_KEY="")
    assert ran.code == 0
    assert "unknown" in ran.out
    assert "model m-1: the environment variable MY_KEY (key_env) is not set" in ran.out
    server.forget()
    ran = factmill("jobs", "--json", MY_KEY="other")
    assert (ran.json["jobs"][0]["state"], ran.json["jobs"][0]["done"]) == ("unknown", None)
    assert "knows no job batch_0001, but it was submitted with another key" in ran.json["jobs"][0]["note"]
    assert "factmill jobs --forget batch_0001" in ran.json["jobs"][0]["note"]
    [known] = list_known(factmill)
    assert known["state"] == "lost"
    assert (
        known["note"]
        == "its server no longer has it; the same build sends its unanswered requests again, and you pay for them again"
    )
    server.close()
    assert (
        "cannot be reached" in list_known(factmill)[0]["note"]
        or "no useful response" in list_known(factmill)[0]["note"]
    )
    ran = factmill("jobs", "--cancel-all", MY_KEY="key")
    assert ran.code == 1
    assert "no job was cancelled, because not all jobs can be read: " in ran.err


def test_possibly_lost_job_is_forgotten_and_requested_again(
    left: Path, server: BatchServer, factmill: Factmill
) -> None:
    server.forget()
    with pytest.raises(ServiceUnreachable, match="factmill jobs --forget batch_0001"):
        collect(open_chat(server, left, "other"), CALLS)
    assert factmill("jobs", "--forget", "batch_0001", "--json").json == {
        "job": "batch_0001",
        "forgotten": True,
        "requests": 10,
        "build": "granola-1a2b",
    }
    server.ends.clear()
    assert len(collect(open_chat(server, left, "other"), CALLS)) == 10


def test_inspecting_job_does_not_block_build_from_resuming_it(left: Path, tmp_path: Path) -> None:
    """A build that took a locked file for a job of another process would pay twice."""
    [job] = load_job_files(left)
    looking = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import fcntl, time\nf = open({str(job.path)!r})\nfcntl.flock(f, 1)\nprint(flush=True)\ntime.sleep(0.003)",
        ],
        stdout=subprocess.PIPE,
    )
    assert looking.stdout and looking.stdout.readline()
    found = JobFilesOfOneQueue(
        BatchJobsFolderAndRun(job.path.parent, "granola-1a2b", tmp_path / "w.duckdb")
    ).lock_jobs_with(job.request_ids)
    assert [each.job_id for each in found] == ["batch_0001"]
    looking.wait()
