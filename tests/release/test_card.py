"""The card of a release: what the Hub reads of its head, and what people read below."""

from pathlib import Path
from typing import Any

import datasets
import markdown
import pyarrow as pa
import pytest
import yaml
from support.builds.published import publish_rows
from support.builds.released import multihal_tables

from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.release import MULTIHAL_RELEASE
from factmill.tasks.release.assembly import verify_and_assemble_release
from factmill.tasks.release.contents import Release, ReleaseOptions
from factmill.tasks.release.dataset_card import render_dataset_card
from factmill.tasks.release.files import write_data_files
from factmill.tasks.release.hub_metadata import make_hub_features

NASTY = "</details><script>alert(1)</script>\n# Top\n```\n| a | b |\n../../x \u202e"


def make(tmp_path: Path, tables: dict[str, Any], **published: Any) -> Release:
    build = publish_rows(tmp_path / "w.duckdb", MULTIHAL, tables, **published)
    choices = ReleaseOptions(excluded=("CC-BY-NC-2.0", "felm"))
    return write_data_files(
        verify_and_assemble_release(tmp_path / "w.duckdb", MULTIHAL, MULTIHAL_RELEASE, build, choices), tmp_path / "out"
    )


def split_card(text: str) -> tuple[dict[str, Any], str]:
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def test_the_head_names_configs_files_columns_and_sizes(tmp_path: Path) -> None:
    release = make(tmp_path, multihal_tables())
    head, _ = split_card(render_dataset_card(release))
    assert head["license"] == "mit"
    assert [each["config_name"] for each in head["configs"]] == ["eng", "deu", "dropped_paths"]
    assert [each.get("default") for each in head["configs"]] == [True, None, None]
    for config in head["configs"]:
        for split in config["data_files"]:
            assert (tmp_path / "out" / split["path"]).is_file()
    assert head["dataset_info"][0]["splits"][0]["num_examples"] == 1


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.int64(),
        pa.float64(),
        pa.bool_(),
        pa.list_(pa.string()),
        pa.list_(pa.list_(pa.int64())),
        pa.list_(pa.struct([("qid", pa.string()), ("scores", pa.list_(pa.float64()))])),
        pa.struct([("field", pa.string())]),
    ],
    ids=str,
)
def test_types_are_named_as_datasets_names_them(kind: pa.DataType) -> None:
    schema = pa.schema([("column", kind)])
    assert make_hub_features(schema) == datasets.Features.from_arrow_schema(schema)._to_yaml_list()


def test_the_body_says_what_was_made_dropped_and_left_out(tmp_path: Path) -> None:
    _, body = split_card(render_dataset_card(make(tmp_path, multihal_tables())))
    assert body.startswith("# MultiHal, rebuilt by factmill")
    for told in (
        "`too_short` 1",
        "| simpleqa | MIT | 2 |",
        "Left out: ",
        "Its judge is unchecked",
        MULTIHAL_RELEASE.canary_line,
        "@misc{multihal2025",
    ):
        assert told in body, told


def test_rows_by_scripted_replies_are_told_in_the_first_line(tmp_path: Path) -> None:
    scripted = {
        "author": "scripted replies",
        "models": {"author": "scripted replies"},
        "scripted": {"multihal/score_path": "1"},
    }
    services = {"wikidata": "embedded-0/wikidata", "wikipedia": "embedded-0/wikipedia"}
    _, body = split_card(render_dataset_card(make(tmp_path, multihal_tables(), **scripted, services=services)))
    assert body.startswith("> **No language model wrote these rows: scripted replies")


def test_nothing_in_a_row_or_a_prompt_becomes_part_of_the_page(tmp_path: Path) -> None:
    tables = multihal_tables()
    rows = [{**row, "input": NASTY} for row in tables["multihal"]]
    _, body = split_card(render_dataset_card(make(tmp_path, {**tables, "multihal": rows})))
    page = markdown.markdown(body, extensions=["fenced_code", "tables"])
    assert "<script" not in page
    assert "<h1>Top</h1>" not in page
    assert page.count("<summary>") == page.count("</details>") == 1
