"""The `Benchmark` record of SLAQ: what commands show, audit and build."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from factmill.tasks.assets import load_article_text_removal_rules
from factmill.tasks.core.measures.audits import AuditCriterion, AuditProtocol
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import BuildRowMatchingRules
from factmill.tasks.engine.benchmark import Benchmark, BenchmarkAssetNames
from factmill.tasks.slaq.core.pair_replies import PAIRS_PER_TOPIC
from factmill.tasks.slaq.core.rows import CategoryPageCount, SlaqTopicRow
from factmill.tasks.slaq.params import SlaqParams, resolve_slaq_inputs
from factmill.tasks.text.article_html import extract_article_text
from factmill.tasks.text.sentences import split_sentences
from factmill.tasks.text.text_normalization import normalized_words

EVIDENCE_SENTENCES_PER_ANSWER = 1
"""Sentences of the article that an audit shows for each answer, at most."""


def format_slaq_row(row: SlaqTopicRow) -> Iterator[str]:
    """Yield the lines that `factmill explain` prints for a row."""
    yield f"  source      {row.source_name}, row {row.source_row}, of {row.Category} ({row.source_licence})"
    yield f"  article     {row.URL}, revision {row.revid} ({row.licence})"
    yield f"  page views  {row.Pageviews:,} (in the {row.half} viewed half of its category)"
    for number, kind in enumerate(row.fact_types, 1):
        question, answer = getattr(row, f"ShortQ{number}"), getattr(row, f"ShortA{number}")
        yield f"  {number}. {kind:8} {question} — {answer}"
    yield f"  long        {row.LongQ}"
    yield f"              {row.LongA}"
    reviewed = f"; reviewed by {', '.join(row.reviewed_by)}" if row.reviewed_by else ""
    yield f"  made by     author {row.author}, judge {row.judge}, fact types {row.fact_types_by}{reviewed}"


def format_article_sentences_with_answers(row: SlaqTopicRow, calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield for each answer the sentences of the recorded article that contain it, closest to the question first."""
    pages = [str(call["body"]["text"]) for call in calls if call["operation"] == "page_text" and call["status"] == "ok"]
    lines = [
        line
        for page in pages
        for line in extract_article_text(page, load_article_text_removal_rules()).text.splitlines()
    ]
    sentences = [sentence for line in lines for sentence in split_sentences(line)]
    yield "  in the article:"
    for number in range(1, PAIRS_PER_TOPIC + 1):
        question, answer = getattr(row, f"ShortQ{number}"), getattr(row, f"ShortA{number}")
        asked = set(normalized_words(question))
        found = [sentence for sentence in sentences if answer.rstrip(".").casefold() in sentence.casefold()]
        found.sort(key=lambda sentence: -len(asked.intersection(normalized_words(sentence))))
        yield f"    {number}. {' … '.join(found[:EVIDENCE_SENTENCES_PER_ANSWER]) or 'not word for word'}"


SLAQ_AUDIT = AuditProtocol(
    paper_section="the paper: 77 of 3,600 pairs",
    list_evidence=format_article_sentences_with_answers,
    criteria=(
        AuditCriterion(
            "faulty_pairs",
            "How many of the six pairs cannot be answered without the article, or are wrong?",
            maximum=6,
            paper_value=0.0214,
        ),
        AuditCriterion("restating", "Does the long answer restate its subject in every sentence?"),
    ),
)


SLAQ = Benchmark(
    name="slaq",
    title="SLAQ: the same facts in short and long questions, from articles of fifteen categories",
    examples=(
        "factmill build slaq",
        "factmill build slaq --world my-world.toml --categories Astronomy --per-half 5",
        "factmill build slaq --review manual",
    ),
    params=SlaqParams,
    resolve_inputs=resolve_slaq_inputs,
    recipe="factmill.flows.slaq:slaq",
    evaluation="factmill.tasks.slaq.evaluation.definition:SLAQ_EVALUATION",
    analysis="factmill.tasks.slaq.mechanism.benchmark:SLAQ_MECHANISM",
    release="factmill.tasks.slaq.release:SLAQ_RELEASE",
    page="factmill.tasks.slaq.release:draw_slaq_distributions",
    narrowing_params=frozenset({"categories", "candidates"}),
    tables={"slaq": SlaqTopicRow, "slaq_categories": CategoryPageCount, "slaq_review": ReviewItem},
    main_table="slaq",
    group_column="Category",
    value_labels=lambda: {"half": {"most": "most viewed", "least": "least viewed"}},
    pilot_stage="write_questions",
    pilot_strata_columns=("category",),
    pilot_balance_column="half",
    display_columns={"id": "id", "Topic": "topic", "half": "viewed", "ShortQ1": "first question", "ShortA1": "answer"},
    trace_id_columns=("id", "Category"),
    matching=BuildRowMatchingRules(
        # an id joins category and page id, and several categories may contain one page
        keys=(("id",), ("URL",)),
        provenance_columns=("source_name", "source_row"),
        list_source_ids=lambda row: (f"{row['source_name']}:{row['source_row']}",),
        get_draw_unit=lambda row: str(row["Category"]),
        cross_row_stages=("merge_duplicate_pages", "split_topics_by_views", "balance_halves"),
    ),
    explain=format_slaq_row,
    audit=SLAQ_AUDIT,
    reads_wikipedia_files=True,
    required_services=lambda params: ("wikipedia",) if params.source else ("wikipedia", "pageviews"),
    assets=BenchmarkAssetNames(
        prompts=("slaq/generate", "slaq/check", "slaq/fact_type"),
        lists=(
            "slaq_categories.txt",
            "source_phrases.txt",
            "one_of_many.txt",
            "function_words.txt",
            "removed_from_articles.txt",
        ),
    ),
)
