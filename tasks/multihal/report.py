"""What the page of a build tells of MultiHal's rows: hops, languages, sources, domains, answer types (Tables 1, 2, 5, 6)."""

from collections.abc import Iterator

import pyarrow.compute as pc

from tasks.core.measures.figures import Figure
from tasks.core.publishing.distributions import Published, count_numbers, draw_counts, draw_groups, sort_counts

_TABLE = "multihal"


def list_distributions(build: Published) -> Iterator[Figure]:
    """Yield what rows have how many of; a row is a path in one language."""
    rows = build.read(_TABLE, ["language", "source_dataset", "judged_score", "responses_formatted"])
    hops = pc.divide(pc.subtract(pc.list_value_length(rows["responses_formatted"]), 1), 2)
    yield draw_counts("hops", "Rows by length of the path", "rows", count_numbers(hops.to_pylist()), "hops")
    yield draw_counts("languages", "Rows by language", "rows", sort_counts(rows["language"].to_pylist()), "language")
    sources = sort_counts(rows["source_dataset"].to_pylist())
    yield draw_counts("sources", "Rows by source", "rows", sources, "source")
    domains = build.facts.get("domains", {})
    yield draw_groups(
        "domains",
        "Questions and paths by domain",
        "in the build",
        {kind: {domain: counts[kind] for domain, counts in domains.items()} for kind in ("questions", "paths")},
        "domain",
    )
    yield draw_counts(
        "answer_types",
        "Paths by type of the answer",
        "paths",
        _by_size(build.facts.get("answer_types", {})),
        "type",
    )
    yield draw_counts(
        "scores",
        "Rows by the judge's score",
        "rows",
        count_numbers(rows["judged_score"].to_pylist()),
        "score",
    )


def _by_size(counts: dict[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
