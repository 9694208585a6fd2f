"""Whether a sentence bears out what it cites (BioKaLMA, §4.3), and which missing knowledge a sentence marked [NA] is about (§4.4).

Both ask of pairs of a sentence and a triple whether the triple follows from the sentence. A cross-encoder tells (sentence ⇒
triple as a sentence), or the rule `lexical`: the value is said in the sentence, a label as a reader takes it, a date in any
writing and no coarser. The rule knows nothing of the property, so it calls more aligned than there is where two properties have
one value, and less where a sentence says the value in other words. The paper's public script looks for the value's letters
before it asks its model, so the rule is that script's first half.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from tasks.biokalma.core.added_sentences import mentions
from tasks.biokalma.core.evaluation.citations import Citation, Cited
from tasks.biokalma.core.knowledge_sentences import RelationForm, verbalise_piece
from tasks.core.authoring.pieces import Piece
from tasks.text.values.answers import KnownText, find_answer, read_known_text

LEXICAL = "lexical"
"""Name of the rule, in tables and reports."""
_SUBJECT = "This person"
"""Whom a triple is about: a sentence may go on with a pronoun, as the paper's pairs name no one."""
_READ_AT_MOST = 2_000
"""Characters of a sentence that are read: a longer one is none."""


class Claim(NamedTuple):
    """A sentence, and a triple that may follow from it."""

    sentence: str
    piece: Piece


def make_claim(cited: Cited, sentence: int, triple: Citation | Piece) -> Claim:
    """Return the claim that a sentence of an answer, by its place, says a triple."""
    if isinstance(triple, Citation):
        triple = Piece(
            qid=triple.qid,
            pid="",
            property=triple.property,
            value_qid=None,
            value=triple.value,
            precision=None,
            statement=None,
        )
    return Claim(cited.sentences[sentence], triple)


def list_marked(cited: Cited) -> list[int]:
    """Return the sentences with [NA], by place, each once."""
    return sorted({each.sentence for each in cited.citations if each.kind == "not_available"})


def list_claims(cited: Cited, removed: Sequence[Piece]) -> Iterator[Claim]:
    """Yield all that scoring asks about an answer: its citations, and its marks with what was removed."""
    for each in cited.citations:
        if each.kind == "triple":
            yield make_claim(cited, each.sentence, each)
    for sentence in list_marked(cited):
        yield from (make_claim(cited, sentence, piece) for piece in removed)


@lru_cache(maxsize=4096)
def align_lexically(claim: Claim) -> bool:
    """Tell by the rule whether a sentence says a triple's value."""
    sentence, piece = claim.sentence[:_READ_AT_MOST], claim.piece
    return bool(sentence) and (mentions(sentence, piece) or find_answer(piece.value, _read(sentence)).found is True)


def put_pair(claim: Claim, forms: Mapping[str, RelationForm]) -> tuple[str, str]:
    """Return premise and hypothesis for a cross-encoder: the sentence, and the triple as one."""
    return claim.sentence[:_READ_AT_MOST], verbalise_piece(claim.piece, _SUBJECT, forms)


@lru_cache(maxsize=64)
def _read(sentence: str) -> KnownText:
    return read_known_text(sentence)
