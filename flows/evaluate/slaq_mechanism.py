"""The Prefect flow that finds which model components carry a fact in its short and in its long answer (SLAQ)."""

from collections import Counter

from prefect import flow

from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.rows import make_arrow_table, rows_from_arrow
from factmill.tasks.engine.building import open_build
from factmill.tasks.evaluation.definition import EVALUATION_METRICS_TABLE
from factmill.tasks.options import BuildReport, RunOptions, resolve_warehouse_path
from factmill.tasks.slaq.core.mechanism.rows import (
    AblatedFact,
    FactWithComponentSimilarities,
    TokenRowWithComponentImportances,
    count_drawn_and_unscored_by_kind,
)
from factmill.tasks.slaq.mechanism.ablation import require_mechanism_extra
from factmill.tasks.slaq.mechanism.benchmark import (
    PAIRS_FILE_UNIT,
    SLAQ_MECHANISM,
    MechanismParams,
    count_facts_by_model_and_alignment,
    load_short_and_long_answer_parts_file,
    resolve_mechanism_inputs,
)
from factmill.tasks.slaq.mechanism.measure import compute_compared_fact_metrics
from factmill.tasks.slaq.mechanism.steps import ablate_answered_facts, compare_fact_answers, list_ablated_token_rows


@flow(name="slaq_mechanism", validate_parameters=True, persist_result=False)
def analyse_slaq_mechanism(
    params: MechanismParams = MechanismParams(),  # noqa: B008 - frozen
    run: RunOptions = RunOptions(),  # noqa: B008 - frozen
) -> BuildReport:
    """SLAQ: which components carry a fact, short and long (paper §5)."""
    require_mechanism_extra()
    locked = resolve_mechanism_inputs(params, run)
    # one batch at a time: the model uses all cores, and two models may not fit into memory
    with open_build(SLAQ_MECHANISM, locked, run.model_copy(update={"concurrency": 1})) as build:
        # §5.1, §5.2, Appendix A.4: a single step, since facts are drawn until enough are scored
        ablated = build.load_source(ablate_answered_facts, [each.model for each in locked.inputs.subjects])
        if not ablated.rows:
            found = "; ".join(
                f"{model}: {counts['wrong_in_both']} wrong in both, {counts['unscored']} without a verdict"
                for model, counts in count_facts_by_model_and_alignment(
                    locked.inputs, resolve_warehouse_path(run)
                ).items()
            )
            build.end_without_rows(
                f"no fact is right in either answer, so there is nothing to look into ({found}); evaluate a model that knows some"
            )
        compared = build.run_stage(compare_fact_answers, ablated)  # §5.1, equations 7 to 9
        rows = compared.table(FactWithComponentSimilarities)
        result = [row.model_dump() for row in rows_from_arrow(FactWithComponentSimilarities, rows)]
        name, pair_files = locked.author, locked.files.get(PAIRS_FILE_UNIT, ())
        pairs = {each for file in pair_files for each in load_short_and_long_answer_parts_file(file)}
        metrics = compute_compared_fact_metrics(result, params.folds, params.seed, name, "")  # Figures 4 and 5
        tables = {
            SLAQ_MECHANISM.main_table: rows,
            "slaq_mechanism_tokens": make_arrow_table(
                TokenRowWithComponentImportances, list_ablated_token_rows(ablated.table(AblatedFact))
            ),
            EVALUATION_METRICS_TABLE: make_arrow_table(EvaluationMetric, metrics),
        }
        facts = {
            "model": name,
            "evaluations": list(build.run.origin["flow"]["evaluation"]),
            "facts": count_facts_by_model_and_alignment(locked.inputs, resolve_warehouse_path(run)),
            "unscored": dict(Counter(each for each in rows["unscored"].to_pylist() if each).most_common()),
            "kinds": count_drawn_and_unscored_by_kind((row["kind"], row["unscored"]) for row in result),
            "details": {row["unscored"]: row["detail"] for row in reversed(result) if row["unscored"]},
            "unused_pairs": len(pairs - {row["id"] for row in result}),
        }
        return build.publish(tables, facts)
