"""Falcon 2.0 of the embedded world: links names in a text to items and properties.

The real one is a rule-based linker over an index of labels; so is this, over the world's English labels and aliases.
The longest name at a place wins, letters' case does not matter, and the items that bear it come by number of
statements. Like the real one it gives no offsets and no scores, and it mistakes.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from tasks.text.ids import id_number
from tasks.world.data import WorldData
from tasks.world.rdf import WD, dbpedia_iri

Linked = list[tuple[str, str]]
"""Id and the name as written in the text, in the order of the text."""

_WORD = re.compile(r"[^\W_]+(?:[.'’-][^\W_]+)*", re.UNICODE)


class NameIndex:
    """Who bears a name, by the name's words."""

    def __init__(self, names: Mapping[str, tuple[str, ...]], weights: Mapping[str, int]) -> None:
        """Index id → names; ids of one name are ordered by weight, heaviest first, then by number."""
        found: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for entity, its_names in names.items():
            for name in its_names:
                if words := _key(_words(name)):
                    found[words].add(entity)
        order = {entity: (-weights.get(entity, 0), id_number(entity)) for entity in names}
        self.bearers = {words: sorted(entities, key=order.__getitem__) for words, entities in found.items()}
        self.longest = max((len(words) for words in self.bearers), default=0)

    def find(self, text: str) -> list[tuple[str, list[str]]]:
        """Return the names in a text, left to right, longest first, none overlapping: (as written, ids)."""
        spans = [match.span() for match in _WORD.finditer(text)]
        words = _words(text)
        found, place = [], 0
        while place < len(words):
            for length in range(min(self.longest, len(words) - place), 0, -1):
                entities = self.bearers.get(_key(words[place : place + length]))
                if entities:
                    found.append((text[spans[place][0] : spans[place + length - 1][1]], entities))
                    break
            else:
                length = 1
            place += length
        return found


def make_falcon_routes(data: WorldData) -> APIRouter:
    """Return the linker's route; names are indexed when it is first asked, since most runs never do."""

    @cache
    def indices() -> tuple[NameIndex, NameIndex]:
        items = NameIndex(
            {qid: item.names for qid, item in data.items.items()},
            {qid: len(item.statements) for qid, item in data.items.items()},
        )
        return items, NameIndex({pid: (prop.labels["en"],) for pid, prop in data.properties.items()}, {})

    titles = {qid: item.title for qid, item in data.items.items() if item.title}
    router = APIRouter()

    @router.post("/falcon2/api")
    async def link(request: Request) -> JSONResponse:
        try:
            text = json.loads(await request.body())["text"]
            count = int(request.query_params.get("k", "1"))
        except (ValueError, KeyError, TypeError):
            text, count = None, 0
        mode = request.query_params.get("mode", "long")
        if not isinstance(text, str) or count < 1 or mode not in {"long", "short"}:
            return JSONResponse(
                {"error": 'expected mode=long or short, k of 1 or more and {"text": …}'}, status_code=400
            )
        items, properties = indices()
        linked = [(qid, surface) for surface, qids in items.find(text) for qid in qids[:count]]
        relations = [(pid, surface) for surface, pids in properties.find(text) for pid in pids[:count]]
        return JSONResponse(_link(linked, relations, titles if request.query_params.get("db") == "1" else None))

    return router


def _link(items: Linked, relations: Linked, titles: Mapping[str, str] | None) -> dict[str, list[dict[str, str]]]:
    reply: dict[str, list[dict[str, str]]] = {
        "entities_wikidata": [_entry(WD + qid, surface) for qid, surface in items],
        "relations_wikidata": [_entry(WD + pid, surface) for pid, surface in relations],
    }
    if titles is not None:
        named = [(titles[qid], surface) for qid, surface in items if qid in titles]
        reply["entities_dbpedia"] = [_entry(dbpedia_iri(title), surface) for title, surface in named]
        # the embedded world knows no DBpedia ontology
        reply["relations_dbpedia"] = []
    return reply


def _entry(uri: str, surface: str) -> dict[str, str]:
    return {"URI": uri, "surface form": surface}


def _words(text: str) -> list[str]:
    """Return a text's words, a possessive ending left out."""
    return [match[0].replace("’", "'").removesuffix("'s") for match in _WORD.finditer(text)]


def _key(words: list[str]) -> tuple[str, ...]:
    """Return words as they are compared: case folded, but one short word as written, since `us` is no `US`."""
    if len(words) == 1 and len(words[0]) <= 3:
        return tuple(words)
    return tuple(word.casefold() for word in words)
