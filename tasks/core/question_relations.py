"""Relations of EntityQuestions: question templates, and the entity that a question asks about.

The templates are part of the EntityQuestions format (paper Appendix B, Table 4): `[X]` is the subject. P131 and P276
share one template, so a question alone does not determine its relation; the row names it.
"""

import csv
import io
import re
from dataclasses import dataclass
from functools import cached_property

from factmill.tasks.errors import SettingsError
from factmill.tasks.text.wikidata_ids import is_pid

_RELATION_COLUMNS = ["pid", "label", "template", "kept", "subject_kinds", "answer_kinds"]


@dataclass(frozen=True)
class QuestionRelation:
    """One relation of EntityQuestions."""

    pid: str
    label: str
    """English label of the property."""
    template: str
    """Question with `[X]` in place of the subject."""
    is_default: bool
    """True for the 16 relations that GRANOLA-EQ is built from by default."""
    subject_kinds: frozenset[str]
    """Kinds of entities that the question can be asked about."""
    answer_kinds: frozenset[str]
    """Kinds of entities that can answer the question."""

    @cached_property
    def question_pattern(self) -> re.Pattern[str]:
        """Regular expression that matches a question of this relation; group 1 is the subject."""
        before, after = (
            r"\s+".join(re.escape(word).replace("'", "['’]") for word in re.split(r"\s+", part))
            for part in self.template.removesuffix("?").split("[X]")
        )
        return re.compile(rf"\s*{before}(\S|\S.*?\S)\s*{after}\s*\??\s*", re.DOTALL)


def parse_question_relations_csv(text: str) -> dict[str, QuestionRelation]:
    """Parse the relations file (CSV) to PID → Relation, in file order; SettingsError names an invalid line."""
    reader = csv.DictReader(io.StringIO(text))
    if reader.fieldnames != _RELATION_COLUMNS:
        raise SettingsError(
            f"granola_relations.csv: expected the columns {_RELATION_COLUMNS}, found {reader.fieldnames}"
        )
    found: dict[str, QuestionRelation] = {}
    for line in reader:
        place = f"granola_relations.csv, line {reader.line_num}"
        if None in line.values() or not is_pid(line["pid"]) or line["pid"] in found:
            raise SettingsError(f"{place}: expected six columns and a new PID, found {line}")
        if problem := find_question_template_problem(line["template"]):
            raise SettingsError(f"{place}: {problem}")
        if line["kept"] not in ("yes", "no"):
            raise SettingsError(f"{place}: expected yes or no in column kept, found {line['kept']!r}")
        found[line["pid"]] = QuestionRelation(
            pid=line["pid"],
            label=line["label"],
            template=line["template"],
            is_default=line["kept"] == "yes",
            subject_kinds=frozenset(line["subject_kinds"].split()),
            answer_kinds=frozenset(line["answer_kinds"].split()),
        )
    return found


def find_question_template_problem(template: str) -> str:
    """Return what is wrong with a question template; empty for a usable one."""
    if template.count("[X]") != 1 or not template.endswith("?"):
        return "expected a question with one [X] and a question mark at its end"
    has_words = any(map(str.isalpha, template.replace("[X]", "")))
    return "" if has_words else "expected words around [X], by which questions are told apart"


def extract_subject_name(question: str, relation: QuestionRelation) -> str | None:
    """Return the subject's name, at `[X]` of the template; None unless all words match (not spacing and ?)."""
    match = relation.question_pattern.fullmatch(question)
    return " ".join(match[1].split()) if match else None
