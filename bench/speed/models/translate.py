"""Time the translator against Hugging Face transformers with the same weights, and show the cost of exactness.

    python bench speed.models.translate [--layers 4] [--texts 64] [--lengths 2] [--tokens 12] [--threads 1] [--no-repeat 0]
                                    [--avx2] [--alone 8] [--held-out 0] [--keep FOLDER]
                                    [--vocabulary 256206]

Needs the extra `convert` (torch, transformers). The model has random weights in the shape of NLLB-200-distilled-600M
(width 1024, inner width 4096, 16 heads, 256,206 tokens), with --layers encoder and --layers decoder layers instead of
12 each. To keep the vocabulary's share of the work, give --vocabulary 21350 tokens per layer. Texts are questions of
the embedded world, tokenized with the embedded translator's vocabulary. A stage of 31,000 texts has hundreds of each
length, so --texts are drawn from only --lengths lengths, enough of each length to fill its batches. With --lengths 0
they have all lengths, as in a stage of few texts. All contenders search as in MultiHal's Table 2 (beam 5, length
penalty 1.1), except for the rule that no token pair repeats (--no-repeat 2). With that rule CTranslate2 and
transformers disagree: the former applies it before normalising, the latter after. Random weights rarely end a
translation, so each is cut off after --tokens tokens and all contenders do the same work. `--avx2` limits all libraries
to the instructions of CPUs without VNNI (cpus.py). Models are kept in --keep, or removed. Contenders run in turn:

- transformers: generate() in float32 (on a GPU float16), batches of 8 (Table 2) sorted by length and padded
- factmill float32, one text per batch: exact, the default where a row does not keep its bits; only --alone texts
- factmill float32, in company: exact, the default where a row keeps its bits (devices.find_amd_onednn_matmul_instructions; omitted
  elsewhere); then each of the first --alone texts in its own search
- factmill float32, batches of equal length: exact as far as "turned" shows for this CPU
- factmill int8 in 7 bits, batches of equal length: exact, the default of converted models
- factmill int8 in 7 bits, one text per batch; only the first --alone texts
- CTranslate2 float32, and int8 in 8 bits, with its own batching: mixed lengths, padded, up to the same number of
  tokens; not exact, so the difference to these rows is the cost of exactness

With --held-out, the script first measures the loss of quality with int8. The embedded translator, which has trained
weights, translates that number of held-out sentences in float32, in 7 bits, and in CTranslate2's own 8 bits, which
overflow without VNNI.

"As first" counts translations equal to the first contender's. "Turned" counts translations of the first --alone
texts that differ, in a token or in a bit of the score, from the same compute type's translation of the text alone
(in company: of the text in its own search). With a GPU, the comparison also runs there in float16 (by wall time,
with joules where nvidia-smi reports them). On the CPU, seconds are the process's CPU seconds, which other work on
the machine does not affect. They cover only the translation, after one text to warm up.
"""

import contextlib
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import ctranslate2
import torch
import transformers
from scripts import read_options
from speed.models.cpus import describe_cpu
from speed.models.questions import draw_texts
from translator_corpus import list_held_out, read_corpus

from factmill.tasks.core.service_settings import ComputeType
from factmill.tasks.models.converting.translator import make_translator_folder
from factmill.tasks.models.devices import find_amd_onednn_matmul_instructions
from factmill.tasks.models.exact_batches import Batching
from factmill.tasks.models.translator import (
    EMBEDDED_TRANSLATOR_FOLDER,
    END_TOKEN,
    NLLB_SENTENCEPIECE_FILE,
    BeamSearchOptions,
    Translator,
)
from factmill.tasks.text.translating.translation import NLLB_LANGUAGE_CODES, TARGET_LANGUAGES, TranslationRequest

WIDTH, INNER_WIDTH, HEADS, TOKENS = 1024, 4096, 16, 256_206
BATCH = 8
BATCH_TOKENS = 1024
"""Size of CTranslate2's own batches."""

IN_COMPANY, SINGLY = "factmill float32, in company", "factmill float32, company singly"

Said = list[tuple[tuple[str, ...], float]]
"""Tokens of each translation, and its score if it has one."""
Say = Callable[[list[TranslationRequest]], Said]


