"""Time the scoring of FanOutQA answers against a plain port of the public scorer.

    python bench speed.score [--answers 100000] [--questions FILE.json]

The plain port scores one answer at a time and normalises each text for every comparison. Both score the same answers
in the same process, with the same lemmas; the script fails when a number differs. Answers derive from the gold
answers of this file or of a released file: a whole one, a part, one with surrounding text, or another question's.
The port scores as many answers as it can in `--peer-seconds`, and its time is extrapolated to all; 0 scores all.
"""

import json
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ftfy
from scripts import read_options

from factmill.tasks.fanoutqa.core.evaluation.scoring import compute_rouge_f1_scores, score_loose_and_strict
from factmill.tasks.fanoutqa.core.evaluation.strings.gold_answers import format_gold_answer
from factmill.tasks.fanoutqa.evaluation.lemmatizers import load_lemmatizer, resolve_lemmatizer_name

GOLDS: Sequence[Any] = (
    {"Luxembourg": "$87 billion", "Ireland": "$516 billion", "Qatar": "$219.6 billion", "Macau": "$38.5 billion"},
    {"Heat Waves": "3:58", "As It Was": "2:43", "Stay": "2:21", "Easy on Me": "3:44", "Shivers": "3:27"},
    ["Right", "Right", "Left", "Right", "Both hands"],
    {"France": {"capital": "Paris", "people": 68042591}, "Peru": {"capital": "Lima", "people": 32162184}},
    "The rivers that the five cities were founded on",
    1970358,
    True,
    {"Oslo": -5.2, "Rome": "35%", "Cairo": 0.5},
)
FILLER = (
    "According to what I found, the following is known, though figures of 2,019 and later years may differ slightly: "
    "the companies were founded by brothers, and sales have been growing in most countries since then."
)


def normalise(text: Any, lemmatize: Callable[[Sequence[str]], list[str]]) -> str:
    """Return a text in the form that the public scorer compares."""
    mended = ftfy.fix_text(str(text).lower())
    joined = re.sub(r"(?:\d+,)+\d+(?:\.\d+)?", lambda number: number.group().replace(",", ""), mended)
    (lemmas,) = lemmatize([joined])
    return re.sub(r"\s+", " ", re.sub(r"[.,:;?!]", "", lemmas))


def list_missing(gold: Any, answer: str, lemmatize: Callable[[Sequence[str]], list[str]]) -> tuple[float, int]:
    """Return the share of a gold answer that is found, and the number of missing parts at all depths."""
    if isinstance(gold, dict | list):
        parts = [*gold, *gold.values()] if isinstance(gold, dict) else gold
        missing = sum(list_missing(part, answer, lemmatize)[1] for part in parts)
        return (len(parts) - missing) / len(parts), missing
    wanted = normalise({True: "yes", False: "no"}[gold] if isinstance(gold, bool) else gold, lemmatize)
    is_found = re.search(rf"\b{re.escape(wanted)}\b", normalise(answer, lemmatize)) is not None
    return float(is_found), int(not is_found)


def make_answers(golds: Sequence[Any], number: int) -> tuple[list[str], list[Any]]:
    """Return distinct answers and their gold answers."""
    draw = random.Random(5)
    asked = [golds[at % len(golds)] for at in range(number)]
    answers = []
    for at, gold in enumerate(asked):
        text = format_gold_answer(gold)
        kind = at % 4
        said = (
            text,
            text[: draw.randrange(len(text) + 1)],
            format_gold_answer(draw.choice(golds)),
            text.replace(" - ", ": "),
        )
        answers.append(f"{FILLER if kind % 2 else ''} {said[kind]}\n(answer {at})")
    return answers, asked


def main() -> None:
    """Print the time of both scorers, their ratio, and the time of ROUGE."""
    options = read_options(__doc__, answers=100_000, questions=Path, peer_seconds=0.0)
    golds = [each["answer"] for each in json.loads(options.questions.read_text())] if options.questions else GOLDS
    answers, asked = make_answers(golds, options.answers)
    lemmatize = load_lemmatizer(resolve_lemmatizer_name())
    print(f"{len(answers):,} answers to {len(golds)} questions, lemmas: {lemmatize.name}", flush=True)
    seconds = {}
    for scorer in ("upstream", "fixed"):
        start = time.perf_counter()
        share, whole = score_loose_and_strict(answers, asked, lemmatize, scorer)  # type: ignore[arg-type]
        seconds[scorer] = time.perf_counter() - start
        if scorer == "upstream":
            ours = list(zip(share.tolist(), whole.tolist(), strict=True))
        print(f"{scorer:9} {seconds[scorer]:8.2f} s   loose {share.mean():.6f}, strict {whole.mean():.6f}", flush=True)
    start = time.perf_counter()
    compute_rouge_f1_scores(answers, asked)
    print(f"{'rouge':9} {time.perf_counter() - start:8.2f} s", flush=True)
    start, done = time.perf_counter(), 0
    for answer, gold, mine in zip(answers, asked, ours, strict=True):
        share, missing = list_missing(gold, answer, lemmatize)
        if (share, float(not missing)) != mine:
            sys.exit(f"answer {done}: {mine} found, the plain port has {share}, {not missing}: {answer!r} to {gold!r}")
        done += 1
        if options.peer_seconds and time.perf_counter() - start > options.peer_seconds:
            break
    taken = (time.perf_counter() - start) * len(answers) / done
    print(f"{'plain':9} {taken:8.2f} s   ({done:,} answers scored, the same numbers in all of them)")
    print(f"upstream is {taken / seconds['upstream']:.1f} times as fast, fixed {taken / seconds['fixed']:.1f} times")
