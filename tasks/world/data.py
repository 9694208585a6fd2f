"""The embedded world as data: what data/world/ says, read into frozen records.

reading.py makes these records from the files. `digest_world` is the identity of the world: recorded calls name it,
so an answer recorded from another state of the files is never taken for this one's.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from tasks.assets import ROOT
from tasks.core.fingerprints import combine_digests, digest_bytes
from tasks.errors import WorldError
from tasks.world.files.values import DataType, Rank, Value

WORLD_FOLDER = ROOT / "data" / "world"
LANGUAGES = ("en", "de", "fr", "it", "es", "pt")
ANSWERS_VERSION = "2"
"""Raised when the same files come to be answered differently, so that recorded answers are not mixed."""


@dataclass(frozen=True, slots=True)
class Property:
    """One property."""

    pid: str
    data_type: DataType
    labels: Mapping[str, str]
    """Language → label, for all six languages."""


@dataclass(frozen=True, slots=True)
class Qualifier:
    """One qualifier of a statement."""

    pid: str
    value: Value


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of an item."""

    pid: str
    value: Value
    rank: Rank
    qualifiers: tuple[Qualifier, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One item."""

    qid: str
    labels: Mapping[str, str]
    """Language → label, for all six languages."""
    description: str | None
    """English description."""
    aliases: tuple[str, ...]
    """English aliases."""
    title: str | None
    """Title of the English article, there or not among ours."""
    statements: tuple[Statement, ...]
    modified: str | None = None
    """When it was last changed (ISO 8601, UTC); None: that is made up."""

    def statements_of(self, pid: str) -> tuple[Statement, ...]:
        """Return the statements of one property, in the order written."""
        return tuple(statement for statement in self.statements if statement.pid == pid)

    def best_statements(self) -> Iterator[Statement]:
        """Yield the statements of the best rank of their property: preferred ones if any, else normal ones."""
        preferred = {s.pid for s in self.statements if s.rank == "preferred"}
        for statement in self.statements:
            if statement.rank == ("preferred" if statement.pid in preferred else "normal"):
                yield statement

    @property
    def names(self) -> tuple[str, ...]:
        """English label and aliases."""
        return (self.labels["en"], *self.aliases)


@dataclass(frozen=True, slots=True)
class Revision:
    """One state of an article."""

    revid: int
    parent_revid: int
    """Revision before it; 0 for the first."""
    at: str
    """ISO 8601 in UTC, like 2021-04-03T10:15:00Z."""
    comment: str
    text: str
    """HTML as MediaWiki serves it within div.mw-parser-output."""


@dataclass(frozen=True, slots=True)
class Article:
    """One encyclopedic article with its history; page ids, revision ids and views are made up."""

    title: str
    qid: str | None
    pageid: int
    daily_views: int
    """Made-up mean of page views a day."""
    redirects: tuple[str, ...]
    revisions: tuple[Revision, ...]
    """Oldest first, at least one."""
    categories: Mapping[str, str]
    """Name → key to sort by; empty where the title is the key."""
    short_description: str | None
    is_disambiguation: bool

    @property
    def text(self) -> str:
        """HTML of the newest revision."""
        return self.revisions[-1].text


@dataclass(frozen=True)
class WorldData:
    """Everything data/world/ says."""

    properties: Mapping[str, Property]
    """PID → property."""
    items: Mapping[str, Item]
    """QID → item."""
    articles: Mapping[str, Article]
    """Title → article."""
    categories: Mapping[str, tuple[str, ...]]
    """Category → parent categories, names without the namespace."""
    redirects: Mapping[str, str]
    """Source title → target title, from the articles and categories.yaml together; the target may end in #section."""

    @cached_property
    def items_by_title(self) -> Mapping[str, Item]:
        """English article title → item."""
        return {item.title: item for item in self.items.values() if item.title}


def world_files(folder: Path = WORLD_FOLDER) -> list[Path]:
    """Return the files a world is read from, in fixed order; data/world/sources/ holds inputs and is no part of it."""
    found = [folder / "properties.yaml", *folder.glob("entities/*.yaml"), folder / "categories.yaml"]
    return sorted([*found, *folder.glob("articles/*.html")], key=lambda path: path.relative_to(folder).as_posix())


def list_article_titles(folder: Path = WORLD_FOLDER) -> list[str]:
    """Return the titles of a world's articles, sorted; only these are read of the files, and the rest is left unchecked."""
    titles = []
    for path in folder.glob("articles/*.html"):
        found = re.search(r"^title: .*$", path.read_text("utf-8"), re.MULTILINE)
        if found is None:
            raise WorldError(f"{path}: no line `title: …`; expected one in the front matter")
        titles.append(str(yaml.safe_load(found[0])["title"]))
    return sorted(titles)


def digest_world(folder: Path = WORLD_FOLDER) -> str:
    """Return the identity of a world: a digest over names and bytes of its files."""
    try:
        parts = [f"{p.relative_to(folder).as_posix()} {digest_bytes(p.read_bytes())}" for p in world_files(folder)]
    except OSError as error:
        raise WorldError(f"{error.filename}: cannot be read: {error.strerror}; the world needs it") from error
    return combine_digests([ANSWERS_VERSION, *parts])
