"""Worker process: join a cluster, serve models and graphs, and leave no files when it stops.

One process is one worker and answers one group at a time, since a model uses all its cores, or its GPU.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from factmill.tasks.compute_settings import check_tls_files_fit_address, require_existing_tls_files
from factmill.tasks.core.service_settings import check_dask_scheduler_address
from factmill.tasks.engine.cluster.capabilities import (
    ServableModelOrGraph,
    ServedResources,
    load_servable_graph,
    load_servable_variants_of_model,
    set_resources_of_this_worker,
)
from factmill.tasks.engine.cluster.protocol import (
    WorkerCapability,
    format_dask_resource_name,
    format_worker_code_version,
    import_dask_distributed_without_logs,
    make_tls_security,
)
from factmill.tasks.errors import FactmillError, ServiceUnreachable, UsageError
from factmill.tasks.graph.folders import list_graph_and_half_load_names
from factmill.tasks.models import perplexity, translator
from factmill.tasks.models.devices import Device, choose_ctranslate2_device
from factmill.tasks.models.embedders import (
    PACKAGED_EMBEDDER,
    choose_minilm_or_ngram_embedder,
    resolve_embedder_folder_converting_packaged,
)
from factmill.tasks.models.model_folder import get_model_path, get_models_folder, list_model_names
from factmill.tasks.settings import graphs_folder

ReportLine = Callable[[str], object]

_JOIN_S = 30.0


def load_servable_resources(
    home: Path, models: Sequence[str], graphs: Sequence[str], device: Device, threads: int | None, tell: ReportLine
) -> list[ServableModelOrGraph]:
    """Return the models and graphs to serve: those named, or by default all undamaged ones of the home.

    Files are checked against their digests. UsageError or LocalGraphError if a named one is damaged.
    """
    if device != "auto":
        choose_ctranslate2_device(device)
    if models or graphs:
        offers = [
            offer
            for name in models
            for offer in load_servable_variants_of_model(_resolve_model_folder(name, home), device, threads)
        ]
        places = {name: Path(name).parent if "/" in name else graphs_folder(home) for name in graphs}
        return offers + [load_servable_graph(Path(name).name, folder) for name, folder in places.items()]
    folder = graphs_folder(home)
    loaders: list[Callable[[], list[ServableModelOrGraph]]] = [
        partial(load_servable_variants_of_model, path, device, threads)
        for path in _list_home_and_packaged_model_folders(home)
    ]
    for name in list_graph_and_half_load_names(folder):
        loaders.append(partial(lambda name: [load_servable_graph(name, folder)], name))
    return [servable for load in loaders for servable in _load_servable_or_skip_damaged(load, tell)]


def check_worker_options(address: str, files: tuple[str, str, str]) -> None:
    """Raise UsageError unless the address can be a scheduler's and has the PEM files that it needs."""
    try:
        check_dask_scheduler_address(address)
        check_tls_files_fit_address(address, files)
    except ValueError as error:
        raise UsageError(f"--address: {error}".replace("_file", "-file")) from None
    require_existing_tls_files(files)


def run_worker_and_return_end_signal(
    address: str,
    offers: Sequence[ServableModelOrGraph],
    tell: ReportLine,
    host: str = "",
    files: tuple[str, str, str] = ("", "", ""),
) -> int:
    """Serve the scheduler's requests until a signal stops this process; return the signal's number.

    `files`: PEM files of the authority, the certificate and its key, for a tls:// address. ServiceUnreachable if the
    scheduler does not answer, or goes away.
    """
    library = import_dask_distributed_without_logs()
    security = make_tls_security(*files, "worker")
    set_resources_of_this_worker(ServedResources(offers))
    with tempfile.TemporaryDirectory(prefix=f"factmill-{os.getpid()}-worker-") as folder:
        options: dict[str, Any] = {
            "nthreads": 1,
            "resources": {
                format_dask_resource_name(WorkerCapability(offer.requirement, format_worker_code_version())): 1
                for offer in offers
            },
            "local_directory": folder,
            "security": security,
            # models fill the memory, which is no reason to pause
            "memory_limit": 0,
            "dashboard": False,
            "death_timeout": _JOIN_S,
        }
        return asyncio.run(
            _run_dask_worker_until_signal(library, address, options | ({"host": host} if host else {}), tell)
        )


