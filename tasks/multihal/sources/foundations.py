"""File formats of MultiHal's seven foundations, and the rows kept from each (paper §2, Table 1 with its notes).

A file is assigned to a foundation by its columns, which differ between all seven. If its name suggests a foundation but
its columns match none, an error states what was expected. One reader serves all: a foundation names the columns of
question and answer, and `take` returns a row's other columns or why it is rejected.

| foundation | kept | other columns |
|---|---|---|
| HaluEval (QA) | the right answer | the knowledge as context |
| TruthfulQA (generation) | the best answer | other correct and incorrect answers; the source, addresses or a remark, as context |
| FELM (world knowledge) | responses whose segments are all labelled true | references as context; a mirror names the columns otherwise |
| HaluBench | rows labelled PASS, except HaluEval's, which is read on its own | the passage as context |
| SHROOM 2024 | definitions written by people (task DM); labels rate a model's hypothesis, not these | |
| DefAn | the first of each 15 rows, which are a question and its 14 paraphrases | the answer's type |
| SimpleQA | all | topic, answer type, and addresses as context, in their original case |
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from factmill.tasks.core.rows import Reject
from factmill.tasks.errors import SourceError
from factmill.tasks.multihal.core.rows import AnswerType, FoundationQuestion
from factmill.tasks.storage.source_files import (
    MALFORMED_ROW,
    ParsedSourceRow,
    SourceFile,
    find_row_problem,
    format_source_paths_and_their_files,
    format_unused_files_note,
    iterate_numbered_csv_rows,
    iterate_numbered_json_values,
    iterate_numbered_parquet_rows,
    list_distinct_non_empty_texts,
    list_source_files,
    parse_source_rows,
    peek_columns,
    split_semicolon_separated_answers,
)

FoundationName = Literal["halueval", "truthfulqa", "felm", "halubench", "shroom2024", "defan", "simpleqa"]
ExtractedColumns = Mapping[str, Any] | tuple[str, str]
"""A kept row's columns besides origin (question and answer only to override), or a reject's (reason, detail)."""
NumberedRow = tuple[int, Any]
"""Number of a row, from 1, and the row."""

DEFAN_GROUP_ROWS = 15
"""Number of rows in a DefAn group: a question and its paraphrases."""
DEFAN_RANK_DOMAIN = "qsranking"
"""DefAn's domain whose numbers are ranks, whatever their stated type."""
_DEFAN_MATH_DOMAIN = "math"
"""DefAn's domain that is not a list of questions with paraphrases."""
_DEFAN_FILE_NAME = re.compile(r"QA_domain_([A-Za-z]+|[1-8])_(?:public|hidden)\.csv", re.IGNORECASE)
_DEFAN_DOMAINS = (
    *("sports", "census", "nobleprize", "entertainment", "worldorg"),
    *(DEFAN_RANK_DOMAIN, "conferences", _DEFAN_MATH_DOMAIN),
)
"""Domains in the order of the authors' file numbers, with the paper's names (Table 5)."""
_DEFAN_TYPES: dict[str, AnswerType] = {"date": "date", "numeric": "numerical", "number": "numerical", "rank": "rank"}
_RANK_PADDING = " \t\r\n\xa0\u200b="
_HALUBENCH_DOMAINS = {
    "drop": "general",
    "covidqa": "covid",
    "pubmedqa": "pubmed",
    "financebench": "finance",
    "ragtruth": "ragtruth",
}
_DEFINE_TAG = re.compile(r"<define>([^<]*)</define>")
_MEANING_QUESTION = "What is the meaning of "
_SIMPLEQA_TYPES: dict[str, AnswerType] = {"date": "date", "number": "numerical"}
_MAX_METADATA_CHARACTERS = 20_000


def _make_context(passage: Any) -> list[str]:
    return [passage.strip()] if isinstance(passage, str) and passage.strip() else []


def _extract_truthfulqa(row: Any, _path: Path, _number: int) -> ExtractedColumns:
    best, correct = row["Best Answer"].strip(), split_semicolon_separated_answers(row["Correct Answers"])
    return {
        "domain": row["Category"].strip().lower(),
        "optional_output": [answer for answer in correct if answer != best],
        "incorrect_answers": split_semicolon_separated_answers(row["Incorrect Answers"]),
        "context": split_semicolon_separated_answers(row["Source"]),
    }


