"""Reader of pairs of people (a paragraph and a relation in it), and loaders of lists for questions (Appendix A.1).

The paper takes such rows from the Biographical database, which is not freely available; any file of this form works:
JSON Lines (or a JSON array) or CSV with the columns paragraph, person, relation, other, where `other` is the value of
the relation of `person`. Names stay as written except for spaces; a later stage resolves them.

A complete name has a first and a family name: at least two words, in scripts that separate words. Pairs of other
domains, such as organisations, need no complete names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from factmill.tasks.assets import asset_path
from factmill.tasks.biokalma.core.knowledge_sentences import RelationWording, parse_relation_wordings_by_pid
from factmill.tasks.biokalma.core.pair_relations import PairRelationCatalog, parse_pair_relations_csv
from factmill.tasks.biokalma.core.rows import PersonPair
from factmill.tasks.core.authoring.knowledge_pieces import BiographyPropertyWording, parse_biography_wordings_by_label
from factmill.tasks.core.rows import Reject
from factmill.tasks.core.table_columns import ExpectedTableField, TableForm, UserSourceSettings
from factmill.tasks.errors import SourceError
from factmill.tasks.options import UserTableParams
from factmill.tasks.storage.source_files import (
    MALFORMED_ROW,
    ParsedSourceRow,
    SourceFile,
    find_row_problem,
    format_source_paths_and_their_files,
    iterate_numbered_csv_rows,
    iterate_numbered_json_values,
    list_source_files,
    load_source_text,
    parse_source_rows,
    peek_columns,
)
from factmill.tasks.storage.user_tables import CheckedUserTables, check_and_digest_user_tables, iterate_user_table


@cache
def load_packaged_pair_relations() -> PairRelationCatalog:
    """Return the relations that join pairs of people or organisations, from `data/lists/pair_relations.csv`."""
    return parse_pair_relations_csv(asset_path("data/lists", "pair_relations.csv").read_text("utf-8"))


RELATION_FILE = "relations"
"""Name of the manifest's file group of the user's relations."""


@cache
def load_packaged_and_user_pair_relations(source: SourceFile) -> PairRelationCatalog:
    """Return factmill's relations and those of a user's file, in the form of `data/lists/pair_relations.csv`."""
    text = load_source_text(source, "relations of pairs")
    return parse_pair_relations_csv(text, str(source.path), load_packaged_pair_relations())


def load_build_pair_relations(files: Sequence[SourceFile]) -> PairRelationCatalog:
    """Return the relations of a build: factmill's own, and those of the user's file if there is one."""
    return load_packaged_and_user_pair_relations(files[0]) if files else load_packaged_pair_relations()


@cache
def load_relation_wordings() -> dict[str, RelationWording]:
    """Return PID → how a sentence words the relation, from `data/lists/relation_forms.csv`."""
    return parse_relation_wordings_by_pid(asset_path("data/lists", "relation_forms.csv").read_text("utf-8"))


@cache
def load_biography_wordings_by_label() -> Mapping[str, BiographyPropertyWording]:
    """Return property label → the words that refer to it, from `data/lists/biography_properties.csv`."""
    return parse_biography_wordings_by_label(asset_path("data/lists", "biography_properties.csv").read_text("utf-8"))


PAIR_FORM: TableForm = (
    ExpectedTableField("paragraph", "text about both people", is_required=True),
    ExpectedTableField("person", "name of the person whose relation it is", is_required=True),
    ExpectedTableField("relation", "id of the relation (P26), or its name (married to)", is_required=True),
    ExpectedTableField("other", "name of the value of the relation", is_required=True),
)
PERSON_PAIR_COLUMNS = tuple(field.name for field in PAIR_FORM)
_SUFFIXES = (".jsonl", ".json", ".csv")
_EXPECTED_FILE = f"a file that ends in {', '.join(_SUFFIXES)} with the columns {', '.join(PERSON_PAIR_COLUMNS)}"
_CJK_CHARACTER = re.compile(
    r"[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""A character of Chinese, Japanese or Korean, in which a whole name is written without a space."""


