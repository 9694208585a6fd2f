"""Test the choice of the next piece of knowledge."""

import itertools
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.biokalma.core.evolution import (
    CoherenceScale,
    choose_piece_or_missing_perplexities,
    classify_deciding_score,
    compute_coherence_among_candidates,
    compute_inverse_graph_frequency,
    count_pools_by_relation,
    list_addable_values_by_relation,
    list_candidates_tried_then_by_score,
    list_known_pieces_of_complete_relations,
    list_people_without_pieces,
    list_semantically_new_pieces,
)
from factmill.tasks.biokalma.core.rows import ParagraphEvolutionRound, ScoredRelationOfPerson
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece

SCALES = get_args(CoherenceScale)


def make_piece(pid: str, value: str = "x", qid: str = "Q1", value_qid: str | None = "Q5") -> PersonKnowledgePiece:
    return PersonKnowledgePiece(
        qid=qid, pid=pid, property=pid, value_qid=value_qid, value=value, precision=None, statement=None
    )


A, B, C = make_piece("P1"), make_piece("P2"), make_piece("P3")


def test_relation_counts_once_per_graph_however_many_values_it_has() -> None:
    first, second, third = [A, make_piece("P1", "y"), B], [make_piece("P1", qid="Q2")], [C, B]
    assert count_pools_by_relation([first, second, third]) == {"P1": 2, "P2": 2, "P3": 1}


def test_person_in_two_pairs_counts_twice() -> None:
    assert count_pools_by_relation([[A], [B], [A], [C]]) == {"P1": 2, "P2": 1, "P3": 1}


def weigh_all(perplexities: Sequence[float | None]) -> dict[int, float | None]:
    return dict(enumerate(perplexities))


def choose(
    specificity: Sequence[float],
    perplexities: Mapping[int, float | None] = MappingProxyType({}),
    refused: Sequence[int] = (),
    alpha: float = 0.5,
    scale: CoherenceScale = "softmax",
) -> int | list[int]:
    """Choose among the first of A, B and C."""
    pieces = [A, B, C][: len(specificity)]
    return choose_piece_or_missing_perplexities(pieces, specificity, perplexities, refused, alpha, scale)


def test_scores_follow_equation_1() -> None:
    # N = 2 pairs, so 4 graphs; P1 is in all, P2 in two, P3 in one; perplexities 2, 4 and 5, α = 0.25
    # specificity: log(4/4) = 0, log(4/2) = 0.693147, log(4/1) = 1.386294
    # 1/perplexity: 0.5, 0.25, 0.2; e to that: 1.648721, 1.284025, 1.221403; their sum: 4.154149
    # coherence: 1.648721/4.154149 = 0.396885, 0.309094, 0.294020
    # score: 0.25 · 0 + 0.75 · 0.396885 = 0.297664
    #        0.25 · 0.693147 + 0.75 · 0.309094 = 0.173287 + 0.231821 = 0.405108
    #        0.25 · 1.386294 + 0.75 · 0.294020 = 0.346574 + 0.220515 = 0.567089
    specificity = [compute_inverse_graph_frequency(count, 4) for count in (4, 2, 1)]
    found = list_candidates_tried_then_by_score([A, B, C], specificity, weigh_all([2.0, 4.0, 5.0]), [], 0.25, "softmax")
    expected = [
        ("P3", 1.386294, 5.0, 0.294020, 0.567089),
        ("P2", 0.693147, 4.0, 0.309094, 0.405108),
        ("P1", 0.0, 2.0, 0.396885, 0.297664),
    ]
    for each, wanted in zip(found, expected, strict=True):
        assert each.pid == wanted[0]
        assert (each.specificity, each.perplexity, each.coherence, each.score) == pytest.approx(wanted[1:], abs=1e-6)


def test_coherence_can_outweigh_specificity_with_range_scale() -> None:
    specificity, perplexities = [math.log(4), math.log(2)], weigh_all([50.0, 20.0])
    assert compute_coherence_among_candidates([50.0, 20.0, 25.0], "range") == pytest.approx([0.0, 1.0, 2 / 3])
    assert [choose(specificity, perplexities, scale=scale) for scale in ("softmax", "range")] == [0, 1]


