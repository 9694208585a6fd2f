"""What a run's folder says of it."""

from pathlib import Path

import pytest

from tasks.engine.runs import RUN, read_run


@pytest.mark.parametrize("content", ["", "{", "[]", '{"lock": {}, "origin": {}}', "[" * 10_000, "9" * 5000])
def test_a_damaged_run_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / RUN).write_text(content)
    assert read_run(tmp_path) is None


def test_a_whole_run_is_read(tmp_path: Path) -> None:
    assert read_run(tmp_path) is None
    (tmp_path / RUN).write_text('{"lock": {}, "origin": {}, "options": {"mode": "record"}}')
    assert read_run(tmp_path) == {"lock": {}, "origin": {}, "options": {"mode": "record"}}
