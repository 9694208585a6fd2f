"""BioKaLMA's parameters and the inputs resolved from them: pairs, relations, language model (paper Appendix A)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.core.evolution import CoherenceScale
from factmill.tasks.biokalma.sources.person_pairs import PERSON_PAIR_COLUMNS, find_pair_files, load_pair_relations
from factmill.tasks.core.calls.wikidata import HUMAN_QID
from factmill.tasks.core.rows import MAX_SETTING_NUMBER
from factmill.tasks.engine.benchmark import (
    BuildInputs,
    ResolvedInputs,
    builds_from_wikidata,
    make_sources_absolute,
    split_limit_over_units,
)
from factmill.tasks.engine.naming.identities import perplexity_identity, wikidata_identity
from factmill.tasks.errors import UsageError
from factmill.tasks.options import BenchmarkParams, CliOption, RunOptions, split_commas
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.source_files import format_unused_files, pin_source_file
from factmill.tasks.text.wikidata_ids import is_qid

_EMBEDDED_PAIR_FILES = ASSETS_ROOT / "data" / "world" / "sources" / "biokalma"
_OWN_LICENCE, _NO_LICENCE = "Apache-2.0", "none stated"


def _validate_class_qid(qid: str) -> str:
    if not is_qid(qid):
        raise ValueError(f"{qid}: expected the QID of a class, like {HUMAN_QID} (human) or Q43229 (organization)")
    return qid


class BiokalmaParams(BenchmarkParams):
    """Parameters of a BioKaLMA build."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """JSONL or CSV file, or folder, with paragraphs about two people (repeatable), or `wikidata` to make pairs from facts of the world's Wikidata. Default: the paragraphs that ship with factmill; `wikidata` if the world's Wikidata is not the embedded one."""
    class_qid: Annotated[str, AfterValidator(_validate_class_qid), CliOption(metavar="QID")] = HUMAN_QID
    """Class of the items that make up the pairs."""
    relations: Annotated[tuple[str, ...], BeforeValidator(split_commas), CliOption(metavar="PIDS")] = ()
    """Relations to take pairs from (repeatable, or separated by commas). Default: the relations between people."""
    limit: int | None = Field(default=None, ge=1, le=MAX_SETTING_NUMBER)
    """Maximum number of source rows, spread over the sources."""
    per_person: int = Field(default=3, ge=1)
    """Maximum number of rows about one person; further rows are dropped."""
    rounds: int = Field(default=5, ge=1, le=100)
    """Number of evolution rounds; the first one annotates the paragraph."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """Weight of specificity against coherence for the choice of a piece (the paper does not state its value)."""
    coherence: CoherenceScale = "softmax"
    """Scale of coherence, which is computed from 1/perplexity. softmax (the paper's formula) is nearly flat over a whole pool, so coherence decides only between equally specific pieces. range scales from 0 (the least coherent piece of a round) to 1 (the most coherent), so coherence can outweigh specificity."""


class BiokalmaInputs(BuildInputs):
    """Resolved inputs of BioKaLMA's stages."""

    resolved: ClassVar = frozenset({"source", "relations", "limit"})
    params: BiokalmaParams
    from_wikidata: bool
    """True where pairs come from the facts of the world's Wikidata."""
    limits: dict[str, int | None]
    """Relation or file name → maximum rows to read; None: all."""
    epoch: str
    """Moment as of which articles are read (ISO 8601, UTC)."""
    licence: str
    perplexity: str
    """Identity of the language model that computes perplexities."""


def resolve_biokalma_inputs(params: BiokalmaParams, run: RunOptions) -> ResolvedInputs[BiokalmaInputs]:
    """Resolve the build's inputs; raises UsageError or SourceError."""
    world = load_world(run.world, run.graph)
    from_wikidata = builds_from_wikidata(params.source, run, world)
    files: dict[str, Path] = {}
    paths: list[Path] = []
    if not from_wikidata:
        paths = [Path(path) for path in params.source] or [_EMBEDDED_PAIR_FILES]
        files = find_pair_files(paths)
        if params.relations:
            raise UsageError(
                "--relations needs pairs from a Wikidata (--source wikidata); the rows of a file name their own relations"
            )
    units = resolve_pair_relations(params.relations, params.class_qid) if from_wikidata else list(files)
    return ResolvedInputs(
        BiokalmaInputs(
            params=params.model_copy(update={"source": make_sources_absolute(params.source)}),
            from_wikidata=from_wikidata,
            limits=split_limit_over_units(params.limit, units),
            epoch=f"{world.epoch_day().isoformat()}T00:00:00Z",
            licence=_NO_LICENCE if params.source else _OWN_LICENCE,
            perplexity=perplexity_identity(world, factmill_home()),
        ),
        {name: [pin_source_file(path, name)] for name, path in files.items()},
        wikidata_identity(world, factmill_home()) if from_wikidata else None,
        notes=format_unused_files(
            paths, list(files.values()), f"because they lack the columns {', '.join(PERSON_PAIR_COLUMNS)}"
        ),
    )


def resolve_pair_relations(relations: Sequence[str], class_qid: str) -> list[str]:
    """Return the relations to take pairs from, by default those between people; UsageError for an unknown one."""
    known = load_pair_relations()
    if unknown := [pid for pid in relations if pid not in known.labels]:
        raise UsageError(
            f"--relations: unknown relation {', '.join(unknown)}; data/lists/pair_relations.csv has {', '.join(known.labels)}"
        )
    if not relations and class_qid != HUMAN_QID:
        raise UsageError(
            f"--class-qid {class_qid}: give the relations that join items of this class, like --relations P749,P355"
        )
    return list(dict.fromkeys(relations or known.people_pids))
