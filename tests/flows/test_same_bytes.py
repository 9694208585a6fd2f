"""Test that the embedded builds have the bytes of data/world/digests.json on every machine."""

from pathlib import Path
from typing import Any

import pytest
from support.commands.command import Factmill
from support.webs.prepared import copy_prepared

from factmill.flows.published_digests import (
    collect_table_digests,
    describe_table_changes_under_same_id,
    digest_scripted_reply_keys_by_prompt,
    load_published_digests,
    load_world_and_reply_key_digests,
)


@pytest.fixture
def published() -> dict[str, Any]:
    if not (published := load_published_digests()):
        pytest.skip("another pyarrow than that of data/world/digests.json is installed; it writes other bytes")
    return published


def test_embedded_builds_have_published_table_digests(
    published: dict[str, Any], embedded_builds: dict[str, Any]
) -> None:
    assert not describe_table_changes_under_same_id(embedded_builds.values())
    assert collect_table_digests(embedded_builds.values()) == published


def test_scripted_reply_keys_of_builds_match_published_digests(embedded_builds: dict[str, Any]) -> None:
    assert digest_scripted_reply_keys_by_prompt(embedded_builds.values()) == load_world_and_reply_key_digests()[1]


@pytest.mark.parametrize("benchmark", ["biokalma", "multihal"])
def test_local_model_builds_have_published_table_digests(
    published: dict[str, Any], prefect_api: str, tmp_path: Path, benchmark: str
) -> None:
    """Digests need the best instruction set, all cores and the defaults; builds without local models ignore the CPU."""
    built = Factmill(copy_prepared(tmp_path), prefect_api)("build", benchmark, "--json")
    assert built.code == 0, built.err
    assert collect_table_digests([built.json]) == {benchmark: published[benchmark]}
