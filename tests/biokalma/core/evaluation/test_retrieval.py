"""Names in questions, and which of several bearers is meant."""

import pytest

from tasks.biokalma.core.evaluation.retrieval import Name, choose_item, choose_names, list_spans
from tasks.core.calls.knowledge import Candidate, Fact, Pid, Qid

FUNCTION_WORDS = frozenset({"what", "who", "and", "of"})


def bear(*qids: str, via: str = "label") -> list[Candidate]:
    return [Candidate(Qid(qid), "label" if via == "label" else "alias") for qid in qids]


def know(*labels: str) -> list[Fact]:
    return [Fact(Pid("P1"), "x", Qid(f"Q{at}"), label, None, None, None) for at, label in enumerate(labels, 1)]


@pytest.mark.parametrize(
    ("question", "bearers", "found"),
    [
        ("Who were Oscar and Richard Hertwig?", ["Richard Hertwig"], ["Richard Hertwig"]),
        ("What of Niels Bohr's teachers?", ["Niels Bohr"], ["Niels Bohr"]),
        ("What of Sammy Davis, Jr.'s grave?", ["Sammy Davis, Jr."], ["Sammy Davis, Jr."]),
        ("What of Johannes Brahms’ home?", ["Johannes Brahms"], ["Johannes Brahms"]),
        ("Who was (Leonardo da Vinci)?", ["Leonardo da Vinci"], ["Leonardo da Vinci"]),
        ("Who was al-Khwarizmi Muhammad?", ["al-Khwarizmi Muhammad"], ["al-Khwarizmi Muhammad"]),
        # the longest counts, and nothing inside or across it
        ("Was it John Quincy Adams?", ["John Quincy", "Quincy Adams", "John Quincy Adams"], ["John Quincy Adams"]),
        ("Who was O'Neill?", ["O'Neill"], []),
        ("", [], []),
    ],
)
def test_names_are_found_in_questions(question: str, bearers: list[str], found: list[str]) -> None:
    spans = list_spans(question, 2, FUNCTION_WORDS)
    assert [name.text for name in choose_names(spans, {each: bear("Q1") for each in bearers})] == found


def test_one_word_is_a_name_where_so_short_a_name_may_be_and_is_no_function_word() -> None:
    spans = list_spans("What made Siemens?", 1, FUNCTION_WORDS)
    assert [name.text for name in choose_names(spans, {"What": bear("Q1"), "Siemens": bear("Q2")})] == ["Siemens"]


@pytest.mark.parametrize(
    ("candidates", "facts", "meant"),
    [
        # whose neighbours the question names
        (bear("Q1", "Q2"), {"Q1": know("Rome"), "Q2": know("Mary Shelley", "Rome")}, "Q2"),
        # his own name, which a namesake's son bears, is no neighbour that is named
        (bear("Q1", "Q2"), {"Q1": know(), "Q2": know("Percy Shelley")}, "Q1"),
        # words are whole
        (bear("Q1", "Q2"), {"Q1": know(), "Q2": know("Mary Shell")}, "Q1"),
        (bear("Q10", "Q9"), {"Q10": know(), "Q9": know()}, "Q9"),
        ([*bear("Q9"), *bear("Q1", via="alias")], {"Q9": know(), "Q1": know()}, "Q9"),
    ],
)
def test_of_several_bearers_the_one_counts_whose_neighbours_are_named(
    candidates: list[Candidate], facts: dict[Qid, list[Fact]], meant: str
) -> None:
    name = Name("Percy Shelley", tuple(candidates))
    assert choose_item("What joined Percy Shelley and Mary Shelley?", name, facts) == meant
