"""BioKaLMA's parameters and the inputs resolved from them: pairs, relations, language model (paper Appendix A)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.core.evolution import CoherenceScale
from factmill.tasks.biokalma.core.pair_relations import PairRelationCatalog
from factmill.tasks.biokalma.sources.person_pairs import (
    PERSON_PAIR_COLUMNS,
    RELATION_FILE,
    are_other_than_pair_files,
    find_pair_files_by_name,
    load_build_pair_relations,
    pin_user_pairs,
)
from factmill.tasks.core.calls.wikidata import HUMAN_QID
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE, MAX_SETTING_NUMBER, NO_LICENCE_STATED
from factmill.tasks.core.table_columns import UserSourceSettings
from factmill.tasks.engine.benchmark import (
    BuildInputs,
    BuildInputsAndSourceFiles,
    builds_from_wikidata,
    make_sources_absolute,
    split_limit_over_units,
)
from factmill.tasks.engine.naming.identities import perplexity_identity, wikidata_identity
from factmill.tasks.errors import UsageError
from factmill.tasks.files import resolve_absolute_path
from factmill.tasks.options import CliOption, RunOptions, UserSourceParams, split_each_text_at_commas
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.source_files import SourceFile, format_unused_files_note, make_source_file_with_digest
from factmill.tasks.storage.user_tables import apply_stated_name_and_licence, make_user_source
from factmill.tasks.text.wikidata_ids import is_qid

_EMBEDDED_PAIR_FILES = ASSETS_ROOT / "data" / "world" / "sources" / "biokalma"


def _validate_class_qid(qid: str) -> str:
    if not is_qid(qid):
        raise ValueError(f"{qid}: expected the QID of a class, like {HUMAN_QID} (human) or Q43229 (organization)")
    return qid


class BiokalmaParams(UserSourceParams):
    """Parameters of a BioKaLMA build."""

    source: Annotated[tuple[str, ...], CliOption(metavar="PATH")] = ()
    """Table of paragraphs about two people, with the columns paragraph, person, relation and other, or a folder of such tables (repeatable). Or `wikidata`: make pairs from the facts in the Wikidata of --world or --graph. Default: the paragraphs that ship with factmill if the world is embedded and --graph is not given; otherwise `wikidata`."""
    class_qid: Annotated[str, AfterValidator(_validate_class_qid), CliOption(metavar="QID")] = HUMAN_QID
    """With --source wikidata: class of the two items of a pair, such as Q5 (human)."""
    relations: Annotated[tuple[str, ...], BeforeValidator(split_each_text_at_commas), CliOption(metavar="PIDS")] = ()
    """With --source wikidata: properties that connect the two items of a pair, such as P26 (repeatable, or separated by commas). Default: the properties that connect people."""
    relation_file: Annotated[str | None, CliOption(metavar="FILE")] = None
    """CSV file of further properties that may connect a pair. It has the columns of data/lists/pair_relations.csv."""
    limit: int | None = Field(default=None, ge=1, le=MAX_SETTING_NUMBER)
    """Maximum number of source rows in total, taken equally from all sources."""
    per_person: int = Field(default=3, ge=1)
    """Maximum number of rows about one person; further rows are dropped."""
    rounds: int = Field(default=5, ge=1, le=100)
    """Number of rounds. The first round annotates the paragraph with facts; each later round adds one fact to it."""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """Weight of specificity when a round chooses the fact to add; coherence weighs 1 - alpha. The paper does not state the value."""
    coherence: CoherenceScale = "softmax"
    """Scale of a fact's coherence, which is computed from 1/perplexity. softmax is the paper's formula; its values hardly differ, so coherence decides only between equally specific facts. range scales from 0 (the least coherent fact of a round) to 1 (the most coherent), so coherence can outweigh specificity."""


class BiokalmaInputs(BuildInputs):
    """Resolved inputs of BioKaLMA's stages."""

    resolved: ClassVar = frozenset({"source", "relations", "relation_file", "limit"})
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


def resolve_biokalma_inputs(params: BiokalmaParams, run: RunOptions) -> BuildInputsAndSourceFiles[BiokalmaInputs]:
    """Resolve the build's inputs; raises UsageError or SourceError."""
    world = load_world(run.world, run.graph)
    from_wikidata = builds_from_wikidata(params.source, run, world)
    files: dict[str, SourceFile] = {}
    notes: list[str] = []
    source_rows: int | None = None
    own = make_user_source(params, bool(params.source) and not from_wikidata)
    if not from_wikidata:
        paths = [Path(path) for path in params.source] or [_EMBEDDED_PAIR_FILES]
        if params.map or params.source_split or are_other_than_pair_files(paths):
            tables = pin_user_pairs(params)
            files, own, notes = {file.name: file for file in tables.files}, tables.own, tables.notes
            source_rows = tables.row_count
        else:
            found = find_pair_files_by_name(paths)
            files = {
                name: apply_stated_name_and_licence(make_source_file_with_digest(path, name), own)
                for name, path in found.items()
            }
            notes = format_unused_files_note(
                paths, list(found.values()), f"because they lack the columns {', '.join(PERSON_PAIR_COLUMNS)}"
            )
        if params.relations:
            raise UsageError(
                "--relations needs pairs from a Wikidata (--source wikidata); the rows of a file name their own relations"
            )
    user_relations = [make_source_file_with_digest(Path(params.relation_file))] if params.relation_file else []
    known = load_build_pair_relations(user_relations)
    units = (
        get_chosen_or_people_relation_pids(params.relations, params.class_qid, known) if from_wikidata else list(files)
    )
    return BuildInputsAndSourceFiles(
        BiokalmaInputs(
            params=params.model_copy(
                update={
                    "source": make_sources_absolute(params.source),
                    "relation_file": params.relation_file and str(resolve_absolute_path(params.relation_file)),
                }
            ),
            own_source=own if own != UserSourceSettings() else None,
            from_wikidata=from_wikidata,
            limits=split_limit_over_units(params.limit, units),
            epoch=f"{world.epoch_day().isoformat()}T00:00:00Z",
            licence=(own.licence or NO_LICENCE_STATED) if params.source else EMBEDDED_WORLD_LICENCE,
            perplexity=perplexity_identity(world, factmill_home()),
        ),
        {name: [file] for name, file in files.items()} | ({RELATION_FILE: user_relations} if user_relations else {}),
        wikidata_identity(world, factmill_home()) if from_wikidata else None,
        notes=notes,
        source_rows=source_rows,
    )


def get_chosen_or_people_relation_pids(
    chosen_pids: Sequence[str], class_qid: str, known: PairRelationCatalog
) -> list[str]:
    """Return the relations to take pairs from, by default those between people; UsageError for an unknown one."""
    if unknown := [pid for pid in chosen_pids if pid not in known.labels]:
        raise UsageError(
            f"--relations: unknown relation {', '.join(unknown)}; data/lists/pair_relations.csv has {', '.join(known.labels)}; "
            "--relation-file FILE adds your own"
        )
    if not chosen_pids and class_qid != HUMAN_QID:
        raise UsageError(
            f"--class-qid {class_qid}: give the relations that join items of this class, like --relations P749,P355"
        )
    return list(dict.fromkeys(chosen_pids or known.people_pids))
