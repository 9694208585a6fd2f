"""Where a local model computes and how CTranslate2 opens it there: the same for every kind of model."""

import os
from pathlib import Path
from typing import Any, Literal

from tasks.errors import UsageError

Device = Literal["auto", "cpu", "cuda"]
ComputeType = Literal["int8", "float32", "float16"]
Engine = Literal["Encoder", "Translator", "Generator"]
"""CTranslate2's classes: texts to vectors, texts to texts, and a text word after word."""


def choose_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return the device to compute on; UsageError when a GPU is wanted and there is none."""
    import ctranslate2

    if device == "cpu":
        return "cpu"
    if ctranslate2.get_cuda_device_count() > 0:
        return "cuda"
    if device == "cuda":
        raise UsageError("device cuda: CTranslate2 finds no GPU on this machine; give auto or cpu")
    return "cpu"


def count_workers(device: str, threads: int | None) -> int:
    """Return how many batches run at once: on the CPU `threads`, or one a core; on a GPU one."""
    return 1 if device == "cuda" else threads or len(os.sched_getaffinity(0))


def open_model(
    engine: Engine, path: Path, device: Literal["cpu", "cuda"], compute_type: ComputeType, workers: int, made_with: str
) -> Any:
    """Open a converted model, each of its workers on one thread; UsageError says why it cannot be."""
    import ctranslate2

    try:
        return getattr(ctranslate2, engine)(
            str(path), device, compute_type=compute_type, inter_threads=workers, intra_threads=1
        )
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            f"{path}: as {compute_type} on {device}, CTranslate2 {ctranslate2.__version__} cannot open it ({error}); "
            f"made with {made_with}"
        ) from error
