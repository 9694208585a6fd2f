"""`factmill judge-card`: measure how far a judge's verdicts agree with the labels of people.

Labels of drawn answers are compared with verdicts that evaluations already hold, without new calls. For questions and
answers of the user's own, the judge is called with its benchmark's prompt, and its calls are recorded like any others.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from factmill.flows.cli.options import (
    JsonOption,
    NewWarehouseOption,
    check_warehouse_exists,
    print_result,
    raising_bad_parameter,
)
from factmill.flows.evaluate.evaluations import EVALUATIONS
from factmill.flows.labelling.label_draws import (
    load_answers_with_verdicts,
    load_label_file_with_digest,
    resolve_judged_evaluation,
)
from factmill.flows.labelling.sheet_files import format_sheet_problems
from factmill.tasks.assets import using_own_prompts
from factmill.tasks.clients.batch_jobs.job_files import BatchJobsFolderAndRun
from factmill.tasks.core.batch_receipts import StageBatch
from factmill.tasks.core.calls.call import CallCacheMode
from factmill.tasks.core.digests import digest_json, digest_text
from factmill.tasks.core.evaluation.human_labels import ItemToLabel
from factmill.tasks.core.evaluation.judge_cards import (
    JudgeCard,
    JudgeIdentity,
    format_judge_card,
    make_judge_card,
)
from factmill.tasks.engine.batches import BatchInProgress
from factmill.tasks.engine.naming.code_versions import make_code_manifest
from factmill.tasks.engine.naming.manifests import digest_assets, resolve_own_prompt_texts
from factmill.tasks.engine.runs import BuildRun
from factmill.tasks.engine.services import WorldServices
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.answering_and_judging import judge_predictions
from factmill.tasks.evaluation.definition import EXACT_JUDGE, Evaluation, find_judge_identity, resolve_judge_name
from factmill.tasks.options import RunOptions, resolve_warehouse_path
from factmill.tasks.own_prompts import load_own_prompts, parse_own_prompts
from factmill.tasks.settings import factmill_home, load_world
from factmill.tasks.storage.builds import list_builds
from factmill.tasks.storage.human_judgments import load_label_items, load_labels, save_judge_card
from factmill.tasks.storage.recording.call_cache import CallCache
from factmill.tasks.storage.recording.work_folders import batch_jobs_folder
from factmill.tasks.storage.warehouse import open_warehouse

_RUN = RunOptions.model_fields


def judge_card(
    judge: str = typer.Option(
        ...,
        help="Judge to measure: a model in the world's file ([models.NAME]), a model that judged an evaluation, or exact (a program).",
        metavar="NAME",
    ),
    labels: list[Path] | None = typer.Option(
        None,
        help="File with labels (repeatable). It is a file that `label --to` wrote and people filled in. Or it is your own CSV with the columns question, gold, answer, label and, optionally, benchmark; the command sends its answers to the judge. Default: all imported labels.",
        metavar="FILE",
    ),
    evaluation: list[str] | None = typer.Option(
        None,
        help="Use only the verdicts of this evaluation (repeatable). Default: the verdicts of all evaluations in the warehouse, newest first.",
        metavar="EVAL",
    ),
    benchmark: str = typer.Option(
        "", help="Benchmark of the labels, if the file has no column benchmark.", metavar="NAME"
    ),
    world: str = typer.Option("embedded", help=_RUN["world"].description, metavar="WORLD"),
    prompts: Path | None = typer.Option(
        None,
        help=f"{_RUN['prompts'].description} For answers from evaluations, only verdicts with these prompts count.",
        metavar="FOLDER",
    ),
    mode: CallCacheMode = typer.Option("record", help=_RUN["mode"].description),
    warehouse: NewWarehouseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how often a judge agrees with people.

    The judge card holds accuracy, Cohen's kappa and the confusion matrix, for each label and setting. Labels of a
    stratified sample are weighted to represent all answers. The warehouse stores the card. Reports of evaluations
    with this judge show the card, and rates corrected for the judge's errors.

    \b
    Examples:
      factmill judge-card --judge exact --labels labels.csv
      factmill judge-card --judge judge --world my-world.toml --labels mine.csv --benchmark slaq
      factmill judge-card --judge judge --world my-world.toml --labels mine.csv --benchmark slaq --prompts my-prompts/
    """
    if not labels:
        check_warehouse_exists(warehouse)
    with raising_bad_parameter(RunOptions):
        run = RunOptions(world=world, prompts=prompts, mode=mode, warehouse=warehouse)
    cards, notes = save_judge_cards_and_list_file_problems(labels or [], judge, evaluation or [], benchmark, run)
    result = {"cards": [{"id": card.id, **card.model_dump()} for card in cards], "notes": list(notes)}
    lines = [line for card in cards for line in format_judge_card(card)]
    print_result(as_json, result, [*lines, *(f"  {note}" for note in notes)])


