"""`factmill gc`, `compact` and `upgrade`: remove old or unused data, shrink the database files to their content, and
migrate a warehouse of an earlier factmill."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from factmill.flows.benchmarks import BENCHMARKS
from factmill.flows.cli.options import AsJson, Warehouse, check_given_age, check_warehouse, print_result
from factmill.flows.evaluate.evaluations import list_made
from factmill.flows.prefect_server import apply_prefect_settings, prefect_server
from factmill.tasks import progress
from factmill.tasks.core.rows import MOST
from factmill.tasks.errors import ServiceUnreachable, UnknownBuild, WarehouseError
from factmill.tasks.options import RunOptions, warehouse_of
from factmill.tasks.settings import environment, home
from factmill.tasks.storage.housekeeping.compacting import compact_warehouse, upgrade_warehouse
from factmill.tasks.storage.housekeeping.freed import OUR_OWN, Freed, find_gone_runs, measure, name_server
from factmill.tasks.storage.housekeeping.prefect_history import clean_history, history_of, vacuum_history
from factmill.tasks.storage.housekeeping.warehouse import Keeping, clean_strays, clean_warehouse
from factmill.tasks.storage.schema import VERSION
from factmill.tasks.storage.warehouse import is_there
from factmill.tasks.text.ages import read_age


def gc(
    keep: int = typer.Option(
        10, min=1, max=MOST, help="Newest builds of each benchmark and author that stay.", metavar="NUMBER"
    ),
    builds_older_than: str | None = typer.Option(
        None,
        help="Builds that go though they are among these; the newest of each stays.",
        metavar="AGE",
        callback=check_given_age,
    ),
    older_than: str = typer.Option(
        "30d",
        help="Unused records, run folders, Prefect's history and stray files that go: 12h, 30d, 4w.",
        metavar="AGE",
        callback=check_given_age,
    ),
    with_measured: bool = typer.Option(
        False, "--with-measured", help="Let builds go that evaluations measured or readers audited, too."
    ),
    yes: bool = typer.Option(
        False, "--yes/--dry-run", help="Remove it; by default it is only said what would be removed."
    ),
    warehouse: Warehouse = None,
    as_json: AsJson = False,
) -> None:
    """Remove old builds, records that no build and no run rests on, folders of stopped runs, Prefect's history, stray files.

    Runs that were killed, which Prefect has as running, are ended. Without --yes nothing is removed. What a running
    process works with is left alone, and every build that stays can be verified as before. Room in the warehouse's file is used again; `factmill compact` gives it back.

    \b
    Examples:
      factmill gc
      factmill gc --yes
      factmill gc --keep 3 --builds-older-than 90d --older-than 7d --yes
    """
    progress.show()
    path = warehouse_of(RunOptions(warehouse=warehouse))
    ages = {"--older-than": older_than, "--builds-older-than": builds_older_than or ""}
    since = _find_moment(older_than)
    builds_since = _find_moment(builds_older_than) if builds_older_than else None
    keeping = Keeping(keep, builds_since, since, measured=not with_measured)
    freed = clean_warehouse(path, keeping, remove=yes)
    freed.append(_end_gone_runs(remove=yes))
    history = clean_history(home(), since, remove=yes)
    if server := environment("PREFECT_API_URL"):
        # a standing server keeps its history outside factmill's home
        left = (
            f"{server} keeps its own history; PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED=events,flow_runs in that server's "
            "environment bounds it (docker-compose.yml does)"
        )
        history = replace(history, left=history.left or left)
    freed.append(history)
    freed += clean_strays(home(), path, since, remove=yes)
    shown = [
        asdict(each) | {"young_until": _find_end(each, ages), "young_option": _find_option(each)} for each in freed
    ]
    how = "removed" if yes else "nothing was removed; to remove it: the same command with --yes"
    lines = [line for each in freed for line in _format_freed(each, ages)]
    print_result(as_json, {"warehouse": str(path), "removed": yes, "freed": shown}, [*lines, how])
    if trouble := next((each.trouble for each in freed if each.trouble), ""):
        raise WarehouseError(trouble)


def _format_freed(freed: Freed, ages: Mapping[str, str]) -> Iterator[str]:
    """Yield lines about the reclaimed space of one kind; `ages`: option → age given on the command line."""
    told = f"{freed.kind:16} {freed.count:>9,} {_tell_size(freed.size_bytes):>10}"
    left = freed.left or ("could not be done: see the error" if freed.trouble else "")
    yield f"{told}  {left}".rstrip()
    yield from (f"    {name}" for name in freed.names[:20])
    if len(freed.names) > 20:
        yield f"    … {len(freed.names) - 20:,} more (all of them: --json)"
    if freed.young:
        size = f" ({_tell_size(freed.young_bytes)})" if freed.young_bytes else ""
        option = _find_option(freed)
        yield (
            f"    {freed.young:,} more{size} stay only because they are younger than {ages[option]}; the last of them can "
            f"go from {_find_end(freed, ages)} on, all of them now with {option} 0s"
        )


def _find_option(freed: Freed) -> str:
    """Return the option that sets the age from which this kind is removed."""
    return "--builds-older-than" if freed.kind == "builds" else "--older-than"


def _find_end(freed: Freed, ages: Mapping[str, str]) -> str:
    """Return the minute (UTC) from which all of this kind is old enough to go; empty if all of it is already."""
    if not freed.young:
        return ""
    try:
        age = timedelta(seconds=read_age(ages[_find_option(freed)]))
        return f"{datetime.fromisoformat(freed.young_newest) + age:%Y-%m-%d %H:%M} UTC"
    except OverflowError:
        return "the end of the calendar"


def compact(warehouse: Warehouse = None, as_json: AsJson = False) -> None:
    """Write the warehouse, and Prefect's database in factmill's home, anew without the room that removed rows left.

    The warehouse is held meanwhile, and replaced only by a copy with the same content; beside it there has to be free
    room for twice what it takes. Where a build works with it, it is left as it is, with exit code 1.
    Example: factmill gc --yes && factmill compact
    """
    path, history = warehouse_of(RunOptions(warehouse=warehouse)), history_of(home())
    if not path.is_file():
        raise UnknownBuild(f"there is no warehouse {path}")
    sizes = {"warehouse": compact_warehouse(path)}
    before = measure(history)
    left = vacuum_history(home())
    if history.is_file():
        sizes["prefect"] = (before, measure(history))
    told = {name: {"before": was, "after": now} for name, (was, now) in sizes.items()}
    lines = [f"{name:10} {_tell_size(was):>10} → {_tell_size(now)}" for name, (was, now) in sizes.items()]
    note = f"Prefect's database is left as it was: {left}" if left else ""
    print_result(as_json, {"file": str(path), **told, "left": left}, lines, note)


def upgrade(
    file: Path | None = typer.Argument(
        None, help="The warehouse. Default: the usual one.", callback=check_warehouse, metavar="FILE"
    ),
    as_json: AsJson = False,
) -> None:
    """Carry a warehouse of an earlier factmill over into today's tables, with its builds and recorded calls.

    Recorded replies serve afterwards as before, and nothing that was paid for is asked again. The file is replaced only when
    every row has arrived; beside it there has to be free room for twice what it takes. Where a build works with it, it is left
    as it is, with exit code 1.

    \b
    Examples:
      factmill upgrade data/factmill.duckdb
      factmill upgrade old.duckdb --json
    """
    progress.show()
    path = warehouse_of(RunOptions(warehouse=file))
    if not is_there(path):
        raise UnknownBuild(f"there is no warehouse {path}")
    models = {
        name: model for each in (*BENCHMARKS.values(), *list_made().values()) for name, model in each.tables.items()
    }
    done = upgrade_warehouse(path, models, {each.name: each.statements for each in BENCHMARKS.values()})
    if done.tables:
        counted = f"{done.tables['builds']:,} builds, {done.tables['calls']:,} recorded calls"
        line = f"{path}: schema version {done.version} → {VERSION}; {counted}"
    else:
        line = f"{path}: has schema version {VERSION} already"
    print_result(as_json, {"file": str(path), "from": done.version, "to": VERSION, "tables": done.tables}, [line])


def _find_moment(age: str) -> datetime:
    """Return the moment that lies `age` in the past, 1970 at the earliest."""
    return datetime.fromtimestamp(max(time.time() - read_age(age), 0), UTC)


def _tell_size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 100_000 else f"{size_bytes:,} B"


KIND = "killed runs"


def _end_gone_runs(*, remove: bool) -> Freed:
    """End runs that Prefect lists as running but whose process is gone; only count them unless `remove`.

    Runs of a server other than the current one are left, since only that server knows them.
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
            # use the standing server, or start one; Prefect is imported only here
            apply_prefect_settings(home())
            with prefect_server(home()) as server:
                progress.say("ending runs that were killed …")
                from factmill.flows.watching.runs import crash_gone_runs

                if server:
                    server.wait_ready()
                crash_gone_runs()
        except ServiceUnreachable as error:
            return Freed(KIND, left="; ".join([*left, str(error)]))
    return Freed(KIND, count, left="; ".join(left))
