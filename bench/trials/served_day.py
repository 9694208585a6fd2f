"""Simulate a day of scheduled rebuilds in minutes, restarting `factmill serve` three times; each slot must run once.

    python bench trials.served_day [--every 60] [--folder FOLDER]

A slot per minute represents one per hour, with real processes and a real Prefect server. Serve gets SIGTERM while a
rebuild waits for its model; SIGKILL while a rebuild waits, after which two slots pass; and SIGHUP between two rebuilds,
after which two slots pass. Prints slot → runs → states; exits 1 when a slot is done twice or never.
"""

import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from scripts import read_options
from support.commands.command import Factmill, Process
from support.models.scripted_chat import Message, ScriptedChat, write_chat_world
from support.processes.standing import Standing, standing_server
from support.webs.prepared import copy_prepared

_SERVE = """benchmarks = ["granola"]
world = "{world}"
mode = "refresh"
interval = "{every}s"
[granola]
limit = 3
samples = 1
min_levels = 1
"""
_MISSED = 2
"""Slots that pass while serve is stopped."""
_NAME = "rebuild/rebuild-chatty"


class ServedDay:
    """The chat server, Prefect server and records of the day."""

    def __init__(self, folder: Path, every_s: int, stack: ExitStack) -> None:
        self.every_s = every_s
        self.chat = ScriptedChat(self._answer)
        stack.callback(self.chat.close)
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        copy_prepared(self.home)
        self.standing: Standing = stack.enter_context(standing_server(folder, None))
        self._config = folder / "serve.toml"
        world = write_chat_world(folder, self.chat.url, ["author"], world="chatty")
        self._config.write_text(_SERVE.format(world=world, every=every_s), "utf-8")
        self._stack = stack
        self.events: list[tuple[datetime, str]] = []
        self.wrong: list[str] = []

    @staticmethod
    def _answer(messages: Sequence[Message]) -> tuple[int, str]:
        answer = re.findall("<answer>(.*?)</answer>", str(messages[-1]["content"]))[-1]
        return 200, f"1:: {answer}"

    def serve(self) -> Process:
        """Start `factmill serve`."""
        process = Factmill(self.home, self.standing.api).start("serve", "--config", self._config, TEST_KEY="x")
        self._stack.callback(process.kill)
        self._note("serve starts")
        return process

    def stop(self, process: Process, how: signal.Signals) -> None:
        """Stop serve, and print and check its output."""
        process.send_signal(how)
        out, err = process.communicate()
        self._note(f"serve gets {how.name}, and ends with {process.returncode}")
        print(f"--- what serve printed until {how.name}\n{out}{err}", end="", flush=True)
        for noise in ("Traceback", "nanobind", "leaked"):
            if noise in out + err:
                self.wrong.append(f"until {how.name} serve printed {noise!r}")

    def slots(self) -> list[datetime]:
        """Return the slots until now, computed from the server's anchor."""
        schedule = self.standing.deployment(_NAME)["schedules"][0]["schedule"]
        anchor = datetime.fromisoformat(schedule["anchor_date"])
        count = int((datetime.now(UTC) - anchor).total_seconds() // self.every_s)
        return [anchor + timedelta(seconds=self.every_s * number) for number in range(1, count + 1)]

    def runs(self) -> list[dict[str, Any]]:
        """Return all rebuilds that have started, in order."""
        found = self.standing.ask(
            "/flow_runs/filter", flows={"name": {"any_": ["rebuild"]}}, flow_runs={}, sort="START_TIME_ASC"
        )
        return [each for each in found if each["state_type"] != "SCHEDULED"]

    def wait_completed(self, more: int) -> None:
        """Wait until `more` more rebuilds are completed."""
        wanted = sum(each["state_type"] == "COMPLETED" for each in self.runs()) + more
        self._wait(lambda: sum(each["state_type"] == "COMPLETED" for each in self.runs()) >= wanted)

    def wait_asked(self) -> None:
        """Block the model's answers, and wait until a rebuild waits for one."""
        self.chat.free.clear()
        seen = len(self.chat.web.seen)
        self._wait(lambda: len(self.chat.web.seen) > seen)

    def let_slots_pass(self) -> None:
        """Wait until slots have passed while serve is stopped."""
        before = self.slots()
        self._wait(lambda: len(self.slots()) >= len(before) + _MISSED)
        time.sleep(2)  # let the last slot end

    def live(self) -> None:
        """Run the day."""
        process = self.serve()
        self.wait_asked()
        self.stop(process, signal.SIGTERM)
        self.chat.free.set()
        process = self.serve()
        self.wait_completed(1)
        self.wait_asked()
        self.stop(process, signal.SIGKILL)
        self.let_slots_pass()
        self.chat.free.set()
        process = self.serve()
        self.wait_completed(2)
        self.stop(process, signal.SIGHUP)
        self.let_slots_pass()
        process = self.serve()
        self.wait_completed(1)
        self.stop(process, signal.SIGTERM)

    def _wait(self, look: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10 * self.every_s
        while not look():
            if time.monotonic() > deadline:
                self.judge()
                sys.exit("nothing happens for ten slots")
            time.sleep(1)

    def judge(self) -> None:
        """Print slot → runs → states, and record the problems."""
        slots, runs = self.slots(), self.runs()
        by_slot: dict[datetime, list[dict[str, Any]]] = {slot: [] for slot in slots}
        for run in runs:
            slot = datetime.fromisoformat(run["expected_start_time"])
            if slot in by_slot:
                by_slot[slot].append(run)
            else:
                self.wrong.append(f"{run['name']} is of no slot: {slot}")
        extra = [
            each for each in runs if {"catch-up", "goes-on"} & {*each["tags"]} and each["state_name"] == "Completed"
        ]
        print("slot → runs of its own → done by")
        events = [*self.events]
        for slot, at in by_slot.items():
            while events and events[0][0] <= slot:
                print("    {:%H:%M:%S} {}".format(*events.pop(0)))
            states = [each["state_name"] for each in at]
            later = sorted(each["created"] for each in extra if datetime.fromisoformat(each["created"]) > slot)
            by = "its run"
            if "LeftAlone" in states:
                by = "the run that was at it"
            elif "Completed" not in states:
                by = f"the run that began at {later[0][11:19]} to make up for it" if later else "nobody"
            print(f"{slot:%H:%M:%S}  {', '.join(states) or 'none':30} {by}")
            if states.count("Completed") > 1 or (by == "nobody" and slot != slots[-1]):
                self.wrong.append(f"the slot {slot:%H:%M:%S} is done {states.count('Completed')} times")
        for when, what in events:
            print(f"    {when:%H:%M:%S} {what}")
        print(f"runs that go on or make up for slots: {len(extra)}, after 3 restarts")
        if len(extra) != 3:
            self.wrong.append(f"{len(extra)} runs go on or make up for slots")

    def _note(self, what: str) -> None:
        self.events.append((datetime.now(UTC), what))


def main() -> int:
    """Run the day and print the problems."""
    given = read_options(__doc__, every=(60, "Seconds between two slots."), folder=(str, "A new folder, which stays."))
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        day = ServedDay(Path(given.folder or temporary), given.every, stack)
        day.live()
        day.judge()
    print("\n".join(day.wrong) or "each slot was done exactly once")
    return 1 if day.wrong else 0
