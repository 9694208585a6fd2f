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
from factmill.tasks.assets import load_list, load_prompt
from factmill.tasks.core.calls.call import Call
from factmill.tasks.core.evaluation.frame import frame, make_boundary
from factmill.tasks.core.prompts import fill_in
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import UNREADABLE_KINDS
from factmill.tasks.core.rows import Reject, rows_from_arrow
from factmill.tasks.engine.batches import Work, batch_key, work_on
from factmill.tasks.engine.naming.rooms import digest_closure, read_code
from factmill.tasks.errors import UsageError
from factmill.tasks.evaluation.record import EXACT
from factmill.tasks.slaq.core.evaluation.answers import LONG, SHORT, SlaqAsked
from factmill.tasks.slaq.core.mechanism.measures import assign, compare_answers, name_component, transport
from factmill.tasks.slaq.core.mechanism.pairing import PART_LINE, pair_by_judge, pair_fact, read_part
from factmill.tasks.slaq.core.mechanism.rows import (
    FEATURES,
    AblatedFact,
    ComparedFact,
    Fact,
    PairedFact,
    Side,
    TokenEffect,
    TokenRow,
    count_kinds,
    format_kinds,
)
from factmill.tasks.slaq.evaluation.ask import fill_prompt
from factmill.tasks.slaq.mechanism.ablating import import_extra
from factmill.tasks.slaq.mechanism.local_model import LocalCausalModel, call_ablate, digest_model, read_effects
from factmill.tasks.slaq.mechanism.record import PAIR, PAIRS, MechanismInputs, choose_of, read_pairs

_CODE = ("factmill.tasks.slaq.mechanism.ablating",)
"""Modules that recorded ablations depend on, apart from the model."""
_FACTS_AT_ONCE = 10
"""Facts of a kind that are drawn, paired and ablated before the missing ones are counted again."""
_MAY_PASS = ("out_of_memory", "judge_failed")
"""Transient reasons: another run may score the fact, so no other fact replaces it."""
_opened: list[LocalCausalModel] = []
"""The open model: one at a time, since two may not fit into memory."""
_opening = Lock()


@task(cache_key_fn=batch_key, persist_result=True)
def ablate_answered_facts(batch: Batch) -> Receipt:
    """Draw facts of one model's evaluation (§5.2), pair their answers (Appendix A.4) and ablate the model for them (§5.1).

    The draw continues until `per_kind` facts of each kind are scored or none is left. Each answer is a recorded call.
    """
    work = work_on(batch)
    inputs = work.inputs(MechanismInputs)
    subject = next(each for each in inputs.subjects if each.model == batch.unit)
    drawn, _ = choose_of(Path(work.run.options["warehouse"]), subject, inputs.params)
    waiting = {kind: iter(facts) for kind, facts in drawn.items()}
    found: list[AblatedFact] = []
    while True:
        # first one fact of each kind, to find the model's limits before computing much
        at_once = _FACTS_AT_ONCE if found else 1
        facts: list[Fact] = []
        for kind, left in waiting.items():
            counted = sum(row.kind == kind and (not row.unscored or row.unscored in _MAY_PASS) for row in found)
            facts += islice(left, min(inputs.params.per_kind - counted, at_once))
        if not facts:
            break
        for fact in facts:
            work.take(fact.id, fact.model_dump_json())
        ablated = _ablate(work, subject.model, _pair(work, facts))
        if not inputs.params.centre and all(row.unscored for row in found):
            _require_positive(ablated)
        found += ablated
        kinds = count_kinds((row.kind, row.unscored) for row in found)
        progress.log(f"{subject.model}: scored {format_kinds(kinds)}")
    work.unsettled += sum(row.unscored in _MAY_PASS for row in found)
    return work.finish(sorted(found, key=attrgetter("id")), AblatedFact)


def _require_positive(rows: Sequence[AblatedFact]) -> None:
    """Raise UsageError if half or more of a fact's tokens have a logit of 0 or less, as the model's other facts would."""
    for row in rows:
        tokens = [*row.short_tokens, *row.long_tokens]
        if tokens and 2 * sum(each.base <= 0 for each in tokens) >= len(tokens):
            raise UsageError(
                f"{row.model}: in the fact {row.id} {row.detail}. Facts of this model would remain unscored, so nothing more is "
                "ablated: give --centre"
            )


def _pair(work: Work, facts: Sequence[Fact]) -> list[PairedFact]:
    """Return facts with the part of the long answer that states each, quoted by a judge where needed."""
    params, files = work.inputs(MechanismInputs).params, work.files(PAIRS)
    chosen = read_pairs(files[0]) if files else {}
    words = frozenset(load_list("function_words"))
    rows = [pair_fact(fact, words, params.least_matched, chosen) for fact in facts]
    if params.judge == EXACT:
        return rows
    asked = [
        (
            row.id,
            row,
            fill_in(
                load_prompt(PAIR),
                question=row.question,
                boundary=make_boundary(row.id, row.long_answer),
                answer=frame(row.id, row.long_answer),
            ),
        )
        for row in rows
        if row.paired_by == "alignment" or row.unscored == "not_in_long_answer"
    ]
    judged: dict[str, PairedFact] = {}
    for row, answer in work.ask(
        params.judge, asked, PART_LINE, lambda row, texts: read_part(texts[0], row.long_answer)
    ):
        if isinstance(answer.read, Reject):
            why = "judge_unreadable" if answer.read.reason in UNREADABLE_KINDS else "judge_failed"
            bare = pair_by_judge(row, None)
            judged[row.id] = bare.model_copy(update={"unscored": why, "detail": answer.read.detail})
        else:
            judged[row.id] = pair_by_judge(row, answer.read)
    return [judged.get(row.id, row) for row in rows]


