"""The replies written by hand for SLAQ: each fits its article of the embedded world, and is served for that text alone."""

import json
from collections import Counter
from functools import cache

import pytest

from tasks.assets import load_list, load_prompt, load_removed
from tasks.core.calls.call import Call, Reply
from tasks.core.prompts import Ask
from tasks.rules.author import RulesAuthor
from tasks.rules.by_hand import digest_text, load_replies
from tasks.slaq.core.checks import check_all
from tasks.slaq.core.known_text import read_lists
from tasks.slaq.core.replies import Generated, read_check, read_fact_type, read_generated
from tasks.text.article import read_article
from tasks.text.folded import fold_text, has_words
from tasks.text.sentences import split_sentences
from tasks.world.files.reading import load_world_data
from tasks.world.wiki.pages import Wiki

LISTS = read_lists(load_list("source_phrases"), load_list("one_of_many"), load_list("function_words"))
TITLES = sorted(load_replies())
WIKI = Wiki(load_world_data())


@cache
def read_text(revid: int) -> str:
    """Return the main text of a revision of the embedded Wikipedia."""
    return read_article(WIKI.by_revid[revid][1].text, load_removed()).text


def send(prompt: str, **variables: str) -> Reply:
    author = RulesAuthor("rules-1@test", None)  # type: ignore[arg-type]
    call = Call(author.identity, "chat", Ask(load_prompt(prompt), variables).parts())
    replies: list[Reply] = []
    author.send([call], lambda _, reply: replies.append(reply))
    return replies[0]


def ask(prompt: str, **variables: str) -> str:
    reply = send(prompt, **variables)
    assert reply.status == "ok", reply.error
    text: str = reply.body["texts"][0]
    return text


@pytest.mark.parametrize("title", TITLES)
def test_a_reply_fits_its_article(title: str) -> None:
    reply, text = load_replies()[title], read_text(load_replies()[title].revid)
    assert reply.text == digest_text(text), "the article has changed: look the reply through, then renew its digest"
    generated = read_generated(ask("slaq/generate", topic=title, article=text))
    assert isinstance(generated, Generated), generated
    assert check_all(generated, title, text, LISTS) == []
    pairs = "\n".join(f"{n}. {pair.question} — {pair.answer}" for n, pair in enumerate(generated.short, 1))
    assert read_check(ask("slaq/check", topic=title, article=text, pairs=pairs)) == (None,) * 5
    types = [
        read_fact_type(ask("slaq/fact_type", question=pair.question, answer=pair.answer)) for pair in generated.short
    ]
    assert types == [kind for _, _, kind in reply.pairs]


def test_every_reply_says_that_it_is_written_by_hand() -> None:
    assert {reply.written for reply in load_replies().values()} == {"by hand, for the embedded world"}


def test_facts_are_of_all_kinds() -> None:
    kinds = Counter(kind for reply in load_replies().values() for _, _, kind in reply.pairs)
    named = ("PERSON", "NORP", "FAC", "ORG", "GPE", "LOC", "PRODUCT", "EVENT", "WORK_OF_ART", "LAW", "LANGUAGE")
    assert kinds["none"] >= kinds.total() / 3
    assert sum(kinds[kind] for kind in named) <= kinds.total() / 3
    assert len(kinds) >= 12


def test_long_answers_flow() -> None:
    for title, reply in load_replies().items():
        sentences = split_sentences(reply.long_answer)
        assert sum(has_words(fold_text(each), fold_text(title.partition(" (")[0])) for each in sentences) <= 1, title


def test_another_text_gets_no_reply_and_another_pair_no_approval() -> None:
    title, text = "Git", read_text(load_replies()["Git"].revid)
    for topic, article in ((title, f"{text} More."), ("Algebra", text)):
        reply = send("slaq/generate", topic=topic, article=article)
        assert (reply.status, reply.transient) == ("failed", False)
        assert str(reply.error) == "no_reply: none is written by hand for slaq/generate"
    question, answer, _ = load_replies()[title].pairs[0]
    pairs = f"1. {question} — {answer}\n2. {question} — Java\n3. Who? — Nobody"
    lines = ask("slaq/check", topic=title, article=text, pairs=pairs).splitlines()
    assert [line.partition(": ")[2] == "ok" for line in lines] == [True, False, False]
    assert send("slaq/fact_type", question=question, answer="Java").status == "failed"
    assert json.loads(ask("slaq/generate", topic=title, article=text))["short"][0]["answer"] == answer
