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
        ..., help="The scheduler's: tcp://HOST:PORT, or tls://HOST:PORT with certificates.", metavar="ADDRESS"
    ),
    model: list[str] | None = typer.Option(
        None, help="Hold this model: a name of the home's, or a folder.", metavar="NAME"
    ),
    graph: list[str] | None = typer.Option(
        None, help="Hold this local graph: a name of the home's, or a folder.", metavar="NAME"
    ),
    device: Literal["auto", "cpu", "cuda"] = typer.Option("auto", help="What models compute on."),
    threads: int | None = typer.Option(
        None, min=1, max=1024, help="Cores that models use on the CPU. Default: all.", metavar="N"
    ),
    host: str = typer.Option(
        "", help="Address of this machine that the others reach it by. Default: found.", metavar="HOST"
    ),
    ca_file: Path | None = typer.Option(
        None, help="PEM file of the authority that signed the certificates.", metavar="FILE"
    ),
    cert_file: Path | None = typer.Option(None, help="PEM file of this worker's certificate.", metavar="FILE"),
    key_file: Path | None = typer.Option(None, help="PEM file of its key.", metavar="FILE"),
) -> None:
    """Serve local models and graphs to a Dask cluster until stopped.

    Without --model and --graph it holds all of its home (FACTMILL_HOME) and the models that come with factmill. Each is
    told by its digest, and asked only by builds that name the very same, with the same code of factmill. It keeps nothing,
    and may join or leave at any time. One process is one worker: start one for each GPU.

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
            f"there is no model and no graph in {factmill_home()} to answer for; name some with --model or --graph"
        )
    for offer in offers:
        progress.print_and_log(f"holds {offer.name}: {offer.requirement}")
    progress.print_and_log(f"answers with {format_worker_code_version()}")
    number = run_worker(address, offers, progress.print_and_log, host, (files[0], files[1], files[2]))
    raise typer.Exit(128 + number)