def test_alpha_1_uses_specificity_alone_and_alpha_0_coherence_alone() -> None:
    specificity = [0.0, 0.5, 1.0]
    for scale in SCALES:
        assert choose(specificity, alpha=1, scale=scale) == 2
        assert choose(specificity, alpha=0, scale=scale) == [0, 1, 2]
        assert choose(specificity, weigh_all([2.0, 4.0, 5.0]), alpha=0, scale=scale) == 0
    result = list_candidates_tried_then_by_score([A, B, C], specificity, {}, [2], 1, "softmax")
    found = [(each.score, each.coherence, each.is_weighed) for each in result]
    assert found == [(score, None, False) for score in (1.0, 0.5, 0.0)]


def test_lead_beyond_reach_of_coherence_needs_no_perplexity() -> None:
    assert choose([2.0, 1.0, 0.0]) == 0
    assert choose([2.0, 2.0, 0.0]) == [0, 1], "only equally specific facts get a perplexity"
    weighed: dict[int, float | None] = {0: 9.0, 1: 8.0}
    assert [choose([2.0, 2.0, 0.0], weighed, refused) for refused in ((), [1], [0, 1])] == [1, 0, 2]


PERPLEXITY = st.none() | st.sampled_from([1.0, 1.5, 2.0, 30.0, 30.1]) | st.floats(1, 500)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.3, 1.0]) | st.floats(0, 4), PERPLEXITY), min_size=1, max_size=9),
    st.sampled_from([0.0, 0.02, 0.5, 0.97, 1.0]) | st.floats(0, 1),
    st.sampled_from(SCALES),
    st.integers(0, 2),
)
def test_lazy_choice_equals_choice_with_all_perplexities(
    known: list[tuple[float, float | None]], alpha: float, scale: CoherenceScale, refused: int
) -> None:
    pieces = [make_piece(f"P{at + 1}") for at in range(len(known))]
    specificity, perplexities = [each for each, _ in known], [each for _, each in known]
    out = list(range(min(refused, len(known) - 1)))
    weighed: dict[int, float | None] = {}
    while isinstance(
        wanted := choose_piece_or_missing_perplexities(pieces, specificity, weighed, out, alpha, scale), list
    ):
        assert wanted
        assert not weighed.keys() & set(wanted)
        weighed |= {at: perplexities[at] for at in wanted}
    everything = list_candidates_tried_then_by_score(pieces, specificity, weigh_all(perplexities), out, alpha, scale)
    assert everything[len(out)].pid == pieces[wanted].pid
    result = list_candidates_tried_then_by_score(pieces, specificity, weighed, [*out, wanted], alpha, scale)
    assert {each.pid for each in result} == {each.pid for each in everything}
    assert {each.pid for each in result if each.is_weighed} == {pieces[at].pid for at in weighed}


def a_round(*candidates: tuple[float, bool], refused: int = 0) -> ParagraphEvolutionRound:
    lines = [
        ScoredRelationOfPerson(
            qid="Q1", pid="P1", value="x", specificity=specificity, is_weighed=weighed, perplexity=None, coherence=None,
            score=None,
        )
        for specificity, weighed in candidates
    ]  # fmt: skip
    return ParagraphEvolutionRound(
        number=2, chosen=[], sentence="", candidates=lines, refused=["x"] * refused, removed_citations=0,
        unstated_citations=0, call="",
    )  # fmt: skip


def test_round_reports_which_score_decided_it() -> None:
    assert classify_deciding_score(a_round((2.0, False), (1.0, False))) == "specificity"
    assert classify_deciding_score(a_round((1.0, True), (2.0, True))) == "coherence"
    assert classify_deciding_score(a_round((2.0, True), (2.0, True), (1.0, False))) == "coherence among equals"
    after_one = a_round((2.0, True), (1.0, True), (1.0, True), refused=1)
    assert classify_deciding_score(after_one) == "coherence among equals"
    assert classify_deciding_score(a_round((2.0, False), (2.0, False))) == "specificity", "ids decide between equals"


def test_specificity_is_zero_for_relation_in_all_graphs_and_highest_for_rarest() -> None:
    assert compute_inverse_graph_frequency(200, 200) == 0
    assert compute_inverse_graph_frequency(100, 200) == pytest.approx(math.log(2))
    assert compute_inverse_graph_frequency(1, 200) == pytest.approx(5.298317, abs=1e-6)


