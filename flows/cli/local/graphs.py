"""The commands `factmill graph …`: their options, and how their results are printed."""

from typing import Annotated, Literal

import typer

from flows.cli.options import AsJson, print_json, print_lines
from tasks.core.rows import MOST

graph_app = typer.Typer(help="Local graphs: Wikidata dumps on this machine.", no_args_is_help=True)

GraphName = Annotated[str, typer.Argument(help="Name of the graph.", metavar="NAME")]


@graph_app.command("load")
def load_graph(
    files: Annotated[
        list[str],
        typer.Argument(
            help="N-Triples or Turtle, plain or packed with gzip, bzip2 or zstd; - reads standard input.",
            metavar="FILE…",
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the graph.", metavar="NAME")],
    language: Annotated[
        list[str] | None, typer.Option(help="Languages of labels to keep (repeatable). Default: en.", metavar="TAG")
    ] = None,
    form: Annotated[
        Literal["ntriples", "turtle"] | None,
        typer.Option("--format", help="What files are whose name does not tell (.nt, .ttl). Default: as they begin."),
    ] = None,
    dump_date: Annotated[
        str | None, typer.Option(help="Date of the dump (ISO 8601). Default: as the dump says.", metavar="DATE")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a graph of that name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Load a Wikidata dump as a local graph. After Ctrl-C or a crash the same command goes on.

    \b
    Examples:
      factmill graph load latest-truthy.nt.gz --name truthy
      factmill graph load Q42.ttl Q64.ttl.gz --name two
      factmill graph load truthy.nt.bz2 --name three --language en --language de --language fr
      lbzip2 -dc latest-all.nt.bz2 | factmill graph load - --name all
      zstd -dc statements.zst | factmill graph load - --format turtle --name statements
    """
    from flows.commands.local.graphs import load

    manifest = load(files, name, tuple(language or ("en",)), form, dump_date, replace)
    if as_json:
        print_json(manifest)
        return
    told = manifest | {"files": f"{sum(file['size_bytes'] for file in manifest['files'].values()):,} bytes"}
    print_lines(f"{key:16} {value}" for key, value in told.items())


@graph_app.command("list")
def list_graphs(as_json: AsJson = False) -> None:
    """List the local graphs, those that are half loaded or damaged too."""
    from flows.commands.local.graphs import listing

    found = listing()
    if as_json:
        print_json(found)
        return
    for graph in found:
        told = f"{graph['edges']:>13,} edges  {graph['digest'][:16]}" if graph["digest"] else graph["advice"]
        typer.echo(f"{graph['name']:20} {graph['state']:12} {told}")
    if not found:
        typer.echo("no graphs yet; try: factmill graph load --help", err=True)


@graph_app.command("check")
def check_graph(
    name: GraphName,
    malformed: Annotated[
        int,
        typer.Option(min=0, max=MOST, help="Also list so many of the lines that were no triples when it was loaded."),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Read all files of a local graph and compare them with what was loaded.

    Exit code 0 only when all agree. Example: factmill graph check truthy --malformed 20
    """
    from flows.commands.local.graphs import check

    found = check(name, malformed)
    if as_json:
        print_json(found)
    else:
        for file, told in found["files"].items():
            typer.echo(f"{file:24} {told['size_bytes']:>15,} bytes  {told['damage'] or 'as loaded'}")
        advice = "" if found["agrees"] else f"; load it again: factmill graph load FILE... --name {name} --replace"
        for line in found["malformed_lines"]:
            typer.echo(f"{line['file']}, line {line['line_no']}: {line['reason']}: {line['text']}")
        typer.echo(f"{found['malformed']:,} malformed lines were left out")
        typer.echo(f"{name}: {'as it was loaded' if found['agrees'] else 'DAMAGED'}{advice}")
    if not found["agrees"]:
        raise typer.Exit(1)


@graph_app.command("remove")
def remove_graph(name: GraphName) -> None:
    """Remove a local graph. Where a load of that name is half done, only what that load left is removed.

    Example: factmill graph remove truthy
    """
    from tasks.graph.folders import remove_graph as remove
    from tasks.settings import graphs_folder, home

    typer.echo(f"removed the {remove(name, graphs_folder(home()))} {name}")
