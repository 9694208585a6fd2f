"""`factmill build BENCHMARK`: one command a benchmark, each with its own parameters, and `build all`.

A command's function takes the benchmark's own options and returns the parameters of its flow; the options that all
builds have are added to it in one place.
"""

import inspect
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tasks import progress
from tasks.core.calls import Mode
from tasks.core.epochs import SNAPSHOT
from tasks.options import BuildReport, RunOptions

build_app = typer.Typer(
    help="Build a benchmark into the warehouse. Try: factmill build granola, factmill build all", no_args_is_help=True
)

World = Annotated[str, typer.Option(help="embedded, live, or the path of a world's TOML file.")]
Graph = Annotated[str | None, typer.Option(help="Use this local graph as the world's Wikidata.", metavar="NAME")]
Warehouse = Annotated[
    Path | None, typer.Option(help="The DuckDB file. Default: factmill.duckdb in factmill's home.", metavar="FILE")
]
RunMode = Annotated[
    Mode, typer.Option(help="record: ask what is not recorded; replay: ask nothing; refresh: ask all anew.")
]
Concurrency = Annotated[int, typer.Option(min=1, max=64, help="Batches worked on at once.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Rows a batch.")]
Force = Annotated[bool, typer.Option("--force", help="Build even when a build with the same inputs is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]

Review = Annotated[
    Literal["auto", "manual", "ask"],
    typer.Option(
        help="What becomes of flagged rows: what each flag's rule says, mostly dropped (auto), left out until reviewed "
        "(manual), or asked for in a pause of the run in the Prefect UI (ask)."
    ),
]
Params = dict[str, Any]


def _run_settings(
    world: World = "embedded",
    graph: Graph = None,
    warehouse: Warehouse = None,
    mode: RunMode = "record",
    concurrency: Concurrency = 4,
    batch_size: BatchSize = 500,
) -> RunOptions:
    progress.show()
    return RunOptions(
        world=world, graph=graph, warehouse=warehouse, mode=mode, concurrency=concurrency, batch_size=batch_size
    )


def _builds(name: str) -> Callable[[Callable[..., Params]], Callable[..., None]]:
    """Make the command of a benchmark of the function that turns its own options into the flow's parameters."""

    def decorate(read_options: Callable[..., Params]) -> Callable[..., None]:
        own = inspect.signature(read_options, eval_str=True).parameters
        settings = inspect.signature(_run_settings, eval_str=True).parameters

        @wraps(read_options)
        def command(force: Force = False, as_json: AsJson = False, **options: Any) -> None:
            params = read_options(**{key: value for key, value in options.items() if key in own})
            run = _run_settings(**{key: value for key, value in options.items() if key in settings})
            # a build that is there already may have open items to ask about
            _build(name, params, run, force or params.get("review") == "ask", as_json)

        keyword = inspect.Parameter.KEYWORD_ONLY
        last = [
            inspect.Parameter(key, keyword, default=False, annotation=kind)
            for key, kind in (("force", Force), ("as_json", AsJson))
        ]
        every = [*own.values(), *settings.values(), *last]
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [each.replace(kind=keyword) for each in every]
        )
        command.__annotations__ = {each.name: each.annotation for each in every}
        COMMANDS[name] = command
        return command

    return decorate


COMMANDS: dict[str, Callable[..., None]] = {}
"""Benchmark → its command, in the order in which `build all` runs them."""


@build_app.command("granola")
@_builds("granola")
def build_granola(
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="File or folder to read (repeatable); `wikidata`: the facts of the Wikidata itself.", metavar="PATH"
        ),
    ] = None,
    relation: Annotated[list[str] | None, typer.Option(help="Only this relation (repeatable).", metavar="PID")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many source rows, spread over the relations.")
    ] = None,
    policy: Annotated[
        Literal["smallest", "linked"],
        typer.Option(help="Which item of several with one name: smallest (the paper's) or linked."),
    ] = "smallest",
    samples: Annotated[int, typer.Option(min=1, help="Samples of the judge for each description.")] = 8,
    min_levels: Annotated[int, typer.Option(min=1, help="Answers a row must have.")] = 2,
) -> Params:
    """GRANOLA-EQ: entity questions with answers from fine to coarse.

    \b
    Examples:
      factmill build granola
      factmill build granola --source P19.test.json --relation P19 --limit 500
      factmill graph load dump.nt.gz --name mine && factmill build granola --graph mine
    """
    return {
        "source": source or None,
        "relations": relation or None,
        "limit": limit,
        "policy": policy,
        "samples": samples,
        "max_error_score": 0.5,
        "min_levels": min_levels,
    }


