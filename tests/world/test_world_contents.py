"""Digests of what a world says of each thing: they are compared with those that earlier builds have recorded."""

from dataclasses import replace

import pytest

from tasks.core.fingerprints import digest_bytes
from tasks.world.contents import digest_contents
from tasks.world.data import Item, WorldData
from tasks.world.files.reading import load_world_data
from tasks.world.files.values import ItemValue


@pytest.fixture(scope="module")
def data() -> WorldData:
    return load_world_data()


def name_near(data: WorldData, item: Item) -> list[Item]:
    """Return an item and those that its statements name, in the order of their numbers as text."""
    named = sorted({each.value.qid for each in item.statements if isinstance(each.value, ItemValue)})
    return [item, *(data.items[qid] for qid in named if qid in data.items)]


def test_an_item_is_digested_as_it_reads_alone_and_beside_others(data: WorldData) -> None:
    found = digest_contents(data)
    for qid, item in [*data.items.items()][::40]:
        near = name_near(data, item)
        assert found[f"item {qid}"] == digest_bytes(repr(item).encode())[:10]
        assert found[f"near {qid}"] == digest_bytes(repr(near).encode())[:10]


def test_what_an_item_says_changes_it_and_all_that_name_it(data: WorldData) -> None:
    namer = next(item for item in data.items.values() if len(name_near(data, item)) > 1)
    named = name_near(data, namer)[1]
    changed = replace(data, items={**data.items, named.qid: replace(named, description="said otherwise")})
    before, after = digest_contents(data), digest_contents(changed)
    assert before[f"item {named.qid}"] != after[f"item {named.qid}"]
    assert before[f"near {namer.qid}"] != after[f"near {namer.qid}"]
    assert before[f"item {namer.qid}"] == after[f"item {namer.qid}"]
