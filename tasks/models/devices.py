"""Device and number format of local models, and how CTranslate2 opens them: shared by every kind of model.

float32 differs between CPUs only in the last bits, which rounding of scores removes. int8 is exact on all CPUs of one
instruction class: integer products are exact, but their inputs are rounded after float operations, whose results differ
slightly between instructions. So the identity of an int8 model names the class.
"""

import os
import platform
from pathlib import Path
from typing import Any, Literal

from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.weights import CTRANSLATE2_WEIGHTS_FILE, is_stored_as_int8
from factmill.tasks.settings import get_environment_variable

Device = Literal["auto", "cpu", "cuda"]
MatmulInstructions = Literal["avx512", "avx2"]
"""Instructions of a float matrix product whose summation order is known."""
CTranslate2Class = Literal["Encoder", "Translator", "Generator"]
"""CTranslate2's classes: texts to vectors, texts to texts, and texts continued token by token."""

_CPU_INFO_FILE = Path("/proc/cpuinfo")
_INSTRUCTION_CLASSES = {
    "avx512": frozenset({"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq"}),
    "avx2": frozenset({"avx2", "fma"}),
    "avx": frozenset({"avx"}),
}
"""Class of x86 instructions that CTranslate2 distinguishes → CPU flags required, best class first."""
_ISA_LIMIT_VARIABLES = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""Environment variables that limit the instructions of oneDNN."""
_AVX2_LIMITS = {"AVX2", "AVX2_VNNI", "AVX2_VNNI_2"}
"""Their values that make oneDNN multiply floats by AVX2."""


def choose_ctranslate2_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return the device to compute on; UsageError if a GPU is requested and there is none."""
    import ctranslate2

    if device == "cpu":
        return "cpu"
    if ctranslate2.get_cuda_device_count() > 0:
        return "cuda"
    if device == "cuda":
        raise UsageError("device cuda: CTranslate2 finds no GPU on this machine; give auto or cpu")
    return "cpu"


def resolve_identity_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return the device for a result's identity: the one requested, even of another machine; auto: this machine's."""
    return choose_ctranslate2_device("auto") if device == "auto" else device


def count_workers(device: str, threads: int | None) -> int:
    """Return how many batches run in parallel: on the CPU `threads` (default: one a core); on a GPU one."""
    return 1 if device == "cuda" else threads or len(os.sched_getaffinity(0))


def choose_compute_type_by_weights(path: Path, wanted: ComputeType | None) -> ComputeType:
    """Return a model's number format: the one requested, else int8 if its weights are int8, else float32.

    UsageError if int8 is requested for other weights: CTranslate2 would use 8 bits, which overflow on some CPUs.
    """
    is_int8 = is_stored_as_int8(path / CTRANSLATE2_WEIGHTS_FILE)
    if wanted == "int8" and not is_int8:
        raise UsageError(
            f"{path}: its weights are not int8; convert it again with --quantization int8, or remove compute_type "
            "from the world's file"
        )
    return wanted or ("int8" if is_int8 else "float32")


def format_compute_type_and_device(compute_type: ComputeType, device: str) -> str:
    """Format what results depend on apart from the model: number format, and device (int8 on a CPU: its class)."""
    is_cpu = device == "cpu"
    return f"{compute_type}-{get_cpu_instruction_class() if compute_type == 'int8' and is_cpu else device}"


def get_cpu_instruction_class() -> str:
    """Return the instruction class that CTranslate2 uses on this CPU, or that CT2_FORCE_CPU_ISA names."""
    if forced := get_environment_variable("CT2_FORCE_CPU_ISA"):
        return forced.lower()
    if platform.machine().lower() not in ("x86_64", "amd64") or not _CPU_INFO_FILE.is_file():
        return platform.machine().lower()
    flags = _load_cpu_field("flags")
    return next((name for name, needed in _INSTRUCTION_CLASSES.items() if needed <= flags), "generic")


def find_amd_onednn_matmul_instructions(device: Literal["cpu", "cuda"]) -> MatmulInstructions | None:
    """Return the instructions of oneDNN's float products, which CTranslate2 uses on AMD CPUs; None: another library's.

    They decide in which products a row of floats gets the same bits. AVX-512: in any of 16 rows or more. AVX2: in any
    of 4 to 144 rows, except the last one to three rows left over from groups of six; in larger ones see
    `exact_batches.list_odd_rows`; from 264 rows on the summation order also depends on the size of the matrix.
    """
    held = {value.upper() for value in map(get_environment_variable, _ISA_LIMIT_VARIABLES) if value}
    if device != "cpu" or not held <= _AVX2_LIMITS or get_environment_variable("CT2_USE_MKL") not in (None, "", "0"):
        return None
    if platform.machine().lower() not in ("x86_64", "amd64") or not _CPU_INFO_FILE.is_file():
        return None
    flags = _load_cpu_field("flags") if "AuthenticAMD" in _load_cpu_field("vendor_id") else set()
    if not held and _INSTRUCTION_CLASSES["avx512"] <= flags:
        return "avx512"
    return "avx2" if _INSTRUCTION_CLASSES["avx2"] <= flags else None


def _load_cpu_field(field: str) -> set[str]:
    """Return the words of a /proc/cpuinfo field of the first core."""
    lines = _CPU_INFO_FILE.read_text("utf-8").splitlines()
    return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith(field)), set())


def open_ctranslate2_model(
    engine: CTranslate2Class,
    path: Path,
    device: Literal["cpu", "cuda"],
    compute_type: ComputeType,
    workers: int,
    made_with: str,
) -> Any:
    """Open a converted model with one thread a worker; UsageError says why it cannot be opened."""
    import ctranslate2

    try:
        return getattr(ctranslate2, engine)(
            str(path), device, compute_type=compute_type, inter_threads=workers, intra_threads=1
        )
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            f"{path}: CTranslate2 {ctranslate2.__version__} cannot open it as {compute_type} on {device} ({error}); "
            f"it was made with {made_with}"
        ) from error
