"""How paths are told as ids."""

import numpy as np
import pyarrow as pa

from factmill.tasks.core.wikidata_paths import ITEM_PATHS_SCHEMA, LITERAL_PATHS_SCHEMA, make_path_id_lists

SUBJECTS, OBJECTS = np.array([42, 7]), np.array([145, 25169])


def item_path(**row: object) -> dict[str, object]:
    return {"pair": 0, "hops": 1, "backward": False, "middle": None, "property_1": 1, "property_2": None, **row}


def literal_path(**row: object) -> dict[str, object]:
    return {"pair": 0, "hops": 1, "property_1": 1, "value": "1952", **row}


def list_item_paths(*rows: dict[str, object]) -> list[list[str]]:
    return make_path_id_lists(pa.Table.from_pylist(list(rows), ITEM_PATHS_SCHEMA), SUBJECTS, OBJECTS).to_pylist()


def list_literal_paths(*rows: dict[str, object]) -> list[list[str]]:
    return make_path_id_lists(pa.Table.from_pylist(list(rows), LITERAL_PATHS_SCHEMA), SUBJECTS).to_pylist()


def test_a_path_to_an_item_is_told_from_its_start() -> None:
    two_hops = item_path(hops=2, middle=3, property_1=69, property_2=17)
    assert list_item_paths(two_hops) == [["Q42", "P69", "Q3", "P17", "Q145"]]


def test_a_backward_path_starts_at_the_object() -> None:
    assert list_item_paths(item_path(pair=1, backward=True, property_1=50), item_path(property_1=17)) == [
        ["Q25169", "P50", "Q7"],
        ["Q42", "P17", "Q145"],
    ]


def test_a_path_to_a_value_ends_in_it() -> None:
    assert list_literal_paths(literal_path(property_1=569)) == [["Q42", "P569", "1952"]]


def test_a_path_to_a_qualifier_passes_the_value_of_its_statement() -> None:
    row = literal_path(hops=2, middle=691283, property_1=69, property_2=169, qualifier=580, main="Q5", value="1971")
    assert list_literal_paths(row) == [["Q42", "P69", "Q691283", "P169", "Q5", "P580", "1971"]]


def test_an_unknown_value_of_the_statement_is_told_as_such() -> None:
    row = literal_path(property_1=26, qualifier=580, value="1991")
    assert list_literal_paths(row) == [["Q42", "P26", "unknown value", "P580", "1991"]]


def test_no_paths_are_told_as_no_lists() -> None:
    assert list_item_paths() == []
    assert list_literal_paths() == []
