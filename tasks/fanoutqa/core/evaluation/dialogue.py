"""The dialogue with a model in each setting, as generators of turns (paper §3.2, §4.3, §4.4). Nothing is sent here.

In the open book a model requests articles by title, through the chat protocol's tool calls, or, if a server supports
none, through lines `SEARCH: title`. A reply without requests is the answer. Of an article the model is shown the chunks
that fit the question best, in at most a share of its context. When the rounds, tokens or seconds are used up, or there
is no room for one more chunk, the model is asked once to answer; if it searches again, it has given no answer.

Room is counted in characters, CHARACTERS per token, since every server counts tokens in its own way; the tokens that a
dialogue uses come from its responses. Seconds are the model's recorded response times, so that a replay ends at the
same turn.
"""

import json
import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

from factmill.tasks.core.calls.chat import ToolCall
from factmill.tasks.core.evaluation.answers import B, Given
from factmill.tasks.core.evaluation.rows import Asked
from factmill.tasks.core.prompts import Ask
from factmill.tasks.fanoutqa.core.evaluation.chunks import Chunk
from factmill.tasks.fanoutqa.core.evaluation.rows import FanOutAsked, FanOutSearch
from factmill.tasks.text.undressing import drop_fences, drop_list_mark, drop_thoughts, unwrap

