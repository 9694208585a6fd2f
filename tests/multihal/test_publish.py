"""Test MultiHal's report, except the stages' counts."""

from factmill.tasks.multihal.release import count_questions_paths_by_source_domain


def test_domains_report_number_of_questions_and_paths() -> None:
    paths = [("simpleqa", "art", "a"), ("simpleqa", "art", "b"), ("felm", "wk", "c"), ("simpleqa", "art", "a")]
    assert list(count_questions_paths_by_source_domain(paths).items()) == [
        ("simpleqa: art", {"questions": 2, "paths": 3}),
        ("felm: wk", {"questions": 1, "paths": 1}),
    ]
    assert count_questions_paths_by_source_domain([]) == {}