@build_app.command("multihal")
@_builds("multihal")
def build_multihal(
    source: Annotated[
        list[str] | None,
        typer.Option(help="File or folder with foundations' files (repeatable). Default: our own.", metavar="PATH"),
    ] = None,
    foundation: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this one (repeatable): halueval, truthfulqa, felm, halubench, shroom2024, defan, simpleqa.",
            metavar="NAME",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rows of each foundation.")] = None,
    linker: Annotated[
        Literal["labels", "falcon"],
        typer.Option(help="How names are linked: by the local graph's labels, or Falcon 2.0."),
    ] = "labels",
    all_hops: Annotated[bool, typer.Option("--all-hops", help="Two hops even where one finds a path.")] = False,
    most_paths: Annotated[int, typer.Option(min=1, help="Paths kept of one subject-object pair.")] = 100,
    min_score: Annotated[int, typer.Option(min=1, max=5, help="Lowest score that is published.")] = 4,
    language: Annotated[
        list[str] | None,
        typer.Option(help="Only this beside English (repeatable): deu, fra, ita, spa, por.", metavar="CODE"),
    ] = None,
    label_source: Annotated[
        Literal["translated", "wikidata"],
        typer.Option(help="Path labels in other languages: all translated, or Wikidata's own where there is one."),
    ] = "translated",
) -> Params:
    """MultiHal: questions of seven benchmarks with judged Wikidata paths, in six languages.

    \b
    Examples:
      factmill build multihal
      factmill build multihal --foundation simpleqa --source simple_qa_test_set.csv --limit 100
      factmill build multihal --source foundations/ --graph mine --language deu
    """
    return {
        "source": source or None,
        "foundations": foundation or None,
        "limit": limit,
        "linker": linker,
        "all_hops": all_hops,
        "most_paths": most_paths,
        "min_score": min_score,
        "languages": language or None,
        "label_source": label_source,
    }