@pytest.mark.parametrize("count", [0, 5])
def test_relation_count_out_of_range_raises(count: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 4"):
        compute_inverse_graph_frequency(count, 4)


@pytest.mark.parametrize(
    ("perplexities", "coherence"),
    [
        ([3.0, 3.0], [0.5, 0.5]),
        ([1.0, 1.0, 1.0, 1.0], [0.25] * 4),
        ([1.0, math.inf], [math.e / (math.e + 1), 1 / (math.e + 1)]),
        ([math.inf, math.inf], [0.5, 0.5]),
        ([None, None], [0.5, 0.5]),
        ([1.0, None, math.inf], [math.e / (math.e + 2), 1 / (math.e + 2), 1 / (math.e + 2)]),
        ([5e-324, 0.5, 1.0], [1 / 3] * 3),
    ],
)
def test_coherence_handles_equal_tiny_and_infinite_perplexities(
    perplexities: list[float | None], coherence: list[float]
) -> None:
    assert compute_coherence_among_candidates(perplexities, "softmax") == pytest.approx(coherence)


@pytest.mark.parametrize("perplexity", [0.0, -1.0, math.nan])
def test_invalid_perplexity_raises(perplexity: float) -> None:
    with pytest.raises(ValueError, match="expected a number above 0"):
        compute_coherence_among_candidates([2.0, perplexity], "softmax")


@given(st.lists(st.none() | st.floats(1, allow_infinity=True), min_size=1, max_size=30), st.sampled_from(SCALES))
def test_coherence_is_higher_for_lower_perplexity(perplexities: list[float | None], scale: CoherenceScale) -> None:
    coherence = compute_coherence_among_candidates(perplexities, scale)
    assert math.fsum(coherence) == pytest.approx(1) if scale == "softmax" else max(coherence) in (0, 1)
    assert all(0 <= each <= 1 for each in coherence)
    least = [math.inf if each is None else each for each in perplexities]
    for (one, other), (high, low) in zip(itertools.pairwise(least), itertools.pairwise(coherence), strict=True):
        assert (one <= other and high >= low) or (one > other and high <= low)


def test_equal_scores_are_ordered_by_person_property_and_value_numbers() -> None:
    pieces = [
        make_piece("P10", "b", "Q2"),
        make_piece("P9", "b", "Q10"),
        make_piece("P10", "b", "Q2", "Q30"),
        make_piece("P9", "b", "Q2"),
        make_piece("P10", "b", "Q2", None),
        make_piece("P10", "a", "Q2", None),
    ]
    expected = [pieces[3], pieces[5], pieces[4], pieces[0], pieces[2], pieces[1]]
    for order in itertools.permutations(pieces):
        for alpha, weighed in ((0.5, weigh_all([4.0] * 6)), (1.0, {})):
            first = choose_piece_or_missing_perplexities(order, [1.0] * 6, weighed, (), alpha, "softmax")
            assert isinstance(first, int)
            assert order[first] == expected[0]
            result = list_candidates_tried_then_by_score(order, [1.0] * 6, weighed, [first], alpha, "softmax")
            assert [(each.qid, each.pid, each.value) for each in result] == [
                (each.qid, each.pid, each.value) for each in expected
            ]


def test_people_without_pieces_are_listed() -> None:
    assert list_people_without_pieces(["Q1", "Q2"], []) == ["Q1", "Q2"]
    assert list_people_without_pieces(["Q1", "Q2"], [A]) == ["Q2"]
    assert list_people_without_pieces(["Q2", "Q2"], [A]) == ["Q2"]
    assert list_people_without_pieces(["Q1"], [A, B]) == []


def test_relation_is_added_with_all_missing_values_or_not_at_all() -> None:
    jobs = [make_piece("P106", job, value_qid=f"Q{at}") for at, job in enumerate("abcdef", start=10)]
    places = [make_piece("P551", place, value_qid=f"Q{at}") for at, place in enumerate(("Paris", "Paris", "Rome"), 20)]
    others = [make_piece("P106", "a", "Q2", "Q10")]
    pool = [*jobs, *places, *others, A]
    # of two values with the same label one is enough; six are too many for a sentence
    assert list_addable_values_by_relation([], pool, {}) == [[places[0], places[2]], others, [A]]
    found = list_addable_values_by_relation([jobs[0], jobs[5], places[1]], pool, {})
    assert found == [jobs[1:5], [places[2]], others, [A]]
    assert list_addable_values_by_relation(pool, pool, {}) == []


def test_minimum_set_holds_complete_relations_and_link_between_pair() -> None:
    first, second = make_piece("P40", "Bob", value_qid="Q2"), make_piece("P40", "Eve", value_qid="Q3")
    jobs = [make_piece("P106", job, value_qid=job) for job in ("Q10", "Q11")]
    pool, people = [A, first, second, *jobs], {"Q1": "Ada", "Q2": "Bob"}
    assert list_known_pieces_of_complete_relations([A, first, jobs[0]], pool, people) == [A, first]
    assert list_known_pieces_of_complete_relations([second, jobs[1], jobs[0]], pool, people) == jobs[::-1]
    assert list_known_pieces_of_complete_relations([A, first], pool, {"Q1": "Ada"}) == [A]


def test_namesake_of_pair_member_is_not_added() -> None:
    names = {"Q1": "Winston Churchill", "Q2": "Randolph Churchill"}
    father = make_piece("P22", "Randolph Churchill", value_qid="Q2")
    namesake = make_piece("P22", "Winston Churchill", qid="Q2", value_qid="Q3")
    assert list_addable_values_by_relation([], [father, namesake, A], names) == [[father], [A]]
    assert list_known_pieces_of_complete_relations([father, namesake, A], [father, namesake, A], names) == [father, A]


def test_inverse_of_known_statement_is_not_new() -> None:
    inverses = {"P22": frozenset({"P40"}), "P40": frozenset({"P22", "P25"}), "P26": frozenset({"P26"})}
    child, father = make_piece("P40", value_qid="Q2"), make_piece("P22", qid="Q2", value_qid="Q1")
    wife, husband = make_piece("P26", value_qid="Q3"), make_piece("P26", qid="Q3", value_qid="Q1")
    other = make_piece("P22", qid="Q2", value_qid="Q9")
    pieces = [child, father, wife, husband, other, child]
    assert list_semantically_new_pieces(pieces, [], inverses) == [child, wife, other]
    assert list_semantically_new_pieces([child, wife], [father], inverses) == [wife]
    assert list_semantically_new_pieces([child], [father], {}) == [child]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(("P26", "P451"), ("P509", "P1050"), ("P103", "P1412"), ("P607", "P1344")),
        *(("P19", "P551"), ("P1066", "P737"), ("P1066", "P184"), ("P802", "P185")),
    ],
)
def test_synonymous_relations_with_same_value_count_once(one: str, other: str) -> None:
    first, second = make_piece(one), make_piece(other)
    assert list_semantically_new_pieces([first, second], [], {}) == [first]
    assert list_semantically_new_pieces([first], [second], {}) == []
    elsewhere = make_piece(other, "y", value_qid="Q6")
    assert list_semantically_new_pieces([first, elsewhere], [], {}) == [first, elsewhere]
    of_another = make_piece(other, qid="Q2")
    assert list_semantically_new_pieces([first, of_another], [], {}) == [first, of_another]


@pytest.mark.parametrize(("field", "expected"), [("biology", 1), ("zoology", 2)])
def test_field_of_work_implied_by_occupation_is_not_new(field: str, expected: int) -> None:
    pieces = [make_piece("P106", "biologist", value_qid="Q5"), make_piece("P101", field, value_qid="Q6")]
    for order in (pieces, pieces[::-1]):
        assert len(list_semantically_new_pieces(order, [], {})) == expected
    elsewhere = make_piece("P101", field, qid="Q2", value_qid="Q6")
    assert list_semantically_new_pieces([elsewhere], pieces[:1], {}) == [elsewhere]


def test_partner_counts_as_inverse_of_spouse() -> None:
    inverses = {"P26": frozenset({"P26"}), "P451": frozenset({"P451"})}
    wife, partner = make_piece("P26", value_qid="Q2"), make_piece("P451", qid="Q2", value_qid="Q1")
    assert list_semantically_new_pieces([wife, partner], [], inverses) == [wife]
