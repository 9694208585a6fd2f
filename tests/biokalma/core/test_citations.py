"""Test finding and parsing citations in an answer, by the graph and by the grammar."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.rows.bio_answers import ADA, make_piece

from factmill.tasks.biokalma.core.citations import normalise_label_characters_keeping_case, read_sentences_and_citations

BORN, MATHS, POET = ("place of birth", "London"), ("occupation", "mathematician"), ("occupation", "poet")
WORK = ("notable work", "Notes, part: G [draft]")


def read(answer: str) -> list[tuple[str, ...]]:
    """Return an answer's citations: (property, value) of the first person's, (QID, property, value) of others'."""
    found: list[tuple[str, ...]] = []
    for each in read_sentences_and_citations(answer, ADA).citations:
        triple = (each.property, each.value) if each.qid == "Q1" else (each.qid, each.property, each.value)
        found.append({"triple": triple, "not_available": ("NA",), "malformed": (each.why,)}[each.kind])
    return found


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[Q1, place of birth: London]", [BORN]),
        ("[qid: Q1, name: Ada Lovelace, place of birth: London]", [BORN]),
        ("[qid: Q1, Ada Lovelace, place of birth: London]", [BORN]),
        ("[Q1, place of birth: London, occupation: mathematician, occupation: poet]", [BORN, MATHS, POET]),
        ("[Q1, occupation: mathematician, poet]", [MATHS, POET]),
        ("[Q1, occupation: poet, Q2, child: Ada Lovelace]", [POET, ("Q2", "child", "Ada Lovelace")]),
        ("[Q1, occupation: poet; qid: Q2, child: Ada Lovelace]", [POET, ("Q2", "child", "Ada Lovelace")]),
        ("[Q1, occupation: poet] [Q1, place of birth: London][NA]", [POET, BORN, ("NA",)]),
        ("[Q1, notable work: Notes, part: G [draft], occupation: poet]", [WORK, POET]),
        ("[Q1, languages spoken, written or signed: English]", [("languages spoken, written or signed", "English")]),
        ("[Q1, occupation: poet, NA]", [POET, ("NA",)]),
        # the value is complete, though the graph has only its beginning
        ("[Q1, residence: Paris, Texas]", [("residence", "Paris, Texas")]),
        ("[Q1, residence: Paris, Texas, occupation: poet]", [("residence", "Paris, Texas"), POET]),
        # values outside the graph follow the grammar
        ("[Q1, award: Prize, shape: round]", [("award", "Prize"), ("shape", "round")]),
        ("[Q1, award: Book: the prize]", [("award", "Book: the prize")]),
        ("[Q1, award: X, Occupation: poet]", [("award", "X"), ("Occupation", "poet")]),
        ("[Q1, occupation: poet, award: Prize, place of birth: London]", [POET, ("award", "Prize"), BORN]),
        ("[Q1, award: Prize, Q2, child: Ada Lovelace]", [("award", "Prize"), ("Q2", "child", "Ada Lovelace")]),
        ("[Q1, occupation: Poet]", [("occupation", "Poet")]),
        ("[Q99, occupation: poet]", [("Q99", "occupation", "poet")]),
        ("[Q1, date of birth: 10 December 1815]", [("date of birth", "10 December 1815")]),
    ],
)
def test_citations_are_parsed(written: str, expected: list[tuple[str, ...]]) -> None:
    assert read(f"She was {written}.") == expected
    assert read_sentences_and_citations(f"She was {written}.", ADA).sentences == ["She was."]


