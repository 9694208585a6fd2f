"""Test the program's checks on five question pairs and a long one."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from factmill.tasks.assets import load_list_entries, load_prompt
from factmill.tasks.slaq.core.article_matching import (
    is_answer_in_article,
    make_question_check_word_lists,
    normalise_article,
)
from factmill.tasks.slaq.core.checks import (
    QuestionAnswerPairProblem,
    check_distinct_questions,
    check_generated_pairs,
    check_short_answer,
    check_short_question,
    find_second_possible_answer_problem,
    find_unresolved_pronoun,
    format_problems,
)
from factmill.tasks.slaq.core.pair_replies import (
    GeneratedQuestionAnswerPairs,
    ShortQuestionAnswerPair,
    read_generated_question_answer_pairs,
)
from factmill.tasks.text.values.value_tokens import tokenize_values

LISTS = make_question_check_word_lists(
    load_list_entries("source_phrases"), load_list_entries("one_of_many"), load_list_entries("function_words")
)
TOPIC = "Analytical Engine (machine)"
TEXT = """The Analytical Engine was a calculating machine that Charles Babbage designed. He first described it in 1837, on 8 March of that year.
Its mill was to hold 1,000 numbers of forty digits each. It would have weighed 3.5 tonnes, and two men would have driven it with a crank.
Punched cards came from the loom of Joseph Marie Jacquard. Ada Lovelace wrote the first program for the engine in London on December 10, 1842. Her notes, marked A to G, appeared in the "Scientific Memoirs". The Royal Society kept a part of it. In Italy, Luigi Menabrea wrote of it. It was to be built from brass and iron. Its rival was finished between 264 and 241 BC."""
ARTICLE = normalise_article(TEXT)
GOOD = GeneratedQuestionAnswerPairs(
    (
        ShortQuestionAnswerPair("Who designed the Analytical Engine?", "Charles Babbage"),
        ShortQuestionAnswerPair("In what year was the Analytical Engine first described?", "1837"),
        ShortQuestionAnswerPair("How many numbers could the mill of the Analytical Engine hold?", "1000"),
        ShortQuestionAnswerPair("Whose loom gave the Analytical Engine its punched cards?", "Joseph Marie Jacquard"),
        ShortQuestionAnswerPair("When did Ada Lovelace write her program?", "10 December 1842"),
    ),
    "Discuss the Analytical Engine: (1) who designed it, (2) in what year it was first described, (3) how many numbers "
    "its mill could hold, (4) whose loom gave it its punched cards, and (5) when Ada Lovelace wrote her program.",
    "The Analytical Engine, designed by Charles Babbage, was first described in 1837. Its mill could hold 1,000 numbers, "
    "and the punched cards came from the loom of Joseph Marie Jacquard. Ada Lovelace wrote her program on 10 December 1842.",
)


def list_codes(generated: GeneratedQuestionAnswerPairs) -> list[tuple[str, int]]:
    return [(problem.code, problem.pair_number) for problem in check_generated_pairs(generated, TOPIC, TEXT, LISTS)]


def change_pair(which: int, pair: ShortQuestionAnswerPair) -> GeneratedQuestionAnswerPairs:
    short = list(GOOD.short)
    short[which - 1] = pair
    return replace(GOOD, short=tuple(short))


def test_valid_pairs_have_no_problems() -> None:
    assert check_generated_pairs(GOOD, TOPIC, TEXT, LISTS) == []
    assert format_problems([]) == ""


def test_problems_have_number_of_their_pair() -> None:
    codes = list_codes(change_pair(2, ShortQuestionAnswerPair("When was it described", "in the year 1999")))
    of_pair = (
        "no_question_mark",
        "subject_missing",
        "not_self_contained",
        "answer_not_in_article",
        "long_answer_lacks",
    )
    assert {("long_answer_adds", 0), *((code, 2) for code in of_pair)} <= {*codes}
    assert {which for _, which in codes} == {0, 2}


def test_problems_are_formatted_as_one_clause() -> None:
    text = format_problems(
        [
            QuestionAnswerPairProblem("a", 2, "the answer is long"),
            QuestionAnswerPairProblem("b", 0, "the long answer adds 7"),
        ]
    )
    assert text == "pair 2: the answer is long; long: the long answer adds 7"


SAID = """
Charles Babbage | charles babbage. | the Analytical Engine | a crank | 1000 | 1,000 numbers | 1000 numbers | 2
men | Two men | 3.5 tonnes | 1837 | in 1837 | 8 March | 10 December 1842 | December 10, 1842 | 1842-12-10 | on
10 December 1842 | December 1842 | 1842 | brass and iron | “Scientific Memoirs” | 264–241 BC | 264 to 241 BCE |
A to G | Joseph-Marie Jacquard | punched card
"""
NOT_SAID = """
Konrad Zuse | Babbage Charles | 5 | 000 | 100 | 3 | 35 tonnes | 3 men | 1838 | 11 December 1842 | 8 March 1842 |
9 March | iron and brass | crank Punched cards | crankshaft | 264 AD | ∞ | …
"""


def list_cases(text: str) -> list[str]:
    """Return the parts between `|`."""
    return " ".join(text.split()).split(" | ")


@pytest.mark.parametrize(("answers", "is_there"), [(SAID, True), (NOT_SAID, False)])
def test_answer_is_found_where_article_states_it(answers: str, is_there: bool) -> None:
    assert [each for each in list_cases(answers) if is_answer_in_article(each, ARTICLE) != is_there] == []


def test_empty_article_contains_no_answer() -> None:
    assert not is_answer_in_article("Babbage", normalise_article(""))


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        ("Charles Babbage", []),
        ("It would have weighed 3.5 tonnes, and two men", []),
        ("It would have weighed 3.5 tonnes, and two men would", ["answer_too_long"]),
        ("according to the article, a crank", ["source_phrase", "answer_not_in_article"]),
    ],
)
def test_short_answers_must_be_short_and_from_article(answer: str, codes: list[str]) -> None:
    assert [problem.code for problem in check_short_answer(answer, ARTICLE, LISTS)] == codes


@pytest.mark.parametrize(
    ("question", "codes"),
    [
        ("Who designed the Analytical Engine?", []),
        ("Who designed the analytical engine?", []),
        ("Who designed Analytical Engines?", []),
        ("Who taught Ada Lovelace?", []),
        ("Babbage was born in which city?", []),
        ("Which society kept a part of Babbage’s machine?", []),
        ("In which country did Menabrea write of the engine?", []),
        ('What stands in the "Scientific Memoirs"?', []),
        ("How long did it take to build the Analytical Engine?", []),
        ("Why is it important that the Analytical Engine had a mill?", []),
        ("What did the Analytical Engine weigh when it was finished?", []),
        ("In her notes, what did Ada Lovelace describe?", []),
        ("Who wrote the text of the Analytical Engine hymn?", []),
        ("Who designed the Analytical Engine", ["no_question_mark"]),
        ("Who designed the Analytical Engine? Tell me.", ["no_question_mark"]),
        ("Who designed the engine?", ["subject_missing"]),
        ("Who designed the machine in March?", ["subject_missing"]),
        ("Who taught Konrad Zuse?", ["subject_missing"]),
        ("When was it built?", ["subject_missing", "not_self_contained"]),
        ("Who was he?", ["subject_missing", "not_self_contained"]),
        ("When was this built in London?", ["not_self_contained"]),
        ("Which architect designed it in London?", ["not_self_contained"]),
        ("What were their plans?", ["subject_missing", "not_self_contained"]),
        ("According to the article, who designed the Analytical Engine?", ["source_phrase"]),
        ("Who is mentioned in the text about the Analytical Engine?", ["source_phrase"]),
        ("What does this passage say of the Analytical Engine?", ["source_phrase", "not_self_contained"]),
        ("Name one part of the Analytical Engine?", ["one_of_many"]),
        ("Which of the following drove the Analytical Engine?", ["one_of_many"]),
        ("What is one part of the Analytical Engine?", ["one_of_many"]),
        ("Give an example of what the Analytical Engine held?", ["one_of_many"]),
        ("Which engineer helped to name a part of the Analytical Engine?", []),
    ],
)
def test_question_problems_have_expected_codes(question: str, codes: list[str]) -> None:
    assert [problem.code for problem in check_short_question(question, TOPIC, ARTICLE, LISTS)] == codes


@pytest.mark.parametrize("word", ["does", "Does", "this", "was", "its", "first"])
def test_function_words_are_recognised_in_every_form(word: str) -> None:
    assert {part.value for part in tokenize_values(word)} <= LISTS.function_words


@pytest.mark.parametrize(
    ("question", "pronoun"),
    [
        ("How does light behave when it meets Babbage?", None),
        ("How do bees find food when they leave the hive?", None),
        ("Who wrote It?", None),
        ("What do they eat?", "they"),
        ("How much did they pay Babbage?", "they"),
        ("What is “it” called?", "it"),
        ("How long does it take, and who built it?", "it"),
    ],
)
def test_pronoun_requires_antecedent(question: str, pronoun: str | None) -> None:
    assert find_unresolved_pronoun(question, TOPIC, ARTICLE, LISTS) == pronoun


@pytest.mark.parametrize(
    ("pair", "codes"),
    [
        (ShortQuestionAnswerPair("Who designed the Analytical Engine?", "Ada"), [("same_question", 2)]),
        (ShortQuestionAnswerPair("who designed Analytical Engine", "Ada"), [("same_question", 2)]),
        (
            ShortQuestionAnswerPair("Who was it that designed the Analytical Engine?", "charles Babbage."),
            [("same_fact", 2)],
        ),
        (
            ShortQuestionAnswerPair("By whom was the Analytical Engine once designed?", "Charles Babbage"),
            [("same_fact", 2)],
        ),
        (ShortQuestionAnswerPair("Who designed the Difference Engine?", "Joseph Clement"), []),
        (ShortQuestionAnswerPair("Whom did Ada Lovelace visit on 5 June 1833?", "Charles Babbage"), []),
    ],
)
def test_duplicate_questions_are_reported(pair: ShortQuestionAnswerPair, codes: list[tuple[str, int]]) -> None:
    problems = check_distinct_questions([GOOD.short[0], pair], LISTS)
    assert [(problem.code, problem.pair_number) for problem in problems] == codes


@pytest.mark.parametrize(
    ("long_question", "codes"),
    [
        (GOOD.long_question, []),
        (
            "Who designed the Analytical Engine, in which year was it described first, how many numbers did its mill hold, "
            "whose loom gave the punched cards, and when did Ada Lovelace write a program?",
            [],
        ),
        (GOOD.long_question.replace("(3) how many numbers its mill could hold, ", ""), [("long_question_lacks", 3)]),
        (
            "Discuss the Analytical Engine: (1), (2), (3), (4), (5).",
            [("long_question_lacks", at) for at in range(1, 6)],
        ),
        ("Tell all about the Analytical Engine.", [("long_question_lacks", at) for at in range(1, 6)]),
        ("According to the article, " + GOOD.long_question, [("source_phrase", 0)]),
    ],
)
def test_long_question_must_cover_all_five_facts(long_question: str, codes: list[tuple[str, int]]) -> None:
    assert list_codes(replace(GOOD, long_question=long_question)) == codes


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("1,000 numbers", "one thousand numbers", []),
        ("10 December 1842", "December 10, 1842", []),
        ("Charles Babbage", "Babbage, Charles", []),
        ("in 1837", "in 1837, before one of the others", []),
        ("The Analytical", "Later the Analytical", []),
        ("in 1837", "some time ago", [("long_answer_lacks", 2)]),
        ("10 December 1842", "December 1842", [("long_answer_lacks", 5)]),
        ("in 1837", "in 1837 in London", [("long_answer_adds", 0)]),
        ("in 1837", "in 1837 by the IBM", [("long_answer_adds", 0)]),
        ("in 1837", "on 8 March 1837", [("long_answer_adds", 0)]),
        ("1,000 numbers", "1,000 numbers of 40 digits", [("long_answer_adds", 0)]),
        ("1,000 numbers", "1,000 numbers, the 5th part", [("long_answer_adds", 0)]),
        ("Its mill", "Italy heard of it. Its mill", [("long_answer_adds", 0)]),
        ("Its mill", "Zuse and Turing heard of it. Its mill", [("long_answer_adds", 0)]),
        ("Its mill", "As the passage states, its mill", [("source_phrase", 0)]),
        ("Charles Babbage", "an engineer", [("long_answer_lacks", 1)]),
    ],
)
def test_long_answer_must_contain_exactly_five_answers(old: str, new: str, codes: list[tuple[str, int]]) -> None:
    assert old in GOOD.long_answer
    assert list_codes(replace(GOOD, long_answer=GOOD.long_answer.replace(old, new))) == codes


def test_long_answer_that_repeats_subject_in_every_sentence_is_reported() -> None:
    long_answer = (
        "The Analytical Engine was designed by Charles Babbage. The Analytical Engine was described in 1837. The mill of "
        "the Analytical Engine held 1000 numbers. The Analytical Engine had cards from Joseph Marie Jacquard. For the "
        "Analytical Engine Ada Lovelace wrote her program on 10 December 1842."
    )
    assert list_codes(replace(GOOD, long_answer=long_answer)) == [("long_answer_repeats", 0)]
    *_, start, middle, end = long_answer.split(". ")
    for sentences, is_reported in (([start, middle, end], True), ([middle, end], False)):
        codes = list_codes(replace(GOOD, long_answer=". ".join(sentences)))
        assert (("long_answer_repeats", 0) in codes) == is_reported


def test_date_in_long_answer_may_combine_two_pairs() -> None:
    article = "Ada was born on 10 December 1815 in the town."
    pairs = (
        ShortQuestionAnswerPair("On what day of the year was Ada born?", "10 December"),
        ShortQuestionAnswerPair("In what year was Ada born?", "1815"),
        *GOOD.short[2:],
    )
    generated = GeneratedQuestionAnswerPairs(pairs, GOOD.long_question, "Ada was born on 10 December 1815.")
    codes = [problem.code for problem in check_generated_pairs(generated, "Ada", article, LISTS)]
    assert [code for code in codes if "long_answer" in code] == ["long_answer_lacks"] * 3


def test_one_sentence_and_empty_articles_are_checked() -> None:
    assert check_generated_pairs(GOOD, TOPIC, "", LISTS)
    short = check_generated_pairs(GOOD, TOPIC, "The Analytical Engine was designed by Charles Babbage.", LISTS)
    lacking = [problem.pair_number for problem in short if problem.code == "answer_not_in_article"]
    assert lacking == [2, 3, 4, 5]


def test_question_answered_by_two_names_is_reported() -> None:
    generated = change_pair(1, ShortQuestionAnswerPair("Who cast the wheels of the Analytical Engine?", "Dollond"))
    article = TEXT + " Dollond and Bird cast the wheels of the Analytical Engine."
    problems = check_generated_pairs(generated, TOPIC, article, LISTS)
    assert ("several_answers", 1) in {(problem.code, problem.pair_number) for problem in problems}


def test_long_answer_must_keep_approximation_of_number() -> None:
    pair = ShortQuestionAnswerPair("How many numbers did the Analytical Engine lose?", "about 30 numbers")
    article = TEXT + " About 30 numbers were lost."
    for long, codes in (
        ("about 30 numbers", []),
        ("roughly 30 numbers", []),
        ("30 numbers", [("long_answer_lacks", 3)]),
    ):
        generated = replace(change_pair(3, pair), long_answer=GOOD.long_answer.replace("1,000 numbers", long))
        problems = check_generated_pairs(generated, TOPIC, article, LISTS)
        assert [(each.code, each.pair_number) for each in problems if each.code.startswith("long_answer")] == codes


def test_prompt_demonstrations_pass_checks() -> None:
    parts = load_prompt("slaq/generate").parts
    shown = [(asked, said) for (_, asked), (who, said) in pairwise(parts) if who == "assistant"]
    assert len(shown) == 2
    for asked, said in shown:
        found = re.fullmatch(r"<topic>(.*)</topic>\n<article>\n(.*)\n</article>", asked, re.DOTALL)
        generated = read_generated_question_answer_pairs(said)
        assert found
        assert isinstance(generated, GeneratedQuestionAnswerPairs)
        assert check_generated_pairs(generated, found[1], found[2], LISTS) == []


LENS = """The achromatic lens was invented by Chester Moor Hall. Hall's lens was about 1.02 metres long and cost US$4.5 million.
A copy was bought by the United States of America. The first English edition of the Optics was printed in Paris, the second English edition in Rome.
Dollond and Bird ground it in roughly eight days. It weighed some 30 pounds and 30 pounds of brass were lost. At about noon it broke. It rolled more than 90 metres.
The third printed catalogue of the Optics was sold in Delft."""
LENS_ARTICLE = normalise_article(LENS)


ALIKE = """
about 1.02 m | roughly 1.02 meters | approximately 1.02 metres | 4.5 million dollars | $4.5 million | 4,500,000 US dollars |
the United States | the USA | about eight days | at about noon | 30 pounds | more than 90 metres
"""


def test_equivalent_units_and_money_and_country_spellings_match() -> None:
    found = {
        each: [problem.code for problem in check_short_answer(each, LENS_ARTICLE, LISTS)] for each in list_cases(ALIKE)
    }
    assert not any(found.values()), found


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("1.02 metres", "approximation_lost"),
        ("1.02", "approximation_lost"),
        ("eight days", "approximation_lost"),
        ("about 4.5 million dollars", "answer_not_in_article"),
        ("about 1.02 feet", "answer_not_in_article"),
        ("4.5 million pounds", "answer_not_in_article"),
        ("4.5 dollars", "answer_not_in_article"),
        ("90 metres", "approximation_lost"),
    ],
)
def test_lost_approximation_and_changed_number_are_reported(answer: str, code: str) -> None:
    assert [problem.code for problem in check_short_answer(answer, LENS_ARTICLE, LISTS)] == [code]


@pytest.mark.parametrize(
    ("question", "is_named"),
    [
        ("Who invented the achromatic lens?", True),
        ("Who invented achromatic lenses?", False),
        ("Who ground the lens?", False),
        ("Who printed the first edition?", False),
        ("Who bought the achromatic glass?", False),
    ],
)
def test_subject_may_be_lower_case_term(question: str, is_named: bool) -> None:
    codes = [problem.code for problem in check_short_question(question, "Optics (book)", LENS_ARTICLE, LISTS)]
    assert codes == ([] if is_named else ["subject_missing"])


@pytest.mark.parametrize(
    ("question", "answer", "messages"),
    [
        ("Where was the English edition of the Optics printed?", "Paris", "a first and a second 'english edition'"),
        ("Where was the first English edition of the Optics printed?", "Paris", None),
        (
            "Where was the printed catalogue of the Optics sold?",
            "Delft",
            None,
        ),  # the article mentions no others
        ("Who ground the achromatic lens?", "Dollond", "together with 'Bird'"),
        ("Who ground the achromatic lens?", "Bird", "together with 'Dollond'"),
        ("Who ground the achromatic lens with Bird?", "Dollond", None),
        ("Who ground the achromatic lens?", "Dollond and Bird", None),
        ("Who invented the achromatic lens?", "Chester Moor Hall", None),
    ],
)
def test_question_with_two_right_answers_is_reported(question: str, answer: str, messages: str | None) -> None:
    found = find_second_possible_answer_problem(question, answer, LENS_ARTICLE, LISTS)
    assert messages in found if messages and found else (messages, found) == (None, None), found
