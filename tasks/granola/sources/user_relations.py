"""Reader of relations that the user adds: a table of properties and question templates (GRANOLA-EQ, Appendix B, Table 4)."""

from collections.abc import Mapping, Sequence
from functools import cache

from factmill.tasks.assets import load_entity_questions_relations
from factmill.tasks.core.question_relations import QuestionRelation, find_question_template_problem
from factmill.tasks.core.table_columns import ExpectedTableField, TableForm, UserSourceSettings, resolve_table_columns
from factmill.tasks.errors import SourceError
from factmill.tasks.storage.source_files import SourceFile
from factmill.tasks.storage.user_tables import iterate_user_table, list_table_columns
from factmill.tasks.text.wikidata_ids import is_pid

RELATION_FORM: TableForm = (
    ExpectedTableField("pid", "id of the property, like P2632", is_required=True),
    ExpectedTableField(
        "template", "question with [X] for the subject: Where was [X] held in custody?", is_required=True
    ),
    ExpectedTableField("label", "name of the property; without it, its id"),
)
RELATION_FILE = "relations"
"""Name of the manifest's file group of the user's relations."""


@cache
def read_user_relations(source: SourceFile) -> Mapping[str, QuestionRelation]:
    """Return PID → relation of a table of relations, in its order.

    SourceError for an unreadable file, a missing column, and a row without a PID or a usable template.
    """
    columns = resolve_table_columns(str(source.path), RELATION_FORM, {}, list_table_columns(source))
    found: dict[str, QuestionRelation] = {}
    for row in iterate_user_table(source, UserSourceSettings(columns=columns), RELATION_FORM):
        place = f"{source.path}: row {row.number}"
        if isinstance(row.fields, str):
            raise SourceError(f"{place}: {row.fields}")
        pid, template = row.fields["pid"], row.fields["template"]
        if not is_pid(pid):
            raise SourceError(
                f"{place}: expected the id of a property in the column {columns['pid']}, like P2632, found {pid!r}"
            )
        if pid in found:
            raise SourceError(f"{place}: {pid} is in the file twice; expected each property once")
        if problem := find_question_template_problem(template):
            raise SourceError(f"{place}: {problem}, found {template!r}")
        found[pid] = QuestionRelation(pid, row.fields["label"] or pid, template, True, frozenset(), frozenset())
    return found


def load_packaged_and_user_relations(files: Sequence[SourceFile]) -> dict[str, QuestionRelation]:
    """Return PID → relation: factmill's own, and those of the user's files, which replace equal ones."""
    return load_entity_questions_relations() | {
        pid: each for file in files for pid, each in read_user_relations(file).items()
    }