def write_checkpoint(folder: Path, layers: int, vocabulary: int) -> None:
    """Write a checkpoint directory with random weights."""
    torch.manual_seed(0)
    config = transformers.M2M100Config(
        vocab_size=vocabulary,
        d_model=WIDTH,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER_WIDTH,
        decoder_ffn_dim=INNER_WIDTH,
        max_position_embeddings=1024,
    )
    transformers.M2M100ForConditionalGeneration(config).save_pretrained(folder)
    shutil.copyfile(EMBEDDED_TRANSLATOR_FOLDER / NLLB_SENTENCEPIECE_FILE, folder / NLLB_SENTENCEPIECE_FILE)
    codes = {"additional_special_tokens": list(NLLB_LANGUAGE_CODES.values())}
    (folder / "special_tokens_map.json").write_text(json.dumps(codes), "utf-8")


def draw_of_lengths(cutter: Translator, count: int, lengths: int) -> list[TranslationRequest]:
    """Return texts of the `lengths` most frequent lengths; of all lengths when `lengths` is 0."""
    if not lengths:
        return draw_texts(count)
    by_length: dict[int, list[TranslationRequest]] = {}
    for asked in dict.fromkeys(draw_texts(60 * count)):
        by_length.setdefault(len(cutter.tokenize(asked[0])), []).append(asked)
    most = sorted(by_length.values(), key=len)[-lengths:]
    return [asked for several in zip(*most, strict=False) for asked in several][:count]


@dataclass(frozen=True)
class Bench:
    """Models, limits and texts that all contenders share."""

    checkpoint: Path
    folder: Path
    """The same weights, converted in float32."""
    narrow: Path
    """The same weights as int8 in 7 bits."""
    device: Literal["cpu", "cuda"]
    threads: int
    tokens: int
    """Length at which a translation is cut off."""
    no_repeat: int
    """Length of token sequences that must not repeat; 0 for no limit."""
    asked: list[TranslationRequest]
    alone: int
    """Number of first texts that are also translated one by one."""

    @property
    def wide(self) -> Literal["float32", "float16"]:
        """The floating-point compute type."""
        return "float16" if self.device == "cuda" else "float32"

    @cached_property
    def vocabulary(self) -> list[str]:
        """Tokens by number."""
        return list(json.loads((self.folder / "shared_vocabulary.json").read_text("utf-8")))

    @cached_property
    def cutter(self) -> Translator:
        """A translator that is only used to tokenize."""
        return Translator(self.narrow, "cpu", threads=1)


def open_transformers(bench: Bench) -> Say:
    """Return a function that translates with generate()."""
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(bench.checkpoint).eval().to(bench.device)
    model = model.half() if bench.wide == "float16" else model
    numbers = {token: number for number, token in enumerate(bench.vocabulary)}

    def say(asked: list[TranslationRequest]) -> Said:
        sources = [[numbers["eng_Latn"], *(numbers[p] for p in bench.cutter.tokenize(text)), 2] for text, _ in asked]
        said: Said = [((), 0.0)] * len(asked)
        order = sorted(range(len(asked)), key=lambda place: len(sources[place]))
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            longest = max(len(sources[place]) for place in places)
            rows = torch.tensor([sources[p] + [1] * (longest - len(sources[p])) for p in places], device=bench.device)
            begin = torch.tensor([[2, numbers[NLLB_LANGUAGE_CODES[asked[p][1]]]] for p in places], device=bench.device)
            with torch.no_grad():
                found = model.generate(
                    input_ids=rows,
                    attention_mask=(rows != 1).long(),
                    decoder_input_ids=begin,
                    num_beams=5,
                    length_penalty=1.1,
                    no_repeat_ngram_size=bench.no_repeat,
                    early_stopping=True,
                    max_new_tokens=bench.tokens,
                    do_sample=False,
                )
            for place, row in zip(places, found.tolist(), strict=True):
                said[place] = tuple(bench.vocabulary[number] for number in row[2:] if number not in (1, 2)), 0.0
        return said

    return say


def open_factmill(bench: Bench, compute_type: ComputeType, batching: Batching) -> Say:
    """Return a function that translates as builds do."""
    decoding = BeamSearchOptions(no_repeat_ngram=bench.no_repeat, max_tokens=bench.tokens + 1)
    folder = bench.narrow if compute_type == "int8" else bench.folder
    translator = Translator(folder, bench.device, compute_type, bench.threads, batching, decoding)
    return lambda asked: [
        (tuple(token for token in found.tokens if token != END_TOKEN), found.score)
        for found in translator.find_best_translations(asked)
    ]


