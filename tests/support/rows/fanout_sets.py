"""Sets of invented islands with their articles, for tests of generated fan-out questions."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from factmill.tasks.fanoutqa.core.questions import Evidence
from factmill.tasks.fanoutqa.core.sets.lists import SetKind, read_fanout_properties, read_fanout_sets
from factmill.tasks.fanoutqa.core.sets.members import Article, Member, MemberSet
from factmill.tasks.fanoutqa.core.sets.values import Value
from factmill.tasks.text.values.answers import read_known_text

HARBOUR, PEOPLE, FOUNDED, LENGTH = "P1", "P2", "P3", "P4"
SETS = """relation,listed,owner_classes,member_classes,members,called,group,changes,properties
P9,by owner,,Q9,islands,the island $name,the islands of $place,no,P1|P2|P3|P4
P8,by name,,Q9,islands,the island $name,,no,P1|P2|P3|P4
"""
PROPERTIES = read_fanout_properties(
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
    """Return the kind of sets of islands, of which these properties may be asked."""
    lines = SETS.replace("P1|P2|P3|P4", "|".join(properties)) if properties else SETS
    return read_fanout_sets(lines)["P8 Q9" if is_named else "P9 Q9"]


def make_article(title: str, text: str, number: int) -> Article:
    """Return an article, pinned by a number."""
    evidence = Evidence(title, f"https://en.wikipedia.org/wiki/{title}", number, 10 * number)
    return Article(evidence, text, read_known_text(text))


def make_islands(count: int = 7, without: Sequence[str] = ()) -> list[Member]:
    """Return islands whose articles say what the graph tells, but for those properties of `without`.

    The first has 1,001 people, was settled in 1801 and is 101 miles long; the second has 2,001, 1811 and 102; and so on.
    """
    islands = []
    for at, name in enumerate(NAMES[:count]):
        said = {
            HARBOUR: f"Its harbour is {HARBOURS[at]}.",
            PEOPLE: f"It has {at + 1},001 inhabitants.",
            FOUNDED: f"People came in {1801 + 10 * at}.",
            LENGTH: f"It is {101 + at} miles long.",
        }
        text = " ".join([f"{name} is an island.", *(told for pid, told in said.items() if pid not in without)])
        islands.append(make_member(at + 1, name, text, at))
    return islands


def make_member(number: int, name: str, text: str | None, at: int) -> Member:
    """Return the island of a place in the row; no text: it has no article."""
    values: Mapping[str, tuple[Value, ...]] = {
        HARBOUR: (Value(HARBOURS[at], None),),
        PEOPLE: (Value(1000 * at + 1001, Decimal(1000 * at + 1001)),),
        FOUNDED: (Value(str(1801 + 10 * at), (1801 + 10 * at, 0, 0)),),
        LENGTH: (Value(101 + at, Decimal(101 + at), "miles"),),
    }
    article = None if text is None else make_article(name, text, number)
    return Member(f"Q{number}", name, article, "" if article else "there is no such page", values)


def make_owner(text: str | None) -> Member:
    """Return the sea whose islands they are."""
    article = None if text is None else make_article("Grey Sea", text, 99)
    return Member("Q99", "Grey Sea", article, "" if article else "there is no such page", {})


def make_set(owner: Member | None, members: Sequence[Member], *properties: str, **changed: Any) -> MemberSet:
    """Return a set of islands."""
    given: dict[str, Any] = {"others": (), "month": "May 2020", "least": 5, **changed}
    return MemberSet(island_kind(owner is None, *properties), owner, tuple(members), **given)
