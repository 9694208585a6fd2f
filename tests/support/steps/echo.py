"""A service that says what it is asked, and recorders that ask it."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.steps.warehouses import empty_warehouse

from factmill.tasks.core.calls.call import Call, Deliver, Mode, Reply, Service
from factmill.tasks.storage.recording.recorder import Answers, Recorder


class Echo:
    """A service that counts what it is asked, fails names that begin with `bad`, and may be slow."""

    identity = "echo"
    is_outside = True

    def __init__(self, delay_s: float = 0.0) -> None:
        self.asked: list[str] = []
        self.delay_s = delay_s
        self.recovered = False
        self.told = "echo"

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        for call in calls:
            time.sleep(self.delay_s)
            name = str(call.parts["name"])
            self.asked.append(name)
            if name.startswith("bad") and not self.recovered:
                deliver(call, Reply(None, "failed", "http_503: down", transient=True))
            elif name.startswith("gone"):
                deliver(call, Reply(None, "failed", "http_404: no such thing"))
            else:
                deliver(call, Reply({self.told: name}))


def calls(*names: str) -> list[Call]:
    """Return calls of these names."""
    return [Call("echo", "say", {"name": name}) for name in names]


def recorder(path: Path, mode: Mode = "record", **more: Any) -> Recorder:
    """Return a recorder of the warehouse `w.duckdb` in this folder."""
    return Recorder(empty_warehouse(path / "w.duckdb"), mode, **more)


def ask(path: Path, service: Service, *asked: str | Call, mode: Mode = "record", **more: Any) -> Answers:
    """Have a recorder of its own, closed at the end, answer calls (of these names, or these)."""
    run = recorder(path, mode, **more)
    answers = run.answer(
        [call for each in asked for call in (calls(each) if isinstance(each, str) else [each])], service
    )
    run.close()
    return answers


def bodies(answers: Answers) -> list[Any]:
    """Return what was replied, call by call."""
    return [record.reply().body for record in answers.records.values()]
