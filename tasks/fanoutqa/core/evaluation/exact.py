"""The judge `exact`: a program, no model, that looks whether an answer says all of the gold answer, in its words and values.

It is a lexical lower bound: numbers, dates and amounts count by value (text/values/answers.py), all else by the words of
`fixed` string accuracy, and the same in other words does not count. On the other side it sees neither what an answer
denies or leaves open, nor something untrue beside the gold answer.
"""

from tasks.fanoutqa.core.evaluation.strings.fixed import read_texts, score
from tasks.fanoutqa.core.evaluation.strings.golds import Gold, list_references, write_gold
from tasks.fanoutqa.core.evaluation.strings.lemmas import Lemmatizer, RuleLemmatizer
from tasks.text.values.answers import find_answer, read_known_text

_LEMMAS = RuleLemmatizer({})


def grade_answer(answer: str, gold: Gold, lemmatize: Lemmatizer = _LEMMAS) -> str:
    """Return the grade of an answer: F says nothing, A some of the gold answer, D none of it; of all of it B with more words, C without."""
    references = list(list_references(gold))
    if not answer.strip() or not references:
        return "F"
    texts = sorted({way for ways in references for way in ways})
    known = dict(zip(texts, read_texts(texts, lemmatize), strict=True))
    (said,) = read_texts([answer], lemmatize)
    text = read_known_text(answer)
    found = [bool(score([ways], said, known)[1]) or bool(find_answer(ways[0], text).found) for ways in references]
    if not all(found):
        return "A" if any(found) else "D"
    return "B" if len(answer.split()) > len(write_gold(gold).split()) else "C"
