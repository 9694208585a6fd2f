"""Time perplexity scoring against Hugging Face transformers with the same weights, and show the cost of exactness.

    python bench speed.models.perplexity [--layers 4] [--texts 200] [--threads 1] [--avx2] [--device cuda]

Needs the extra `convert` (torch, transformers). The model has random weights in GPT-2's shape (width 768, 12 heads,
50,257 tokens) with --layers layers instead of 12, and its tokens have only a few letters. Texts are questions of the
embedded world, one to three per text. On a GPU (--device cuda) all contenders compute in float16; this is untested.

transformers         logits in batches of 8, sorted by length and padded, and cross-entropy in float32
factmill, alone      one text per batch: exact, as builds do with floats
factmill, length     texts of one length share batches: exact only as far as `turned` shows
factmill int8        in 7 bits, by length: exact on the CPU

`turned` counts texts whose log probability differs in any bit from the text's own when scored alone. `apart` is the
largest difference from transformers in the log probability per token. On the CPU, seconds are the process's CPU
seconds.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import torch
import transformers
from scripts import read_options
from speed.models.cpus import describe_cpu
from speed.models.questions import draw_texts
from support.models.random_decoder import write_tokenizer

from factmill.tasks.core.calls.translation_and_perplexity import TextLogProbability
from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.models.converting.language_model import make_language_model_folder
from factmill.tasks.models.exact_batches import Batching
from factmill.tasks.models.perplexity import LanguageModel, load_text_tokenizer

BATCH, SIZE, POSITIONS = 8, 50_257, 1024
Weigh = Callable[[list[str]], list[float]]
"""Returns each text's log probability per token."""


def write_checkpoint(folder: Path, layers: int) -> Path:
    """Write a checkpoint with random weights."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=SIZE, n_positions=POSITIONS, n_layer=layers, initializer_range=0.1, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    write_tokenizer(folder / "tokenizer.json")
    return folder


def open_peer(checkpoint: Path, cut: Callable[[str], list[int]], device: str) -> Weigh:
    """Return a scorer that uses transformers."""
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval().to(device)
    model = model.half() if device == "cuda" else model

    def compute_perplexities(texts: list[str]) -> list[float]:
        tokens = [cut(text) for text in texts]
        found = [0.0] * len(texts)
        order = sorted(range(len(texts)), key=lambda place: -len(tokens[place]))
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            longest = len(tokens[places[0]])
            rows = torch.tensor([tokens[p] + [0] * (longest - len(tokens[p])) for p in places], device=device)
            mask = torch.tensor(
                [[1] * len(tokens[p]) + [0] * (longest - len(tokens[p])) for p in places], device=device
            )
            with torch.no_grad():
                logits = model(input_ids=rows, attention_mask=mask).logits[:, :-1].float()
                logs = torch.log_softmax(logits, -1).gather(-1, rows[:, 1:, None])[..., 0] * mask[:, 1:]
                means = logs.sum(1) / mask[:, 1:].sum(1)
            for place, mean in zip(places, means.tolist(), strict=True):
                found[place] = mean
        return found

    return compute_perplexities


def open_ours(folder: Path, device: str, numbers: ComputeType, batching: Batching, threads: int) -> Weigh:
    """Return a scorer that works as builds do."""
    model = LanguageModel(folder, "cuda" if device == "cuda" else "cpu", numbers, threads, batching)

    def compute_perplexities(texts: list[str]) -> list[float]:
        outcomes = [
            outcome for outcome in model.compute_log_probabilities(texts) if isinstance(outcome, TextLogProbability)
        ]
        return [outcome.log_probability / outcome.tokens for outcome in outcomes]

    return compute_perplexities


def main() -> None:
    """Print the table."""
    given = read_options(
        __doc__,
        layers=4,
        texts=200,
        threads=1,
        device=("cpu", None, ["cpu", "cuda"]),
        avx2=(False, "hold all libraries to AVX2 without VNNI"),
    )
    torch.set_num_threads(given.threads)
    transformers.utils.logging.set_verbosity_error()
    print(f"GPT-2's shape with {given.layers} layers, random weights; {given.texts} texts; {given.threads} thread(s)")
    print(f"{describe_cpu()}; torch {torch.__version__}, ctranslate2 {ctranslate2.__version__}")
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint, models = write_checkpoint(Path(temporary) / "random", given.layers), Path(temporary) / "models"
        make_language_model_folder(checkpoint, models, "wide", quantization="float32")
        make_language_model_folder(checkpoint, models, "narrow", quantization="int8")
        compare(given, checkpoint, models)


def compare(given: argparse.Namespace, checkpoint: Path, models: Path) -> None:
    """Print the results of all contenders on the same texts."""
    cutter, texts = load_text_tokenizer(checkpoint / "tokenizer.json"), [text for text, _ in draw_texts(given.texts)]
    cut = LanguageModel(models / "wide", "cpu", threads=1).tokenize
    floats: ComputeType = "float16" if given.device == "cuda" else "float32"
    contenders: dict[str, Callable[[], Weigh]] = {
        "transformers": lambda: open_peer(
            checkpoint, lambda text: [cutter.token_ids[t] for t in cut(text)], given.device
        ),
        "factmill, alone": lambda: open_ours(models / "wide", given.device, floats, "alone", given.threads),
        "factmill, length": lambda: open_ours(models / "wide", given.device, floats, "length", given.threads),
        "factmill int8": lambda: open_ours(models / "narrow", given.device, "int8", "length", given.threads),
    }
    clock = time.perf_counter if given.device == "cuda" else time.process_time
    found: dict[str, list[float]] = {}
    took: dict[str, float] = {}
    for name, open_contender in contenders.items():
        compute_perplexities = open_contender()
        compute_perplexities(texts[:2])
        started = clock()
        found[name] = compute_perplexities(texts)
        took[name] = clock() - started
    print(f"\n{given.device:20}{'texts/s':>9}{'ratio':>7}{'turned':>8}{'apart':>10}")
    for name, means in found.items():
        turned = sum(a != b for a, b in zip(means, found["factmill, alone"], strict=True))
        apart = max(abs(a - b) for a, b in zip(means, found["transformers"], strict=True))
        shown = str(turned) if "factmill," in name else "-"
        ratio = took["transformers"] / took[name]
        print(f"{name:20}{len(texts) / took[name]:9.1f}{ratio:7.2f}{shown:>8}{apart:10.1e}")
