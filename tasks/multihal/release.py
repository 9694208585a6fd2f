"""Publish and release MultiHal (one config per language, as in the paper); report and page figures (Tables 1, 2, 5, 6)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, get_args

import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.measures.counts_and_bins import count_values_sorted_by_value
from factmill.tasks.core.measures.report_figures import ReportFigure
from factmill.tasks.core.publishing.distributions import (
    PublishedBuildForDistributions,
    count_numbers_filling_gaps,
    count_values_commonest_first,
    make_bar_figure,
    make_grouped_bar_figure,
)
from factmill.tasks.core.publishing.release_spec import (
    PERSONAL_INFORMATION_OF_WIKIDATA,
    BenchmarkReleaseSpec,
    DatasetCardSpec,
    DatasetConfigSpec,
    PaperCitation,
    PaperComparisons,
    ParentRowLink,
)
from factmill.tasks.core.rows import arrow_schema, rows_from_arrow
from factmill.tasks.multihal.core.linking import make_subject_target_pairs
from factmill.tasks.multihal.core.rows import (
    LANGUAGE_NAMES,
    LANGUAGE_TAGS,
    AnswerTypedQuestion,
    DroppedPath,
    EntityLinkedQuestion,
    FoundationQuestion,
    MultiHalRow,
    QuestionWithPaths,
    QuestionWithSelectedPaths,
    ScoredPath,
)
from factmill.tasks.multihal.sources.foundations import FoundationName
from factmill.tasks.options import BuildReport

if TYPE_CHECKING:
    from factmill.tasks.engine.batches import StageOutputShards
    from factmill.tasks.engine.building import BuildInProgress


def publish_multihal(build: "BuildInProgress", *stages: "StageOutputShards") -> BuildReport:
    """Publish the main table (a row per path and language) and that of dropped paths; `stages`: in recipe order."""
    read, unique, typed, linked, mined, labelled, selected, scored, translated = stages
    rows, paths, found = translated.table(MultiHalRow), scored.table(ScoredPath), mined.table(QuestionWithPaths)
    united, linked_rows = unique.table(FoundationQuestion), linked.table(EntityLinkedQuestion)
    schema = arrow_schema(DroppedPath)
    dropped = pa.concat_tables([stage.companion_rows(schema) for stage in (mined, labelled, selected)])
    questions = {
        "questions_read": read.table(FoundationQuestion),
        "questions_united": united,
        "questions_typed": typed.table(AnswerTypedQuestion),
        "questions_linked": linked_rows,
        "questions_with_paths": found,
        "questions_with_labelled_paths": labelled.table(QuestionWithPaths),
    }
    source_of_question = dict(
        zip(*(paths[name].to_pylist() for name in ("question_id", "source_dataset")), strict=True)
    )
    facts = {
        **{name: _count_rows_by_foundation(table) for name, table in questions.items()},
        "questions_disputed": _count_rows_by_foundation(
            united.filter(pc.greater(pc.list_value_length(united["disputed_answers"]), 0))
        ),
        "paths_mined": _count_paths_by_foundation(found),
        "paths_labelled": _count_paths_by_foundation(questions["questions_with_labelled_paths"]),
        "paths_selected": _count_paths_by_foundation(selected.table(QuestionWithSelectedPaths)),
        "paths_scored_high": _count_rows_by_foundation(paths),
        "questions_published": count_values_sorted_by_value(source_of_question.values()),
        "rows": _count_rows_by_foundation(rows),
        "domains": count_questions_paths_by_source_domain(
            zip(*(paths[name].to_pylist() for name in ("source_dataset", "domain", "question_id")), strict=True)
        ),
        "pairs": sum(len(make_subject_target_pairs(row)) for row in rows_from_arrow(EntityLinkedQuestion, linked_rows)),
        "paths_in_all": pc.sum(found["paths_in_all"]).as_py() or 0,
        "paths_left_out": count_values_sorted_by_value(dropped["reason"].to_pylist()),
        "answer_types": count_values_sorted_by_value(paths["answer_type"].to_pylist()),
        "languages": count_values_sorted_by_value(rows["language"].to_pylist()),
        "licences": count_values_sorted_by_value(rows["licence"].to_pylist()),
        "chosen_by": count_values_sorted_by_value(paths["chosen_by"].to_pylist()),
    }
    return build.publish({"multihal": rows, "multihal_dropped_paths": dropped}, facts)


def count_questions_paths_by_source_domain(paths: Iterable[tuple[str, str, str]]) -> dict[str, dict[str, int]]:
    """Return "source: domain" → counts of questions and paths, most paths first; `paths`: (source, domain, question id)."""
    of_each = Counter(paths)
    counts: dict[str, dict[str, int]] = {}
    for (source, domain, _), count in of_each.items():
        line = counts.setdefault(f"{source}: {domain}", {"questions": 0, "paths": 0})
        line["questions"] += 1
        line["paths"] += count
    return dict(sorted(counts.items(), key=lambda each: (-each[1]["paths"], each[0])))


def _count_rows_by_foundation(rows: pa.Table) -> dict[str, int]:
    return count_values_sorted_by_value(rows["source_dataset"].to_pylist())


def _count_paths_by_foundation(questions: pa.Table) -> dict[str, int]:
    """Return source → number of its questions' paths."""
    counts: Counter[str] = Counter()
    for source, paths in zip(questions["source_dataset"].to_pylist(), questions["paths"].to_pylist(), strict=True):
        counts[source] += len(paths)
    return dict(sorted(counts.items()))


