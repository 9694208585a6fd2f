"""Specification of a benchmark's releases and exports: card, configs, splits, sources, licences, pages, canary."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from factmill.tasks.core.calls.wikipedia import FILE_IDENTITY_PREFIX
from factmill.tasks.core.rows import EMBEDDED_WORLD_SOURCE, NO_LICENCE_STATED
from factmill.tasks.core.service_settings import ENGLISH_WIKIPEDIA_URL
from factmill.tasks.text.wikipedia_urls import format_article_url

PaperComparisons = Mapping[str, tuple[float | str, float | str]]
"""Figure → (value here, value in the paper)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetCardSpec:
    """Text of a dataset card, in Markdown."""

    about: str
    """Content and purpose of a row."""
    about_user_source: str = ""
    """The same for rows from a source of the user's own, where `about` is not true of them; empty: `about`."""
    steps: Mapping[str, str]
    """Stage of the recipe → description, one sentence."""
    limits: tuple[str, ...]
    """Limitations of the rows, and cautions about figures."""
    compare_with_paper: Callable[[Mapping[str, Any], int], PaperComparisons] = lambda _facts, _rows: {}
    """Facts of a build's report and number of rows of the main table → figures with those of the paper, if the report does not
    have them in that form."""
    headline_metric: str = ""
    """Main metric of its evaluations (`Evaluation.main_metric`)."""
    part_labels: Callable[[], Mapping[str, str]] = dict
    """Labels of parts with cryptic names: PID → label."""
    hub_task: str = "question-answering"
    """Task name on the Hugging Face Hub."""
    hub_task_ids: tuple[str, ...] = ("open-domain-qa",)
    """Its subtasks there."""
    hub_sources: Mapping[str, str] = field(default_factory=dict)
    """Source of rows from files → what the Hub calls it (`original`, `extended|…`); others are `extended`."""
    personal_information: str = ""
    """What the rows say about people; empty: nothing is stated."""


PERSONAL_INFORMATION_OF_WIKIDATA = (
    "Questions and answers name real people, some of them living, with facts that Wikidata publishes: birth, death, family, "
    "education, occupation, residence."
)
PERSONAL_INFORMATION_OF_WIKIPEDIA = (
    "Questions and answers name real people, some of them living, with what articles of Wikipedia say of them."
)
CANARY_COLUMN = "canary"
"""Last column of every released table."""
REJECT_DETAILS_OMISSION = "details of rejects"
"""Part left out of a release if the details of its rejects would reveal withheld rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCitation:
    """The paper of a benchmark, for citations."""

    title: str
    authors: tuple[tuple[str, str], ...]
    """Given and family names."""
    year: int
    arxiv: str
    """Its arXiv number."""
    venue: str = ""
    """Place of publication; empty: arXiv only."""

    @property
    def url(self) -> str:
        """Address of its arXiv page."""
        return f"https://arxiv.org/abs/{self.arxiv}"


@dataclass(frozen=True, slots=True)
class SourceArticleRevision:
    """A page whose text or facts a row contains."""

    title: str
    revision: str
    """Number of its revision; empty if the row lacks it."""
    url: str
    """Address of that revision."""

    @classmethod
    def from_wiki(cls, wiki: str, title: str, revision: str) -> "SourceArticleRevision":
        """Make a page of a build's wiki (`get_wikipedia_url_or_embedded_marker`)."""
        return cls(title, revision, format_article_url(wiki, title, int(revision)))


def get_wikipedia_url_or_embedded_marker(manifest: Mapping[str, Any]) -> str:
    """Return the Wikipedia of a build from its manifest: its address, or `embedded`; a file's is the English Wikipedia.

    Empty if the build's world has none.
    """
    service: str = manifest["services"].get("wikipedia", "")
    if service.startswith(FILE_IDENTITY_PREFIX):
        return ENGLISH_WIKIPEDIA_URL
    return "embedded" if service.startswith("embedded-") else service


