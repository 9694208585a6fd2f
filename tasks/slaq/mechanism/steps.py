"""Steps of the mechanistic analysis: draw facts, pair their answers, ablate the model and compare (paper §5)."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
from prefect import task

from factmill.tasks import progress
from factmill.tasks.assets import load_list_entries, load_prompt
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.completions import UNREADABLE_COMPLETION_KINDS
from factmill.tasks.core.evaluation.answer_frame import enclose_answer_in_boundary_lines, make_answer_boundary
from factmill.tasks.core.prompts import fill_prompt_template
from factmill.tasks.core.rows import Reject, rows_from_arrow
from factmill.tasks.engine.batches import BatchInProgress, make_batch_cache_key, open_batch
from factmill.tasks.engine.naming.code_versions import digest_import_closure, load_source_code
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.definition import EXACT_JUDGE
from factmill.tasks.slaq.core.evaluation.answers import LONG_SETTING, SHORT_SETTING, SlaqQuestion
from factmill.tasks.slaq.core.mechanism.pairing import (
    QUOTED_PART_FORM,
    pair_fact_answers,
    read_span_quoted_from_answer,
    replace_pair_by_judged_span,
)
from factmill.tasks.slaq.core.mechanism.rows import (
    SIMILARITY_MEASURES,
    AblatedFact,
    AnswerSide,
    FactAnsweredByOneModel,
    FactInShortAndLongAnswer,
    FactWithComponentSimilarities,
    TokenComponentImportances,
    TokenRowWithComponentImportances,
    count_drawn_and_unscored_by_kind,
    format_scored_fact_counts,
)
from factmill.tasks.slaq.core.mechanism.similarity import (
    compute_assignment_similarity,
    compute_mean_transported_similarity,
    compute_six_answer_similarities,
    format_component_name,
)
from factmill.tasks.slaq.evaluation.definition import fill_slaq_answer_prompt
from factmill.tasks.slaq.mechanism.ablation import import_mechanism_extra
from factmill.tasks.slaq.mechanism.ablation_service import (
    LocalAblationService,
    digest_causal_model,
    make_answer_part_ablation_call,
    parse_head_count_and_importances,
)
from factmill.tasks.slaq.mechanism.benchmark import (
    PAIRS_FILE_UNIT,
    QUOTE_PART_PROMPT,
    MechanismInputs,
    load_short_and_long_answer_parts_file,
    load_shuffled_facts_and_counts,
)

_ABLATION_CODE = ("factmill.tasks.slaq.mechanism.ablation",)
"""Modules that recorded ablations depend on, apart from the model."""
_FACTS_PER_ROUND = 10
"""Facts of a kind that are drawn, paired and ablated before the missing ones are counted again."""
_TRANSIENT_REASONS = ("out_of_memory", "judge_failed")
"""Transient reasons: another run may score the fact, so no other fact replaces it."""
_open_services: list[LocalAblationService] = []
"""The open model: one at a time, since two may not fit into memory."""
_open_services_lock = Lock()


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def ablate_answered_facts(batch: StageBatch) -> BatchReceipt:
    """Draw facts of one model's evaluation (§5.2), pair their answers (Appendix A.4) and ablate the model for them (§5.1).

    The draw continues until `per_kind` facts of each kind are scored or none is left. Each answer is a recorded call.
    """
    work = open_batch(batch)
    inputs = work.inputs(MechanismInputs)
    subject = next(each for each in inputs.subjects if each.model == batch.unit)
    drawn, _ = load_shuffled_facts_and_counts(Path(work.run.options["warehouse"]), subject, inputs.params)
    waiting = {kind: iter(facts) for kind, facts in drawn.items()}
    found: list[AblatedFact] = []
    while True:
        # first one fact of each kind, to find the model's limits before computing much
        at_once = _FACTS_PER_ROUND if found else 1
        facts: list[FactAnsweredByOneModel] = []
        for kind, left in waiting.items():
            counted = sum(
                row.kind == kind and (not row.unscored or row.unscored in _TRANSIENT_REASONS) for row in found
            )
            facts += islice(left, min(inputs.params.per_kind - counted, at_once))
        if not facts:
            break
        for fact in facts:
            work.add_input_row(fact.id, fact.model_dump_json())
        ablated = _ablate_facts(work, subject.model, _pair_answer_parts_asking_judge(work, facts))
        if not inputs.params.centre and all(row.unscored for row in found):
            _require_base_logits_mostly_positive(ablated)
        found += ablated
        kinds = count_drawn_and_unscored_by_kind((row.kind, row.unscored) for row in found)
        progress.log_to_current_run(f"{subject.model}: scored {format_scored_fact_counts(kinds)}")
    work.retryable_rows += sum(row.unscored in _TRANSIENT_REASONS for row in found)
    return work.finish(sorted(found, key=attrgetter("id")), AblatedFact)


def _require_base_logits_mostly_positive(rows: Sequence[AblatedFact]) -> None:
    """Raise UsageError if half or more of a fact's tokens have a logit of 0 or less, as the model's other facts would."""
    for row in rows:
        tokens = [*row.short_tokens, *row.long_tokens]
        if tokens and 2 * sum(each.base <= 0 for each in tokens) >= len(tokens):
            raise UsageError(
                f"{row.model}, fact {row.id}: {row.detail}. Facts of this model would remain unscored, so the analysis stopped; "
                "run it again with --centre"
            )


def _pair_answer_parts_asking_judge(
    work: BatchInProgress, facts: Sequence[FactAnsweredByOneModel]
) -> list[FactInShortAndLongAnswer]:
    """Return facts with the part of the long answer that states each, quoted by a judge where needed."""
    params, files = work.inputs(MechanismInputs).params, work.source_files(PAIRS_FILE_UNIT)
    chosen = load_short_and_long_answer_parts_file(files[0]) if files else {}
    words = frozenset(load_list_entries("function_words"))
    rows = [pair_fact_answers(fact, words, params.least_matched, chosen) for fact in facts]
    if params.judge == EXACT_JUDGE:
        return rows
    asked = [
        (
            row.id,
            row,
            fill_prompt_template(
                load_prompt(QUOTE_PART_PROMPT),
                question=row.question,
                boundary=make_answer_boundary(row.id, row.long_answer),
                answer=enclose_answer_in_boundary_lines(row.id, row.long_answer),
            ),
        )
        for row in rows
        if row.paired_by == "alignment" or row.unscored == "not_in_long_answer"
    ]
    judged: dict[str, FactInShortAndLongAnswer] = {}
    for row, answer in work.prompt_model(
        params.judge,
        asked,
        QUOTED_PART_FORM,
        lambda row, texts: read_span_quoted_from_answer(texts[0], row.long_answer),
    ):
        if isinstance(answer.parsed, Reject):
            why = "judge_unreadable" if answer.parsed.reason in UNREADABLE_COMPLETION_KINDS else "judge_failed"
            bare = replace_pair_by_judged_span(row, None)
            judged[row.id] = bare.model_copy(update={"unscored": why, "detail": answer.parsed.detail})
        else:
            judged[row.id] = replace_pair_by_judged_span(row, answer.parsed)
    return [judged.get(row.id, row) for row in rows]


def _ablate_facts(work: BatchInProgress, model: str, rows: Sequence[FactInShortAndLongAnswer]) -> list[AblatedFact]:
    """Return facts with the components that carry the tokens of both answers."""
    service = _open_ablation_service_closing_previous(work, model)
    asked = {row.id: _make_ablation_calls(work, service.identity, row) for row in rows if not row.unscored}
    records = work.get_call_records(service, ((row_id, call) for row_id, calls in asked.items() for call in calls))
    bare: dict[str, Any] = {"heads": 0, "short_tokens": [], "long_tokens": [], "short_call": "", "long_call": ""}
    return [
        _make_ablated_fact(row, asked[row.id], records) if row.id in asked else row.extend_to(AblatedFact, **bare)
        for row in rows
    ]


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def compare_fact_answers(batch: StageBatch) -> BatchReceipt:
    """Match the tokens of both answers by optimal transport, and compute their similarity (§5.1, equations 7 to 9)."""
    work = open_batch(batch)
    return work.finish((make_compared_fact(row) for row in work.rows(AblatedFact)), FactWithComponentSimilarities)


def make_compared_fact(row: AblatedFact) -> FactWithComponentSimilarities:
    """Return a fact with its similarities, or with the reason why any is missing."""
    none = dict.fromkeys(SIMILARITY_MEASURES)
    counts = {"short_tokens": len(row.short_tokens), "long_tokens": len(row.long_tokens)}
    if row.unscored:
        return row.narrow_to(FactWithComponentSimilarities, **counts, **none, hungarian=none)
    emd, solve = import_mechanism_extra("ot").emd, import_mechanism_extra("scipy.optimize").linear_sum_assignment
    found, check = (
        compute_six_answer_similarities(row.short_tokens, row.long_tokens, row.heads, join)
        for join in (
            partial(compute_mean_transported_similarity, emd=emd),
            partial(compute_assignment_similarity, solve=solve),
        )
    )
    reason = detail = ""
    if missing := [name for name, value in found.model_dump().items() if value is None]:
        tokens = [*row.short_tokens, *row.long_tokens]
        reason, detail = "constant", f"importances of a token do not vary: no {', '.join(missing)}"
        if without := [each.token for each in tokens if each.recovered is None]:
            reason = "set_not_reached"
            detail = (
                f"{len(without)} of {len(tokens)} tokens have no set of the size allowed that gives enough of their logit, the first "
                f"{without[0]!r}: no {', '.join(missing)}"
            )
    return row.narrow_to(
        FactWithComponentSimilarities, **counts, **found.model_dump(), hungarian=check, unscored=reason, detail=detail
    )


def list_ablated_token_rows(ablated_facts: pa.Table) -> list[TokenRowWithComponentImportances]:
    """Return a row of the published table for each token of facts (rows of `AblatedFact`)."""
    sides: tuple[AnswerSide, AnswerSide] = "short", "long"
    return [
        TokenRowWithComponentImportances(
            id=f"{fact.id}/{side}/{place}",
            fact=fact.id,
            side=side,
            place=place,
            token=each.token,
            base=each.base,
            components=[format_component_name(at, fact.heads) for at in each.chosen],
            recovered=each.recovered,
            heads=fact.heads,
            importances=each.importances,
        )
        for fact in rows_from_arrow(AblatedFact, ablated_facts)
        for side, tokens in zip(sides, (fact.short_tokens, fact.long_tokens), strict=True)
        for place, each in enumerate(tokens, 1)
    ]


def _make_ablation_calls(work: BatchInProgress, identity: str, row: FactInShortAndLongAnswer) -> list[Call]:
    """Make the ablate calls for a fact's short and long answer, with the prompts of the evaluation."""
    params = work.inputs(MechanismInputs).params
    how: dict[str, Any] = {name: getattr(params, name) for name in ("recover", "largest_set", "centre")}
    calls = []
    for setting, question, answer, start, text in (
        (SHORT_SETTING, row.question, row.short_answer, row.short_start, row.short_text),
        (LONG_SETTING, row.long_question, row.long_answer, row.long_start, row.long_text),
    ):
        asked = SlaqQuestion(
            id=row.id, question_id=row.id, item=row.item, cluster=row.item, setting=setting, question=question,
            topic=row.topic, category=row.category, half="most", position=row.number, questions=[row.question],
            golds=[row.gold], fact_types=[row.fact_type], gold=row.gold,
        )  # fmt: skip
        if params.tokens == "gold":
            answer, text = answer[:start] + row.gold, row.gold  # noqa: PLW2901 - what stands in place of both
        calls.append(
            make_answer_part_ablation_call(
                identity, fill_slaq_answer_prompt(asked).build_messages(), answer, start, text, **how
            )
        )
    return calls


