"""The `Benchmark` record of SLAQ: what commands show, audit and build."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from factmill.tasks.assets import load_removed
from factmill.tasks.core.measures.audits import Audit, AuditKind
from factmill.tasks.core.review import ReviewItem
from factmill.tasks.core.rows import Matching
from factmill.tasks.engine.benchmark import Assets, Benchmark
from factmill.tasks.slaq.core.replies import PAIRS
from factmill.tasks.slaq.core.rows import CategoryCount, SlaqRow
from factmill.tasks.slaq.params import SlaqParams, lock_inputs
from factmill.tasks.text.article import read_article
from factmill.tasks.text.matching import normal_words
from factmill.tasks.text.sentences import split_sentences

MOST_SENTENCES = 1
"""Sentences of the article that an audit shows for each answer, at most."""


def explain_row(row: SlaqRow) -> Iterator[str]:
    """Yield the lines that `factmill explain` prints for a row."""
    yield f"  source      {row.URL}, revision {row.revid}, of {row.Category} ({row.licence})"
    yield f"  page views  {row.Pageviews:,} ({row.half} viewed of its category)"
    for number, kind in enumerate(row.fact_types, 1):
        question, answer = getattr(row, f"ShortQ{number}"), getattr(row, f"ShortA{number}")
        yield f"  {number}. {kind:8} {question} — {answer}"
    yield f"  long        {row.LongQ}"
    yield f"              {row.LongA}"
    reviewed = f"; reviewed by {', '.join(row.reviewed_by)}" if row.reviewed_by else ""
    yield f"  made by     author {row.author}, judge {row.judge}, fact types {row.fact_types_by}{reviewed}"


def find_evidence(row: SlaqRow, calls: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield for each answer the sentences of the recorded article that contain it, closest to the question first."""
    pages = [str(call["body"]["text"]) for call in calls if call["operation"] == "page_text" and call["status"] == "ok"]
    lines = [line for page in pages for line in read_article(page, load_removed()).text.splitlines()]
    sentences = [sentence for line in lines for sentence in split_sentences(line)]
    yield "  in the article:"
    for number in range(1, PAIRS + 1):
        question, answer = getattr(row, f"ShortQ{number}"), getattr(row, f"ShortA{number}")
        asked = set(normal_words(question))
        found = [sentence for sentence in sentences if answer.rstrip(".").casefold() in sentence.casefold()]
        found.sort(key=lambda sentence: -len(asked.intersection(normal_words(sentence))))
        yield f"    {number}. {' … '.join(found[:MOST_SENTENCES]) or 'not word for word'}"


AUDIT = Audit(
    source="the paper: 77 of 3,600 pairs",
    evidence=find_evidence,
    kinds=(
        AuditKind(
            "faulty_pairs",
            "How many of the six pairs cannot be answered without the article, or are wrong?",
            most=6,
            paper=0.0214,
        ),
        AuditKind("restating", "Does the long answer restate its subject in every sentence?"),
    ),
)


SLAQ = Benchmark(
    name="slaq",
    title="SLAQ: the same facts asked short and long, from articles of fifteen categories",
    examples=(
        "factmill build slaq",
        "factmill build slaq --world my-world.toml --category Astronomy --per-half 5",
        "factmill build slaq --review manual",
    ),
    params=SlaqParams,
    lock_inputs=lock_inputs,
    recipe="factmill.flows.slaq:slaq",
    evaluation="factmill.tasks.slaq.evaluation.record:SLAQ_EVALUATION",
    analysis="factmill.tasks.slaq.mechanism.record:MECHANISM",
    release="factmill.tasks.slaq.release:SLAQ_RELEASE",
    page="factmill.tasks.slaq.release:list_distributions",
    narrowing=frozenset({"categories", "candidates"}),
    tables={"slaq": SlaqRow, "slaq_categories": CategoryCount, "slaq_review": ReviewItem},
    main_table="slaq",
    part="Category",
    pilot_at="write_questions",
    pilot_by=("category",),
    pilot_sides="half",
    shown={"id": "id", "Topic": "topic", "half": "viewed", "ShortQ1": "first question", "ShortA1": "answer"},
    trace=("id", "Category"),
    matching=Matching(
        # an id joins category and page id, and several categories may contain one page
        keys=(("id",), ("URL",)),
        unit=lambda row: str(row["Category"]),
        together=("unite_pages", "halve_topics", "balance_halves"),
    ),
    explain=explain_row,
    audit=AUDIT,
    needs=lambda _: ("wikipedia", "pageviews"),
    assets=Assets(
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
