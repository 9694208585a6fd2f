"""Train the embedded translator and write it to data/models/embedded-translator.

    python data/models/train_translator.py [--steps 6500] [--seed 7] [--out data/models] [--keep CHECKPOINT]

Needs the extra `convert` (torch, transformers), and one core for a few minutes. Starting from random weights, a model
of NLLB's architecture (M2M-100: pre-norm, sinusoidal positions, one matrix for all embeddings) with under a million
parameters learns the sentence forms and labels of the embedded world (translator_corpus.py) in five languages, with its
own SentencePiece vocabulary. The result is an ordinary checkpoint directory, which is converted and evaluated like any
NLLB checkpoint, with SentencePiece and CTranslate2's beam search.

The evaluation uses held-out sentences and paths, all labels, and held-out sentences with scrambled words, which the
translator should refuse. Seed, versions, digests and figures go into training.json next to the model. One thread and
fixed seeds reproduce the model on the same machine and versions.
"""

import argparse
import io
import json
import math
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import sentencepiece
import torch
import transformers
from translator_corpus import (
    OUTSIDE,
    Corpus,
    Example,
    digest_inputs,
    draw_taught,
    is_path_held_out,
    list_held_out,
    read_corpus,
)

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.models.converting.translator import SPECIAL_TOKENS, convert_nllb_checkpoint
from factmill.tasks.models.model_folder import ConversionManifestFields, write_model_folder
from factmill.tasks.models.translator import (
    EMBEDDED_TRANSLATOR,
    EMBEDDED_TRANSLATOR_FOLDER,
    KNOWN_WORDS_FILE,
    NLLB_SENTENCEPIECE_FILE,
    Translator,
    TranslatorSettings,
)
from factmill.tasks.text.translating.placeholders import list_letter_runs
from factmill.tasks.text.translating.translation import (
    NLLB_LANGUAGE_CODES,
    SOURCE_LANGUAGE,
    TARGET_LANGUAGES,
    PathPart,
    UntranslatableReason,
)

PIECES = 6_000
WIDTH, HEADS, INNER_WIDTH, LAYERS = 96, 4, 192, 2
POSITIONS = 256
BATCH_TOKENS = 3_500
PEAK_RATE = 3e-3
WARM_UP = 200
SAMPLED = 0.8
"""Share of steps whose loss compares with the batch's own tokens and some others, not with all."""
OTHERS = 600
PAD, END = SPECIAL_TOKENS.index("<pad>"), SPECIAL_TOKENS.index("</s>")
LEAST_PROBABILITY = 0.4
"""The translator refuses below it; right translations of held-out sentences hardly ever have such a token."""
EXAMINED_SENTENCES, EXAMINED_PATHS = 400, 1_000


def main() -> None:
    """Train, convert, evaluate and store the translator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6_500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=EMBEDDED_TRANSLATOR_FOLDER.parent)
    parser.add_argument("--keep", type=Path, help="write the Hugging Face checkpoint here too")
    given = parser.parse_args()
    corpus = read_corpus()
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = Path(temporary) / "checkpoint"
        log = teach(corpus, checkpoint, given.steps, given.seed)
        if given.keep:
            shutil.copytree(checkpoint, given.keep)
        words = list_words(corpus)
        tried = store(checkpoint, Path(temporary), words, {})
        record = describe_training(given.steps, given.seed, log) | {"examined": examine(tried, corpus, given.seed)}
        store(checkpoint, given.out, words, record)
        sys.stdout.write(json.dumps(record, indent=2) + "\n")
    (given.out / f".{EMBEDDED_TRANSLATOR_FOLDER.name}.lock").unlink(missing_ok=True)


def teach(corpus: Corpus, checkpoint: Path, steps: int, seed: int) -> list[dict[str, float]]:
    """Train the model and write a checkpoint directory; return the loss over time."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    vocabulary = make_vocabulary(corpus, seed)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=vocabulary)
    size = len(SPECIAL_TOKENS) + pieces.get_piece_size() - 3 + len(NLLB_LANGUAGE_CODES) + 1
    model = transformers.M2M100ForConditionalGeneration(make_config(size))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_RATE, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    log, smooth, started = [], math.nan, time.time()
    for step, rows in enumerate(islice(batch_rows(corpus, pieces, seed), steps), start=1):
        loss = find_loss(model, rows, size, is_sampled=step <= SAMPLED * steps)
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
    (checkpoint / NLLB_SENTENCEPIECE_FILE).write_bytes(vocabulary)
    special = {"additional_special_tokens": list(NLLB_LANGUAGE_CODES.values())}
    (checkpoint / "special_tokens_map.json").write_text(json.dumps(special), "utf-8")
    return log


