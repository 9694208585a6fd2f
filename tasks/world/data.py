"""Data model of the embedded world: frozen records for data/world/, and the parser of its statement grammar.

files.py builds these records from the files (data/world/README.md). A time keeps its precision and the year, month and day
as far as they are written. Years are astronomical (1 BCE is 0, 44 BCE is -43), as in Wikidata's RDF. Amounts stay decimal
text, so that no digit is lost. `digest_world_files` is the identity of the world: recorded calls name it, so a response recorded
from another state of the files is never reused for this one.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import yaml

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.core.digests import combine_digests, digest_bytes
from factmill.tasks.errors import EmbeddedWorldError
from factmill.tasks.text.wikidata_ids import is_pid, is_qid

PropertyDataType = Literal["item", "time", "quantity", "string", "external"]
StatementRank = Literal["preferred", "normal", "deprecated"]
TimePrecision = Literal["day", "month", "year", "decade", "century"]
PROPERTY_DATA_TYPES: tuple[PropertyDataType, ...] = ("item", "time", "quantity", "string", "external")

_RANKS: dict[str, StatementRank] = {"preferred": "preferred", "deprecated": "deprecated"}
_TIME_PATTERN = re.compile(
    r"(?:(?P<year>\d{1,4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d))?)?"
    r"|(?P<decade>\d{0,3}0)s"
    r"|(?P<century>\d{1,2})(?:st|nd|rd|th) century)(?P<bce> BCE)?"
)
_QUANTITY_PATTERN = re.compile(r"(?P<amount>[+-]?\d+(?:\.\d+)?)(?: (?P<unit>Q[1-9][0-9]*))?")


@dataclass(frozen=True, slots=True)
class ItemValue:
    """A reference to an item."""

    qid: str


@dataclass(frozen=True, slots=True)
class TimeValue:
    """A point in time with its precision."""

    year: int
    """Astronomical year: 1 BCE is 0. A decade has the year it is named after, a century its first year."""
    month: int
    """1 to 12; 1 if the precision is coarser than a month."""
    day: int
    """1 to 31; 1 if the precision is coarser than a day."""
    precision: TimePrecision

    @property
    def is_julian(self) -> bool:
        """True before 15 October 1582, the first day of the Gregorian calendar."""
        return (self.year, self.month, self.day) < (1582, 10, 15)


@dataclass(frozen=True, slots=True)
class QuantityValue:
    """A number with an optional unit."""

    amount: str
    """Decimal text as written, without a plus sign."""
    unit: str | None
    """QID of the unit; None for a bare number."""


@dataclass(frozen=True, slots=True)
class StringIdOrUrlValue:
    """A string, an external id or a URL."""

    text: str


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value that exists but is unknown."""


StatementValue = ItemValue | TimeValue | QuantityValue | StringIdOrUrlValue | UnknownValue


@dataclass(frozen=True, slots=True)
class StatementTextParts:
    """A statement's text split into parts, its values not parsed yet."""

    value: str
    qualifiers: tuple[tuple[str, str], ...]
    """(PID, value as text), in written order."""
    rank: StatementRank


def split_statement(text: str) -> StatementTextParts:
    """Split `value | PID=value … | rank`; ValueError names the wrong part and what was expected."""
    value, *rest = text.split(" | ")
    qualifiers: list[tuple[str, str]] = []
    ranks: list[StatementRank] = []
    for part in rest:
        pid, equals, qualifier = part.partition("=")
        if part in _RANKS:
            ranks.append(_RANKS[part])
        elif equals and is_pid(pid) and qualifier:
            qualifiers.append((pid, qualifier))
        else:
            raise ValueError(f"{part!r} is not a qualifier; expected PID=value, `preferred` or `deprecated`")
    if len(ranks) > 1:
        raise ValueError(f"{len(ranks)} ranks; expected at most one")
    if not value.strip():
        raise ValueError("no value; expected one before the first ` | `")
    return StatementTextParts(value.strip(), tuple(qualifiers), ranks[0] if ranks else "normal")


def parse_statement_value(text: str, data_type: PropertyDataType) -> StatementValue:
    """Parse a value of a property's data type; ValueError says what was expected."""
    if text == "?":
        return UnknownValue()
    if data_type == "item":
        if not is_qid(text):
            raise ValueError(f"{text!r} is not an item; expected a QID like Q64")
        return ItemValue(text)
    if data_type == "time":
        return parse_date_decade_or_century(text)
    if data_type == "quantity":
        if match := _QUANTITY_PATTERN.fullmatch(text):
            return QuantityValue(match["amount"].removeprefix("+"), match["unit"])
        raise ValueError(f"{text!r} is not a quantity; expected a number, then a unit item or nothing: `1.96 Q11573`")
    return StringIdOrUrlValue(text)


def parse_date_decade_or_century(text: str) -> TimeValue:
    """Parse a date, month, year, decade or century, optionally followed by ` BCE`; ValueError if it is none."""
    match = _TIME_PATTERN.fullmatch(text)
    if not match:
        raise ValueError(
            f"{text!r} is not a time; expected 1879-03-14, 1879-03, 1879, 1870s, 19th century, or those BCE"
        )
    is_bce = match["bce"] is not None
    if match["century"]:
        century = int(match["century"])
        if century < 1:
            raise ValueError(f"{text!r} is not a time: centuries count from 1")
        return TimeValue(1 - 100 * century if is_bce else 100 * century - 99, 1, 1, "century")
    named = int(match["decade"] if match["decade"] else match["year"])
    if named < 1 and not match["decade"]:
        raise ValueError(f"{text!r} is not a time: there is no year 0")
    year = 1 - named if is_bce else named
    if match["decade"]:
        return TimeValue(year, 1, 1, "decade")
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    if not 1 <= month <= 12:
        raise ValueError(f"{text!r} is not a time: months run from 01 to 12")
    time = TimeValue(year, month, day, "day" if match["day"] else "month" if match["month"] else "year")
    days = _count_days_in_month(time)
    if not 1 <= day <= days:
        raise ValueError(f"{text!r} is not a time: that month has {days} days")
    return time


