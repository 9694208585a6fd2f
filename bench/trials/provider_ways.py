"""Build all five benchmarks through different ways to reach a server, and compare rows with a plain connection's.

The ways: a server that only streams; headers, a query parameter and a key header; a token that expires; a byte-order
mark; a proxy in front of a server that refuses direct connections; the Anthropic SDK with a server of its wire format;
LiteLLM's proxy, if FACTMILL_LITELLM names its command.
"""

import json
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from support.commands.other_command import OtherCommand
from support.habits.contents import Contents
from support.habits.provider_habits import REACH, ProviderHabit
from support.habits.provider_server import ProviderServer, Reply, Turn, refuse
from support.habits.runs import read_tables, small_arguments
from support.messages.server import KEY, MessagesServer
from support.webs.proxies import LoopbackProxy
from trials.providers import write_provider_world

BENCHMARKS = ("granola", "multihal", "biokalma", "slaq", "fanoutqa")
LITELLM = "FACTMILL_LITELLM"
"""Environment variable that names LiteLLM's command."""
_HOST = "provider.test"
"""A host that only the proxy resolves."""
_LITELLM_START_S = 120.0


@dataclass(frozen=True)
class Way:
    """The address, settings and environment of a way to the server."""

    url: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def _want_proxy(turn: Turn) -> Reply:
    return turn.answer() if "via" in turn.headers else refuse(403, "Direct connections are refused.")


def compare_ways(command: OtherCommand, folder: Path, names: Sequence[str]) -> bool:
    """Build through the named ways (by default all), print a line each, and return True when all rows are equal."""
    habits = {
        "plain": ProviderHabit(Turn.answer, "no faults"),
        **REACH,
        "proxy": ProviderHabit(_want_proxy, "refuses direct connections"),
        "Anthropic SDK": ProviderHabit(Turn.answer, "no faults"),
        "LiteLLM": ProviderHabit(Turn.answer, "no faults"),
    }
    server = ProviderServer(habits, Contents())
    plain = {}
    for benchmark in BENCHMARKS:
        plain[benchmark] = _build(command, folder, benchmark, "plain", Way(server.url("plain")))[0]
        print(f"{benchmark:9} {'plain':28} {_count(plain[benchmark])} rows", flush=True)
    good = bool(all(plain.values()))
    for name in habits:
        if name == "plain" or (names and name not in names):
            continue
        with _open_way(server, name, folder) as way:
            if isinstance(way, str):
                print(f"{name}: not tried: {way}", flush=True)
                continue
            for benchmark in BENCHMARKS:
                before = len(server.books[name].asked)
                tables, trouble = _build(command, folder, benchmark, name, way)
                is_equal = tables == plain[benchmark] and len(server.books[name].asked) > before
                good &= is_equal
                text = "equal" if is_equal else f"OTHER {trouble}"
                print(f"{benchmark:9} {name:28} {_count(tables)} rows  {text}", flush=True)
    server.close()
    return good


def _build(
    command: OtherCommand, folder: Path, benchmark: str, name: str, way: Way
) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Return the tables of a small build, or no tables and the last line of its errors."""
    place = folder / benchmark
    place.mkdir(exist_ok=True)
    # one name for all worlds: it appears in published rows
    world = write_provider_world(place, "ways", way.url, way.settings, 6, command, ("author", "judge"))
    warehouse = place / f"{name.replace(' ', '-')}.duckdb"
    arguments = [*small_arguments(benchmark, 8, place), "--world", world, "--warehouse", warehouse, "--json"]
    ran = command("build", benchmark, *arguments, **way.environment)
    if ran.code:
        return {}, ran.err.strip().splitlines()[-1][:300]
    return read_tables(warehouse, ran.json), ""


def _count(tables: Mapping[str, list[dict[str, Any]]]) -> int:
    return sum(len(rows) for rows in tables.values())


@contextmanager
def _open_way(server: ProviderServer, name: str, folder: Path) -> Iterator[Way | str]:
    """Yield the way with this name, or the reason it is unavailable."""
    url = server.url(name)
    if name == "proxy":
        with closing(LoopbackProxy({_HOST: server.web.port})) as proxy:
            environment = {"HTTP_PROXY": f"http://127.0.0.1:{proxy.port}", "NO_PROXY": "127.0.0.1,localhost"}
            yield Way(f"http://{_HOST}{urlsplit(url).path}", environment=environment)
    elif name == "Anthropic SDK":
        with closing(MessagesServer(folder / "messages", lambda body: server.answer(name, body))) as messages:
            yield Way(messages.url, {"kind": "anthropic", "key_env": "TRIAL_KEY"}, {"TRIAL_KEY": KEY})
    elif name == "LiteLLM":
        if not (program := os.environ.get(LITELLM)):
            yield f"{LITELLM} names no command"
            return
        key = f"sk-{uuid.uuid4().hex}"
        with _run_litellm(program, url, folder, key) as own:
            yield Way(own, {"key_env": "TRIAL_KEY"}, {"TRIAL_KEY": key})
    else:
        yield Way(url, REACH[name].settings, REACH[name].environment)


@contextmanager
def _run_litellm(program: str, url: str, folder: Path, key: str) -> Iterator[str]:
    """Run LiteLLM's proxy in front of a server and yield its address; `key` is the key its clients must send."""
    params = {"model": "openai/provider", "api_base": url, "api_key": "none"}
    config = {
        "model_list": [{"model_name": "provider", "litellm_params": params}],
        "litellm_settings": {"telemetry": False},
    }
    (folder / "litellm.yaml").write_text(json.dumps(config), "utf-8")  # JSON is YAML
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "litellm.log").open("w") as log:
        process = subprocess.Popen(
            [program, "--config", folder / "litellm.yaml", "--host", "127.0.0.1", "--port", str(port)],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=os.environ | {"LITELLM_MASTER_KEY": key},
        )
    try:
        deadline = time.monotonic() + _LITELLM_START_S
        while True:
            try:
                urlopen(f"http://127.0.0.1:{port}/health/liveliness", timeout=5).close()
                break
            except (URLError, OSError):
                if process.poll() is not None or time.monotonic() > deadline:
                    said = (folder / "litellm.log").read_text("utf-8")[-1000:]
                    raise RuntimeError(f"LiteLLM's proxy does not answer: {said}") from None
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()
