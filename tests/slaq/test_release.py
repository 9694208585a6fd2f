"""Test the figures of SLAQ's published rows."""

import pyarrow as pa

from factmill.tasks.core.publishing.distributions import PublishedBuildForDistributions
from factmill.tasks.slaq.release import draw_slaq_distributions


def test_types_of_facts_have_labels_and_answers_without_type_come_last() -> None:
    rows = {"Category": ["Law"], "half": ["most"], "Pageviews": [7], "fact_types": [["none", "none", "GPE", "X"]]}
    *_, figure = draw_slaq_distributions(
        PublishedBuildForDistributions({}, lambda _, columns: pa.table(rows).select(columns))
    )
    (series,) = figure.series
    assert (series.x, series.y) == (("country, region or city", "X", "no type"), (1.0, 1.0, 2.0))
