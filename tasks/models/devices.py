"""Where and in what numbers a local model computes, and how CTranslate2 opens it: the same for every kind of model.

float32 differs between CPUs in the last bits only, which scores are rounded by. int8 is exact on every CPU of one class
of instructions: products of integers are, but what goes into them is rounded after float operations, which other
instructions may end a bit higher or lower. So what a model with int8 is known by names the class.
"""

import os
import platform
from pathlib import Path
from typing import Any, Literal

from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.weights import WEIGHTS, is_stored_as_int8
from factmill.tasks.settings import environment

Device = Literal["auto", "cpu", "cuda"]
Multiplier = Literal["avx512", "avx2"]
"""Instructions by which a library multiplies floats, of a library whose ways of adding up are known."""
Engine = Literal["Encoder", "Translator", "Generator"]
"""CTranslate2's classes: texts to vectors, texts to texts, and a text word after word."""

_CPU_FLAGS = Path("/proc/cpuinfo")
_CLASSES = {
    "avx512": frozenset({"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq"}),
    "avx2": frozenset({"avx2", "fma"}),
    "avx": frozenset({"avx"}),
}
"""Class of x86 instructions that CTranslate2 tells apart → what a CPU must have, best first."""
_HOLDS_BACK = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""Variables that keep oneDNN from instructions which the CPU has."""
_HELD_TO_AVX2 = {"AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}
"""What they say where it multiplies floats by AVX2."""


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


def name_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return the device that results are named by: the one that is wanted, on this machine or another; auto: this one's."""
    return choose_device("auto") if device == "auto" else device


def count_workers(device: str, threads: int | None) -> int:
    """Return how many batches run at once: on the CPU `threads`, or one a core; on a GPU one."""
    return 1 if device == "cuda" else threads or len(os.sched_getaffinity(0))


def choose_compute_type(path: Path, wanted: ComputeType | None) -> ComputeType:
    """Return what a model folder computes in: what is wanted, else int8 where its weights are, else float32.

    UsageError when int8 is wanted of other weights: CTranslate2 would store them in 8 bits, which overflow on some CPUs.
    """
    is_int8 = is_stored_as_int8(path / WEIGHTS)
    if wanted == "int8" and not is_int8:
        raise UsageError(
            f"{path}: its weights are not stored as int8; convert it again with --quantization int8, or leave compute_type "
            "out of the world's file"
        )
    return wanted or ("int8" if is_int8 else "float32")


def describe_numbers(compute_type: ComputeType, device: str) -> str:
    """Return what a result depends on beside the model: numbers, device and, with int8 on a CPU, its instructions."""
    is_cpu = device == "cpu"
    return f"{compute_type}-{find_instructions() if compute_type == 'int8' and is_cpu else device}"


def find_instructions() -> str:
    """Return the class of instructions that CTranslate2 uses on this CPU, or is told to by CT2_FORCE_CPU_ISA."""
    if forced := environment("CT2_FORCE_CPU_ISA"):
        return forced.lower()
    if platform.machine().lower() not in ("x86_64", "amd64") or not _CPU_FLAGS.is_file():
        return platform.machine().lower()
    flags = _read_cpu("flags")
    return next((name for name, needed in _CLASSES.items() if needed <= flags), "generic")


def find_multiplier(device: Literal["cpu", "cuda"]) -> Multiplier | None:
    """Return the instructions by which oneDNN multiplies floats, as CTranslate2 lets it on AMD's CPUs; None: another does.

    They tell in which products a row of floats keeps its bits. By AVX-512: in any of 16 rows or more. By AVX2: in any of 4
    to 144 rows where it is not one of the one to three last rows that are left over of sixes; in larger ones as
    `exact_batches.list_odd_rows` says, and from 264 on the way of adding turns with the size of the matrix too.
    """
    held = {value.upper() for value in map(environment, _HOLDS_BACK) if value}
    if device != "cpu" or not held <= _HELD_TO_AVX2 or environment("CT2_USE_MKL") not in (None, "", "0"):
        return None
    if platform.machine().lower() not in ("x86_64", "amd64") or not _CPU_FLAGS.is_file():
        return None
    flags = _read_cpu("flags") if "AuthenticAMD" in _read_cpu("vendor_id") else set()
    if not held and _CLASSES["avx512"] <= flags:
        return "avx512"
    return "avx2" if _CLASSES["avx2"] <= flags else None


def _read_cpu(field: str) -> set[str]:
    """Return the words of a field of /proc/cpuinfo, of the first core."""
    lines = _CPU_FLAGS.read_text("utf-8").splitlines()
    return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith(field)), set())


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
