"""A short paragraph about two people from the article of one of them (BioKaLMA, paper Appendix A.1, A.3).

The paper begins with human-written paragraphs of one or two sentences that name both people. An article gives the same:
its first sentence, which says who its subject is, and the first sentence that names the other.
"""

import re

from tasks.text.article import Article
from tasks.text.sentences import split_sentences

_END = re.compile(r"[.!?…][\"'”’»)\]]*$")


def find_opening(article: Article, name: str, other: str) -> str | None:
    """Return the sentences that open a paragraph about both; None unless the article names both in full."""
    sentences = [
        sentence
        for section in article.sections
        for paragraph in section.paragraphs
        for sentence in split_sentences(paragraph)
    ]
    if not sentences:
        return None
    about = next((sentence for sentence in sentences if names(sentence, other)), None)
    if about is None:
        return None
    text = about if about == sentences[0] else f"{finish_paragraph(sentences[0])} {about}"
    return text if names(text, name) else None


def names(text: str, name: str) -> bool:
    """True when a name stands in a text as a whole, ignoring case."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def finish_paragraph(text: str) -> str:
    """Return a paragraph on one line and with an end, so that a sentence can follow."""
    line = " ".join(text.split())
    return line if _END.search(line) else f"{line}."
