"""Serve chat as model providers do, with one address per behaviour and a meter of its charges.

Responses follow from seed, behaviour and messages and, for temporary failures, from the number of identical requests
before.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from support.habits.contents import Asked, Contents, recognise
from support.webs.loopback import Loopback, Seen

from factmill.tasks.core.digests import digest_json

if TYPE_CHECKING:
    from support.habits.provider_habits import ProviderHabit

PRICES = {"usd_per_million_in": 10.0, "usd_per_million_out": 50.0}
"""US$ per million tokens, as in the world's file."""
USD_CACHED, USD_CACHE_WRITE, USD_REQUEST = 1.0, 12.5, 0.002
"""US$ per million cached tokens, per million tokens written to the cache, and per request with a fee."""
Reply = dict[str, Any]
"""A response of Loopback: status, json, text or bytes, headers."""


@dataclass
class Book:
    """The record of one address."""

    asked: list[str] = field(default_factory=list)
    """Digest of the content of each request, in order of arrival."""
    answered: Counter[str] = field(default_factory=Counter)
    """Content → number of good responses."""
    noted: dict[str, set[str]] = field(default_factory=dict)
    """Permanent outcome (`blocked`, `cut`, `failed`) with the role → contents."""
    owed_usd: float = 0.0
    """The provider's charge in US$."""
    faults: list[str] = field(default_factory=list)
    """Errors of this server itself."""
    tokens: list[str] = field(default_factory=list)
    """Used access tokens, the latest last."""
    answers_left: int = 0
    """Number of requests that the latest token still allows."""
    is_recovered: bool = False
    """True once the account is topped up, or the provider works again."""


@dataclass
class Turn:
    """One request to one address."""

    habit: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    query: Mapping[str, str]
    seed: int
    number: int
    """Number of earlier requests at this address."""
    tries: int
    """Number of earlier requests with the same content at this address."""
    content: str
    """Digest of messages and seed."""
    book: Book
    contents: Contents
    is_well: bool = False
    """True once the model's whole text was sent."""

    @cached_property
    def asked(self) -> Asked:
        return recognise(self.body["messages"])

    @cached_property
    def text(self) -> str:
        """Return the model's text."""
        return self.contents.write(self.asked)

    def draw(self, *of: object) -> Random:
        """Return random numbers that follow from seed, behaviour and content."""
        return Random(f"{self.seed} {self.habit} {self.content} {of}")

    def hits(self, share: float) -> bool:
        """True for this share of contents."""
        return self.draw("share").random() < share

    def hits_try(self, share: float) -> bool:
        """True for this share of requests, drawn for each attempt."""
        return self.draw("try", self.tries).random() < share

    def note(self, kind: str) -> None:
        """Record that the model does not answer this content."""
        self.book.noted.setdefault(f"{self.asked.prompt.role} {kind}", set()).add(self.content)

    def charge(self, counts: Mapping[str, int], fee: float = 0.0) -> None:
        """Charge tokens: `in`, `out`, and the part of `in` that is `cached` or is a `write` to the cache."""
        cached, written = counts.get("cached", 0), counts.get("write", 0)
        usd = (counts["in"] - cached - written) * PRICES["usd_per_million_in"]
        usd += counts["out"] * PRICES["usd_per_million_out"] + cached * USD_CACHED + written * USD_CACHE_WRITE
        self.book.owed_usd += usd / 1e6 + fee

    def count(self, text: str | None = None) -> dict[str, int]:
        """Return the tokens of this request, and of a text (default: the model's) for each sample."""
        words_in = sum(len(str(message["content"]).split()) for message in self.body["messages"])
        words_out = len((self.text if text is None else text).split())
        return {"in": words_in + 4, "out": (words_out + 1) * self.body.get("n", 1)}

    def complete(
        self,
        content: str | None = None,
        finish: str | None = "stop",
        *,
        choice: Mapping[str, Any] | None = None,
        message: Mapping[str, Any] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> Reply:
        """Return a chat completion and charge it.

        `content` defaults to the model's text; `choice`, `message` and `more` add fields to each choice, its message
        and the whole.
        """
        said = self.text if content is None else content
        self.is_well = content is None and finish == "stop"
        counts = self.count(said)
        if not more or "usage" not in more:
            self.charge(counts)
        one = {"role": "assistant", "content": said, **(message or {})}
        choices = [
            {"index": at, "finish_reason": finish, "message": one, **(choice or {})}
            for at in range(self.body.get("n", 1))
        ]
        usage = {
            "prompt_tokens": counts["in"],
            "completion_tokens": counts["out"],
            "total_tokens": counts["in"] + counts["out"],
        }
        result = {"id": self.content[:16], "object": "chat.completion", "created": 0, "model": self.body["model"]}
        whole = {**result, "choices": choices, "usage": usage, **(more or {})}
        return {"json": {name: value for name, value in whole.items() if value is not ...}}

    def answer(self) -> Reply:
        """Return the model's text, as a provider without faults does."""
        return self.complete()


def refuse(status: int, message: str, /, **more: Any) -> Reply:
    """Return an error in the form of most providers."""
    return {"status": status, "json": {"error": {"message": message, **more}}}


class ProviderServer:
    """The server."""

    def __init__(self, habits: "Mapping[str, ProviderHabit]", contents: Contents, seed: int = 1) -> None:
        self.books: dict[str, Book] = {name: Book() for name in habits}
        self.web = Loopback()
        self.web.handle = self._handle
        self._habits, self._contents, self._seed = habits, contents, seed
        self._lock = threading.RLock()

    def url(self, habit: str) -> str:
        """Return the base URL of the model with this behaviour."""
        return f"{self.web.url}/{quote(habit, safe='')}/v1"

    def close(self) -> None:
        """Stop the server."""
        self.web.close()

    def answer(self, name: str, body: dict[str, Any]) -> Reply:
        """Answer the body of a chat request at an address."""
        return self._answer(name, body, {}, {})

    def _handle(self, seen: Seen) -> Reply:
        name = unquote(seen.path.split("/")[1])
        if not seen.path.endswith("/v1/chat/completions"):
            return refuse(404, "Not Found")
        return self._answer(name, seen.json(), seen.headers, seen.query)

    def _answer(self, name: str, body: dict[str, Any], headers: Mapping[str, str], query: Mapping[str, str]) -> Reply:
        book = self.books[name]
        content = digest_json([body["messages"], body.get("seed")])
        with self._lock:
            tries = book.asked.count(content)
            turn = Turn(name, body, headers, query, self._seed, len(book.asked), tries, content, book, self._contents)
            book.asked.append(content)
            try:
                reply = self._habits[name].respond(turn)
            except Exception as error:
                book.faults.append(repr(error))
                raise
            book.answered[content] += turn.is_well
        return reply
