"""`factmill report all`: which evaluations the card of a model is made of, and what is missing for a whole one."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from flows.commands.reports import read_evaluated, write_file
from flows.evaluate.evaluations import EVALUATIONS
from tasks.core.fingerprints import digest_bytes
from tasks.errors import OldBuild, UnknownBuild, UsageError
from tasks.evaluation.record import ANSWERS, Evaluation
from tasks.reports.card import Card, Missing, Page, Taken, make_card
from tasks.reports.pages import CARD_RENDERERS
from tasks.storage.builds import BuildRecord, list_builds
from tasks.text.suggestions import suggest_name


def read_card(warehouse: Path, names: Sequence[str], folder: Path, made: Collection[str] = ()) -> Card:
    """Return the card of models, a column each; none named: all that were evaluated.

    `folder`: where the card will lie, which single reports must lie in too to be linked; `made`: evaluations that are
    taken before later ones. UsageError for a model that was never evaluated.
    """
    builds = list_builds(warehouse)
    evaluations = {each.name for each in EVALUATIONS.values()}
    known = [build for build in builds if build.benchmark in evaluations]
    if not known:
        raise UnknownBuild(f"no evaluation in {warehouse}; make some: factmill evaluate all --model NAME")
    known.sort(key=lambda each: each.build_id in made)  # stable: later ones stay behind earlier ones
    models = [_find_model(name, known) for name in names] or [_model_of(each) for each in known]
    models = list(dict.fromkeys(models))
    return make_card(models, [_take(warehouse, each, models, builds, known, folder) for each in EVALUATIONS.values()])


def write_card(warehouse: Path, names: Sequence[str], folder: Path, made: Collection[str]) -> list[Path]:
    """Write the card of models into a folder, as a page, Markdown and JSON, and return its files."""
    card = read_card(warehouse, names, folder, made)
    models = "-".join(card.models)
    return [
        write_file(render(card), folder / f"card-{_name_file(models)}{ending}", "--reports")
        for ending, render in CARD_RENDERERS.items()
    ]


def _take(
    warehouse: Path,
    evaluation: Evaluation,
    models: Sequence[str],
    builds: Sequence[BuildRecord],
    known: Sequence[BuildRecord],
    folder: Path,
) -> Taken:
    """Return the latest evaluation of each model on one benchmark: on the rows that most were measured on, the latest of
    these."""
    mine = [each for each in known if each.benchmark == evaluation.name and _model_of(each) in models]
    rows = _choose_rows(mine)
    evaluated, left_out = [], {}
    for model in models:
        latest_first = [each for each in reversed(mine) if _model_of(each) == model]
        for each in latest_first:
            if _rows_of(each) == rows:
                with suppress(OldBuild):  # what an earlier factmill wrote cannot be told: an earlier one, or none
                    evaluated.append(read_evaluated(warehouse, evaluation, each))
                    left_out[each.build_id] = [other for other in latest_first if other is not each]
                    break
    taken = [each.record for each in evaluated]
    without = [model for model in models if model not in map(_model_of, taken)]
    measured = _tell_measured(taken[0]) if taken else []
    if all(each.benchmark != evaluation.of.name for each in builds):
        missing = [Missing("all" if len(without) > 1 else without[0], f"factmill build {evaluation.of.name}")]
    else:
        missing = []
    missing += [Missing(model, _tell_command(evaluation, model, known, measured)) for model in without]
    return Taken(
        evaluation,
        evaluated,
        left_out,
        missing,
        [_find_page(each, folder) for each in taken],
    )


def _choose_rows(evaluations: Sequence[BuildRecord]) -> str:
    """Return the digest of the rows that most models were measured on, the latest of several."""
    models = Counter(rows for rows, _ in {(_rows_of(each), _model_of(each)) for each in evaluations})
    latest = {_rows_of(each): at for at, each in enumerate(evaluations)}
    return max(models, key=lambda rows: (models[rows], latest[rows]), default="")


def _rows_of(evaluation: BuildRecord) -> str:
    return str(evaluation.lock["params"]["source_digest"])


def _model_of(evaluation: BuildRecord) -> str:
    return str(evaluation.report["facts"]["model"])


def _find_model(name: str, known: Sequence[BuildRecord]) -> str:
    """Return the model of this name, or that the command line calls so; UsageError when there is none, or several."""
    models = list(dict.fromkeys(map(_model_of, known)))
    if name in models:
        return name
    called = {_model_of(each) for each in known if not _has_file(each) and each.origin["flow"]["model"] == name}
    if len(called) == 1:
        return called.pop()
    if called:
        raise UsageError(f"--model {name}: several models were called so; name one of {', '.join(sorted(called))}")
    raise UsageError(
        f"--model {name}: no evaluation of it is here; there are: {', '.join(models)}{suggest_name(name, models)}. "
        f"Make one: factmill evaluate all --model {shlex.quote(name)}"
    )


def _has_file(evaluation: BuildRecord) -> bool:
    return bool(evaluation.origin["files"].get(ANSWERS))


def _tell_measured(evaluation: BuildRecord) -> list[str]:
    """Return the option that says what an evaluation was measured on."""
    flow = evaluation.origin["flow"]
    return ["--release", flow["release"]] if flow.get("release") else ["--build", flow["build"]]


def _tell_command(evaluation: Evaluation, model: str, known: Sequence[BuildRecord], measured: Sequence[str]) -> str:
    """Return the command that evaluates a model that was evaluated on another benchmark, or on other rows."""
    like = next(each for each in reversed(known) if _model_of(each) == model)
    said = ["factmill", "evaluate", evaluation.of.name, *measured]
    said += ["--world", like.origin["world"]] if like.origin["world"] != "embedded" else []
    said += ["--answers", "FILE", "--model", model] if _has_file(like) else ["--model", like.origin["flow"]["model"]]
    return shlex.join(said)


def _find_page(evaluation: BuildRecord, folder: Path) -> Page:
    name = f"{evaluation.build_id}.html"
    link = name if (folder / name).is_file() else ""
    return Page(_model_of(evaluation), evaluation.build_id, link, f"factmill report {evaluation.build_id} --to {name}")


def _name_file(models: str) -> str:
    """Return what stands for models in a file's name; with a digest where the names cannot stand there as they are."""
    plain = re.sub(r"[^\w.+-]+", "-", models, flags=re.ASCII)[:80]
    return plain if plain == models else f"{plain}-{digest_bytes(models.encode())[:8]}"
