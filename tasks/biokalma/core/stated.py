"""Which citations of round 1 the paragraph bears out (BioKaLMA, Appendix A.3, Table 9).

A citation counts where its piece is in the pool and its value stands in the sentence it is cited for: a label as a reader
takes it, in the singular or plural, a date in any writing and no coarser than the piece. Where the value is one of the two
people, it is enough that the paragraph names them, since a sentence may go on with a pronoun. A model that cites what the
text does not say would put the pool into the set, so one that does little else is not believed at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.biokalma.core.added_sentences import mentions
from tasks.biokalma.core.naming import names_person
from tasks.core.authoring.citations import AnnotatedText, match_citations
from tasks.core.authoring.pieces import Piece
from tasks.text.sentences import split_sentences
from tasks.text.values.answers import find_answer, read_known_text

_MANY = 3


@dataclass(frozen=True, slots=True)
class StatedKnowledge:
    """What became of the citations of a paragraph."""

    pieces: tuple[Piece, ...]
    """That the text states, in its order, each once."""
    removed: int
    """Citations that are in no pool."""
    unstated: tuple[Piece, ...]
    """That are cited, but not for a text that says their value."""

    @property
    def is_overdone(self) -> bool:
        """True when most of what is cited, three pieces at least, is not stated."""
        return len(self.unstated) >= max(_MANY, len(self.pieces) + 1)


def find_stated(annotated: AnnotatedText, pool: Sequence[Piece], names: Mapping[str, str]) -> StatedKnowledge:
    """Tell the citations of a paragraph apart; `names` are those of the two people by QID."""
    ends = _find_ends(annotated.text)
    stated: dict[Piece, None] = {}
    cited: dict[Piece, None] = {}
    removed = 0
    for citation in annotated.citations:
        matched = match_citations([citation], pool)
        removed += matched.removed
        # a citation stands behind the words that it is for
        start, end = next((span for span in ends if citation.start <= span[1]), (0, len(annotated.text)))
        for piece in matched.pieces:
            cited.setdefault(piece)
            if _is_said(piece, annotated.text[start:end], annotated.text, names):
                stated.setdefault(piece)
    return StatedKnowledge(tuple(stated), removed, tuple(piece for piece in cited if piece not in stated))


def _find_ends(text: str) -> list[tuple[int, int]]:
    """Return where each sentence begins and ends."""
    spans, at = [], 0
    for sentence in split_sentences(text):
        at = text.index(sentence, at)
        spans.append((at, at + len(sentence)))
        at += len(sentence)
    return spans


def _is_said(piece: Piece, sentence: str, text: str, names: Mapping[str, str]) -> bool:
    if mentions(sentence, piece):
        return True
    if piece.value_qid is None:
        return False
    if piece.value_qid in names:
        others = [name for qid, name in names.items() if qid != piece.value_qid]
        return names_person(text, names[piece.value_qid], others[0] if others else "")
    return find_answer(piece.value, read_known_text(sentence)).found is True
