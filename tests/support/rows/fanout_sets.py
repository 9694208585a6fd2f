"""Make sets of invented islands with their articles, for generated fan-out questions."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from factmill.tasks.fanoutqa.core.questions import ArticleEvidence
from factmill.tasks.fanoutqa.core.sets.members import MemberArticle, MemberSet, SetMember
from factmill.tasks.fanoutqa.core.sets.property_values import PropertyValue
from factmill.tasks.fanoutqa.core.sets.set_kinds import (
    SetKind,
    parse_phrases_by_property_and_members,
    parse_set_kinds_csv_by_source_unit,
)
from factmill.tasks.text.values.answer_search import index_text

HARBOUR, PEOPLE, FOUNDED, LENGTH = "P1", "P2", "P3", "P4"
SETS = """relation,listed,owner_classes,member_classes,members,called,group,changes,properties
P9,by owner,,Q9,islands,the island $name,the islands of $place,no,P1|P2|P3|P4
P8,by name,,Q9,islands,the island $name,,no,P1|P2|P3|P4
"""
PROPERTIES = parse_phrases_by_property_and_members(
    """pid,members,kind,moment,question,most,least,above,below
P1,,item,,What is the harbour of $x?,,,,
P2,,quantity,when last counted in $month,What is the population of $x?,are most populous,are least populous,have over $limit,have under $limit
P3,,time,,When was $x settled?,were settled last,were settled first,were settled after $limit,were settled before $limit
P4,,quantity,,How many $unit long is $x?,are the longest,are the shortest,exceed $limit,stay below $limit
"""
)
NAMES = ("Alsen", "Brand", "Corvo", "Dorn", "Eld", "Fenn", "Gorm")
HARBOURS = ("Port Alpha", "Port Beta", "Port Gamma", "Port Delta", "Port Epsilon", "Port Zeta", "Port Eta")


def island_kind(is_named: bool, *properties: str) -> SetKind:
    """Return the kind of island sets, with the properties that questions may ask for."""
    lines = SETS.replace("P1|P2|P3|P4", "|".join(properties)) if properties else SETS
    return parse_set_kinds_csv_by_source_unit(lines)["P8 Q9" if is_named else "P9 Q9"]


def make_article(title: str, text: str, number: int) -> MemberArticle:
    """Return an article, pinned by a number."""
    evidence = ArticleEvidence(title, f"https://en.wikipedia.org/wiki/{title}", number, 10 * number)
    return MemberArticle(evidence, text, index_text(text))


def make_islands(count: int = 7, without: Sequence[str] = ()) -> list[SetMember]:
    """Return islands whose articles state the graph's values, except for the properties in `without`.

    The first has 1,001 people, was settled in 1801 and is 101 miles long; the second has 2,001, 1811 and 102; and so
    on.
    """
    islands = []
    for at, name in enumerate(NAMES[:count]):
        said = {
            HARBOUR: f"Its harbour is {HARBOURS[at]}.",
            PEOPLE: f"It has {at + 1},001 inhabitants.",
            FOUNDED: f"People came in {1801 + 10 * at}.",
            LENGTH: f"It is {101 + at} miles long.",
        }
        text = " ".join([f"{name} is an island.", *(result for pid, result in said.items() if pid not in without)])
        islands.append(make_member(at + 1, name, text, at))
    return islands


def make_member(number: int, name: str, text: str | None, at: int) -> SetMember:
    """Return the island at a place of the row; without text it has no article."""
    values: Mapping[str, tuple[PropertyValue, ...]] = {
        HARBOUR: (PropertyValue(HARBOURS[at], None),),
        PEOPLE: (PropertyValue(1000 * at + 1001, Decimal(1000 * at + 1001)),),
        FOUNDED: (PropertyValue(str(1801 + 10 * at), (1801 + 10 * at, 0, 0)),),
        LENGTH: (PropertyValue(101 + at, Decimal(101 + at), "miles"),),
    }
    article = None if text is None else make_article(name, text, number)
    return SetMember(f"Q{number}", name, article, "" if article else "there is no such page", values)


def make_owner(text: str | None) -> SetMember:
    """Return the sea that the islands belong to."""
    article = None if text is None else make_article("Grey Sea", text, 99)
    return SetMember("Q99", "Grey Sea", article, "" if article else "there is no such page", {})


def make_set(owner: SetMember | None, members: Sequence[SetMember], *properties: str, **changed: Any) -> MemberSet:
    """Return a set of islands."""
    given: dict[str, Any] = {"other_names": (), "month": "May 2020", "min_members": 5, **changed}
    return MemberSet(island_kind(owner is None, *properties), owner, tuple(members), **given)