@build_app.command("biokalma")
@_builds("biokalma")
def build_biokalma(
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="JSONL or CSV file of paragraphs about two people, or a folder (repeatable); `wikidata`: the facts of "
            "the Wikidata itself. Default: our own.",
            metavar="PATH",
        ),
    ] = None,
    class_qid: Annotated[str, typer.Option("--class", help="Class of the pairs' items.", metavar="QID")] = "Q5",
    relations: Annotated[
        str | None,
        typer.Option(
            help="Relations to take pairs from, with commas between. Default: between people.", metavar="PIDS"
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many source rows, spread over the sources.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of evolution; the first annotates.")] = 5,
    alpha: Annotated[
        float, typer.Option(min=0, max=1, help="Weight of specificity against coherence when a piece is chosen.")
    ] = 0.5,
) -> Params:
    """BioKaLMA: questions about two people, with the smallest set of knowledge that answers them.

    \b
    Examples:
      factmill build biokalma
      factmill build biokalma --source wikidata --graph mine --relations P26,P40
      factmill build biokalma --source wikidata --class Q43229 --relations P749,P355
    """
    return {
        "source": source or None,
        "class_qid": class_qid,
        "relations": [pid.strip() for pid in relations.split(",") if pid.strip()] if relations else None,
        "limit": limit,
        "rounds": rounds,
        "alpha": alpha,
    }


@build_app.command("slaq")
@_builds("slaq")
def build_slaq(
    category: Annotated[
        list[str] | None,
        typer.Option(help="Only this category (repeatable). Default: the paper's fifteen.", metavar="NAME"),
    ] = None,
    per_half: Annotated[int, typer.Option(min=1, help="Topics of each half of a category.")] = 20,
    spares: Annotated[int, typer.Option(min=0, help="Topics beyond that, tried in case others fail a check.")] = 5,
    candidates: Annotated[int, typer.Option(min=2, help="Pages drawn from a category.")] = 120,
    depth: Annotated[int, typer.Option(min=0, help="Levels of subcategories whose pages count too.")] = 1,
    min_chars: Annotated[int, typer.Option(min=0, help="Characters that a main text must have.")] = 1000,
    days: Annotated[int, typer.Option(min=1, help="Days of page views before the world's epoch.")] = 1095,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 7,
    review: Review = "auto",
) -> Params:
    """SLAQ: the same facts asked short and long, from articles of fifteen categories.

    \b
    Examples:
      factmill build slaq
      factmill build slaq --world my-world.toml --category Astronomy --per-half 5
      factmill build slaq --review manual
    """
    return {
        "categories": category or None,
        "per_half": per_half,
        "spares": spares,
        "candidates": candidates,
        "depth": depth,
        "min_chars": min_chars,
        "days": days,
        "seed": seed,
        "review": review,
        "decisions": None,
    }


@build_app.command("fanoutqa")
@_builds("fanoutqa")
def build_fanoutqa(
    source: Annotated[
        list[str] | None,
        typer.Option(
            help="File or folder of questions, authored or released (repeatable); `wikidata`: made from the facts of the "
            "Wikidata. Default: our own, and wikidata.",
            metavar="PATH",
        ),
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(help="Kinds of sets to make questions from (repeatable). Default: all.", metavar="KIND"),
    ] = None,
    sets_a_kind: Annotated[int, typer.Option(min=1, help="Sets of one kind, at most.")] = 12,
    epoch: Annotated[
        str, typer.Option(help="Articles are those of this day or moment (UTC).", metavar="DATE")
    ] = SNAPSHOT[:10],
    titles: Annotated[
        str | None,
        typer.Option(
            help="All titles of the wiki, one a line (.gz too), for the retrieval check. Default: those of the questions.",
            metavar="FILE",
        ),
    ] = None,
    near: Annotated[int, typer.Option(min=1, help="Articles near a question that the retrieval check reads.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of the split into dev and test.")] = 7,
    review: Review = "auto",
) -> Params:
    """FanOutQA: questions that need many articles, with their decompositions, on evidence of one moment.

    \b
    Examples:
      factmill build fanoutqa
      factmill build fanoutqa --source my-questions.json --epoch 2025-06-01 --world my-world.toml
      factmill build fanoutqa --source wikidata --sets P47 --graph mine --review manual
    """
    return {
        "source": source or None,
        "sets": sets or None,
        "sets_a_kind": sets_a_kind,
        "epoch": epoch,
        "titles": titles,
        "near": near,
        "seed": seed,
        "review": review,
        "decisions": None,
    }


@build_app.command("all")
def build_all(
    world: World = "embedded",
    graph: Graph = None,
    warehouse: Warehouse = None,
    mode: RunMode = "record",
    concurrency: Concurrency = 4,
    batch_size: BatchSize = 500,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Every benchmark, with its defaults.

    Example: factmill build all
    """
    from flows.prefect_server import shared_server

    with shared_server():
        for command in COMMANDS.values():
            command(
                world=world,
                graph=graph,
                warehouse=warehouse,
                mode=mode,
                concurrency=concurrency,
                batch_size=batch_size,
                force=force,
                as_json=as_json,
            )


def _build(name: str, params: dict[str, Any], run: RunOptions, force: bool, as_json: bool) -> None:
    from flows.running import make_build

    print_report(make_build(name, params, run, force), as_json)


def print_report(report: BuildReport, as_json: bool) -> None:
    """Print a build's report, as JSON or as lines to read."""
    from flows.showing import tell_report

    typer.echo(
        json.dumps(report.model_dump(mode="json"), ensure_ascii=False) if as_json else "\n".join(tell_report(report))
    )
