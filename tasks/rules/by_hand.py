"""SLAQ's part of the rules author: no rules, but replies written by hand for the embedded world's articles.

data/world/replies/slaq.toml holds them by title and revision. They are for one text each: another revision's, or another
article's, gets no reply. The second look knows the written pairs alone and doubts every other.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tasks.assets import ROOT
from tasks.core.calls.knowledge import Knowledge
from tasks.core.fingerprints import digest_bytes

_FOLDER = ROOT / "data" / "world" / "replies"
_PAIR = re.compile(r"(\d+)\. (.*?\?) — (.*)")


@dataclass(frozen=True, slots=True)
class WrittenReply:
    """What is written of one article."""

    revid: int
    text: str
    """Digest of the revision's main text (digest_text)."""
    written: str
    """By whom, and for what."""
    pairs: Sequence[tuple[str, str, str]]
    """Question, answer, and the answer's class (OntoNotes, or none)."""
    long_question: str
    long_answer: str


@cache
def load_replies() -> Mapping[str, WrittenReply]:
    """Return title of an article → what is written of it."""
    tables: dict[str, Any] = tomllib.loads((_FOLDER / "slaq.toml").read_text("utf-8"))
    return {title: WrittenReply(**table) for title, table in tables.items()}


def digest_text(article: str) -> str:
    """Return the digest by which a reply names the text that it is written for."""
    return digest_bytes(article.encode())[:16]


def write_questions(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str | None]:
    """Return for each `topic` and `article` the object that prompts/slaq/generate.md asks for; None where none is written."""
    return [_format_pairs(reply) if (reply := _find_reply(asked)) else None for asked in batch]


def check_pairs(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str | None]:
    """Return a line for each of the numbered `pairs`: ok where it is one that is written of this `topic` and `article`."""
    return ["\n".join(_check_pair(pair, _find_reply(asked)) for pair in asked["pairs"].splitlines()) for asked in batch]


def name_fact_types(batch: Sequence[Mapping[str, str]], _knowledge: Knowledge) -> list[str | None]:
    """Return `Type: CLASS` for each `question` and `answer` that is written; None for others."""
    types = {(question, answer): kind for reply in load_replies().values() for question, answer, kind in reply.pairs}
    known = [types.get((asked["question"], asked["answer"])) for asked in batch]
    return [f"Type: {kind}" if kind else None for kind in known]


def _find_reply(asked: Mapping[str, str]) -> WrittenReply | None:
    reply = load_replies().get(asked["topic"])
    return reply if reply and reply.text == digest_text(asked["article"]) else None


def _format_pairs(reply: WrittenReply) -> str:
    short = [{"question": question, "answer": answer} for question, answer, _ in reply.pairs]
    said = {"short": short, "long_question": reply.long_question, "long_answer": reply.long_answer}
    return json.dumps(said, ensure_ascii=False)


def _check_pair(line: str, reply: WrittenReply | None) -> str:
    found = _PAIR.fullmatch(line)
    written = [[question, answer] for question, answer, _ in reply.pairs] if reply else []
    is_written = found is not None and [found[2], found[3]] in written
    return f"{line.partition('.')[0]}: {'ok' if is_written else 'no such pair is written by hand of this article'}"
