"""Read and check the author model's replies: citations, added sentences, questions (Appendix A.3, Tables 9 to 12).

The paper only asks the model for one sentence that contains the knowledge; here a program checks it. The new paragraph
must begin with the paragraph so far, letter for letter (except spaces), and add one sentence that states the piece's
value as a reader recognises it: case, accents and quote styles do not matter, words must be whole, dates may have any
format.

A wrong paragraph is Unreadable; its reason begins with a code: `text_changed` (it does not begin with the paragraph so
far), `nothing_added`, `repeated` (the addition is already there), `several_sentences`, `unfinished` (a sentence without
its end), `value_missing`, `adds` (a name, number, date or unit beyond the pieces and the people) or `wrong_person` (the
sentence names only the other person).

`adds` and `outside` detect invented facts: an added sentence, and both questions, may contain no names, numbers, dates
or units except those of the pieces and of the people's names. Words in lower case cannot be checked.

A citation counts where its piece is in the pool and its sentence states the value: a label as a reader recognises it,
in the singular or plural, a date in any format and no coarser than the piece. Where the value is one of the two people,
the paragraph only has to name them, since a sentence may use a pronoun. A model that cites what the text does not say
would copy the pool into the set, so a reply whose citations are mostly of that kind is rejected.

Both questions target the knowledge set (§2.2): they name both people and ask nothing outside the set, and the specific
one asks for most of it. Word lists (data/lists/biography_properties.csv) decide what a question asks for: the words by
which texts and questions refer to a property. So a share is an estimate: a reader may find more in a question, and
words that several properties share, "family" or "honours", count for each.

A wrong question is Unreadable; its reason begins with a code: `repeated` (it asks the same twice), `person_missing`,
`outside` (a name, number, date or unit that no piece has), `asks_outside` (a matter that no piece covers, or all values
of a relation of which the set has only the one that joins the two) or `asks_too_little` (the specific one asks for less
than half of the pieces).
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from factmill.tasks.biokalma.core.citations import CitedAnswer, make_triple_key, normalise_label_characters_keeping_case
from factmill.tasks.core.authoring.knowledge_pieces import BiographyPropertyWording, PersonKnowledgePiece
from factmill.tasks.core.completions import CompletionFormat, UnreadableCompletion
from factmill.tasks.text.reply_wrappers import strip_surrounding_emoji
from factmill.tasks.text.sentences import SENTENCE_OPENING_WORDS, split_sentences
from factmill.tasks.text.text_normalization import (
    contains_whole_words,
    fold_case_accents_and_punctuation,
    normalize_answer,
    normalize_answer_to_singular,
)
from factmill.tasks.text.values.answer_search import find_answer_and_missing_parts, index_text
from factmill.tasks.text.values.dates_and_numbers import format_date_in_prose, is_same_date, states_date
from factmill.tasks.text.values.value_tokens import (
    NORMALIZED_UNITS,
    states_wanted_value,
    tokenize_values,
    tokenize_words_numbers_and_dates,
)

_QUESTION_OPENERS = frozenset(
    {
        *("Am", "Are", "Can", "Could", "Did", "Do", "Does", "Had", "Has", "Have", "How", "Is", "May", "Might"),
        *("Should", "Was", "Were", "Where", "Who", "Whom", "Whose", "Why", "Would"),
    }
)
_COMMON_WORD_UNITS = frozenset({"year", "day", "hour", "minute", "second", "pound", "c", "f", "l", "m", "inch", "won"})
"""Units that are also ordinary words."""
_ALLOWED_NUMBERS = frozenset({"one", "two"})
"""As in "one of many" and "the two people"."""
_TIME_SPANS = frozenset({"century", "decade", "millennium"})


def find_unsupported_name_or_value(text: str, known_texts: Iterable[str]) -> str | None:
    """Return the first name, number, date or unit of a text that no known text has; None when there is none.

    A date is known if a known one is equal or finer. The first word of a text is a name unless it is a common sentence
    opener.
    """
    known_values = [part.value for each in known_texts for part in tokenize_values(each)]
    words = frozenset(value for value in known_values if isinstance(value, str))
    for at, (written, value) in enumerate(tokenize_values(text)):
        if isinstance(value, str):
            # an opening word like Formerly, Following or Born is no name
            is_name = written[0].isupper() and not (
                written in SENTENCE_OPENING_WORDS | _QUESTION_OPENERS | {"I"}
                or (at == 0 and written.endswith(("ly", "ing", "ed", "orn")))
            )
            if value not in words and (is_name or value in _TIME_SPANS or any(map(str.isdigit, value))):
                return written
        elif written.lower() not in _ALLOWED_NUMBERS and not any(
            states_wanted_value(each, value) for each in known_values
        ):
            return written
    units = (each.value for each in tokenize_words_numbers_and_dates(text))
    return next(
        (str(unit) for unit in units if unit in NORMALIZED_UNITS - _COMMON_WORD_UNITS and unit not in words), None
    )


def list_names_values_and_labels(pieces: Iterable[PersonKnowledgePiece], names: Iterable[str]) -> list[str]:
    """Return what a text about some pieces may name: the people, and the pieces' values and properties."""
    known = list(names)
    for piece in pieces:
        known += [format_date_in_prose(piece.value) if piece.value_qid is None else piece.value, piece.property]
    return known


