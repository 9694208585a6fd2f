"""Run folders: held by one process, and gone when their build is published."""

import os
from pathlib import Path

import pytest

from tasks.engine.holding import forget_finished, hold
from tasks.errors import BuildError


def test_a_run_folder_that_a_stopped_process_left_goes_and_one_that_is_held_stays(tmp_path: Path) -> None:
    folder = tmp_path / "toy-1"
    forget_finished(folder)
    (folder / "stage").mkdir(parents=True)
    holder = hold(folder)
    forget_finished(folder)
    assert (folder / "stage").is_dir()
    with pytest.raises(BuildError, match=rf"process {os.getpid()} is making this very build"):
        hold(folder)
    os.close(holder)
    forget_finished(folder)
    assert list(tmp_path.iterdir()) == []