def _ablate(work: Work, model: str, rows: Sequence[PairedFact]) -> list[AblatedFact]:
    """Return facts with the components that carry the tokens of both answers."""
    service = _open_service(work, model)
    asked = {row.id: _list_calls(work, service.identity, row) for row in rows if not row.unscored}
    records = work.call(service, ((row_id, call) for row_id, calls in asked.items() for call in calls))
    bare: dict[str, Any] = {"heads": 0, "short_tokens": [], "long_tokens": [], "short_call": "", "long_call": ""}
    return [
        _read_ablated(row, asked[row.id], records) if row.id in asked else row.extend(AblatedFact, **bare)
        for row in rows
    ]


@task(cache_key_fn=batch_key, persist_result=True)
def compare_answers_of_facts(batch: Batch) -> Receipt:
    """Match the tokens of both answers by optimal transport, and compute their similarity (§5.1, equations 7 to 9)."""
    work = work_on(batch)
    return work.finish((compare_fact(row) for row in work.rows(AblatedFact)), ComparedFact)


def compare_fact(row: AblatedFact) -> ComparedFact:
    """Return a fact with its similarities, or with the reason why any is missing."""
    none = dict.fromkeys(FEATURES)
    counts = {"short_tokens": len(row.short_tokens), "long_tokens": len(row.long_tokens)}
    if row.unscored:
        return row.narrow(ComparedFact, **counts, **none, hungarian=none)
    emd, solve = import_extra("ot").emd, import_extra("scipy.optimize").linear_sum_assignment
    found, check = (
        compare_answers(row.short_tokens, row.long_tokens, row.heads, join)
        for join in (partial(transport, emd=emd), partial(assign, solve=solve))
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
    return row.narrow(ComparedFact, **counts, **found.model_dump(), hungarian=check, unscored=reason, detail=detail)


def list_tokens(rows: pa.Table) -> list[TokenRow]:
    """Return a row of the published table for each token of facts (rows of `AblatedFact`)."""
    sides: tuple[Side, Side] = "short", "long"
    return [
        TokenRow(
            id=f"{fact.id}/{side}/{place}",
            fact=fact.id,
            side=side,
            place=place,
            token=each.token,
            base=each.base,
            components=[name_component(at, fact.heads) for at in each.chosen],
            recovered=each.recovered,
            heads=fact.heads,
            importances=each.importances,
        )
        for fact in rows_from_arrow(AblatedFact, rows)
        for side, tokens in zip(sides, (fact.short_tokens, fact.long_tokens), strict=True)
        for place, each in enumerate(tokens, 1)
    ]


def _list_calls(work: Work, identity: str, row: PairedFact) -> list[Call]:
    """Make the ablate calls for a fact's short and long answer, with the prompts of the evaluation."""
    params = work.inputs(MechanismInputs).params
    how: dict[str, Any] = {name: getattr(params, name) for name in ("recover", "largest_set", "centre")}
    calls = []
    for setting, question, answer, start, text in (
        (SHORT, row.question, row.short_answer, row.short_start, row.short_text),
        (LONG, row.long_question, row.long_answer, row.long_start, row.long_text),
    ):
        asked = SlaqAsked(
            id=row.id, question_id=row.id, item=row.item, cluster=row.item, setting=setting, question=question,
            topic=row.topic, category=row.category, half="most", position=row.number, questions=[row.question],
            golds=[row.gold], fact_types=[row.fact_type], gold=row.gold,
        )  # fmt: skip
        if params.tokens == "gold":
            answer, text = answer[:start] + row.gold, row.gold  # noqa: PLW2901 - what stands in place of both
        calls.append(call_ablate(identity, fill_prompt(asked).messages(), answer, start, text, **how))
    return calls


def _read_ablated(row: PairedFact, calls: Sequence[Call], records: Any) -> AblatedFact:
    """Return a fact with the effects of its tokens; if an answer could not be ablated, with the reason."""
    tokens: dict[str, list[TokenEffect]] = {"short": [], "long": []}
    heads, unscored, detail = 0, "", ""
    for side, call in zip(tokens, calls, strict=True):
        reply = records[call.key].reply()
        if reply.status == "ok":
            heads, tokens[side] = read_effects(reply.body)
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
    return row.narrow(
        AblatedFact,
        heads=heads,
        short_tokens=tokens["short"],
        long_tokens=tokens["long"],
        short_call=calls[0].key,
        long_call=calls[1].key,
        unscored=unscored,
        detail=detail,
    )


def _open_service(work: Work, model: str) -> LocalCausalModel:
    """Return the service of a model; close the previous model's."""
    files = work.files(model)
    params = work.inputs(MechanismInputs).params
    code = digest_closure(list(_CODE), read_code())[:16]
    identity = f"ablation-{code}/{digest_model(files)[:16]}/{params.precision}"
    device = work.run.origin["flow"]["device"]
    with _opening:
        if not _opened or _opened[0].identity != identity:
            for each in _opened:
                each.close()
            _opened[:] = [LocalCausalModel(identity, files[0].path.parent, device, params.precision)]
        return _opened[0]