async def _run_dask_worker_until_signal(library: Any, address: str, options: dict[str, Any], tell: ReportLine) -> int:
    try:
        worker = library.Worker(address, **options)
    except ValueError as error:  # an invalid host, or invalid settings of Dask
        raise UsageError(f"cannot start a worker with these options: {error}") from error
    stops: list[int] = []

    def stop(number: int) -> None:
        stops.append(number)
        leaving.set()

    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    joining = asyncio.ensure_future(_join_scheduler(worker, address, options.get("host", "")))
    left = asyncio.ensure_future(leaving.wait())
    await asyncio.wait([joining, left], return_when=asyncio.FIRST_COMPLETED)
    if joining.done():
        joining.result()
        tell(f"joined {address} as {worker.address}")
        gone = asyncio.ensure_future(worker.finished())
        await asyncio.wait([gone, left], return_when=asyncio.FIRST_COMPLETED)
    if not stops:
        raise ServiceUnreachable(
            f"the scheduler at {address} is gone, or it removed this worker; restart the worker to join again"
        )
    tell("leaving: pending work of this worker goes to another worker")
    # the current computation cannot be interrupted; do not wait for it, nor for joining
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)
    await worker.close(timeout=1, executor_wait=False, nanny=False)
    return stops[0]


async def _join_scheduler(worker: Any, address: str, host: str) -> None:
    try:
        await worker
    except Exception as error:
        cause = error.__cause__ or error  # Dask's own error says only that it failed
        why = str(cause).partition("\n")[0].rstrip(".") or type(cause).__name__
        if host and isinstance(cause, OSError):
            raise UsageError(f"--host {host}: not an address of this machine ({why})") from error
        raise ServiceUnreachable(
            f"no Dask scheduler answers at {address} ({why}): start one there (`dask scheduler`), then start this worker again"
        ) from error


def _list_home_and_packaged_model_folders(home: Path) -> Iterator[Path]:
    """Yield the folders of a home's models and of the models packaged with factmill."""
    # the packaged encoder is unpacked to a folder in the home on first use
    if choose_minilm_or_ngram_embedder(home) == PACKAGED_EMBEDDER:
        resolve_embedder_folder_converting_packaged(PACKAGED_EMBEDDER, home)
    folder = get_models_folder(home)
    yield from (get_model_path(name, folder) for name in list_model_names(folder))
    yield translator.EMBEDDED_TRANSLATOR_FOLDER
    yield perplexity.EMBEDDED_LANGUAGE_MODEL_FOLDER


def _resolve_model_folder(name: str, home: Path) -> Path:
    """Return a model's folder by name or path; UsageError lists the known models."""
    known = {
        translator.EMBEDDED_TRANSLATOR: translator.EMBEDDED_TRANSLATOR_FOLDER,
        perplexity.EMBEDDED_LANGUAGE_MODEL: perplexity.EMBEDDED_LANGUAGE_MODEL_FOLDER,
    }
    if name in known:
        return known[name]
    if "/" in name:
        return Path(name)
    folder = get_models_folder(home)
    if name == PACKAGED_EMBEDDER:
        return resolve_embedder_folder_converting_packaged(name, home)
    if name in list_model_names(folder):
        return get_model_path(name, folder)
    there = ", ".join([*known, *list_model_names(folder)])
    raise UsageError(f"no model {name} in {folder} (available: {there}); copy its folder there, or name its path")


def _load_servable_or_skip_damaged(
    load: Callable[[], list[ServableModelOrGraph]], tell: ReportLine
) -> list[ServableModelOrGraph]:
    try:
        return load()
    except FactmillError as error:
        tell(f"note: skipped: {error}")
        return []
