"""Entry point of the command: a stop prints one line from the first moment, even while libraries are imported.

Before signal handlers are in place, this module imports only what loads quickly. A stop loses only work in progress:
replies and finished batches are stored, so the process may end at any point.
"""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from factmill.tasks.memory import configure_allocators_and_gc, find_resource_shortage
from factmill.tasks.processes import request_process_exit, start_exit_request_thread

INTERRUPTED_EXIT_CODE, TERMINATED_EXIT_CODE = 128 + signal.SIGINT, 128 + signal.SIGTERM
"""Exit codes after Ctrl-C and after SIGTERM, by the convention of shells."""
_stop_exit_codes: list[int] = []
"""Exit code of the signal that stops this process; empty until one arrives."""
_early_end_reported: list[bool] = []
STOPPED_MESSAGE = "stopped; finished work is saved: run the same command again to continue"


def main() -> NoReturn:
    """Run the command and end the process."""
    _open_null_for_closed_streams()
    configure_allocators_and_gc()
    try:
        install_signal_handlers()
        from factmill.flows.cli.main import main as run

        run()
    except BaseException as error:
        # an interrupted import may end with any error
        if not _stop_exit_codes:
            if short := find_resource_shortage(error):
                print_early_end_and_exit(1, short)
            raise
    print_early_end_and_exit(_stop_exit_codes[0])


def _open_null_for_closed_streams() -> None:
    """Open the null device in place of a closed standard stream; otherwise the next file to be opened takes its number,
    and output of libraries ends up in the warehouse."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, descriptor == number)
            setattr(sys, name, os.fdopen(descriptor, "w" if number else "r", encoding="utf-8"))


def install_signal_handlers() -> None:
    """Make Ctrl-C raise KeyboardInterrupt, SIGTERM and SIGHUP SystemExit; a second signal or 4 s end the process."""
    start_exit_request_thread(
        lambda short: print_early_end_and_exit(1 if short else find_stop_exit_code() or TERMINATED_EXIT_CODE, short)
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_command_on_stop_signal)


def find_stop_exit_code() -> int | None:
    """Return the exit code of the signal that stops this process; None if none arrived."""
    return _stop_exit_codes[0] if _stop_exit_codes else None


def print_early_end_once(shortage: str = "") -> None:
    """Print once why the command ends early. `shortage`: the resource that ran out; empty: a signal stopped the command."""
    if not _early_end_reported:
        _early_end_reported.append(True)
        sys.stderr.write(f"\nfactmill: {shortage or STOPPED_MESSAGE}\n")
        sys.stderr.flush()


def print_early_end_and_exit(code: int, shortage: str = "") -> NoReturn:
    """Report the early end and exit the process at once; child processes end with it."""
    print_early_end_once(shortage)
    os._exit(code)


def _end_command_on_stop_signal(number: int, _frame: FrameType | None) -> None:
    code = 128 + number
    if _stop_exit_codes:
        print_early_end_and_exit(_stop_exit_codes[0])
    _stop_exit_codes.append(code)
    sys.unraisablehook = _exit_on_stop_lost_in_finalizer
    request_process_exit()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(code)


def _exit_on_stop_lost_in_finalizer(lost: "sys.UnraisableHookArgs") -> None:
    """End the process when the stop exception is raised in a finalizer, which would print it and go on."""
    if isinstance(lost.exc_value, KeyboardInterrupt | SystemExit):
        print_early_end_and_exit(_stop_exit_codes[0])
    sys.__unraisablehook__(lost)
