"""How citations are told and read."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.core.authoring.citations import (
    Citation,
    Malformed,
    MissingKnowledge,
    Part,
    format_citation,
    format_knowledge,
    format_label,
    match_citations,
    parse_citations,
)
from tasks.core.authoring.pieces import Piece

PROPERTIES = (
    "place of birth",
    "occupation",
    "languages spoken, written or signed",
    "member",
    "member of",
    "has part(s)",
    "notable work",
    "date of birth",
)
OF_ADA = [("place of birth", "London"), ("occupation", "writer")]


def make_piece(
    property_label: str, value: str, qid: str = "Q1", *, is_date: bool = False, value_qid: str = "Q9"
) -> Piece:
    return Piece(
        qid=qid,
        pid="P1",
        property=property_label,
        value_qid=None if is_date else value_qid,
        value=value,
        precision=11 if is_date else None,
        statement=None,
    )


def read_one(written: str) -> tuple[Part, ...]:
    """Return the parts of the only citation in a text."""
    (citation,) = parse_citations(f"She {written}.", PROPERTIES).citations
    assert isinstance(citation, Citation), citation
    return citation.parts


def test_a_citation_is_told_with_qid_and_name() -> None:
    told = format_citation("Q1", "Ada Lovelace", OF_ADA)
    assert told == "[qid: Q1, name: Ada Lovelace, place of birth: London, occupation: writer]"


def test_knowledge_is_told_as_one_line_in_braces() -> None:
    pieces = [make_piece("occupation", "writer"), make_piece("occupation", "poet")]
    assert (
        format_knowledge("Ada\nLovelace", pieces)
        == "{qid: Q1, name: Ada Lovelace, occupation: writer, occupation: poet}"
    )


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("[Q1, occupation: writer]", [("occupation", "writer")]),
        ("[qid: Q1, occupation: writer]", [("occupation", "writer")]),
        ("[QID:Q1 ,name : Ada, occupation : writer]", [("occupation", "writer")]),
        ("[ Q1, place of birth: London, occupation: writer ]", OF_ADA),
        ("[Q1, name: Sammy Davis, Jr., occupation: writer]", [("occupation", "writer")]),
        ("[Q1, name: name: X, occupation: writer]", [("occupation", "writer")]),
        ("[Q1,\n occupation:\n writer]", [("occupation", "writer")]),
        ("[Q1, place of birth: Paris, Texas]", [("place of birth", "Paris, Texas")]),
        ("[Q1, notable work: Note: G, a poem]", [("notable work", "Note: G, a poem")]),
        ("[Q1, notable work: Dial M, for: Murder]", [("notable work", "Dial M, for: Murder")]),
        ("[Q1, languages spoken, written or signed: English]", [("languages spoken, written or signed", "English")]),
        ("[Q1, member of: A, member: B, has part(s): C]", [("member of", "A"), ("member", "B"), ("has part(s)", "C")]),
        ("[Q1, notable work: [REC]]", [("notable work", "[REC]")]),
        (
            "[Q1, notable work: [a [b]] c, occupation: writer]",
            [("notable work", "[a [b]] c"), ("occupation", "writer")],
        ),
        ("[Q1, notable work: [Q2, occupation: x]]", [("notable work", "[Q2"), ("occupation", "x]")]),
    ],
)
def test_a_value_goes_as_far_as_the_next_known_property(written: str, parts: list[Part]) -> None:
    assert read_one(written) == tuple(parts)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("[Q1]", "no_property"),
        ("[qid: Q1, name: Ada Lovelace]", "no_property"),
        ("[Q1, writer]", "stray_text"),
        ("[Q1, Ada Lovelace, occupation: writer]", "stray_text"),
        ("[Q1, favourite colour: red, occupation: writer]", "stray_text"),
        ("[Q1, occupation:writer]", "stray_text"),
        ("[Q1, occupation: ]", "no_value"),
        ("[Q1, occupation: , place of birth: London]", "no_value"),
        ("[occupation: writer]", "no_qid"),
        ("[name: Ada, occupation: writer]", "no_qid"),
        ("[qid: ada, occupation: writer]", "no_qid"),
        ("[Q1: occupation: writer]", "no_qid"),
        ("[Q1, notable work: A [ B]", "not_closed"),
    ],
)
def test_what_opens_like_a_citation_and_is_none_is_malformed(written: str, reason: str) -> None:
    read = parse_citations(f"She wrote {written}.", PROPERTIES)
    assert read.citations == (Malformed(9, reason, written),)  # type: ignore[arg-type]
    assert read.text == "She wrote."


@pytest.mark.parametrize(
    "text", ["[1]", "a [sic] b", "[Q&A] [q1]", "[Q1 2020]", "[]", "][", "[NAB]", "[…] [her]", "[Q0]"]
)
def test_other_brackets_are_text(text: str) -> None:
    read = parse_citations(text, PROPERTIES)
    assert (read.text, read.citations) == (text, ())


def test_a_property_that_is_not_known_does_not_open_a_citation() -> None:
    assert parse_citations("[father: unknown]", PROPERTIES).text == "[father: unknown]"
    assert parse_citations("[father: unknown]", ["father"]).text == ""


def test_missing_knowledge_is_a_kind_of_its_own() -> None:
    read = parse_citations("A painter [NA] from Rome [ NA ].", PROPERTIES)
    assert read.text == "A painter from Rome."
    assert read.citations == (MissingKnowledge(9), MissingKnowledge(19))


def test_an_unclosed_citation_ends_where_the_next_one_opens_or_the_line_ends() -> None:
    read = parse_citations("A [Q1, occupation: a. B [Q2, occupation: b].\nC [Q3, occupation: c\nD", PROPERTIES)
    assert read.text == "A.\nC D"
    assert [type(citation) for citation in read.citations] == [Malformed, Citation, Malformed]


@pytest.mark.parametrize(
    ("annotated", "text"),
    [
        ("Born in Rome [C]. She", "Born in Rome. She"),
        ("Born in Rome [C] . She", "Born in Rome. She"),
        ("Born [C] [C] in Rome", "Born in Rome"),
        ("Born [C], [C], and", "Born, and"),
        ("[C] Born", "Born"),
        ("Born [C]", "Born"),
        ("Rome[C]and", "Rome and"),
        ("Rome[C], and", "Rome, and"),
        ("(born in Rome [C])", "(born in Rome)"),
        ("([C] born)", "(born)"),
        ('“Rome [C]” and "Rome [C]" or', '“Rome” and "Rome" or'),
        ('Rome [C] "Judith" – [C] she', 'Rome "Judith" – she'),
        ("Rome [C]\n\nShe  painted", "Rome She  painted"),
        ("Rome, ... she [1] . [C]", "Rome, ... she [1] ."),
    ],
)
def test_the_spaces_that_citations_leave_are_mended(annotated: str, text: str) -> None:
    assert parse_citations(annotated.replace("[C]", "[Q1, occupation: x]"), PROPERTIES).text == text


def test_citations_know_their_places_in_the_clean_text() -> None:
    text = "Ada [Q1, occupation: a] was [1] born [Q1, occupation: b] [Q2, occupation: c]."
    read = parse_citations(text, PROPERTIES)
    assert [read.text[: citation.start] for citation in read.citations] == [
        "Ada",
        "Ada was [1] born",
        "Ada was [1] born",
    ]


NASTY = st.text(
    st.sampled_from("ab1,: []{}'’\"-()\n") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20
)
SPLITS_A_VALUE = re.compile(rf", ?(?:{'|'.join(map(re.escape, PROPERTIES))}) ?:(?: |$)")


@given(NASTY, st.lists(st.tuples(st.sampled_from(PROPERTIES), NASTY), min_size=1, max_size=4), st.booleans())
def test_what_is_told_is_read_again(name: str, parts: list[Part], is_behind_text: bool) -> None:
    told = tuple((format_label(label), format_label(value)) for label, value in parts)
    assume(format_label(name) and all(value for _, value in told))
    assume(not any(SPLITS_A_VALUE.search(f"{label} ") for label in [format_label(name), *(value for _, value in told)]))
    before = "Text " if is_behind_text else ""
    read = parse_citations(f"{before}{format_citation('Q42', name, parts)} [1], text", PROPERTIES)
    assert read.citations == (Citation(len(before.strip()), "Q42", told),)
    assert read.text == f"{before}[1], text"


@given(
    st.lists(st.sampled_from(["[", "]", "Q1", "qid: ", "NA", ", ", "occupation", ": ", " ", "x", "name", "\n", "."]))
)
def test_whatever_is_written_is_read_without_losing_other_text(fragments: list[str]) -> None:
    text = "".join(fragments)
    read = parse_citations(text, PROPERTIES)
    starts = [citation.start for citation in read.citations]
    assert starts == sorted(starts)
    assert all(start <= len(read.text) for start in starts)
    if not read.citations:
        assert read.text == text
    cut = [citation.text for citation in read.citations if isinstance(citation, Malformed)]
    assert all(written.startswith("[") and written in text for written in cut)


def test_a_long_text_of_openings_is_read() -> None:
    assert len(parse_citations("[Q1, occupation: " * 50_000, PROPERTIES).citations) == 50_000


def match(annotated: str, pool: list[Piece]) -> tuple[list[str], int]:
    """Return values of the pieces that are cited and how many citations are in no pool."""
    matched = match_citations(parse_citations(annotated, PROPERTIES).citations, pool)
    return [piece.value for piece in matched.pieces], matched.removed


def test_only_what_the_pool_holds_is_cited_and_the_rest_is_counted() -> None:
    pool = [
        make_piece("occupation", "writer"),
        make_piece("occupation", "poet", "Q2"),
        make_piece("notable work", "[REC"),
    ]
    assert match("[Q1, occupation: writer]", pool) == (["writer"], 0)
    assert match("[Q1, occupation: writer, notable work: Rec] [Q1, occupation: writer]", pool) == (["writer"], 1)
    assert match("[Q1, notable work: (REC]", pool) == (["[REC"], 0)
    assert match("[Q2, occupation: writer, occupation: Poet, member: poet] [Q1]", pool) == ([], 3)
    assert match("[Q2, occupation: poet] [NA] [Q1, occupation: writer]", pool) == (["poet", "writer"], 0)


@pytest.mark.parametrize(
    ("cited", "held", "is_same"),
    [
        ("1593-07-08", "1593-07-08", True),
        ("8 July 1593", "1593-07-08", True),
        ("July 8, 1593", "1593-07-08", True),
        ("1593", "1593-07-08", False),
        ("1593-07-08", "1593", False),
        ("44 BCE", "44 BC", True),
        ("44", "44 BC", False),
        ("15 March 44 BC", "0044-03-15 BC", True),
        ("5th-century BC", "5th century BC", True),
        ("1590s", "1593", False),
    ],
)
def test_dates_are_compared_as_dates(cited: str, held: str, is_same: bool) -> None:
    pool = [make_piece("date of birth", held, is_date=True)]
    assert match(f"[Q1, date of birth: {cited}]", pool) == (([held], 0) if is_same else ([], 1))


def test_a_label_that_looks_like_a_date_is_no_date() -> None:
    assert match("[Q1, notable work: 1984 AD]", [make_piece("notable work", "1984")]) == ([], 1)


def test_of_values_that_are_told_alike_the_first_counts() -> None:
    pool = [make_piece("place of birth", "Newark", value_qid=qid) for qid in ("Q25395", "Q975678")]
    matched = match_citations(parse_citations("[Q1, place of birth: Newark]", PROPERTIES).citations, pool)
    assert [piece.value_qid for piece in matched.pieces] == ["Q25395"]