def _extract_felm_context(row: Any, path: Path, _number: int) -> ExtractedColumns:
    labels = row.get("labels", row.get("claim_labels"))
    if not isinstance(labels, list) or not labels or not all(isinstance(label, bool) for label in labels):
        return MALFORMED_ROW, "the column labels (or claim_labels) is not a list of true and false"
    segments = row.get("segmented_response", row.get("claims"))
    if isinstance(segments, list) and len(segments) != len(labels):
        problem = f"the column labels (or claim_labels) has {len(labels)} entries for {len(segments)} segments"
        return MALFORMED_ROW, problem
    if isinstance(row.get("domain"), str):
        domain = row["domain"].strip().lower()
    elif str(row.get("source")).startswith("felm-"):
        domain = row["source"].removeprefix("felm-")
    else:
        domain = "wk" if "wk" in re.split(r"[^a-z]+", path.stem.lower()) else ""
    if not domain:
        return MALFORMED_ROW, "the column domain is missing, and the file name does not contain wk"
    if domain != "wk":
        return "other_domain", f"the domain is {domain}; MultiHal uses only wk"
    if not all(labels):
        return "false_segment", f"{labels.count(False)} of {len(labels)} segments are labelled false"
    references = row["ref"] if isinstance(row.get("ref"), list) else []
    return {"domain": "wk", "context": list_distinct_non_empty_texts(str(each).strip() for each in references)}


def _extract_halubench(row: Any, _path: Path, _number: int) -> ExtractedColumns:
    part, label = row["source_ds"].strip().lower(), row["label"].strip().upper()
    if part == "halueval":
        return "part_of_halueval", "the row is from HaluEval, which is read from its own files"
    if part not in _HALUBENCH_DOMAINS:
        return MALFORMED_ROW, f"unknown part in the column source_ds: {row['source_ds']!r}"
    if label != "PASS":
        return "hallucinated" if label == "FAIL" else MALFORMED_ROW, f"the column label is {row['label']!r}, not PASS"
    return {"domain": _HALUBENCH_DOMAINS[part], "context": _make_context(row.get("passage"))}


def _extract_shroom(row: Any, _path: Path, _number: int) -> ExtractedColumns:
    if row["task"].strip() != "DM":
        return "other_task", f"the task is {row['task'].strip()}; MultiHal uses only DM"
    if problem := find_row_problem(row, ("src", "tgt")):
        return MALFORMED_ROW, problem
    question = append_question_on_marked_word_meaning(row["src"])
    if question is None:
        return MALFORMED_ROW, "the column src neither marks a word with <define> nor asks for its meaning"
    return {"domain": "N/A", "input": question}


def append_question_on_marked_word_meaning(sentence: str) -> str | None:
    """Return a sentence followed by the question what its marked word means; None without a marked word or question.

    In some SHROOM files the sentence already ends with the question; in others <define> marks the word, and the
    question is appended in the same wording.
    """
    sentence = sentence.strip()
    if sentence.endswith("?") and sentence.partition(_MEANING_QUESTION)[2].strip(" ?"):
        return sentence
    if not (marked := _DEFINE_TAG.search(sentence)):
        return None
    plain = _DEFINE_TAG.sub(lambda found: found[1].strip(), sentence)
    return f"{plain} {_MEANING_QUESTION}{marked[1].strip()} ?"


def _extract_defan(row: Any, path: Path, number: int) -> ExtractedColumns:
    if behind := (number - 1) % DEFAN_GROUP_ROWS:
        return "paraphrase", f"paraphrase of the question in row {number - behind}"
    domain = _find_defan_domain(path)
    stated = _DEFAN_TYPES.get(row["type"].strip().lower(), "other")
    if domain == DEFAN_RANK_DOMAIN and stated == "numerical":
        stated = "rank"
    answer = _strip_tie_marks_and_leading_zeros(row["answer"]) if stated == "rank" else row["answer"].strip()
    return {"domain": domain, "output": answer, "answer_type": stated}


def _find_defan_domain(path: Path) -> str | None:
    """Return the domain in a file's name (QA_domain_1_public.csv, QA_domain_sports_public.csv: sports), or None."""
    if not (found := _DEFAN_FILE_NAME.fullmatch(path.name)):
        return None
    return _DEFAN_DOMAINS[int(found[1]) - 1] if found[1].isdigit() else found[1].lower()


