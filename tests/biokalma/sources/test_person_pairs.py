"""Test pairs of people from files: kept and rejected rows, full names, and the embedded world's sample."""

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.core.rows import PersonPair
from factmill.tasks.biokalma.sources.person_pairs import (
    PERSON_PAIR_COLUMNS,
    find_pair_files_by_name,
    is_complete_name,
    parse_person_pair_rows,
)
from factmill.tasks.core.rows import Reject
from factmill.tasks.errors import SourceError
from factmill.tasks.storage.source_files import ParsedSourceRow, SourceFile, make_source_file_without_digest
from factmill.tasks.world.files import load_world_data

Row = Mapping[str, Any]
GOOD = {
    "paragraph": " Ada Lovelace was the daughter of Lord Byron.\n",
    "person": "Lord  Byron ",
    "relation": "daughter",
    "other": "Ada Lovelace",
}
SAMPLE = ASSETS_ROOT / "data" / "world" / "sources" / "biokalma" / "pairs.jsonl"
PLAIN_ROWS = 36
NOT_IN_WORLD = {
    'Maria Anna "Nannerl" Mozart': "nobody bears the name",
    "Flann O’Brien": "nobody bears the name",
    "毛泽东": "nobody bears the name",
    "Edvard Munch": "was influenced by Claude Monet, but no student of his",
    "Rajiv Gandhi": "is a child of Indira Gandhi, who is none of his",
}
"""People in the sample's valid rows whose pair is not in the world."""


def write(tmp_path: Path, rows: Sequence[Row], name: str = "pairs.jsonl") -> SourceFile:
    path = tmp_path / name
    if path.suffix == ".json":
        path.write_text(json.dumps(rows), "utf-8")
    elif path.suffix.lower() == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return make_source_file_without_digest(path)


def read(source: SourceFile, complete_names: bool = True) -> list[ParsedSourceRow]:
    return list(parse_person_pair_rows(source, complete_names=complete_names))


def outcome(tmp_path: Path, change: Row, complete_names: bool = True) -> PersonPair | Reject:
    """Return the outcome of a row that follows a good one."""
    found = read(write(tmp_path, [GOOD, {**GOOD, **change}]), complete_names)[1].outcome
    assert isinstance(found, PersonPair | Reject)
    return found


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.csv", "pairs.CSV", "pairs.json"])
def test_row_is_read_identically_from_every_file_format(tmp_path: Path, name: str) -> None:
    source = write(tmp_path, [GOOD, GOOD], name)
    assert [row.row_id for row in read(source)] == ["pairs_0", "pairs_1"]
    assert read(source)[1].outcome == PersonPair(
        id="pairs_1",
        person="Lord Byron",
        relation="P40",
        relation_label="child",
        other="Ada Lovelace",
        paragraph="Ada Lovelace was the daughter of Lord Byron.",
        given=[],
        source_name=name,
        source_row=2,
    )


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        ({"person": None}, "malformed_row", "the column person is no text"),
        ({"other": " "}, "malformed_row", "the column other is no text"),
        ({"relation": ["P40"]}, "malformed_row", "the column relation is no text"),
        ({"paragraph": 3}, "malformed_row", "the column paragraph"),
        ({"paragraph": "\ud800"}, "malformed_row", "half a surrogate pair"),
        ({"relation": "colleague"}, "unknown_relation", "spouse (P26), child (P40)"),
        ({"relation": "P19"}, "unknown_relation", "'P19'"),
        ({"person": "Byron"}, "incomplete_name", "'Byron'"),
        ({"other": "Ada"}, "incomplete_name", "'Ada'"),
        ({"paragraph": " \n"}, "no_paragraph", "Lord Byron and Ada Lovelace"),
        ({"paragraph": None}, "no_paragraph", "the column paragraph is empty"),
    ],
)
def test_rejected_row_reports_reason(tmp_path: Path, change: Row, reason: str, detail: str) -> None:
    found = outcome(tmp_path, change)
    assert isinstance(found, Reject)
    assert (found.row_id, found.reason) == ("pairs_1", reason)
    assert detail in found.detail