LabelsByItem = dict[str, dict[str, str]]
"""Id of an item → labeller → label."""


@dataclass
class BenchmarkLabels:
    """Labels of one benchmark, and the items that they are about."""

    is_drawn: bool
    labels: LabelsByItem = field(default_factory=dict)
    items: dict[str, ItemToLabel] = field(default_factory=dict)


def save_judge_cards_and_list_file_problems(
    files: Sequence[Path], judge: str, evaluations: Sequence[str], benchmark: str, run: RunOptions
) -> tuple[list[JudgeCard], Sequence[str]]:
    """Make and store one card of a judge for each benchmark; return the cards and the problems in the files.

    `judge`: a model of the world, the name of a model that judged, or exact. `evaluations`: those whose verdicts count;
    empty: all. `files`: label files; empty: the imported labels.
    """
    warehouse = resolve_warehouse_path(run)
    found, digest, notes = (
        _load_labels_digest_and_problems(warehouse, files, benchmark)
        if files
        else (*_load_imported_labels_and_digest(warehouse), [])
    )
    cards = []
    for name, labelled in sorted(found.items()):
        evaluation = EVALUATIONS[name]
        if labelled.is_drawn:
            identity, verdicts, used, own = _find_verdicts_evaluations_and_own_prompts(
                evaluation, judge, evaluations, labelled, run
            )
            source = f"those of {', '.join(used)}"
        else:
            identity, verdicts, own = _judge_user_answers_and_digest_own_prompts(evaluation, judge, labelled, run)
            source = "asked for this card"
        assert evaluation.label_scheme is not None
        cards.append(
            make_judge_card(
                identity,
                evaluation.label_scheme,
                labelled.labels,
                labelled.items,
                verdicts,
                digest,
                source,
                own_prompts=own,
            )
        )
    with open_warehouse(warehouse) as db:
        for card in cards:
            save_judge_card(db, card)
    return cards, notes


def _load_labels_digest_and_problems(
    warehouse: Path, files: Sequence[Path], benchmark: str
) -> tuple[dict[str, BenchmarkLabels], str, list[str]]:
    """Return benchmark → labels of the files, their digest, and the problems found; if two files hold a label by the
    same person, the first counts."""
    found: dict[str, BenchmarkLabels] = {}
    digests, notes = [], []
    for path in files:
        file, digest = load_label_file_with_digest(warehouse, path, "", benchmark)
        digests.append(digest)
        notes += [f"{path.name}: {line.strip()}" for line in format_sheet_problems(file.problems)]
        for label in file.labels:
            item = file.items[label.item]
            labelled = found.setdefault(item.benchmark, BenchmarkLabels(file.is_of_draw))
            if labelled.is_drawn != file.is_of_draw:
                raise UsageError(
                    f"{path}: the files mix answers that factmill drew with answers of your own; make one card for each file"
                )
            labelled.items[item.id] = item
            said = labelled.labels.setdefault(item.id, {}).setdefault(label.labeller, label.label)
            if said != label.label:
                notes.append(
                    f"{path.name}: {label.place}: {label.labeller} has the label {said} in an earlier file, which counts"
                )
    return found, digests[0] if len(digests) == 1 else digest_json(sorted(digests)), notes


def _load_imported_labels_and_digest(warehouse: Path) -> tuple[dict[str, BenchmarkLabels], str]:
    with open_warehouse(warehouse) as db:
        labels = load_labels(db)
        items = load_label_items(db, list(labels))
    if not labels:
        raise UsageError(
            "no labels are imported yet; run factmill label EVALUATION --to FILE.csv, fill in the file, then run "
            "factmill label --from FILE.csv"
        )
    found: dict[str, BenchmarkLabels] = {}
    for item, given in labels.items():
        labelled = found.setdefault(items[item].benchmark, BenchmarkLabels(is_drawn=True))
        labelled.labels[item], labelled.items[item] = given, items[item]
    return found, digest_json(labels)