def _strip_tie_marks_and_leading_zeros(answer: str) -> str:
    """Strip surrounding spaces and tie marks, and a rank's leading zeros, from an answer."""
    bare = answer.strip(_RANK_PADDING)
    return bare.lstrip("0") or bare if bare.isdigit() else bare


def _iterate_rows_and_flag_odd_groups(
    source: SourceFile, rows: Iterator[NumberedRow], odd: dict[int, str]
) -> Iterator[NumberedRow]:
    """Yield DefAn's rows unchanged; fill `odd` (row number → problem) for the rows of inconsistent groups.

    Raises SourceError if the last group is incomplete.
    """
    while group := list(islice(rows, DEFAN_GROUP_ROWS)):
        first, last = group[0][0], group[-1][0]
        if len(group) < DEFAN_GROUP_ROWS:
            raise SourceError(
                f"{source.path}: the last group, from row {first} on, has {len(group)} rows instead of {DEFAN_GROUP_ROWS}, "
                "column questions; the file is cut off or has no paraphrases"
            )
        if len({(_strip_tie_marks_and_leading_zeros(row["answer"]), row["type"].strip()) for _, row in group}) > 1:
            problem = f"rows {first} to {last} are not a group of {DEFAN_GROUP_ROWS} paraphrases: they differ in the column answer or type"
            odd.update(dict.fromkeys(range(first, last + 1), problem))
        yield from group


def _extract_simpleqa(row: Any, _path: Path, _number: int) -> ExtractedColumns:
    metadata = parse_simpleqa_metadata(row["metadata"])
    if isinstance(metadata, str):
        return MALFORMED_ROW, f"the column metadata {metadata}"
    return {
        "domain": metadata["topic"].strip().lower(),
        "context": list_distinct_non_empty_texts(url.strip() for url in metadata["urls"]),
        "answer_type": _SIMPLEQA_TYPES.get(metadata["answer_type"].strip().lower(), "other"),
    }


def parse_simpleqa_metadata(text: str) -> Mapping[str, Any] | str:
    """Parse SimpleQA's metadata, a Python dict literal with topic, answer_type and urls; return it or its problem.

    The text is parsed as data, never executed. A long or deeply nested text is a problem, and so is any other value.
    """
    if len(text) > _MAX_METADATA_CHARACTERS:
        return f"is longer than {_MAX_METADATA_CHARACTERS} characters"
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        return f"is not a dict of plain values ({type(error).__name__})"
    if problem := find_row_problem(value, ("topic", "answer_type")):
        return f"is invalid: {problem}"
    urls = value.get("urls")
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        return "has no list of urls"
    found: Mapping[str, Any] = value
    return found


@dataclass(frozen=True, slots=True)
class FoundationFormat:
    """File format of one foundation, and how its rows are read."""

    name: FoundationName
    files: str
    """Published file names and formats, for errors."""
    kind: str
    """Format of a file: JSON Lines, a JSON array of rows (or Parquet, by the suffix), or CSV."""
    columns: tuple[tuple[str, ...], ...]
    """Sets of columns; a file with all columns of any one set belongs to this foundation."""
    question: str
    answer: str
    texts: tuple[str, ...]
    """Columns that must hold text for a row to be read."""
    extract_columns: Callable[[Any, Path, int], ExtractedColumns]
    """Row, its file and its number → columns of the kept row, or reason and detail of the reject."""
    name_pattern: re.Pattern[str]
    """Pattern of file names that suggest this foundation."""
    prefix: str
    """Prefix of row ids."""
    find_part: Callable[[Path], str | None] = lambda _path: ""
    """File → part of the foundation, for the ids; None if its name gives none. No two files may be the same part."""

    def read(self, source: SourceFile) -> Iterator[ParsedSourceRow]:
        """Yield each row of a file as a question or reject; ids are halueval_0, defan_sports_15, …, by position.

        Raises SourceError for an unreadable file, and for a DefAn file whose last group is incomplete.
        """
        odd: dict[int, str] = {}
        columns, suffix = self.columns[0], source.path.suffix.lower()
        if self.kind == "CSV":
            rows: Iterator[NumberedRow] = iterate_numbered_csv_rows(source, columns)
        elif suffix == ".parquet":
            rows = iterate_numbered_parquet_rows(source, columns)
        else:
            rows = iterate_numbered_json_values(source, f"{self.kind} with the columns {', '.join(columns)}")
        if self.name == "defan":
            rows = _iterate_rows_and_flag_odd_groups(source, rows, odd)

        def judge(row_id: str, number: int, row: Any) -> FoundationQuestion | Reject:
            if problem := odd.get(number) or find_row_problem(row, self.texts):
                return Reject(row_id, MALFORMED_ROW, problem)
            taken = self.extract_columns(row, source.path, number)
            if isinstance(taken, tuple):
                return Reject(row_id, *taken)
            fields = {"input": row[self.question].strip(), "output": row[self.answer].strip(), **taken}
            return FoundationQuestion(
                id=row_id,
                source_dataset=self.name,
                licence=source.licence,
                source_name=source.name,
                source_row=number,
                **fields,
            )

        return parse_source_rows(source, "_".join(filter(None, (self.prefix, self.get_part(source.path)))), rows, judge)

    def get_part(self, path: Path) -> str:
        """Return the part of the foundation that a file is; SourceError if its name does not give one."""
        part = self.find_part(path)
        if part is None:
            problem = f"the file has rows of {self.name}, but its name does not give their part"
            raise SourceError(f"{path}: {problem}; expected {self.format_expected_files()}")
        return part

    def format_expected_files(self) -> str:
        """Return a description of this foundation's files, for errors."""
        return f"{self.files} with the columns {', '.join(self.columns[0])}"


