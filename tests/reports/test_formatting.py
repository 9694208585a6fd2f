"""Test words that pages show for names."""

import pytest

from factmill.tasks.reports.formatting import format_snake_case_as_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("upstream_loose", "loose accuracy, public scorer"),
        ("loose_correctness", "loose correctness"),
        ("rougeL", "ROUGE-L"),
        ("micro_na_f1", "micro [NA] F1"),
        ("na", "na"),
        ("selective_granola_accuracy", "selective GRANOLA accuracy"),
        ("kg_rag - qa", "kg rag − qa"),
    ],
)
def test_metrics_and_settings_have_words(name: str, words: str) -> None:
    assert format_snake_case_as_words(name) == words