def format_wikipedia_name(manifest: Mapping[str, Any]) -> str:
    """Format the Wikipedia of a build as a source of texts: its name, or its host if it has none."""
    wiki = get_wikipedia_url_or_embedded_marker(manifest)
    host = urlsplit(wiki).hostname or wiki
    name = {"embedded": EMBEDDED_WORLD_SOURCE, "en.wikipedia.org": "English Wikipedia"}.get(host, host)
    service: str = manifest["services"].get("wikipedia", "")
    return f"{name}, file {service}" if service.startswith(FILE_IDENTITY_PREFIX) else name


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentRowLink:
    """Link from rows of a companion table to rows of the main one: if a main row is left out, so are its companion rows."""

    column: str
    """Column of the companion table."""
    parent_column: str = "id"
    """Column of the main table with the same value, or with a list that contains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetConfigSpec:
    """One config of `load_dataset(DIR, name)`, or several made from one table."""

    name: str
    """Name of the config and its folder; with `config_column`, of the config that unites all of them, which has no folder."""
    title: str
    """One line that describes its rows."""
    splits: Mapping[str, str]
    """Split → published table. All splits of a config have the union of their columns, null where a table lacks one."""
    config_column: str | None = None
    """Column whose values split the rows into separate configs, named by the value."""
    first_value: str = ""
    """Value that comes first, before the others by name."""
    parent_link: ParentRowLink | None = None
    """Link to the main table; None: no link, or the main table itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkReleaseSpec:
    """How a benchmark is released; the first config is the default one."""

    card: DatasetCardSpec
    configs: tuple[DatasetConfigSpec, ...]
    canary: str
    """GUID in every file, by which training sets can exclude it; never changed."""
    paper: PaperCitation | None = None
    """The paper that it rebuilds; None: there is none."""
    source_column: str | None = None
    """Column of the main table with the source of a row; None: `get_source` gives it."""
    get_source: Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str] = lambda _lock, _origin, _row: (
        ""
    )
    """A build's manifest, the origin of its inputs, and a row of the main table → the row's source."""
    licence_column: str | None = None
    """Column of the main table with the licence of the source (SPDX ids, joined by AND); None: `get_known_or_make_refused_licence` gives it."""
    get_licence: Callable[[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]], str] = (
        lambda _lock, _origin, _row: NO_LICENCE_STATED
    )
    """The same arguments → the row's licence, if no column has it."""
    list_pages: Callable[[Mapping[str, Any], str], Iterable[SourceArticleRevision]] = lambda _row, _wiki: ()
    """Row of `pages_table` and the wiki of its build (`get_wikipedia_url_or_embedded_marker`) → the pages whose text or facts it contains."""
    pages_table: str = ""
    """Table whose rows `list_pages` takes; empty: the main table."""
    has_facts: bool = True
    """Rows contain facts, labels or descriptions of Wikidata."""
    own_list: str = ""
    """What a table of the user's own gives to rows whose texts are another source's (`topics`); empty: it gives the texts."""
    never_held_out_split: str = ""
    """Split of the default config whose answers are never held out; empty: all of them."""
    languages: tuple[str, ...] = ("en",)
    """BCP 47 codes."""
    language_values: Mapping[str, str] = field(default_factory=dict)
    """Value of the first config's `config_column` → its BCP 47 code, where that column is the rows' language."""

    @property
    def canary_line(self) -> str:
        """Canary text: the last column of tables, a line of other files."""
        return f"Benchmark data, to be kept out of training corpora. factmill canary GUID {self.canary}"


@dataclass(frozen=True, slots=True)
class BenchmarkExportFormat:
    """How a benchmark's tables are exported."""

    spread_columns: Mapping[str, str] = field(default_factory=dict)
    """List column that a CSV spreads into numbered columns → prefix of their names."""
    separators: Mapping[str, str] = field(default_factory=dict)
    """List column → separator of its entries in a CSV, if it is not <SEP>."""
    csv_id_column: str | None = None
    """Column that becomes `id` in a CSV, if the paper's ids are not ours."""
    json_columns: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Table → columns of JSON text, which JSON Lines contain as JSON values."""
    json_array_tables: tuple[str, ...] = ()
    """Tables that are also written as one JSON array."""
