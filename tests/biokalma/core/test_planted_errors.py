"""Errors that an author may plant in a biography, one of each kind, and the check that catches it."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.habits.wrong_contents import WRONG_CONTENTS
from support.rows.biographies import make_piece

from tasks.assets import load_prompt
from tasks.biokalma.core.added_sentences import check_added
from tasks.biokalma.core.paragraph_replies import read_paragraph, read_question
from tasks.biokalma.core.questions import check_question, check_share
from tasks.biokalma.core.stated import find_stated
from tasks.biokalma.evolve import EXTEND, GENERAL, SPECIFIC
from tasks.biokalma.sources.lists import load_properties_asked
from tasks.core.authoring.citations import parse_citations
from tasks.core.replies import Unreadable

NAMES = {"Q1": "Ada Lovelace", "Q2": "Lord Byron"}
FATHER = make_piece("Q1", "P22", "Lord Byron", "Q2", property="father")
BORN = make_piece("Q1", "P19", "London", "Q3", property="place of birth")
POET = make_piece("Q2", "P106", "poet", "Q4", property="occupation")
DIED = make_piece("Q2", "P20", "Missolonghi", "Q5", property="place of death")
PRIZE = make_piece("Q2", "P166", "Copley Medal", "Q6", property="award received")
TEXT = "Ada Lovelace was a daughter of Lord Byron."
GOOD = {
    "cite": "Ada Lovelace was a daughter of Lord Byron [qid: Q1, father: Lord Byron].",
    "extend": f"{TEXT} Ada Lovelace was born in London.",
    "general": "Who were Ada Lovelace and Lord Byron, daughter and father?",
    "specific": "Where was Ada Lovelace born, what was Lord Byron's occupation, and what connects the two?",
}


def find_error(kind: str, said: str) -> str:
    """Return the code of what is wrong with a reply of a kind; empty for nothing."""
    known, pieces = load_properties_asked(), [FATHER, BORN, POET]
    found: Any = said
    if kind == "cite":
        pool = [*pieces, DIED, PRIZE]
        stated = find_stated(parse_citations(said, {piece.property for piece in pool}), pool, NAMES)
        return "cites_unstated" if stated.is_overdone else "unstated" if stated.unstated else ""
    if kind == "extend":
        found = check_added(TEXT, said, [BORN], [FATHER], NAMES)
    elif not isinstance(said, Unreadable):
        found = check_question(said, list(NAMES.values()), pieces, known)
        if kind == "specific" and isinstance(found, str):
            found = check_share(found, list(NAMES), pieces, known)
    return found.reason.partition(":")[0] if isinstance(found, Unreadable) else ""


@pytest.mark.parametrize("kind", GOOD)
def test_what_is_right_is_taken(kind: str) -> None:
    assert find_error(kind, GOOD[kind]) == ""


ALL = "[qid: Q2, occupation: poet, place of death: Missolonghi, award received: Copley Medal][qid: Q1, father: Lord Byron]"


@pytest.mark.parametrize(
    ("kind", "said", "code"),
    [
        pytest.param("cite", f"{TEXT[:-1]} [qid: Q2, occupation: poet].", "unstated", id="a fact cited that is unstated"),
        pytest.param("cite", f"{TEXT[:-1]} {ALL}.", "cites_unstated", id="the whole pool cited"),
        pytest.param("extend", f"{TEXT} Ada Lovelace was born on Mars.", "value_missing", id="another value"),
        pytest.param("extend", f"{GOOD['extend'][:-1]}, not on Mars.", "adds", id="an invented place"),
        pytest.param("extend", f"{GOOD['extend'][:-1]} to Zorvald Quibble.", "adds", id="an invented person"),
        pytest.param("extend", f"{GOOD['extend'][:-1]} in 1815.", "adds", id="an invented date"),
        pytest.param("extend", f"{GOOD['extend'][:-1]} as one of nine.", "adds", id="an invented number"),
        pytest.param("extend", f"{GOOD['extend'][:-1]} a furlong away.", "adds", id="a unit"),
        pytest.param("extend", f"{TEXT} Lord Byron was born in London.", "wrong_person", id="the other person"),
        pytest.param("general", "What is the capital of France?", "person_missing", id="another question"),
        pytest.param("general", "Who was Ada Lovelace?", "person_missing", id="one person left out"),
        pytest.param("general", f"{GOOD['general'][:-1]}, and did they know Goethe?", "outside", id="a name asked for"),
        pytest.param("specific", f"{GOOD['specific'][:-1]}, and what were their awards?", "asks_outside", id="a matter beyond"),
        pytest.param("specific", GOOD["general"], "asks_too_little", id="most of the set left out"),
        pytest.param("specific", " ".join([GOOD["specific"]] * 2), "repeated", id="a repetition"),
    ],
)  # fmt: skip
def test_planted_errors_are_caught(kind: str, said: str, code: str) -> None:
    assert find_error(kind, said) == code


@pytest.mark.parametrize("name", WRONG_CONTENTS)
@pytest.mark.parametrize(("kind", "prompt"), [("extend", EXTEND), ("general", GENERAL), ("specific", SPECIFIC)])
def test_contents_that_models_make_up_are_caught(name: str, kind: str, prompt: str) -> None:
    label = "Paragraph" if kind == "extend" else "Question"
    asked = cast(Any, SimpleNamespace(prompt=load_prompt(prompt)))
    spoilt = WRONG_CONTENTS[name](f"{label}: {GOOD[kind]}", asked, Random(1)).content
    read = (read_paragraph if kind == "extend" else read_question)(spoilt or "")
    assert isinstance(read, Unreadable) or find_error(kind, read), spoilt
