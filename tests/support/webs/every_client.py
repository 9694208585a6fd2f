"""List every client of an outside service with a call that it answers, for tests that apply to all."""

from collections.abc import Callable

from factmill.tasks.clients.chat import ChatClient
from factmill.tasks.clients.falcon import FalconEntityLinkingClient
from factmill.tasks.clients.pageviews import PageviewsClient
from factmill.tasks.clients.perplexity import TextPerplexityClient
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.clients.wikipedia import WikipediaClient
from factmill.tasks.core.calls.call import Call, CallService, ResponseHandler
from factmill.tasks.core.calls.chat import make_chat_call
from factmill.tasks.core.calls.entity_linking import (
    make_entity_and_relation_linking_call,
    make_same_wikidata_items_call,
)
from factmill.tasks.core.calls.pageviews import make_pageviews_call
from factmill.tasks.core.calls.translation_and_perplexity import make_log_probability_call
from factmill.tasks.core.calls.wikidata import make_find_items_call
from factmill.tasks.core.calls.wikipedia import make_resolve_title_call
from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits

HERE, AGENT = "test", "factmill-tests"
PROMPT = parse_prompt_file("test/p", b'+++\nrole = "author"\ninputs = ["name"]\n+++\n# user\nWho is $name?\n')


def model(url: str, limits: ServiceLimits) -> ModelSettings:
    return ModelSettings(kind="openai", name="m", url=f"{url}/v1", limits=limits)


CLIENTS: dict[str, tuple[Callable[..., CallService], Callable[[str], Call]]] = {
    "wikidata": (
        lambda url, limits, token="": SparqlClient("Wikidata", url, HERE, limits, AGENT, token),
        lambda name: make_find_items_call(HERE, name),
    ),
    "dbpedia": (
        lambda url, limits, token="": SparqlClient("DBpedia", url, HERE, limits, AGENT, token),
        lambda name: make_same_wikidata_items_call(HERE, f"http://dbpedia.org/resource/{name}"),
    ),
    "wikipedia": (
        lambda url, limits, token="": WikipediaClient(url, HERE, limits, AGENT, token),
        lambda name: make_resolve_title_call(HERE, name),
    ),
    "pageviews": (
        lambda url, limits, token="": PageviewsClient(url, HERE, limits, AGENT, token),
        lambda name: make_pageviews_call(HERE, name, "20250101", "20250103"),
    ),
    "falcon": (
        lambda url, limits, token="": FalconEntityLinkingClient(url, HERE, limits, AGENT, token),
        lambda name: make_entity_and_relation_linking_call(HERE, name, 2),
    ),
    "chat": (
        lambda url, limits: ChatClient(HERE, model(url, limits), lambda: "sk-secret-0123456789", AGENT),
        lambda name: make_chat_call(HERE, "m", fill_prompt_template(PROMPT, name=name)),
    ),
    "anthropic": (
        lambda url, limits: ChatClient(
            HERE,
            ModelSettings(kind="anthropic", name="m", url=url, limits=limits),
            lambda: "sk-secret-0123456789",
            AGENT,
        ),
        lambda name: make_chat_call(HERE, "m", fill_prompt_template(PROMPT, name=name), keeps_empty_completions=True),
    ),
    "perplexity": (
        lambda url, limits: TextPerplexityClient(HERE, model(url, limits), lambda: "sk-secret-0123456789", AGENT),
        lambda name: make_log_probability_call(HERE, name),
    ),
}
"""Name → function that opens a client for an address within limits, and function that makes a call about a name."""


def send_one(name: str, url: str, limits: ServiceLimits, inbox: ResponseHandler, *token: str) -> Call:
    """Send one call about Berlin with a client, and return it."""
    open_client, make_call = CLIENTS[name]
    call = make_call("Berlin")
    open_client(url, limits, *token).send([call], inbox)
    return call


WITH_TOKENS = ("wikidata", "dbpedia", "wikipedia", "pageviews", "falcon")
"""Clients that accept a token."""
