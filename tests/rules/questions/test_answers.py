"""The rules author's questions about articles: single sentences, and the embedded articles as a whole."""

import json
from collections.abc import Mapping

import pytest

from tasks.assets import load_list, load_removed
from tasks.core.calls.call import Call, Reply
from tasks.core.calls.knowledge import Knowledge
from tasks.rules.author import RulesAuthor
from tasks.rules.questions.answers import choose_facts, find_facts, write_questions
from tasks.rules.questions.reading import read_sentences, read_topic
from tasks.rules.questions.wording import Fact, ask_all, write_paragraph
from tasks.slaq.core.checks import check_all, read_lists
from tasks.slaq.core.replies import Unreadable, read_generated
from tasks.text.article import read_article
from tasks.world.data import WORLD_FOLDER
from tasks.world.files.articles import categories_of
from tasks.world.files.reading import read_world_files
from tasks.world.wiki.pages import Wiki
from tasks.world.wiki.rendering import render_revision


class EmptyKnowledge(Knowledge):
    """Knows nothing: questions are made from the article alone."""


KNOWLEDGE = EmptyKnowledge.__new__(EmptyKnowledge)


@pytest.mark.parametrize(
    ("title", "opening", "name"),
    [
        ("Mars", "Mars is the fourth planet from the Sun.", "Mars"),
        ("Mercury (planet)", "Mercury is the smallest planet.", "the planet Mercury"),
        ("Crab Nebula", "The Crab Nebula is a cloud of gas.", "the Crab Nebula"),
        ("Monster group", "In group theory, the Monster group is a group.", "the Monster group"),
        ("Fountain (Duchamp)", "Fountain is a readymade by Marcel Duchamp.", "Marcel Duchamp's Fountain"),
        ("Suicide (Durkheim book)", "Suicide is a book by Émile Durkheim.", "Émile Durkheim's book Suicide"),
        (
            "Chicago school (sociology)",
            "The Chicago school in sociology is a group.",
            "the Chicago school in sociology",
        ),
        ("Dedekind number", "The Dedekind numbers are a sequence.", "the Dedekind numbers"),
    ],
)
def test_a_topic_gets_a_name_that_stands_alone(title: str, opening: str, name: str) -> None:
    topic = read_topic(title, opening)
    assert topic is not None
    assert topic.name == name


def test_an_opening_that_does_not_name_the_topic_gives_none() -> None:
    assert read_topic("Mars", "This planet is red.") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("It has two moons.", "Mars has two moons"),
        ("Its diameter is 6,792 kilometres.", "Mars's diameter is 6,792 kilometres"),
        ("Viking 1 reached the planet in 1976.", "Viking 1 reached Mars in 1976"),
        ("The planet of war is another matter.", "The planet of war is another matter"),
    ],
)
def test_what_plainly_means_the_topic_gives_way_to_its_name(text: str, told: str) -> None:
    article = f"Mars is a planet. {text}"
    topic = read_topic("Mars", article)
    assert topic is not None
    assert read_sentences(topic, article)[1].text == told


def test_it_behind_another_subject_stays() -> None:
    article = "Mars is a planet. The rover Sojourner landed in 1997. It weighed 10 kilograms."
    topic = read_topic("Mars", article)
    assert topic is not None
    assert read_sentences(topic, article)[2].text == "It weighed 10 kilograms"


def test_a_surname_becomes_the_full_name_that_the_article_gives() -> None:
    article = "Mars is a planet. Asaph Hall lived in Washington. Hall discovered both moons."
    topic = read_topic("Mars", article)
    assert topic is not None
    assert read_sentences(topic, article)[2].text == "Asaph Hall discovered both moons"


def ask(sentence: str) -> list[tuple[str, str, str]]:
    article = f"The Crab Nebula is a nebula. {sentence}"
    topic = read_topic("Crab Nebula", article)
    assert topic is not None
    return [(fact.question, fact.answer, fact.said) for fact in find_facts(topic, article)]


def test_a_maker_and_a_year_are_asked_for() -> None:
    assert ask("The English physician John Bevis discovered the Crab Nebula in 1731.") == [
        ("Who discovered the Crab Nebula in 1731?", "John Bevis", "John Bevis discovered the Crab Nebula in 1731"),
        (
            "In which year did John Bevis discover the Crab Nebula?",
            "1731",
            "John Bevis discovered the Crab Nebula in 1731",
        ),
    ]


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        ("The nebula was drawn by William Parsons.", "Who drew the Crab Nebula?", "William Parsons"),
        (
            "On 4 July 1054 Chinese astronomers noted the Crab Nebula.",
            "When did Chinese astronomers note the Crab Nebula?",
            "4 July 1054",
        ),
        ("The nebula was listed in May 1758.", "In which month was the Crab Nebula listed?", "May 1758"),
        ("It is about 11 light-years wide.", "How wide is the Crab Nebula?", "11 light-years"),
        ("It lies about 6,500 light-years away.", "How far away does the Crab Nebula lie?", "6,500 light-years"),
        ("It is named after Edwin Hubble.", "After whom is the Crab Nebula named?", "Edwin Hubble"),
        ("Its mass is about 4 suns.", "What is the Crab Nebula's mass?", "4 suns"),
    ],
)
def test_sentences_give_questions(sentence: str, question: str, answer: str) -> None:
    assert (question, answer) in {(asked, told) for asked, told, _ in ask(sentence)}


