"""The rules author on fan-out questions: good ones are left alone; words of opinion, open sets, grammar, lacking units."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.core.calls.call import Call, Reply
from tasks.fanoutqa.core.replies import WordingReply, read_reason, read_verdict, read_wording
from tasks.rules.author import RulesAuthor


class NoGraph:
    """A graph that these rules must not need."""


def ask(prompt: str, **variables: str) -> str:
    replies: list[Reply] = []
    call = Call("rules", "chat", {"prompt": f"fanoutqa/{prompt}", "variables": variables})
    RulesAuthor("rules", NoGraph()).send([call], lambda _, reply: replies.append(reply))  # type: ignore[arg-type]
    (reply,) = replies
    assert isinstance(reply.body, dict)
    return str(reply.body["texts"][0])


def judge(question: str) -> bool:
    verdict = read_verdict(ask("objective", question=question, epoch="2023-11-20T00:00:00Z"))
    assert isinstance(verdict, bool)
    return verdict


def mend(question: str, answer: Any = "somebody") -> WordingReply:
    said = read_wording(ask("wording", question=question, answer=json.dumps(answer), steps="not given"), question)
    assert isinstance(said, WordingReply)
    return said


@pytest.mark.parametrize(
    "question",
    [
        "What are the capitals of the five best-selling authors' home countries?",
        "Which of the five largest lakes of Italy is the deepest?",
        "Who directed the films that won Best Picture from 2000 to 2005?",
        "Who were the directors of 'The Most Beautiful Day' and its four sequels?",
        "Which country has the greatest number of official languages?",
        "Who won the popular vote in the last five elections?",
        "Who are the current mayors of the five most populous cities of Portugal?",
        "Name the five most recent winners of the Fields Medal.",
        "Identify the architects of five landmarks: the Eiffel Tower, the Atomium, Big Ben, the Louvre and the Colosseum.",
        "What is the most popular dog breed according to the Kennel Club?",
    ],
)
def test_what_can_be_measured_or_looked_up_is_objective(question: str) -> None:
    assert judge(question)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Which are the five best films of Iran?", '"best" is a matter of opinion.'),
        ("Who are the five most famous chess players?", '"famous" is a matter of opinion.'),
        ("What are the five greatest bridges and how long are they?", '"greatest" is a matter of opinion.'),
        ("Where were five popular violinists born?", '"popular" is a matter of opinion.'),
        ("What are some rivers of France?", '"what are some" asks for a few out of many, and nothing says for which.'),
        ("Name 5 alloys of copper.", '"name 5" asks for a few out of many, and nothing says for which.'),
        ("What are five inventions of the Song dynasty?", '"what are five" asks for a few out of many, and nothing says for which.'),
        ("Give examples of islands in the Baltic Sea.", '"examples of" asks for a few out of many, and nothing says for which.'),
        (
            "Who won the Fields Medal in 2018? Give a short description of their work.",
            '"short description" asks for an account that everybody would give in other words.',
        ),
    ],
)  # fmt: skip
def test_opinions_open_sets_and_accounts_are_not_objective(question: str, reason: str) -> None:
    assert not judge(question)
    assert read_reason(ask("objective", question=question, epoch="")) == reason


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many inhabitants has each of the Benelux countries?", {"Belgium": 11_700_000}),
        ("How high, in metres, are the five highest peaks of Austria?", {"Großglockner": 3798}),
        ("What are the heights of the five towers (in feet)?", [310, 290]),
        ("What is the population of the two westernmost islands of the Azores?", [800, 11_000]),
        ("In which area of Paris was each of them born?", ["Passy", "Auteuil"]),
        ("What is the height of the tower?", ["300 m", "312 m with its aerial"]),
        ("What are the areas of study of the five laureates?", ["physics", "chemistry"]),
        ("How tall was each president?", ["1.93 m", "6 ft 2 in"]),
        ("List the capitals of the Benelux countries.", {"Belgium": "Brussels"}),
        ("Which university, a European one, has an honorary chair for a one-time king?", "Uppsala"),
        ("Who had an hour's audience, an X-ray and a used car?", "Röntgen"),
        ("When was each iPhone released?", [2007]),
        ("Who had had that that they gave away?", "Ann"),
    ],
)
def test_a_question_that_is_well_worded_is_left_alone(question: str, answer: Any) -> None:
    assert mend(question, answer) == WordingReply("fine", "")


@pytest.mark.parametrize(
    ("question", "mended"),
    [
        ("who wrote each of the five books?", "Who wrote each of the five books?"),
        ("Who wrote each of the five books", "Who wrote each of the five books?"),
        ("Who wrote each of the five books.", "Who wrote each of the five books?"),
        ("Who wrote each of the the five books ?", "Who wrote each of the five books?"),
        ("Of the five Baltic ports, which has an bridge", "Of the five Baltic ports, which has a bridge?"),
        ("Which of them is a island or a uninhabited rock?", "Which of them is an island or an uninhabited rock?"),
        ("What is the names of the five kings?", "What are the names of the five kings?"),
        ("Who was the founders of the five firms?", "Who were the founders of the five firms?"),
    ],
)
def test_grammar_is_mended(question: str, mended: str) -> None:
    assert mend(question) == WordingReply("rewrite", mended)


@pytest.mark.parametrize(
    ("question", "answer", "mended"),
    [
        (
            "What are the heights of the two towers?",
            {"A": "368 m", "B": "1,200.5 m"},
            "What are the heights in metres of the two towers?",
        ),
        ("What is the running time of the film?", "96 minutes", "What is the running time in minutes of the film?"),
        ("How deep are the two lakes?", ["410 ft", "251 ft"], "How deep are the two lakes, in feet?"),
        ("What is the area of each state?", ["2,586 square miles"], "What is the area in square miles of each state?"),
    ],
)
def test_a_unit_that_the_answer_has_comes_into_the_question(question: str, answer: Any, mended: str) -> None:
    assert mend(question, answer) == WordingReply("rewrite", mended)


@pytest.mark.parametrize("answer", [{"A": 368, "B": 310.5}, [368, "310"], 368, "1,368"])
def test_a_unit_that_nothing_tells_is_flagged(answer: Any) -> None:
    said = mend("What are the heights of the two towers?", answer)
    assert said.kind == "flag"
    assert "unit" in said.text


def test_no_unit_is_missed_where_the_answer_is_held_back() -> None:
    question = "What are the heights of the two towers?"
    assert ask("wording", question=question, answer="not given", steps="not given") == "No change."


def test_few_real_questions_are_found_fault_with(shared_data: Path) -> None:
    for name in ("fanout-final-dev.json", "fanout-final-dev-nov23.json"):
        questions = json.loads((shared_data / "fanoutqa" / name).read_text("utf-8"))
        refused = [each["question"] for each in questions if not judge(each["question"])]
        said = [mend(each["question"], each["answer"]).kind for each in questions]
        # read one by one: all eight name an open set, an opinion or a free account, and the rewrites mend something
        assert len(refused) == 8
        assert 4 <= said.count("rewrite") <= 5
        assert said.count("flag") == 0
