"""`factmill gc` and `factmill compact`: what is old or unused goes, and the files become as small as what they hold."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from flows.cli.options import AsJson, Warehouse, check_given_age, print_json, print_lines
from tasks.core.rows import MOST
from tasks.errors import UnknownBuild, WarehouseError
from tasks.options import RunOptions, warehouse_of
from tasks.storage.housekeeping.freed import Freed
from tasks.text.ages import read_age


def gc(
    keep: Annotated[
        int,
        typer.Option(min=1, max=MOST, help="Newest builds of each benchmark and author that stay.", metavar="NUMBER"),
    ] = 10,
    builds_older_than: Annotated[
        str | None,
        typer.Option(
            help="Builds that go though they are among these; the newest of each stays.",
            metavar="AGE",
            callback=check_given_age,
        ),
    ] = None,
    older_than: Annotated[
        str,
        typer.Option(
            help="Unused records, run folders, Prefect's history and stray files that go: 12h, 30d, 4w.",
            metavar="AGE",
            callback=check_given_age,
        ),
    ] = "30d",
    with_measured: Annotated[
        bool,
        typer.Option("--with-measured", help="Let builds go that evaluations measured or readers audited, too."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes/--dry-run", help="Remove it; by default it is only said what would be removed.")
    ] = False,
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
    from flows.commands.gc import end_gone_runs, tell_standing_history
    from tasks import progress
    from tasks.settings import home
    from tasks.storage.housekeeping.prefect_history import clean_history
    from tasks.storage.housekeeping.strays import clean_strays
    from tasks.storage.housekeeping.warehouse import Keeping, clean_warehouse

    progress.show()
    path = warehouse_of(RunOptions(warehouse=warehouse))
    ages = {"--older-than": older_than, "--builds-older-than": builds_older_than or ""}
    since = _find_moment(older_than)
    builds_since = _find_moment(builds_older_than) if builds_older_than else None
    keeping = Keeping(keep, builds_since, since, measured=not with_measured)
    freed = clean_warehouse(path, keeping, remove=yes)
    freed.append(end_gone_runs(remove=yes))
    history = clean_history(home(), since, remove=yes)
    freed.append(replace(history, left=history.left or tell_standing_history()))
    freed += clean_strays(home(), path, since, remove=yes)
    if as_json:
        shown = [
            asdict(each) | {"young_until": _find_end(each, ages), "young_option": _find_option(each)} for each in freed
        ]
        print_json({"warehouse": str(path), "removed": yes, "freed": shown})
    else:
        print_lines(line for each in freed for line in _format_freed(each, ages))
        typer.echo("removed" if yes else "nothing was removed; to remove it: the same command with --yes")
    if trouble := next((each.trouble for each in freed if each.trouble), ""):
        raise WarehouseError(trouble)


def _format_freed(freed: Freed, ages: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines about one kind of thing; `ages`: option → what it was given."""
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
    """Return the option that says at which age things of this kind go."""
    return "--builds-older-than" if freed.kind == "builds" else "--older-than"


def _find_end(freed: Freed, ages: Mapping[str, str]) -> str:
    """Return the minute from which age holds nothing of this kind back; empty where it holds nothing back."""
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
    from tasks.settings import home
    from tasks.storage.housekeeping.compacting import compact_warehouse
    from tasks.storage.housekeeping.freed import measure
    from tasks.storage.housekeeping.prefect_history import history_of, vacuum_history

    path, history = warehouse_of(RunOptions(warehouse=warehouse)), history_of(home())
    if not path.is_file():
        raise UnknownBuild(f"there is no warehouse {path}")
    sizes = {"warehouse": compact_warehouse(path)}
    before = measure(history)
    left = vacuum_history(home())
    if history.is_file():
        sizes["prefect"] = (before, measure(history))
    if as_json:
        told = {name: {"before": was, "after": now} for name, (was, now) in sizes.items()}
        print_json({"file": str(path), **told, "left": left})
        return
    for name, (was, now) in sizes.items():
        typer.echo(f"{name:10} {_tell_size(was):>10} → {_tell_size(now)}")
    if left:
        typer.echo(f"Prefect's database is left as it was: {left}", err=True)


def _find_moment(age: str) -> datetime:
    """Return the moment that is so long ago, or 1970 where that is longer ago."""
    return datetime.fromtimestamp(max(time.time() - read_age(age), 0), UTC)


def _tell_size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 100_000 else f"{size_bytes:,} B"
