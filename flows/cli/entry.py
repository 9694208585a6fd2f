"""Where the command begins: from the first moment on, while libraries are imported too, a stop is told in one line.

Nothing but what is quick to import is imported here before signals are caught. What a stop costs is what was under way:
replies and finished batches are kept, so an end in the middle of anything is as good as any other.
"""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from factmill.tasks.memory import find_shortage, settle_memory
from factmill.tasks.processes import end_soon, own_process

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""What the command ends with after Ctrl-C and after SIGTERM, as shells have it."""
_stops: list[int] = []
"""Exit code of the signal that stops this process, once one has come."""
_reported: list[bool] = []
_STOPPED = "stopped; what was done is kept, the same command goes on from here"


def main() -> NoReturn:
    """Run the command."""
    _open_streams()
    settle_memory()
    try:
        catch_signals()
        from factmill.flows.cli.main import main as run

        run()
    except BaseException as error:
        # what is interrupted while it is imported may end with any error
        if not _stops:
            if short := find_shortage(error):
                end(1, short)
            raise
    end(_stops[0])


def _open_streams() -> None:
    """Put nothing's file where standard input, output or error is closed: else the next file that is opened takes its number,
    and what libraries print ends in the warehouse."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, descriptor == number)
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8"))


def catch_signals() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, SIGTERM and SIGHUP SystemExit; a second one, or four seconds, end the process."""
    own_process(lambda short: end(1 if short else find_stop() or TERMINATED, short))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


def find_stop() -> int | None:
    """Return the exit code of the signal that stops this process; None: there was none."""
    return _stops[0] if _stops else None


def report_early_end(short: str = "") -> None:
    """Print, once, why the command ends before it is done: what the system has no more of, or that it was stopped."""
    if not _reported:
        _reported.append(True)
        sys.stderr.write(f"\nfactmill: {short or _STOPPED}\n")
        sys.stderr.flush()


def end(code: int, short: str = "") -> NoReturn:
    """Report the early end, and end the process at once; children end with it."""
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
    """End the process when what is raised to stop it comes up in a finalizer, which would print it and go on."""
    if isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
        end(_stops[0])
    sys.__unraisablehook__(lost)
