"""A description for an item that has none: the labels of its classes or occupations, and of its country."""

from collections.abc import Collection, Iterable

from tasks.core.calls.knowledge import Neighbour

_CLASSES = ("P106", "P31", "P279", "P136")
_COUNTRIES = ("P27", "P17", "P495")
DESCRIBING = (*_CLASSES, *_COUNTRIES)
"""Claims that a description is made of: occupation, instance of, subclass of, genre; citizenship, country, country of origin."""


def make_description(claims: Iterable[Neighbour], person_pids: Collection[str]) -> str:
    """Return a description of an item's claims, `film actor and singer, India`; empty where they name no class.

    A country is named where there is one alone. An item with properties that only people have is a human at least.
    """
    edges = [edge for edge in claims if edge.label]
    classes = _find_first(edges, _CLASSES) or ["human"] * any(edge.pid in person_pids for edge in edges)
    countries = _find_first(edges, _COUNTRIES)
    return ", ".join([" and ".join(classes[:2]), *(countries if len(countries) == 1 else ())]) if classes else ""


def _find_first(edges: Iterable[Neighbour], pids: Iterable[str]) -> list[str]:
    """Return the labels of the first of these properties that has any."""
    labels = ([str(edge.label) for edge in edges if edge.pid == pid] for pid in pids)
    return next(filter(None, labels), [])
