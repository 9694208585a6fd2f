"""How replies with a paragraph or a question are read."""

import pytest
from support.steps.replies import hearing

from tasks.biokalma.core.paragraph_replies import PARAGRAPH, QUESTION, read_paragraph, read_question
from tasks.core.replies import Unreadable

hear_paragraph = hearing(PARAGRAPH, read_paragraph)
hear_question = hearing(QUESTION, read_question)


@pytest.mark.parametrize(
    ("reply", "paragraph"),
    [
        ("Paragraph: Ada wrote.", "Ada wrote."),
        ("paragraph:Ada wrote.\n", "Ada wrote."),
        ("Sure, here it is:\n\nParagraph: Ada wrote.", "Ada wrote."),
        ("Paragraph:\nAda  wrote.\n\nShe died.", "Ada wrote. She died."),
        ("```\nParagraph: Ada wrote.\n```", "Ada wrote."),
        ("```text\r\nParagraph: Ada wrote.\r\n```\r\n", "Ada wrote."),
        ("Paragraph:\n```\nAda wrote.\n```", "Ada wrote."),
        ("**Paragraph:** Ada wrote.", "Ada wrote."),
        ("**Paragraph**: Ada *wrote*.", "Ada *wrote*."),
        ("**Paragraph: Ada wrote.**", "Ada wrote."),
        ("> Paragraph: **Ada wrote.**", "Ada wrote."),
        ("## Paragraph: Ada wrote.", "Ada wrote."),
        ('Paragraph: "Ada wrote."', "Ada wrote."),
        ("Paragraph: “Ada wrote.”", "Ada wrote."),
        ("Paragraph: 'Ada's note.'", "Ada's note."),
        ("Paragraph: “Note G” is by the author of “Notes”", "“Note G” is by the author of “Notes”"),
        ('Paragraph: "Note G" is by the author of "Notes"', '"Note G" is by the author of "Notes"'),
        ("Paragraph: Her second Paragraph: none.", "Her second Paragraph: none."),
        ("Paragraph: Ada [qid: Q1, occupation: writer].", "Ada [qid: Q1, occupation: writer]."),
        ("Paragraph：Ada wrote.", "Ada wrote."),
        ("Paragraph: Ada wrote.\n\nNote: I left the text as it was.", "Ada wrote."),
        ("1. **Paragraph:** Ada wrote.\n\nLet me know if this helps!", "Ada wrote."),
    ],
)
def test_the_paragraph_of_a_reply_is_read(reply: str, paragraph: str) -> None:
    assert hear_paragraph(reply) == paragraph


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "says nothing"),
        ("Ada wrote.", "0 lines"),
        ("I cannot write that paragraph: sorry.", "the model refuses"),
        ("Paragraph:", "nothing stands behind"),
        ('Paragraph: "…"', "nothing stands behind"),
        ("Paragraph: Ada wrote.\nParagraph: Ada wrote. She died.", "2 lines"),
    ],
)
def test_a_reply_without_one_paragraph_is_unreadable(reply: str, reason: str) -> None:
    read = hear_paragraph(reply)
    assert isinstance(read, Unreadable)
    assert reason in read.reason


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ("Question: Who was Ada?", "Who was Ada?"),
        ("Question: Who was Ada? What did she write?", "Who was Ada? What did she write?"),
        ("Question: Who was Ada,\nand what did she write?", "Who was Ada, and what did she write?"),
        ("Question: Who was Ada?\n\nIt asks about her life.", "Who was Ada?"),
        ("Question:\n\n**Who was Ada?**", "Who was Ada?"),
        ("```\nQuestion: 'Who was Ada?'\n```", "Who was Ada?"),
        ('**Question:** "Who wrote “Note G”?"', "Who wrote “Note G”?"),
    ],
)
def test_the_question_of_a_reply_is_read(reply: str, question: str) -> None:
    assert hear_question(reply) == question


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Who was Ada?", "0 lines"),
        ("Question: Tell me about Ada.", "question mark"),
        ("Question: Who was Ada?\nQuestion: What did she write?", "2 lines"),
        ("Question: ?", "nothing stands behind"),
    ],
)
def test_a_reply_without_one_question_is_unreadable(reply: str, reason: str) -> None:
    read = hear_question(reply)
    assert isinstance(read, Unreadable)
    assert reason in read.reason
