"""Generate N-Triples of a synthetic Wikidata for GRANOLA-EQ.

It has people with birthplaces, books with authors, and companies with headquarters.

Each question has its own subject. Cities and authors are shared as in Wikidata: forty questions per city, three books
per author. No item has an article, so a build requests no page views.
"""

import csv
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

LISTS = Path(__file__).resolve().parents[3] / "data" / "lists"
SHARES = {"P19": 0.4, "P50": 0.3, "P159": 0.3}
"""Relation → its share of the questions."""

_ENTITY, _DIRECT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
_LABEL, _DESCRIPTION = "http://www.w3.org/2000/01/rdf-schema#label", "http://schema.org/description"
_CLASSES = {"Q5": "human", "Q515": "city", "Q6256": "country", "Q571": "book", "Q4830453": "business"}
_QUESTIONS_A_CITY, _BOOKS_AN_AUTHOR = 40, 3
_BEGIN = ("Ba", "Ce", "Do", "Fi", "Ga", "Ha", "Jo", "Ka", "Le", "Mi", "Na", "Pe", "Ro", "Sa", "Te", "Vi")
_END = ("lan", "ra", "mir", "nus", "del", "ton", "vik", "rosa", "bert", "gard", "lis", "moor", "field", "wick")
_TRADES = ("painter", "politician", "composer", "physicist", "footballer", "actor")


def make_lines(facts: int, seed: int) -> Iterator[str]:
    """Yield the lines of a graph that supports `facts` questions."""
    draw, numbers, names = random.Random(seed), iter(range(10_000_000, 99_999_999)), _make_names(seed)
    for qid, name in _CLASSES.items():
        yield from _tell(qid, name, "class of things")
    countries = []
    with (LISTS / "countries.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            countries.append((f"Q{next(numbers)}", row["name"]))
            yield from _tell(*countries[-1], "country", P31="Q6256")
    cities = []
    for _ in range(facts // _QUESTIONS_A_CITY + 1):
        country, called = draw.choice(countries)
        cities.append((f"Q{next(numbers)}", called))
        yield from _tell(cities[-1][0], next(names), f"city in {called}", P31="Q515", P17=country)
    for _ in range(round(facts * SHARES["P19"])):
        city, called = draw.choice(cities)
        text = f"{draw.choice(_TRADES)} from {called}"
        yield from _tell(f"Q{next(numbers)}", f"{next(names)} {next(names)}", text, P31="Q5", P19=city)
    books, author = round(facts * SHARES["P50"]), ""
    for number in range(books):
        if number % _BOOKS_AN_AUTHOR == 0:
            author = f"Q{next(numbers)}"
            text = f"writer from {draw.choice(countries)[1]}"
            yield from _tell(author, f"{next(names)} {next(names)}", text, P31="Q5")
        yield from _tell(f"Q{next(numbers)}", f"The {next(names)} Letters", "book", P31="Q571", P50=author)
    for _ in range(facts - books - round(facts * SHARES["P19"])):
        city, called = draw.choice(cities)
        name = f"{next(names)} Works"
        yield from _tell(f"Q{next(numbers)}", name, f"company in {called}", P31="Q4830453", P159=city)


def _make_names(seed: int) -> Iterator[str]:
    """Yield distinct names: first those with two syllables and an ending, then longer ones."""
    ends: list[str] = list(_END)
    while True:
        ends = [f"{end}{last}" for end, last in product(ends, _END)]
        found = [f"{begin}{end}" for begin, end in product(_BEGIN, ends)]
        random.Random(seed).shuffle(found)
        yield from found


def _tell(qid: str, label: str, description: str, **claims: str) -> Iterator[str]:
    item = f"<{_ENTITY}{qid}>"
    yield f'{item} <{_LABEL}> "{label}"@en .\n'
    yield f'{item} <{_DESCRIPTION}> "{description}"@en .\n'
    for pid, value in claims.items():
        yield f"{item} <{_DIRECT}{pid}> <{_ENTITY}{value}> .\n"
