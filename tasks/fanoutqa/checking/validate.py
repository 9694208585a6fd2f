"""`factmill fanoutqa validate`: check question files and format the reports. Nothing here needs a network."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from factmill.tasks import progress
from factmill.tasks.engine.naming.identities import embedder_name
from factmill.tasks.errors import SourceError
from factmill.tasks.fanoutqa.core.flags import FLAGS, find_composition_and_article_flags
from factmill.tasks.fanoutqa.core.forms.checks import FormViolation, format_value_summary, is_empty_answer
from factmill.tasks.fanoutqa.core.forms.released import UnresolvedArticle, list_unresolved_articles
from factmill.tasks.fanoutqa.core.questions import FanOutQuestion, list_article_references, list_sub_questions
from factmill.tasks.fanoutqa.core.rows import QuestionFlag
from factmill.tasks.fanoutqa.review import MIN_DUPLICATE_COSINE, find_near_duplicates
from factmill.tasks.fanoutqa.sources.question_files import EXPECTED_FORM, check_and_parse_question
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.source_files import iterate_numbered_json_values, make_source_file_without_digest
from factmill.tasks.text.values.answer_search import AnswerValue

_MAX_SHOWN_WORDING = 100


@dataclass(frozen=True, slots=True)
class InvalidQuestion:
    """A row that breaks rules of its form."""

    row: int
    """Place in the file, from 1."""
    question: str
    """Its wording; empty if it has none."""
    violations: tuple[FormViolation, ...]


@dataclass(frozen=True, slots=True)
class ValidQuestion:
    """A row that meets all rules of its form."""

    row: int
    form: str
    question: FanOutQuestion
    flags: list[QuestionFlag]
    unresolved: list[UnresolvedArticle]
    """Only of a released question."""


@dataclass(frozen=True, slots=True)
class SimilarQuestionPairs:
    """Pairs of questions with nearly the same wording."""

    embedder: str
    pairs: list[dict[str, Any]]
    """{cosine, one, other} each, the two as {file, row, id, question}."""


@dataclass(frozen=True, slots=True)
class QuestionFileReport:
    """Findings in one question file."""

    file: Path
    valid: list[ValidQuestion] = field(default_factory=list)
    invalid: list[InvalidQuestion] = field(default_factory=list)

    def count(self) -> dict[str, Any]:
        """Return counts by name; all but `questions` and `invalid` cover the valid questions alone."""

        def count_names(names: Iterable[str]) -> dict[str, int]:
            return dict(Counter(names).most_common())

        questions = [each.question for each in self.valid]
        subs = [sub for question in questions for _, sub in list_sub_questions(question)]
        codes = [[flag.code for flag in each.flags] for each in self.valid]
        return {
            "questions": len(self.valid) + len(self.invalid),
            "invalid": len(self.invalid),
            "forms": count_names(each.form for each in self.valid),
            "sub_questions": len(subs),
            "references": sum(len(list_article_references(each)) for each in questions),
            "articles": len({title for question in questions for title in question.articles}),
            "unresolved": sum(len(each.unresolved) for each in self.valid),
            "answers": count_names(name_answer_kind(each.answer) for each in questions),
            "sub_answers": count_names(name_answer_kind(sub.answer) for sub in subs),
            "flags": count_names(chain.from_iterable(codes)),
            "flagged_questions": count_names(chain.from_iterable(map(dict.fromkeys, codes))),
        }

    def find_repeated_ids(self) -> list[dict[str, Any]]:
        """Return the questions whose id occurs earlier in the file; a build keeps the first."""
        first: dict[str, int] = {}
        return [
            {"id": each.question.id, "row": each.row, "first_row": first[each.question.id]}
            for each in self.valid
            if first.setdefault(each.question.id, each.row) != each.row
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the whole report as one JSON object."""
        return {
            "file": str(self.file),
            "counts": self.count(),
            "invalid": [asdict(each) for each in self.invalid],
            "repeated": self.find_repeated_ids(),
            "unresolved": [asdict(reference) for each in self.valid for reference in each.unresolved],
            "flags": [
                {"question_id": each.question.id, **flag.model_dump(include={"code", "path", "detail"})}
                for each in self.valid
                for flag in each.flags
            ],
        }


