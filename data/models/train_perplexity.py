"""Train the embedded language model and write it to data/models/embedded-perplexity.

    python data/models/train_perplexity.py [--steps 3000] [--seed 7] [--out data/models] [--keep CHECKPOINT]

Needs the extra `convert` (torch, transformers), and one core for a few minutes. Starting from random weights, a model
of Llama's architecture with some hundred thousand parameters learns the articles and facts of the embedded world
(perplexity_corpus.py). Its own SentencePiece vocabulary falls back to bytes, so it can score any text. The result is an
ordinary checkpoint directory, which is converted and evaluated like any other.

The evaluation uses held-out texts: plain sentences and article sentences against the same words in random order, and
paragraphs with a sentence about their subject against the same paragraph with a sentence about another person. Seed,
versions, digests and figures go into training.json next to the model. One thread and fixed seeds reproduce the model on
the same machine and versions.
"""

import argparse
import io
import json
import math
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import sentencepiece
import torch
import transformers
from perplexity_corpus import (
    Corpus,
    digest_inputs,
    draw_taught,
    list_continuations,
    list_held_out_facts,
    list_held_out_prose,
    read_corpus,
    scramble,
)

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.calls.translation_and_perplexity import TextLogProbability
from factmill.tasks.models.converting.language_model import convert_decoder_checkpoint
from factmill.tasks.models.model_folder import ConversionManifestFields, write_model_folder
from factmill.tasks.models.perplexity import (
    EMBEDDED_LANGUAGE_MODEL,
    EMBEDDED_LANGUAGE_MODEL_FOLDER,
    LanguageModel,
    LanguageModelSettings,
)

PIECES = 2_000
WIDTH, HEADS, INNER_WIDTH, LAYERS = 64, 4, 192, 3
POSITIONS = 1024
BATCH_TOKENS = 4_000
PEAK_RATE = 4e-3
WARM_UP = 150
START, IGNORED = 1, -100
TOKENIZER = "tokenizer.model"
EXAMINED = 1_000


