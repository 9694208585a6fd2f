"""Test tables of topics: columns, spellings, and errors in a row."""

from pathlib import Path

import pytest

from factmill.tasks.errors import SourceError
from factmill.tasks.slaq.params import SlaqParams, check_topic_tables_and_list_categories
from factmill.tasks.slaq.sources.user_topics import TOPIC_FORM, TopicFromTable, read_topic_from_table_row
from factmill.tasks.storage.user_tables import check_and_digest_user_tables, iterate_user_table

HEADER = "category,title,pageid,views\n"


def read(folder: Path, content: str | bytes, name: str = "topics.csv", **params: str) -> list[TopicFromTable | str]:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    tables = check_and_digest_user_tables(SlaqParams.model_validate({"source": [str(path)], **params}), TOPIC_FORM)
    return [
        read_topic_from_table_row(row)
        for file in tables.files
        for row in iterate_user_table(file, tables.own, TOPIC_FORM)
    ]


def test_topics_keep_table_order_and_use_mediawiki_spelling(tmp_path: Path) -> None:
    assert read(tmp_path, f"{HEADER}Virtual_reality,alpha_Beta,2,10\nAlgebra,Ring,1,\n") == [
        TopicFromTable("Virtual reality", "Alpha Beta", 2, 10),
        TopicFromTable("Algebra", "Ring", 1, None),
    ]


def test_extra_columns_and_byte_order_mark_and_crlf_are_accepted(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfviews,pageid,title,category,note\r\n5,1,Ring,Algebra,x\r\n"
    assert read(tmp_path, content) == [TopicFromTable("Algebra", "Ring", 1, 5)]


def test_page_ids_and_views_are_optional(tmp_path: Path) -> None:
    assert read(tmp_path, "topic,category\nRing,Algebra\n") == [TopicFromTable("Algebra", "Ring", None, None)]


def test_columns_can_be_mapped_and_json_numbers_are_accepted(tmp_path: Path) -> None:
    content = '{"title": "Ring", "field": "Algebra", "page": 1, "seen": 5}\n'
    found = read(tmp_path, content, "topics.jsonl", map="category=field,pageid=page,views=seen")
    assert found == [TopicFromTable("Algebra", "Ring", 1, 5)]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("Algebra,Ring,0,5", "pageid '0'"),
        ("Algebra,Ring,x,5", "pageid 'x'"),
        ("Algebra,Ring,٣,5", "pageid '٣'"),
        ("Algebra,Ring,1,-5", "views '-5'"),
        ("Algebra,Ring,1,5.0", "views '5.0'"),
        ("Algebra,Ring,1," + "9" * 5000, "views '999"),
        (",Ring,1,5", "the column category is empty"),
        ("Category:Algebra,Ring,1,5", "category 'Category:Algebra'"),
        ("Algebra,,1,5", "the column title is empty"),
        ("Algebra,Talk:Ring,1,5", "what begins with Talk: is no article"),
    ],
)
def test_row_error_affects_only_its_row(tmp_path: Path, row: str, problem: str) -> None:
    good, found = read(tmp_path, f"{HEADER}Algebra,Group,2,5\n{row}\n")
    assert good == TopicFromTable("Algebra", "Group", 2, 5)
    assert isinstance(found, str) and found.startswith(problem)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"{HEADER}Algebra,Ring\n", r"row 1 .* has 2 cells instead of 4"),
        (HEADER, "no rows"),
        ("title,views\nRing,5\n", "the column category is missing"),
    ],
)
def test_broken_table_raises_source_error(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read(tmp_path, content)


def test_category_spellings_are_merged_and_table_without_category_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "topics.csv"
    path.write_text(f"{HEADER}Virtual_reality,Ring,1,5\nVirtual reality,Group,2,5\nCategory:Logic,Set,3,5\n")
    assert check_topic_tables_and_list_categories(SlaqParams(source=(str(path),)))[0] == ("Virtual reality",)
    path.write_text(f"{HEADER}Category:Logic,Set,3,5\n")
    with pytest.raises(SourceError, match="no row has a category's name"):
        check_topic_tables_and_list_categories(SlaqParams(source=(str(path),)))
