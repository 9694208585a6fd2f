"""Test builds through a real LiteLLM proxy.

FACTMILL_LITELLM is the path of the command `litellm` (tested with 1.106.2).
"""

import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.habits.runs import read_tables, small_arguments
from support.habits.server import HabitsServer, write_habit_world
from support.messages.server import KEY, MessagesServer, write_messages_world

LITELLM = os.environ.get("FACTMILL_LITELLM", "")
HABIT = "well-formed"
ROLES = ("author", "judge")
MASTER = {"LITELLM_MASTER_KEY": "sk-loopback-1", "ANTHROPIC_TEST_KEY": "sk-loopback-1"}
CONFIG = """
model_list:
  - model_name: plain
    litellm_params: {{ model: openai/habits, api_base: "{plain}", api_key: none }}
  - model_name: claude
    litellm_params: {{ model: anthropic/claude-sonnet-4-5, api_base: "{native}", api_key: {key} }}
litellm_settings: {{ drop_params: true }}
router_settings: {{ num_retries: 0, disable_cooldowns: true }}
general_settings: {{ master_key: os.environ/LITELLM_MASTER_KEY }}
"""
pytestmark = pytest.mark.skipif(not LITELLM, reason="FACTMILL_LITELLM names no command of LiteLLM's proxy")


@pytest.fixture(scope="module")
def habits(session_home: Path) -> Iterator[HabitsServer]:
    server = HabitsServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def proxy(habits: HabitsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the proxy in front of a server of each protocol; yield its address."""
    folder = tmp_path_factory.mktemp("litellm")

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return habits.answer(HABIT, body)

    native = MessagesServer(folder / "messages", answer, accepts=frozenset({"temperature"}))
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(plain=habits.url(HABIT), native=native.url, key=KEY), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    # model prices come from the package, not from the network
    environment = {**os.environ, **MASTER, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [LITELLM, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            while not is_up(url):
                assert process.poll() is None, (folder / "log").read_text("utf-8")[-2000:]
                time.sleep(0.5)
            yield url
        finally:
            process.kill()
            process.wait()
            native.close()


def is_up(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"{url}/health/liveliness", timeout=5) as answer:
        return bool(answer.status == 200)
    return False


@pytest.mark.parametrize("way", ["the OpenAI form", "Anthropic behind the OpenAI form", "the Messages API"])
def test_litellm_proxy_yields_same_rows_as_server(
    factmill: Factmill, habits: HabitsServer, proxy: str, tmp_path: Path, way: str
) -> None:
    few = [*small_arguments("granola", 8, tmp_path), "--json"]
    plain = write_habit_world(tmp_path, habits, HABIT, ROLES)
    direct = factmill("build", "granola", "--world", plain, "--warehouse", tmp_path / "direct.duckdb", *few)
    assert direct.code == 0, direct.err
    folder = tmp_path / "proxy"
    folder.mkdir()
    world = write_messages_world(folder, proxy, HABIT, ROLES)
    text = world.read_text("utf-8").replace('name = "habits"', f'name = "{"plain" if way == "the OpenAI form" else "claude"}"')  # fmt: skip
    if way != "the Messages API":
        text = text.replace('kind = "anthropic"', 'kind = "openai"').replace(f'url = "{proxy}"', f'url = "{proxy}/v1"')
    world.write_text(text, "utf-8")
    ran = factmill("build", "granola", "--world", world, "--warehouse", tmp_path / "w.duckdb", *few, **MASTER)
    assert ran.code == 0, ran.err
    assert ran.json["rows"] > 0
    assert read_tables(tmp_path / "w.duckdb", ran.json) == read_tables(tmp_path / "direct.duckdb", direct.json)
