"""Models of release.json and lock.json in a released folder: validated, since anybody may write these files."""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from factmill.tasks.core.rows import StrictModel

RELEASE_FORMAT_VERSION: Literal[2] = 2
"""Format version of a release's folder; a reader refuses unknown versions."""

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RowCount = Annotated[int, Field(ge=0, le=2**40)]


class ReleasedSplitFile(StrictModel):
    """A file with the rows of a split."""

    path: str
    format: Literal["parquet", "jsonl", "csv"]
    size: RowCount
    sha256: Sha256


class ReleasedSplit(StrictModel):
    """A split of a config: rows of one published table."""

    name: str
    table: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    columns: Annotated[list[str], Field(min_length=1)]
    rows: RowCount
    files: list[ReleasedSplitFile]


class ReleasedConfig(StrictModel):
    """A config, with its splits."""

    name: str
    title: str
    splits: list[ReleasedSplit]


class ReleasedTable(StrictModel):
    """A published table of the build, restricted to the rows in the release."""

    rows: RowCount
    sha256: Sha256
    """SHA-256 of the rows, sorted by id (`digest_table_as_parquet`)."""


class LeftOutRows(StrictModel):
    """Rows of the build that the release leaves out."""

    what: str
    why: str
    rows: RowCount


class ReleaseContents(StrictModel):
    """Contents of release.json."""

    factmill_release: Literal[2]
    notice: str
    build_id: str
    benchmark: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    published_at: AwareDatetime
    content_digest: Sha256
    """Digest of the whole build."""
    rows: RowCount
    canary: str
    tables: dict[str, ReleasedTable]
    """For a complete release: all tables of the build, including the review queue, whose rows are in decisions.csv."""
    configs: Annotated[list[ReleasedConfig], Field(min_length=1)]
    left_out: list[LeftOutRows]
    allowed_licences: list[str]

    @property
    def splits(self) -> list[ReleasedSplit]:
        """The splits of all configs."""
        return [split for config in self.configs for split in config.splits]


class _ExtraFieldsAllowedModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class _ManifestLocalModelIdentity(_ExtraFieldsAllowedModel):
    name: str
    digest: str


class _ManifestReviewDecision(_ExtraFieldsAllowedModel):
    id: str
    row_id: str


class _ManifestReview(_ExtraFieldsAllowedModel):
    policy: str
    decisions: list[_ManifestReviewDecision] = []


class _ManifestParams(_ExtraFieldsAllowedModel):
    params: dict[str, Any]
    reviewing: _ManifestReview | None = None
    units: list[str] | None = None
    embedder: _ManifestLocalModelIdentity | str | None = None
    translator: _ManifestLocalModelIdentity | str | None = None
    perplexity: _ManifestLocalModelIdentity | str | None = None


class _ManifestWorld(_ExtraFieldsAllowedModel):
    name: str
    digest: str
    epoch: str


class _ManifestServices(_ExtraFieldsAllowedModel):
    __pydantic_extra__: dict[str, str]
    wikidata: str
    wikipedia: str


class _ManifestSources(_ExtraFieldsAllowedModel):
    files: dict[str, list[tuple[str, str]]]
    wikidata: str | None


class _ReleasedLockFileManifest(_ExtraFieldsAllowedModel):
    """Fields of a manifest (made by engine/naming/manifests.py) that comparisons, cards and evaluations read."""

    benchmark: str
    code: str | dict[str, Any]
    version: str = ""
    world: _ManifestWorld
    services: _ManifestServices
    models: dict[str, str]
    author: str
    scripted: dict[str, str] | None = None
    rules: str | None = None
    """In releases by older versions, whose rows may have been written by rules."""
    sources: _ManifestSources
    prompts: dict[str, str]
    lists: dict[str, str]
    queries: dict[str, str]
    params: _ManifestParams


class ReleasedBuildLockContents(StrictModel):
    """Contents of lock.json."""

    notice: str
    build_id: str
    benchmark: str
    published_at: AwareDatetime
    lock_digest: Sha256
    content_digest: Sha256
    withheld: str
    canary: str
    lock: _ReleasedLockFileManifest
