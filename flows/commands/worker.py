"""`factmill worker`: a worker of a Dask cluster, which serves local models and graphs."""

from pathlib import Path
from typing import Literal

import typer

from factmill.tasks import progress
from factmill.tasks.engine.cluster.protocol import format_worker_code_version, import_distributed_without_logs
from factmill.tasks.engine.cluster.worker import check_worker_options, load_servable_resources, run_worker
from factmill.tasks.errors import UsageError
from factmill.tasks.processes import get_temporary_folder
from factmill.tasks.settings import factmill_home


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

    The worker serves until Ctrl-C. Without --model and --graph, it serves all models and graphs in FACTMILL_HOME and the models
    that come with factmill. Builds use only models and graphs with the same digest as their own, on workers with the same
    factmill code. A worker stores nothing and may join or leave at any time. Start one worker process per GPU.

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
    import_distributed_without_logs()
    get_temporary_folder()
    offers = load_servable_resources(factmill_home(), model or [], graph or [], device, threads, progress.print_and_log)
    if not offers:
        raise UsageError(
            f"{factmill_home()} has no model and no graph to serve; give some with --model or --graph, or set FACTMILL_HOME"
        )
    for offer in offers:
        progress.print_and_log(f"serves {offer.name}: {offer.requirement}")
    progress.print_and_log(f"code: {format_worker_code_version()}")
    number = run_worker(address, offers, progress.print_and_log, host, (files[0], files[1], files[2]))
    raise typer.Exit(128 + number)
