"""Every client of an outside service, with a call that it answers, for tests of what holds for all of them."""

from collections.abc import Callable

from factmill.tasks.clients.chat import Chat
from factmill.tasks.clients.falcon import Falcon
from factmill.tasks.clients.pageviews import Pageviews
from factmill.tasks.clients.perplexity import Scorer
from factmill.tasks.clients.sparql import SparqlClient
from factmill.tasks.clients.wikipedia import Wikipedia
from factmill.tasks.core.calls.call import Call, Service
from factmill.tasks.core.calls.chat import call_chat
from factmill.tasks.core.calls.knowledge import call_find_items
from factmill.tasks.core.calls.linkers import call_link, call_same_as
from factmill.tasks.core.calls.local_models import call_perplexity
from factmill.tasks.core.calls.pageviews import call_pageviews
from factmill.tasks.core.calls.wikipedia import call_resolve_title
from factmill.tasks.core.prompts import fill_in, read_prompt
from factmill.tasks.core.service_settings import Limits, Model

HERE, AGENT = "test", "factmill-tests"
PROMPT = read_prompt("test/p", b'+++\nrole = "author"\ninputs = ["name"]\n+++\n# user\nWho is $name?\n')


def model(url: str, limits: Limits) -> Model:
    return Model(kind="openai", name="m", url=f"{url}/v1", limits=limits)


CLIENTS: dict[str, tuple[Callable[..., Service], Callable[[str], Call]]] = {
    "wikidata": (
        lambda url, limits, token="": SparqlClient("Wikidata", url, HERE, limits, AGENT, token),
        lambda name: call_find_items(HERE, name),
    ),
    "dbpedia": (
        lambda url, limits, token="": SparqlClient("DBpedia", url, HERE, limits, AGENT, token),
        lambda name: call_same_as(HERE, f"http://dbpedia.org/resource/{name}"),
    ),
    "wikipedia": (
        lambda url, limits, token="": Wikipedia(url, HERE, limits, AGENT, token),
        lambda name: call_resolve_title(HERE, name),
    ),
    "pageviews": (
        lambda url, limits, token="": Pageviews(url, HERE, limits, AGENT, token),
        lambda name: call_pageviews(HERE, name, "20250101", "20250103"),
    ),
    "falcon": (
        lambda url, limits, token="": Falcon(url, HERE, limits, AGENT, token),
        lambda name: call_link(HERE, name, 2),
    ),
    "chat": (
        lambda url, limits: Chat(HERE, model(url, limits), lambda: "sk-secret-0123456789", AGENT),
        lambda name: call_chat(HERE, "m", fill_in(PROMPT, name=name)),
    ),
    "anthropic": (
        lambda url, limits: Chat(
            HERE, Model(kind="anthropic", name="m", url=url, limits=limits), lambda: "sk-secret-0123456789", AGENT
        ),
        lambda name: call_chat(HERE, "m", fill_in(PROMPT, name=name), once=True),
    ),
    "perplexity": (
        lambda url, limits: Scorer(HERE, model(url, limits), lambda: "sk-secret-0123456789", AGENT),
        lambda name: call_perplexity(HERE, name),
    ),
}
"""Name → what opens a client for an address, within limits, and what makes a call about something of a name."""
WITH_TOKENS = ("wikidata", "dbpedia", "wikipedia", "pageviews", "falcon")
"""Clients that take a token as well."""
