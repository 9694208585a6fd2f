"""Test dialogues about a question: a model that searches in many ways, without a server or a wiki."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.calls.chat import ToolCall
from factmill.tasks.core.evaluation.answers import ModelPrediction
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.fanoutqa.core.evaluation.chunks import ArticleChunk
from factmill.tasks.fanoutqa.core.evaluation.dialogue import (
    MAX_SEARCHES_PER_TURN,
    ROOM_CHARACTERS_PER_TOKEN,
    SEARCH_TOOL,
    ArticleLookupResult,
    ArticleTitleRequest,
    DialogueLimits,
    EvidenceArticlesRequest,
    FanOutDialogue,
    FanOutDialogueResult,
    answer_from_evidence,
    answer_in_closed_book,
    answer_with_searches,
)
from factmill.tasks.fanoutqa.core.evaluation.rows import FanOutEvaluationQuestion, FanOutPinnedArticle

ASKED = FanOutEvaluationQuestion(
    id="open_book/q",
    question_id="q",
    item="q",
    cluster="q",
    setting="open_book",
    question="How long is each river?",
    gold='{"Enns": "254 km"}',
    kind="dict",
    split="dev",
    categories=[],
    articles=["Enns", "Mur"],
    evidence=[FanOutPinnedArticle(title="Enns", revid=10), FanOutPinnedArticle(title="Mur", revid=20)],
    epoch="2023-11-20T00:00:00Z",
)
BOUNDS = DialogueLimits(rounds=3, context_characters=40_000, lookup_share=0.5)
TOOLS, TEXT, ARTICLES, ALONE = (
    load_prompt(f"fanoutqa/answer_{name}") for name in ("with_tools", "with_searches", "from_articles", "closed_book")
)
BY_TOOLS, IN_TEXT = (fill_prompt_template(prompt, question=ASKED.question) for prompt in (TOOLS, TEXT))
MISSING = ArticleLookupResult(reason="younger_than_epoch", detail="its first one is of 2025", similar=("Enns (river)",))


def say(text: str = "", *titles: str, **more: Any) -> ModelPrediction:
    """Return a turn with a text and tool searches for titles."""
    calls = tuple(ToolCall(f"c{at}", "search", json.dumps({"title": title})) for at, title in enumerate(titles))
    return ModelPrediction((text,), (text,), tool_calls=calls, tokens_in=10, tokens_out=2, call="k", **more)


def call(name: str, arguments: str) -> ModelPrediction:
    return ModelPrediction(("",), ("",), tool_calls=(ToolCall("c", name, arguments),))


def find(look: ArticleTitleRequest | EvidenceArticlesRequest) -> ArticleLookupResult:
    """Find an article of two chunks."""
    assert isinstance(look, ArticleTitleRequest)
    return ArticleLookupResult(
        (ArticleChunk(look.title, 7, 1, f"{look.title} is long."), ArticleChunk(look.title, 7, 3, "It ends.")), 4
    )


def play(
    held: FanOutDialogue, *said: ModelPrediction, look: Callable[[Any], ArticleLookupResult] = find
) -> tuple[FanOutDialogueResult, list[FilledPrompt], list[ArticleTitleRequest | EvidenceArticlesRequest]]:
    """Run a dialogue with a model of scripted turns; return its answer, the prompts, and the lookups."""
    asks: list[FilledPrompt] = []
    looks: list[ArticleTitleRequest | EvidenceArticlesRequest] = []
    turns = iter(said)
    came: ModelPrediction | ArticleLookupResult | None = None
    try:
        while True:
            wanted = next(held) if came is None else held.send(came)
            if isinstance(wanted, FilledPrompt):
                asks.append(wanted)
                came = next(turns)
            else:
                looks.append(wanted)
                came = look(wanted)
    except StopIteration as ended:
        assert not list(turns), "it was asked less often than expected"
        return ended.value, asks, looks


def search(
    *said: ModelPrediction,
    bounds: DialogueLimits = BOUNDS,
    look: Callable[[Any], ArticleLookupResult] = find,
    way: str = "auto",
) -> Any:
    with_tools, in_text = (None if way == "never" else BY_TOOLS), (None if way == "always" else IN_TEXT)
    return play(answer_with_searches(ASKED, bounds, with_tools, in_text), *said, look=look)


def test_closed_book_sends_only_question() -> None:
    result, asks, looks = play(answer_in_closed_book(fill_prompt_template(ALONE, question="Q?")), say("So."))
    assert (result.read_texts, result.tokens_in, result.rounds, looks) == (("So.",), 10, 0, [])
    assert len(asks) == 1 and not asks[0].tools


def test_model_gets_chunks_by_tool_calls_and_its_text_is_answer() -> None:
    result, asks, looks = search(say("", "Enns"), say("Looking.", "Mur", "Drava"), say("Enns: 254 km."))
    assert result.read_texts == ("Enns: 254 km.",)
    assert (result.rounds, result.stopped, result.tokens_in, result.tokens_out) == (2, "", 30, 6)
    assert [(each.round, each.title, each.chunks, each.of) for each in result.searches] == [
        (1, "Enns", 2, 4), (2, "Mur", 2, 4), (2, "Drava", 2, 4)
    ]  # fmt: skip
    assert result.context[:2] == ("Enns, 7 #1", "Enns, 7 #3")
    assert all(ask.tools == (SEARCH_TOOL,) for ask in asks)
    assert [turn["role"] for turn in asks[-1].turns] == ["assistant", "tool", "assistant", "tool", "tool"]
    assert asks[-1].turns[1] == {
        "role": "tool",
        "tool_call_id": "c0",
        "content": "Article: Enns\n\nEnns is long.\n\n[…]\n\nIt ends.",
    }
    assert all(each.epoch == ASKED.epoch and each.query == ASKED.question for each in looks)


def test_lookups_respect_context_share_and_remaining_room() -> None:
    def fill_all(look: Any) -> ArticleLookupResult:
        return ArticleLookupResult((ArticleChunk(look.title, 7, 1, "x" * look.max_characters),), 9)

    result, asks, looks = search(say("", "A"), say("", "B"), say("So."), look=fill_all)
    assert looks[0].max_characters == BOUNDS.context_characters // 2
    used = sum(len(str(message["content"])) for message in asks[1].build_messages())
    assert looks[1].max_characters < BOUNDS.context_characters - used - ROOM_CHARACTERS_PER_TOKEN * TOOLS.max_tokens
    assert result.stopped == "room"
    assert sum(len(str(message["content"])) for message in asks[-1].build_messages()) < BOUNDS.context_characters
    assert "Give your final answer now." in asks[-1].turns[-1]["content"]


@pytest.mark.parametrize("way", ["always", "never"])
def test_model_that_keeps_searching_gets_one_final_prompt_then_no_answer(way: str) -> None:
    said = [say("", "Enns") if way == "always" else say("SEARCH: Enns") for _ in range(4)]
    result, asks, looks = search(*said, way=way)
    assert len(asks) == BOUNDS.rounds + 1
    assert len(looks) == BOUNDS.rounds
    assert (result.unscored, result.read_texts, result.stopped, result.rounds) == ("no_answer", ("",), "rounds", 3)
    assert result.detail == "it searched on when it was told to answer (rounds): Enns"
    assert asks[-1].turns[-1]["content"].endswith("This was the last search. Give your final answer now.")
    assert "last search" not in asks[-2].turns[-1]["content"]


def test_answer_to_final_prompt_is_accepted() -> None:
    result, _, _ = search(*[say("", "Enns")] * 3, say("254 km"))
    assert (result.unscored, result.read_texts, result.stopped) == ("", ("254 km",), "rounds")


@pytest.mark.parametrize(
    ("bounds", "turns", "stopped"),
    [
        ({"tokens": 12}, 1, "tokens"),
        ({"tokens": 13}, 2, "tokens"),
        ({"seconds": 1.5}, 1, "time"),
        ({"seconds": 2.9}, 2, "time"),
        ({"tokens": 1000, "seconds": 100.0}, 3, "rounds"),
    ],
)
def test_dialogue_stops_when_token_or_time_budget_is_spent(bounds: dict[str, Any], turns: int, stopped: str) -> None:
    said = [say("", "Enns", seconds=1.5)] * turns
    result, asks, looks = search(*said, say("254 km", seconds=1.5), bounds=replace(BOUNDS, **bounds))
    assert (result.rounds, result.stopped, result.read_texts, len(looks)) == (turns, stopped, ("254 km",), turns)
    assert (result.tokens_in + result.tokens_out, result.seconds) == (12 * (turns + 1), 1.5 * (turns + 1))
    assert "Give your final answer now." in asks[-1].turns[-1]["content"]


@pytest.mark.parametrize(
    ("turn", "trouble"),
    [
        (call("search", "{broken"), "the arguments of search are '{broken', expected"),
        (call("search", '{"page": "Enns"}'), "the arguments of search are"),
        (call("search", '{"title": 5}'), "the arguments of search are"),
        (call("search", '{"title": " "}'), "the arguments of search are"),
        (call("look up!", '{"title": "Enns"}'), "there is no tool 'look up!', only search"),
    ],
    ids=["broken", "other name", "number", "blank", "other tool"],
)
def test_invalid_tool_call_is_reported_to_model_and_resent_as_json(turn: ModelPrediction, trouble: str) -> None:
    result, asks, looks = search(turn, say("I do not know."))
    assert looks == []
    (sent,) = asks[1].turns[0]["tool_calls"]
    assert isinstance(json.loads(sent["function"]["arguments"]), dict)
    assert sent["function"]["name"] in ("search", "look_up_")
    assert trouble in asks[1].turns[1]["content"]
    assert (result.searches[0].reason, result.rounds) == ("not_looked_up", 1)


def test_searches_per_turn_are_capped() -> None:
    result, asks, looks = search(say("", *[f"T{at}" for at in range(500)]), say("So."))
    assert len(looks) == MAX_SEARCHES_PER_TURN
    assert len(asks[1].turns) == 1 + 500
    assert result.searches[-1].reason in ("not_looked_up", "no_room")


def test_missing_article_reply_lists_similar_titles_and_hides_future_articles() -> None:
    result, asks, _ = search(say("", "Enns"), say("So."), look=lambda _: MISSING)
    shown = asks[1].turns[-1]["content"]
    assert shown == "There is no article with the title 'Enns'. Articles with titles like it: Enns (river)."
    assert (result.searches[0].reason, result.searches[0].similar) == ("younger_than_epoch", ["Enns (river)"])


@pytest.mark.parametrize("way", ["always", "never"])
def test_transient_wiki_failure_ends_dialogue_unscored(way: str) -> None:
    lost = ArticleLookupResult(reason="wikipedia_failed", detail="http_503: x", is_transient_failure=True)
    said = say("", "Enns") if way == "always" else say("SEARCH: Enns")
    result, _, _ = search(said, look=lambda _: lost, way=way)
    assert (result.unscored, result.detail, result.texts) == ("lookup_failed", "http_503: x", ())
    assert result.searches[0].reason == "wikipedia_failed"


def test_server_without_tool_support_gets_plain_text_unless_tools_are_required() -> None:
    refused = ModelPrediction(unscored="model_failed", detail="tools_refused: http_400")
    result, asks, _ = search(refused, say("SEARCH: Enns\nSEARCH: Mur"), say("ANSWER: 254 km"))
    assert result.read_texts == ("254 km",)
    assert [bool(ask.tools) for ask in asks] == [True, False, False]
    assert [each.title for each in result.searches] == ["Enns", "Mur"]
    stopped, asks, _ = search(refused, way="always")
    assert (stopped.unscored, len(asks)) == ("model_failed", 1)


@pytest.mark.parametrize(
    ("text", "titles", "answer"),
    [
        ("SEARCH: Enns", ["Enns"], ""),
        ("Let me look.\n\n**SEARCH:** \"Enns\"\n- search： Mur ", ["Enns", "Mur"], ""),
        ("```\nSEARCH: Enns\n```", ["Enns"], ""),
        ("SEARCH: Enns\nFound for Enns: 9 km\nANSWER: 9 km", ["Enns"], ""),
        ("ANSWER: 254 km\nSEARCH: Mur", [], "254 km\nSEARCH: Mur"),
        ("I know it.\nAnswer:\nEnns: 254 km\nMur: 464 km", [], "Enns: 254 km\nMur: 464 km"),
        ("The answer: none", [], "The answer: none"),
        ("254 km", [], "254 km"),
        ("SEARCH:", [], "SEARCH:"),
    ],
)  # fmt: skip
def test_first_search_or_answer_line_in_text_decides_turn(text: str, titles: list[str], answer: str) -> None:
    result, asks, looks = search(say(text), *([say("ANSWER: x")] if titles else []), way="never")
    assert [look.title for look in looks] == titles
    assert result.read_texts == (answer or "x",)
    if titles:
        assert asks[1].turns[0]["content"] == "\n".join(f"SEARCH: {title}" for title in titles)
        assert [turn["role"] for turn in asks[1].turns] == ["assistant", "user"]


def test_model_reasoning_is_not_sent_back() -> None:
    _, asks, _ = search(say("<think>Where?</think>I look it up.", "Enns"), say("So."))
    assert asks[1].turns[0]["content"] == "I look it up."


def test_model_failure_mid_dialogue_is_unscored_and_keeps_its_searches() -> None:
    result, _, _ = search(say("", "Enns"), ModelPrediction(unscored="model_failed", detail="http_500", call="k2"))
    assert (result.unscored, result.call, len(result.searches)) == ("model_failed", "k2", 1)


def test_evidence_setting_shows_best_chunks_of_required_articles() -> None:
    def fill(shown: str) -> FilledPrompt:
        return fill_prompt_template(ARTICLES, question=ASKED.question, articles=shown)

    found = ArticleLookupResult(
        (ArticleChunk("Enns", 10, 1, "254 km</articles>"), ArticleChunk("Mur", 20, 2, "464 km")), 8
    )
    result, asks, looks = play(answer_from_evidence(ASKED, BOUNDS, fill), say("So."), look=lambda _: found)
    (look,) = looks
    assert isinstance(look, EvidenceArticlesRequest)
    assert look.articles == (("Enns", 10), ("Mur", 20))
    assert (
        look.max_characters
        == BOUNDS.context_characters
        - len(fill("").build_messages()[0]["content"])
        - ROOM_CHARACTERS_PER_TOKEN * ARTICLES.max_tokens
    )
    assert (
        "Article: Enns\n\n254 km< /articles>\n\nArticle: Mur\n\n[…]\n\n464 km"
        in asks[0].build_messages()[-1]["content"]
    )
    assert result.context == ("Enns, 10 #1", "Mur, 20 #2")
    lost = replace(found, is_transient_failure=True, detail="http_503")
    assert play(answer_from_evidence(ASKED, BOUNDS, fill), look=lambda _: lost)[0].unscored == "lookup_failed"
