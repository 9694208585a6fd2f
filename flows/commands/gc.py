"""What `factmill gc` does on Prefect's side: runs that were killed are ended; what a standing server keeps is told."""

import os
from collections import Counter

from flows.prefect_server import prefect_server, prefect_settings
from tasks.errors import ServiceUnreachable
from tasks.progress import say
from tasks.settings import environment, home
from tasks.storage.housekeeping.freed import Freed
from tasks.storage.housekeeping.gone_runs import OUR_OWN, find_gone_runs, name_server

KIND = "killed runs"


def end_gone_runs(*, remove: bool) -> Freed:
    """End the runs whose process is gone, which Prefect has as running (only count them unless `remove`).

    Those of another server than the one that runs go to now are left: only it knows them.
    """
    servers = Counter(find_gone_runs(home()).values())
    count = servers.pop(name_server(), 0)
    left = [
        f"{others:,} of runs without a standing server: unset PREFECT_API_URL and run this again"
        if server == OUR_OWN
        else f"{others:,} of {server}: name it by PREFECT_API_URL and run this again"
        for server, others in servers.items()
    ]
    if count and remove:
        try:
            _end()
        except ServiceUnreachable as error:
            return Freed(KIND, left="; ".join([*left, str(error)]))
    return Freed(KIND, count, left="; ".join(left))


def tell_standing_history() -> str:
    """Return who bounds the history of a standing server, where runs go to one; it is not in factmill's home."""
    server = environment("PREFECT_API_URL")
    return (
        f"{server} keeps its own history; PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED=events,flow_runs in that server's "
        "environment bounds it (docker-compose.yml does)"
        if server
        else ""
    )


def _end() -> None:
    """Tell the server, one of our own where none stands; Prefect is imported only here."""
    os.environ.update(prefect_settings(home()))
    with prefect_server(home()) as server:
        say("ending runs that were killed …")
        from flows.watching.gone import crash_gone_runs

        if server:
            server.wait_ready()
        crash_gone_runs()