def validate_question_file(file: Path, least_articles: int) -> QuestionFileReport:
    """Check every question of a file; SourceError if the file is unreadable or has no questions."""
    report = QuestionFileReport(file)
    for number, row in iterate_numbered_json_values(make_source_file_without_digest(file), EXPECTED_FORM):
        found = check_and_parse_question(row, least_articles)
        if found.question is None:
            wording = row.get("question") if isinstance(row, Mapping) else None
            report.invalid.append(InvalidQuestion(number, _make_wording_short_and_printable(wording), found.violations))
        else:
            # authors give no revisions; a build finds them
            unresolved = list_unresolved_articles(found.question) if found.form == "released" else []
            flags = find_composition_and_article_flags(found.question)
            report.valid.append(ValidQuestion(number, str(found.form), found.question, flags, unresolved))
    if not report.valid and not report.invalid:
        raise SourceError(f"{file}: the file has no questions; expected {EXPECTED_FORM}")
    return report


def find_similar_questions(reports: Sequence[QuestionFileReport], world: str) -> SimilarQuestionPairs:
    """Return the pairs of valid questions with nearly the same wording, by the world's sentence encoder."""
    from factmill.tasks.models.embedders import open_shared_embedder

    progress.set_progress_style()
    placed: list[dict[str, Any]] = [
        {"file": str(report.file), "row": each.row, "id": each.question.id, "question": each.question.question}
        for report in reports
        for each in report.valid
    ]
    embedder = open_shared_embedder(embedder_name(load_world(world), factmill_home()), factmill_home())
    if len(placed) < 2:
        return SimilarQuestionPairs(embedder.name, [])
    progress.print_and_log(f"comparing {len(placed):,} questions with {embedder.name}")
    vectors = embedder.encode([each["question"] for each in placed])
    found = find_near_duplicates(vectors)
    pairs = [{"cosine": cosine, "one": placed[one], "other": placed[other]} for one, other, cosine in found]
    return SimilarQuestionPairs(embedder.name, pairs)


def name_answer_kind(answer: AnswerValue | None) -> str:
    """Return the name of an answer's kind, as reports show it."""
    if answer is None:
        return "held back"
    if is_empty_answer(answer):
        return "empty"
    kinds = {bool: "true or false", int: "whole number", float: "decimal number", str: "text"}
    return kinds.get(type(answer)) or type(answer).__name__


def format_file_report(report: QuestionFileReport) -> Iterator[str]:
    """Yield the lines of a file's report."""
    counts = report.count()
    yield f"{report.file}: {counts['questions']} questions ({_join_counts(counts['forms'], 'none valid')})"
    for invalid in report.invalid:
        yield f"  row {invalid.row} is invalid: {invalid.question or '(no wording)'}"
        yield from (f"    {violation.sentence}" for violation in invalid.violations)
    for again in report.find_repeated_ids():
        yield f"  row {again['row']} repeats the id {again['id']} of row {again['first_row']}; a build keeps the first"
    for valid in report.valid:
        if valid.unresolved or valid.flags:
            yield f"  row {valid.row}, {valid.question.id}: {_make_wording_short_and_printable(valid.question.question)}"
            for each in valid.unresolved:
                yield f"    {each.path}: not resolved to a revision: {each.title} ({each.url})"
            yield from (f"    {flag.path or 'top-level question'}: {flag.code}: {flag.detail}" for flag in valid.flags)
    yield (
        f"  valid {len(report.valid)}, invalid {counts['invalid']}; "
        f"sub-questions {counts['sub_questions']}, references {counts['references']} to {counts['articles']} articles, "
        f"not resolved {counts['unresolved']}"
    )
    yield f"  answers: {_join_counts(counts['answers'], 'none')}"
    yield f"  sub-answers: {_join_counts(counts['sub_answers'], 'none')}"
    for code, number in counts["flags"].items():
        yield f"  flag {code}: {number} in {counts['flagged_questions'][code]} questions ({FLAGS[code]})"
    if counts["invalid"]:
        yield "  builds leave out invalid questions; correct them at the places given above and validate again"


def format_similar_pairs(found: SimilarQuestionPairs) -> Iterator[str]:
    """Yield the report lines on pairs of similar questions."""
    yield f"pairs of questions with a cosine of {MIN_DUPLICATE_COSINE} or more by {found.embedder}: {len(found.pairs)}"
    for pair in found.pairs:
        yield f"  {pair['cosine']:.4f}"
        for side in (pair["one"], pair["other"]):
            yield f"    {side['file']} row {side['row']}, {side['id']}: {_make_wording_short_and_printable(side['question'])}"


def _join_counts(counts: Mapping[str, int], none: str) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or none


def _make_wording_short_and_printable(wording: object) -> str:
    if not isinstance(wording, str):
        return "" if wording is None else format_value_summary(wording)
    line = "".join(each if each.isprintable() else "�" for each in " ".join(wording.split()))
    return line if len(line) <= _MAX_SHOWN_WORDING else f"{line[: _MAX_SHOWN_WORDING - 1]}…"