def _count_days_in_month(time: TimeValue) -> int:
    if time.month == 2 and time.is_julian:
        return 29 if time.year % 4 == 0 else 28
    return monthrange(max(time.year, 1), time.month)[1]


WORLD_FOLDER = ASSETS_ROOT / "data" / "world"
WORLD_LABEL_LANGUAGES = ("en", "de", "fr", "it", "es", "pt")
WORLD_ANSWERS_VERSION = "2"
"""Increase it when equal files give other responses, so that recorded responses are not mixed."""


@dataclass(frozen=True, slots=True)
class WikidataProperty:
    """A Wikidata property."""

    pid: str
    data_type: PropertyDataType
    labels: Mapping[str, str]
    """Language → label, for all six languages."""


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A qualifier of a statement."""

    pid: str
    value: StatementValue


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of an item."""

    pid: str
    value: StatementValue
    rank: StatementRank
    qualifiers: tuple[Qualifier, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A Wikidata item."""

    qid: str
    labels: Mapping[str, str]
    """Language → label, for all six languages."""
    description: str | None
    """English description."""
    aliases: tuple[str, ...]
    """English aliases."""
    title: str | None
    """Title of the English article, even if the world lacks the article."""
    statements: tuple[Statement, ...]
    modified: str | None = None
    """Last modification (ISO 8601, UTC); None: a made-up date is used."""

    def list_statements_of(self, pid: str) -> tuple[Statement, ...]:
        """Return the statements of one property, in written order."""
        return tuple(statement for statement in self.statements if statement.pid == pid)

    def iterate_best_statements(self) -> Iterator[Statement]:
        """Yield the best-ranked statements of each property: preferred ones if any, else normal ones."""
        preferred = {s.pid for s in self.statements if s.rank == "preferred"}
        for statement in self.statements:
            if statement.rank == ("preferred" if statement.pid in preferred else "normal"):
                yield statement

    @property
    def names(self) -> tuple[str, ...]:
        """English label and aliases."""
        return (self.labels["en"], *self.aliases)


@dataclass(frozen=True, slots=True)
class WorldArticleRevision:
    """One revision of an article."""

    revid: int
    parent_revid: int
    """Id of the preceding revision; 0 for the first."""
    at: str
    """Time (ISO 8601, UTC), like 2021-04-03T10:15:00Z."""
    comment: str
    text: str
    """HTML as MediaWiki serves it within div.mw-parser-output."""


@dataclass(frozen=True, slots=True)
class WorldArticle:
    """An encyclopedic article with its history; page ids, revision ids and views are made up."""

    title: str
    qid: str | None
    pageid: int
    daily_views: int
    """Mean page views per day, made up."""
    redirects: tuple[str, ...]
    revisions: tuple[WorldArticleRevision, ...]
    """Oldest first, at least one."""
    categories: Mapping[str, str]
    """Category name → sort key; empty: the title is the key."""
    short_description: str | None
    is_disambiguation: bool

    @property
    def newest_html(self) -> str:
        """HTML of the newest revision."""
        return self.revisions[-1].text


@dataclass(frozen=True)
class WorldData:
    """All contents of data/world/."""

    properties: Mapping[str, WikidataProperty]
    """PID → property."""
    items: Mapping[str, Item]
    """QID → item."""
    articles: Mapping[str, WorldArticle]
    """Title → article."""
    categories: Mapping[str, tuple[str, ...]]
    """Category → parent categories, names without the namespace."""
    redirects: Mapping[str, str]
    """Source title → target title, from the articles and categories.yaml; the target may end in #section."""

    @cached_property
    def items_by_title(self) -> Mapping[str, Item]:
        """English article title → item."""
        return {item.title: item for item in self.items.values() if item.title}


def list_world_files(folder: Path = WORLD_FOLDER) -> list[Path]:
    """Return the files of a world in fixed order; data/world/sources/ holds inputs and is not part of it."""
    found = [folder / "properties.yaml", *folder.glob("entities/*.yaml"), folder / "categories.yaml"]
    return sorted([*found, *folder.glob("articles/*.html")], key=lambda path: path.relative_to(folder).as_posix())


def load_world_article_titles(folder: Path = WORLD_FOLDER) -> list[str]:
    """Return the sorted titles of a world's articles; the rest of their files is neither parsed nor checked."""
    titles = []
    for path in folder.glob("articles/*.html"):
        found = re.search(r"^title: .*$", path.read_text("utf-8"), re.MULTILINE)
        if found is None:
            raise EmbeddedWorldError(f"{path}: no line `title: …`; expected one in the front matter")
        titles.append(str(yaml.safe_load(found[0])["title"]))
    return sorted(titles)


def digest_world_files(folder: Path = WORLD_FOLDER) -> str:
    """Return the identity of a world: a digest of the names and bytes of its files."""
    try:
        parts = [f"{p.relative_to(folder).as_posix()} {digest_bytes(p.read_bytes())}" for p in list_world_files(folder)]
    except OSError as error:
        raise EmbeddedWorldError(
            f"{error.filename}: cannot be read: {error.strerror}; the embedded world needs this file"
        ) from error
    return combine_digests([WORLD_ANSWERS_VERSION, *parts])
