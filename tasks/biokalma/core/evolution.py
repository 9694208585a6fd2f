"""Choose the piece of knowledge that a paragraph gains next, by specificity and coherence (BioKaLMA, Equation 1).

    score = α · log(2N / Count) + (1 − α) · coherence

N pairs have 2N persons' graphs. Count is the number of graphs in which the piece's relation occurs, so a relation in
all graphs scores 0, however many values it has in each. Coherence is computed from 1/perplexity of the paragraph so far
with the piece's sentence, over the candidates of one round, in one of two ways:

| scale | coherence | |
|---|---|---|
| softmax | softmax(1/perplexity) | the paper's formula; nearly flat over a pool, so it only breaks specificity ties |
| range | from 0, the round's least coherent piece, to 1, its most coherent one | weighs as much as a relation that is e times as rare |

A text that the model finds impossible (infinite perplexity) counts as 1/∞ = 0, and so does one that it cannot score
(None): it ranks as least coherent and remains a candidate. The paper does not give α; at 0 only coherence counts, at 1
only specificity. Ties go by id, so that every build ranks alike.

Perplexity is most of a build's work. No perplexity is below 1, so 1/perplexity lies between 0 and 1, which bounds how
far coherence can raise a piece: `choose_piece_or_missing_perplexities` asks only for perplexities that can change the choice.

Count belongs to a relation, so the candidates are a person's relations, each with all values that the set lacks. All
values of a relation together answer a question about it, so the final set holds complete relations (`list_known_pieces_of_complete_relations`).
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from factmill.tasks.biokalma.core.rows import ParagraphEvolutionRound, ScoredRelationOfPerson
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.text.text_normalization import fold_case_accents_and_punctuation
from factmill.tasks.text.wikidata_ids import get_wikidata_id_number

CoherenceScale = Literal["softmax", "range"]
"""How inverse perplexities become coherence."""
_DIGITS = 9
"""Digits of a score: logarithms and exponentials may differ in the sixteenth digit where a CPU lacks FMA."""
_SCORE_TOLERANCE = 2 * 10**-_DIGITS
"""Scores that differ by more than this still differ after rounding."""
_EQUIVALENT_RELATIONS = {
    **{"P451": "P26", "P1050": "P509", "P1412": "P103", "P1344": "P607"},
    **{"P551": "P19", "P184": "P1066", "P737": "P1066", "P185": "P802"},
}
"""Relation → one with the same or nearly the same meaning: partner and spouse, medical condition and cause of death,
language spoken and native language, taking part in a war and the war itself, home and birthplace, doctoral advisor or
influence and teacher, doctoral student and student."""
MAX_VALUES_PER_SENTENCE = 4
"""Maximum values that one sentence can add; a relation that lacks more is not added."""
_WORK_PIDS, _STEM_LENGTH = {"P101", "P106"}, 5
"""Field of work and occupation are equivalent where their values begin alike: mathematics, mathematician."""


def count_pools_by_relation(pools: Iterable[Iterable[PersonKnowledgePiece]]) -> Counter[str]:
    """Return PID → number of pools (one per person of a pair) with the relation, however many values each has."""
    return Counter(pid for pool in pools for pid in {piece.pid for piece in pool})


def compute_inverse_graph_frequency(count: int, graph_count: int) -> float:
    """Return log(2N / Count) of a relation in `count` of the 2N `graphs`; ValueError unless 1 ≤ count ≤ graphs."""
    if not 1 <= count <= graph_count:
        raise ValueError(f"the relation occurs in {count} of {graph_count} graphs; expected 1 to {graph_count}")
    return math.log(graph_count / count)


def compute_coherence_among_candidates(perplexities: Sequence[float | None], scale: CoherenceScale) -> list[float]:
    """Return the coherence of each candidate of a round; ValueError for a perplexity that is not above 0.

    None, for a text that could not be scored, counts as ∞; a value below 1, which no probability gives, as 1. On the
    scale `range`, candidates with equal perplexities all have 0.
    """
    raw = [_compute_raw_coherence(perplexity, scale) for perplexity in perplexities]
    if scale == "softmax":
        total = math.fsum(raw)
        return [each / total for each in raw]
    least, most = min(raw, default=0.0), max(raw, default=0.0)
    return [(each - least) / (most - least) if most > least else 0.0 for each in raw]


def choose_piece_or_missing_perplexities(
    pieces: Sequence[PersonKnowledgePiece],
    specificity: Sequence[float],
    perplexities: Mapping[int, float | None],
    refused: Collection[int],
    alpha: float,
    scale: CoherenceScale,
) -> int | list[int]:
    """Return the index of the piece with the best score among those not refused, or the indices to be scored first.

    `perplexities` maps index → known perplexity. The choice is the one that all perplexities together would give. First,
    pieces that lag by more than coherence can make up are excluded. Second, scores of the others differ by
    α·Δspecificity + (1−α)·factor·Δraw, where unknown perplexities only bound the factor; an order that holds at both
    bounds holds between them.
    """
    left = [at for at in range(len(pieces)) if at not in refused]
    order = {at: _get_piece_sort_key(pieces[at]) for at in left}
    lead = max(specificity[at] for at in left)
    reach = (1 - alpha) * (1.0 if scale == "range" else (math.e - 1) / (math.e + len(pieces) - 1)) + _SCORE_TOLERANCE
    running = [at for at in left if alpha * (lead - specificity[at]) <= reach]
    if alpha == 1 or len(running) == 1:
        return min(running, key=lambda at: (-round(specificity[at], _DIGITS), order[at]))
    if unknown := [at for at in running if at not in perplexities]:
        return unknown
    if len(perplexities) == len(pieces):
        shares = compute_coherence_among_candidates([perplexities[at] for at in range(len(pieces))], scale)
        return min(
            running, key=lambda at: (-_combine_specificity_and_coherence(specificity[at], shares[at], alpha), order[at])
        )
    raw = {at: _compute_raw_coherence(perplexity, scale) for at, perplexity in perplexities.items()}
    lows, highs = (
        {at: alpha * specificity[at] + (1 - alpha) * factor * raw[at] for at in running}
        for factor in _bound_raw_to_coherence_factor(list(raw.values()), len(pieces), scale)
    )
    best = min(running, key=lambda at: (-lows[at], order[at]))
    is_sure = all(
        (specificity[best], raw[best]) == (specificity[at], raw[at])
        or min(lows[best] - lows[at], highs[best] - highs[at]) > _SCORE_TOLERANCE
        for at in running
    )
    return best if is_sure else [at for at in range(len(pieces)) if at not in perplexities]


def list_candidates_tried_then_by_score(
    pieces: Sequence[PersonKnowledgePiece],
    specificity: Sequence[float],
    perplexities: Mapping[int, float | None],
    tried: Sequence[int],
    alpha: float,
    scale: CoherenceScale,
) -> list[ScoredRelationOfPerson]:
    """Return a round's candidates with their known scores: those tried, in order, then by score, else by specificity.

    Coherence depends on all candidates, so it and the score are given only where all perplexities are known.
    """
    is_whole = len(perplexities) == len(pieces)
    shares = (
        compute_coherence_among_candidates([perplexities[at] for at in range(len(pieces))], scale) if is_whole else []
    )
    candidates = [
        ScoredRelationOfPerson(
            qid=piece.qid,
            pid=piece.pid,
            value=piece.value,
            specificity=round(specificity[at], _DIGITS),
            is_weighed=at in perplexities,
            perplexity=perplexities.get(at),
            coherence=round(shares[at], _DIGITS) if is_whole else None,
            score=_combine_specificity_and_coherence(specificity[at], shares[at] if is_whole else 0.0, alpha)
            if is_whole or alpha == 1
            else None,
        )
        for at, piece in enumerate(pieces)
    ]
    ranks = [each.specificity if each.score is None else each.score for each in candidates]
    rest = sorted({*range(len(pieces))}.difference(tried), key=lambda at: (-ranks[at], _get_piece_sort_key(pieces[at])))
    return [candidates[at] for at in (*tried, *rest)]


def classify_deciding_score(
    evolution_round: ParagraphEvolutionRound,
) -> Literal["specificity", "coherence", "coherence among equals"]:
    """Return which score decided a round among the pieces not refused: specificity (ids break ties), or coherence."""
    left = evolution_round.candidates[len(evolution_round.refused) :]
    if left[0].specificity < max(each.specificity for each in left):
        return "coherence"
    equals = [each for each in left if each.specificity == left[0].specificity]
    return "coherence among equals" if sum(each.is_weighed for each in equals) > 1 else "specificity"


def list_semantically_new_pieces(
    pieces: Iterable[PersonKnowledgePiece],
    known: Sequence[PersonKnowledgePiece],
    inverses: Mapping[str, frozenset[str]],
) -> list[PersonKnowledgePiece]:
    """Return the pieces that neither `known` nor an earlier piece states, even in the inverse direction.

    A child relation implies a father relation (`inverses`, PairRelationCatalog), and some relations mean the same for one
    value (a partner who is the spouse), so a smallest set holds only one of the two.
    """
    seen = set(map(_get_equivalence_key, known))
    new = []
    for piece in pieces:
        qid, pid, value_qid, value = _get_equivalence_key(piece)
        turned = {(value_qid, _EQUIVALENT_RELATIONS.get(other, other), qid) for other in inverses.get(pid, ())}
        if (qid, pid, value_qid, value) in seen or not turned.isdisjoint(each[:3] for each in seen):
            continue
        if any(
            each[0] == qid and {each[1], pid} == _WORK_PIDS and each[3][:_STEM_LENGTH] == value[:_STEM_LENGTH]
            for each in seen
        ):
            continue
        new.append(piece)
        seen.add((qid, pid, value_qid, value))
    return new


def list_addable_values_by_relation(
    known: Sequence[PersonKnowledgePiece], pool: Sequence[PersonKnowledgePiece], names: Mapping[str, str]
) -> list[list[PersonKnowledgePiece]]:
    """Return, per relation of each person, the values that `known` lacks, where one sentence can add them.

    `names`: QID → name of the two people; a sentence cannot name a third person with the same name as one of them.
    """
    held = set(map(_get_value_label_key, known))
    missing: dict[tuple[str, str], dict[str, PersonKnowledgePiece]] = {}
    for piece in pool:
        if _get_value_label_key(piece) not in held:
            missing.setdefault((piece.qid, piece.pid), {}).setdefault(piece.value, piece)
    return [
        list(values.values())
        for values in missing.values()
        if len(values) <= MAX_VALUES_PER_SENTENCE
        and not any(_is_value_namesake_of_either_person(piece, names) for piece in values.values())
    ]


def list_known_pieces_of_complete_relations(
    known: Sequence[PersonKnowledgePiece], pool: Sequence[PersonKnowledgePiece], names: Mapping[str, str]
) -> list[PersonKnowledgePiece]:
    """Return the pieces of relations whose pool values are all known, and those whose value is one of the two people.

    `names` as above. Questions ask for the relation between the two itself, so it needs none of its other values.
    """
    held = set(map(_get_value_label_key, known))
    lacking = (
        each
        for each in pool
        if _get_value_label_key(each) not in held or _is_value_namesake_of_either_person(each, names)
    )
    partial = {(piece.qid, piece.pid) for piece in lacking}
    return [piece for piece in known if (piece.qid, piece.pid) not in partial or piece.value_qid in names]


def list_people_without_pieces(people: Iterable[str], pieces: Iterable[PersonKnowledgePiece]) -> list[str]:
    """Return the people (QIDs) that no piece is about, in order, each once."""
    covered = {piece.qid for piece in pieces}
    return [qid for qid in dict.fromkeys(people) if qid not in covered]


def _get_value_label_key(piece: PersonKnowledgePiece) -> tuple[str, str, str]:
    """Return the key by which a reader distinguishes pieces: two values with one label are the same."""
    return piece.qid, piece.pid, piece.value


def _is_value_namesake_of_either_person(piece: PersonKnowledgePiece, names: Mapping[str, str]) -> bool:
    """True when a piece's value has the name of one of the two people but is another item."""
    folded = map(fold_case_accents_and_punctuation, names.values())
    return piece.value_qid not in names and fold_case_accents_and_punctuation(piece.value) in folded


