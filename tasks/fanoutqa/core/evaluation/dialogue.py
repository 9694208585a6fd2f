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
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

from factmill.tasks.core.calls.chat import ToolCall
from factmill.tasks.core.evaluation.answers import B, ModelPrediction
from factmill.tasks.core.evaluation.rows import EvaluationQuestion
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.fanoutqa.core.evaluation.chunks import ArticleChunk
from factmill.tasks.fanoutqa.core.evaluation.rows import FanOutEvaluationQuestion, FanOutSearchRecord
from factmill.tasks.text.reply_wrappers import (
    blank_code_fence_lines,
    strip_leading_markdown_marks,
    strip_surrounding_emphasis_and_quotes,
    strip_thinking_and_end_tokens,
)

ROOM_CHARACTERS_PER_TOKEN = 4
"""Characters that count as one token."""
MIN_CHUNK_ROOM = 1100
"""Least characters of room for one more chunk."""
MAX_SEARCHES_PER_TURN = 10
"""Most searches of one turn; further ones are not looked up."""
ToolUse = Literal["auto", "always", "never"]
SEARCH_TOOL: dict[str, Any] = {
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
_ANSWER_NOW_MESSAGE = "This was the last search. Give your final answer now."
_NO_ROOM_MESSAGE = "There is no room left to show an article. Give your final answer now."
_SEARCH_OR_ANSWER_LINE = re.compile(
    r"[\s*_`\"']*(?P<what>search|answer)\b[\s*_`]*[:：](?P<said>.*)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class DialogueLimits:
    """Limits of a dialogue."""

    rounds: int
    """Most turns in which the model may search."""
    context_characters: int
    """Size of the model's context in characters."""
    lookup_share: float
    """Share of the context that one look-up may fill."""
    tokens: int | None = None
    """Most tokens, read and written, of all turns together, as the server counts them."""
    seconds: float | None = None
    """Most seconds of response time, of all turns together."""


@dataclass(frozen=True, slots=True)
class ArticleTitleRequest:
    """Request for an article by its title."""

    title: str
    epoch: str
    query: str
    """Text by which chunks are ranked."""
    max_characters: int
    """Most characters of the chunks."""


@dataclass(frozen=True, slots=True)
class EvidenceArticlesRequest:
    """Request for the articles that a question needs."""

    articles: tuple[tuple[str, int], ...]
    """(Title, revision) each."""
    query: str
    max_characters: int


@dataclass(frozen=True, slots=True)
class ArticleLookupResult:
    """Result of a look-up."""

    chunks: tuple[ArticleChunk, ...] = ()
    chunks_total: int = 0
    """Total number of chunks."""
    similar: tuple[str, ...] = ()
    """Titles of other articles that existed at the epoch."""
    reason: str = ""
    """Why there is no chunk: evidence_missing, younger_than_epoch, invalid_title, redirect_loop or wikipedia_failed."""
    detail: str = ""
    is_transient_failure: bool = False
    """True for a transient failure: an answer given without the look-up would not count as the model's."""


@dataclass(frozen=True, slots=True)
class FanOutDialogueResult(ModelPrediction):
    """A model's answer with the course of its dialogue."""

    searches: tuple[FanOutSearchRecord, ...] = ()
    context: tuple[str, ...] = ()
    """Chunks shown to the model."""
    rounds: int = 0
    """Number of turns with searches."""
    stopped: str = ""
    """Limit that ended the searches: rounds, tokens, time, room; empty: none did."""

    @classmethod
    def of(cls, given: ModelPrediction, **more: Any) -> Self:
        """Return an answer extended by the fields of its dialogue."""
        return cls(**{**{each.name: getattr(given, each.name) for each in fields(ModelPrediction)}, **more})

    def make_prediction(self, asked: EvaluationQuestion, model: type[B], name: str, /, **more: object) -> B:
        """Return the answer as a row of `model`, with its searches."""
        kept = {"searches": list(self.searches), "context": list(self.context)}
        # super() without arguments fails here, since slots=True recreates the class
        return ModelPrediction.make_prediction(
            self, asked, model, name, **kept, rounds=self.rounds, stopped=self.stopped, **more
        )


FanOutDialogue = Generator[
    FilledPrompt | ArticleTitleRequest | EvidenceArticlesRequest,
    ModelPrediction | ArticleLookupResult,
    FanOutDialogueResult,
]


def answer_in_closed_book(prompt: FilledPrompt) -> FanOutDialogue:
    """Send the question alone (closed book)."""
    return FanOutDialogueResult.of((yield from _yield_prompt_and_receive_prediction(prompt)))


def answer_from_evidence(
    asked: FanOutEvaluationQuestion, bounds: DialogueLimits, fill: Callable[[str], FilledPrompt]
) -> FanOutDialogue:
    """Send the question with the best chunks of the articles it needs; `fill`: text of the chunks → prompt."""
    empty = fill("")
    room = bounds.context_characters - _count_prompt_and_max_reply_characters(empty)
    articles = tuple((each.title, each.revid) for each in asked.evidence)
    found = yield from _yield_lookup_and_receive_result(EvidenceArticlesRequest(articles, asked.question, room))
    if found.is_transient_failure:
        return _make_lookup_failure(found)
    given = yield from _yield_prompt_and_receive_prediction(fill(format_chunks(found.chunks)))
    return FanOutDialogueResult.of(given, context=tuple(map(str, found.chunks)))


def answer_with_searches(
    asked: FanOutEvaluationQuestion,
    bounds: DialogueLimits,
    with_tools: FilledPrompt | None,
    in_text: FilledPrompt | None,
) -> FanOutDialogue:
    """Send the question and let the model search (open book): by tools, or in plain text if its server refuses tools.

    `with_tools`, `in_text`: the prompts of the two modes; None disables a mode.
    """
    if with_tools is not None:
        ask = replace(with_tools, tools=(SEARCH_TOOL,))
        given = yield from _search_until_answered(
            asked, bounds, ask, _read_tool_searches_or_answer, _format_tool_call_and_result_messages
        )
        if in_text is None or not given.detail.startswith("tools_refused"):
            return given
    assert in_text is not None
    return (
        yield from _search_until_answered(
            asked, bounds, in_text, _read_text_searches_or_answer, _format_text_result_messages
        )
    )


@dataclass(frozen=True, slots=True)
class _SearchRequest:
    """One search as requested by the model."""

    call: ToolCall | None
    title: str
    problem: str = ""
    """Why nothing can be looked up, in the words shown to the model."""


@dataclass
class _DialogueState:
    """The course of a dialogue so far: fields of its FanOutDialogueResult, with the tokens and seconds of all turns."""

    searches: tuple[FanOutSearchRecord, ...] = ()
    context: tuple[str, ...] = ()
    rounds: int = 0
    stopped: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    def find_reached_limit(self, bounds: DialogueLimits, has_room: bool) -> str:
        """Return the limit that forbids one more search; empty: none."""
        if self.rounds >= bounds.rounds:
            return "rounds"
        if bounds.tokens is not None and self.tokens_in + self.tokens_out >= bounds.tokens:
            return "tokens"
        if bounds.seconds is not None and self.seconds >= bounds.seconds:
            return "time"
        return "" if has_room else "room"


def _search_until_answered(
    asked: FanOutEvaluationQuestion,
    bounds: DialogueLimits,
    first: FilledPrompt,
    read_searches_or_answer: Callable[[ModelPrediction], ModelPrediction | list[_SearchRequest]],
    format_results: Callable[[ModelPrediction, Sequence[tuple[_SearchRequest, str]]], list[dict[str, Any]]],
) -> FanOutDialogue:
    """Let a model search until it answers; `read_searches_or_answer` reads its reply, `format_results` gives messages."""
    log, ask = _DialogueState(), first
    while True:
        given = yield from _yield_prompt_and_receive_prediction(ask)
        log.tokens_in += given.tokens_in
        log.tokens_out += given.tokens_out
        log.seconds += given.seconds
        requests = read_searches_or_answer(given)
        if isinstance(requests, ModelPrediction):
            return FanOutDialogueResult.of(requests, **vars(log))
        if log.stopped:
            searched = requests[0].title or requests[0].problem
            detail = f"it searched on when it was told to answer ({log.stopped}): {searched}"
            silent = replace(given, read_texts=("",), unscored="no_answer", detail=detail)
            return FanOutDialogueResult.of(silent, **vars(log))
        log.rounds += 1
        results: list[tuple[_SearchRequest, str]] = []
        for number, request in enumerate(requests, 1):
            so_far = replace(ask, turns=(*ask.turns, *format_results(given, results)))
            room = bounds.context_characters - _count_prompt_and_max_reply_characters(so_far)
            trouble = request.problem or (
                f"more than {MAX_SEARCHES_PER_TURN} searches at once" if number > MAX_SEARCHES_PER_TURN else ""
            )
            if trouble or room < MIN_CHUNK_ROOM:
                found = ArticleLookupResult(reason="not_looked_up" if trouble else "no_room", detail=trouble)
                shown = f"Nothing was looked up: {trouble}." if trouble else _NO_ROOM_MESSAGE
            else:
                most = min(room, int(bounds.context_characters * bounds.lookup_share))
                found = yield from _yield_lookup_and_receive_result(
                    ArticleTitleRequest(request.title, asked.epoch, asked.question, most)
                )
                shown = format_lookup_result(request.title, found)
            log.searches += (_make_search_record(log.rounds, request, found),)
            if found.is_transient_failure:
                return replace(_make_lookup_failure(found), call=given.call, **vars(log))
            log.context += tuple(map(str, found.chunks))
            results.append((request, shown))
        ask = replace(ask, turns=(*ask.turns, *format_results(given, results)))
        room = bounds.context_characters - _count_prompt_and_max_reply_characters(ask)
        log.stopped = log.find_reached_limit(bounds, room >= MIN_CHUNK_ROOM)
        if log.stopped:
            last = {**ask.turns[-1], "content": f"{ask.turns[-1]['content']}\n\n{_ANSWER_NOW_MESSAGE}"}
            ask = replace(ask, turns=(*ask.turns[:-1], last))


def _make_search_record(number: int, request: _SearchRequest, found: ArticleLookupResult) -> FanOutSearchRecord:
    return FanOutSearchRecord(
        round=number,
        title=request.title,
        found=found.chunks[0].title if found.chunks else "",
        revid=found.chunks[0].revid if found.chunks else None,
        chunks=len(found.chunks),
        of=found.chunks_total,
        similar=list(found.similar),
        reason=found.reason,
        detail=found.detail,
    )


def _yield_prompt_and_receive_prediction(
    prompt: FilledPrompt,
) -> Generator[FilledPrompt, ModelPrediction | ArticleLookupResult, ModelPrediction]:
    given = yield prompt
    assert isinstance(given, ModelPrediction)
    return given


def _yield_lookup_and_receive_result(
    request: ArticleTitleRequest | EvidenceArticlesRequest,
) -> Generator[
    ArticleTitleRequest | EvidenceArticlesRequest, ModelPrediction | ArticleLookupResult, ArticleLookupResult
]:
    found = yield request
    assert isinstance(found, ArticleLookupResult)
    return found


def _make_lookup_failure(found: ArticleLookupResult) -> FanOutDialogueResult:
    return FanOutDialogueResult(unscored="lookup_failed", detail=found.detail)


def _count_prompt_and_max_reply_characters(prompt: FilledPrompt) -> int:
    """Return the characters of a prompt plus those that its completion may have."""
    messages = prompt.build_messages()
    texts = [str(message["content"]) for message in messages]
    texts += [json.dumps(message["tool_calls"]) for message in messages if "tool_calls" in message]
    texts += map(json.dumps, prompt.tools)
    return sum(map(len, texts)) + ROOM_CHARACTERS_PER_TOKEN * prompt.prompt.max_tokens


def format_chunks(chunks: Sequence[ArticleChunk]) -> str:
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


def format_lookup_result(title: str, found: ArticleLookupResult) -> str:
    """Return a search's result as text for the model, without the reason for a miss, which may reveal later events."""
    if found.chunks:
        return format_chunks(found.chunks)
    near = f"Articles with titles like it: {'; '.join(found.similar)}." if found.similar else "There is none like it."
    return f"There is no article with the title {title[:200]!r}. {near}"


def _read_tool_searches_or_answer(prediction: ModelPrediction) -> ModelPrediction | list[_SearchRequest]:
    return [_read_search_call(call) for call in prediction.tool_calls] or prediction


def _read_search_call(call: ToolCall) -> _SearchRequest:
    if call.name != "search":
        return _SearchRequest(call, "", f"there is no tool {call.name[:60]!r}, only search")
    title = (call.parsed_arguments or {}).get("title")
    if isinstance(title, str) and title.strip():
        return _SearchRequest(call, title.strip())
    return _SearchRequest(call, "", f'the arguments of search are {call.arguments[:100]!r}, expected {{"title": "…"}}')


def _format_tool_call_and_result_messages(
    prediction: ModelPrediction, results: Sequence[tuple[_SearchRequest, str]]
) -> list[dict[str, Any]]:
    """Return tool calls and their results as messages; invalid JSON arguments become {}, since servers parse them."""
    answered = [(call, text) for request, text in results if (call := request.call)]
    if not answered:
        return []
    tool_calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": re.sub(r"[^\w-]", "_", call.name, flags=re.ASCII)[:60] or "unnamed",
                "arguments": json.dumps(call.parsed_arguments or {}, ensure_ascii=False),
            },
        }
        for call, _ in answered
    ]
    said = strip_thinking_and_end_tokens(prediction.texts[0]).strip()
    return [
        {"role": "assistant", "content": said, "tool_calls": tool_calls},
        *({"role": "tool", "tool_call_id": call.id, "content": text} for call, text in answered),
    ]


