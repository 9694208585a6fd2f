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
from factmill.tasks.fanoutqa.core.forms.authored import check_authored, read_authored
from factmill.tasks.fanoutqa.core.forms.released import check_released, read_released
from factmill.tasks.fanoutqa.core.forms.shared import Violation, describe_value, violate
from factmill.tasks.fanoutqa.core.questions import (
    LEAST_ARTICLES,
    FanOutQuestion,
    dump_json,
    evidence_to_released,
    to_released,
)
from factmill.tasks.fanoutqa.core.rows import FanOutRow, Split
from factmill.tasks.fanoutqa.core.sets.lists import Property, SetKind, read_fanout_properties, read_fanout_sets
from factmill.tasks.storage.source_files import MALFORMED, ReadRow, SourceFile, iterate_json, judge_rows

FORM = "a JSON list or JSON Lines of questions with strategy (authored), decomposition or necessary_evidence (released)"
INVALID = "invalid_question"

Form = Literal["authored", "released"]


@dataclass(frozen=True, slots=True)
class Examined:
    """A row of a file: its question, or the rules that it breaks."""

    form: Form | None
    """None for a row of neither form; `violations` says so."""
    question: FanOutQuestion | None
    violations: tuple[Violation, ...] = ()


def examine_question(found: object, least_articles: int = LEAST_ARTICLES) -> Examined:
    """Detect the form of a row, check it and parse it; `least_articles` applies to authored questions alone."""
    if not isinstance(found, Mapping):
        return Examined(None, None, (violate("", "no_object", f"expected an object, found {describe_value(found)}"),))
    if "decomposition" in found or "necessary_evidence" in found:
        broken = check_released(found)
        return Examined("released", None if broken else read_released(found), tuple(broken))
    if "strategy" in found or "question" in found:
        broken = check_authored(found, least_articles)
        return Examined("authored", None if broken else read_authored(found), tuple(broken))
    keys = ", ".join(map(describe_value, list(found)[:10])) or "none"
    told = f"expected the keys question and strategy, decomposition or necessary_evidence, found {keys}"
    return Examined(None, None, (violate("", "unknown_form", told),))


def read_question_file(source: SourceFile, least_articles: int = LEAST_ARTICLES) -> Iterator[ReadRow]:
    """Yield the outcome of each row: a FanOutRow under the question's own id, or a Reject under its place in the file.

    SourceError for an unreadable file, and for one without any row of either form.
    """

    def judge(row_id: str, number: int, row: Any) -> FanOutRow | Reject:
        examined = examine_question(row, least_articles)
        if examined.question is None:
            reason = INVALID if examined.form else MALFORMED
            return Reject(row_id, reason, "; ".join(each.sentence for each in examined.violations))
        return _make_row(source, number, examined.question, examined.form == "released")

    return judge_rows(source, source.name.removesuffix(source.path.suffix), iterate_json(source, FORM), judge)


def _make_row(source: SourceFile, number: int, question: FanOutQuestion, is_released: bool) -> FanOutRow:
    part: Split = "dev" if question.decomposition else "test"
    evidence = [evidence_to_released(each) for each in question.necessary_evidence]
    return FanOutRow(
        id=question.id,
        source="released" if is_released else "authored",
        source_name=source.name,
        source_row=number,
        licence=source.licence,
        question=question.question,
        answer=None if question.answer is None else dump_json(question.answer),
        decomposition=dump_json(to_released(question.decomposition)),
        necessary_evidence=dump_json(evidence) if evidence else None,
        categories=list(question.categories),
        published_split=part if is_released else None,
        wording=None,
        statements=[],
        author=None,
    )


@cache
def load_fanout_sets() -> dict[str, SetKind]:
    """Return unit → kind of sets to generate questions from, loaded from `data/lists/fanout_sets.csv`."""
    return read_fanout_sets(asset_path("data/lists", "fanout_sets.csv").read_text("utf-8"))


@cache
def load_fanout_properties() -> dict[tuple[str, str], Property]:
    """Return (PID, members or empty) → phrases of a property, loaded from `data/lists/fanout_properties.csv`."""
    return read_fanout_properties(asset_path("data/lists", "fanout_properties.csv").read_text("utf-8"))
