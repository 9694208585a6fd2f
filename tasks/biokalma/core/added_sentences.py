"""What a model added to a paragraph, and whether it brings in the piece of knowledge (BioKaLMA, Appendix A.3, Table 10).

The paper only asks the model for one sentence that holds the knowledge; here a program checks it. The paragraph so far has
to be the beginning of the new one, letter for letter (spaces aside), one sentence is added, and the piece's value stands in
it as a reader would take it: case, accents and forms of quotes do not matter, words are whole, dates are dates.

What is wrong with a paragraph is Unreadable; its reason begins with a code: `text_changed` (the paragraph so far is not the
beginning of the new one), `nothing_added`, `repeated` (what was added stands there already), `several_sentences`,
`unfinished` (a sentence without its end), `value_missing`, `adds` (a name, number, date or unit beyond the pieces and the
people) or `wrong_person` (the sentence names the other of the two alone).
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from tasks.biokalma.core.foreign import find_foreign, list_known
from tasks.biokalma.core.naming import names_person
from tasks.core.authoring.pieces import Piece
from tasks.core.replies import Unreadable
from tasks.text.folded import fold_text, has_words
from tasks.text.matching import normalise
from tasks.text.sentences import split_sentences
from tasks.text.values.dates import says_date

_FINISHED = re.compile(r"[.!?…][\"'”’)\]»]*$")
_STOPS = str.maketrans(".!?…", "____")
_QUALIFIER = re.compile(r"(?<=\S) *\([^()]*\)$")


def check_added(
    old: str, new: str, wanted: Sequence[Piece], pieces: Iterable[Piece], names: Mapping[str, str]
) -> str | Unreadable:
    """Return the one sentence by which a paragraph was extended, spaces made single; Unreadable unless it says what is wanted.

    `wanted` are values of one relation of one person, one at least. Beyond them only the pieces that the paragraph has, and the two people (`names`, by QID), are for the sentence to name.
    """
    added = find_added(old, new, [piece.value for piece in wanted])
    if isinstance(added, Unreadable):
        return added
    if missing := next((piece.value for piece in wanted if not mentions(added, piece)), None):
        return Unreadable(f"value_missing: the added sentence does not say {missing!r}, which it was to say as given")
    if foreign := find_foreign(added, list_known([*wanted, *pieces], names.values())):
        return Unreadable(f"adds: the added sentence says {foreign!r}, which is no part of the fact it was to tell")
    rest = fold_text(added)
    for value in sorted((fold_text(piece.value) for piece in wanted), key=len, reverse=True):
        rest = rest.replace(value, " ")
    own = names.get(wanted[0].qid, "")
    for other in (name for qid, name in names.items() if qid != wanted[0].qid):
        if names_person(rest, other, own) and not names_person(rest, own, other):
            return Unreadable(f"wrong_person: the added sentence names {other}, expected {own}")
    return added


def find_added(old: str, new: str, names: Sequence[str] = ()) -> str | Unreadable:
    """Return the one sentence by which a paragraph was extended, spaces made single.

    `names` are texts whose stops end no sentence, such as a piece's value (Oh! What a Lovely War).
    """
    before, after = _squeeze(old), _squeeze(new)
    added = after.removeprefix(before).lstrip()
    is_same = after.startswith(before)
    if is_same and not any(character.isalnum() for character in added):
        return Unreadable("nothing_added: nothing stands behind the given paragraph, expected one more sentence")
    if not is_same or not _follows(before, after):
        return Unreadable(f"text_changed: the given paragraph was not left as it is, {_describe_change(before, after)}")
    sentences = _split_sentences(added, names)
    known = set(map(normalise, _split_sentences(before, names)))
    if all(normalise(sentence) in known for sentence in sentences):
        return Unreadable("repeated: what was added stands in the given paragraph already, expected a new sentence")
    if len(sentences) > 1:
        return Unreadable(f"several_sentences: {len(sentences)} sentences were added, expected one")
    if not _FINISHED.search(added):
        return Unreadable("unfinished: the added sentence has no end, expected a whole sentence with its full stop")
    return added


def mentions(sentence: str, piece: Piece) -> bool:
    """True when the piece's value is said in a sentence: its label, or its date at its precision or a finer one.

    A qualifier in brackets at the end of a label, as in "Artemisia (film)", need not be there.
    """
    said = says_date(sentence, piece.value) if piece.value_qid is None else None
    return has_words(fold_text(sentence), fold_text(_QUALIFIER.sub("", piece.value))) if said is None else said


def _squeeze(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _follows(before: str, after: str) -> bool:
    """True when what stands behind the text so far begins a sentence, not the rest of a word or clause."""
    rest = after[len(before) :]
    first = rest.lstrip()[0]
    return not before or ((rest[0] == " " or not before[-1].isalnum()) and (first.isalnum() or first in "\"'“‘«([¿¡"))


def _describe_change(before: str, after: str) -> str:
    same = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), None)
    at = min(len(before), len(after)) if same is None else same
    start = max(0, at - 20)
    return f"expected {before[start : at + 20]!r} in it, found {after[start : at + 20]!r}"


def _split_sentences(text: str, names: Sequence[str]) -> list[str]:
    """Return the sentences of a text, the stops inside names made underscores."""
    for inside in filter(None, map(_squeeze, names)):
        text = text.replace(inside, inside[:-1].translate(_STOPS) + inside[-1])
    return split_sentences(text)
