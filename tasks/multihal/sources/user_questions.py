"""Reader of questions in tables of the user's own, next to the seven foundations (MultiHal, §2)."""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from factmill.tasks.core.rows import Reject
from factmill.tasks.core.table_columns import ExpectedTableField, TableForm, UserSourceSettings
from factmill.tasks.errors import SourceError, UsageError
from factmill.tasks.multihal.core.rows import FoundationQuestion
from factmill.tasks.multihal.sources.foundations import FOUNDATIONS
from factmill.tasks.options import UserSourceParams
from factmill.tasks.storage.source_files import MALFORMED_ROW, ParsedSourceRow, SourceFile, dump_row
from factmill.tasks.storage.user_tables import CheckedUserTables, check_and_digest_user_tables, iterate_user_table

USER_QUESTION_FORM: TableForm = (
    ExpectedTableField("question", "text of the question", is_required=True),
    ExpectedTableField(
        "answer", "the expected answer; of a list the first, and the others are aliases", "list", True, "answers"
    ),
    ExpectedTableField("aliases", "other right answers", "list"),
    ExpectedTableField("incorrect_answers", "wrong answers", "list"),
    ExpectedTableField("context", "passages or addresses with the question", "list"),
    ExpectedTableField("domain", "topic of the question"),
    ExpectedTableField("id", "id of the row, unique in the source; without it, the file and the number of the row"),
    ExpectedTableField(
        "licence", "licence of the row, by its SPDX id; without it, that of --source-licence", other_name="license"
    ),
)
_NO_DOMAIN = "N/A"
_UNSAFE_CHARACTERS = re.compile(r"[^\w.-]+")
_AMBIGUOUS_NUMBER = re.compile(r"[+\-−]?(?P<thousands>[1-9][0-9]{0,2})\.(?P<rest>[0-9]{3})(?P<unit>(?: [^\d.,]+)?)")
"""One dot with three digits after it: a decimal number in English, thousands in German, Spanish and other languages."""


def pin_user_questions(params: UserSourceParams) -> CheckedUserTables:
    """Check and pin the tables of a source; UsageError for a name that is a foundation's, SourceError as `check_and_digest_user_tables`."""
    if params.source_name and params.source_name.casefold() in FOUNDATIONS:
        raise UsageError(
            f"--source-name {params.source_name}: this is a foundation, whose rows have rules of their own; name your source otherwise"
        )
    try:
        return check_and_digest_user_tables(params, USER_QUESTION_FORM, id_field="id")
    except SourceError as error:
        if params.map or params.source_split:
            raise
        raise SourceError(f"{error}; and no file has the columns of a foundation ({', '.join(FOUNDATIONS)})") from error


def read_user_questions(source: SourceFile, own: UserSourceSettings) -> Iterator[ParsedSourceRow]:
    """Yield each row of a table as a question or reject; ids are those of the rows, or mine_0, …, by position, behind the
    name of the source."""
    file = Path(source.name)
    stem = source.name.removeprefix(f"{own.name}/").removesuffix(file.suffix)
    label = _UNSAFE_CHARACTERS.sub("-", own.name)
    for row in iterate_user_table(source, own, USER_QUESTION_FORM):
        fields = row.fields
        given = None if isinstance(fields, str) else fields["id"]
        place = given or f"{stem}_{row.number - 1}"
        row_id = f"{label}_{place}" if label else f"{stem}_{given}" if given else place
        outcome: FoundationQuestion | Reject
        if not isinstance(fields, str) and (problem := _find_ambiguous_number_problem(fields["answer"][0], row.raw)):
            fields = problem
        if isinstance(fields, str):
            outcome = Reject(row_id, MALFORMED_ROW, fields)
        else:
            answer, *others = fields["answer"]
            outcome = FoundationQuestion(
                id=row_id,
                source_dataset=own.name or file.stem,
                domain=fields["domain"] or _NO_DOMAIN,
                licence=fields["licence"] or source.licence,
                input=fields["question"],
                output=answer,
                optional_output=[each for each in dict.fromkeys([*others, *fields["aliases"]]) if each != answer],
                incorrect_answers=fields["incorrect_answers"],
                context=fields["context"],
                source_name=source.name,
                source_row=row.number,
            )
        yield ParsedSourceRow(row_id, dump_row(row.raw).encode("utf-8", "backslashreplace").decode(), outcome)


def _find_ambiguous_number_problem(answer: str, raw: Any) -> str:
    """Return why an answer such as `8.611 Meter` is not read, with both readings; empty for another answer.

    A number that a JSON or Parquet file holds as a number is a decimal number.
    """
    found = _AMBIGUOUS_NUMBER.fullmatch(answer)
    if not found or any(
        isinstance(cell, float | Decimal) and str(cell) == answer for cell in _iterate_nested_row_values(raw)
    ):
        return ""
    whole, rest, unit = found["thousands"], found["rest"], found["unit"]
    return (
        f"the answer {answer!r} has two readings: {whole}{rest}{unit}, with a dot between thousands, or the decimal number "
        f"{whole}.{rest}{unit}; write {whole}{rest}{unit}, or the decimal number with another count of decimal places, such as "
        f"{whole}.{rest}0{unit}"
    )


def _iterate_nested_row_values(raw: Any) -> Iterator[Any]:
    """Yield the values of a row, those in lists and objects too."""
    if isinstance(raw, Mapping):
        raw = raw.values()
    elif not isinstance(raw, list | tuple):
        yield raw
        return
    for each in raw:
        yield from _iterate_nested_row_values(each)
