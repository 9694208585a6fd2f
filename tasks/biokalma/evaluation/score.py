"""From answers to what is measured of them: citations, whether they are right, and whether sentences bear them out (paper §4.2 to §4.4)."""

from collections.abc import Callable, Mapping
from typing import Protocol

import pyarrow as pa

from tasks.biokalma.core.evaluation.alignment import LEXICAL, Claim, align_lexically, list_claims, make_claim, put_pair
from tasks.biokalma.core.evaluation.citations import Citation, Cited, read_citations
from tasks.biokalma.core.evaluation.geval import RATED
from tasks.biokalma.core.evaluation.known_pieces import make_key
from tasks.biokalma.core.evaluation.rows import BioAnswer, RatedBio, ScoredBio, ScoredCitation
from tasks.biokalma.core.evaluation.scoring import score_citations
from tasks.biokalma.evaluation.ask import BiokalmaEvaluationInputs
from tasks.biokalma.sources.lists import load_relation_forms
from tasks.core.rows import arrow_table, rows_from_arrow
from tasks.models.cross_encoder import ENTAILMENT, PairScorer

_LIKELY = 0.5
"""Probability of entailment from which a triple follows from a sentence."""


class Encoders(Protocol):
    """What opens cross-encoders."""

    def cross_encoder(self, name: str) -> PairScorer:
        """Return the cross-encoder of a name."""


def score_answers(answers: pa.Table, inputs: BiokalmaEvaluationInputs, tools: Encoders) -> pa.Table:
    """Return answers (rows of `RatedBio`, or of `BioAnswer`, which nobody rated) as rows of `ScoredBio`."""
    rows = (
        rows_from_arrow(RatedBio, answers)
        if "judge_calls" in answers.column_names
        else [leave_unrated(row) for row in rows_from_arrow(BioAnswer, answers)]
    )
    read = [read_citations(row.answer_read, row.given) for row in rows]
    aligns, aligner = _choose_aligner(
        {claim for row, cited in zip(rows, read, strict=True) for claim in list_claims(cited, row.removed)},
        inputs.params.nli,
        tools,
    )
    return arrow_table(
        ScoredBio, (_score(row, cited, aligns, aligner, inputs) for row, cited in zip(rows, read, strict=True))
    )


def leave_unrated(row: BioAnswer) -> RatedBio:
    """Return the row of an answer that nobody was asked to rate."""
    return row.extend(RatedBio, **dict.fromkeys(RATED), unrated=[], judge="", judge_calls=[])


def _choose_aligner(claims: set[Claim], model: str | None, tools: Encoders) -> tuple[Callable[[Claim], bool], str]:
    """Return what tells whether a claim holds, by a model or the rule, and what that is called."""
    if model is None:
        return align_lexically, LEXICAL
    encoder = tools.cross_encoder(model)
    ordered = sorted(claims, key=lambda claim: (claim.sentence, claim.piece.model_dump_json()))
    pairs = [put_pair(claim, load_relation_forms()) for claim in ordered]
    likely = encoder.score(pairs, [ENTAILMENT])[:, 0] if pairs else ()
    known: Mapping[Claim, bool] = {claim: bool(each >= _LIKELY) for claim, each in zip(ordered, likely, strict=True)}
    return known.__getitem__, encoder.name


def _score(
    row: RatedBio, cited: Cited, aligns: Callable[[Claim], bool], aligner: str, inputs: BiokalmaEvaluationInputs
) -> ScoredBio:
    graph, wanted = (
        {make_key(piece.qid, piece.property, piece.value) for piece in pieces} for pieces in (row.given, row.minimum)
    )

    def judge(each: Citation) -> ScoredCitation:
        is_correct = is_needed = is_aligned = None
        if each.kind == "triple":
            key = make_key(each.qid, each.property, each.value)
            is_correct, is_needed = key in graph, key in graph & wanted
            is_aligned = aligns(make_claim(cited, each.sentence, each))
        elif each.kind == "not_available":
            is_aligned = any(aligns(make_claim(cited, each.sentence, piece)) for piece in row.removed)
        told = each.model_dump()
        return ScoredCitation(**told, is_correct=is_correct, is_needed=is_needed, is_aligned=is_aligned)

    names = dict(zip(row.retrieved, row.retrieved_names, strict=True))
    return row.extend(
        ScoredBio,
        sentences=cited.sentences,
        citations=[judge(each) for each in cited.citations],
        counts=score_citations(cited, row.given, row.minimum, row.removed, aligns, inputs.params.scorer, names),
        aligner=aligner,
    )
