"""Read authored or released question files, and the lists to generate questions from (FanOutQA, §3.1, Appendix E).

A file is a JSON list or JSON Lines. The keys of a row decide its form: `decomposition` (dev split) or
`necessary_evidence` (test split) for the released form, `strategy` for the authored form. A row of neither form is
malformed. A row that breaks rules of its form is rejected, with all broken rules by path.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from factmill.tasks.assets import asset_path
from factmill.tasks.core.rows import Reject
from factmill.tasks.core.table_columns import ExpectedTableField, TableForm, UserSourceSettings, format_table_form
from factmill.tasks.errors import SourceError
from factmill.tasks.fanoutqa.core.forms.authored import check_authored_question, parse_authored_question
from factmill.tasks.fanoutqa.core.forms.checks import (
    FormViolation,
    format_value_summary,
    make_mismatch_violation,
    make_violation,
)
from factmill.tasks.fanoutqa.core.forms.released import check_released_question, parse_released_question
from factmill.tasks.fanoutqa.core.questions import (
    MIN_ARTICLES,
    FanOutQuestion,
)
from factmill.tasks.fanoutqa.core.rows import GatheredFanOutQuestion, Split
from factmill.tasks.fanoutqa.core.sets.set_kinds import (
    PropertyPhrases,
    SetKind,
    parse_phrases_by_property_and_members,
    parse_set_kinds_csv_by_source_unit,
)
from factmill.tasks.storage.source_files import (
    MALFORMED_ROW,
    ParsedSourceRow,
    SourceFile,
    iterate_numbered_json_values,
    load_source_text,
    parse_source_rows,
)
from factmill.tasks.storage.user_tables import iterate_user_table

EXPECTED_FORM = (
    "a JSON list or JSON Lines of questions with strategy (authored), decomposition or necessary_evidence (released)"
)
INVALID_QUESTION = "invalid_question"

QuestionFileForm = Literal["authored", "released"]


@dataclass(frozen=True, slots=True)
class ParsedQuestionOrViolations:
    """A row of a file: its question, or the rules that it breaks."""

    form: QuestionFileForm | None
    """None for a row of neither form; `violations` says so."""
    question: FanOutQuestion | None
    violations: tuple[FormViolation, ...] = ()


def check_and_parse_question(found: object, least_articles: int = MIN_ARTICLES) -> ParsedQuestionOrViolations:
    """Detect the form of a row, check it and parse it; `least_articles` applies to authored questions alone."""
    if not isinstance(found, Mapping):
        return ParsedQuestionOrViolations(None, None, (make_mismatch_violation("", "no_object", "an object", found),))
    if "decomposition" in found or "necessary_evidence" in found:
        broken = check_released_question(found)
        return ParsedQuestionOrViolations("released", None if broken else parse_released_question(found), tuple(broken))
    if "strategy" in found or "question" in found:
        broken = check_authored_question(found, least_articles)
        return ParsedQuestionOrViolations("authored", None if broken else parse_authored_question(found), tuple(broken))
    keys = ", ".join(map(format_value_summary, list(found)[:10])) or "none"
    message = f"expected the keys question and strategy, decomposition or necessary_evidence, found {keys}"
    return ParsedQuestionOrViolations(None, None, (make_violation("", "unknown_form", message),))


def read_question_file(
    source: SourceFile, least_articles: int = MIN_ARTICLES, own: UserSourceSettings | None = None
) -> Iterator[ParsedSourceRow]:
    """Yield the outcome of each row: a GatheredFanOutQuestion under the question's own id, or a Reject under its place in the file.

    `own`: how a table of the user's own is read. SourceError for an unreadable file, and for one without any row of either
    form.
    """
    rows = (
        _iterate_table_questions(source, own)
        if own and own.columns
        else iterate_numbered_json_values(source, EXPECTED_FORM)
    )

    def judge(row_id: str, number: int, row: Any) -> GatheredFanOutQuestion | Reject:
        if isinstance(row, str) and own:
            return Reject(row_id, MALFORMED_ROW, row)
        examined = check_and_parse_question(row, least_articles)
        if examined.question is None:
            reason = INVALID_QUESTION if examined.form else MALFORMED_ROW
            return Reject(row_id, reason, "; ".join(each.sentence for each in examined.violations))
        part: Split = "dev" if examined.question.decomposition else "test"
        return GatheredFanOutQuestion.from_tree(
            examined.question,
            source=examined.form,
            source_name=source.name,
            source_row=number,
            licence=source.licence,
            published_split=part if examined.form == "released" else None,
        )

    return parse_source_rows(source, source.name.removesuffix(source.path.suffix), rows, judge)


QUESTION_TABLE_FORM: TableForm = (
    ExpectedTableField("question", "text of the question", is_required=True),
    ExpectedTableField(
        "answer", "the answer: a text, or JSON, an object or a list as in the paper's questions", "json"
    ),
    ExpectedTableField(
        "strategy",
        "as JSON, the list of sub-questions of the authored form, each with question, answer and evidence, the address of an article",
        "json",
    ),
    ExpectedTableField("then", "as JSON, the sub-questions that need the answers of strategy", "json"),
    ExpectedTableField(
        "decomposition", "as JSON, the list of sub-questions of the released form, in place of strategy", "json"
    ),
    ExpectedTableField("necessary_evidence", "as JSON, the articles of a released question without answers", "json"),
    ExpectedTableField("categories", "topics", "list"),
    ExpectedTableField("id", "id of the question; without it, a digest of its wording"),
)
_SUPPORT_FIELDS = ("strategy", "decomposition", "necessary_evidence")


def check_has_decomposition_or_evidence(columns: Mapping[str, str], place: str) -> None:
    """Raise SourceError for tables that have no column with the questions' support."""
    if not any(field in columns for field in _SUPPORT_FIELDS):
        raise SourceError(
            f"{place}: no column holds what the questions rest on: expected one of strategy (authored), decomposition or necessary_evidence "
            f"(released), or --map strategy=COLUMN; fields are {format_table_form(QUESTION_TABLE_FORM)}"
        )


