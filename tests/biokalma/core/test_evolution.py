"""Which piece of knowledge comes next."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.biokalma.core.evolution import (
    count_relations,
    lacks,
    list_new,
    rank_candidates,
    weigh_coherence,
    weigh_specificity,
)
from tasks.core.authoring.pieces import Piece
from tasks.errors import UsageError


def make_piece(pid: str, value: str = "x", qid: str = "Q1", value_qid: str | None = "Q5") -> Piece:
    return Piece(qid=qid, pid=pid, property=pid, value_qid=value_qid, value=value, precision=None, statement=None)


A, B, C = make_piece("P1"), make_piece("P2"), make_piece("P3")


def test_a_relation_counts_once_a_graph_however_many_values_it_has() -> None:
    first, second, third = [A, make_piece("P1", "y"), B], [make_piece("P1", qid="Q2")], [C, B]
    assert count_relations([first, second, third]) == {"P1": 2, "P2": 2, "P3": 1}


def test_a_person_in_two_pairs_counts_twice() -> None:
    assert count_relations([[A], [B], [A], [C]]) == {"P1": 2, "P2": 1, "P3": 1}


def test_scores_follow_equation_1() -> None:
    # N = 2 pairs, so 4 graphs; P1 is in all, P2 in two, P3 in one; perplexities 2, 4 and 5, α = 0.25
    # specificity: log(4/4) = 0, log(4/2) = 0.693147, log(4/1) = 1.386294
    # 1/perplexity: 0.5, 0.25, 0.2; e to that: 1.648721, 1.284025, 1.221403; their sum: 4.154149
    # coherence: 1.648721/4.154149 = 0.396885, 0.309094, 0.294020
    # score: 0.25 · 0 + 0.75 · 0.396885 = 0.297664
    #        0.25 · 0.693147 + 0.75 · 0.309094 = 0.173287 + 0.231821 = 0.405108
    #        0.25 · 1.386294 + 0.75 · 0.294020 = 0.346574 + 0.220515 = 0.567089
    ranked = rank_candidates([A, B, C], [2.0, 4.0, 5.0], {"P1": 4, "P2": 2, "P3": 1}, 4, 0.25)
    assert [piece for piece, _ in ranked] == [C, B, A]
    seen = [(each.pid, each.specificity, each.perplexity, each.coherence, each.score) for _, each in reversed(ranked)]
    expected = [
        ("P1", 0.0, 2.0, 0.396885, 0.297664),
        ("P2", 0.693147, 4.0, 0.309094, 0.405108),
        ("P3", 1.386294, 5.0, 0.294020, 0.567089),
    ]
    for found, wanted in zip(seen, expected, strict=True):
        assert found[0] == wanted[0]
        assert found[1:] == pytest.approx(wanted[1:], abs=1e-6)


def test_alpha_1_is_specificity_and_alpha_0_coherence_alone() -> None:
    counts = {"P1": 4, "P2": 2, "P3": 1}
    assert [piece for piece, _ in rank_candidates([A, B, C], [2.0, 4.0, 5.0], counts, 4, 1)] == [C, B, A]
    by_coherence = rank_candidates([A, B, C], [2.0, 4.0, 5.0], counts, 4, 0)
    assert [piece for piece, _ in by_coherence] == [A, B, C]
    assert [each.score for _, each in by_coherence] == [each.coherence for _, each in by_coherence]


@pytest.mark.parametrize("alpha", [-0.01, 1.01, math.nan, math.inf])
def test_an_alpha_beyond_0_to_1_is_refused(alpha: float) -> None:
    with pytest.raises(UsageError, match="expected a weight from 0"):
        rank_candidates([A], [2.0], {"P1": 1}, 2, alpha)


def test_a_relation_that_all_graphs_hold_says_nothing_and_one_seen_once_most() -> None:
    assert weigh_specificity(200, 200) == 0
    assert weigh_specificity(100, 200) == pytest.approx(math.log(2))
    assert weigh_specificity(1, 200) == pytest.approx(5.298317, abs=1e-6)


@pytest.mark.parametrize("count", [0, 5])
def test_a_relation_that_was_not_counted_right_stops_the_run(count: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 4"):
        rank_candidates([A], [2.0], {"P1": count, "P2": 1}, 4, 0.5)


def test_a_pool_of_one_piece_has_one_candidate() -> None:
    ((piece, candidate),) = rank_candidates([A], [7.5], {"P1": 1}, 2, 0.5)
    assert piece == A
    assert candidate.coherence == 1.0
    assert candidate.score == pytest.approx(0.5 * math.log(2) + 0.5)


def test_an_empty_pool_has_none() -> None:
    assert rank_candidates([], [], {}, 2, 0.5) == []


@pytest.mark.parametrize(
    ("perplexities", "coherence"),
    [
        ([3.0, 3.0], [0.5, 0.5]),
        ([1.0, 1.0, 1.0, 1.0], [0.25] * 4),
        ([1.0, math.inf], [math.e / (math.e + 1), 1 / (math.e + 1)]),
        ([math.inf, math.inf], [0.5, 0.5]),
        ([None, None], [0.5, 0.5]),
        ([1.0, None, math.inf], [math.e / (math.e + 2), 1 / (math.e + 2), 1 / (math.e + 2)]),
        ([5e-324, 5e-324, 1.0], [0.5, 0.5, 0.0]),
        ([1e-300, 2e-300], [1.0, 0.0]),
    ],
)
def test_coherence_of_equal_tiny_and_infinite_perplexities(
    perplexities: list[float | None], coherence: list[float]
) -> None:
    assert weigh_coherence(perplexities) == pytest.approx(coherence)


@pytest.mark.parametrize("perplexity", [0.0, -1.0, math.nan])
def test_what_is_no_perplexity_stops_the_run(perplexity: float) -> None:
    with pytest.raises(ValueError, match="expected a number above 0"):
        weigh_coherence([2.0, perplexity])


@given(st.lists(st.none() | st.floats(0, exclude_min=True, allow_infinity=True), min_size=1, max_size=30))
def test_coherence_adds_up_to_1_and_favours_what_is_less_perplexing(perplexities: list[float | None]) -> None:
    coherence = weigh_coherence(perplexities)
    assert math.fsum(coherence) == pytest.approx(1)
    assert all(0 <= each <= 1 for each in coherence)
    least = [math.inf if each is None else each for each in perplexities]
    for (one, other), (high, low) in zip(itertools.pairwise(least), itertools.pairwise(coherence), strict=True):
        assert (one <= other and high >= low) or (one > other and high <= low)


def test_equal_scores_go_by_the_numbers_of_person_property_and_value() -> None:
    pieces = [
        make_piece("P10", "b", "Q2"),
        make_piece("P9", "b", "Q10"),
        make_piece("P10", "b", "Q2", "Q30"),
        make_piece("P9", "b", "Q2"),
        make_piece("P10", "b", "Q2", None),
        make_piece("P10", "a", "Q2", None),
    ]
    counts = {"P9": 1, "P10": 1}
    expected = [pieces[3], pieces[5], pieces[4], pieces[0], pieces[2], pieces[1]]
    for order in itertools.permutations(pieces):
        assert [piece for piece, _ in rank_candidates(order, [4.0] * 6, counts, 4, 0.5)] == expected


def test_who_has_no_piece_yet_is_lacking() -> None:
    assert lacks(["Q1", "Q2"], []) == ["Q1", "Q2"]
    assert lacks(["Q1", "Q2"], [A]) == ["Q2"]
    assert lacks(["Q2", "Q2"], [A]) == ["Q2"]
    assert lacks(["Q1"], [A, B]) == []


def test_what_is_said_the_other_way_round_is_not_new() -> None:
    inverses = {"P22": frozenset({"P40"}), "P40": frozenset({"P22", "P25"}), "P26": frozenset({"P26"})}
    child, father = make_piece("P40", value_qid="Q2"), make_piece("P22", qid="Q2", value_qid="Q1")
    wife, husband = make_piece("P26", value_qid="Q3"), make_piece("P26", qid="Q3", value_qid="Q1")
    other = make_piece("P22", qid="Q2", value_qid="Q9")
    assert list_new([child, father, wife, husband, other, child], [], inverses) == [child, wife, other]
    assert list_new([child, wife], [father], inverses) == [wife]
    assert list_new([child], [father], {}) == [child]