def compare_multihal_with_paper(facts: Mapping[str, Any], rows: int) -> PaperComparisons:
    """Return this build's figures paired with the paper's (abstract and Table 1)."""
    return {
        "paths published, in all languages": (rows, "25,905 in each of six"),
        "questions with a path": (sum(facts["questions_published"].values()), 7_095),
        "domains": (len(facts["domains"]), 48),
    }


CARD = DatasetCardSpec(
    headline_metric="semantic_score",
    about=(
        "A row is a question from one of seven hallucination benchmarks with its answer and one Wikidata path from the subject "
        "of the question to the answer, judged 4 or 5 of 5, in one of six languages. A model that answers without and with "
        "the path shows what a knowledge graph adds."
    ),
    about_user_source=(
        "A row is a question with its answer and one Wikidata path from the subject of the question to the answer, judged 4 "
        "or 5 of 5, in one language. A model that answers without and with the path shows what a knowledge graph adds."
    ),
    steps={
        "read_foundation": "The rows of the foundations' own files are read; the format of a file identifies its foundation.",
        "deduplicate_foundation_questions": "Equal questions are merged by the cosine of their sentence embeddings, unless they differ in a number, a code or a name, or are based on different passages; answers that agree with no answer of the first question are disputed, and count neither as right nor as wrong.",
        "classify_answer_types": "Refusals are dropped; answers are classified as dates, numbers, ranks and others.",
        "link_entities": "Names in question and answer are linked to Wikidata items.",
        "mine_paths": "All paths between these items are found, of one hop, or of two hops if there is none, in both directions, and also to dates, numbers and ranks.",
        "label_paths": "Items and properties of paths get their labels; a path is dropped if a part has no label, or if its ends have the same label (unless the build keeps such paths).",
        "select_paths": "If there are more than ten paths, a judge chooses ten, in two shuffled passes.",
        "score_paths": "The judge scores each path from 1 to 5 by how much it helps to answer; paths with 4 and 5 are kept.",
        "translate_paths": "Question, answers (right, wrong and disputed) and path are translated; numbers, dates and ids are unchanged.",
    },
    limits=(
        "A path that leads to the answer does not always explain why it is the answer.",
        "Translations are made by machine; `part_sources` shows which labels are Wikidata's own.",
        "Answers are words, sentences or paragraphs, depending on the foundation. Compare models within one `source_dataset`.",
    ),
    compare_with_paper=compare_multihal_with_paper,
    hub_sources={name: f"extended|other-{name}" for name in get_args(FoundationName)},
    personal_information=PERSONAL_INFORMATION_OF_WIKIDATA,
)

MULTIHAL_RELEASE = BenchmarkReleaseSpec(
    paper=PaperCitation(
        title="MultiHal: Multilingual Dataset for Knowledge-Graph Grounded Evaluation of LLM Hallucinations",
        authors=(("Ernests", "Lavrinovics"), ("Russa", "Biswas"), ("Katja", "Hose"), ("Johannes", "Bjerva")),
        year=2025,
        arxiv="2505.14101",
    ),
    card=CARD,
    canary="85025846-c465-4dd4-b162-86d5744f3402",
    source_column="source_dataset",
    licence_column="licence",
    languages=tuple(LANGUAGE_TAGS.values()),
    language_values=LANGUAGE_TAGS,
    configs=(
        DatasetConfigSpec(
            name="multihal",
            title="Questions with judged Wikidata paths that lead to their answers, one row per path",
            splits={"test": "multihal"},
            config_column="language",
            first_value="eng",
        ),
        DatasetConfigSpec(
            name="dropped_paths",
            title="Paths that were left out before scoring, and why",
            splits={"test": "multihal_dropped_paths"},
            parent_link=ParentRowLink(column="question_id", parent_column="question_id"),
        ),
    ),
)


_TABLE = "multihal"


def draw_multihal_distributions(build: PublishedBuildForDistributions) -> Iterator[ReportFigure]:
    """Yield figures that count rows (one per path and language), questions and paths by category."""
    rows = build.load_columns(_TABLE, ["language", "source_dataset", "judged_score", "responses_formatted"])
    hops = pc.divide(pc.subtract(pc.list_value_length(rows["responses_formatted"]), 1), 2)
    lengths = count_numbers_filling_gaps(hops.to_pylist())
    yield make_bar_figure("hops", "Rows by length of the path", "rows", lengths, "hops")
    languages = count_values_commonest_first(LANGUAGE_NAMES.get(each, each) for each in rows["language"].to_pylist())
    yield make_bar_figure("languages", "Rows by language", "rows", languages, "language")
    sources = count_values_commonest_first(rows["source_dataset"].to_pylist())
    yield make_bar_figure("sources", "Rows by source", "rows", sources, "source")
    domains = build.facts.get("domains", {})
    bars = {
        kind: {domain.replace(": N/A", ": no domain"): counts[kind] for domain, counts in domains.items()}
        for kind in ("questions", "paths")
    }
    yield make_grouped_bar_figure("domains", "Questions and paths by domain", "questions or paths", bars, "domain")
    types = dict(sorted(build.facts.get("answer_types", {}).items(), key=lambda each: (-each[1], each[0])))
    yield make_bar_figure("answer_types", "Paths by type of answer", "paths", types, "type")
    scores = count_numbers_filling_gaps(rows["judged_score"].to_pylist())
    yield make_bar_figure("scores", "Rows by the judge's score", "rows", scores, "score")
