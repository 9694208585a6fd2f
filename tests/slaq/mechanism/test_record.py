"""Test the file of pairs: reading people's pairs, and errors in the file."""

import csv
from pathlib import Path

import pytest

from factmill.tasks.errors import SourceError
from factmill.tasks.slaq.core.mechanism.rows import FactInShortAndLongAnswer
from factmill.tasks.slaq.mechanism.benchmark import (
    load_short_and_long_answer_parts_file,
    write_paired_answer_parts_file,
)

FACT = FactInShortAndLongAnswer(
    id="m/t/1", model="m", asked_as="m", item="t", number=1, topic="T", category="C", fact_type="none", question="When?",
    long_question="When, who?", gold="1066", short_answer='In 1066, "they" say.', long_answer="1066, by William.", right_short=1,
    right_long=1, kind="aligned", short_text='In 1066, "they" say.', long_text="1066", short_start=0, long_start=0, matched=0.5,
    paired_by="alignment", unscored="", detail="",
)  # fmt: skip


def test_pairs_file_survives_write_and_load_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "pairs.csv"
    write_paired_answer_parts_file(path, [FACT])
    assert load_short_and_long_answer_parts_file(path) == {"m/t/1": ('In 1066, "they" say.', "1066")}
    with path.open(encoding="utf-8", newline="") as stream:
        assert next(csv.DictReader(stream))["long_answer"] == "1066, by William."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id,short_text\nm/t/1,a\n", "the column long_text is missing"),
        ("id,short_text,long_text\nm/t/1,a,b\nm/t/1,a,c\n", "row 2: m/t/1 is paired twice"),
        ("", "the file is empty"),
    ],
)
def test_invalid_pairs_file_raises_source_error(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(SourceError, match=expected):
        load_short_and_long_answer_parts_file(tmp_path / "pairs.csv")
