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
from factmill.tasks.biokalma.core.knowledge_sentences import RelationWording, parse_relation_wordings
from factmill.tasks.biokalma.core.pair_relations import PairRelations, parse_pair_relations
from factmill.tasks.biokalma.core.rows import PersonPair
from factmill.tasks.core.authoring.knowledge_pieces import BiographyPropertyWording, parse_biography_property_wordings
from factmill.tasks.core.rows import Reject
from factmill.tasks.errors import SourceError
from factmill.tasks.storage.source_files import (
    MALFORMED_ROW,
    ParsedSourceRow,
    SourceFile,
    find_row_problem,
    format_source_contents,
    iterate_csv,
    iterate_json,
    list_source_files,
    parse_source_rows,
    peek_columns,
)


@cache
def load_pair_relations() -> PairRelations:
    """Return the relations that join pairs of people or organisations, from `data/lists/pair_relations.csv`."""
    return parse_pair_relations(asset_path("data/lists", "pair_relations.csv").read_text("utf-8"))


@cache
def load_relation_wordings() -> dict[str, RelationWording]:
    """Return PID → how a sentence words the relation, from `data/lists/relation_forms.csv`."""
    return parse_relation_wordings(asset_path("data/lists", "relation_forms.csv").read_text("utf-8"))


@cache
def load_biography_properties() -> Mapping[str, BiographyPropertyWording]:
    """Return property label → the words that refer to it, from `data/lists/biography_properties.csv`."""
    return parse_biography_property_wordings(asset_path("data/lists", "biography_properties.csv").read_text("utf-8"))


PERSON_PAIR_COLUMNS = ("paragraph", "person", "relation", "other")
_SUFFIXES = (".jsonl", ".json", ".csv")
_EXPECTED_FILE = f"a file that ends in {', '.join(_SUFFIXES)} with the columns {', '.join(PERSON_PAIR_COLUMNS)}"
_CJK_CHARACTER = re.compile(
    r"[\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""A character of Chinese, Japanese or Korean, in which a whole name is written without a space."""


def find_pair_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Return name → file of pairs, sorted by name, from files and from files with the columns in folders.

    Raises SourceError for a missing path, for two files whose rows would have the same ids, and when no file is left.
    """
    found: dict[str, Path] = {}
    for path in paths:
        inside = [file for file in list_source_files(path) if file == path or file.suffix.lower() in _SUFFIXES]
        found |= _index_by_unique_stem(
            [file for file in inside if file == path or set(PERSON_PAIR_COLUMNS) <= set(peek_columns(file))], found
        )
    if not found:
        raise SourceError(f"no file of pairs in {format_source_contents(paths)}; expected {_EXPECTED_FILE}")
    return {path.name: path for _, path in sorted(found.items())}


def parse_person_pair_rows(source: SourceFile, *, complete_names: bool) -> Iterator[ParsedSourceRow]:
    """Yield each row's pair or reject, with ids <stem of the file>_0, …_1; SourceError for an unreadable file.

    `complete_names`: whether both names must be complete, as people's names must.
    """
    relations = load_pair_relations()

    def judge(row_id: str, number: int, row: Any) -> PersonPair | Reject:
        if problem := _find_pair_problem(row):
            return Reject(row_id, MALFORMED_ROW, problem)
        relation = relations.find_pid(row["relation"])
        if relation is None:
            known = ", ".join(f"{label} ({pid})" for pid, label in relations.labels.items())
            return Reject(row_id, "unknown_relation", f"unknown relation {row['relation']!r}; expected one of {known}")
        person, other = (" ".join(row[column].split()) for column in ("person", "other"))
        if complete_names and (short := [name for name in (person, other) if not is_complete_name(name)]):
            return Reject(row_id, "incomplete_name", f"{short[0]!r}: expected a first and a family name")
        label = relations.get_label(relation)
        paragraph = (row["paragraph"] or "").strip()
        if not paragraph:
            return Reject(row_id, "no_paragraph", f"the column paragraph is empty for {person} and {other}")
        return PersonPair(
            id=row_id,
            person=person,
            relation=relation,
            relation_label=label,
            other=other,
            paragraph=paragraph,
            given=[],
            source_name=source.name,
            source_row=number,
        )

    return parse_source_rows(source, source.path.stem, _iterate_csv_or_json_rows(source), judge)


def is_complete_name(name: str) -> bool:
    """True for a name of at least two words, or of at least two Chinese, Japanese or Korean characters."""
    words = [word for word in name.split() if any(map(str.isalpha, word))]
    return len(words) > 1 or len(_CJK_CHARACTER.findall(name)) > 1


def _index_by_unique_stem(paths: Sequence[Path], found: dict[str, Path]) -> dict[str, Path]:
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


def _iterate_csv_or_json_rows(source: SourceFile) -> Iterator[tuple[int, Any]]:
    suffix = source.path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise SourceError(f"{source.path}: unknown kind of file; expected {_EXPECTED_FILE}")
    return iterate_csv(source, PERSON_PAIR_COLUMNS) if suffix == ".csv" else iterate_json(source, _EXPECTED_FILE)


def _find_pair_problem(row: Any) -> str:
    if problem := find_row_problem(row, ("person", "relation", "other")):
        return problem
    if "paragraph" not in row:
        return f"the column paragraph is missing (found: {', '.join(map(str, row))[:300]})"
    return "" if row["paragraph"] is None or isinstance(row["paragraph"], str) else "the column paragraph is not a text"
