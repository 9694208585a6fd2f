"""Test replies about fan-out questions: the verdict's letter, and comments on a wording."""

import pytest
from support.steps.replies import make_reader

from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.fanoutqa.core.judge_replies import (
    OBJECTIVITY_FORM,
    WORDING_FORM,
    WordingVerdict,
    describe_word_changes,
    read_last_reasoning_sentence,
    read_objectivity_verdict,
    read_wording_verdict,
)

hear_verdict = make_reader(OBJECTIVITY_FORM, read_objectivity_verdict)


def hear_wording(reply: str, question: str) -> object:
    return make_reader(WORDING_FORM, read_wording_verdict, question)(reply)


QUESTION = "What is the height of the 5 tallest towers in the U.S. built before 1990, and who owns the Space Needle?"
MENDED = "What are the heights in metres of the five tallest towers in the US built before 1990, and who owns the Space Needle?"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Y", True),
        ("N", False),
        ("y", True),
        ("The towers are counted and measured.\nY\nY", True),
        ("Taste decides.\r\nN\r\nN\r\n", False),
        ("Y\nOn second thoughts, nothing says which.\nN", False),
        ("N\n\nI hope this helps.", False),
        ("N is the number of towers, so it can be counted.\nY", True),
        ("Y would be right if N were known, yet it is not.\nN", False),
        ("**N**", False),
        ("N.", False),
        ('"Y"', True),
        ("(N)", False),
        ("- N", False),
        ("`Y`", True),
        ("```\nN\n```", False),
        ("<answer>N</answer>", False),
        (r"$\boxed{N}$", False),
        ("Answer: N", False),
        ("**Verdict:** Y", True),
        ("Therefore, the final answer is: **N**", False),
        ("The answer is Y.", True),
        ("Conclusion:\nN", False),
    ],
)
def test_last_standalone_letter_is_verdict(reply: str, verdict: bool) -> None:
    assert hear_verdict(reply) is verdict


@pytest.mark.parametrize(
    "reply",
    [
        "It can be answered.",
        "N is the number of gold medals",
        "I would take option Y",
        "Y or N",
        "Y/N",
        "Yes",
        "Chromosome: Y",
        "1. N",
    ],
)
def test_completion_without_standalone_letter_is_unreadable(reply: str) -> None:
    found = hear_verdict(reply)
    assert isinstance(found, UnreadableCompletion)
    assert "expected the letter Y or N on a line of its own" in found.reason


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("N\nN", ""),
        ("", ""),
        ("Towers are known. Which are loveliest is a matter of taste.\nN\nN", "Which are loveliest is a matter of taste."),
        ("1. It is measured.\n2. In the U.S. there are many such towers.\n\n**N**", "In the U.S. there are many such towers."),
        ("Nothing says which", "Nothing says which"),
    ],
)  # fmt: skip
def test_reason_is_last_sentence_before_verdict(reply: str, reason: str) -> None:
    assert read_last_reasoning_sentence(reply) == reason


@pytest.mark.parametrize(
    "reply",
    [
        "No change.",
        "no change",
        '"No change."',
        "**No Change**",
        "`No change.`",
        "No changes are needed.",
        "Output: No change.",
        "The question reads well.\nNo change.",
        "```\nNo change.\n```",
        QUESTION,
        f'"{QUESTION}"',
    ],
)
def test_unchanged_wording_reads_as_fine_in_any_formatting(reply: str) -> None:
    assert hear_wording(reply, QUESTION) == WordingVerdict("fine", "")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("FLAG\nNobody could tell the unit.", "Nobody could tell the unit."),
        ("**FLAG**\n\nNobody could tell\nthe unit.", "Nobody could tell the unit."),
        ("FLAG: nobody could tell the unit.", "nobody could tell the unit."),
        ("FLAG - nobody could tell the unit.", "nobody could tell the unit."),
        ("flag\nIs it metres or feet?", "Is it metres or feet?"),
        ("Nobody could tell the unit.\nFLAG", "Nobody could tell the unit."),
    ],
)
def test_flag_verdict_keeps_its_reason(reply: str, reason: str) -> None:
    assert hear_wording(reply, QUESTION) == WordingVerdict("flag", reason)


@pytest.mark.parametrize(
    "reply",
    [
        MENDED,
        f"Rewrite: {MENDED}",
        f"**Rewrite:** {MENDED}",
        f"**Rewrite: {MENDED}**",
        f'"{MENDED}"',
        f"'{MENDED}'",
        f"```text\n{MENDED}\n```",
        f"Here is the rewritten question:\n\n{MENDED}",
    ],
)
def test_rewrite_is_read_in_any_formatting(reply: str) -> None:
    assert hear_wording(reply, QUESTION) == WordingVerdict("rewrite", MENDED)


@pytest.mark.parametrize(
    ("question", "rewrite"),
    [
        ("who is the mayor of paris", "Who is the mayor of Paris?"),
        ("Which is the rivers' length", "What are the rivers' lengths?"),
        ("Find five Lakes of Italy. How deep is each.", "How deep is each of five lakes of Italy?"),
        ("list the area of the great lakes", "List the areas of the Great Lakes, in km²."),
        ("Flag of what country is red", "Flag of which country is red?"),
        ("Who won the 2nd race on 3 May 1998?", "Who won the second race on May 3, 1998?"),
        ("What is Ada's and Bob's town's name, and that's mayor?", "What are Ada's and Bob's towns, and who is mayor?"),
    ],
)
def test_rewrite_may_reformat_numbers_and_names(question: str, rewrite: str) -> None:
    assert hear_wording(rewrite, question) == WordingVerdict("rewrite", rewrite)
    assert hear_wording(f"'{rewrite}'", question) == WordingVerdict("rewrite", rewrite)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("Question:", "the reply is empty"),
        ("```\n```", "the reply says nothing"),
        ("It is fine.", "expected \"No change.\", a rewritten question, or FLAG"),
        ("FLAG", "without a reason"),
        (MENDED.replace("1990", "1991"), "lacks '1990'"),
        (MENDED.replace(" built before 1990", ""), "lacks '1990'"),
        (MENDED.replace("five", "six"), "lacks '5'"),
        (MENDED.replace("the Space Needle", "that tower"), "lacks 'Space'"),
        (MENDED.replace("US", "country"), "lacks 'US'"),
        (MENDED.replace("1990", "1990 and after 1950"), "has '1950'"),
        (f"No change.\n{MENDED}", "one of them alone"),
        (f"{MENDED}\nI have added the unit.", "2 lines"),
    ],
)  # fmt: skip
def test_reply_neither_fine_nor_flag_nor_rewrite_is_unreadable(reply: str, text: str) -> None:
    found = hear_wording(reply, QUESTION)
    assert isinstance(found, UnreadableCompletion)
    assert text in found.reason


def test_rewrite_may_not_drop_leading_name_of_question() -> None:
    assert isinstance(hear_wording("Which lakes?", "Elton John's lakes"), UnreadableCompletion)
    assert isinstance(hear_wording("Which founders?", "Google's founders?"), UnreadableCompletion)


def test_wording_changes_are_described_in_words() -> None:
    assert describe_word_changes("How high is a oak?", "How high is an oak, in metres?") == (
        'changes "a oak?" to "an oak, in metres?"'
    )
    assert (
        describe_word_changes("who won the the race in 1998?", "Who won the race in 1998?")
        == 'changes "who" to "Who", drops "the"'
    )
    assert describe_word_changes("Who won?", "Who has won?") == 'adds "has"'