FOUNDATIONS: dict[str, FoundationFormat] = {
    foundation.name: foundation
    for foundation in (
        FoundationFormat(
            "halueval", "qa_data.json (JSON Lines)", "JSON Lines",
            (("knowledge", "question", "right_answer", "hallucinated_answer"),),
            "question", "right_answer", ("question", "right_answer"),
            lambda row, _path, _number: {"domain": "qa", "context": _make_context(row.get("knowledge"))},
            re.compile("halueval|qa_data", re.IGNORECASE), "halueval",
        ),
        FoundationFormat(
            "truthfulqa", "TruthfulQA.csv", "CSV",
            (("Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"),),
            "Question", "Best Answer", ("Category", "Question", "Best Answer"), _extract_truthfulqa,
            re.compile("truthful", re.IGNORECASE), "tqa_gen",
        ),
        FoundationFormat(
            "felm", "all.jsonl or wk.jsonl (JSON Lines)", "JSON Lines",
            (("prompt", "response", "labels"), ("prompt", "response", "claim_labels")),
            "prompt", "response", ("prompt", "response"), _extract_felm_context,
            re.compile("felm", re.IGNORECASE), "felm",
        ),
        FoundationFormat(
            "halubench", "Parquet or JSON Lines", "JSON Lines",
            (("id", "passage", "question", "answer", "label", "source_ds"),),
            "question", "answer", ("question", "answer", "label", "source_ds"), _extract_halubench,
            re.compile("halubench", re.IGNORECASE), "halubench",
        ),
        FoundationFormat(
            "shroom2024", "trial-v1.json, val.model-aware.v2.json, … (JSON)", "a JSON array of rows",
            (("src", "tgt", "task", "hyp"),),
            "src", "tgt", ("task",), _extract_shroom,
            re.compile("shroom", re.IGNORECASE), "shroom2024",
            # val.model-aware.json is val-model-aware
            lambda path: re.sub(r"[^a-z0-9]+", "-", re.sub(r"\.jsonl?$", "", path.name.lower())).strip("-"),
        ),
        FoundationFormat(
            "defan", "QA_domain_1_public.csv, … (CSV, one file per domain)", "CSV",
            (("questions", "answer", "type"),),
            "questions", "answer", ("questions", "answer", "type"), _extract_defan,
            re.compile("QA_domain_", re.IGNORECASE), "defan", _find_defan_domain,
        ),
        FoundationFormat(
            "simpleqa", "simple_qa_test_set.csv", "CSV",
            (("metadata", "problem", "answer"),),
            "problem", "answer", ("metadata", "problem", "answer"), _extract_simpleqa,
            re.compile("simple_?qa", re.IGNORECASE), "simpleqa",
        ),
    )
}  # fmt: skip
"""Foundation by name, in the order of the paper's pipeline."""