@pytest.mark.parametrize(
    "written",
    [
        "[q1, place of birth: London]", "[wd:Q1, place of birth: London]", "[Q1, P19: London]", "[Q1, P19: Q84]",
        "[Q1: place of birth: London]", "[Q1; place of birth: London.]", "[ Q1 , place of birth : London ]",
        "［Ｑ１，place of birth：London］", "【Q1, place of birth: London】", "〔Q1, place of birth: London〕",
        "**[Q1, place of birth: London]**", "[**Q1**, *place of birth*: `London`]", '[Q1, place of birth: "London"]',
        "([Q1, place of birth: London])", "[[Q1, place of birth: London]]", r"\[Q1, place of birth: London\]",
        "[Q1, place of\nbirth: London]", "[Q1, place of birth: Lon\u200bdon]", "[Q1, place\u00a0of birth: London]",
        "&#91;Q1, place of birth: London&#93;", "[Q1, place of birth: London](https://www.wikidata.org/wiki/Q1)",
    ],
)  # fmt: skip
def test_markup_and_bracket_variants_do_not_change_citation(written: str) -> None:
    assert read(f"She was {written}.") == [BORN]
    assert read_sentences_and_citations(f"She was {written}.", ADA).sentences == ["She was."]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[Q1, place of birth: Q999]", [("Q1", "place of birth", "Q999")]),
        ("[Q1, place of birth: `Q999`]", [("Q1", "place of birth", "Q999")]),
        ("[Q1, occupation: Q5, occupation: Q6]", [("Q1", "occupation", "Q5"), ("Q1", "occupation", "Q6")]),
        ("[Q1, award: X, Q2, child: Bob]", [("Q1", "award", "X"), ("Q2", "child", "Bob")]),
        ("[Q1, award: , Q2, child: Bob]", [("", "", ""), ("Q2", "child", "Bob")]),
    ],
)
def test_bare_qid_is_value_and_qid_after_comma_starts_next_item(written: str, expected: list[tuple[str, ...]]) -> None:
    found = read_sentences_and_citations(f"She was {written}.", ADA).citations
    assert [(each.qid, each.property, each.value) for each in found] == expected


@pytest.mark.parametrize(
    "mark", ["[NA]", "[ NA ]", "[na]", "[N/A]", "【NA】", "**[NA]**", "[Not available]", "[NA: date]"]
)
def test_missing_knowledge_marks_are_parsed(mark: str) -> None:
    assert read(f"She was born {mark} in London.") == [("NA",)]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("[Q1]", "no_property"),
        ("[qid: Q1, name: Ada Lovelace]", "no_property"),
        ("[Q1, London]", "no_property"),
        ("[Q1, occupation:]", "no_value"),
        ("[Ada Lovelace, occupation: poet]", "no_qid"),
        ("[occupation: poet]", "no_qid"),
        ("[Q1 occupation: poet]", "no_qid"),
        ("[qid: Ada, occupation: poet]", "no_qid"),
        ("[Q1, occupation: poet", "not_closed"),
    ],
)
def test_malformed_citation_reports_reason(written: str, why: str) -> None:
    assert read(f"She was {written}") == [(why,)]


def test_unclosed_citation_does_not_swallow_next_citation() -> None:
    assert read("A [Q1, occupation: poet and [NA] B [Q1, place of birth: London].") == [("not_closed",), ("NA",), BORN]
    assert read("A [Q1, occupation: poet\nB [Q1, place of birth: London].") == [("not_closed",), BORN]
    assert read_sentences_and_citations("A [Q1, occupation: poet\nB [NA].", ADA).sentences == ["A", "B."]


@pytest.mark.parametrize(
    "text", ["[sic]", "[1]", "[note: mine]", "[Q1 2020]", "[link](https://x.org)", "[...]", "a[0] ]", "["]
)
def test_other_brackets_stay_text(text: str) -> None:
    cited = read_sentences_and_citations(f"She wrote {text} here.", ADA)
    assert (cited.citations, cited.sentences) == ([], [f"She wrote {text} here."])


@pytest.mark.parametrize(
    ("answer", "sentences", "places"),
    [
        ("She sang [NA]. He died. [NA] They met.", ["She sang.", "He died.", "They met."], [0, 1]),
        ("She sang.[NA] He died [NA].", ["She sang.", "He died."], [0, 1]),
        ("She sang.\n[NA]\n\nHe died.", ["She sang.", "He died."], [0]),
        ("- sang [NA]\n- died [NA]", ["- sang", "- died"], [0, 1]),
        ("[NA] She sang.", ["She sang."], [0]),
        ("She was a poet [NA], born in 1815 [NA] in London.", ["She was a poet, born in 1815 in London."], [0, 0]),
        ("[NA]", [""], [0]),
        ("", [""], []),
        ("She met J. S. Mill [NA] in St. Ives.", ["She met J. S. Mill in St. Ives."], [0]),
    ],
)  # fmt: skip
def test_citation_belongs_to_preceding_sentence(answer: str, sentences: list[str], places: list[int]) -> None:
    cited = read_sentences_and_citations(answer, ADA)
    assert (cited.sentences, [each.sentence for each in cited.citations]) == (sentences, places)


