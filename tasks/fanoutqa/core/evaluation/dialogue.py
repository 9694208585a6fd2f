"""How a question is put to a model in each setting, turn by turn (paper §3.2, §4.3, §4.4). Nothing is sent from here.

In the open book a model asks for articles by their titles, with the chat protocol's calls of tools, or, where a server
knows none, by lines `SEARCH: title`; when it asks for nothing its text is the answer. What it is shown of an article are
the chunks that fit the question best, in at most a share of its context. When the rounds are used up, or there is no room
for one more chunk, or it has spent its tokens or seconds, it is told to answer, once; if it searches even then it has given
no answer.

Room is counted in characters, CHARACTERS a token, since servers count tokens each in their own way; what a dialogue spends
is told by its replies. Seconds are those in which the model answered, as recorded, so that a replay ends at the same turn.
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
"""Characters that are taken for one token."""
LEAST_ROOM = 1100
"""Characters below which there is no room for a chunk any more."""
MOST_AT_ONCE = 10
"""Searches of one turn; what is asked for beyond them is not looked up."""
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
    """How far a dialogue may go."""

    rounds: int
    """Turns of the model that may search."""
    context: int
    """Characters that the model can be shown at once."""
    share: float
    """Share of these that one look-up may fill."""
    tokens: int | None = None
    """Read and written, of all turns together, as the server counts them."""
    seconds: float | None = None
    """In which the model answered, of all turns together."""


@dataclass(frozen=True, slots=True)
class Search:
    """An article that a model asks for, by its title."""

    title: str
    epoch: str
    query: str
    """What chunks are chosen by."""
    room: int
    """Characters."""


@dataclass(frozen=True, slots=True)
class Provide:
    """The articles that a question needs."""

    articles: tuple[tuple[str, int], ...]
    """Title and revision."""
    query: str
    room: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a look-up gave."""

    chunks: tuple[Chunk, ...] = ()
    of: int = 0
    """Chunks that there are."""
    similar: tuple[str, ...] = ()
    """Articles with other titles that there were at the epoch."""
    reason: str = ""
    """Why there is no chunk: evidence_missing, younger_than_epoch, invalid_title, redirect_loop or wikipedia_failed."""
    detail: str = ""
    is_lost: bool = False
    """True for a failure that may pass: an answer without what was asked for would not be the model's."""


@dataclass(frozen=True, slots=True)
class FanOutGiven(Given):
    """A model's answer, and how it came to it."""

    searches: tuple[FanOutSearch, ...] = ()
    context: tuple[str, ...] = ()
    """Chunks that it was shown."""
    rounds: int = 0
    """Turns in which it searched."""
    stopped: str = ""
    """Why it was told to answer: rounds, tokens, time, room; empty: it was not."""

    @classmethod
    def of(cls, given: Given, **more: Any) -> Self:
        """Return an answer with how it was come to."""
        return cls(**{**{each.name: getattr(given, each.name) for each in fields(Given)}, **more})

    def extend(self, asked: Asked, model: type[B], name: str, /, **more: object) -> B:
        """Return the row of an answer, with its searches."""
        kept = {"searches": list(self.searches), "context": list(self.context)}
        # the zero-argument form of super() knows no class that slots have made anew
        return Given.extend(self, asked, model, name, **kept, rounds=self.rounds, stopped=self.stopped, **more)


Held = Generator[Ask | Search | Provide, Given | Found, FanOutGiven]


def answer_alone(ask: Ask) -> Held:
    """Ask the question alone (closed book)."""
    return FanOutGiven.of((yield from _ask(ask)))


def answer_from_articles(asked: FanOutAsked, bounds: Bounds, fill: Callable[[str], Ask]) -> Held:
    """Ask the question with the best chunks of the articles it needs; `fill`: those as the prompt."""
    empty = fill("")
    room = bounds.context - _measure(empty)
    articles = tuple((each.title, each.revid) for each in asked.evidence)
    found = yield from _look(Provide(articles, asked.question, room))
    if found.is_lost:
        return _lose(found)
    given = yield from _ask(fill(show_chunks(found.chunks)))
    return FanOutGiven.of(given, context=tuple(map(str, found.chunks)))


def answer_with_searches(asked: FanOutAsked, bounds: Bounds, with_tools: Ask | None, in_text: Ask | None) -> Held:
    """Ask the question and let the model search (open book): by tools, or in plain text where its server takes none.

    `with_tools`, `in_text`: the prompts of both ways; None: it is not asked so.
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
    """One search as the model asks for it."""

    call: ToolCall | None
    title: str
    trouble: str = ""
    """Why nothing can be looked up, as it is said to the model."""


@dataclass(slots=True)
class _Log:
    """What happened in a dialogue."""

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
        """Return which bound forbids one more search; empty: none."""
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
    """Let a model search until it answers; `read`: a turn as an answer or as searches, `write`: results as turns."""
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
    """Return how many characters a prompt has, and its answer may have."""
    messages = ask.messages()
    said = [str(message["content"]) for message in messages]
    said += [json.dumps(message["tool_calls"]) for message in messages if "tool_calls" in message]
    said += map(json.dumps, ask.tools)
    return sum(map(len, said)) + CHARACTERS * ask.prompt.max_tokens


def show_chunks(chunks: Sequence[Chunk]) -> str:
    """Return chunks as a model is shown them: article by article, with a mark where something is left out."""
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
    """Return what a search gave as the model is told it; why there is nothing is not told, since it may be of today."""
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
    """Return calls and what they gave as messages; arguments that are no JSON are sent back as none: servers read them."""
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
    """Return the searches of a reply, or its answer: which of both comes first counts, since what follows is made up."""
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
    """Return searches and what they gave as messages; the model is not shown what it made up behind them."""
    if not results:
        return []
    said = "\n".join(f"SEARCH: {request.title}" for request, _ in results)
    gave = "\n\n".join(f"Found for {request.title}:\n{text}" for request, text in results)
    return [{"role": "assistant", "content": said}, {"role": "user", "content": gave}]
