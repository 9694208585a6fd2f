"""Test the report's parts other than the funnel."""

import pyarrow as pa

from factmill.tasks.granola.publish import PAPER_SHAPE, compare_shape_with_paper, count_ambiguous_names_and_rows


def candidate(row: str, role: str, name: str, qid: str, chosen: bool, linked: bool | None = None) -> dict[str, object]:
    return {"row_id": row, "role": role, "name": name, "qid": qid, "chosen": chosen, "linked": linked}


def test_ambiguous_names_are_counted_once_and_policies_compared_by_row() -> None:
    rows = [
        candidate("r1", "question", "Berlin", "Q64", True, False),
        candidate("r1", "question", "Berlin", "Q614184", False, True),
        candidate("r1", "answer", "Maryland", "Q1391", True, True),
        candidate("r2", "question", "Berlin", "Q64", True, True),
        candidate("r2", "question", "Berlin", "Q614184", False, False),
        candidate("r2", "answer", "Germany", "Q183", True, True),
        candidate("r3", "question", "Ulm", "Q3012", True),
    ]
    assert count_ambiguous_names_and_rows(pa.Table.from_pylist(rows)) == {
        "names": 4,
        "ambiguous_names": 1,
        "rows_with_ambiguous_name": 2,
        "rows_where_linked_differs": 1,
    }


def test_dataset_shape_is_reported_next_to_paper_with_n() -> None:
    rows = pa.table({"num_granola_answers": [2, 3, 3, 5]})
    shape = compare_shape_with_paper(rows, [{"stage": "score_description_consistency", "rows_in": 10, "rejects": 1}])
    assert {name: figure["here"] for name, figure in shape.items()} == {
        "rows": 4,
        "mean_answers": 3.25,
        "share_2_answers": 0.25,
        "share_3_answers": 0.5,
        "share_4_or_more_answers": 0.25,
        "share_removed_by_consistency": 0.1,
    }
    assert shape["share_removed_by_consistency"]["n"] == 10
    assert {name: figure["paper"] for name, figure in shape.items()} == PAPER_SHAPE


def test_empty_data_gives_no_shape_figures() -> None:
    shape = compare_shape_with_paper(pa.table({"num_granola_answers": pa.array([], pa.int64())}), [])
    assert {name for name, figure in shape.items() if figure["here"] is None} == PAPER_SHAPE.keys() - {"rows"}
