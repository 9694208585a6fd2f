"""SLAQ as commands know it."""

from collections.abc import Iterator

from tasks.core.review import ReviewItem
from tasks.engine.benchmark import Assets, Benchmark
from tasks.slaq.core.rows import CategoryCount, SlaqRow
from tasks.slaq.params import SlaqParams, lock_inputs


def explain_row(row: SlaqRow) -> Iterator[str]:
    """Yield what a row says, as lines to read."""
    yield f"  source      {row.URL}, revision {row.revid}, of {row.Category} ({row.licence})"
    yield f"  page views  {row.Pageviews:,} ({row.half} viewed of its category)"
    for number, kind in enumerate(row.fact_types, 1):
        question, answer = getattr(row, f"ShortQ{number}"), getattr(row, f"ShortA{number}")
        yield f"  {number}. {kind:8} {question} — {answer}"
    yield f"  long        {row.LongQ}"
    yield f"              {row.LongA}"
    reviewed = f"; reviewed by {', '.join(row.reviewed_by)}" if row.reviewed_by else ""
    yield f"  made by     author {row.author}, judge {row.judge}, fact types {row.fact_types_by}{reviewed}"


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
    recipe="flows.slaq:slaq",
    tables={"slaq": SlaqRow, "slaq_categories": CategoryCount, "slaq_review": ReviewItem},
    main_table="slaq",
    part="Category",
    shown={"id": "id", "Topic": "topic", "half": "viewed", "ShortQ1": "first question", "ShortA1": "answer"},
    trace=("id", "Category"),
    explain=explain_row,
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
