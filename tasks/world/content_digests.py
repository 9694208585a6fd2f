"""Digest what a state of the embedded world says about each thing (core/calls/freshness.py lists the things)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain

from factmill.tasks.core.calls.call import Call, CallResponse, ResponseHandler
from factmill.tasks.core.calls.freshness import ANSWERS_CONTENT
from factmill.tasks.core.digests import JsonValue, digest_bytes
from factmill.tasks.world.data import (
    WORLD_ANSWERS_VERSION,
    WORLD_LABEL_LANGUAGES,
    Item,
    ItemValue,
    WorldData,
    digest_world_files,
)
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.pageviews import find_made_up_mean_daily_views
from factmill.tasks.world.wiki.pages import WorldWikiPageIndex

_DIGEST_CHARACTERS = 10
_PLACE_PROPERTIES = ("P131", "P159")
"""Administrative unit and headquarters."""


class WorldContentDigestsService:
    """Service that answers `world_contents` calls from the world's files."""

    is_outside = True

    def __init__(self, identity: str) -> None:
        self.identity = identity

    def send(self, calls: Sequence[Call], deliver: ResponseHandler) -> None:
        """Answer every call (see core.calls.call.Service)."""
        for call in calls:
            deliver(call, CallResponse(_compute_world_content_digests_cached(digest_world_files())))


class _RawReprText(str):
    """Text that is its own repr: an item's repr, made once and reused wherever the item occurs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@lru_cache(maxsize=2)
def _compute_world_content_digests_cached(_digest: str) -> dict[str, JsonValue]:
    return digest_world_contents_by_dependency(load_world_data())


def digest_world_contents_by_dependency(data: WorldData) -> dict[str, JsonValue]:
    """Return thing → digest of what a world says about it."""
    things = chain(
        [(ANSWERS_CONTENT, WORLD_ANSWERS_VERSION)], _iterate_wikidata_contents(data), _iterate_wikipedia_contents(data)
    )
    return {
        thing: digest_bytes(repr(content).encode("utf-8", "surrogatepass"))[:_DIGEST_CHARACTERS]
        for thing, content in things
    }


def _iterate_wikidata_contents(data: WorldData) -> Iterator[tuple[str, object]]:
    bearers: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    facts: dict[str, list[tuple[str, object]]] = defaultdict(list)
    item_texts = {qid: _RawReprText(repr(item)) for qid, item in data.items.items()}
    for qid, item in data.items.items():
        yield f"item {qid}", item_texts[qid]
        named = {each.value.qid for each in item.statements if isinstance(each.value, ItemValue)}
        yield f"near {qid}", [item_texts[qid], *(item_texts[each] for each in sorted(named) if each in item_texts)]
        for name in dict.fromkeys(item.names):
            bearers[name].append((qid, name == item.labels["en"]))
        for statement in item.iterate_best_statements():
            facts[statement.pid].append((qid, statement.value))
    labels = {qid: item.labels for qid, item in data.items.items()}
    labels |= {pid: prop.labels for pid, prop in data.properties.items()}
    yield from (
        (f"label {name}", [found[language] for language in WORLD_LABEL_LANGUAGES]) for name, found in labels.items()
    )
    claims = {qid: _summarise_item_and_linked_items(item, data) for qid, item in data.items.items()}
    for name, found in bearers.items():
        yield f"name en {name}", sorted(found)
        yield (
            f"about en {name}",
            [claims[qid] for qid in _list_items_and_enclosing_places(data, [qid for qid, _ in found])],
        )
    yield from ((f"facts {pid}", sorted(found, key=repr)) for pid, found in facts.items())


def _summarise_item_and_linked_items(item: Item, data: WorldData) -> object:
    """Return an item's QID, description, the items it refers to, and their labels."""
    named = [(each.pid, each.value.qid) for each in item.iterate_best_statements() if isinstance(each.value, ItemValue)]
    labels = [data.items[qid].labels["en"] if qid in data.items else None for _, qid in named]
    return [item.qid, item.description, named, labels]


def _list_items_and_enclosing_places(data: WorldData, qids: Sequence[str]) -> list[str]:
    """Return the items and, transitively, the places that they lie in or are seated in."""
    found: set[str] = set()
    todo = list(qids)
    while todo:
        qid = todo.pop()
        if qid not in found and qid in data.items:
            found.add(qid)
            statements = (each for pid in _PLACE_PROPERTIES for each in data.items[qid].list_statements_of(pid))
            todo += [each.value.qid for each in statements if isinstance(each.value, ItemValue)]
    return sorted(found)


def _iterate_wikipedia_contents(data: WorldData) -> Iterator[tuple[str, object]]:
    wiki = WorldWikiPageIndex(data)
    for title, page in wiki.by_title.items():
        steps, end = wiki.follow_redirects(title)
        last = wiki.by_title.get(end.full_title) if end else None
        pages = []
        for each in (page, last) if last else (page,):
            revisions = [(revision.revid, revision.at) for revision in each.revisions]
            pages.append([each.title, each.pageid, each.qid, each.is_disambiguation, each.redirect_to, revisions])
        yield f"page {title}", [[(start, to.full_title) for start, to in steps], end and end.full_title, pages]
        for revision in page.revisions:
            yield f"text {revision.revid}", [page.title, page.pageid, page.short_description, revision.text]
    members: dict[str, object] = {name: [] for name in data.categories}
    members |= {
        name.partition(":")[2]: [(each.page.pageid, each.page.title, each.kind, each.sort_key) for each in found]
        for name, found in wiki.members_by_category.items()
    }
    yield from ((f"category {name}", found) for name, found in members.items())
    for title in sorted({*data.articles, *data.redirects, *data.items_by_title}):
        if title not in wiki.by_title or wiki.follow_redirects(title)[1]:  # circular redirects have no views
            yield f"views {title}", find_made_up_mean_daily_views(data, title)