def _find_verdicts_evaluations_and_own_prompts(
    evaluation: Evaluation, judge: str, names: Sequence[str], labelled: BenchmarkLabels, run: RunOptions
) -> tuple[JudgeIdentity, dict[str, str], list[str], dict[str, str]]:
    """Return a judge's identity, its verdicts on drawn answers, the evaluations that hold them, and its own prompts.

    An answer is matched by its id and text, from whichever evaluation it was drawn. A folder of own prompts that
    holds the judge's selects the verdicts that these gave. Else, if a judge's prompts, or the program `exact`,
    changed between evaluations, the newest version counts.
    """
    warehouse, found = resolve_warehouse_path(run), dict[str, str]()
    scheme, used = evaluation.label_scheme, list[str]()
    assert scheme is not None
    wanted = {
        (item.answer_id, item.part, item.question, item.gold, item.answer): item.id for item in labelled.items.values()
    }
    # verdicts name a judge by its role, or by the name of the model in that role
    world = load_world(run.world, run.graph)
    role = resolve_judge_name(world, judge) if judge == "judge" else judge
    called = {role, *([world.models[role].name] if role in world.models else [])}
    identity = None
    own: dict[str, str] = {}
    folder = run.prompts or world.prompts
    selects = folder and {*load_own_prompts(Path(folder))} & {*scheme.prompts}
    given = digest_assets(evaluation.assets, resolve_own_prompt_texts(evaluation.assets, run)) if selects else None
    prompts = given and _select_judge_prompt_digests(evaluation, given)
    builds = [record.build_id for record in list_builds(warehouse) if record.benchmark == evaluation.name]
    for name in reversed([resolve_judged_evaluation(warehouse, name)[2].build_id for name in names] or builds):
        _, _, record = resolve_judged_evaluation(warehouse, name)
        who = find_judge_identity(evaluation, record.lock)
        if record.benchmark != evaluation.name or who is None or who.judge not in called or identity not in (None, who):
            continue
        if (
            prompts is not None
            and role != EXACT_JUDGE
            and prompts != _select_judge_prompt_digests(evaluation, record.lock)
        ):
            continue
        before = len(found)
        for row in load_answers_with_verdicts(warehouse, evaluation, record):
            for part in scheme.list_judged_parts(row):
                item = wanted.get((row["id"], part.part, part.question, part.gold, part.answer))
                if item is not None:
                    found.setdefault(item, part.verdict)
        if len(found) > before:
            identity = who
            own = {name: each for name, each in record.own_prompt_digests.items() if name in scheme.prompts}
            used.append(record.build_id)
    if identity is None:
        drawn = sorted({item.evaluation for item in labelled.items.values()})
        by, option = (f" by the prompts of {folder}", f" --prompts {folder}") if prompts is not None else ("", "")
        raise UsageError(
            f"no evaluation has verdicts of {judge}{by} on these answers, which were drawn from {', '.join(drawn)}; run factmill "
            f"evaluate {evaluation.benchmark.name} with the same --model or --answers, and --judge {judge}{option}"
        )
    return identity, found, used, own


def _select_judge_prompt_digests(evaluation: Evaluation, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return id → digest of the judge's prompts, of all prompts in a manifest."""
    assert evaluation.label_scheme is not None
    return {name: manifest["prompts"][name] for name in evaluation.label_scheme.prompts}


def _judge_user_answers_and_digest_own_prompts(
    evaluation: Evaluation, judge: str, labelled: BenchmarkLabels, run: RunOptions
) -> tuple[JudgeIdentity, dict[str, str], dict[str, str]]:
    """Call a judge on the user's own answers; return its identity, item → verdict without failed calls, and id → digest
    of its own prompts."""
    assert evaluation.label_scheme is not None
    assert evaluation.label_scheme.make_answer_row is not None and evaluation.judging_spec is not None
    warehouse, world = resolve_warehouse_path(run), load_world(run.world, run.graph)
    role = resolve_judge_name(world, judge)
    texts = {} if role == EXACT_JUDGE else resolve_own_prompt_texts(evaluation.assets, run)
    lock = {
        "params": {"params": {"judge": role}},
        "models": {name: model.name for name, model in world.models.items()}
        | ({EXACT_JUDGE: EXACT_JUDGE} if role == EXACT_JUDGE else {}),
        "code": make_code_manifest(evaluation.recipe),
        "prompts": digest_assets(evaluation.assets, texts)["prompts"],
    }
    own = {name: digest_text(text) for name, text in texts.items() if name in evaluation.label_scheme.prompts}
    identity = find_judge_identity(evaluation, lock)
    assert identity is not None
    place = BatchJobsFolderAndRun(batch_jobs_folder(warehouse, run.mode), "judge-card", warehouse)
    with (
        closing(CallCache(warehouse, run.mode)) as recorder,
        closing(WorldServices.open(run.world, run.graph, factmill_home(), place)) as services,
        using_own_prompts(parse_own_prompts(texts)),
    ):
        work = BatchInProgress(
            StageBatch(run="", stage="", index=0, key=""), BuildRun(Path(), lock, {}, {}, services, recorder)
        )
        items = [labelled.items[item] for item in sorted(labelled.labels)]
        rows = [
            evaluation.label_scheme.make_answer_row(item.id, item.question, item.gold, item.answer) for item in items
        ]
        judged = judge_predictions(work, rows, evaluation.judging_spec)
        verdicts = {
            row.id: part.verdict
            for row in judged
            for part in evaluation.label_scheme.list_judged_parts(row.model_dump())
        }
        return identity, verdicts, own