def make_vocabulary(corpus: Corpus, seed: int) -> bytes:
    """Return a SentencePiece model (BPE, as NLLB's) of the training texts, with every label included."""
    lines = [text for example in islice(draw_taught(corpus, seed), 40_000) for text in (example.source, example.target)]
    lines += [text for label in corpus.all_labels for text in label.values()] * 2
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        vocab_size=PIECES,
        model_type="bpe",
        character_coverage=1.0,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
    )
    return written.getvalue()


def make_config(size: int) -> Any:
    """Return the model's configuration; `size` is the number of tokens in its vocabulary."""
    return transformers.M2M100Config(
        vocab_size=size,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER_WIDTH,
        decoder_ffn_dim=INNER_WIDTH,
        max_position_embeddings=POSITIONS,
        init_std=0.05,
        dropout=0.0,
        attention_dropout=0.0,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
    )


Row = tuple[list[int], list[int]]
"""Token numbers of the encoder's input, and of the decoder's input and output."""


def batch_rows(corpus: Corpus, pieces: Any, seed: int) -> Iterator[list[Row]]:
    """Yield batches of examples of similar length, endlessly."""
    first_code = len(SPECIAL_TOKENS) + pieces.get_piece_size() - 3
    codes = {language: first_code + place for place, language in enumerate(NLLB_LANGUAGE_CODES)}

    def number(example: Example) -> Row:
        source, target = ([piece + 1 for piece in pieces.encode(text)] for text in (example.source, example.target))
        return [codes[SOURCE_LANGUAGE], *source, END], [END, codes[example.language], *target, END]

    chance = random.Random(seed)
    examples = draw_taught(corpus, seed)
    while True:
        rows = sorted((number(example) for example in islice(examples, 6_000)), key=_length)
        batches: list[list[Row]] = [[]]
        for row in rows:
            if batches[-1] and (len(batches[-1]) + 1) * _length(row) > BATCH_TOKENS:
                batches.append([])
            batches[-1].append(row)
        chance.shuffle(batches)
        yield from batches


def find_loss(model: Any, rows: Sequence[Row], size: int, is_sampled: bool) -> Any:
    """Return the mean cross-entropy of the decoder's output after the language code."""
    source, target = (_pad([row[side] for row in rows]) for side in (0, 1))
    states = model.model(
        input_ids=source, attention_mask=(source != PAD).long(), decoder_input_ids=target[:, :-1], use_cache=False
    ).last_hidden_state
    wanted = target[:, 1:]
    counted = wanted != PAD
    counted[:, 0] = False
    states, wanted, weights = states[counted], wanted[counted], model.model.shared.weight
    if not is_sampled:
        return torch.nn.functional.cross_entropy(states @ weights.T, wanted)
    compared = torch.unique(torch.cat([wanted, torch.randint(0, size, (OTHERS,))]))
    return torch.nn.functional.cross_entropy(states @ weights[compared].T, torch.searchsorted(compared, wanted))


def list_words(corpus: Corpus) -> list[str]:
    """Return the English words in the training texts."""
    texts = [re.sub(r"\[\w+\]", " ", form.texts[SOURCE_LANGUAGE]) for form in corpus.forms]
    texts += [label[SOURCE_LANGUAGE] for label in (*corpus.all_labels, *corpus.units)]
    return sorted({word for text in texts for word in list_letter_runs(text)})


