"""Drive a Chromium over its debugging protocol: open pages, press keys, read the page, kill the browser."""

import importlib.resources
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from support.docs.chromium import FLAGS, find_chromium
from websockets.sync.client import connect

_START_S = 60.0
_WAIT_S = 30.0


class DrivenChromium:
    """A running browser with one page."""

    def __init__(self, folder: Path, *options: str) -> None:
        profile = folder / "profile"
        self._process = subprocess.Popen(
            [
                find_chromium(),
                *FLAGS,
                *options,
                f"--user-data-dir={profile}",
                "--remote-debugging-port=0",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        ports = profile / "DevToolsActivePort"
        deadline = time.monotonic() + _START_S
        while not (ports.is_file() and (lines := ports.read_text().split())) and time.monotonic() < deadline:
            time.sleep(0.05)
        pages = json.load(urlopen(f"http://127.0.0.1:{lines[0]}/json/list"))
        address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
        self._socket = connect(address, max_size=None)
        self._sent = 0

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its result."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while (reply := json.loads(self._socket.recv(_WAIT_S))).get("id") != self._sent:
            pass
        assert "error" not in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    def read(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page."""
        return self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)[
            "result"
        ].get("value")

    def wait_until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true on the page."""
        deadline = time.monotonic() + _WAIT_S
        while not self.read(expression):
            assert time.monotonic() < deadline, (expression, self.read("document.body.innerText"))
            time.sleep(0.01)

    def open(self, address: str) -> None:
        """Open an address and wait until the document is loaded."""
        self.send("Page.navigate", url=address)
        self.wait_until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def list_axe_findings(self) -> list[tuple[str, str]]:
        """Return axe-core's findings on the page: the rule, and the first element that breaks it."""
        self.read(importlib.resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8"))
        found = "(found) => found.violations.map((each) => [each.id, each.nodes[0].html.slice(0, 200)])"
        return [(rule, element) for rule, element in self.read(f"axe.run().then({found})")]

    def press(self, key: str, **more: Any) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def kill(self) -> None:
        """Kill the browser with all its processes, as a crash would."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