def open_singly(bench: Bench) -> Say:
    """Return a function that searches for each text separately, in float32 as builds do."""
    say = open_factmill(bench, "float32", "auto")
    return lambda asked: [said for pair in asked for said in say([pair])]


def open_ctranslate2(bench: Bench, compute_type: ComputeType) -> Say:
    """Return a function that leaves batching to CTranslate2."""
    workers = bench.threads if bench.device == "cpu" else 1
    model = ctranslate2.Translator(
        str(bench.folder), bench.device, compute_type=compute_type, inter_threads=workers, intra_threads=1
    )

    def say(asked: list[TranslationRequest]) -> Said:
        results = model.translate_batch(
            [["eng_Latn", *bench.cutter.tokenize(text), END_TOKEN] for text, _ in asked],
            target_prefix=[[NLLB_LANGUAGE_CODES[language]] for _, language in asked],
            beam_size=5,
            length_penalty=1.1,
            no_repeat_ngram_size=bench.no_repeat,
            max_decoding_length=bench.tokens + 1,
            max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
        )
        return [(tuple(piece for piece in result.hypotheses[0][1:] if piece != END_TOKEN), 0.0) for result in results]

    return say


@dataclass(frozen=True)
class Found:
    """A contender's translations and their cost."""

    said: Said
    tokens_a_second: float
    joules: float | None


def measure(name: str, open_peer: Callable[[], Say], asked: list[TranslationRequest], device: str) -> Found:
    """Run a contender; time is CPU seconds, or wall seconds on a GPU."""
    say = open_peer()
    say(asked[:1])
    clock = time.perf_counter if device == "cuda" else time.process_time
    energy = read_joules(device)
    started = clock()
    said = say(asked)
    seconds = clock() - started
    spent = read_joules(device)
    joules = spent - energy if spent is not None and energy is not None else None
    del say
    gc.collect()
    sys.stderr.write(f"{name}: {seconds:.1f} s\n")
    return Found(said, sum(len(tokens) for tokens, _ in said) / seconds, joules)


