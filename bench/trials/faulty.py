"""Build against misbehaving services and check that the build recovers or fails clearly, and that a rerun completes it.

    python bench trials.faulty [--rate 0.25] [--seed 1] [--whole]

Injects 429, 500, HTML with 200, cut connections, truncated responses, wrong lengths, hangs and redirects into every
service of the embedded world and into a chat model. Redirects to another host, which stop a build, get their own runs.
A build must publish the same bytes or state why it cannot, and the next run without faults must complete it. Without
--whole, builds are small. Prints a line per build; exits 1 on any problem.
"""

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scripts import read_options
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.webs.loopback import Seen
from trials.observed import WEIGHTS
from trials.trial import Trial, count_calls, write_world

SMALL = [["granola", "--limit", "20"], ["multihal", "--limit", "6", "--linker", "falcon", "--languages", "deu"]]
ALL = [["granola"], ["multihal", "--linker", "falcon"], ["biokalma"], ["slaq"], ["fanoutqa"]]
PEOPLE = {"Albert Einstein": "Ulm", "Marie Curie": "Warsaw", "Ada Lovelace": "London", "Gustave Eiffel": "Dijon"}
SPOILT: list[dict[str, Any]] = [
    {"status": 429, "headers": {"Retry-After": "0"}, "text": "later"},
    {"status": 500, "text": "sorry"},
    {"text": "<html><body>Down for maintenance</body></html>"},
    {"cut": True},
    {"truncate": True, "json": {"choices": []}},
    {"delay_s": 3.0, "json": {"choices": []}},
    {"status": 307, "headers": {"Location": "/v1/chat/completions"}, "text": "moved"},
]
AWAY, AWAY_RATE = ("redirect",), 0.05
SENT_AWAY = "redirects = ["
Handle = Callable[[Seen], dict[str, Any]]


def build_with_faults(
    trial: Trial, builds: Sequence[Sequence[str]], rate: float, kinds: Sequence[str] = tuple(WEIGHTS)
) -> list[str]:
    """Run each build without faults, with faults, and again without; return the problems."""
    wrong = []
    trial.kinds = kinds
    for at, build in enumerate(builds):
        command = ["build", *build, "--json", "--world", str(write_world(trial.folder)), "--warehouse"]
        trial.rate = 0.0
        _, expected, _ = trial.run("alone", [*command, str(trial.folder / "alone.duckdb")])
        trial.rate = rate
        name = f"{kinds[0]}-{at}"
        problems = _mend(trial, name, [*command, str(trial.folder / f"{name}.duckdb")], expected)
        met = Counter(f"{service} {fault}" for fault, service, _ in trial.requests(name) if fault != "-")
        print(f"{' '.join(build)}: {dict(sorted(met.items()))}: {'; '.join(problems) or 'mended'}", flush=True)
        wrong += problems
    return wrong


def _mend(trial: Trial, name: str, command: list[str], expected: dict[str, Any]) -> list[str]:
    """Run a command with faults and then without; return the problems."""
    warehouse = Path(command[-1])
    code, tables, err = trial.run(name, command)
    said = err.strip().splitlines()[-1] if err.strip() else ""
    print(f"  with faults: code {code}, {'same bytes' if tables == expected else said[:160]}", flush=True)
    problems = ["a traceback"] * ("Traceback" in err)
    problems += [f"no named end: {said}"] * (code != 0 and not any(": " in line for line in err.splitlines()[-3:]))
    problems += [f"another end than a redirect's: {said}"] * (
        code != 0 and trial.kinds == AWAY and SENT_AWAY not in err
    )
    trial.rate = 0.0
    code, tables, err = trial.run(f"{name}-again", command)
    problems += [f"without faults it ends with {code}: {err[-500:]}"] * bool(code)
    problems += ["other bytes without faults"] * (tables != expected)
    total, twice = count_calls(warehouse)
    problems += [f"{twice} of {total} calls were asked again though they were answered"] * (twice > 0)
    return problems + [f"left: {each}" for each in [*trial.find_orphans(), *trial.find_litter(warehouse)]]


def spoil(handle: Handle, rate: float, seed: int) -> Handle:
    """Return a handler that answers like `handle`, except for faults drawn at a rate."""
    draw = random.Random(seed)
    return lambda seen: draw.choice(SPOILT) if draw.random() < rate else handle(seen)


def build_with_a_faulty_model(trial: Trial, rate: float, seed: int) -> list[str]:
    """Build GRANOLA-EQ with a misbehaving chat model and misbehaving services; return the problems."""
    chat = ScriptedChat(_say)
    try:
        world = write_chat_world(trial.folder, chat.url, ["author", "judge"])
        hasty = world.read_text("utf-8").replace("timeout_s = 600, attempts = 2", "timeout_s = 2, attempts = 4")
        world.write_text(hasty, "utf-8")
        source = trial.folder / "P19.people.json"
        asked = [{"question": f"Where was {name} born?", "answers": [place]} for name, place in PEOPLE.items()]
        source.write_text(json.dumps(asked), "utf-8")
        command = ["build", "granola", "--world", str(world), "--source", str(source), "--json", "--warehouse"]
        trial.rate, trial.kinds = 0.0, tuple(WEIGHTS)
        _, expected, _ = trial.run("chat-alone", [*command, str(trial.folder / "chat-alone.duckdb")])
        trial.rate = rate
        plain = chat.web.handle
        chat.web.handle = spoil(plain, rate, seed)
        warehouse = str(trial.folder / "chat.duckdb")
        code, tables, err = trial.run("chat", [*command, warehouse])
        print(f"  with faults: code {code}, {'same bytes' if tables == expected else err[-160:]}", flush=True)
        problems = ["a traceback"] * ("Traceback" in err)
        chat.web.handle = plain
        problems += _mend(trial, "chat-mended", [*command, warehouse], expected)
    finally:
        chat.close()
    print(f"chat model: {'; '.join(problems) or 'mended'}", flush=True)
    return problems


def _say(messages: Sequence[Message]) -> tuple[int, str]:
    said = "".join(message["content"] for message in messages[-3:])
    person = next(name for name in PEOPLE if f"Where was {name} born?" in said)
    return 200, "Yes." if "<description>" in said else f"1:: {PEOPLE[person]}\n2:: somewhere in Europe"


def main() -> int:
    """Run all trials."""
    given = read_options(__doc__, rate=0.25, seed=1, whole=False)
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(Path(folder))
        trial.seed = given.seed
        builds = ALL if given.whole else SMALL
        wrong = build_with_faults(trial, builds, given.rate)
        wrong += build_with_faults(trial, builds, AWAY_RATE, AWAY)
        wrong += build_with_a_faulty_model(trial, given.rate, given.seed)
    return 1 if wrong else 0
