"""What a build of FanOutQA depends on: its questions, the epoch, parameters, models, prompts, lists, decisions (paper §3.1)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.assets import ROOT, load_fan_out_sets
from tasks.context import WIKIDATA_QUERIES
from tasks.core.epochs import read_epoch
from tasks.core.fanout_questions import LEAST_ARTICLES
from tasks.core.fingerprints import digest_bytes
from tasks.core.review import Policy
from tasks.core.splitting import DEV_SHARE
from tasks.errors import SourceError, UsageError
from tasks.identities import embedder_identity, wikidata_identity
from tasks.locks import Inputs
from tasks.models.model_folder import digest_file
from tasks.options import RunOptions, warehouse_of
from tasks.progress import say
from tasks.settings import home, load_world
from tasks.storage.reviews import tell_decisions

PROMPTS = ("fanoutqa/word_question", "fanoutqa/objective", "fanoutqa/wording")
LISTS = ("removed_from_evidence.txt", "fan_out_sets.csv", "fan_out_properties.csv")
WIKIDATA_SOURCE = "wikidata"
"""Source name that stands for questions made from the facts of the world's Wikidata."""
NEAR_ARTICLES, SAME_FROM, SEED = 30, 0.9, 7
"""Articles looked at in the retrieval check, cosine from which two questions are one (Appendix B), seed of the split."""
SETS_A_KIND = 12
"""Sets of one kind that questions are made from."""
_EMBEDDED = ROOT / "data" / "world" / "sources" / "fanoutqa"
_OWN_LICENCE, _GRAPH_LICENCE = "Apache-2.0", "CC0-1.0"


def lock_inputs(
    source: list[str] | None,
    sets: list[str] | None,
    sets_a_kind: int,
    epoch: str,
    titles: str | None,
    near: int,
    seed: int,
    review: Policy,
    decisions: list[dict[str, Any]] | None,
    run: RunOptions,
) -> Inputs:
    """Return the inputs of a build; UsageError and SourceError say what was expected.

    `decisions`: reviewers' (core.review.ReviewItem); None: those that were imported into the warehouse.
    """
    world = load_world(run.world, run.graph)
    moment = check_epoch(epoch)
    wanted = list(dict.fromkeys(source)) if source else [str(_EMBEDDED), WIKIDATA_SOURCE]
    from_wikidata = WIKIDATA_SOURCE in wanted
    if sets and not from_wikidata:
        raise UsageError("--sets is for questions made from a Wikidata; add --source wikidata")
    files = find_question_files([Path(each) for each in wanted if each != WIKIDATA_SOURCE])
    kinds = check_sets(sets) if from_wikidata else []
    title_file = check_titles(titles)
    if title_file is None and world.wikipedia.url != "embedded":
        say("no --titles: the retrieval check looks among the articles of these questions alone")
    sources = {name: digest_bytes(path.read_bytes()) for name, path in files.items()}
    if from_wikidata:
        sources[WIKIDATA_SOURCE] = wikidata_identity(world, home())
    reviewing: dict[str, Any] = {
        "review": "manual" if review == "ask" else review,
        "decisions": tell_decisions(warehouse_of(run), "fanoutqa") if decisions is None else decisions,
    }
    return Inputs(
        params={
            "units": [*(["files"] if files else []), *kinds],
            "epoch": moment,
            "sets_a_kind": sets_a_kind,
            "least_members": LEAST_ARTICLES,
            "titles": title_file and digest_file(title_file),
            "near_articles": near,
            "same_from": SAME_FROM,
            "seed": seed,
            "dev_share": DEV_SHARE,
            "licence": _GRAPH_LICENCE,
            "embedder": embedder_identity(world, home()),
            **reviewing,
        },
        sources=sources,
        prompts=PROMPTS,
        lists=LISTS,
        queries=WIKIDATA_QUERIES,
        origin={
            "flow": {
                "source": source
                and [each if each == WIKIDATA_SOURCE else str(Path(each).resolve()) for each in source],
                "sets": sets,
                "sets_a_kind": sets_a_kind,
                "epoch": moment,
                "titles": title_file and str(title_file.resolve()),
                "near": near,
                "seed": seed,
                **reviewing,
            },
            "world": run.absolute_world(),
            "graph": run.graph,
            "files": [[name, str(path), "" if source else _OWN_LICENCE] for name, path in files.items()],
            "titles": title_file and str(title_file.resolve()),
        },
    )


def find_question_files(paths: Sequence[Path]) -> dict[str, Path]:
    """Return name → file of questions; folders are looked through for .json and .jsonl. SourceError when there is none."""
    files: list[Path] = []
    for path in paths:
        found = sorted([*path.glob("*.json"), *path.glob("*.jsonl")]) if path.is_dir() else [path]
        if not found or not all(each.is_file() for each in found):
            raise SourceError(
                f"{path}: no such file, or no .json or .jsonl file in that folder; expected questions in the authored or "
                "the released form, or `wikidata`"
            )
        files += [each for each in map(Path.resolve, found) if each not in files]
    return {_name_file(path, files): path for path in files}


def _name_file(path: Path, files: Sequence[Path]) -> str:
    """Return a file's name, with as many folders before it as tell it from the other files."""
    for count in range(1, len(path.parts)):
        name = "/".join(path.parts[-count:])
        if sum("/".join(each.parts[-count:]) == name for each in files) == 1:
            return name
    return str(path)


def check_sets(sets: Sequence[str] | None) -> list[str]:
    """Return the kinds of sets to make questions from, all by default; a relation stands for all of its kinds.

    UsageError for an unknown one.
    """
    known = list(load_fan_out_sets())
    if unknown := [each for each in sets or () if not any(each in (kind, kind.split()[0]) for kind in known)]:
        raise UsageError(f"unknown kind of sets {unknown[0]!r}; data/lists/fan_out_sets.csv has {', '.join(known)}")
    return [kind for kind in known if not sets or kind in sets or kind.split()[0] in sets]


def check_epoch(epoch: str) -> str:
    """Return a day or an ISO 8601 moment that has passed, in UTC; UsageError for others."""
    moment = read_epoch(epoch)
    if moment > f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}":
        raise UsageError(f"epoch {epoch!r} is still to come; expected a day or moment of the past")
    return moment


def check_titles(titles: str | None) -> Path | None:
    """Return the file of all article titles, if one is named; UsageError when it is not there."""
    if titles is None:
        return None
    path = Path(titles)
    if not path.is_file():
        raise UsageError(
            f"--titles {titles}: no such file; expected one title a line, as in a wiki's dump of all titles"
        )
    return path
