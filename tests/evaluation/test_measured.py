"""What models are measured on: a release with all tables of its build is the build."""

from pathlib import Path

import pytest
from support.builds.published import publish_rows
from support.builds.released import multihal_tables

from tasks.multihal.benchmark import MULTIHAL
from tasks.multihal.release import MULTIHAL_RELEASE
from tasks.release.contents import Choices
from tasks.release.reading import read_release
from tasks.release.write import write_release
from tasks.storage.released_folders import open_release
from tasks.storage.warehouse import open_warehouse

OPEN = ("CC-BY-NC-2.0", "CC-BY-NC-SA-4.0")


@pytest.mark.parametrize(("without", "is_whole"), [((), True), (("felm",), False)])
def test_sentences_of_rejects_are_not_measured_on(tmp_path: Path, without: tuple[str, ...], is_whole: bool) -> None:
    warehouse = tmp_path / "w.duckdb"
    build = publish_rows(warehouse, MULTIHAL, multihal_tables())
    with open_warehouse(warehouse) as db:
        row = '{"licence": "none stated"}'
        db.execute("INSERT INTO rejects VALUES (?, 'mine_paths', 'q', 'no_path', 'none', ?)", [build.build_id, row])
    release = read_release(warehouse, MULTIHAL, MULTIHAL_RELEASE, build, Choices(without, OPEN))
    assert release.left_out, "rejects are withheld"
    folder = write_release(release, tmp_path / "out").folder
    assert (open_release(folder).record.content_digest == build.content_digest) is is_whole
