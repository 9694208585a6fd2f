"""Run a command without root's right to read and write every file, if root runs the tests."""

import ctypes
import os
import struct

PROGRAM = (
    "import ctypes, os, struct\n"
    "if not os.getuid(): assert not ctypes.CDLL(None).capset(struct.pack('Ii', 0x20080522, 0), bytes(24))\n"
    "from factmill.flows.cli.main import main; main()"
)
"""Linux only: drops all capabilities, so that file modes apply to root too."""


def find_hindrance() -> str:
    """Return why that is impossible here; empty if it is possible."""
    if os.getuid():
        return ""
    try:
        known = ctypes.CDLL(None).capget(struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24))
    except (OSError, AttributeError):
        known = -1
    return "" if not known else "root cannot give up its privileges here"