def _read_text_searches_or_answer(prediction: ModelPrediction) -> ModelPrediction | list[_SearchRequest]:
    """Return the searches of a reply, or its answer: the first of the two counts, since the rest is made up."""
    lines = blank_code_fence_lines(prediction.read_texts[0]).splitlines() if prediction.read_texts else []
    titles: list[str] = []
    for at, line in enumerate(lines):
        found = _SEARCH_OR_ANSWER_LINE.fullmatch(strip_leading_markdown_marks(line))
        if found is None:
            continue
        if found["what"].lower() == "search":
            if title := strip_surrounding_emphasis_and_quotes(found["said"].strip("*_` "), quotes=True).strip():
                titles.append(title)
        elif titles:
            break
        else:
            answer = "\n".join([found["said"].strip("*_` "), *lines[at + 1 :]]).strip()
            return replace(prediction, read_texts=(answer,)) if answer else prediction
    return [_SearchRequest(None, title) for title in titles] or prediction


def _format_text_result_messages(
    _: ModelPrediction, results: Sequence[tuple[_SearchRequest, str]]
) -> list[dict[str, Any]]:
    """Return searches and their results as messages, without the text that the model made up after its searches."""
    if not results:
        return []
    searches = "\n".join(f"SEARCH: {request.title}" for request, _ in results)
    gave = "\n\n".join(f"Found for {request.title}:\n{text}" for request, text in results)
    return [{"role": "assistant", "content": searches}, {"role": "user", "content": gave}]
