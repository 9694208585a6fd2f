"""`factmill graph` and `factmill models`: load, list, check and remove local graphs; convert, list and remove local models."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from factmill.flows.cli.options import JsonOption, has_subcommand, print_result
from factmill.tasks import progress
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.errors import UsageError
from factmill.tasks.graph import folders, load
from factmill.tasks.graph.loading.staging import LoadProgress
from factmill.tasks.graph.lookup import MalformedLine, open_graph
from factmill.tasks.models import model_folder
from factmill.tasks.models.model_folder import ModelManifest, get_models_folder
from factmill.tasks.settings import factmill_home, graphs_folder

graph_app = typer.Typer()
GraphArgument = Annotated[str, typer.Argument(help="Name of the graph.", metavar="NAME")]


@graph_app.command("load")
def load_graph(
    files: list[str] = typer.Argument(
        ...,
        help="N-Triples or Turtle files, plain or compressed with gzip, bzip2 or zstd. `-` reads standard input.",
        metavar="FILE…",
    ),
    name: str = typer.Option(..., help="Name for the graph.", metavar="NAME"),
    language: list[str] | None = typer.Option(
        None, help="Language of labels to keep (repeatable). Default: en.", metavar="TAG"
    ),
    form: Literal["ntriples", "turtle"] | None = typer.Option(
        None, "--format", help="Format of files without the suffix .nt or .ttl. Default: detected from their content."
    ),
    dump_date: str | None = typer.Option(
        None, help="Date of the dump (ISO 8601). Default: the date stated in the dump.", metavar="DATE"
    ),
    replace: bool = typer.Option(False, "--replace", help="Replace an existing graph of this name."),
    as_json: JsonOption = False,
) -> None:
    """Load a Wikidata dump as a local graph.

    After Ctrl-C or a crash, run the same command again to continue.

    \b
    Examples:
      factmill graph load latest-truthy.nt.gz --name truthy
      factmill graph load Q42.ttl Q64.ttl.gz --name two
      factmill graph load truthy.nt.bz2 --name three --language en --language de --language fr
      lbzip2 -dc latest-all.nt.bz2 | factmill graph load - --name all
      zstd -dc statements.zst | factmill graph load - --format turtle --name statements
    """
    started = time.perf_counter()
    with _showing_live_progress(f"loading {name}") as show:
        manifest = load.load_graph(
            files,
            name,
            graphs_folder(factmill_home()),
            tuple(language or ("en",)),
            lambda news: show(format_graph_load_progress(news)),
            form=form,
            dump_date=dump_date,
            replace=replace,
            notice=_print_to_stderr,
        )
    result = {**manifest.model_dump(mode="json"), "seconds": round(time.perf_counter() - started, 2)}
    shown = result | {"files": f"{sum(file['size_bytes'] for file in result['files'].values()):,} bytes"}
    print_result(as_json, result, (f"{key:16} {value}" for key, value in shown.items()))


@graph_app.callback(invoke_without_command=True)
def list_graphs(
    context: typer.Context,
    name: str | None = typer.Option(None, help="List only this graph.", metavar="NAME"),
    check: bool = typer.Option(
        False, "--check", help="Read all files of each graph and compare their digests with those of the load."
    ),
    malformed: int = typer.Option(
        0,
        min=0,
        max=MAX_SETTING_NUMBER,
        help="With --check: maximum number of malformed input lines to list.",
        metavar="N",
    ),
    as_json: JsonOption = False,
) -> None:
    """List local graphs (Wikidata dumps), load and remove them.

    Without a subcommand, the command lists the graphs, including unfinished and damaged ones. With --check, the exit
    code is 0 only if all files are unchanged since the load.

    \b
    Examples:
      factmill graph
      factmill graph --name truthy --check --malformed 20
    """
    if has_subcommand(context):
        return
    if malformed and not check:
        raise UsageError("--malformed works only with --check; for example: `factmill graph --check --malformed 20`")
    found = [graph for graph in list_graph_states() if name in (None, graph["name"])]
    if not check:
        if name is not None and not found:
            raise UsageError(
                f"no graph {name!r} in {graphs_folder(factmill_home())}; `factmill graph` lists the graphs"
            )
        lines = []
        for graph in found:
            details = f"{graph['edges']:>13,} edges  {graph['digest'][:16]}" if graph["digest"] else graph["advice"]
            lines.append(f"{graph['name']:20} {graph['state']:12} {details}")
        print_result(
            as_json, found, lines, "" if found else "no graphs yet; to load one: `factmill graph load FILE --name NAME`"
        )
        return
    results = [_check_graph(each, malformed) for each in ([name] if name else [graph["name"] for graph in found])]
    print_result(
        as_json,
        results[0][0] if name else [result for result, _ in results],
        [line for _, lines in results for line in lines],
    )
    if not all(result["agrees"] for result, _ in results):
        raise typer.Exit(1)


def _check_graph(name: str, malformed: int) -> tuple[dict[str, Any], list[str]]:
    """Compare a graph's files with what was loaded; return the object for JSON, and lines.

    `malformed`: maximum number of malformed lines listed.
    """
    with _showing_live_progress(f"checking {name}") as show:
        manifest, damage = folders.digest_graph_files_and_find_damaged(
            name,
            graphs_folder(factmill_home()),
            lambda read, total: show(f"{read / 1e6:,.0f} of {total / 1e6:,.0f} MB"),
        )
    malformed_lines: list[MalformedLine] = []
    if malformed and not damage:
        with open_graph(name, graphs_folder(factmill_home())) as graph:
            malformed_lines = graph.list_malformed(malformed)
    result = {
        "name": name,
        "digest": manifest.digest,
        "agrees": not damage,
        "malformed": manifest.malformed,
        "malformed_lines": [asdict(line) for line in malformed_lines],
        "files": {file: {**each.model_dump(), "damage": damage.get(file)} for file, each in manifest.files.items()},
    }
    lines = [
        f"{file:24} {each.size_bytes:>15,} bytes  {damage.get(file) or 'unchanged'}"
        for file, each in manifest.files.items()
    ]
    lines += [f"{line.file}, line {line.line_no}: {line.reason}: {line.text}" for line in malformed_lines]
    advice = f"DAMAGED; load it again: `factmill graph load FILE... --name {name} --replace`"
    lines += [
        f"{manifest.malformed:,} malformed lines were skipped",
        f"{name}: {advice if damage else 'unchanged since it was loaded'}",
    ]
    return result, lines


@graph_app.command("remove")
def remove_graph(name: GraphArgument) -> None:
    """Remove a local graph.

    If an unfinished load of this name exists, only the data of that load is removed.

    Example: factmill graph remove truthy
    """
    typer.echo(f"removed the {folders.remove_half_load_or_graph(name, graphs_folder(factmill_home()))} {name}")


PROGRESS_LINE_EVERY_S = 10.0
"""Seconds between progress lines if standard error is no terminal."""
_PHASE_LABELS = {
    "checking": "checking the input read before",
    "reading": "reading",
    "sorting": "sorting tables",
    "writing": "writing arrays",
    "digesting": "digesting files",
}
_console = Console(stderr=True)


def list_graph_states() -> list[dict[str, Any]]:
    """Return name, state, edges, digest, dump date and advice of every local graph and unfinished load."""
    return [
        {
            "name": found.name,
            "state": found.state,
            "edges": found.manifest.stored["edges"] if found.manifest else None,
            "digest": found.manifest.digest if found.manifest else None,
            "dump_date": found.manifest.dump_date if found.manifest else None,
            "advice": found.advice,
        }
        for found in folders.list_graph_statuses(graphs_folder(factmill_home()))
    ]


def format_graph_load_progress(load_progress: LoadProgress) -> str:
    """Return the progress of a load in one line: phase, percentage, lines, rates and time left."""
    parts = [_PHASE_LABELS[load_progress.phase]]
    if load_progress.phase in ("checking", "reading"):
        parts[0] = f"{parts[0]} {load_progress.source}".rstrip()
        if load_progress.bytes_total:
            parts.append(f"{100 * load_progress.bytes_read / load_progress.bytes_total:.0f} %")
    parts.append(f"{load_progress.lines:,} lines")
    if load_progress.phase == "reading":
        parts += [f"{load_progress.lines_per_s:,.0f} lines/s", f"{load_progress.text_bytes_per_s / 1e6:,.0f} MB/s"]
        if load_progress.eta_s is not None:
            parts.append(f"reading ends in {_format_hours_and_minutes(load_progress.eta_s)}")
    return ", ".join(parts)


def _format_hours_and_minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@contextmanager
def _showing_live_progress(title: str) -> Iterator[Callable[[str], None]]:
    """Yield a function that takes the latest progress: shown live on a terminal, else printed by a thread from time to time,
    also during long steps."""
    if _console.is_terminal:
        columns = TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[note]}", markup=False)
        with Progress(*columns, console=_console) as bar:
            task = bar.add_task(title, note="")
            yield lambda note: bar.update(task, note=note)
        return
    latest, is_over, started = deque([""], maxlen=1), threading.Event(), time.monotonic()

    def print_latest() -> None:
        while not is_over.wait(PROGRESS_LINE_EVERY_S):
            _print_to_stderr(f"{title}: {_format_hours_and_minutes(time.monotonic() - started)}, {latest[-1]}")

    printer = threading.Thread(target=print_latest, daemon=True)
    printer.start()
    try:
        yield latest.append
    finally:
        is_over.set()
        printer.join()


def _print_to_stderr(text: str) -> None:
    _console.print(text, markup=False, highlight=False, soft_wrap=True)


models_app = typer.Typer()
ModelNameOption = Annotated[
    str | None, typer.Option(help="Name for the model. Default: the name of FOLDER.", metavar="NAME")
]
_QUANTIZATION_HELP = (
    "Number format of the stored weights of a translator or perplexity model. int8 (7 bits used): fastest; same results only on "
    "CPUs of one class. float32: same results on every CPU. float16: half the size of float32; CPUs compute it as float32. "
    "Default: float16 for perplexity; int8 for a translator, or FOLDER's own format if factmill converted it."
)
_Quantization = Literal["int8", "float16", "float32"]
ModelKind = Literal["embedder", "cross-encoder", "translator", "perplexity"]
_CONVERTERS: dict[ModelKind, str] = {
    "embedder": "encoder:make_embedder_folder",
    "cross-encoder": "encoder:make_cross_encoder_folder",
    "translator": "translator:make_translator_folder",
    "perplexity": "language_model:make_language_model_folder",
}
"""Kind → `module:function` of its converter, in tasks/models/converting."""
_DEFAULT_QUANTIZATION: dict[ModelKind, _Quantization | None] = {"translator": None, "perplexity": "float16"}
"""Kinds whose weights can be stored in several ways → default; None: int8, or as a factmill folder has them."""


@models_app.command("add")
def add_model(
    kind: ModelKind = typer.Argument(..., help="Kind of model; see above.", metavar="KIND"),
    checkpoint: Path = typer.Argument(
        ..., help="Folder with a checkpoint, or with a checkpoint that CTranslate2 has converted.", metavar="FOLDER"
    ),
    name: ModelNameOption = None,
    quantization: _Quantization | None = typer.Option(None, help=_QUANTIZATION_HELP),
    replace: bool = typer.Option(False, "--replace", help="Replace an existing model of this name."),
    as_json: JsonOption = False,
) -> None:
    """Convert a model's checkpoint to a local model.

    \b
    Kinds:
      embedder       a sentence encoder of the BERT family (bert, roberta, xlm-roberta, camembert).
                     FOLDER holds config.json, model.safetensors, 1_Pooling/config.json and
                     tokenizer.json or vocab.txt
      cross-encoder  a classifier of pairs of texts (NLI, consistency) of the BERT family. FOLDER
                     holds config.json, model.safetensors and tokenizer.json or vocab.txt
      translator     an NLLB-200 checkpoint with its sentencepiece.bpe.model
      perplexity     a causal language model (GPT-2, Llama, Mistral, Qwen, Gemma, OPT, …) that computes
                     how probable a text is. FOLDER holds tokenizer.json or the SentencePiece file

    Translator and perplexity need torch and transformers: pip install 'factmill[convert]'.

    \b
    Examples:
      factmill models add embedder ./all-MiniLM-L6-v2
      factmill models add translator ./nllb-200-distilled-600M --quantization float32
      factmill models add perplexity ./gpt2 --name small
    """
    if quantization and kind not in _DEFAULT_QUANTIZATION:
        raise UsageError(
            f"--quantization does not apply to the kind {kind}, which has one number format; it applies to "
            f"{' and '.join(_DEFAULT_QUANTIZATION)}"
        )
    progress.set_progress_style()
    started = time.perf_counter()
    convert = resolve_name(f"factmill.tasks.models.converting.{_CONVERTERS[kind]}")
    more = {"quantization": quantization or _DEFAULT_QUANTIZATION[kind]} if kind in _DEFAULT_QUANTIZATION else {}
    manifest = convert(checkpoint, get_models_folder(factmill_home()), name, "replace" if replace else "refuse", **more)
    added = {**_make_model_json(manifest), "seconds": round(time.perf_counter() - started, 2)}
    print_result(as_json, added, [f"{_format_model_line(added)}  in {added['seconds']} s"])


@models_app.callback(invoke_without_command=True)
def list_models(context: typer.Context, as_json: JsonOption = False) -> None:
    """List local models (CTranslate2), convert and remove them.

    Without a subcommand, the command lists the models, including damaged ones.
    """
    if has_subcommand(context):
        return
    folder = get_models_folder(factmill_home())
    found = []
    for name in model_folder.list_model_names(folder):
        try:
            found.append(
                _make_model_json(model_folder.load_manifest_and_check_sizes(model_folder.get_model_path(name, folder)))
            )
        except UsageError as error:
            unknown = dict.fromkeys(("kind", "digest", "size_bytes"))
            found.append({"name": name, **unknown, "state": "damaged", "advice": str(error)})
    note = "" if found else "no models yet; to add one, see factmill models add --help"
    print_result(as_json, found, map(_format_model_line, found), note)


@models_app.command("remove")
def remove_model(name: str = typer.Argument(..., help="Name of the model.", metavar="NAME")) -> None:
    """Remove a local model.

    Example: factmill models remove all-MiniLM-L6-v2
    """
    model_folder.remove_model(name, get_models_folder(factmill_home()))
    typer.echo(f"removed the model {name}")


def _format_model_line(model: dict[str, Any]) -> str:
    if model["state"] == "damaged":
        return f"{model['name']:24} damaged: {model['advice']}"
    return f"{model['name']:24} {model['kind']:13} {model['size_bytes']:>15,} bytes  {model['digest'][:16]}"


def _make_model_json(manifest: ModelManifest) -> dict[str, Any]:
    result = {name: getattr(manifest, name) for name in ("digest", "size_bytes", "settings", "made_with", "source")}
    return {"name": manifest.name, "kind": manifest.kind, "state": "whole", **result, "advice": None}