def test_row_with_missing_column_is_malformed(tmp_path: Path) -> None:
    lacking = [{key: GOOD[key] for key in GOOD if key != column} for column in PERSON_PAIR_COLUMNS]
    found = [row.outcome for row in read(write(tmp_path, [GOOD, *lacking, ["a"]]))[1:]]  # type: ignore[list-item]
    assert [getattr(reject, "reason", "") for reject in found] == ["malformed_row"] * 5
    problems = [*(f"the column {column} is missing" for column in PERSON_PAIR_COLUMNS), "the row is no object"]
    assert [getattr(reject, "detail", "").split(" (")[0] for reject in found] == problems


def test_csv_row_with_empty_cell_is_rejected(tmp_path: Path) -> None:
    source = write(tmp_path, [GOOD, {**GOOD, "paragraph": ""}, {**GOOD, "other": ""}], "pairs.csv")
    assert [getattr(row.outcome, "reason", "") for row in read(source)] == ["", "no_paragraph", "malformed_row"]


@pytest.mark.parametrize(
    ("person", "other"),
    [
        ("Flann O’Brien", "Sinéad O'Connor"),
        ('Dwayne "The Rock" Johnson', "Sir Percy Florence Shelley, 3rd Baronet"),
        ("毛泽东", "Николай Гоголь"),
        ("J. J. Thomson", "François-Henri Pinault"),
        ("Johann Strauss", "Johann Strauss"),
    ],
)
@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.csv"])
def test_names_are_kept_as_written(tmp_path: Path, name: str, person: str, other: str) -> None:
    found = read(write(tmp_path, [{**GOOD, "person": person, "other": other}], name))[0].outcome
    assert isinstance(found, PersonPair)
    assert (found.person, found.other) == (person, other)


def test_organisations_need_no_complete_names(tmp_path: Path) -> None:
    change = {"person": "YouTube", "relation": "parent organization", "other": "Google"}
    found = outcome(tmp_path, change, complete_names=False)
    assert isinstance(found, PersonPair)
    assert (found.relation, found.relation_label) == ("P749", "parent organization")


@pytest.mark.parametrize(
    ("name", "is_complete"),
    [
        ("Leonardo da Vinci", True),
        ("Sinéad O'Connor", True),
        ("Sinéad O’Connor", True),
        ("Henry VIII of England", True),
        ("J. J. Thomson", True),
        ("Николай Гоголь", True),
        ("毛泽东", True),
        ("村上春樹", True),
        ("김구", True),
        ("レオナルド・ダ・ヴィンチ", True),
        ("Plato", False),
        ("Madonna", False),
        ("Jean-Michel", False),
        ("O'Connor", False),
        ("Πλάτων", False),
        ("毛", False),
        ("Plato 2", False),
        ("Plato -", False),
        ("", False),
    ],
)
def test_complete_name_needs_two_words_or_two_characters_of_unspaced_script(name: str, is_complete: bool) -> None:
    assert is_complete_name(name) is is_complete


HEAD, COLUMNS = "paragraph,person,relation,other", "paragraph, person, relation, other"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pairs.jsonl", "", f"the file is empty; expected a file that ends in .* with the columns {COLUMNS}"),
        ("pairs.csv", "", f"the file is empty; expected a CSV file with the columns {COLUMNS}"),
        ("pairs.csv", "paragraph,person,other\na,b,c\n", "row 1: the column relation is missing"),
        ("pairs.csv", f"{HEAD}\n", "no rows"),
        ("pairs.csv", f"{HEAD}\na,b b,P26,c c\na,b b", "row 2 .* column relation; the file is cut"),
        ("pairs.csv", f'{HEAD}\n"a', "broken CSV in row 1 .*, columns paragraph, person"),
        ("pairs.jsonl", '{"paragraph": "a"}\n{"paragraph": "b"}', "row 1: the column person is missing"),
        ("pairs.jsonl", json.dumps(GOOD) + '\n{"paragraph": "a', r"broken JSON in row 2 \(line 2, column \d+\)"),
        ("pairs.jsonl", b"\xff{}", "not UTF-8 at byte 0"),
        ("pairs.txt", "a", r"expected a file that ends in \.jsonl, \.json, \.csv"),
    ],
)
def test_unreadable_file_reports_problem_and_position(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SourceError, match=rf"{name}: .*{message}"):
        read(make_source_file_without_digest(path))


def test_file_changed_since_build_start_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, [GOOD]).path
    with pytest.raises(SourceError, match="has changed since the build began"):
        read(SourceFile(path, path.name, "0" * 64))


