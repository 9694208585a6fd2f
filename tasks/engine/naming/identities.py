"""Identities of a world's services and models, as used in manifests and recorded calls; and maximum ages of their replies.

Identities are determined without opening services, so a build whose calls are all recorded starts no server and no client.
Services of the embedded world are identified by the world's content, never by their port.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal

from factmill.tasks.core.calls.translation_and_perplexity import make_model_service_identity
from factmill.tasks.core.service_settings import EMBEDDED_SERVICE, ModelSettings
from factmill.tasks.errors import SettingsError, UsageError
from factmill.tasks.settings import World, graphs_folder
from factmill.tasks.text.durations import parse_validated_duration


@cache
def embedded_world_identity() -> str:
    """Return the identity of the embedded world: a digest of its files."""
    from factmill.tasks.world.data import digest_world_files

    return f"embedded-{digest_world_files()[:16]}"


def wikidata_identity(world: World, home: Path) -> str:
    """Return the identity of a world's Wikidata; SettingsError if the world names none."""
    world.require_services("wikidata")
    if world.wikidata.engine == "graph":
        from factmill.tasks.graph.lookup import open_graph

        with open_graph(world.wikidata.graph, graphs_folder(home)) as graph:
            return graph.identity
    return make_service_identity("wikidata", world.wikidata.url)


def check_graph_languages(world: World, home: Path, languages: Sequence[str]) -> None:
    """Raise UsageError if a world's Wikidata is a local graph without labels in one of these languages."""
    if world.wikidata.engine == "graph":
        from factmill.tasks.graph.lookup import open_graph

        with open_graph(world.wikidata.graph, graphs_folder(home)) as graph:
            if problem := next(filter(None, map(graph.find_language_problem, languages)), None):
                raise UsageError(
                    f"{problem}: load it again with {' '.join(f'--language {tag}' for tag in languages)}, or use --label-source translated"
                )


def embedder_name(world: World, home: Path) -> str:
    """Return the name of a world's sentence encoder: the one it names, or by default the paper's if available."""
    from factmill.tasks.models.embedders import choose_minilm_or_ngram_embedder

    settings = world.models.get("embedder")
    return settings.name if settings else choose_minilm_or_ngram_embedder(home)


def embedder_name_and_digest(world: World, home: Path) -> dict[str, str]:
    """Return name and digest of a world's sentence encoder."""
    from factmill.tasks.models.embedders import get_embedder_digest

    name = embedder_name(world, home)
    return {"name": name, "digest": get_embedder_digest(name, home)}


_MISSING_MODELS = {
    "translator": 'translator; add [models.translator] with kind = "local" and the name of a model from `factmill models`, or '
    "build in English only with --languages eng",
    "perplexity": 'language model that computes perplexity; add [models.perplexity] to its file: kind = "local" and the name of a '
    'model from `factmill models`, or kind = "openai" with a server that returns log-probabilities of prompts',
}
"""Role → what a world without such a model has not, and what to do."""


def get_model_settings(world: World, role: Literal["translator", "perplexity"]) -> ModelSettings:
    """Return the settings of a world's translator or perplexity model; SettingsError if it names none."""
    if settings := world.models.get(role):
        return settings
    raise SettingsError(f"the world {world.name} has no {_MISSING_MODELS[role]}")


def translator_identity(world: World, home: Path) -> str:
    """Return the identity of a world's translator."""
    from factmill.tasks.models.translator import get_translator_identity

    settings = get_model_settings(world, "translator")
    return get_translator_identity(settings.name, home, world.compute.device, settings.compute_type)


def perplexity_identity(world: World, home: Path) -> str:
    """Return the identity of a world's perplexity model."""
    from factmill.tasks.models.perplexity import get_language_model_identity

    settings = get_model_settings(world, "perplexity")
    if settings.kind == "openai":
        return make_model_service_identity(settings.url, settings.name)
    return get_language_model_identity(settings.name, home, world.compute.device, settings.compute_type)


def service_identities(world: World, home: Path) -> dict[str, str]:
    """Return service → identity, for each service that a world names, as used in manifests."""
    urls = {name: url for name, url in service_urls(world).items() if name != "wikidata" and url}
    wikidata = {"wikidata": wikidata_identity(world, home)} if world.has_service("wikidata") else {}
    file = {"wikipedia": world.open_wikipedia_file().identity} if world.is_local("wikipedia") else {}
    return wikidata | {name: make_service_identity(name, url) for name, url in urls.items()} | file


def service_urls(world: World) -> dict[str, str]:
    """Return service → URL for each service of a world."""
    return {name: getattr(world, name).url for name in ("wikidata", "wikipedia", "pageviews", "falcon", "dbpedia")}


def make_service_identity(name: str, url: str) -> str:
    """Return the identity of a service: its URL, or the embedded world's own."""
    return f"{embedded_world_identity()}/{name}" if url == "embedded" else url


def resolve_reply_max_ages_by_identity(world: World, requested_max_age: str | None) -> dict[str, float]:
    """Return identity → seconds until a recorded reply expires, for each service and model whose replies expire.

    `requested_max_age`: age for all services except models; overrides the world file. Replies of services identified by content
    never expire: the embedded world, local graphs and models on this machine.
    """
    ages: dict[str, float] = {}
    for name, url in service_urls(world).items():
        age = requested_max_age or getattr(world, name).max_age
        is_graph = name == "wikidata" and world.wikidata.engine == "graph"
        if url and url != EMBEDDED_SERVICE and age and not is_graph:
            ages[url] = min(parse_validated_duration(age), ages.get(url, math.inf))
    for model in world.models.values():
        if model.max_age:
            ages |= dict.fromkeys(
                (model.url, make_model_service_identity(model.url, model.name)), parse_validated_duration(model.max_age)
            )
    return ages


def compute_oldest_valid_reply_times(max_ages: Mapping[str, float], now: datetime) -> dict[str, datetime]:
    """Return service → earliest time of a valid reply, from maximum ages in seconds."""
    return {service: datetime.fromtimestamp(max(now.timestamp() - age, 0), UTC) for service, age in max_ages.items()}
