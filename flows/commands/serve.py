"""`factmill serve`: run scheduled rebuilds, and runs that users start in Prefect's UI; `factmill worker`: a worker of a Dask
cluster, which serves local models and graphs."""

from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from factmill.flows.cli.entry import print_early_end_once
from factmill.flows.cli.options import collect_given_option_values, make_option_dataclass_fields, raising_bad_parameter
from factmill.flows.prefect_server import apply_prefect_settings, check_prefect_server_usable, raising_prefect_lost
from factmill.flows.serve_options import ServeOptions, check_rebuild_inputs, load_serve_config
from factmill.tasks import progress
from factmill.tasks.engine.cluster.protocol import format_worker_code_version, import_dask_distributed_without_logs
from factmill.tasks.engine.cluster.worker import (
    check_worker_options,
    load_servable_resources,
    run_worker_and_return_end_signal,
)
from factmill.tasks.errors import UsageError
from factmill.tasks.options import INTERNAL_OPTIONS, REPLY_FILE_OPTIONS, BenchmarkParams
from factmill.tasks.processes import get_temporary_folder
from factmill.tasks.settings import factmill_home, get_environment_variable

ServeConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with these options by name, and with one table per benchmark for that benchmark's parameters. Options on the command line take precedence.",
    ),
]
_SERVE_HELP = """Run rebuilds on a schedule, or on demand from Prefect's UI.

    The command serves until Ctrl-C. For each benchmark, it creates a Prefect deployment named BENCHMARK-WORLD, which
    you can start in the UI with your own parameters. Another deployment, named rebuild-WORLD, follows the schedule and
    builds all benchmarks one after another. Two runs never work on the same build at once. Each start and end of a run
    prints one line.

    A rebuild sends calls to live services again if their replies are older than half the time between two rebuilds
    (monthly: about 15 days). --max-age, or max_age in the world's file, sets another age. When serve starts again,
    interrupted rebuilds continue, and one run makes up for all scheduled times that were missed.

    \b
    Examples:
      factmill serve --world my-world.toml --cron "0 3 1 * *"
      factmill serve --benchmarks granola --interval 12h --evaluate oracle
      factmill serve --config serve.toml --mode replay
    """


def _run_serve_command(given: Any) -> None:
    configured: dict[str, Any] = {}
    settings: dict[str, BenchmarkParams] = {}
    if given.config:
        configured, settings = load_serve_config(given.config)
    with raising_bad_parameter(ServeOptions):
        options = ServeOptions(**configured | collect_given_option_values(ServeOptions, given))
    address = get_environment_variable("PREFECT_API_URL")
    if not address:
        raise UsageError(
            "serve needs a standing Prefect server, and PREFECT_API_URL is not set; start a server (`docker compose up -d` or "
            "`prefect server start`), then run PREFECT_API_URL=http://127.0.0.1:4200/api factmill serve"
        )

    apply_prefect_settings(factmill_home())
    check_prefect_server_usable(address)
    check_rebuild_inputs(options.make_rebuild_params(settings), options.make_run_options())

    # import Prefect only after its settings are in the environment
    from factmill.flows.serving.runner import make_deployments, serve_deployments_until_signal

    deployments = make_deployments(options, settings)
    with raising_prefect_lost("serve"):
        code = serve_deployments_until_signal(deployments, options.runs, options.catch_up, options.log_json)
    print_early_end_once()
    raise typer.Exit(code)


serve = make_dataclass(
    "serve",
    [
        *make_option_dataclass_fields(ServeOptions, [*INTERNAL_OPTIONS, *REPLY_FILE_OPTIONS]),
        ("config", ServeConfigOption, None),
    ],
    namespace={"__post_init__": _run_serve_command, "__doc__": _SERVE_HELP},
    kw_only=True,
)
"""The options of the command; creating an instance starts serving."""


def worker(
    address: str = typer.Option(
        ...,
        help="Address of the Dask scheduler: tcp://HOST:PORT, or tls://HOST:PORT with certificates.",
        metavar="ADDRESS",
    ),
    model: list[str] | None = typer.Option(
        None, help="Serve only this local model: its name or folder (repeatable).", metavar="NAME"
    ),
    graph: list[str] | None = typer.Option(
        None, help="Serve only this local graph: its name or folder (repeatable).", metavar="NAME"
    ),
    device: Literal["auto", "cpu", "cuda"] = typer.Option(
        "auto", help="Device for model computation; auto: the GPU if there is one."
    ),
    threads: int | None = typer.Option(
        None, min=1, max=1024, help="Number of CPU cores for models. Default: all.", metavar="N"
    ),
    host: str = typer.Option(
        "", help="Address by which other machines reach this one. Default: detected.", metavar="HOST"
    ),
    ca_file: Path | None = typer.Option(
        None, help="PEM file with the certificate authority that signed the certificates (for tls://).", metavar="FILE"
    ),
    cert_file: Path | None = typer.Option(
        None, help="PEM file with this worker's certificate (for tls://).", metavar="FILE"
    ),
    key_file: Path | None = typer.Option(
        None, help="PEM file with the private key of --cert-file (for tls://).", metavar="FILE"
    ),
) -> None:
    """Serve local models and graphs to a Dask cluster.

    The worker serves until Ctrl-C. Without --model and --graph, it serves all models and graphs in FACTMILL_HOME and
    the models that come with factmill. Builds use only models and graphs with the same digest as their own, on
    workers with the same factmill code. A worker stores nothing and may join or leave at any time. Start one worker
    process per GPU.

    \b
    Examples:
      dask scheduler --port 8786
      factmill worker --address tcp://10.0.0.5:8786
      CUDA_VISIBLE_DEVICES=1 factmill worker --address tcp://10.0.0.5:8786 --model nllb --device cuda
      FACTMILL_CLUSTER=tcp://10.0.0.5:8786 factmill build multihal
    """
    progress.set_progress_style("lines")
    files = tuple(str(file) if file else "" for file in (ca_file, cert_file, key_file))
    check_worker_options(address, (files[0], files[1], files[2]))
    import_dask_distributed_without_logs()
    get_temporary_folder()
    offers = load_servable_resources(factmill_home(), model or [], graph or [], device, threads, progress.print_and_log)
    if not offers:
        raise UsageError(
            f"{factmill_home()} has no model and no graph to serve; give some with --model or --graph, or set FACTMILL_HOME"
        )
    for offer in offers:
        progress.print_and_log(f"serves {offer.name}: {offer.requirement}")
    progress.print_and_log(f"code: {format_worker_code_version()}")
    number = run_worker_and_return_end_signal(
        address, offers, progress.print_and_log, host, (files[0], files[1], files[2])
    )
    raise typer.Exit(128 + number)
