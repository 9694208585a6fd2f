"""Test that other libraries load a release with the worst possible texts."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.builds.loading import check_loads, list_splits
from support.builds.published import publish_rows
from support.builds.released import NASTY, fanout_tables, multihal_row

from factmill.tasks.engine.benchmark import Benchmark, load_named_object
from factmill.tasks.fanoutqa.benchmark import FANOUTQA
from factmill.tasks.fanoutqa.release import FANOUTQA_RELEASE
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import ReleaseOptions
from factmill.tasks.release.write import write_release

pytest.importorskip("polars", reason="polars is not installed (extra dev)")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep `datasets` off the network and away from the user's cache."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")


def release(folder: Path, benchmark: Benchmark, tables: Any) -> Path:
    build = publish_rows(folder / "factmill.duckdb", benchmark, tables)
    read = verify_and_assemble_release(
        folder / "factmill.duckdb", benchmark, load_named_object(benchmark.release), build, ReleaseOptions()
    )
    return write_release(read, folder / "out").folder


def test_malformed_texts_load_unchanged(tmp_path: Path) -> None:
    rows = [
        multihal_row(f"simpleqa_{at}", input=text, domain=text, source_name=text, context=[text, ""])
        for at, text in enumerate(NASTY)
    ]
    assert check_loads(release(tmp_path, MULTIHAL, {"multihal": rows})) == 1


def test_croissant_file_is_valid_and_every_record_set_loads(tmp_path: Path) -> None:
    import mlcroissant

    folder = release(tmp_path, FANOUTQA, fanout_tables())
    result = mlcroissant.Dataset(jsonld=str(folder / "croissant.json"))
    assert not result.metadata.ctx.issues.errors and not result.metadata.ctx.issues.warnings
    assert result.metadata.ctx.conforms_to.value == "http://mlcommons.org/croissant/1.1"
    assert result.metadata.data_limitations == list(FANOUTQA_RELEASE.card.limits)
    given = {name for name in json.loads((folder / "croissant.json").read_text("utf-8")) if name.startswith("rai:")}
    assert given and given == {name for name in result.metadata.to_json() if name.startswith("rai:")}
    read = {each.id: len(list(result.records(each.id))) for each in result.metadata.record_sets if each.data is None}
    assert sorted(read.values()) == sorted(split["rows"] for _, split, _ in list_splits(folder))


def test_splits_with_different_columns_or_no_rows_load(tmp_path: Path) -> None:
    assert check_loads(release(tmp_path, FANOUTQA, fanout_tables(("dev", "dev")))) == 3


def test_combined_language_config_has_all_rows(tmp_path: Path) -> None:
    import datasets

    rows = [multihal_row(f"simpleqa_{at}", language) for at in range(3) for language in ("eng", "deu", "fra")]
    folder = release(tmp_path, MULTIHAL, {"multihal": rows})
    loaded = datasets.load_dataset(str(folder), "multihal", split="test")
    assert sorted(loaded["id"]) == sorted(row["id"] for row in rows)
