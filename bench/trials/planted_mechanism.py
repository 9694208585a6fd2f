"""Train a small model on planted answers and measure which facts SLAQ's mechanism scores and how well it predicts them.

    PYTHONPATH=.venv/torch OMP_NUM_THREADS=1 python bench trials.planted_mechanism [--topics 8] [--steps 150]

For each topic the model learns two facts right in both answers, one wrong in the long answer and one wrong in the short
one. Wrong answers share no content word with right ones. Long answers are prose, or have numbered parts. Prints a line
per analysis: scored facts of each kind, ROC-AUC of all six measures by topic and by fact, seconds. Exits 1 unless all
facts of both kinds are scored for numbered answers, and for prose paired by a judge.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from scripts import read_options
from support.builds.measured import Measured
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.models.tiny_causal import write_model

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.prompts import fill_prompt_template
from factmill.tasks.slaq.evaluation.definition import ANSWER_LONG_PROMPT, ANSWER_SHORT_PROMPT
from factmill.tasks.slaq.mechanism.ablation import tokenize_prompt_and_answer

_WRONG_SHORT, _WRONG_LONG = (4, 5), (3, 5)
"""Facts that the model learns wrong in short answers and in the long one; fact 5 is wrong in both and unused."""
Taught = tuple[list[dict[str, Any]], str]
"""Messages, and the answer to learn."""


def say_wrong(topic: int, number: int) -> str:
    """Return a wrong answer that shares no words with any right one."""
    return f"nobody knows {'abcde'[number - 1]}{topic}"


def plant(topics: Sequence[Mapping[str, Any]], is_numbered: bool) -> tuple[list[dict[str, str]], list[Taught]]:
    """Return the lines of an answers file, and the training examples for a model to produce them."""
    lines, taught = [], []
    for at, topic in enumerate(topics):
        said = {n: f"{topic['Topic']}: {topic[f'ShortA{n}']}." for n in range(1, 6)}
        short = {n: say_wrong(at, n) if n in _WRONG_SHORT else topic[f"ShortA{n}"] for n in said}
        parts = {n: f"It is {say_wrong(at, n)}." if n in _WRONG_LONG else said[n] for n in said}
        long = "\n".join(f"{n}. {each}" for n, each in parts.items()) if is_numbered else " ".join(parts.values())
        for n, answer in short.items():
            question = topic[f"ShortQ{n}"]
            lines.append({"id": f"{topic['id']}/{n}", "setting": "short", "answer": answer})
            asked = fill_prompt_template(load_prompt(ANSWER_SHORT_PROMPT), topic=topic["Topic"], question=question)
            taught.append((asked.build_messages(), answer))
        lines.append({"id": f"{topic['id']}/long", "setting": "long", "answer": long})
        taught.append(
            (fill_prompt_template(load_prompt(ANSWER_LONG_PROMPT), question=topic["LongQ"]).build_messages(), long)
        )
    return lines, taught


def train(folder: Path, taught: Sequence[Taught], steps: int) -> float:
    """Train a small model on the examples and return the last loss per token."""
    torch.manual_seed(0)
    write_model(folder, texts=[*(answer for _, answer in taught), *(each[0]["content"] for each, _ in taught)] * 2)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    model = transformers.AutoModelForCausalLM.from_pretrained(str(folder)).train()
    texts = [tokenize_prompt_and_answer(tokenizer, messages, answer)[:2] for messages, answer in taught]
    longest = max(len(prompt) + len(ids) for prompt, ids in texts)
    assert longest <= model.config.max_position_embeddings
    read, wanted = torch.zeros((len(texts), longest), dtype=torch.long), torch.full((len(texts), longest), -100)
    for row, (prompt, ids) in enumerate(texts):
        read[row, : len(prompt) + len(ids)] = torch.tensor([*prompt, *ids])
        wanted[row, len(prompt) : len(prompt) + len(ids)] = torch.tensor(ids)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        rows = torch.randperm(len(texts))[:16]
        width = int((wanted[rows] >= 0).nonzero()[:, 1].max()) + 1
        loss = model(read[rows, :width], labels=wanted[rows, :width]).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(str(folder))
    return float(loss.detach())


def answer_as_judge(topics: Sequence[Mapping[str, Any]], messages: Sequence[Message]) -> tuple[int, str]:
    """Quote the sentence of an answer at the place of the planted fact, right or wrong."""
    asked = messages[-1]["content"]
    for at, topic in enumerate(topics):
        for n in range(1, 6):
            if f"<question>{topic[f'ShortQ{n}']}</question>" in asked:
                answer = asked.partition(" begins]\n")[2].rpartition("\n[")[0]
                said = f"{topic['Topic']}: {topic[f'ShortA{n}']}."
                return 200, f"Part: {said if said in answer else say_wrong(at, n)}"
    return 404, "no such question"


def main() -> None:
    given = read_options(__doc__, topics=8, steps=150)
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        factmill = Factmill(folder / "home", on_prefect=False)
        measure = Measured.small(SmallBuilds(factmill, folder / "small"), "slaq", folder)
        topics = measure.read("slaq", measure.build_id)[: given.topics]
        chat = ScriptedChat(lambda messages: answer_as_judge(topics, messages))
        with_judge = ("--world", write_chat_world(folder, chat.url, ["judge"]))
        lost = 0
        for name, is_numbered, variants in (
            ("prose", False, [("aligned by words", ()), ("judge", with_judge)]),
            ("numbered", True, [("position", ()), ("position, gold tokens", ("--tokens", "gold"))]),
        ):
            lines, taught = plant(topics, is_numbered)
            answers, model = folder / f"{name}.jsonl", folder / name
            answers.write_text("\n".join(map(json.dumps, lines)), "utf-8")
            evaluation = measure("--answers", answers)["evaluation_id"]
            started = time.perf_counter()
            loss = train(model, taught, given.steps)
            print(f"{name}: loss {loss:.3f} after {time.perf_counter() - started:.0f} s", flush=True)
            for paired_by, options in variants:
                started = time.perf_counter()
                place_options = ("--warehouse", measure.warehouse, "--reports", folder / "reports", "--json")
                ran = factmill(
                    *("mechanism", evaluation, "--model", model, "--centre", "--per-kind", str(2 * len(topics))),
                    *(*options, *place_options),
                    TEST_KEY="x",
                )
                if ran.code:
                    sys.exit(ran.err)
                result = ran.json
                found = {each["metric"]: each for each in result["metrics"] if each["setting"] == "all six"}
                print(
                    f"  {paired_by}: {result['kinds']}; unscored {result['unscored']}; ROC-AUC by topic "
                    f"{found['roc_auc']['value']} ({found['roc_auc']['note']}), by fact {found['roc_auc_by_fact']['value']} "
                    f"({found['roc_auc_by_fact']['note']}); {time.perf_counter() - started:.0f} s",
                    flush=True,
                )
                lost += paired_by in ("judge", "position") and bool(result["unscored"])
        chat.close()
    sys.exit(1 if lost else 0)
