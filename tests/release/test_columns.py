"""What every column of a release means is said, and which metric stands for its benchmark."""

import pytest

from flows.benchmarks import BENCHMARKS
from flows.evaluate.evaluations import EVALUATIONS
from flows.releases.forms import RELEASES
from tasks.core.rows import column_docs


@pytest.mark.parametrize("name", RELEASES)
def test_every_column_says_what_it_means(name: str) -> None:
    for config in RELEASES[name].configs:
        for table in config.splits.values():
            docs = column_docs(BENCHMARKS[name].tables[table])
            assert [column for column, told in docs.items() if not told] == [], table


@pytest.mark.parametrize("name", RELEASES)
def test_the_headline_is_that_of_the_evaluation(name: str) -> None:
    assert RELEASES[name].card.headline == EVALUATIONS[name].main
