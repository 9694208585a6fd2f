"""How it is found out which components of a model carry a fact in its short and in its long answer (SLAQ)."""

from pathlib import Path

from prefect import flow

from tasks.core.evaluation.rows import EvaluationMetric
from tasks.core.rows import arrow_table, rows_from_arrow
from tasks.engine.building import open_build
from tasks.evaluation.record import METRICS
from tasks.options import BuildReport, RunOptions, warehouse_of
from tasks.slaq.core.mechanism.choosing import count_kinds
from tasks.slaq.core.mechanism.rows import AblatedFact, ComparedFact, TokenRow
from tasks.slaq.mechanism.choose import choose_of
from tasks.slaq.mechanism.extra import require_extra
from tasks.slaq.mechanism.measure import measure_mechanism
from tasks.slaq.mechanism.record import MECHANISM, PAIRS, MechanismInputs, MechanismParams, lock_inputs
from tasks.slaq.mechanism.steps import (
    ablate_answered_facts,
    compare_answers_of_facts,
    count_missing,
    count_unused_pairs,
    find_first_details,
    list_tokens,
)


@flow(name="slaq_mechanism", validate_parameters=True, persist_result=False)
def analyse_slaq_mechanism(
    params: MechanismParams = MechanismParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """SLAQ: which components carry a fact, short and long (paper §5)."""
    require_extra()
    locked = lock_inputs(params, run)
    # one batch at a time: the model uses all cores, and two models may not fit into memory
    with open_build(MECHANISM, locked, run.model_copy(update={"concurrency": 1})) as build:
        # §5.1, §5.2, Appendix A.4: one step, since facts are drawn until enough are scored
        ablated = build.load(ablate_answered_facts, [each.model for each in locked.inputs.subjects])
        if not ablated.rows:
            build.end_without_rows(_tell_none(locked.inputs, warehouse_of(run)))
        compared = build.stage(compare_answers_of_facts, ablated)  # §5.1, equations 7 to 9
        rows = compared.table(ComparedFact)
        told = [row.model_dump() for row in rows_from_arrow(ComparedFact, rows)]
        name = locked.author
        metrics = measure_mechanism(told, params.folds, params.seed, name, "")  # Figures 4 and 5
        tables = {
            MECHANISM.main_table: rows,
            "slaq_mechanism_tokens": arrow_table(TokenRow, list_tokens(ablated.table(AblatedFact))),
            METRICS: arrow_table(EvaluationMetric, metrics),
        }
        facts = {
            "model": name,
            "evaluations": list(build.run.origin["flow"]["evaluation"]),
            "facts": count_facts(locked.inputs, warehouse_of(run)),
            "unscored": count_missing(rows),
            "kinds": count_kinds((row["kind"], row["unscored"]) for row in told),
            "details": find_first_details(rows),
            "unused_pairs": count_unused_pairs(locked.files.get(PAIRS, ()), rows),
        }
        return build.publish(tables, facts)


def count_facts(inputs: MechanismInputs, warehouse: Path) -> dict[str, dict[str, int]]:
    """Return model → aligned, misaligned, wrong_in_both, unscored → facts of its evaluation, before the draw."""
    return {each.model: dict(choose_of(warehouse, each, inputs.params).counts) for each in inputs.subjects}


def _tell_none(inputs: MechanismInputs, warehouse: Path) -> str:
    told = "; ".join(
        f"{model}: {counts['wrong_in_both']} wrong in both, {counts['unscored']} without a verdict"
        for model, counts in count_facts(inputs, warehouse).items()
    )
    return f"no fact is right in either answer, so there is nothing to look into ({told}); evaluate a model that knows some"
