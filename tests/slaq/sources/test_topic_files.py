"""Files of topics: columns, spellings, and the row that a mistake stands in."""

from pathlib import Path

import pytest

from factmill.tasks.errors import SourceError
from factmill.tasks.slaq.sources.topic_files import ListedTopic, iterate_topics
from factmill.tasks.storage.source_files import pin_source_file

HEADER = "category,title,pageid,views\n"


def read(folder: Path, content: str | bytes) -> list[ListedTopic]:
    path = folder / "topics.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(iterate_topics(pin_source_file(path)))


def test_topics_come_in_the_file_s_order_and_in_mediawiki_s_spelling(tmp_path: Path) -> None:
    assert read(tmp_path, f"{HEADER}Virtual_reality,alpha_Beta,2,10\nAlgebra,Ring,1,\n") == [
        ListedTopic("Virtual reality", "Alpha Beta", 2, 10),
        ListedTopic("Algebra", "Ring", 1, None),
    ]


def test_more_columns_a_byte_order_mark_and_line_ends_of_windows_do_no_harm(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfviews,pageid,title,category,note\r\n5,1,Ring,Algebra,x\r\n"
    assert read(tmp_path, content) == [ListedTopic("Algebra", "Ring", 1, 5)]


def test_a_page_may_stand_in_several_categories(tmp_path: Path) -> None:
    assert len(read(tmp_path, f"{HEADER}Algebra,Ring,1,5\nLogic,Ring,1,5\n")) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("Algebra,Ring,1,5\nAlgebra,Ring,1,5\n", "row 2: page 1 stands in Algebra already, in row 1"),
        ("Algebra,Ring,0,5\n", "row 1: pageid '0'"),
        ("Algebra,Ring,x,5\n", "row 1: pageid 'x'"),
        ("Algebra,Ring,٣,5\n", "row 1: pageid '٣'"),
        ("Algebra,Ring,1,-5\n", "row 1: views '-5'"),
        ("Algebra,Ring,1,5.0\n", r"row 1: views '5\.0'"),
        ("Algebra,Ring,1," + "9" * 5000 + "\n", "row 1: views '999"),
        (",Ring,1,5\n", "row 1: category ''"),
        ("Category:Algebra,Ring,1,5\n", "row 1: category 'Category:Algebra'"),
        ("Algebra,,1,5\n", "row 1: the title is empty"),
        ("Algebra,Talk:Ring,1,5\n", "row 1: what begins with Talk: is no article"),
        ("Algebra,Ring\n", "row 1 .* has 2 cells instead of 4"),
        ("", "no rows"),
    ],
)
def test_a_mistake_is_told_with_its_row(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path, f"{HEADER}{rows}")


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the column pageid is missing"):
        read(tmp_path, "category,title,views\nAlgebra,Ring,5\n")