def find_pair_files_by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Return name → file of pairs, sorted by name, from files and from files with the columns in folders.

    Raises SourceError for a missing path, for two files whose rows would have the same ids, and when no file is left.
    """
    found: dict[str, Path] = {}
    for path in paths:
        inside = [file for file in list_source_files(path) if file == path or file.suffix.lower() in _SUFFIXES]
        found |= _index_added_files_by_unique_stem(
            [file for file in inside if file == path or set(PERSON_PAIR_COLUMNS) <= set(peek_columns(file))], found
        )
    if not found:
        raise SourceError(
            f"no file of pairs in {format_source_paths_and_their_files(paths)}; expected {_EXPECTED_FILE}"
        )
    return {path.name: path for _, path in sorted(found.items())}


def are_other_than_pair_files(paths: Sequence[Path]) -> bool:
    """True if a file that is given directly, or every file of the folders, has other columns or another form than files of pairs."""
    given = [path for path in paths if path.is_file()]
    if any((columns := peek_columns(path)) and not set(PERSON_PAIR_COLUMNS) <= {*columns} for path in given):
        return True
    files = [file for path in paths for file in list_source_files(path, deep=True)]
    suffixes = {file.suffix.lower() for file in files}
    return bool(suffixes & {".tsv", ".parquet", ".ndjson"}) and not suffixes & {*_SUFFIXES}


def pin_user_pairs(params: UserTableParams) -> CheckedUserTables:
    """Check and pin the tables of a source; SourceError as `check_and_digest_user_tables`, and where rows of two files would have equal ids."""
    tables = check_and_digest_user_tables(params, PAIR_FORM)
    _index_added_files_by_unique_stem([file.path for file in tables.files], {})
    return tables


def parse_person_pair_rows(
    source: SourceFile,
    *,
    complete_names: bool,
    own: UserSourceSettings | None = None,
    user_relations: Sequence[SourceFile] = (),
) -> Iterator[ParsedSourceRow]:
    """Yield each row's pair or reject, with ids <stem of the file>_0, …_1; SourceError for an unreadable file.

    `complete_names`: whether both names must be complete, as people's names must. `own`: how a table of the user's own is
    read. `user_relations`: files of further relations.
    """
    relations = load_build_pair_relations(user_relations)
    rows: Iterator[tuple[int, Any]]
    if own and own.columns:
        rows = ((row.number, row.fields) for row in iterate_user_table(source, own, PAIR_FORM))
    elif (suffix := source.path.suffix.lower()) in _SUFFIXES:
        is_csv = suffix == ".csv"
        rows = (
            iterate_numbered_csv_rows(source, PERSON_PAIR_COLUMNS)
            if is_csv
            else iterate_numbered_json_values(source, _EXPECTED_FILE)
        )
    else:
        raise SourceError(f"{source.path}: unknown kind of file; expected {_EXPECTED_FILE}")

    def judge(row_id: str, number: int, row: Any) -> PersonPair | Reject:
        if isinstance(row, str):
            return Reject(row_id, MALFORMED_ROW, row)
        if problem := _find_pair_problem(row):
            return Reject(row_id, MALFORMED_ROW, problem)
        relation = relations.find_pid(row["relation"])
        if relation is None:
            known = ", ".join(f"{label} ({pid})" for pid, label in relations.labels.items())
            return Reject(row_id, "unknown_relation", f"unknown relation {row['relation']!r}; expected one of {known}")
        person, other = (" ".join(row[column].split()) for column in ("person", "other"))
        if complete_names and (short := [name for name in (person, other) if not is_complete_name(name)]):
            return Reject(row_id, "incomplete_name", f"{short[0]!r}: expected a first and a family name")
        paragraph = (row["paragraph"] or "").strip()
        if not paragraph:
            return Reject(row_id, "no_paragraph", f"the column paragraph is empty for {person} and {other}")
        return PersonPair(
            id=row_id,
            person=person,
            relation=relation,
            relation_label=relations.labels[relation],
            other=other,
            paragraph=paragraph,
            given=[],
            source_name=source.name,
            source_row=number,
        )

    return parse_source_rows(source, Path(source.name).stem, rows, judge)


def is_complete_name(name: str) -> bool:
    """True for a name of at least two words, or of at least two Chinese, Japanese or Korean characters."""
    words = [word for word in name.split() if any(map(str.isalpha, word))]
    return len(words) > 1 or len(_CJK_CHARACTER.findall(name)) > 1


def _index_added_files_by_unique_stem(paths: Sequence[Path], found: dict[str, Path]) -> dict[str, Path]:
    """Return stem → file (row ids begin with the stem); SourceError where two files share a stem."""
    added: dict[str, Path] = {}
    for path in sorted(paths):
        other = found.get(path.stem) or added.get(path.stem)
        if other and other.resolve() != path.resolve():
            raise SourceError(
                f"{path}: its rows would have the same ids as those of {other}; rename one of the two files"
            )
        added[path.stem] = path
    return added


def _find_pair_problem(row: Any) -> str:
    if problem := find_row_problem(row, ("person", "relation", "other")):
        return problem
    if "paragraph" not in row:
        return f"the column paragraph is missing (found: {', '.join(map(str, row))[:300]})"
    return "" if row["paragraph"] is None or isinstance(row["paragraph"], str) else "the column paragraph is not a text"
