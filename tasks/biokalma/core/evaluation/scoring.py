"""How good the citations of an answer are, in counts of which micro and macro figures are made (BioKaLMA, §4.2 to §4.4).

**Correct** is a citation whose triple stands in the graph that the model was shown, letter for letter: a QID, the property's
label and the value's, or their ids; of writing only what no reader sees is passed over (entities, spaces, full-width marks).
Dates are labels too: the graph tells them as they are to be cited. What would be right but for case, accents, punctuation
or the writing of a date is not correct, but counted as `near`. **Needed** is one that is correct and in the minimum set.
Every citation counts, also one that was made before: the paper averages over all citations. Of the minimum set a piece is
**found** once, by a correct citation. What was removed from the graph stays in the minimum set, so recall falls with it
(Table 5). A malformed citation is one that is not correct.

**Marks** are sentences with [NA]: right where one of the removed pieces follows from them; a removed piece is found where it
follows from a sentence with [NA]. §4.5 also calls a mark right whose sentence does not answer the question; nothing tells
which these are, in the paper's script either, so none is here.

The scorer `upstream` reads and counts citations as the public script does: brackets go to the first "]", a QID is what
stands before the first comma, parts are cut at ": " and at the last ", " before it; precision is the number of pieces of the minimum set
that are cited, over all citations, whether or not the graph has them, so a second citation of one piece counts against it; answers
that are empty, or whose graph is, are left out. In its graphs `name` and `qid` are properties like any other, so a cited name
is a citation, correct where it equals the graph's; the scorer `fixed` leaves names out of both counts. Marks and alignment are
the paper's with either.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

from tasks.biokalma.core.evaluation.alignment import Claim, list_marked, make_claim
from tasks.biokalma.core.evaluation.citations import Citation, Cited
from tasks.biokalma.core.evaluation.known_pieces import Key, make_key
from tasks.core.authoring.pieces import Piece
from tasks.core.rows import StrictModel
from tasks.text.folded import fold_text
from tasks.text.values.dates import is_same_date

Scorer = Literal["fixed", "upstream"]


class CitationScore(StrictModel):
    """Counts of one answer."""

    scorer: Scorer
    """Whose count it is: the paper's definition, or the public script."""
    cited: int
    """Citations: triples, and what is malformed."""
    malformed: int
    correct: int
    """Triples of the graph that was shown."""
    near: int
    """Triples that would be but for case, accents, punctuation or the writing of a date."""
    needed: int
    """Citations that count for precision: correct ones of the minimum set."""
    minimum: int
    """Pieces of the minimum set."""
    found: int
    """Of these, how many are cited."""
    triples: int
    """Citations that were held against their sentence."""
    aligned: int
    """Of these, how many follow from it."""
    marked: int
    """Sentences with [NA]."""
    marked_right: int
    """Of these, how many are about a removed piece."""
    removed: int
    """Pieces that were removed from the graph."""
    removed_found: int
    """Of these, about how many a sentence with [NA] is."""
    is_left_out: bool
    """True where the public script passes over the answer: its graph is empty, or nothing is said."""


def score_citations(
    cited: Cited,
    given: Sequence[Piece],
    minimum: Sequence[Piece],
    removed: Sequence[Piece],
    aligns: Callable[[Claim], bool],
    scorer: Scorer = "fixed",
    names: Mapping[str, str] = MappingProxyType({}),
) -> CitationScore:
    """Return the counts of an answer; `aligns` tells whether a triple follows from a sentence.

    `names`: QID → name of the items whose graphs were shown, which the scorer `upstream` counts as citations.
    """
    triples = [each for each in cited.citations if each.kind == "triple"]
    malformed = sum(each.kind == "malformed" for each in cited.citations)
    marked = list_marked(cited)
    about = [[aligns(make_claim(cited, sentence, piece)) for piece in removed] for sentence in marked]
    graph = set(map(_key, given))
    keys = list(map(_key, triples))
    wanted = list(map(_key, minimum))
    needed = frozenset(wanted)
    correct = [key for key in keys if key in graph]
    counts = {
        "cited": len(triples) + malformed,
        "correct": len(correct),
        "needed": sum(key in needed for key in correct),
        "found": _count_found(wanted, correct),
    }
    if scorer == "upstream":
        counts = _count_upstream(cited.answer, given, minimum, names)
    return CitationScore(
        **counts,
        scorer=scorer,
        malformed=malformed,
        near=_count_near([each for each, key in zip(triples, keys, strict=True) if key not in graph], given),
        minimum=len(minimum),
        triples=len(triples),
        aligned=sum(aligns(make_claim(cited, each.sentence, each)) for each in triples),
        marked=len(marked),
        marked_right=sum(map(any, about)),
        removed=len(removed),
        removed_found=sum(map(any, zip(*about, strict=True))),
        is_left_out=scorer == "upstream" and not (given and cited.answer),
    )


def _key(triple: Citation | Piece) -> Key:
    return make_key(triple.qid, triple.property, triple.value)


def _count_found(wanted: Sequence[Key], cited: Sequence[Key]) -> int:
    known = frozenset(cited)
    return sum(key in known for key in wanted)


def _count_near(wrong: Sequence[Citation], given: Sequence[Piece]) -> int:
    near: dict[tuple[str, str], set[str]] = {}
    for piece in given:
        near.setdefault((piece.qid, fold_text(piece.property)), set()).add(piece.value)
    folded = {place: {_fold(value) for value in values} for place, values in near.items()}
    places = [((each.qid, fold_text(each.property)), each.value) for each in wrong]
    return sum(
        place in near and (_fold(value) in folded[place] or any(is_same_date(value, other) for other in near[place]))
        for place, value in places
    )


def _fold(value: str) -> str:
    return fold_text(value).rstrip(".")


def _count_upstream(
    answer: str, given: Sequence[Piece], minimum: Sequence[Piece], names: Mapping[str, str]
) -> dict[str, int]:
    triples = [triple for line in answer.split("\n") for triple in _read_upstream(line)]
    graph, wanted = ([(each.qid, each.property, each.value) for each in pieces] for pieces in (given, minimum))
    hit = _count_found(wanted, triples)
    of_items = [each for qid, name in names.items() for each in ((qid, "name", name), (qid, "qid", qid))]
    known = frozenset([*graph, *of_items])
    return {"cited": len(triples), "correct": sum(each in known for each in triples), "needed": hit, "found": hit}


def _read_upstream(line: str) -> Iterator[Key]:
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
