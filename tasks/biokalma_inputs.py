"""What a build of BioKaLMA depends on: its pairs, parameters, models, prompts, lists and queries (paper Appendix A)."""

from collections.abc import Sequence
from pathlib import Path

from tasks.assets import ROOT, load_pair_relations
from tasks.context import WIKIDATA_QUERIES
from tasks.core.fingerprints import digest_bytes
from tasks.core.knowledge import HUMAN, is_qid
from tasks.errors import UsageError
from tasks.identities import perplexity_identity, wikidata_identity
from tasks.locks import Inputs
from tasks.options import RunOptions
from tasks.settings import home, load_world
from tasks.sources.person_pairs import find_pair_files

PROMPTS = ("biokalma/annotate", "biokalma/extend", "biokalma/general_question", "biokalma/specific_question")
LISTS = (
    "pair_relations.csv",
    "pool_left_out.txt",
    "person_properties.txt",
    "relation_forms.csv",
    "removed_from_articles.txt",
)
WIKIDATA_SOURCE = "wikidata"
"""Source name that stands for the facts of the world's Wikidata."""
ROUNDS, ALPHA = 5, 0.5
"""The paper's number of rounds, and our weight of the two scores, of which the paper gives none (Appendix A.3)."""
_EMBEDDED = ROOT / "data" / "world" / "sources" / "biokalma"
_OWN_LICENCE, _NO_LICENCE = "Apache-2.0", "none stated"


def lock_inputs(
    source: list[str] | None,
    class_qid: str,
    relations: list[str] | None,
    limit: int | None,
    rounds: int,
    alpha: float,
    run: RunOptions,
) -> Inputs:
    """Return the inputs of a build; UsageError and SourceError say what was expected."""
    if not is_qid(class_qid):
        raise UsageError(
            f"--class {class_qid}: expected the QID of a class, like {HUMAN} (human) or Q43229 (organization)"
        )
    if not 0 <= alpha <= 1:
        raise UsageError(f"--alpha {alpha}: expected a number from 0 to 1")
    world = load_world(run.world, run.graph)
    from_wikidata = source == [WIKIDATA_SOURCE] or (source is None and (run.graph or not world.is_embedded))
    files: dict[str, Path] = {}
    if not from_wikidata:
        files = find_pair_files([Path(path) for path in source] if source else [_EMBEDDED])
    if relations and not from_wikidata:
        raise UsageError("--relations is for pairs from a Wikidata (--source wikidata); rows of a file name their own")
    wanted = check_relations(relations, class_qid) if from_wikidata else []
    units = wanted if from_wikidata else list(files)
    return Inputs(
        params={
            "source": WIKIDATA_SOURCE if from_wikidata else "files",
            "units": units,
            "class": class_qid,
            "relations": wanted,
            "limits": {} if limit is None else _share(limit, units),
            "rounds": rounds,
            "alpha": alpha,
            "epoch": f"{world.epoch_day().isoformat()}T00:00:00Z",
            "licence": _NO_LICENCE if source else _OWN_LICENCE,
            "perplexity": perplexity_identity(world, home()),
        },
        sources={WIKIDATA_SOURCE: wikidata_identity(world, home())}
        if from_wikidata
        else {name: digest_bytes(path.read_bytes()) for name, path in files.items()},
        prompts=PROMPTS,
        lists=LISTS,
        queries=WIKIDATA_QUERIES,
        origin={
            "flow": {
                "source": source if from_wikidata or source is None else [str(Path(path).resolve()) for path in source],
                "class_qid": class_qid,
                "relations": relations,
                "limit": limit,
                "rounds": rounds,
                "alpha": alpha,
            },
            "world": run.absolute_world(),
            "graph": run.graph,
            "files": {name: [name, str(path.resolve())] for name, path in files.items()},
        },
    )


def check_relations(relations: Sequence[str] | None, class_qid: str) -> list[str]:
    """Return the relations to take pairs from, those between people by default; UsageError for an unknown one."""
    known = load_pair_relations()
    if unknown := [pid for pid in relations or () if pid not in known.labels]:
        raise UsageError(
            f"unknown relation {', '.join(unknown)}; data/lists/pair_relations.csv has {', '.join(known.labels)}"
        )
    if not relations and class_qid != HUMAN:
        raise UsageError(f"--class {class_qid}: name the relations that join such items, like --relations P749,P355")
    return list(dict.fromkeys(relations or known.default))


def _share(limit: int, units: Sequence[str]) -> dict[str, int]:
    """Return unit → most rows to read, so that `limit` rows are spread over the units."""
    share, rest = divmod(limit, len(units))
    return {unit: share + (index < rest) for index, unit in enumerate(units)}