_NAME_EDGES = ",.;:()\"'“”"


def names_person_of_pair(text: str, name: str, other_name: str) -> bool:
    """True when a text names a person, as distinct from the other; "Oscar and Richard Hertwig" names both."""
    folded, full, longer = (
        fold_case_accents_and_punctuation(text),
        fold_case_accents_and_punctuation(name),
        fold_case_accents_and_punctuation(other_name),
    )
    # "Johann Strauss II" names only the son
    if contains_whole_words(folded.replace(longer, " ") if full != longer and full in longer else folded, full):
        return True
    shared = {word.strip(_NAME_EDGES) for word in fold_case_accents_and_punctuation(other_name).split()}
    own = {
        fold_case_accents_and_punctuation(word.strip(_NAME_EDGES)) for word in name.split() if word[:1].isupper()
    } - shared
    return any(len(word) > 1 and contains_whole_words(folded, word) for word in own)


_SENTENCE_CLOSE = re.compile(r"[.!?…][\"'”’)\]»]*$")
_STOPS_TO_UNDERSCORES = str.maketrans(".!?…", "____")
_QUALIFIER = re.compile(r"(?<=\S) *\([^()]*\)$")


def extract_checked_added_sentence(
    old_paragraph: str,
    new_paragraph: str,
    wanted: Sequence[PersonKnowledgePiece],
    pieces: Iterable[PersonKnowledgePiece],
    names: Mapping[str, str],
) -> str | UnreadableCompletion:
    """Return the one sentence added to a paragraph, with single spaces; Unreadable unless it states the wanted values.

    `wanted`: one or more values of one relation of one person. Otherwise the sentence may name only pieces that the
    paragraph has, and the two people (`names`, by QID).
    """
    added = extract_added_sentence(old_paragraph, new_paragraph, [piece.value for piece in wanted])
    if isinstance(added, UnreadableCompletion):
        return added
    if missing := next((piece.value for piece in wanted if not mentions_value(added, piece)), None):
        return UnreadableCompletion(
            f"value_missing: the added sentence does not say {missing!r}, which it was to say as given"
        )
    if foreign := find_unsupported_name_or_value(
        added, list_names_values_and_labels([*wanted, *pieces], names.values())
    ):
        return UnreadableCompletion(
            f"adds: the added sentence says {foreign!r}, which is no part of the fact it was to tell"
        )
    rest = fold_case_accents_and_punctuation(added)
    for value in sorted((fold_case_accents_and_punctuation(piece.value) for piece in wanted), key=len, reverse=True):
        rest = rest.replace(value, " ")
    own = names.get(wanted[0].qid, "")
    for other in (name for qid, name in names.items() if qid != wanted[0].qid):
        if names_person_of_pair(rest, other, own) and not names_person_of_pair(rest, own, other):
            return UnreadableCompletion(f"wrong_person: the added sentence names {other}, expected {own}")
    return added


