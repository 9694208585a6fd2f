"""Test formatting of paths as ids."""

import numpy as np
import pyarrow as pa
import pytest

from factmill.tasks.core.wikidata_paths import ITEM_PATHS_SCHEMA, LITERAL_PATHS_SCHEMA, make_start_to_end_id_lists

SUBJECTS, OBJECTS = np.array([42, 7]), np.array([145, 25169])


ITEM = {"pair": 0, "hops": 1, "backward": False, "property_1": 17}
VALUE = {"pair": 0, "hops": 1, "property_1": 26, "value": "1952"}
FAR_VALUE = {"hops": 2, "middle": 691283, "property_1": 69, "property_2": 169}


@pytest.mark.parametrize(
    ("row", "path"),
    [
        (ITEM, "Q42 P17 Q145"),
        (ITEM | {"hops": 2, "middle": 3, "property_1": 69, "property_2": 17}, "Q42 P69 Q3 P17 Q145"),
        (ITEM | {"pair": 1, "backward": True, "property_1": 50}, "Q25169 P50 Q7"),
        (VALUE, "Q42 P26 1952"),
        # a path to a qualifier passes the value of its statement
        (VALUE | FAR_VALUE | {"qualifier": 580, "main": "Q5"}, "Q42 P69 Q691283 P169 Q5 P580 1952"),
        (VALUE | {"qualifier": 580}, "Q42 P26 unknown_value P580 1952"),
    ],
)
def test_a_path_is_told_from_its_start_to_its_end(row: dict[str, object], path: str) -> None:
    schema, objects = (LITERAL_PATHS_SCHEMA, None) if "value" in row else (ITEM_PATHS_SCHEMA, OBJECTS)
    base, result = (VALUE, ["Q7", "P26", "1952"]) if objects is None else (ITEM, ["Q7", "P17", "Q25169"])
    rows = [row, base | {"pair": 1}]
    first, second = make_start_to_end_id_lists(pa.Table.from_pylist(rows, schema), SUBJECTS, objects).to_pylist()
    assert (first, second) == ([part.replace("_", " ") for part in path.split()], result)
    assert make_start_to_end_id_lists(pa.Table.from_pylist([], schema), SUBJECTS, objects).to_pylist() == []