def _make_ablated_fact(row: FactInShortAndLongAnswer, calls: Sequence[Call], records: Any) -> AblatedFact:
    """Return a fact with the effects of its tokens; if an answer could not be ablated, with the reason."""
    tokens: dict[str, list[TokenComponentImportances]] = {"short": [], "long": []}
    heads, unscored, detail = 0, "", ""
    for side, call in zip(tokens, calls, strict=True):
        reply = records[call.key].reply()
        if reply.status == "ok":
            heads, tokens[side] = parse_head_count_and_importances(reply.body)
        elif not unscored:
            unscored, _, detail = (reply.error or "").partition(": ")
            detail = f"the {side} answer: {detail}"
    counted = [*tokens["short"], *tokens["long"]]
    below = [each for each in counted if each.base <= 0]
    if below and not unscored:
        unscored, detail = (
            "base_not_positive",
            (
                f"{len(below)} of {len(counted)} tokens have a logit that is not above 0, the first {below[0].token!r} "
                f"({below[0].base:.3f}): no share of it can be lost; --centre measures logits from their mean"
            ),
        )
    return row.narrow_to(
        AblatedFact,
        heads=heads,
        short_tokens=tokens["short"],
        long_tokens=tokens["long"],
        short_call=calls[0].key,
        long_call=calls[1].key,
        unscored=unscored,
        detail=detail,
    )


def _open_ablation_service_closing_previous(work: BatchInProgress, model: str) -> LocalAblationService:
    """Return the service of a model; close the previous model's."""
    files = work.source_files(model)
    params = work.inputs(MechanismInputs).params
    code = digest_import_closure(list(_ABLATION_CODE), load_source_code())[:16]
    identity = f"ablation-{code}/{digest_causal_model(files)[:16]}/{params.precision}"
    device = work.run.origin["flow"]["device"]
    with _open_services_lock:
        if not _open_services or _open_services[0].identity != identity:
            for each in _open_services:
                each.close()
            _open_services[:] = [LocalAblationService(identity, files[0].path.parent, device, params.precision)]
        return _open_services[0]