def extract_added_sentence(
    old_paragraph: str, new_paragraph: str, unsplit_texts: Sequence[str] = ()
) -> str | UnreadableCompletion:
    """Return the one sentence added to a paragraph, with single spaces.

    `unsplit_texts` are texts whose stops end no sentence, such as a piece's value (Oh! What a Lovely War).
    """
    before, after = _normalise_spaces_and_unicode(old_paragraph), _normalise_spaces_and_unicode(new_paragraph)
    rest = after.removeprefix(before)
    added = rest.lstrip()
    is_same = after.startswith(before)
    if is_same and not any(map(str.isalnum, added)):
        return UnreadableCompletion(
            "nothing_added: nothing stands behind the given paragraph, expected one more sentence"
        )
    # a new sentence, not the rest of a word or clause
    is_apart = rest[:1] == " " or not before[-1:].isalnum()
    if not is_same or (before and not (is_apart and (added[0].isalnum() or added[0] in "\"'“‘«([¿¡"))):
        pairs = enumerate(zip(before, after, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), min(len(before), len(after)))
        start = max(0, same - 20)
        difference = f"expected {before[start : same + 20]!r} in it, found {after[start : same + 20]!r}"
        return UnreadableCompletion(f"text_changed: the given paragraph was not left as it is, {difference}")
    sentences = _split_sentences_masking_names(added, unsplit_texts)
    known = set(map(normalize_answer, _split_sentences_masking_names(before, unsplit_texts)))
    if all(normalize_answer(sentence) in known for sentence in sentences):
        return UnreadableCompletion(
            "repeated: what was added stands in the given paragraph already, expected a new sentence"
        )
    if len(sentences) > 1:
        return UnreadableCompletion(f"several_sentences: {len(sentences)} sentences were added, expected one")
    if not _SENTENCE_CLOSE.search(added):
        return UnreadableCompletion(
            "unfinished: the added sentence has no end, expected a whole sentence with its full stop"
        )
    return added


def mentions_value(sentence: str, piece: PersonKnowledgePiece) -> bool:
    """True when a sentence states the piece's value: its label, or its date at the same or a finer precision.

    A bracketed qualifier at a label's end, as in "Artemisia (film)", may be missing.
    """
    if piece.value_qid is None and (date_stated := states_date(sentence, piece.value)) is not None:
        return date_stated
    return contains_whole_words(*map(fold_case_accents_and_punctuation, (sentence, _QUALIFIER.sub("", piece.value))))


