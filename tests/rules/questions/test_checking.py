"""How the rules author judges pairs of question and answer, and which class it gives an answer."""

from collections.abc import Iterable, Sequence

import pytest

from tasks.core.calls.knowledge import Candidate, Description, Neighbour, Pid, Qid
from tasks.rules.questions.checking import check_pairs, name_fact_types

CLAIMS = {"Q1": ("Lovelace", "Q5", "human"), "Q2": ("Rome", "Q515", "city"), "Q3": ("Danube", "Q4022", "river")}


class SmallWikidata:
    """Three items with a class each."""

    def find(self, names: Iterable[str]) -> dict[str, list[Candidate]]:
        labels = {label: qid for qid, (label, _, _) in CLAIMS.items()}
        return {name: [Candidate(Qid(labels[name]), "label")] for name in names if name in labels}

    def describe(self, qids: Iterable[str]) -> dict[Qid, Description]:
        return {Qid(qid): Description(None, None, None, None) for qid in qids}

    def neighbours(self, qids: Iterable[str], pids: Sequence[str]) -> dict[Qid, list[Neighbour]]:
        assert tuple(pids) == ("P31",)
        return {Qid(qid): [Neighbour(Pid("P31"), Qid(CLAIMS[qid][1]), CLAIMS[qid][2])] for qid in qids}


ARTICLE = (
    "Git is a version control program. It is written in C. Linus Torvalds began to write Git on 3 April 2005.\n\n"
    "Junio Hamano has led the project since 26 July 2005."
)


@pytest.mark.parametrize(
    ("question", "answer", "judged"),
    [
        ("Who began to write Git?", "Linus Torvalds", "ok"),
        ("When did Linus Torvalds begin to write Git?", "3 April 2005", "ok"),
        ("Who began to write it?", "Linus Torvalds", "the question leans on something that it does not name"),
        ("Who leads the project?", "Junio Hamano", "the question leans on something that it does not name"),
        ("Who wrote anything?", "Linus Torvalds", "the question names no subject"),
        ("Who began to write Git?", "Larry Wall", "the article does not hold the answer"),
        ("In which museum do engineers exhibit Git?", "3 April 2005", "the article does not say this of the subject"),
    ],
)
def test_pairs_are_judged(question: str, answer: str, judged: str) -> None:
    asked = {"topic": "Git", "article": ARTICLE, "pairs": f"1. {question} — {answer}"}
    assert check_pairs([asked], SmallWikidata()) == [f"1: {judged}"]


def test_every_pair_gets_its_line() -> None:
    pairs = "1. Who began to write Git? — Linus Torvalds\n2. Who wrote it? — Linus Torvalds"
    (judged,) = check_pairs([{"topic": "Git", "article": ARTICLE, "pairs": pairs}], SmallWikidata())
    assert [line.partition(": ")[0] for line in judged.splitlines()] == ["1", "2"]


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("When was it?", "3 April 2005", "DATE"),
        ("In which year was it?", "240 BC", "DATE"),
        ("How long is a year?", "365.26 days", "DATE"),
        ("How long does it take?", "95 minutes", "TIME"),
        ("How long is it?", "596 kilometres", "QUANTITY"),
        ("How warm is it?", "430 degrees Celsius", "QUANTITY"),
        ("How much is it?", "30.7 per cent", "PERCENT"),
        ("How much was it?", "700,000 dollars", "MONEY"),
        ("How many are there?", "twelve", "CARDINAL"),
        ("How many are there?", "1,313", "CARDINAL"),
        ("Which one was it?", "the third", "ORDINAL"),
        ("What is this?", "Lovelace", "PERSON"),
        ("What is this?", "Rome", "GPE"),
        ("What is this?", "the Danube", "LOC"),
        ("Who built Telstar?", "Bell Labs", "ORG"),
        ("Who wrote it?", "Linus Torvalds", "PERSON"),
        ("Which company is behind it?", "Nintendo", "ORG"),
        ("In which language is Git written?", "C", "LANGUAGE"),
        ("Where is it kept?", "the British Museum", "FAC"),
        ("What is the emblem?", "the shell of the scallop", "none"),
        ("What is it?", "Dinkinesh", "none"),
    ],
)
def test_answers_get_a_class(question: str, answer: str, expected: str) -> None:
    assert name_fact_types([{"question": question, "answer": answer}], SmallWikidata()) == [f"Type: {expected}"]
