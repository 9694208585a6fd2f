"""Entry point of the command: a stop prints one line from the first moment, even while libraries are imported.

Before signal handlers are in place, this module imports only what loads quickly. A stop loses only work in progress:
replies and finished batches are stored, so the process may end at any point.
"""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from factmill.tasks.memory import find_shortage, settle_memory
from factmill.tasks.processes import end_soon, own_process

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes after Ctrl-C and after SIGTERM, by the convention of shells."""
_stops: list[int] = []
"""Exit code of the signal that stops this process; empty until one arrives."""
_reported: list[bool] = []
_STOPPED = "stopped; what was done is kept, the same command goes on from here"


def main() -> NoReturn:
    """Run the command and end the process."""
    _open_streams()
    settle_memory()
    try:
        catch_signals()
        from factmill.flows.cli.main import main as run

        run()
    except BaseException as error:
        # an interrupted import may end with any error
        if not _stops:
            if short := find_shortage(error):
                end(1, short)
            raise
    end(_stops[0])


def _open_streams() -> None:
    """Open the null device in place of a closed standard stream; otherwise the next file to be opened takes its number,
    and output of libraries ends up in the warehouse."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, descriptor == number)
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8"))


def catch_signals() -> None:
    """Make Ctrl-C raise KeyboardInterrupt, SIGTERM and SIGHUP SystemExit; a second signal or 4 s end the process."""
    own_process(lambda short: end(1 if short else find_stop() or TERMINATED, short))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def find_stop() -> int | None:
    """Return the exit code of the signal that stops this process; None if none arrived."""
    return _stops[0] if _stops else None


def report_early_end(short: str = "") -> None:
    """Print once why the command ends early: `short`, the resource that ran out, or that the command was stopped."""
    if not _reported:
        _reported.append(True)
        sys.stderr.write(f"\nfactmill: {short or _STOPPED}\n")
        sys.stderr.flush()


def end(code: int, short: str = "") -> NoReturn:
    """Report the early end and exit the process at once; child processes end with it."""
    report_early_end(short)
    os._exit(code)


def _stop(number: int, _frame: FrameType | None) -> None:
    code = 128 + number
    if _stops:
        end(_stops[0])
    _stops.append(code)
    sys.unraisablehook = _end_where_lost
    end_soon()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(code)


def _end_where_lost(lost: "sys.UnraisableHookArgs") -> None:
    """End the process when the stop exception is raised in a finalizer, which would print it and go on."""
    if isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
        end(_stops[0])
    sys.__unraisablehook__(lost)