def _normalise_spaces_and_unicode(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _split_sentences_masking_names(text: str, names: Sequence[str]) -> list[str]:
    """Return the sentences of a text, with stops inside names replaced by underscores."""
    for inside in filter(None, map(_normalise_spaces_and_unicode, names)):
        text = text.replace(inside, inside[:-1].translate(_STOPS_TO_UNDERSCORES) + inside[-1])
    return split_sentences(text)


PARAGRAPH_REPLY_FORM = CompletionFormat(kind="lines", line_head="Paragraph", answer_extent="rest", strips_quotes=True)
"""All text after its label."""
QUESTION_REPLY_FORM = CompletionFormat(kind="lines", line_head="Question", answer_extent="block", strips_quotes=True)
"""Up to a blank line."""


def read_paragraph(text: str) -> str | UnreadableCompletion:
    """Return the paragraph of a reply, with single spaces."""
    return _read_text_after_label(text, "Paragraph")


def read_question(text: str) -> str | UnreadableCompletion:
    """Return the question of a reply; several consecutive questions count as one."""
    question = _read_text_after_label(text, "Question")
    if isinstance(question, str) and not question.endswith("?"):
        return UnreadableCompletion('what follows "Question:" does not end with a question mark')
    return question


def _read_text_after_label(text: str, label: str) -> str | UnreadableCompletion:
    found = list(re.finditer(rf"^{label}:", text, re.IGNORECASE | re.MULTILINE))
    if len(found) != 1:
        return UnreadableCompletion(f'{len(found)} lines of the form "{label}: …", expected one')
    labelled_text = strip_surrounding_emoji(" ".join(text[found[0].end() :].split()))
    if not any(character.isalnum() for character in labelled_text):
        return UnreadableCompletion(f'nothing stands behind "{label}:"')
    return labelled_text


_MIN_UNSTATED = 3


@dataclass(frozen=True, slots=True)
class StatedAndUnstatedCitedPieces:
    """The citations of a paragraph, classified."""

    pieces: tuple[PersonKnowledgePiece, ...]
    """Pieces that the text states, in its order, each once."""
    unknown_citations: int
    """Number of citations that are in no pool."""
    unstated: tuple[PersonKnowledgePiece, ...]
    """Cited pieces whose value their text does not state."""

    @property
    def is_mostly_unstated(self) -> bool:
        """True when most cited pieces, at least three, are not stated."""
        return len(self.unstated) >= max(_MIN_UNSTATED, len(self.pieces) + 1)


def find_stated_and_unstated_cited_pieces(
    cited: CitedAnswer, pool: Sequence[PersonKnowledgePiece], names: Mapping[str, str]
) -> StatedAndUnstatedCitedPieces:
    """Classify the citations of a paragraph; `names`: QID → name of the two people.

    A citation is in the pool if a piece has the same item and labels; dates may have any format. Of pieces with the
    same labels (two places of one name) the first counts. [NA] cites nothing, nor does a name alone, as in the paper's
    demonstration.
    """
    known: dict[tuple[str, str, str], PersonKnowledgePiece] = {}
    for piece in pool:
        known.setdefault(make_triple_key(piece.qid, piece.property, piece.value), piece)
    text = " ".join(cited.sentences)
    is_stated: dict[PersonKnowledgePiece, bool] = {}
    removed = 0
    for each in cited.citations:
        if each.kind != "triple":
            removed += each.kind == "malformed" and each.why != "no_property"
            continue
        qid, label, value = make_triple_key(each.qid, each.property, each.value)
        dates = (
            piece
            for piece in pool
            if piece.qid == qid
            and piece.value_qid is None
            and normalise_label_characters_keeping_case(piece.property) == label
        )
        found = known.get((qid, label, value)) or next((one for one in dates if is_same_date(one.value, value)), None)
        if found:
            is_stated[found] = is_stated.get(found, False) or _is_piece_stated(
                found, cited.sentences[each.sentence], text, names
            )
        removed += not found
    stated, unstated = (
        tuple(piece for piece, stated_flag in is_stated.items() if stated_flag is which) for which in (True, False)
    )
    return StatedAndUnstatedCitedPieces(stated, removed, unstated)


def _is_piece_stated(piece: PersonKnowledgePiece, sentence: str, text: str, names: Mapping[str, str]) -> bool:
    if mentions_value(sentence, piece):
        return True
    if piece.value_qid is None:
        return False
    if piece.value_qid in names:
        others = [name for qid, name in names.items() if qid != piece.value_qid]
        return names_person_of_pair(text, names[piece.value_qid], others[0] if others else "")
    return find_answer_and_missing_parts(piece.value, index_text(sentence)).found is True


MIN_ASKED_SHARE = 0.5
"""Minimum share of the pieces that a specific question asks for."""
_WHOLE_EVENT = r"\b(?<!of )(?:births?|deaths?|origins?)\b"
_WHEN = re.compile(rf"\b(?:when|date|year|time|day|age|old|birthday|lifetime)\b|{_WHOLE_EVENT}", re.IGNORECASE)
_WHERE = re.compile(rf"\b(?:where|birthplaces?|places?|city|cities|town|country)\b|{_WHOLE_EVENT}", re.IGNORECASE)
_HOW = re.compile(rf"\b(?:how|why|what|causes?|manner|circumstances|of which)\b|{_WHOLE_EVENT}", re.IGNORECASE)
_WORDS_BY_PROPERTY = {
    **dict.fromkeys(("date of birth", "date of death"), _WHEN),
    **dict.fromkeys(("place of birth", "place of death", "place of burial"), _WHERE),
    **dict.fromkeys(("cause of death", "manner of death"), _HOW),
}
"""Property of birth or death → the words with which a question asks for it; "her birth" asks for all of them."""
_TIE_WORDS = re.compile(
    r"\b(?:connect\w*|relat(?:ed|ion|ions|ionship|ives)|tie[ds]?|tied|link\w*|bond|bound|couple|kinship|each other|together)\b",
    re.IGNORECASE,
)
_DISTINCT_ASPECT = re.compile(r".* .*|.*[^s]s|birthplace|marriage|occupation|education|namesake")
"""Aspects that a question names only to ask for them: "time" and "end" are ordinary words."""
_ASKS_FOR_ALL_TEMPLATE = r"(?:['’]s?|\b(?:his|her|their|whose)) (?:[\w-]+ ){{0,2}}?{0}\b|\b{0} (?:of|did|do|had|has)\b"
"""A person's children, or the children of one: not `the siblings A and B`."""

PropertiesByLabel = Mapping[str, BiographyPropertyWording]


def check_pair_question(
    question: str,
    names: Sequence[str],
    pieces: Sequence[PersonKnowledgePiece],
    properties_by_label: PropertiesByLabel,
    partial_labels: Collection[str] = (),
) -> str | UnreadableCompletion:
    """Return a question about two people and the pieces of their set, or what is wrong with it.

    `partial_labels`: labels of properties of which the set has only the value that joins the two, and the graph has more.
    """
    asked = [normalize_answer(sentence) for sentence in split_sentences(question)]
    if len(set(asked)) < len(asked):
        return UnreadableCompletion("repeated: the question asks the same twice")
    for name, other in ((names[0], names[1]), (names[1], names[0])):
        if not names_person_of_pair(question, name, other):
            return UnreadableCompletion(f"person_missing: the question does not name {name}")
    if foreign := find_unsupported_name_or_value(question, list_names_values_and_labels(pieces, names)):
        return UnreadableCompletion(
            f"outside: the question says {foreign!r}, which is no name or value of what it may ask for"
        )
    if matter := _find_asked_aspect_without_piece(question, pieces, properties_by_label):
        return UnreadableCompletion(f"asks_outside: the question asks for {matter!r}, of which no fact tells")
    for aspect in (properties_by_label[label].aspect for label in partial_labels if label in properties_by_label):
        if re.search(_ASKS_FOR_ALL_TEMPLATE.format(re.escape(aspect)), question, re.IGNORECASE):
            return UnreadableCompletion(
                f"asks_outside: the question asks for all {aspect!r}, expected one for what joins the two alone"
            )
    return question


def check_and_measure_asked_share(
    question: str,
    people_qids: Sequence[str],
    pieces: Sequence[PersonKnowledgePiece],
    properties_by_label: PropertiesByLabel,
) -> tuple[str, float] | UnreadableCompletion:
    """Return a specific question and the share of the pieces that it asks for."""
    missing = [piece for piece in pieces if not _asks_for(question, piece, people_qids, properties_by_label)]
    share = 1 - len(missing) / len(pieces)
    if share < MIN_ASKED_SHARE:
        labels = ", ".join(dict.fromkeys(piece.property for piece in missing))
        asked = f"{len(pieces) - len(missing)} of {len(pieces)} facts, expected all"
        return UnreadableCompletion(f"asks_too_little: the question asks for {asked}; not for: {labels}")
    return question, round(share, 4)


def _asks_for(question: str, piece: PersonKnowledgePiece, people: Sequence[str], known: PropertiesByLabel) -> bool:
    if piece.value_qid in people and _TIE_WORDS.search(question):
        return True
    sort = _WORDS_BY_PROPERTY.get(piece.property)
    if sort and not sort.search(question):
        return False
    asked = normalize_answer_to_singular(question)
    return any(
        contains_whole_words(asked, normalize_answer_to_singular(word))
        for word in _list_words_asking_for_property(piece.property, known)
    )


def _list_words_asking_for_property(label: str, known: PropertiesByLabel) -> set[str]:
    """Return the words that ask for a property; for one not in the list, those of its label."""
    found = known.get(label)
    if found is None:
        return {label, *(word for word in label.split() if len(word) > 3)}
    return {label, found.aspect, *found.sentence_words, *found.question_words, *filter(None, [found.theme])}


def _find_asked_aspect_without_piece(
    question: str, pieces: Sequence[PersonKnowledgePiece], known: PropertiesByLabel
) -> str | None:
    """Return an aspect that a question asks for and no piece covers."""
    held = {
        normalize_answer(word) for piece in pieces for word in _list_words_asking_for_property(piece.property, known)
    }
    matters = {matter for each in known.values() for matter in (each.aspect, each.relationship)}
    for aspect in sorted(filter(_DISTINCT_ASPECT.fullmatch, matters)):
        matter, text = normalize_answer(aspect), f" {normalize_answer(question)} "
        # "students" within "doctoral students" does not count
        for longer in (word for word in held if matter in word):
            text = text.replace(f" {longer} ", "  ")
        if f" {matter} " in text:
            return aspect
    return None