@pytest.mark.parametrize(
    "sentence",
    [
        "He discovered the Crab Nebula in 1731.",
        "The same man drew the Crab Nebula in 1844.",
        "Later the machine photographed the Crab Nebula in 1900.",
        "John Bevis admired the object that others had named in 1731.",
        "The nebula was seen in May 1731 and June 1732.",
    ],
)
def test_what_leans_on_the_article_or_has_two_answers_is_not_asked(sentence: str) -> None:
    assert ask(sentence) == []


def test_a_question_with_two_answers_in_the_article_is_left_out() -> None:
    assert ask("It is 11 light-years wide. The nebula is 12 light-years wide.") == []


@pytest.mark.parametrize(
    ("fact", "question", "asked"),
    [
        (Fact("Who", "", "drew", "it", "A", "A drew it"), "Who drew it?", "who drew it"),
        (Fact("When", "A", "was born", "", "1", "A"), "When was A born?", "when A was born"),
        (
            Fact("How long", "A", "takes", "to turn", "1", "A"),
            "How long does A take to turn?",
            "how long A takes to turn",
        ),
        (Fact("How many", "A", "has", "", "1", "A"), "How many does A have?", "how many A has"),
        (Fact("Where", "A", "has been kept", "", "1", "A"), "Where has A been kept?", "where A has been kept"),
        (Fact("When", "A", "wrote", "B", "1", "A"), "When did A write B?", "when A wrote B"),
        (Fact("How far", "A", "lies", "", "1", "A"), "How far does A lie?", "how far A lies"),
    ],
)
def test_questions_stand_alone_and_within_others(fact: Fact, question: str, asked: str) -> None:
    assert (fact.question, fact.asked) == (question, asked)


def test_the_long_pair_joins_the_short_ones() -> None:
    facts = [
        Fact("Who", "", "drew", "A", "B", "B drew A"),
        Fact("When", "A", "was seen", "", "1", "the A was seen in 1"),
    ]
    assert ask_all("A", facts) == "Tell about A by answering (1) who drew A, and (2) when A was seen."
    assert write_paragraph(facts) == "B drew A. The A was seen in 1."


def test_the_author_answers_the_prompt_with_one_object() -> None:
    author = RulesAuthor("rules-1@test", KNOWLEDGE)
    replies: list[Reply] = []
    variables = {"topic": "Mars", "article": "Mars is a planet. It has two moons."}
    parts = {"prompt": "slaq/generate", "variables": variables, "samples": 1}
    author.send([Call(author.identity, "chat", parts)], lambda _, reply: replies.append(reply))
    assert json.loads(replies[0].body["texts"][0]) == {
        "short": [{"question": "How many moons does Mars have?", "answer": "two"}],
        "long_question": "Tell about Mars by answering (1) how many moons Mars has.",
        "long_answer": "Mars has two moons.",
    }


def test_an_article_without_plain_facts_gives_no_pairs() -> None:
    (written,) = write_questions([{"topic": "Mars", "article": "Nothing is said."}], KNOWLEDGE)
    assert json.loads(written)["short"] == []


@pytest.fixture(scope="module")
def articles() -> Mapping[str, tuple[list[str], str]]:
    """Title → categories, main text."""
    data, _ = read_world_files(WORLD_FOLDER)
    wiki, removed = Wiki(data), load_removed()
    return {
        page.title: (
            categories_of(page.revisions[-1].text),
            read_article(render_revision(wiki, page, page.revisions[-1]).html, removed).text,
        )
        for page in wiki.by_title.values()
        if page.namespace == 0 and not page.redirect_to
    }


@pytest.mark.slow
def test_enough_embedded_articles_give_five_pairs_that_pass_every_check(
    articles: Mapping[str, tuple[list[str], str]],
) -> None:
    data, _ = read_world_files(WORLD_FOLDER)
    tops = [name for name, parents in data.categories.items() if not parents][:15]
    lists = read_lists(load_list("source_phrases"), load_list("one_of_many"), load_list("function_words"))
    batch = [{"topic": title, "article": text} for title, (_, text) in articles.items()]
    full = set()
    for asked, reply in zip(batch, write_questions(batch, KNOWLEDGE), strict=True):
        if len(json.loads(reply)["short"]) < 5:
            continue
        generated = read_generated(reply)
        assert not isinstance(generated, Unreadable), asked["topic"]
        assert check_all(generated, asked["topic"], asked["article"], lists) == [], asked["topic"]
        full.add(asked["topic"])
    of_the_fifteen = set()
    for top in tops:
        inside = {
            title
            for title in full
            if any(each == top or top in data.categories.get(each, ()) for each in articles[title][0])
        }
        assert len(inside) >= 2, top
        of_the_fifteen |= inside
    assert len(of_the_fifteen) >= 30


def test_answers_stand_in_the_article_and_not_in_the_other_questions(
    articles: Mapping[str, tuple[list[str], str]],
) -> None:
    for title, (_, text) in articles.items():
        topic = read_topic(title, text)
        facts = choose_facts(topic, text) if topic else []
        for fact in facts:
            assert fact.answer in text
            assert all(fact.answer not in other.question for other in facts), (title, fact.answer)
