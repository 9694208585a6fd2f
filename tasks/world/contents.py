"""Digest what a state of the embedded world says about each thing (core/calls/freshness.py lists the things)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain

from factmill.tasks.core.calls.call import Call, Deliver, Reply
from factmill.tasks.core.calls.freshness import ANSWERS
from factmill.tasks.core.fingerprints import Json, digest_bytes
from factmill.tasks.world.data import ANSWERS_VERSION, LANGUAGES, Item, ItemValue, WorldData, digest_world
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.pageviews import mean_daily_views
from factmill.tasks.world.wiki.pages import Wiki

_DIGITS = 10
_PLACES = ("P131", "P159")
"""Administrative unit and headquarters."""


class WorldContents:
    """Service that answers `world_contents` calls from the world's files."""

    is_outside = True

    def __init__(self, identity: str) -> None:
        self.identity = identity

    def send(self, calls: Sequence[Call], deliver: Deliver) -> None:
        """Answer every call (see core.calls.call.Service)."""
        for call in calls:
            deliver(call, Reply(_digest_last(digest_world())))


class _Told(str):
    """Text that is its own repr: an item's repr, made once and reused wherever the item occurs."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@lru_cache(maxsize=2)
def _digest_last(_digest: str) -> dict[str, Json]:
    return digest_contents(load_world_data())


def digest_contents(data: WorldData) -> dict[str, Json]:
    """Return thing → digest of what a world says about it."""
    things = chain([(ANSWERS, ANSWERS_VERSION)], _list_items(data), _list_pages(data))
    return {thing: digest_bytes(repr(told).encode("utf-8", "surrogatepass"))[:_DIGITS] for thing, told in things}


def _list_items(data: WorldData) -> Iterator[tuple[str, object]]:
    bearers: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    facts: dict[str, list[tuple[str, object]]] = defaultdict(list)
    told = {qid: _Told(repr(item)) for qid, item in data.items.items()}
    for qid, item in data.items.items():
        yield f"item {qid}", told[qid]
        named = {each.value.qid for each in item.statements if isinstance(each.value, ItemValue)}
        yield f"near {qid}", [told[qid], *(told[each] for each in sorted(named) if each in told)]
        for name in dict.fromkeys(item.names):
            bearers[name].append((qid, name == item.labels["en"]))
        for statement in item.best_statements():
            facts[statement.pid].append((qid, statement.value))
    labels = {qid: item.labels for qid, item in data.items.items()}
    labels |= {pid: prop.labels for pid, prop in data.properties.items()}
    yield from ((f"label {name}", [found[language] for language in LANGUAGES]) for name, found in labels.items())
    claims = {qid: _list_claims(item, data) for qid, item in data.items.items()}
    for name, found in bearers.items():
        yield f"name en {name}", sorted(found)
        yield f"about en {name}", [claims[qid] for qid in _find_units(data, [qid for qid, _ in found])]
    yield from ((f"facts {pid}", sorted(found, key=repr)) for pid, found in facts.items())


def _list_claims(item: Item, data: WorldData) -> object:
    """Return an item's QID, description, the items it refers to, and their labels."""
    named = [(each.pid, each.value.qid) for each in item.best_statements() if isinstance(each.value, ItemValue)]
    labels = [data.items[qid].labels["en"] if qid in data.items else None for _, qid in named]
    return [item.qid, item.description, named, labels]


def _find_units(data: WorldData, qids: Sequence[str]) -> list[str]:
    """Return the items and, transitively, the places that they lie in or are seated in."""
    found: set[str] = set()
    todo = list(qids)
    while todo:
        qid = todo.pop()
        if qid not in found and qid in data.items:
            found.add(qid)
            statements = (each for pid in _PLACES for each in data.items[qid].statements_of(pid))
            todo += [each.value.qid for each in statements if isinstance(each.value, ItemValue)]
    return sorted(found)


def _list_pages(data: WorldData) -> Iterator[tuple[str, object]]:
    wiki = Wiki(data)
    for title, page in wiki.by_title.items():
        steps, end = wiki.follow(title)
        last = wiki.by_title.get(end.full) if end else None
        pages = []
        for each in (page, last) if last else (page,):
            revisions = [(revision.revid, revision.at) for revision in each.revisions]
            pages.append([each.title, each.pageid, each.qid, each.is_disambiguation, each.redirect_to, revisions])
        yield f"page {title}", [[(start, to.full) for start, to in steps], end and end.full, pages]
        for revision in page.revisions:
            yield f"text {revision.revid}", [page.title, page.pageid, page.short_description, revision.text]
    members: dict[str, object] = {name: [] for name in data.categories}
    members |= {
        name.partition(":")[2]: [(each.page.pageid, each.page.title, each.kind, each.sort_key) for each in found]
        for name, found in wiki.members.items()
    }
    yield from ((f"category {name}", found) for name, found in members.items())
    for title in sorted({*data.articles, *data.redirects, *data.items_by_title}):
        if title not in wiki.by_title or wiki.follow(title)[1]:  # circular redirects have no views
            yield f"views {title}", mean_daily_views(data, title)
