"""What the embedded language model is taught: nothing of what it is examined on, in sentences that are whole."""

import random
import re
from functools import cache
from itertools import islice

import pytest
from perplexity_corpus import (
    Corpus,
    draw_taught,
    is_text_held_out,
    list_continuations,
    list_held_out_facts,
    read_corpus,
    scramble,
    verbalise_plainly,
)


@cache
def corpus() -> Corpus:
    return read_corpus()


@cache
def taught() -> tuple[str, ...]:
    return tuple(islice(draw_taught(corpus(), 7), 4_000))


@pytest.mark.slow
def test_facts_of_people_that_are_held_out_are_not_taught() -> None:
    sentences = list_held_out_facts(corpus(), 1, 10_000)
    assert len(sentences) > 300
    names = {person.name for person in corpus().people.values() if not person.is_held_out}
    own = [sentence for sentence in sentences if not any(sentence.startswith(name) for name in names)]
    assert len(own) > 0.9 * len(sentences)
    text = "\n".join(taught())
    assert [sentence for sentence in own if sentence in text] == []


def test_paragraphs_that_are_held_out_are_not_taught() -> None:
    held_out = [text for _, paragraphs in corpus().articles for text in paragraphs if is_text_held_out(text)]
    assert len(held_out) > 20
    text = "\n".join(taught())
    assert [paragraph for paragraph in held_out if paragraph[:80] in text] == []


def test_documents_are_whole_sentences_without_marks_left_in() -> None:
    for document in taught():
        assert not re.search(r"\[[SV]\]|\bNone\b|  |[{}<>]|&\w+;", document), document
        assert document == document.strip()
    assert len(set(taught())) > 0.8 * len(taught())


def test_the_same_seed_draws_the_same_documents() -> None:
    assert tuple(islice(draw_taught(corpus(), 7), 100)) == taught()[:100]
    assert tuple(islice(draw_taught(corpus(), 8), 100)) != taught()[:100]


def test_a_world_s_statements_become_pieces_of_knowledge() -> None:
    ada = next(person for person in corpus().people.values() if person.name == "Ada Lovelace")
    told = {verbalise_plainly(ada, fact) for fact in ada.facts}
    assert {"Ada Lovelace's father is Lord Byron.", "Ada Lovelace's date of birth is 10 December 1815."} <= told
    dates = {fact.value for person in corpus().people.values() for fact in person.facts if fact.value_qid is None}
    assert {"1815-12-10", "0044-03-15 BC"} <= dates


def test_disorder_has_the_same_words_and_never_the_same_order() -> None:
    chance = random.Random(1)
    for text in ("Rome is old.", "a b", "one two three"):
        for _ in range(20):
            mixed = scramble(text, chance)
            assert mixed != text and mixed.endswith(".") == text.endswith(".")
            assert sorted(mixed.removesuffix(".").split()) == sorted(text.removesuffix(".").split())
    with pytest.raises(ValueError, match="no other order"):
        scramble("Rome", chance)


def test_continuations_differ_in_whom_they_are_about() -> None:
    for one in list_continuations(corpus(), 3, 50):
        assert one.coherent != one.other
        assert one.coherent not in one.paragraph
