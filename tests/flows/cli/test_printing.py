"""What is printed for people: nothing that sources and models say acts on the terminal."""

import pytest

from flows.cli.options import print_lines
from flows.commands.show import print_rows

HOSTILE = "\x1b]0;a title\x07 \x9b2J \u202eturned"


def test_what_rows_say_acts_on_no_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)  # as on a terminal
    monkeypatch.setenv("COLUMNS", "200")
    print_lines([HOSTILE, "two\tlines"])
    print_rows(HOSTILE, {"id": None, "told": "told"}, [{"id": HOSTILE, "told": [HOSTILE, {"a": HOSTILE}]}])
    printed = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed)
    assert printed.startswith("[U+001B]]0;a title[U+0007] [U+009B]2J [U+202E]turned\ntwo\tlines\n")
    assert printed.count("[U+001B]") == 5


def test_no_lines_are_no_empty_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(iter(()))
    print_lines([""])
    assert capsys.readouterr().out == "\n"
