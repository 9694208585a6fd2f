"""A description for an item that has none: the labels of its classes or occupations, and of its country."""

from collections.abc import Collection, Iterable

from tasks.core.calls.knowledge import Neighbour

_CLASSES = ("P106", "P31", "P279")
_COUNTRIES = ("P27", "P17", "P495")
_IMPLIED = {
    "P50": "written work",
    "P175": "musical work",
    "P170": "creative work",
    "P176": "product",
    "P112": "organization",
    "P159": "organization",
}
"""What an item is that has an author, a performer, a creator, a manufacturer, a founder, a headquarters location."""
DESCRIBING = (*_CLASSES, *_COUNTRIES, *_IMPLIED)
"""Claims that a description is made of, beside those: occupation, instance of, subclass of; citizenship, country, country
of origin. A genre says nothing of what an item is: a song, a band, a festival."""


def make_description(claims: Iterable[Neighbour], person_pids: Collection[str]) -> str:
    """Return a description of an item's claims, `film actor and singer, India`; empty where they name no class.

    A country is named where there is one alone. An item whose class is not said is what its properties imply: a human, as
    only people have some, or one of _IMPLIED.
    """
    edges = [edge for edge in claims if edge.label]
    pids = {edge.pid for edge in edges}
    implied = ["human"] if pids & set(person_pids) else [name for pid, name in _IMPLIED.items() if pid in pids][:1]
    classes = _find_first(edges, _CLASSES) or implied
    countries = _find_first(edges, _COUNTRIES)
    return ", ".join([" and ".join(classes[:2]), *(countries if len(countries) == 1 else ())]) if classes else ""


def _find_first(edges: Iterable[Neighbour], pids: Iterable[str]) -> list[str]:
    """Return the labels of the first of these properties that has any."""
    labels = ([str(edge.label) for edge in edges if edge.pid == pid] for pid in pids)
    return next(filter(None, labels), [])