def _get_equivalence_key(piece: PersonKnowledgePiece) -> tuple[str, str, str | None, str]:
    """Return a piece's meaning, equal for equivalent relations."""
    return piece.qid, _EQUIVALENT_RELATIONS.get(piece.pid, piece.pid), piece.value_qid, piece.value


def _compute_raw_coherence(perplexity: float | None, scale: CoherenceScale) -> float:
    """Return a text's own part of coherence: 1/perplexity, or e to the power of it for softmax."""
    if perplexity is not None and not perplexity > 0:
        raise ValueError(f"perplexity {perplexity}: expected a number above 0, or None if there is no perplexity")
    inverse = 0.0 if perplexity is None else 1 / max(perplexity, 1.0)
    return math.exp(inverse) if scale == "softmax" else inverse


def _bound_raw_to_coherence_factor(known: Sequence[float], number: int, scale: CoherenceScale) -> tuple[float, float]:
    """Return the bounds of the factor that turns raw values into coherence, when only some of `number` are known."""
    if scale == "softmax":
        total, unknown = math.fsum(known), number - len(known)
        return 1 / (total + unknown * math.e), 1 / (total + unknown)
    spread = max(known) - min(known)
    # equal values differ by 0, whatever the factor
    return 1.0, 1 / spread if spread else 1.0


def _combine_specificity_and_coherence(specificity: float, coherence: float, alpha: float) -> float:
    return round(alpha * specificity + (1 - alpha) * coherence, _DIGITS)


def _get_piece_sort_key(piece: PersonKnowledgePiece) -> tuple[int, int, int, str]:
    """Return a piece's sort key, by id numbers; a date, which has no value item, gets 0."""
    value = get_wikidata_id_number(piece.value_qid) if piece.value_qid else 0
    return get_wikidata_id_number(piece.qid), get_wikidata_id_number(piece.pid), value, piece.value