def _iterate_table_questions(source: SourceFile, own: UserSourceSettings) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, question in the authored or released form) for each row; a text that says what is wrong with it."""
    for row in iterate_user_table(source, own, QUESTION_TABLE_FORM):
        found: Any = row.fields
        if not isinstance(found, str):
            found = {name: value for name, value in found.items() if value is not None}
            if "strategy" in found:
                # Parquet has each key in every object, without a value where the question had no such key
                found = _drop_nulls(found | ({} if found["categories"] else {"categories": None}))
        yield row.number, found


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _drop_nulls(each) for key, each in value.items() if each is not None}
    return [_drop_nulls(each) for each in value] if isinstance(value, list) else value


@cache
def load_set_kinds() -> dict[str, SetKind]:
    """Return unit → kind of sets to generate questions from, loaded from `data/lists/fanout_sets.csv`."""
    return parse_set_kinds_csv_by_source_unit(asset_path("data/lists", "fanout_sets.csv").read_text("utf-8"))


@cache
def load_phrases_by_property_and_members() -> dict[tuple[str, str], PropertyPhrases]:
    """Return (PID, members or empty) → phrases of a property, loaded from `data/lists/fanout_properties.csv`."""
    return parse_phrases_by_property_and_members(asset_path("data/lists", "fanout_properties.csv").read_text("utf-8"))


SET_FILE, PROPERTY_FILE = "sets", "properties"
"""Names of the manifest's file groups of the user's kinds of sets and of the phrases for their properties."""


@cache
def read_user_set_kinds_by_unit(source: SourceFile) -> Mapping[str, SetKind]:
    """Return unit → kind of sets of a user's file, in the form of `data/lists/fanout_sets.csv`."""
    found = parse_set_kinds_csv_by_source_unit(load_source_text(source, "kinds of sets"), str(source.path))
    if not found:
        raise SourceError(f"{source.path}: no kind of sets; expected a line for each")
    return found


@cache
def load_user_property_phrase_file(source: SourceFile) -> Mapping[tuple[str, str], PropertyPhrases]:
    """Return (PID, members or empty) → phrases of a user's file, in the form of `data/lists/fanout_properties.csv`."""
    return parse_phrases_by_property_and_members(load_source_text(source, "phrases of properties"), str(source.path))


def load_packaged_and_user_set_kinds(files: Sequence[SourceFile]) -> dict[str, SetKind]:
    """Return unit → kind of sets: factmill's own, and those of the user's files, which replace equal ones."""
    return load_set_kinds() | {unit: kind for file in files for unit, kind in read_user_set_kinds_by_unit(file).items()}


def load_packaged_and_user_property_phrases(files: Sequence[SourceFile]) -> dict[tuple[str, str], PropertyPhrases]:
    """Return (PID, members or empty) → phrases: factmill's own, and those of the user's files, which replace equal ones."""
    own = {key: phrases for file in files for key, phrases in load_user_property_phrase_file(file).items()}
    return load_phrases_by_property_and_members() | own
