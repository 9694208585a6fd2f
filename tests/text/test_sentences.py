"""Test where English sentences end."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmill.tasks.text.sentences import split_sentences

# A bar marks the end of a sentence; a text without one is a single sentence.
PARAGRAPHS = [
    "",
    "One sentence",
    "She came.| He went.| They stayed!| Who?| Nobody.",
    "It rained… |The road was closed.",
    "He waited for hours... |Nobody came.",
    "It was ... odd, or . . . so it seemed.",
    # abbreviations, titles, initials
    "St. Petersburg, Dr. Jung, Mr. A. Jones Jr. and Prof. Li met.| They talked.",
    "J. R. R. Tolkien and J.R.R. Martin are two men.| W. B. Yeats is a third.",
    "It was built c. 1500 by Gen. Stone, approx. 3 km away.",
    "Many plants, e.g. Ginkgo, i.e. the Maidenhair tree, etc. are old.",
    "See No. 5, Fig. 3, vol. II and pp. 4–6.| He said no.| Nobody minded.",
    "She lives near Main St. |The house is old.",
    "Martin Luther King Jr. |He was a preacher.",
    "Acme Inc. bought Apex Ltd. and moved.| The price was high.",
    "Roe v. Wade and Hill vs. Dale were heard on Jan. 5 and in Oct. 1990.",
    "At 5 p.m. they left the U.S. |In the U.K. they stayed with the U.N. Council.",
    "She took her Ph.D. in 1990.| He has none.",
    "Smith et al. (2005) doubt it.",
    "Malcolm X. |He died in 1965.",
    "After World War I. |The town grew again.",
    "He met Henry VIII.| Wolsey did too.",
    "Homo sp. Alpha lives there.",
    # numbers
    "It weighs 3.14 kg and costs $5.20.| $6 would be dear.| 20 people paid.",
    "It was in 1990.| Berlin grew.",
    "1. The first rule.| 2. Another rule.",
    # words after the end
    "The firm makes phones.| iPhones sell.| eBay does not.",
    "It is in Tokyo.| 東京 is its name.| Ωmega follows.| Ötzi too.",
    "The party of 1990. and its heirs",
    "The Sun.| Jupiter is bigger than Mars.| Art.| Nothing more.",
    # quotation marks and brackets
    'He said: "I know."| "Do you?" |She left.',
    'They signed off with "All is well. We go home." |Nobody answered.',
    "They wrote “All is well. We go home.” |Nobody answered.",
    'The songs "One" and "Two" are short.| "Three" is not.| A 5" pipe.| A 6" pipe.',
    'Who wrote "Help!"?| "Nobody.| Not me."',
    'A mark " alone.| It goes on.| So "does this.| And so on.',
    "‘Stop!’ |“Why?” |He ran.",
    "He asked why? but went.",
    "(She stayed.| They left.)| Rain fell.",
    "The town (formerly Acme Corp. Town) grew (it was small. It is big.) and grew.",
    "A firm (now Apex Corp.) The Times praised was sold.",
    "He left. [...] |The town grew.",
    "the [...] Duke left [sic!] Rome",
    "A bracket ( that is never closed.| It goes on.",
    "One that closes) only.| Next.",
    "It ended (in 1990).| Berlin grew.",
    "Yahoo! Inc. was sold.| He left Yahoo! |It was late.",
    "Both lived in Washington, D.C. Smith moved.",
]


@pytest.mark.parametrize("marked", PARAGRAPHS)
def test_sentences_end_where_reader_expects(marked: str) -> None:
    paragraph = marked.replace("|", "")
    assert split_sentences(paragraph) == [piece.strip() for piece in marked.split("|") if piece]
    assert " ".join(split_sentences(paragraph)) == paragraph


def test_whitespace_within_sentence_is_kept() -> None:
    assert split_sentences("  One \n two.\n\nThree\u00a0four.  ") == ["One \n two.", "Three\u00a0four."]


TRICKY = st.text(st.sampled_from("aA1Ö東.!?…,;'\"”“()[]{}-–/$ \n\u00a0"), max_size=60) | st.text(max_size=60)


@given(TRICKY)
def test_sentence_split_loses_only_whitespace(paragraph: str) -> None:
    place = 0
    for sentence in split_sentences(paragraph):
        assert sentence
        assert sentence == sentence.strip()
        found = paragraph.index(sentence, place)
        assert not paragraph[place:found].strip()
        place = found + len(sentence)
    assert not paragraph[place:].strip()


@given(TRICKY)
def test_joined_sentences_equal_paragraph(text: str) -> None:
    paragraph = " ".join(text.split())
    assert " ".join(split_sentences(paragraph)) == paragraph


def test_recorded_article_is_split_into_its_sentences(shared_data: Path) -> None:
    file = shared_data / "api" / "mediawiki_api" / "TestVcrPageExtractProps.test_sections_by_title.json"
    body = json.loads(json.loads(file.read_text("utf-8"))["interactions"][0]["response"]["body"]["string"])
    (page,) = body["query"]["pages"].values()
    paragraphs = [" ".join(line.split()) for line in page["extract"].split("\n") if line and not line.startswith("=")]
    divided = [split_sentences(paragraph) for paragraph in paragraphs]
    assert [" ".join(sentences) for sentences in divided] == paragraphs
    assert sum(map(len, divided)) > len(paragraphs) + 50
    for sentences in divided:
        for before in sentences[:-1]:
            assert before.rstrip(")\"'”]")[-1] in ".!?…"
            assert not before.endswith((" e.g.", " i.e.", " vs.", " v.", " No.", " ed."))
        assert not any(sentence[0].islower() for sentence in sentences[1:])