_SUFFIXES = (".json", ".jsonl", ".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class FoundationFiles:
    """Source files grouped by foundation."""

    files: dict[str, list[Path]]
    """Foundation → its files, in the order of FOUNDATIONS and of file names."""
    left_out: list[str] = field(default_factory=list)
    """A sentence for each unused file of a foundation, and one for the files of no foundation."""


def find_foundation_files(paths: Sequence[Path], foundations: Sequence[str] | None = None) -> FoundationFiles:
    """Group the given files, and those in the given folders and subfolders, by foundation.

    `foundations`: wanted foundations, each of which must have a file; None accepts any. Raises SourceError for a
    missing path, a file given directly that matches no foundation, and two files of the same part.
    """
    wanted = [name for name in FOUNDATIONS if foundations is None or name in foundations]
    placed: dict[Path, str] = {}
    for path in paths:
        for file in list_source_files(path, deep=True):
            if file != path and file.suffix.lower() not in _SUFFIXES:
                continue
            name = _identify_foundation(file)
            if name in wanted:
                placed[file] = name
            elif file == path and name is None:
                raise SourceError(
                    f"{path}: the columns match no foundation; expected one of {_format_expected_files_of_foundations(wanted)}; "
                    "or, for a table of your own, --map question=COLUMN,answer=COLUMN"
                )
            elif file == path:
                raise SourceError(f"{path}: this is a file of {name}, expected files of {', '.join(wanted)}")
    found = _group_by_foundation(placed)
    if missing := [name for name in wanted if name not in found.files and (foundations or not found.files)]:
        raise SourceError(
            f"no file of {', '.join(missing)} in {format_source_paths_and_their_files(paths)}; expected {_format_expected_files_of_foundations(missing)}"
        )
    if not foundations:
        found.left_out.extend(
            format_unused_files_note(paths, list(placed), "because their columns match no foundation")
        )
    return found


def holds_foundations(paths: Sequence[Path]) -> bool:
    """True if the columns, or else the name, of one of the files or of a file in the folders are a foundation's."""
    inside = (file for path in paths for file in list_source_files(path, deep=True))
    files = (file for file in inside if file.suffix.lower() in _SUFFIXES)
    patterns = [each.name_pattern for each in FOUNDATIONS.values()]
    return any(_find_foundation_by_columns(each) or any(one.search(each.name) for one in patterns) for each in files)


def _find_foundation_by_columns(path: Path) -> str | None:
    columns = set(peek_columns(path))
    found = (name for name, each in FOUNDATIONS.items() if any(columns.issuperset(known) for known in each.columns))
    return next(found, None)


def _identify_foundation(path: Path) -> str | None:
    """Return a file's foundation by its columns, or None; SourceError if only its name matches one."""
    if name := _find_foundation_by_columns(path):
        return name
    columns = peek_columns(path)
    for name, foundation in FOUNDATIONS.items():
        if foundation.name_pattern.search(path.name):
            raise SourceError(
                f"{path}: row 1: the file name is that of {name}, but its columns are {', '.join(sorted(columns))[:300] or 'unreadable'}; "
                f"expected {foundation.format_expected_files()}"
            )
    return None


def _format_expected_files_of_foundations(names: Sequence[str]) -> str:
    return "; ".join(f"{name}: {FOUNDATIONS[name].format_expected_files()}" for name in names)


def _group_by_foundation(placed: Mapping[Path, str]) -> FoundationFiles:
    found = FoundationFiles({})
    parts: dict[tuple[str, str], Path] = {}
    for path in sorted(placed, key=lambda path: (list(FOUNDATIONS).index(placed[path]), path.name, path)):
        name = placed[path]
        if name == "defan" and path.suffix.lower() == ".json" and (copied := path.with_suffix(".csv")) in placed:
            found.left_out.append(f"{path}: left out; {copied.name} in the same folder has the same rows")
            continue
        part = FOUNDATIONS[name].get_part(path)
        if name == "defan" and part == _DEFAN_MATH_DOMAIN:
            why = "DefAn's domain math is not a list of questions with 14 paraphrases each"
            found.left_out.append(f"{path}: left out; {why}")
            continue
        other = parts.setdefault((name, part), path)
        if other.resolve() != path.resolve():
            raise SourceError(f"{path}: {name} already has this part, from {other}; give only one of the two")
        if other == path:
            found.files.setdefault(name, []).append(path)
    return found
