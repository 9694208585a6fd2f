"""Reader of questions in tables of the user's own, whatever their columns are called (GRANOLA-EQ)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from factmill.tasks.core.question_relations import QuestionRelation
from factmill.tasks.core.table_columns import ExpectedTableField, TableForm
from factmill.tasks.granola.sources.entity_questions import find_relation_pid_of_file
from factmill.tasks.storage.source_files import list_source_files, peek_columns
from factmill.tasks.text.sanitize import format_did_you_mean
from factmill.tasks.text.wikidata_ids import is_pid

QUESTION_FORM: TableForm = (
    ExpectedTableField("question", "text of the question", is_required=True),
    ExpectedTableField(
        "answers", "the gold answer, or a list of answers that are all the same", "list", True, "answer"
    ),
    ExpectedTableField(
        "relation",
        "id of the property that is asked for (P19), or its label; without it, the file's name begins with it, or --relations says it",
    ),
    ExpectedTableField(
        "subject",
        "name of the entity that is asked about, as the question has it; without it, the question follows the relation's template",
    ),
)


def are_other_than_entityquestions_files(paths: Sequence[Path], relations: Sequence[str]) -> bool:
    """True for a source that holds tables, and not files in the form of EntityQuestions."""
    files = [file for path in paths for file in list_source_files(path, deep=True)]
    given = [file for file in files if file in paths]
    if any(file.suffix.lower() in (".csv", ".tsv", ".parquet") for file in given):
        return True
    if any(find_relation_pid_of_file(file) for file in files) or (given and len(relations) == 1):
        return any("relation" in peek_columns(file) for file in given)
    return any(
        {"question", "relation"} <= {*peek_columns(file)} or file.suffix.lower() in (".csv", ".tsv", ".parquet")
        for file in files
    )


def find_relation(stated: str, relations: Mapping[str, QuestionRelation]) -> str | None:
    """Return the PID of a relation that is named by its PID, address or label; None for an unknown one."""
    pid = stated.rpartition("/")[2].rpartition(":")[2].strip().upper()
    if is_pid(pid):
        return pid if pid in relations else None
    return next((each.pid for each in relations.values() if each.label.casefold() == stated.strip().casefold()), None)


def format_unknown_relation(stated: str, relations: Mapping[str, QuestionRelation]) -> str:
    """Return what is wrong with a relation that is not known, and what to do."""
    if not stated:
        return "the row states no relation; give a column relation, or --relations for all rows"
    labels = [label for each in relations.values() for label in (each.pid, each.label)]
    return (
        f"unknown relation {stated!r}; expected one of {', '.join(relations)}, or one of a file of --relation-file"
        f"{format_did_you_mean(stated, labels)}"
    )
