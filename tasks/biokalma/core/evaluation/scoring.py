"""Score an answer's citations as counts, from which micro and macro metrics are computed (BioKaLMA, §4.2 to §4.4).

A citation is **correct** if the graph shown to the model has its triple letter for letter: QID, property label and
value label, or their ids. Only invisible differences are ignored (entities, spaces, full-width marks). Dates are labels
too: the graph shows them in the form to be cited. A triple that differs in case, accents, punctuation or date format is
not correct, but counts as `near`. A citation is **needed** if it is correct and in the minimum set. Every citation
counts, also a repeated one: the paper averages over all citations. A piece of the minimum set is **found** once, by a
correct citation. Pieces removed from the graph stay in the minimum set, so recall falls (Table 5). A malformed citation
is not correct.

**Marks** are sentences with [NA]. A mark is right if one of the removed pieces follows from its sentence; a removed
piece is found if it follows from a sentence with [NA]. §4.5 also calls a mark right if its sentence does not answer the
question. Nothing identifies such sentences, not even the paper's script, so they do not count as right here.

A citation is **aligned** if its triple follows from its sentence (§4.3). A cross-encoder decides (sentence ⇒ triple as
a sentence), or the rule `lexical`: the sentence states the value, a label as a reader recognises it, a date in any
format and no coarser. The rule ignores the property, so it overcounts where two properties share a value, and
undercounts where a sentence paraphrases the value. The paper's public script searches for the value's letters before it
asks its model, so the rule is the first half of that script.

The scorer `upstream` reads and counts citations as the public script does. A bracket ends at the first "]", the QID is
the text before the first comma, and parts are cut at ": " and at the last ", " before it. Precision is the number of
cited pieces of the minimum set over all citations, whether or not the graph has them, so citing a piece twice lowers
it. Empty answers, and those with an empty graph, are left out. In its graphs `name` and `qid` are ordinary properties,
so a cited name is a citation, correct where it equals the graph's; the scorer `fixed` leaves names out of both counts.
Marks and alignment follow the paper with either scorer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from factmill.tasks.biokalma.core.author_replies import mentions_value
from factmill.tasks.biokalma.core.citations import AnswerCitation, CitedAnswer, TripleKey, make_triple_key
from factmill.tasks.biokalma.core.evaluation.rows import CheckedCitation, CitationCounts, CitationScorer
from factmill.tasks.biokalma.core.knowledge_sentences import RelationWording, verbalise_piece
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.text.text_normalization import fold_case_accents_and_punctuation
from factmill.tasks.text.values.answer_search import IndexedText, find_answer_and_missing_parts, index_text
from factmill.tasks.text.values.dates_and_numbers import is_same_date

LEXICAL_ALIGNER = "lexical"
"""Name of the lexical rule in tables and reports."""
_HYPOTHESIS_SUBJECT = "This person"
"""Subject of every hypothesis: a sentence may use a pronoun, and the paper's pairs name no one."""
_MAX_SENTENCE_CHARACTERS = 2_000
"""Maximum characters read of a sentence: anything longer is no sentence."""


class SentenceAlignmentClaim(NamedTuple):
    """A sentence, and a triple that may follow from it."""

    sentence: str
    piece: PersonKnowledgePiece


def make_alignment_claim(
    cited: CitedAnswer, sentence: int, triple: AnswerCitation | PersonKnowledgePiece
) -> SentenceAlignmentClaim:
    """Return the claim that an answer's sentence (by index) states a triple."""
    if isinstance(triple, AnswerCitation):
        triple = PersonKnowledgePiece(
            qid=triple.qid,
            property=triple.property,
            value=triple.value,
            pid="",
            value_qid=None,
            precision=None,
            statement=None,
        )
    return SentenceAlignmentClaim(cited.sentences[sentence], triple)


def list_na_marked_sentence_indices(cited: CitedAnswer) -> list[int]:
    """Return the indices of sentences with [NA], each once."""
    return sorted({each.sentence for each in cited.citations if each.kind == "not_available"})


def list_claims_of_citations_and_na_marks(
    cited: CitedAnswer, removed: Sequence[PersonKnowledgePiece]
) -> Iterator[SentenceAlignmentClaim]:
    """Yield all claims to check for an answer: its citations, and each marked sentence with each removed piece."""
    for each in cited.citations:
        if each.kind == "triple":
            yield make_alignment_claim(cited, each.sentence, each)
    for sentence in list_na_marked_sentence_indices(cited):
        yield from (make_alignment_claim(cited, sentence, piece) for piece in removed)


@lru_cache(maxsize=4096)
def is_aligned_lexically(claim: SentenceAlignmentClaim) -> bool:
    """Return whether, by the lexical rule, a sentence states a triple's value."""
    sentence, piece = claim.sentence[:_MAX_SENTENCE_CHARACTERS], claim.piece
    return bool(sentence) and (
        mentions_value(sentence, piece)
        or find_answer_and_missing_parts(piece.value, _index_sentence(sentence)).found is True
    )


def make_entailment_pair(claim: SentenceAlignmentClaim, wordings: Mapping[str, RelationWording]) -> tuple[str, str]:
    """Return premise and hypothesis for a cross-encoder: the sentence, and the triple as a sentence."""
    return claim.sentence[:_MAX_SENTENCE_CHARACTERS], verbalise_piece(claim.piece, _HYPOTHESIS_SUBJECT, wordings)