def test_pair_files_are_found_in_folders_by_their_columns(tmp_path: Path) -> None:
    named = write(tmp_path, [GOOD], "own.csv").path
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b.jsonl", "a.csv", "c.json"):
        write(folder, [GOOD], name)
    write(folder, [{"paragraph": "a", "person": "b"}], "other.csv")
    (folder / "notes.txt").write_text("paragraph,person,relation,other\n")
    assert list(find_pair_files_by_name([named, folder, named]).items()) == [
        ("a.csv", folder / "a.csv"),
        ("b.jsonl", folder / "b.jsonl"),
        ("c.json", folder / "c.json"),
        ("own.csv", named),
    ]
    assert find_pair_files_by_name([SAMPLE.parent]) == {"pairs.jsonl": SAMPLE}


def test_ambiguous_or_missing_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [GOOD], "pairs.csv")
    write(tmp_path, [GOOD], "pairs.jsonl")
    for paths in ([tmp_path], [tmp_path / "pairs.csv", tmp_path / "pairs.jsonl"]):
        with pytest.raises(SourceError, match=r"pairs\.jsonl: .*same ids.*pairs\.csv"):
            find_pair_files_by_name(paths)
    with pytest.raises(SourceError, match=r"gone\.csv: no such file or folder"):
        find_pair_files_by_name([tmp_path / "gone.csv"])
    (tmp_path / "empty").mkdir()
    message = r"no file of pairs in .*empty \(holds no data\); expected a file that ends in"
    with pytest.raises(SourceError, match=message):
        find_pair_files_by_name([tmp_path / "empty"])


@cache
def read_sample() -> tuple[PersonPair | Reject, ...]:
    return tuple(row.outcome for row in read(make_source_file_without_digest(SAMPLE)))  # type: ignore[misc]


read_world = cache(load_world_data)


@cache
def bearers() -> dict[str, set[str]]:
    """Map each name to the QIDs of the world's people with that label or alias."""
    found: dict[str, set[str]] = defaultdict(set)
    for qid, item in read_world().items.items():
        if any(getattr(statement.value, "qid", "") == "Q5" for statement in item.list_statements_of("P31")):
            for name in (item.labels["en"], *item.aliases):
                found[name].add(qid)
    return found


def find_joined(pair: PersonPair) -> list[tuple[str, str]]:
    def list_values(qid: str) -> set[str]:
        statements = read_world().items[qid].list_statements_of(pair.relation)
        return {getattr(statement.value, "qid", "") for statement in statements}

    people, others = bearers()[pair.person], bearers()[pair.other]
    return [(qid, other) for qid in sorted(people) for other in sorted(others & list_values(qid))]


def test_sample_has_plain_rows_with_many_people_and_relations() -> None:
    plain = [row for row in read_sample()[:PLAIN_ROWS] if isinstance(row, PersonPair)]
    assert len(plain) == PLAIN_ROWS
    assert len({name for row in plain for name in (row.person, row.other)}) == 2 * PLAIN_ROWS
    assert Counter(row.relation for row in plain) == {
        "P26": 8, "P737": 7, "P22": 5, "P1066": 5, "P3373": 3, "P184": 3, "P25": 3, "P40": 2,
    }  # fmt: skip
    assert all(len(bearers()[name]) == 1 for row in plain for name in (row.person, row.other))


def test_sample_covers_every_reject_reason() -> None:
    assert Counter(row.reason for row in read_sample() if isinstance(row, Reject)) == {
        "incomplete_name": 1,
        "unknown_relation": 1,
        "no_paragraph": 1,
        "malformed_row": 1,
    }
    ambiguous = {row.person for row in read_sample() if isinstance(row, PersonPair) and len(bearers()[row.person]) > 1}
    assert ambiguous == {"Michael Mann", "Winston Churchill", "Graham Greene"}


@pytest.mark.parametrize("pair", [row for row in read_sample() if isinstance(row, PersonPair)], ids=lambda row: row.id)
def test_sample_pairs_are_named_in_paragraph_and_joined_in_world(pair: PersonPair) -> None:
    assert pair.paragraph is not None
    assert pair.person in pair.paragraph
    assert pair.other in pair.paragraph
    is_self = pair.person == pair.other
    assert len(find_joined(pair)) == (0 if pair.person in NOT_IN_WORLD or is_self else 1)
