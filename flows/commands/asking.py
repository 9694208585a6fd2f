"""`factmill doctor --ask`: one real question to each model and service of a world, and what they take."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tasks.clients.chat import Chat
from tasks.clients.refusals import describe_learnt
from tasks.core.calls.call import Call, Reply, Service
from tasks.core.calls.chat import call_chat, read_chat
from tasks.core.calls.dbpedia import call_same_as
from tasks.core.calls.falcon import call_link
from tasks.core.calls.knowledge import call_label, call_pageviews
from tasks.core.calls.perplexity import call_perplexity
from tasks.core.calls.wikipedia import call_resolve_title
from tasks.core.prompts import Ask, Prompt
from tasks.core.service_settings import CHAT_KINDS, Model
from tasks.engine.services import Services
from tasks.errors import FactmillError
from tasks.settings import SECTIONS, World, api_key, home

_TOKENS = 64
_PROMPT = Prompt(
    id="doctor",
    digest="",
    role="author",
    inputs=(),
    parts=(("system", "Answer in one word."), ("user", "Name a colour.")),
    temperature=0.5,
    max_tokens=_TOKENS,
    schema={
        "type": "object",
        "properties": {"colour": {"type": "string"}},
        "required": ["colour"],
        "additionalProperties": False,
    },
)
"""Asks for no JSON, so that a reply in JSON shows that the server held the model to the schema."""


def ask_world(world_name: str) -> Iterator[dict[str, Any]]:
    """Yield a finding ({what, ok, found, advice}) for each model behind a server and each service."""
    services = Services.open(world_name, None, home())
    try:
        world = services.world
        for name in filter(world.has, SECTIONS):
            service = getattr(services, name)
            advice = f"check the address of [{name}] in the world's file"
            yield _put(f"ask {name}", service, _question(name, service.identity), advice)
        for role, model in sorted(world.models.items()):
            if model.kind == "openai" and role == "perplexity":
                scorer = services.perplexity()
                question = call_perplexity(scorer.identity, "The sky is blue.")
                yield _put(f"ask {role}", scorer, question, "name a server that tells log-probabilities of prompts")
            elif model.kind in CHAT_KINDS:
                yield _ask_chat(role, model, world)
    finally:
        services.close()


def _question(name: str, identity: str) -> Call:
    questions = {
        "wikidata": lambda: call_label(identity, "Q2"),
        "wikipedia": lambda: call_resolve_title(identity, "Earth"),
        "pageviews": lambda: call_pageviews(identity, "Earth", "20240101", "20240102"),
        "falcon": lambda: call_link(identity, "Who founded Berlin?"),
        "dbpedia": lambda: call_same_as(identity, "http://dbpedia.org/resource/Berlin"),
    }
    return questions[name]()


def _put(what: str, service: Service, call: Call, advice: str) -> dict[str, Any]:
    reply = _answer(service, call)
    ok = reply.status == "ok"
    found = f"answers; {_spent(reply)}" if ok else str(reply.error)
    return {"what": what, "ok": ok, "found": found, "advice": "" if ok else advice}


def _ask_chat(role: str, model: Model, world: World) -> dict[str, Any]:
    """Ask for two samples held to a schema; what the server refuses or ignores shows what it takes."""
    limits = model.limits.model_copy(update={"attempts": 1})
    # the Messages API has no `n`
    asked = {"json_schema": model.json_schema or True, "choices": model.kind == "openai", "limits": limits}
    all_asked = model.model_copy(update=asked)
    chat = Chat(model.url, all_asked, lambda: api_key(model), world.user_agent)
    reply = _answer(chat, call_chat(model.url, model.name, Ask(_PROMPT, {}, samples=2)))
    if reply.status != "ok":
        cut = "'length'" in str(reply.error)
        advice = "; ".join(chat.notes()) or "check url, name and key in the world's file"
        if cut:
            advice = "it thinks before it answers: set thinking_tokens"
        return {"what": f"ask {role}", "ok": False, "found": str(reply.error), "advice": advice}
    found = chat.model
    if not all(map(_is_held, read_chat(reply.body).texts)):
        found = found.model_copy(update={"json_schema": False})
    takes = {
        "schema": {True: "yes", "json_object": "the older form", False: "no"}[found.json_schema],
        "n": "yes" if found.choices else "no",
        "temperature": "no" if found.temperature == "none" else "yes",
        "system role": "yes" if found.system == "own" else "no",
        "token limit": found.token_limit,
    }
    profile = describe_learnt(model, found.model_copy(update={"limits": model.limits}))
    told = "; ".join(f"{name} {value}" for name, value in takes.items())
    put = f"; put under [models.{role}]: {', '.join(profile)}" if profile else "; the world's file fits"
    return {"what": f"ask {role}", "ok": True, "found": f"{told}; {_spent(reply, model)}{put}", "advice": ""}


def _is_held(text: str) -> bool:
    try:
        return isinstance(json.loads(text)["colour"], str)
    except (ValueError, TypeError, KeyError):
        return False


def _answer(service: Service, call: Call) -> Reply:
    """Return the reply to a call; one that cannot be asked at all is a failed one."""
    replies: list[Reply] = []
    try:
        service.send([call], lambda _, reply: replies.append(reply))
    except FactmillError as error:
        return Reply(None, "failed", error=str(error))
    return replace(replies[0])


def _spent(reply: Reply, model: Model | None = None) -> str:
    cost = f"US$ {reply.cost_usd:.6f}"
    if model is not None and not model.has_price:
        cost = "no price is given"
    elif model is not None and not reply.tokens_in:
        cost = "cost unknown, since the server tells no usage"
    return f"{reply.latency_s:.1f} s, {reply.tokens_in} + {reply.tokens_out} tokens, {cost}"
