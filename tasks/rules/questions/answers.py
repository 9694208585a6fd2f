"""Five questions about an article, and one long question for all of them: the rules author's part in SLAQ."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from tasks.core.calls.knowledge import Knowledge
from tasks.rules.questions.clauses import ask_clause, read_clauses
from tasks.rules.questions.patterns import ask_patterns
from tasks.rules.questions.reading import Topic, read_sentences, read_topic
from tasks.rules.questions.wording import Fact, ask_all, write_paragraph

_QUESTIONS = 5
_ANSWER_WORDS = 9
_FACTS_AT_MOST = 14
"""More are not looked at: with these there are some two thousand choices."""


def write_questions(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str]:
    """Return for each `topic` and `article` a JSON object of short pairs, a long question and a long answer."""
    written = []
    for asked in batch:
        topic = read_topic(asked["topic"], asked["article"])
        facts = choose_facts(topic, asked["article"]) if topic else []
        written.append(
            json.dumps(
                {
                    "short": [{"question": fact.question, "answer": fact.answer} for fact in facts],
                    "long_question": ask_all(topic.name, facts) if topic and facts else "",
                    "long_answer": write_paragraph(facts),
                },
                ensure_ascii=False,
            )
        )
    return written


def find_facts(topic: Topic, article: str) -> list[Fact]:
    """Return all facts that can be asked for, in the order of the article, one question after another."""
    facts: list[Fact] = []
    for told in read_sentences(topic, article):
        facts += ask_patterns(told, topic)
        for clause in read_clauses(told):
            facts += ask_clause(clause, topic)
    fitting = [fact for fact in dict.fromkeys(facts) if _is_fit(fact, topic, article)]
    questions = Counter(fact.question for fact in fitting)
    return [fact for fact in fitting if questions[fact.question] == 1]


def choose_facts(topic: Topic, article: str) -> list[Fact]:
    """Return up to five facts that do not tell each other's answers, the ways of asking as different as can be."""
    facts = find_facts(topic, article)[:_FACTS_AT_MOST]
    near = {(one, other) for one in facts for other in facts if _is_near(one, other)}
    for number in range(min(_QUESTIONS, len(facts)), 0, -1):
        sets = (
            chosen
            for chosen in combinations(facts, number)
            if not any(pair in near for pair in combinations(chosen, 2))
        )
        best = min(sets, key=_count_repeats, default=None)
        if best is not None:
            return list(best)
    return []


def _count_repeats(facts: Sequence[Fact]) -> int:
    """Return how many questions ask for what another asks for."""
    return len(facts) - len({fact.asks for fact in facts})


def _is_near(one: Fact, other: Fact) -> bool:
    """True when two questions ask for the same event, or one gives the other's answer away."""
    if one.said == other.said or one.answer == other.answer or (one.event and one.event == other.event):
        return True
    return one.answer in other.question or other.answer in one.question


def _is_fit(fact: Fact, topic: Topic, article: str) -> bool:
    words = fact.answer.split()
    return (
        0 < len(words) <= _ANSWER_WORDS
        and fact.answer in article
        and re.search(rf"(?<!\w){re.escape(fact.answer.lower())}(?!\w)", fact.question.lower()) is None
        and len(fact.question.split()) <= 30
        and topic.bare.removesuffix("s" if topic.is_plural else "") in fact.question
    )
