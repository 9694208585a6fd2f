"""What a benchmark says of its releases and exports: prose of the card, configs and splits, sources and licences, pages, columns, canary."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from factmill.tasks.core.rows import NONE_STATED, OWN_WORLD
from factmill.tasks.text.wikipedia_addresses import write_article_address

Beside = Mapping[str, tuple[float | str, float | str]]
"""Figure → here, in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardForms:
    """The prose of a card; Markdown."""

    about: str
    """What a row is, and what one measures with it."""
    steps: Mapping[str, str]
    """Stage of the recipe → what it does, in a sentence."""
    limits: tuple[str, ...]
    """What the rows are not, and what to heed when figures are read."""
    beside: Callable[[Mapping[str, Any], int], Beside] = lambda _facts, _rows: {}
    """Facts of a build's report and rows of the main table → figures beside the paper's, where the report has no shape."""
    headline: str = ""
    """Metric of its evaluations that stands for it (`Evaluation.main`)."""
    part_labels: Callable[[], Mapping[str, str]] = dict
    """What parts are called where their names alone say little: PID → label."""
    task: str = "question-answering"
    """As the Hugging Face Hub names tasks."""


CANARY = "canary"
"""Last column of every table that is released."""
REJECT_DETAILS = "details of rejects"
"""What a release lacks where the sentences of its rejects would tell what is withheld."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """The paper that a benchmark is from, for citations."""

    title: str
    authors: tuple[tuple[str, str], ...]
    """Given and family names."""
    year: int
    arxiv: str
    """Its number there."""
    venue: str = ""
    """Where it appeared; empty: on arXiv alone."""

    @property
    def url(self) -> str:
        """Its page."""
        return f"https://arxiv.org/abs/{self.arxiv}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page whose text or facts a row carries."""

    title: str
    revision: str
    """Number of its revision; empty where a row does not say."""
    url: str
    """Address of that revision."""

    @classmethod
    def of_wiki(cls, wiki: str, title: str, revision: str) -> "Page":
        """Return a page of the wiki of a build (`find_wiki`)."""
        return cls(title, revision, write_article_address(wiki, title, int(revision)))


def find_wiki(lock: Mapping[str, Any]) -> str:
    """Return the Wikipedia that a build read, as a world's file names it: its address, or `embedded`."""
    service: str = lock["services"]["wikipedia"]
    return "embedded" if service.startswith("embedded-") else service


def name_wiki(lock: Mapping[str, Any]) -> str:
    """Return the Wikipedia that a build read as the source of texts: by its name, or by its host where it has none."""
    wiki = find_wiki(lock)
    host = urlsplit(wiki).hostname or wiki
    return {"embedded": OWN_WORLD, "en.wikipedia.org": "English Wikipedia"}.get(host, host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """How rows of a side table belong to rows of the main one: those of a row that is left out go with it."""

    column: str
    """Of the side table."""
    to: str = "id"
    """Column of the main table that holds the same, or a list with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigForms:
    """One config: what `load_dataset(DIR, name)` gives, or several of one table."""

    name: str
    """Also that of its folder; with `by` no config has it."""
    title: str
    """A line that says what its rows are."""
    splits: Mapping[str, str]
    """Split → published table. Splits of one config have the columns of all of them, null where theirs lacks one."""
    by: str | None = None
    """Column by whose values the rows fall into configs of their own, which bear the value as name."""
    leads: str = ""
    """The value that comes first, before the others by name."""
    belongs: Belonging | None = None
    """None: to no row, or the main table itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseForms:
    """How a benchmark is released; of these the first config is the default one."""

    card: CardForms
    configs: tuple[ConfigForms, ...]
    canary: str
    """Guid that stands in every file, so that training sets can leave it out; never changed."""
    paper: Paper | None = None
    """The paper that it rebuilds; None: there is none."""
    source: str | None = None
    """Column of the main table that names the source of a row; None: `source_of` says it."""
    source_of: Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str] = lambda _lock, _origin, _row: (
        ""
    )
    """A build's lock, where its inputs were found, and a row of the main table → the row's source."""
    licence: str | None = None
    """Column of the main table with the licence of the source (SPDX ids, joined by AND); None: `licence_of` says it."""
    licence_of: Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str] = lambda _lock, _origin, _row: (
        NONE_STATED
    )
    """The same → the row's licence, where no column has it."""
    pages: Callable[[Mapping[str, Any], str], Iterable[Page]] = lambda _row, _wiki: ()
    """Row of `pages_table` and the wiki of its build (`find_wiki`) → the pages that it carries text or facts of."""
    pages_table: str = ""
    """Empty: the main table."""
    has_facts: bool = True
    """Rows carry facts, labels or descriptions of Wikidata."""
    answered: str = ""
    """Split of the default config whose answers are never held out; empty: all of them."""
    languages: tuple[str, ...] = ("en",)
    """BCP 47."""

    @property
    def canary_line(self) -> str:
        """The text that is written: the last column of tables, a line of other files."""
        return f"Benchmark data, to be kept out of training corpora. factmill canary GUID {self.canary}"


@dataclass(frozen=True, slots=True)
class ExportForms:
    """What a benchmark's tables need."""

    spread: Mapping[str, str] = field(default_factory=dict)
    """List column that a CSV spreads into numbered columns → beginning of their names."""
    separators: Mapping[str, str] = field(default_factory=dict)
    """List column → what stands between its entries in a CSV, where that is not <SEP>."""
    csv_id: str | None = None
    """Column that a CSV has as `id`, where the paper's ids are not ours."""
    json_columns: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Table → columns that hold JSON, which JSON Lines write as what they say."""
    arrays: tuple[str, ...] = ()
    """Tables that are also written as one JSON array."""