def test_citation_keeps_original_bracket_text_up_to_200_characters() -> None:
    written = "[Q1, occupation: poet, place of birth: London]"
    assert [each.text for each in read_sentences_and_citations(f"A {written}.", ADA).citations] == [written, written]
    assert len(read_sentences_and_citations(f"A [Q1, work: {'x' * 1000}].", ADA).citations[0].text) == 200


labels = st.text(st.sampled_from("abP:,; []\"*'.é：［Q1N"), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.sampled_from(["Q1", "Q2"]), labels, labels), min_size=1, max_size=6))
def test_graph_pieces_round_trip_whatever_their_labels_contain(
    triples: list[tuple[str, str, str]],
) -> None:
    pieces = [make_piece(*triple) for triple in dict.fromkeys(triples)]
    written = [tuple(map(normalise_label_characters_keeping_case, triple[1:])) for triple in triples]
    assume(all(all(each) for each in written))
    for triple, result in zip(triples, written, strict=True):
        answer = f"He [{triple[0]}, {result[0]}: {result[1]}] is."
        found = read_sentences_and_citations(answer, pieces).citations
        # a longer value of the graph may have the same text: the longest counts
        alike = [
            each
            for each in triples
            if f"{result[0]}: {result[1]}"
            in f"{normalise_label_characters_keeping_case(each[1])}: {normalise_label_characters_keeping_case(each[2])}"
        ]
        if len(alike) == 1:
            assert [
                (
                    each.kind,
                    normalise_label_characters_keeping_case(each.property),
                    normalise_label_characters_keeping_case(each.value),
                )
                for each in found
            ] == [("triple", *result)]


@given(st.lists(st.sampled_from(ADA), min_size=1, max_size=8))
def test_several_pieces_in_one_bracket_round_trip(pieces: list) -> None:
    mine = [each for each in pieces if each.qid == "Q1"]
    assume(mine)
    written = ", ".join(f"{each.property}: {each.value}" for each in mine)
    found = read_sentences_and_citations(f"She [Q1, {written}].", ADA).citations
    assert [(each.property, each.value) for each in found] == [(each.property, each.value) for each in mine]


@given(st.text(st.sampled_from("[]Q1NA,:; \n*\\【】occupation: poet&#91;"), max_size=60))
def test_parser_accepts_any_text_and_maps_citations_to_valid_sentences(answer: str) -> None:
    cited = read_sentences_and_citations(answer, ADA)
    assert all(0 <= each.sentence < len(cited.sentences) for each in cited.citations)
    assert all((each.kind == "malformed") == bool(each.why) for each in cited.citations)


@pytest.mark.parametrize(
    "unit",
    ["[", "]", "[Q1, ", "[Q1, occupation: poet", "[Q1, occupation: poet]", "occupation: ", "[Q1, a: b [NA]", ", poet",
     "[NA]", "[[Q1]]", "[occupation: ", "x. Y ", "[Q1, occupation: poet, ", "&#91;", "[Q1, name: a, "],
)  # fmt: skip
def test_parser_handles_long_repetitive_answers(unit: str) -> None:
    cited = read_sentences_and_citations(unit * (50_000 // len(unit)), ADA)
    assert cited.sentences
    opened = read_sentences_and_citations("[Q1, " + unit * (25_000 // len(unit)), ADA)
    assert opened.sentences


def test_citation_nested_in_another_is_read_in_annotated_paragraph_only() -> None:
    """In a paragraph the inner one is part of the outer one's value; in an answer the outer bracket is unclosed."""
    paragraph = "She wrote [Q1, award: Prize [Q2, child: Ada Lovelace], occupation: poet] much."
    read_nested = read_sentences_and_citations(paragraph, ADA, is_nested=True)
    assert read_nested.sentences == ["She wrote much."]
    assert {each.kind for each in read_nested.citations} == {"triple"}
    assert ("occupation", "poet") in {(each.property, each.value) for each in read_nested.citations}
    assert read_sentences_and_citations(paragraph, ADA).citations[0].why == "not_closed"
    beside = "She wrote [Q1, notable work: Notes, part: G [draft]][Q1, award: Prize [old]][Q1, occupation: poet]."
    found = read_sentences_and_citations(beside, ADA, is_nested=True).citations
    assert [(each.property, each.value) for each in found] == [WORK, ("award", "Prize [old]"), POET]
