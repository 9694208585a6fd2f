"""Reads the facts that can be looked at out of an evaluation; used by the step and by the command, which leaves Prefect alone."""

from pathlib import Path

from tasks.core.rows import arrow_schema
from tasks.errors import UnknownBuild
from tasks.slaq.core.evaluation.answers import JudgedSlaq
from tasks.slaq.core.mechanism.choosing import Chosen, choose_facts
from tasks.slaq.mechanism.record import MechanismParams, Subject
from tasks.storage.builds import list_builds, published_table
from tasks.storage.warehouse import open_warehouse


def choose_of(warehouse: Path, subject: Subject, params: MechanismParams) -> Chosen:
    """Return the facts of one model in the order of the draw; UnknownBuild where its evaluation is gone."""
    found = [build for build in list_builds(warehouse) if build.content_digest == subject.evaluation]
    if not found:
        raise UnknownBuild(f"the evaluation of {subject.asked} is not in {warehouse} any more; evaluate again")
    with open_warehouse(warehouse) as db:
        answers = published_table(db, found[-1].build_id, "slaq_answers").cast(arrow_schema(JudgedSlaq))
    return choose_facts(answers.to_pylist(), subject.model, subject.asked, params.seed)
