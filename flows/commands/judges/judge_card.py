"""`factmill judge-card`: what a judge says of answers that people labelled, and how far it agrees with them.

Labels of drawn answers are held against verdicts that evaluations have already; nothing is asked. About questions and
answers of somebody's own the judge is asked, with its benchmark's prompt, and its calls are recorded like any other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flows.commands.judges.label import find_judged, format_troubles, read_label_file, read_rows
from flows.evaluate.evaluations import EVALUATIONS
from tasks.clients.batch_jobs.job_files import JobsPlace
from tasks.core.evaluation.judge_cards import Found, JudgeCard, JudgeIdentity, make_card
from tasks.core.evaluation.labels import DrawnItem
from tasks.core.fingerprints import digest_json
from tasks.core.receipts import Batch
from tasks.engine.batches import Work
from tasks.engine.naming.locks import code_digest, digest_assets
from tasks.engine.runs import Run
from tasks.engine.services import Services
from tasks.errors import UsageError
from tasks.evaluation.judging import judge_rows
from tasks.evaluation.record import EXACT, Evaluation, choose_judge, identify_judge
from tasks.options import RunOptions, warehouse_of
from tasks.settings import home, load_world
from tasks.storage.builds import list_builds
from tasks.storage.labels import find_items, load_labels, save_card
from tasks.storage.recording.folders import jobs_folder
from tasks.storage.recording.recorder import Recorder
from tasks.storage.warehouse import open_warehouse

Labels = dict[str, dict[str, str]]
"""Item → labeller → label."""


@dataclass
class Labelled:
    """Labels of one benchmark."""

    is_drawn: bool
    labels: Labels = field(default_factory=dict)
    items: dict[str, DrawnItem] = field(default_factory=dict)


@dataclass(frozen=True)
class Gathered:
    """All labels that judges are held against."""

    by_benchmark: Mapping[str, Labelled]
    digest: str
    notes: Sequence[str]
    """What is wrong in the files."""


def make_cards(
    files: Sequence[Path], judge: str, evaluations: Sequence[str], benchmark: str, run: RunOptions
) -> tuple[list[JudgeCard], Sequence[str]]:
    """Make the cards of a judge, one a benchmark, keep them in the warehouse, and return them with what is wrong in the files.

    `judge`: a model of the world, the name of one that judged, or exact; `evaluations`: whose verdicts count, all where
    none is named; `files`: of labels, the imported ones where none is named.
    """
    warehouse = warehouse_of(run)
    gathered = _read_files(warehouse, files, benchmark) if files else _read_imported(warehouse)
    cards = []
    for name, labelled in sorted(gathered.by_benchmark.items()):
        evaluation = EVALUATIONS[name]
        if labelled.is_drawn:
            identity, verdicts, used = _find_verdicts(evaluation, judge, evaluations, labelled, run)
            source = f"those of {', '.join(used)}"
        else:
            identity = _identify(evaluation, judge, run)
            verdicts, source = _ask(evaluation, judge, labelled, run), "asked for this card"
        assert evaluation.labels is not None
        cards.append(
            make_card(identity, evaluation.labels, labelled.labels, labelled.items, verdicts, gathered.digest, source)
        )
    with open_warehouse(warehouse) as db:
        for card in cards:
            save_card(db, card)
    return cards, gathered.notes


def _read_files(warehouse: Path, files: Sequence[Path], benchmark: str) -> Gathered:
    """Return the labels of files; where two have one by the same person, the first counts."""
    found: dict[str, Labelled] = {}
    digests, notes = [], []
    for path in files:
        file, digest = read_label_file(warehouse, path, "", benchmark)
        digests.append(digest)
        notes += [f"{path.name}: {line.strip()}" for line in format_troubles(file)]
        for label in file.labels:
            item = file.items[label.item]
            labelled = found.setdefault(item.benchmark, Labelled(file.is_drawn))
            if labelled.is_drawn != file.is_drawn:
                raise UsageError(f"{path}: answers of somebody's own beside drawn ones; make a card of each file")
            labelled.items[item.id] = item
            said = labelled.labels.setdefault(item.id, {}).setdefault(label.labeller, label.label)
            if said != label.label:
                notes.append(f"{path.name}: row {label.row}: {label.labeller} said {said} in another file; that counts")
    return Gathered(found, digests[0] if len(digests) == 1 else digest_json(sorted(digests)), notes)


def _read_imported(warehouse: Path) -> Gathered:
    with open_warehouse(warehouse) as db:
        labels = load_labels(db)
        items = find_items(db, list(labels))
    if not labels:
        raise UsageError(
            "no labels are imported yet; factmill label export EVAL --to FILE.csv, fill it in, factmill label import FILE.csv"
        )
    found: dict[str, Labelled] = {}
    for item, given in labels.items():
        labelled = found.setdefault(items[item].benchmark, Labelled(is_drawn=True))
        labelled.labels[item], labelled.items[item] = given, items[item]
    return Gathered(found, digest_json(labels), ())


def _find_verdicts(
    evaluation: Evaluation, judge: str, names: Sequence[str], labelled: Labelled, run: RunOptions
) -> tuple[JudgeIdentity, dict[str, Found], list[str]]:
    """Return what a judge said of drawn answers in evaluations, who it is, and the evaluations.

    An answer is found again by its id and its words, whatever evaluation it was drawn of. Of a judge that has had other
    prompts, or of a program that was changed, the newest counts.
    """
    warehouse, found = warehouse_of(run), dict[str, Found]()
    scheme, used = evaluation.labels, list[str]()
    assert scheme is not None
    wanted = {_place(item): item.id for item in labelled.items.values()}
    called = _list_names(judge, run)
    identity = None
    for name in _list_evaluations(warehouse, evaluation, names):
        _, _, record = find_judged(warehouse, name)
        who = identify_judge(evaluation, record.lock)
        if record.benchmark != evaluation.name or who is None or who.judge not in called or identity not in (None, who):
            continue
        before = len(found)
        for row in read_rows(warehouse, evaluation, record):
            for part in scheme.of(row):
                item = wanted.get((row["id"], part.part, part.question, part.gold, part.answer))
                if item is not None:
                    found.setdefault(item, Found(part.verdict))
        if len(found) > before:
            identity = who
            used.append(record.build_id)
    if identity is None:
        drawn = sorted({item.evaluation for item in labelled.items.values()})
        raise UsageError(
            f"no verdict of {judge} on these answers, which were drawn of {', '.join(drawn)}; have it judge them too: factmill "
            f"evaluate {evaluation.of.name} with the same --model or --answers, and --judge {judge}"
        )
    return identity, found, used


def _place(item: DrawnItem) -> tuple[str, str, str, str, str]:
    return item.answer_id, item.part, item.question, item.gold, item.answer


def _list_evaluations(warehouse: Path, evaluation: Evaluation, names: Sequence[str]) -> Iterator[str]:
    """Yield the evaluations that are looked at, the newest first."""
    builds = [record.build_id for record in list_builds(warehouse) if record.benchmark == evaluation.name]
    yield from reversed([find_judged(warehouse, name)[2].build_id for name in names] or builds)


def _list_names(judge: str, run: RunOptions) -> set[str]:
    """Return what verdicts call a judge: its name, or that of the model in the role."""
    world = load_world(run.world, run.graph)
    role = choose_judge(world, judge) if judge == "judge" else judge
    return {role, *([world.models[role].name] if role in world.models else [])}


def _identify(evaluation: Evaluation, judge: str, run: RunOptions) -> JudgeIdentity:
    """Return who a judge is that is asked now."""
    world = load_world(run.world, run.graph)
    role = choose_judge(world, judge)
    name = role if role == EXACT else world.models[role].name
    lock = {
        "params": {"params": {"judge": role}},
        "models": {role: name},
        "code": code_digest(evaluation.recipe.partition(":")[0]),
        "prompts": digest_assets(evaluation.assets)["prompts"],
    }
    identity = identify_judge(evaluation, lock)
    assert identity is not None
    return identity


def _ask(evaluation: Evaluation, judge: str, labelled: Labelled, run: RunOptions) -> dict[str, Found]:
    """Return what a judge says of answers of somebody's own; one that it could not be asked about is left out."""
    assert evaluation.labels is not None
    assert evaluation.labels.pose is not None and evaluation.judging is not None
    warehouse = warehouse_of(run)
    role = choose_judge(load_world(run.world, run.graph), judge)
    recorder = Recorder(warehouse, run.mode)
    services = Services.open(
        run.world, run.graph, home(), JobsPlace(jobs_folder(warehouse, run.mode), "judge-card", warehouse)
    )
    try:
        lock = {"params": {"params": {"judge": role}}}
        work = Work(Batch(run="", stage="", index=0, key=""), Run(Path(), lock, {}, {}, services, recorder))
        items = [labelled.items[item] for item in sorted(labelled.labels)]
        rows = [evaluation.labels.pose(item.id, item.question, item.gold, item.answer) for item in items]
        found = {}
        for row in judge_rows(work, rows, evaluation.judging):
            for part in evaluation.labels.of(row.model_dump()):
                found[row.id] = Found(part.verdict)
        return found
    finally:
        recorder.close()
        services.close()