CHARACTERS = 4
"""Characters that count as one token."""
LEAST_ROOM = 1100
"""Least characters of room for one more chunk."""
MOST_AT_ONCE = 10
"""Most searches of one turn; further ones are not looked up."""
Tools = Literal["auto", "always", "never"]
SEARCH: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Look up an encyclopedia article by its title. Gives passages of it, or titles like the one asked for where there is no such article.",
        "parameters": {
            "type": "object",
            "properties": {"title": {"type": "string", "description": "Title of the article"}},
            "required": ["title"],
            "additionalProperties": False,
        },
    },
}
_ANSWER_NOW = "This was the last search. Give your final answer now."
_NO_ROOM = "There is no room left to show an article. Give your final answer now."
_LINE = re.compile(r"[\s*_`\"']*(?P<what>search|answer)\b[\s*_`]*[:：](?P<said>.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a dialogue."""

    rounds: int
    """Most turns in which the model may search."""
    context: int
    """Size of the model's context in characters."""
    share: float
    """Share of the context that one look-up may fill."""
    tokens: int | None = None
    """Most tokens, read and written, of all turns together, as the server counts them."""
    seconds: float | None = None
    """Most seconds of response time, of all turns together."""


@dataclass(frozen=True, slots=True)
class Search:
    """Request for an article by its title."""

    title: str
    epoch: str
    query: str
    """Text by which chunks are ranked."""
    room: int
    """Most characters of the chunks."""


@dataclass(frozen=True, slots=True)
class Provide:
    """Request for the articles that a question needs."""

    articles: tuple[tuple[str, int], ...]
    """(Title, revision) each."""
    query: str
    room: int


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a look-up."""

    chunks: tuple[Chunk, ...] = ()
    of: int = 0
    """Total number of chunks."""
    similar: tuple[str, ...] = ()
    """Titles of other articles that existed at the epoch."""
    reason: str = ""
    """Why there is no chunk: evidence_missing, younger_than_epoch, invalid_title, redirect_loop or wikipedia_failed."""
    detail: str = ""
    is_lost: bool = False
    """True for a transient failure: an answer given without the look-up would not count as the model's."""


@dataclass(frozen=True, slots=True)
class FanOutGiven(Given):
    """A model's answer with the course of its dialogue."""

    searches: tuple[FanOutSearch, ...] = ()
    context: tuple[str, ...] = ()
    """Chunks shown to the model."""
    rounds: int = 0
    """Number of turns with searches."""
    stopped: str = ""
    """Limit that ended the searches: rounds, tokens, time, room; empty: none did."""

    @classmethod
    def of(cls, given: Given, **more: Any) -> Self:
        """Return an answer extended by the fields of its dialogue."""
        return cls(**{**{each.name: getattr(given, each.name) for each in fields(Given)}, **more})

    def extend(self, asked: Asked, model: type[B], name: str, /, **more: object) -> B:
        """Return the answer as a row of `model`, with its searches."""
        kept = {"searches": list(self.searches), "context": list(self.context)}
        # super() without arguments fails here, since slots=True recreates the class
        return Given.extend(self, asked, model, name, **kept, rounds=self.rounds, stopped=self.stopped, **more)


Held = Generator[Ask | Search | Provide, Given | Found, FanOutGiven]


def answer_alone(ask: Ask) -> Held:
    """Send the question alone (closed book)."""
    return FanOutGiven.of((yield from _ask(ask)))


def answer_from_articles(asked: FanOutAsked, bounds: Bounds, fill: Callable[[str], Ask]) -> Held:
    """Send the question with the best chunks of the articles it needs; `fill`: text of the chunks → prompt."""
    empty = fill("")
    room = bounds.context - _measure(empty)
    articles = tuple((each.title, each.revid) for each in asked.evidence)
    found = yield from _look(Provide(articles, asked.question, room))
    if found.is_lost:
        return _lose(found)
    given = yield from _ask(fill(show_chunks(found.chunks)))
    return FanOutGiven.of(given, context=tuple(map(str, found.chunks)))


def answer_with_searches(asked: FanOutAsked, bounds: Bounds, with_tools: Ask | None, in_text: Ask | None) -> Held:
    """Send the question and let the model search (open book): by tools, or in plain text if its server refuses tools.

    `with_tools`, `in_text`: the prompts of the two modes; None disables a mode.
    """
    if with_tools is not None:
        ask = replace(with_tools, tools=(SEARCH,))
        given = yield from _converse(asked, bounds, ask, _read_calls, _write_results)
        if in_text is None or not given.detail.startswith("tools_refused"):
            return given
    assert in_text is not None
    return (yield from _converse(asked, bounds, in_text, _read_lines, _write_found))


@dataclass(frozen=True, slots=True)
class _Request:
    """One search as requested by the model."""

    call: ToolCall | None
    title: str
    trouble: str = ""
    """Why nothing can be looked up, in the words shown to the model."""


@dataclass(slots=True)
class _Log:
    """The course of a dialogue so far."""

    searches: list[FanOutSearch] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    rounds: int = 0
    stopped: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    """Of all turns so far."""

    def add(self, given: Given) -> None:
        self.tokens_in += given.tokens_in
        self.tokens_out += given.tokens_out
        self.seconds += given.seconds

    def end(self, bounds: Bounds, has_room: bool) -> str:
        """Return the limit that forbids one more search; empty: none."""
        if self.rounds >= bounds.rounds:
            return "rounds"
        if bounds.tokens is not None and self.tokens_in + self.tokens_out >= bounds.tokens:
            return "tokens"
        if bounds.seconds is not None and self.seconds >= bounds.seconds:
            return "time"
        return "" if has_room else "room"

    def tell(self) -> dict[str, Any]:
        return {
            "searches": tuple(self.searches),
            "context": tuple(self.shown),
            "rounds": self.rounds,
            "stopped": self.stopped,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "seconds": self.seconds,
        }


def _converse(
    asked: FanOutAsked,
    bounds: Bounds,
    first: Ask,
    read: Callable[[Given], Given | list[_Request]],
    write: Callable[[Given, Sequence[tuple[_Request, str]]], list[dict[str, Any]]],
) -> Held:
    """Let a model search until it answers; `read`: reply → answer or searches, `write`: results → messages."""
    log, ask = _Log(), first
    while True:
        given = yield from _ask(ask)
        log.add(given)
        said = read(given)
        if isinstance(said, Given):
            return FanOutGiven.of(said, **log.tell())
        if log.stopped:
            detail = f"it searched on when it was told to answer ({log.stopped}): {said[0].title or said[0].trouble}"
            silent = replace(given, read=("",), unscored="no_answer", detail=detail)
            return FanOutGiven.of(silent, **log.tell())
        log.rounds += 1
        results: list[tuple[_Request, str]] = []
        for number, request in enumerate(said, 1):
            room = bounds.context - _measure(replace(ask, turns=(*ask.turns, *write(given, results))))
            trouble = request.trouble or (f"more than {MOST_AT_ONCE} searches at once" if number > MOST_AT_ONCE else "")
            if trouble or room < LEAST_ROOM:
                reason = "not_looked_up" if trouble else "no_room"
                results.append((request, f"Nothing was looked up: {trouble}." if trouble else _NO_ROOM))
                log.searches.append(_note(log.rounds, request, Found(reason=reason, detail=trouble)))
                continue
            most = min(room, int(bounds.context * bounds.share))
            found = yield from _look(Search(request.title, asked.epoch, asked.question, most))
            log.searches.append(_note(log.rounds, request, found))
            if found.is_lost:
                return replace(_lose(found), call=given.call, **log.tell())
            log.shown += map(str, found.chunks)
            results.append((request, tell_found(request.title, found)))
        ask = replace(ask, turns=(*ask.turns, *write(given, results)))
        log.stopped = log.end(bounds, bounds.context - _measure(ask) >= LEAST_ROOM)
        if log.stopped:
            last = {**ask.turns[-1], "content": f"{ask.turns[-1]['content']}\n\n{_ANSWER_NOW}"}
            ask = replace(ask, turns=(*ask.turns[:-1], last))


def _note(number: int, request: _Request, found: Found) -> FanOutSearch:
    return FanOutSearch(
        round=number,
        title=request.title,
        found=found.chunks[0].title if found.chunks else "",
        revid=found.chunks[0].revid if found.chunks else None,
        chunks=len(found.chunks),
        of=found.of,
        similar=list(found.similar),
        reason=found.reason,
        detail=found.detail,
    )


def _ask(ask: Ask) -> Generator[Ask, Given | Found, Given]:
    given = yield ask
    assert isinstance(given, Given)
    return given


def _look(look: Search | Provide) -> Generator[Search | Provide, Given | Found, Found]:
    found = yield look
    assert isinstance(found, Found)
    return found


def _lose(found: Found) -> FanOutGiven:
    return FanOutGiven(unscored="lookup_failed", detail=found.detail)


def _measure(ask: Ask) -> int:
    """Return the characters of a prompt plus those that its completion may have."""
    messages = ask.messages()
    said = [str(message["content"]) for message in messages]
    said += [json.dumps(message["tool_calls"]) for message in messages if "tool_calls" in message]
    said += map(json.dumps, ask.tools)
    return sum(map(len, said)) + CHARACTERS * ask.prompt.max_tokens


def show_chunks(chunks: Sequence[Chunk]) -> str:
    """Return chunks as text for the model: article by article, with […] for each gap."""
    shown: list[str] = []
    for at, chunk in enumerate(chunks):
        before = chunks[at - 1] if at and chunks[at - 1].revid == chunk.revid else None
        if before is None:
            shown.append(f"Article: {chunk.title}")
        if chunk.number != (before.number + 1 if before else 1):
            shown.append("[…]")
        shown.append(chunk.text)
    return "\n\n".join(shown)


def tell_found(title: str, found: Found) -> str:
    """Return a search's result as text for the model, without the reason for a miss, which may reveal later events."""
    if found.chunks:
        return show_chunks(found.chunks)
    near = f"Articles with titles like it: {'; '.join(found.similar)}." if found.similar else "There is none like it."
    return f"There is no article with the title {title[:200]!r}. {near}"


def _read_calls(given: Given) -> Given | list[_Request]:
    return [_read_call(call) for call in given.calls] or given


def _read_call(call: ToolCall) -> _Request:
    if call.name != "search":
        return _Request(call, "", f"there is no tool {call.name[:60]!r}, only search")
    title = (call.read or {}).get("title")
    if isinstance(title, str) and title.strip():
        return _Request(call, title.strip())
    return _Request(call, "", f'the arguments of search are {call.arguments[:100]!r}, expected {{"title": "…"}}')


def _write_results(given: Given, results: Sequence[tuple[_Request, str]]) -> list[dict[str, Any]]:
    """Return tool calls and their results as messages; invalid JSON arguments become {}, since servers parse them."""
    calls = [call for request, _ in results if (call := request.call)]
    told = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": re.sub(r"[^\w-]", "_", call.name, flags=re.ASCII)[:60] or "unnamed",
                "arguments": "{}" if call.read is None else json.dumps(call.read, ensure_ascii=False),
            },
        }
        for call in calls
    ]
    said = {"role": "assistant", "content": drop_thoughts(given.texts[0]).strip(), "tool_calls": told}
    gave = [
        {"role": "tool", "tool_call_id": call.id, "content": text}
        for call, (_, text) in zip(calls, results, strict=True)
    ]
    return [said, *gave] if gave else []


def _read_lines(given: Given) -> Given | list[_Request]:
    """Return the searches of a reply, or its answer: the first of the two counts, since the rest is made up."""
    lines = drop_fences(given.read[0]).splitlines() if given.read else []
    titles: list[str] = []
    for at, line in enumerate(lines):
        found = _LINE.fullmatch(drop_list_mark(line))
        if found is None:
            continue
        if found["what"].lower() == "search":
            if title := unwrap(found["said"].strip("*_` "), quotes=True).strip():
                titles.append(title)
        elif titles:
            break
        else:
            said = "\n".join([found["said"].strip("*_` "), *lines[at + 1 :]]).strip()
            return replace(given, read=(said,)) if said else given
    return [_Request(None, title) for title in titles] or given


def _write_found(_: Given, results: Sequence[tuple[_Request, str]]) -> list[dict[str, Any]]:
    """Return searches and their results as messages, without the text that the model made up after its searches."""
    if not results:
        return []
    said = "\n".join(f"SEARCH: {request.title}" for request, _ in results)
    gave = "\n\n".join(f"Found for {request.title}:\n{text}" for request, text in results)
    return [{"role": "assistant", "content": said}, {"role": "user", "content": gave}]
