"""The rules author's wording of generated fan-out questions."""

import pytest

from tasks.assets import load_prompt
from tasks.core.authoring.fanout_wording import Wording, check_worded
from tasks.core.calls.call import Call, Reply
from tasks.core.calls.chat import call_chat
from tasks.core.prompts import fill_in
from tasks.rules.author import RulesAuthor
from tasks.rules.fanoutqa.wording import word_question
from tasks.text.values.answers import Answer

BORDERS = "the countries that share a border with Austria"
ALL, FIVE, THOSE = "all of them", "the five that have the largest areas", "those that were released before 1980"
NAMES = "Jaws; Titanic; Inception"
CAPITAL = "what is the capital of each of them"
PEOPLE = "what was the population of each of them as of May 2020"
RELEASED = "when was each of them first released"


@pytest.mark.parametrize(
    ("pieces", "written"),
    [
        (
            (BORDERS, "", ALL, CAPITAL),
            {f"What is the capital of each of {BORDERS}?"},
        ),
        (
            (BORDERS, "", FIVE, PEOPLE),
            {
                f"Which five of {BORDERS} have the largest areas, and what was the population of each of those as of May 2020?",
                f"Of {BORDERS}, which five have the largest areas, and what was the population of each of those as of May 2020?",
            },
        ),
        (
            ("films", NAMES, ALL, RELEASED),
            {
                "When was each of these films first released: Jaws, Titanic and Inception?",
                "When was each of the following films first released: Jaws, Titanic and Inception?",
                "Consider these films: Jaws, Titanic and Inception. When was each of them first released?",
            },
        ),
        (
            ("films", NAMES, THOSE, RELEASED),
            {
                "Consider these films: Jaws, Titanic and Inception. Which of them were released before 1980, and when was "
                "each of those first released?",
            },
        ),
    ],
)
def test_a_question_is_one_of_a_few_sentences(pieces: tuple[str, ...], written: set[str]) -> None:
    assert word_question(*pieces) in written


def test_sentences_vary_with_the_pieces_and_not_from_run_to_run() -> None:
    groups = [f"the towns of region {number}" for number in range(60)]
    forms = {word_question(group, "", FIVE, CAPITAL).split()[0] for group in groups}
    assert forms == {"Which", "Of"}
    assert all(word_question(group, "", FIVE, CAPITAL) == word_question(group, "", FIVE, CAPITAL) for group in groups)


def test_names_with_a_comma_or_an_and_are_parted_by_semicolons() -> None:
    names = "Pride and Prejudice; Girls, Girls, Girls; Emma"
    assert "Pride and Prejudice; Girls, Girls, Girls; and Emma" in word_question("works", names, ALL, RELEASED)


def test_its_questions_pass_the_check_that_models_have_to_pass() -> None:
    wording = Wording(
        group=BORDERS,
        owner="Austria",
        names=(),
        choice="have an area of less than 100,000 square kilometres",
        count=0,
        limit="100,000 square kilometres",
        asked="what was the area of each of them in square kilometres as of May 2020",
        unit="square kilometres",
        month="May 2020",
    )
    answer: dict[str, Answer] = {"Hungary": 93025, "Slovakia": 49035}
    question = word_question(wording.group, "", wording.format_choice(), wording.asked)
    assert check_worded(question, wording, answer) == question


def test_the_rules_author_answers_the_prompt() -> None:
    prompt = load_prompt("fanoutqa/word_question")
    ask = fill_in(prompt, group="films", names=NAMES, choice=ALL, asked=RELEASED)
    replies: list[tuple[Call, Reply]] = []
    # no graph: a wording needs none
    author = RulesAuthor("rules-1@test", None)  # type: ignore[arg-type]
    author.send([call_chat("rules-1@test", "rules-1", ask)], lambda call, reply: replies.append((call, reply)))
    ((_, reply),) = replies
    assert isinstance(reply.body, dict)
    assert reply.body["texts"] == [word_question("films", NAMES, ALL, RELEASED)]