def store(checkpoint: Path, folder: Path, words: Sequence[str], record: dict[str, Any]) -> Translator:
    """Convert the checkpoint into `folder`, and open it."""

    def write(making: Path) -> ConversionManifestFields:
        origin = convert_nllb_checkpoint(checkpoint, making, "float16")
        (making / KNOWN_WORDS_FILE).write_text("\n".join(words), "utf-8")
        (making / "training.json").write_text(json.dumps(record, indent=2) + "\n", "utf-8")
        settings = TranslatorSettings.model_validate(
            {
                **origin.settings,
                "identity": EMBEDDED_TRANSLATOR,
                "least_probability": LEAST_PROBABILITY,
                "refusal": OUTSIDE,
            }
        )
        return ConversionManifestFields(origin.source, settings.model_dump(), origin.made_with)

    write_model_folder(EMBEDDED_TRANSLATOR_FOLDER.name, folder, "translator", write, "replace")
    return Translator(folder / EMBEDDED_TRANSLATOR_FOLDER.name, "cpu", threads=1)


def examine(translator: Translator, corpus: Corpus, seed: int) -> dict[str, Any]:
    """Return how many held-out sentences, paths of the world and labels are translated exactly, refused or wrong."""
    chance = random.Random(seed)
    held_out = list_held_out(corpus, seed, EXAMINED_SENTENCES)
    sentences = [
        (texts[SOURCE_LANGUAGE], language, texts[language]) for texts in held_out for language in TARGET_LANGUAGES
    ]
    labels = [(t[SOURCE_LANGUAGE], language, t[language]) for t in corpus.all_labels for language in TARGET_LANGUAGES]
    paths = [
        ([corpus.labels[label] for label in path], chance.choice(TARGET_LANGUAGES))
        for path in chance.sample([path for path in corpus.paths if is_path_held_out(path)], EXAMINED_PATHS)
    ]
    scrambled = [
        (" ".join(chance.sample(words := text.split(), len(words))), language, "") for text, language, _ in sentences
    ]
    result = translator.translate_path_parts(
        [([PathPart(part[SOURCE_LANGUAGE]) for part in parts], language) for parts, language in paths]
    )
    return {
        "held_out_sentences": _count(sentences, translator.translate([pair[:2] for pair in sentences])),
        "labels": _count(labels, translator.translate([pair[:2] for pair in labels])),
        "scrambled_sentences": _count(scrambled, translator.translate([pair[:2] for pair in scrambled])),
        "held_out_paths": {
            **_count(
                [("", language, "; ".join(part[language] for part in parts)) for parts, language in paths],
                [path.problem or path.text for path in result],
            ),
            "joined": sum(path.partwise_reason is None for path in result),
            "by_part": dict(Counter(path.partwise_reason for path in result if path.partwise_reason)),
        },
    }


def describe_training(steps: int, seed: int, log: list[dict[str, float]]) -> dict[str, Any]:
    """Return the inputs and settings of the training."""
    return {
        "what": "the embedded translator: a tiny model of NLLB's architecture for the embedded world; no real NLLB",
        "seed": seed,
        "steps": steps,
        "inputs": digest_inputs(ASSETS_ROOT / "data" / "world"),
        "versions": {module.__name__: module.__version__ for module in (torch, transformers, sentencepiece)},
        "shape": {"width": WIDTH, "heads": HEADS, "inner_width": INNER_WIDTH, "layers": LAYERS, "pieces": PIECES},
        "log": log,
    }


def _count(asked: Sequence[tuple[str, str, str]], found: Sequence[Any]) -> dict[str, Any]:
    right = sum(outcome == expected for (_, _, expected), outcome in zip(asked, found, strict=True))
    refused = Counter(outcome.reason for outcome in found if isinstance(outcome, UntranslatableReason))
    return {"all": len(asked), "exact": right, "share": round(right / len(asked), 4), "refused": dict(refused)}


def _rate(step: int, steps: int) -> float:
    """Return the share of the peak learning rate at a step: linear warm-up, then a half cosine down to 2 %."""
    return min((step + 1) / WARM_UP, 1) * (0.02 + 0.98 * (1 + math.cos(math.pi * min(step / steps, 1))) / 2)


def _length(row: Row) -> int:
    return max(map(len, row))


def _pad(numbers: Sequence[list[int]]) -> Any:
    longest = max(map(len, numbers))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in numbers])


if __name__ == "__main__":
    main()