@lru_cache(maxsize=64)
def _index_sentence(sentence: str) -> IndexedText:
    return index_text(sentence)


def score_citations(
    cited: CitedAnswer,
    shown: Sequence[PersonKnowledgePiece],
    minimum: Sequence[PersonKnowledgePiece],
    removed: Sequence[PersonKnowledgePiece],
    aligns: Callable[[SentenceAlignmentClaim], bool],
    scorer: CitationScorer = "fixed",
    names: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[CheckedCitation], CitationCounts]:
    """Return an answer's citations with their scores, and its counts.

    `aligns` decides whether a triple follows from a sentence. `names`: QID → name of the items whose graphs were shown,
    which the scorer `upstream` counts as citations.
    """
    graph, wanted = {_get_triple_key(piece) for piece in shown}, [_get_triple_key(piece) for piece in minimum]
    needed = frozenset(wanted)
    about = {
        sentence: [aligns(make_alignment_claim(cited, sentence, piece)) for piece in removed]
        for sentence in list_na_marked_sentence_indices(cited)
    }

    def hold(each: AnswerCitation) -> CheckedCitation:
        is_correct = is_needed = is_aligned = None
        if each.kind == "triple":
            is_correct = _get_triple_key(each) in graph
            is_needed = is_correct and _get_triple_key(each) in needed
            is_aligned = aligns(make_alignment_claim(cited, each.sentence, each))
        elif each.kind == "not_available":
            is_aligned = any(about[each.sentence])
        return CheckedCitation(**each.model_dump(), is_correct=is_correct, is_needed=is_needed, is_aligned=is_aligned)

    held = [hold(each) for each in cited.citations]
    triples = [each for each in held if each.kind == "triple"]
    malformed = sum(each.kind == "malformed" for each in held)
    counts = {
        "cited": len(triples) + malformed,
        "correct": sum(each.is_correct is True for each in triples),
        "needed": sum(each.is_needed is True for each in triples),
        "found": _count_cited_keys(wanted, (_get_triple_key(each) for each in triples if each.is_correct)),
    }
    if scorer == "upstream":
        counts = _count_citations_by_upstream_rules(cited.answer, shown, minimum, names)
    return held, CitationCounts(
        **counts,
        scorer=scorer,
        malformed=malformed,
        near=_count_citations_wrong_only_in_spelling([each for each in triples if not each.is_correct], shown),
        minimum=len(minimum),
        triples=len(triples),
        aligned=sum(each.is_aligned is True for each in triples),
        marked=len(about),
        marked_right=sum(map(any, about.values())),
        removed=len(removed),
        removed_found=sum(map(any, zip(*about.values(), strict=True))),
        is_left_out=scorer == "upstream" and not (shown and cited.answer),
    )


def _get_triple_key(triple: AnswerCitation | PersonKnowledgePiece) -> TripleKey:
    return make_triple_key(triple.qid, triple.property, triple.value)


def _count_cited_keys(wanted: Iterable[TripleKey], cited: Iterable[TripleKey]) -> int:
    known = frozenset(cited)
    return sum(key in known for key in wanted)


def _count_citations_wrong_only_in_spelling(
    wrong_citations: Sequence[AnswerCitation], shown_pieces: Sequence[PersonKnowledgePiece]
) -> int:
    near: dict[tuple[str, str], set[str]] = {}
    for piece in shown_pieces:
        near.setdefault((piece.qid, fold_case_accents_and_punctuation(piece.property)), set()).add(piece.value)

    def fold(value: str) -> str:
        return fold_case_accents_and_punctuation(value).rstrip(".")

    folded = {place: set(map(fold, values)) for place, values in near.items()}
    places = [((each.qid, fold_case_accents_and_punctuation(each.property)), each.value) for each in wrong_citations]
    return sum(
        place in near and (fold(value) in folded[place] or any(is_same_date(value, other) for other in near[place]))
        for place, value in places
    )


def _count_citations_by_upstream_rules(
    answer: str,
    shown_pieces: Sequence[PersonKnowledgePiece],
    minimum_pieces: Sequence[PersonKnowledgePiece],
    names: Mapping[str, str],
) -> dict[str, int]:
    triples = [triple for line in answer.split("\n") for triple in _read_triples_as_upstream(line)]
    graph, wanted = (
        [(each.qid, each.property, each.value) for each in pieces] for pieces in (shown_pieces, minimum_pieces)
    )
    hit = _count_cited_keys(wanted, triples)
    of_items = [each for qid, name in names.items() for each in ((qid, "name", name), (qid, "qid", qid))]
    known = frozenset([*graph, *of_items])
    return {"cited": len(triples), "correct": sum(each in known for each in triples), "needed": hit, "found": hit}


def _read_triples_as_upstream(line: str) -> Iterator[TripleKey]:
    """Yield the triples that the public script reads in a line."""
    end = 0
    while (start := line.find("[", end)) >= 0 and (end := line.find("]", start) + 1):
        bracket = line[start:end]
        qid = bracket[1:].partition(",")[0]
        cuts = [chunk.rpartition(", ") for chunk in bracket.split(": ")]
        for at, ((_, comma, label), (before, more, rest)) in enumerate(pairwise(cuts)):
            is_last = at == len(cuts) - 2
            value = f"{before}{more}{rest}"[:-1] if is_last else before if more else rest
            if comma and label:
                yield qid, label, value