def main() -> None:
    """Train, convert, evaluate and store the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=EMBEDDED_LANGUAGE_MODEL_FOLDER.parent)
    parser.add_argument("--keep", type=Path, help="write the Hugging Face checkpoint here too")
    given = parser.parse_args()
    corpus = read_corpus()
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = Path(temporary) / "checkpoint"
        log = teach(corpus, checkpoint, given.steps, given.seed)
        if given.keep:
            shutil.copytree(checkpoint, given.keep)
        tried = store(checkpoint, Path(temporary), {})
        record = describe_training(given.steps, given.seed, log) | {"examined": examine(tried, corpus, given.seed)}
        store(checkpoint, given.out, record)
        sys.stdout.write(json.dumps(record, indent=2) + "\n")


def teach(corpus: Corpus, checkpoint: Path, steps: int, seed: int) -> list[dict[str, float]]:
    """Train the model and write a checkpoint directory; return the loss over time."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    vocabulary = make_vocabulary(corpus, seed)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    model = transformers.LlamaForCausalLM(make_config(pieces.get_piece_size()))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    log, smooth, started = [], math.nan, time.time()
    for step, rows in enumerate(islice(batch_rows(corpus, pieces, seed), steps), start=1):
        shown = _pad(rows, 0)
        loss = model(input_ids=shown, labels=_pad(rows, IGNORED), use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        smooth = loss.item() if math.isnan(smooth) else 0.98 * smooth + 0.02 * loss.item()
        if step % 250 == 0 or step == steps:
            log.append({"step": step, "loss": round(smooth, 4)})
            sys.stdout.write(f"step {step}: loss {smooth:.4f}, {time.time() - started:.0f} s\n")
            sys.stdout.flush()
    model.save_pretrained(checkpoint)
    (checkpoint / TOKENIZER).write_bytes(vocabulary)
    (checkpoint / "tokenizer_config.json").write_text(json.dumps({"bos_token": pieces.id_to_piece(START)}), "utf-8")
    return log


def make_vocabulary(corpus: Corpus, seed: int) -> bytes:
    """Return a SentencePiece model (BPE, as Llama's) of the training texts, with bytes for unknown characters."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=islice(draw_taught(corpus, seed + 1), 10_000),
        model_writer=written,
        vocab_size=PIECES,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=0.999,
        max_sentence_length=20_000,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
    )
    return written.getvalue()


def make_config(size: int) -> Any:
    """Return the model's configuration; `size` is the number of tokens in its vocabulary."""
    return transformers.LlamaConfig(
        vocab_size=size,
        hidden_size=WIDTH,
        intermediate_size=INNER_WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=POSITIONS,
        initializer_range=0.05,
        tie_word_embeddings=True,
        bos_token_id=START,
        eos_token_id=2,
    )


def batch_rows(corpus: Corpus, pieces: Any, seed: int) -> Iterator[list[list[int]]]:
    """Yield batches of documents of similar length, as token numbers, endlessly."""
    chance = random.Random(seed)
    documents = draw_taught(corpus, seed)
    while True:
        rows = sorted(([START, *pieces.encode(text)][:POSITIONS] for text in islice(documents, 2_000)), key=len)
        batches: list[list[list[int]]] = [[]]
        for row in rows:
            if batches[-1] and (len(batches[-1]) + 1) * len(row) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(row)
        chance.shuffle(batches)
        yield from batches


def store(checkpoint: Path, folder: Path, record: dict[str, Any]) -> LanguageModel:
    """Convert the checkpoint into `folder`, and open it."""

    def write(making: Path) -> ConversionManifestFields:
        origin = convert_decoder_checkpoint(checkpoint, making, "float16")
        (making / "training.json").write_text(json.dumps(record, indent=2) + "\n", "utf-8")
        settings = LanguageModelSettings.model_validate({**origin.settings, "identity": EMBEDDED_LANGUAGE_MODEL})
        return ConversionManifestFields(origin.source, settings.model_dump(), origin.made_with)

    write_model_folder(EMBEDDED_LANGUAGE_MODEL_FOLDER.name, folder, "perplexity", write, "replace")
    return LanguageModel(folder / EMBEDDED_LANGUAGE_MODEL_FOLDER.name, "cpu", threads=1)


def examine(model: LanguageModel, corpus: Corpus, seed: int) -> dict[str, Any]:
    """Return how often held-out texts have a lower perplexity than their counterparts."""
    chance = random.Random(seed)
    facts, prose = list_held_out_facts(corpus, seed, EXAMINED), list_held_out_prose(corpus)
    continued = list_continuations(corpus, seed, EXAMINED)
    return {
        "plain_sentences_and_disorder": compare(model, facts, [scramble(text, chance) for text in facts]),
        "article_sentences_and_disorder": compare(model, prose, [scramble(text, chance) for text in prose]),
        "own_and_other_continuation": compare(
            model,
            [f"{one.paragraph} {one.coherent}" for one in continued],
            [f"{one.paragraph} {one.other}" for one in continued],
        ),
    }


def compare(model: LanguageModel, natural: Sequence[str], strange: Sequence[str]) -> dict[str, Any]:
    """Return the share of pairs whose first text has the lower perplexity, and the median perplexity of both sides."""
    sides = [
        [
            outcome.perplexity
            for outcome in model.compute_log_probabilities(texts)
            if isinstance(outcome, TextLogProbability)
        ]
        for texts in (natural, strange)
    ]
    lower = sum(one < other for one, other in zip(*sides, strict=True))
    medians = [round(sorted(side)[len(side) // 2], 2) for side in sides]
    return {"all": len(natural), "lower": lower, "share": round(lower / len(natural), 4), "medians": medians}


def describe_training(steps: int, seed: int, log: list[dict[str, float]]) -> dict[str, Any]:
    """Return the inputs and settings of the training."""
    return {
        "what": "the embedded language model: a tiny model of Llama's architecture for the embedded world; no model of English",
        "seed": seed,
        "steps": steps,
        "inputs": digest_inputs(ASSETS_ROOT / "data" / "world"),
        "versions": {module.__name__: module.__version__ for module in (torch, transformers, sentencepiece)},
        "shape": {"width": WIDTH, "heads": HEADS, "inner_width": INNER_WIDTH, "layers": LAYERS, "pieces": PIECES},
        "log": log,
    }


def _rate(step: int, steps: int) -> float:
    """Return the share of the peak learning rate at a step: linear warm-up, then a half cosine down to 2 %."""
    return min((step + 1) / WARM_UP, 1) * (0.02 + 0.98 * (1 + math.cos(math.pi * min(step / steps, 1))) / 2)


def _pad(rows: Sequence[list[int]], filler: int) -> Any:
    longest = max(map(len, rows))
    return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])


if __name__ == "__main__":
    main()
