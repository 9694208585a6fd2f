"""Test lemmas by rules and by a spaCy pipeline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from factmill.tasks.fanoutqa.core.evaluation.scoring import score_loose_and_strict
from factmill.tasks.fanoutqa.core.evaluation.strings.rule_lemmatizer import split_words_and_marks
from factmill.tasks.fanoutqa.evaluation.lemmatizers import (
    SPACY_MODEL,
    SpacyLemmatizer,
    load_lemmatizer,
    resolve_lemmatizer_name,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("$87 billion", "$|87|billion"),
        ("35.5%, or so", "35.5|%|,|or|so"),
        ("he won.", "he|won|."),
        ("the u.s. census", "the|u.s|.|census"),
        ("george w. bush", "george|w.|bush"),
        ("mcdonald's isn't o'neal", "mcdonald|'s|is|n't|o'neal"),
        ("3:58 1990-95 5km 2nd", "3:58|1990|-|95|5|km|2nd"),
        ("+62 a&m ... “x”", "+62|a&m|...|“|x|”"),
    ],
)
def test_splits_words_and_marks_as_spacy_does(text: str, words: str) -> None:
    assert split_words_and_marks(text) == words.split("|")


@pytest.mark.parametrize(
    ("text", "lemmas"),
    [
        ("movies cities churches boxes buses wolves", "movie city church box bus wolf"),
        ("won wins winning", "win win win"),
        ("stopped stopping making founded played studied", "stop stop make found play study"),
        ("paris texas series this glass", "paris texas series this glass"),
        ("king spring red 1990s 東京", "king spring red 1990s 東京"),
        ("was larger people's", "be large person 's"),
        (" a  b\n", " a b "),
        ("a ", "a"),
        ("", ""),
    ],
)
def test_rules_lemmatizer_returns_expected_lemmas(text: str, lemmas: str) -> None:
    if resolve_lemmatizer_name() != "rules":
        pytest.skip(f"{SPACY_MODEL} is installed and goes before rules")
    assert load_lemmatizer(resolve_lemmatizer_name())([text]) == [lemmas]


@dataclass
class Token:
    lemma_: str


class Pipeline:
    """The used part of a spaCy pipeline; it removes an s from every word."""

    pipe_names = ("tagger", "ner", "lemmatizer")
    max_length = 1_000_000
    disabled: Sequence[str] = ()

    def pipe(self, texts: Sequence[str], disable: Sequence[str]) -> Iterator[list[Token]]:
        self.disabled = disable
        for text in texts:
            yield [Token(word.removesuffix("s")) for word in text.split()]


def test_spacy_lemmatizer_works_with_both_scorers() -> None:
    pipeline = Pipeline()
    lemmatize = SpacyLemmatizer(pipeline, "made here")
    for scorer in ("fixed", "upstream"):
        assert score_loose_and_strict(["two oxens"], ["oxen"], lemmatize, scorer)[0].tolist() == [1.0]
    assert pipeline.disabled == ["ner"]
    assert pipeline.max_length > 1_000_000


def test_real_spacy_pipeline_splits_words_as_rules_do() -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed; it is no dependency")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("attribute_ruler").add([[{"LOWER": "won"}]], {"LEMMA": "win"})
    lemmatize = SpacyLemmatizer(pipeline, "made here")
    text = "$87 billion, george w. bush won 3:58"
    assert lemmatize([text])[0].split().count("win") == 1
    assert [token.text for token in pipeline(text)] == split_words_and_marks(text)
