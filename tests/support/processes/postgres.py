"""Run Debian's PostgreSQL on loopback in its own folder, for a Prefect server as in docker-compose.yml."""

import os
import pwd
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from factmill.tasks.processes import (
    LOOPBACK_HOST,
    find_free_port,
    load_log_tail,
    start_child_process,
    stop_child_process,
)

_PROGRAMS = ("initdb", "postgres", "createdb", "pg_isready")
_TIMEOUT_S = 60.0


def find_programs() -> Path:
    """Return the folder of PostgreSQL's programs, or skip and say what to install."""
    for folder in [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *map(Path, os.get_exec_path())]:
        if all((folder / name).is_file() for name in _PROGRAMS):
            return folder
    pytest.skip("a real PostgreSQL is not at hand; on Debian: apt-get install --no-install-recommends postgresql")


@contextmanager
def running_postgres(password: str) -> Iterator[int]:
    """Yield the port of a server with an empty database `prefect` and a user `prefect` with this password."""
    programs, port = find_programs(), find_free_port()
    with tempfile.TemporaryDirectory(prefix="factmill-postgres-", ignore_cleanup_errors=True) as made:
        folder, drop = Path(made), _drop_rights(Path(made))
        secret = folder / "password"
        secret.write_text(password)
        secret.chmod(0o644)  # no other user can enter the folder
        options = "--username=prefect --auth=scram-sha-256 --encoding=UTF8 --locale=C --no-sync"
        made_by = [*drop, programs / "initdb", "-D", folder / "data", f"--pwfile={secret}", *options.split()]
        subprocess.run(made_by, check=True, capture_output=True, timeout=_TIMEOUT_S, cwd=folder)
        result = (
            f"-D {folder}/data -p {port} -c listen_addresses={LOOPBACK_HOST} -c unix_socket_directories= -c fsync=off"
        )
        log = folder / "log"
        server = start_child_process([*drop, str(programs / "postgres"), *result.split()], log)
        try:
            at = ["-h", LOOPBACK_HOST, "-p", str(port), "-U", "prefect"]
            deadline = time.monotonic() + _TIMEOUT_S
            while subprocess.run([programs / "pg_isready", *at], capture_output=True, check=False).returncode:
                assert server.poll() is None and time.monotonic() < deadline, load_log_tail(log)
                time.sleep(0.1)
            own = {**os.environ, "PGPASSWORD": password}
            subprocess.run([programs / "createdb", *at, "prefect"], check=True, env=own, timeout=_TIMEOUT_S)
            yield port
        finally:
            stop_child_process(server)


def _drop_rights(folder: Path) -> list[str]:
    """Return how to start a program as another user, who then owns this folder: PostgreSQL refuses to run as root."""
    if os.geteuid():
        return []
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    rights = f"--reuid={user.pw_uid} --regid={user.pw_gid} --clear-groups --pdeathsig=SIGKILL"
    return ["/usr/bin/setpriv", *rights.split(), "--"]
