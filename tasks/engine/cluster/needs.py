"""What a world's builds may ask of its cluster, in whole."""

from pathlib import Path

from tasks.engine.cluster.wanted import Wanted
from tasks.engine.naming.identities import embedder_identity, perplexity_identity, translator_identity
from tasks.settings import World, graphs_folder


def list_wanted(world: World, home: Path) -> list[Wanted]:
    """Return the models and the graph that a world names and a cluster answers for; UsageError for one that is damaged."""
    from tasks.graph.manifest import read_manifest
    from tasks.models.char_ngrams import CHAR_NGRAMS

    wanted = []
    embedder = embedder_identity(world, home)
    if embedder["name"] != CHAR_NGRAMS:
        wanted.append(Wanted("embedder", embedder["digest"]))
    if "translator" in world.models:
        wanted.append(Wanted("translator", translator_identity(world, home)))
    if "perplexity" in world.models and world.models["perplexity"].kind == "local":
        wanted.append(Wanted("perplexity", perplexity_identity(world, home)))
    if world.wikidata.engine == "graph":
        wanted.append(Wanted("graph", read_manifest(world.wikidata.graph, graphs_folder(home)).digest))
    return wanted
