"""What is removed before a store is built, and what is not, since another process uses it."""

import fcntl
from pathlib import Path

from tasks.world.store import _remove_litter


def test_stores_and_logs_that_a_process_uses_stay_and_what_the_dead_left_goes(tmp_path: Path) -> None:
    for store in ("used", "unused"):
        (tmp_path / store).mkdir()
        (tmp_path / f"{store}-4711.log").touch()
    (tmp_path / "ours-4711.log").touch()
    (tmp_path / "building-1").mkdir()
    with (tmp_path / "used.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        _remove_litter(tmp_path, "ours")
    assert {path.name for path in tmp_path.iterdir()} == {"used", "used-4711.log", "used.lock", "unused.lock"}
