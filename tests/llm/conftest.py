"""Fixture with a real chat server (llama-cpp-python) on loopback, which serves the tiny random model all session."""

import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

KEY = "tiny-key-1234567890"
_MODEL_SCRIPT = Path(__file__).with_name("tiny_model.py")
_LISTENING = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")
_START_WITHIN_S = 60.0


@dataclass(frozen=True)
class ChatServer:
    """The server's address, its key and its log."""

    url: str
    """Base URL with /v1."""
    key: str
    log: Path

    def count_asked(self) -> int:
        """Return how many chat requests the server received, whatever it answered."""
        return self.log.read_text("utf-8").count('"POST /v1/chat/completions ')


@pytest.fixture(scope="session")
def chat_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatServer]:
    """Start the server with the tiny model; skip with the reason if llama-cpp-python is missing."""
    if importlib.util.find_spec("llama_cpp") is None:
        pytest.skip("llama-cpp-python is not installed; `make test-llm` installs it")
    folder = tmp_path_factory.mktemp("llm")
    model, log = folder / "tiny.gguf", folder / "server.log"
    subprocess.run([sys.executable, _MODEL_SCRIPT, model], check=True, timeout=60)
    command = [sys.executable, "-m", "llama_cpp.server", "--model", model, "--model_alias", "tiny", "--api_key", KEY]
    command += ["--host", "127.0.0.1", "--port", "0", "--n_ctx", "16384", "--n_threads", "1", "--verbose", "false"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )
    try:
        yield ChatServer(f"{_wait_ready(process, log)}/v1", KEY, log)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return the server's address once it listens; fail with the server's last output if it ends."""
    deadline = time.monotonic() + _START_WITHIN_S
    while time.monotonic() < deadline:
        text = log.read_text("utf-8", "replace")
        if found := _LISTENING.search(text):
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    state = "still starting" if process.poll() is None else f"ended with code {process.returncode}"
    pytest.fail(f"the chat server is {state}; its log ends with:\n{log.read_text('utf-8', 'replace')[-2000:]}")
