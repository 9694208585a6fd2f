"""The journal of a labelling page: one line per decision, on disk before the browser hears that it is saved.

A line is {"row": key, "answers": {question: answer}, "at": time}; the last line of a row counts, and empty answers take it
back. `"undo": true` marks a line that restores what was before. A line that a crash cut off is removed at the next start.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import OutputError, UsageError

Answers = Mapping[str, str]
"""Question → answer."""


class DecisionJournal:
    """An open journal; `open_decision_journal` makes one. Callers serialise access."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self.answers: dict[str, Answers] = {}
        """Row → its answers, for rows that have some."""
        self._file = file
        self._history: list[tuple[str, Answers]] = []
        """(row, answers before) of each decision that can be undone, oldest first."""
        self._load()

    def record(self, row: str, answers: Answers) -> None:
        """Save the answers about a row; they are on disk when this returns. OSError if they cannot be."""
        self._append({"row": row, "answers": dict(answers)})
        self._apply(row, answers, is_undo=False)

    def undo(self) -> str | None:
        """Take the latest decision back, and return its row; None where there is none."""
        if not self._history:
            return None
        row, before = self._history[-1]
        self._append({"row": row, "answers": dict(before), "undo": True})
        self._apply(row, before, is_undo=True)
        return row

    def digest(self) -> str:
        """Return the SHA-256 of the journal's bytes."""
        return digest_bytes(self.path.read_bytes())

    def _apply(self, row: str, answers: Answers, is_undo: bool) -> None:
        if is_undo:
            self._history.pop()
        else:
            self._history.append((row, self.answers.get(row, {})))
        self.answers[row] = answers
        if not answers:
            del self.answers[row]

    def _append(self, line: dict[str, object]) -> None:
        result = {**line, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        before = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(json.dumps(result, ensure_ascii=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            os.ftruncate(self._file.fileno(), before)
            raise

    def _load(self) -> None:
        data = self._file.read()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._file.truncate(len(whole))
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                result = json.loads(line)
                self._apply(result["row"], result["answers"], bool(result.get("undo")))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise UsageError(
                    f"{self.path}, line {number}: not a decision of the page: {error!r}; correct the line, or move the file away "
                    "to start again"
                ) from error


@contextmanager
def open_decision_journal(path: Path) -> Iterator[DecisionJournal]:
    """Open a journal, or begin one; UsageError if another page has it open, OutputError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)  # the file's name outlives a crash of the machine too
        os.close(folder)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}; make room, or set FACTMILL_HOME") from error
    # unbuffered: a line that cannot be written is not tried again with the next one
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{path}: another page of the same person and rows is open; go on there, or stop it first"
            ) from error
        yield DecisionJournal(path, file)
