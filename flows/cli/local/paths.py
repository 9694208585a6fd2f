"""The command `factmill paths`: its options, and how its result is printed."""

import json
from collections import Counter
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import print_lines
from tasks import progress
from tasks.core.rows import MOST
from tasks.errors import UsageError


def paths(
    subject: Annotated[str | None, typer.Argument(help="A QID or a name.", metavar="SUBJECT")] = None,
    target: Annotated[
        str | None, typer.Argument(help="A QID, a name, a date or a number with its unit.", metavar="OBJECT")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="CSV, JSON Lines or Parquet with columns subject and object, for many at once.", metavar="FILE"
        ),
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Write to .parquet, .csv or .jsonl; beside it a file of all pairs.", metavar="FILE"),
    ] = None,
    graph: Annotated[str | None, typer.Option(help="Find them in this local graph.", metavar="NAME")] = None,
    world: Annotated[str, typer.Option(help="Else in this world's Wikidata, by SPARQL.", metavar="WORLD")] = "embedded",
    kind: Annotated[
        Literal["item", "date", "number", "rank"] | None,
        typer.Option("--as", help="What objects are. Default: as each is written."),
    ] = None,
    all_hops: Annotated[bool, typer.Option("--all-hops", help="Two hops even where one finds a path.")] = False,
    all_properties: Annotated[
        bool, typer.Option("--all-properties", help="Also identifiers and web addresses.")
    ] = False,
    most: Annotated[
        int, typer.Option(min=1, max=MOST, help="Keep so many paths of a pair, the first in order.")
    ] = 1000,
    language: Annotated[str, typer.Option(help="Language of names and labels.", metavar="TAG")] = "en",
    limit: Annotated[int, typer.Option(min=0, max=MOST, help="Print so many paths of a pair.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a pair.")] = False,
) -> None:
    """Find the paths of one and two hops between items, or from items to dates and numbers.

    \b
    Examples:
      factmill paths "Albert Einstein" "Max Planck"
      factmill paths Q937 "14 March 1879" --graph mine
      factmill paths --pairs pairs.csv --to paths.parquet --graph mine --all-hops
    """
    if bool(pairs) == bool(subject) or bool(subject) != bool(target):
        raise UsageError("give SUBJECT and OBJECT, or --pairs FILE; see factmill paths --help")
    from flows.commands.local.paths import mine_pairs
    from flows.commands.local.paths_output import PathFiles, format_pairs, read_pairs
    from tasks.assets import load_properties
    from tasks.core.paths import PathOptions
    from tasks.engine.services import Services
    from tasks.settings import home

    progress.show()
    ignored = frozenset() if all_properties else load_properties("ignored_properties")
    options = PathOptions(all_hops=all_hops, ignored=ignored, most_paths=most)
    asked = read_pairs(pairs) if pairs else [(str(subject), str(target))]
    counts: Counter[str] = Counter()
    with closing(Services.open(world, graph, home())) as services, PathFiles(to) if to else nullcontext() as files:
        services.world.require("wikidata")
        for found, statuses in mine_pairs(asked, services, kind, options, language):
            counts.update(statuses["status"].to_pylist())
            counts["paths"] += len(found)
            if files:
                files.write(found, statuses)
                progress.say(f"{counts.total() - counts['paths']:,} pairs, {counts['paths']:,} paths")
            elif as_json:
                _print_json(found.to_pylist(), statuses.to_pylist())
            else:
                print_lines(format_pairs(found, statuses, limit))
    if to:
        summary = {"files": [str(file) for file in files.files], **dict(sorted(counts.items()))} if files else {}
        typer.echo(json.dumps(summary) if as_json else _format_summary(counts, to))


def _print_json(found: list[dict[str, object]], statuses: list[dict[str, object]]) -> None:
    by_pair: dict[object, list[dict[str, object]]] = {}
    for row in found:
        by_pair.setdefault(row.pop("pair"), []).append(row)
    for pair in statuses:
        typer.echo(json.dumps({**pair, "paths": by_pair.get(pair["pair"], [])}, ensure_ascii=False))


def _format_summary(counts: Counter[str], to: Path) -> str:
    paths_found = counts.pop("paths")
    told = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in sorted(counts.items()))
    return f"{to}: {paths_found:,} paths of {counts.total():,} pairs ({told or 'none'})"