def read_joules(device: str) -> float | None:
    """Return the joules the first GPU has used since its driver was loaded; None if the driver does not report them."""
    if device != "cuda" or not shutil.which("nvidia-smi"):
        return None
    command = ["nvidia-smi", "--id=0", "--query-gpu=total_energy_consumption", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return float(output) / 1000 if output.replace(".", "", 1).isdecimal() else None


def compare(bench: Bench) -> None:
    """Print the table of one device."""
    wide, few = bench.wide, bench.asked[: bench.alone]
    peers: dict[str, tuple[Callable[[], Say], list[TranslationRequest]]] = {
        f"transformers {wide}, batches of {BATCH}": (lambda: open_transformers(bench), bench.asked),
        f"factmill {wide}, alone": (lambda: open_factmill(bench, wide, "alone"), few),
        **open_company(bench, few),
        f"factmill {wide}, equal length": (lambda: open_factmill(bench, wide, "length"), bench.asked),
        "factmill int8, equal length": (lambda: open_factmill(bench, "int8", "length"), bench.asked),
        "factmill int8, alone": (lambda: open_factmill(bench, "int8", "alone"), few),
        f"ctranslate2 {wide}, own batches": (lambda: open_ctranslate2(bench, wide), bench.asked),
        "ctranslate2 int8, own batches": (lambda: open_ctranslate2(bench, "int8"), bench.asked),
    }
    found = {name: measure(name, peer, asked, bench.device) for name, (peer, asked) in peers.items()}
    first = next(iter(found.values()))
    print(f"\n{bench.device:34}{'tokens/s':>9}{'ratio':>7}{'as first':>10}{'turned':>8}{'joules':>8}")
    for name, each in found.items():
        alone = found[find_alone(name, wide)].said
        pairs = list(zip(each.said, first.said, strict=False))
        same = sum(one[0] == other[0] for one, other in pairs) / len(pairs)
        turned = sum(one != other for one, other in zip(each.said, alone, strict=False))
        shown = f"{turned}/{len(alone)}" if name.startswith("factmill") else "-"
        joules = "-" if each.joules is None else f"{each.joules:.0f}"
        rate = each.tokens_a_second
        print(f"{name:34}{rate:9.1f}{rate / first.tokens_a_second:7.2f}{same:10.0%}{shown:>8}{joules:>8}")


def open_company(
    bench: Bench, few: list[TranslationRequest]
) -> dict[str, tuple[Callable[[], Say], list[TranslationRequest]]]:
    """Return the contenders that search in company, on devices where builds do."""
    if not find_amd_onednn_matmul_instructions(bench.device):
        return {}
    company = (lambda: open_factmill(bench, "float32", "auto")), bench.asked
    return {IN_COMPANY: company, SINGLY: ((lambda: open_singly(bench)), few)}


def find_alone(name: str, wide: str) -> str:
    """Return the contender that translates each text alone, to compare this contender with."""
    if name in (IN_COMPANY, SINGLY):
        return SINGLY
    return "factmill int8, alone" if "int8" in name else f"factmill {wide}, alone"


def examine_numbers(count: int, models: Path) -> None:
    """Print exact translations of held-out sentences and CPU seconds for each compute type."""
    make_translator_folder(EMBEDDED_TRANSLATOR_FOLDER, models, "narrow", quantization="int8")
    exact, narrow, wide = (
        Translator(path, "cpu") for path in (EMBEDDED_TRANSLATOR_FOLDER, models / "narrow", EMBEDDED_TRANSLATOR_FOLDER)
    )
    wide.search._model = ctranslate2.Translator(str(EMBEDDED_TRANSLATOR_FOLDER), "cpu", compute_type="int8")
    wide.search.batching = "length"
    texts = list_held_out(read_corpus(), 11, count)
    asked = [(text["en"], language) for text in texts for language in TARGET_LANGUAGES]
    expected = [text[language] for text in texts for language in TARGET_LANGUAGES]
    print(f"\n{'embedded translator':34}{'exact':>8}{'of':>7}{'as float32':>12}{'CPU s':>8}")
    first: list[object] = []
    for name, translator in {"float32": exact, "int8 in 7 bits": narrow, "int8 in 8 bits": wide}.items():
        translator.translate(asked[:1])
        started = time.process_time()
        said = translator.translate(asked)
        seconds = time.process_time() - started
        first = first or list(said)
        right, same = (sum(a == b for a, b in zip(said, other, strict=True)) for other in (expected, first))
        print(f"{name:34}{right:8}{len(asked):7}{same:12}{seconds:8.1f}")


def main() -> None:
    """Print a table of all contenders for each device."""
    given = read_options(
        __doc__,
        layers=4,
        vocabulary=TOKENS,
        texts=64,
        lengths=2,
        tokens=12,
        threads=1,
        no_repeat=0,
        alone=8,
        held_out=(0, "sentences, each in five languages"),
        keep=(Path, "where the models are kept for the next run of the same shape"),
        avx2=(False, "hold all libraries to AVX2 without VNNI"),
    )
    torch.set_num_threads(given.threads)
    transformers.utils.logging.set_verbosity_error()
    has_gpu = ctranslate2.get_cuda_device_count() > 0
    print(
        f"NLLB-200-distilled-600M's shape with {given.layers}+{given.layers} layers, {given.vocabulary:,} tokens, random weights; {given.texts} texts, "
        f"{given.tokens} tokens each; {given.threads} thread(s) of {os.cpu_count()} cores; {describe_cpu()}\n"
        f"ctranslate2 {ctranslate2.__version__}, transformers {transformers.__version__}, torch {torch.__version__}; "
        f"GPU: {'yes' if has_gpu else 'none on this machine'}"
    )
    with contextlib.nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as folder:
        checkpoint, models = Path(folder) / "random", Path(folder) / "models"
        if given.held_out:
            examine_numbers(given.held_out, models)
        if not (models / "random-int8").is_dir():
            write_checkpoint(checkpoint, given.layers, given.vocabulary)
            make_translator_folder(checkpoint, models, quantization="float32", if_there="replace")
            make_translator_folder(models / "random", models, "random-int8", quantization="int8")
        devices: list[Literal["cpu", "cuda"]] = ["cpu", "cuda"] if has_gpu else ["cpu"]
        for device in devices:
            folders = checkpoint, models / "random", models / "random-int8"
            asked = draw_of_lengths(Translator(folders[2], "cpu", threads=1), given.texts, given.lengths)
            compare(Bench(*folders, device, given.threads, given.tokens, given.no_repeat, asked, given.alone))
