"""Read authored or released question files, and the lists to generate questions from (FanOutQA, §3.1, Appendix E).

A file is a JSON list or JSON Lines. The keys of a row decide its form: `decomposition` (dev split) or
`necessary_evidence` (test split) for the released form, `strategy` for the authored form. A row of neither form is
malformed. A row that breaks rules of its form is rejected, with all broken rules by path.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from factmill.tasks.assets import asset_path
from factmill.tasks.core.rows import Reject
from factmill.tasks.fanoutqa.core.forms.authored import check_authored_question, parse_authored_question
from factmill.tasks.fanoutqa.core.forms.checks import FormViolation, format_value_summary, make_violation
from factmill.tasks.fanoutqa.core.forms.released import check_released_question, parse_released_question
from factmill.tasks.fanoutqa.core.questions import (
    MIN_ARTICLES,
    FanOutQuestion,
    dump_json,
    format_released_decomposition,
    format_released_evidence,
)
from factmill.tasks.fanoutqa.core.rows import SourcedFanOutQuestion, Split
from factmill.tasks.fanoutqa.core.sets.set_kinds import (
    PropertyPhrases,
    SetKind,
    parse_property_phrases,
    parse_set_kinds_csv,
)
from factmill.tasks.storage.source_files import (
    MALFORMED_ROW,
    ParsedSourceRow,
    SourceFile,
    iterate_json,
    parse_source_rows,
)

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
        return ParsedQuestionOrViolations(
            None, None, (make_violation("", "no_object", f"expected an object, found {format_value_summary(found)}"),)
        )
    if "decomposition" in found or "necessary_evidence" in found:
        broken = check_released_question(found)
        return ParsedQuestionOrViolations("released", None if broken else parse_released_question(found), tuple(broken))
    if "strategy" in found or "question" in found:
        broken = check_authored_question(found, least_articles)
        return ParsedQuestionOrViolations("authored", None if broken else parse_authored_question(found), tuple(broken))
    keys = ", ".join(map(format_value_summary, list(found)[:10])) or "none"
    message = f"expected the keys question and strategy, decomposition or necessary_evidence, found {keys}"
    return ParsedQuestionOrViolations(None, None, (make_violation("", "unknown_form", message),))


def read_question_file(source: SourceFile, least_articles: int = MIN_ARTICLES) -> Iterator[ParsedSourceRow]:
    """Yield the outcome of each row: a SourcedFanOutQuestion under the question's own id, or a Reject under its place in the file.

    SourceError for an unreadable file, and for one without any row of either form.
    """

    def judge(row_id: str, number: int, row: Any) -> SourcedFanOutQuestion | Reject:
        examined = check_and_parse_question(row, least_articles)
        if examined.question is None:
            reason = INVALID_QUESTION if examined.form else MALFORMED_ROW
            return Reject(row_id, reason, "; ".join(each.sentence for each in examined.violations))
        return _make_gathered_question(source, number, examined.question, examined.form == "released")

    return parse_source_rows(
        source, source.name.removesuffix(source.path.suffix), iterate_json(source, EXPECTED_FORM), judge
    )


def _make_gathered_question(
    source: SourceFile, number: int, question: FanOutQuestion, is_released: bool
) -> SourcedFanOutQuestion:
    part: Split = "dev" if question.decomposition else "test"
    evidence = [format_released_evidence(each) for each in question.necessary_evidence]
    return SourcedFanOutQuestion(
        id=question.id,
        source="released" if is_released else "authored",
        source_name=source.name,
        source_row=number,
        licence=source.licence,
        question=question.question,
        answer=None if question.answer is None else dump_json(question.answer),
        decomposition=dump_json(format_released_decomposition(question.decomposition)),
        necessary_evidence=dump_json(evidence) if evidence else None,
        categories=list(question.categories),
        published_split=part if is_released else None,
        wording=None,
        statements=[],
        author=None,
    )


@cache
def load_set_kinds() -> dict[str, SetKind]:
    """Return unit → kind of sets to generate questions from, loaded from `data/lists/fanout_sets.csv`."""
    return parse_set_kinds_csv(asset_path("data/lists", "fanout_sets.csv").read_text("utf-8"))


@cache
def load_property_phrases() -> dict[tuple[str, str], PropertyPhrases]:
    """Return (PID, members or empty) → phrases of a property, loaded from `data/lists/fanout_properties.csv`."""
    return parse_property_phrases(asset_path("data/lists", "fanout_properties.csv").read_text("utf-8"))
