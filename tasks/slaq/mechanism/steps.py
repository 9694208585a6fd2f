"""Steps of the mechanistic analysis: facts are chosen, their answers paired, ablated and compared (paper §5)."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
from prefect import task

from tasks.assets import load_list
from tasks.core.calls.call import Call
from tasks.core.receipts import Batch, Receipt
from tasks.core.rows import rows_from_arrow
from tasks.engine.batches import Work, batch_key, work_on
from tasks.engine.naming.import_closure import digest_closure
from tasks.engine.naming.own_code import read_code
from tasks.slaq.core.evaluation.answers import LONG, SHORT, SlaqAsked
from tasks.slaq.core.mechanism.calls import call_ablate, read_effects, read_failure
from tasks.slaq.core.mechanism.pairing import pair_fact
from tasks.slaq.core.mechanism.rows import (
    FEATURES,
    AblatedFact,
    ComparedFact,
    Fact,
    PairedFact,
    Side,
    Similarities,
    TokenEffect,
    TokenRow,
)
from tasks.slaq.core.mechanism.similarity import assign, compare_answers, name_component, transport
from tasks.slaq.evaluation.ask import fill_prompt
from tasks.slaq.mechanism.choose import choose_of
from tasks.slaq.mechanism.extra import import_extra
from tasks.slaq.mechanism.local_model import LocalCausalModel, digest_model
from tasks.slaq.mechanism.pairs_file import read_pairs
from tasks.slaq.mechanism.record import PAIRS, MechanismInputs
from tasks.storage.source_files import SourceFile

_CODE = ("tasks.slaq.mechanism.ablating", "tasks.slaq.mechanism.encoding")
"""What recorded ablations depend on, beside the model."""
_opened: list[LocalCausalModel] = []
"""The model at hand: one at a time, since two may not fit into memory."""
_opening = Lock()


@task(cache_key_fn=batch_key, persist_result=True)
def choose_answered_facts(batch: Batch) -> Receipt:
    """Take the facts of one model's evaluation that are looked at: right in both answers, or in one (§5.2)."""
    work = work_on(batch)
    inputs = work.inputs(MechanismInputs)
    subject = next(each for each in inputs.subjects if each.model == batch.unit)
    facts = choose_of(Path(work.run.options["warehouse"]), subject, inputs.params).facts
    for fact in facts:
        work.take(fact.id, fact.model_dump_json())
    return work.finish(facts, Fact)


@task(cache_key_fn=batch_key, persist_result=True)
def pair_answers(batch: Batch) -> Receipt:
    """Find what of each long answer states the fact of the short one (Appendix A.4)."""
    work = work_on(batch)
    params = work.inputs(MechanismInputs).params
    files = work.files(PAIRS)
    chosen = read_pairs(files[0]) if files else {}
    words = frozenset(load_list("function_words"))
    paired = (pair_fact(row, words, params.least_matched, chosen) for row in work.rows(Fact))
    return work.finish(paired, PairedFact)


@task(cache_key_fn=batch_key, persist_result=True)
def ablate_answers(batch: Batch) -> Receipt:
    """Ablate each component of the model for the tokens of both answers (§5.1); each answer is a recorded call."""
    work = work_on(batch)
    rows = work.rows(PairedFact)
    found: dict[str, AblatedFact] = {}
    for model in dict.fromkeys(row.model for row in rows):
        service = _open_service(work, model)
        mine = [row for row in rows if row.model == model and not row.unscored]
        asked = {row.id: _list_calls(work, service.identity, row) for row in mine}
        records = work.call(service, ((row_id, call) for row_id, calls in asked.items() for call in calls))
        found |= {row.id: _read_ablated(row, asked[row.id], records) for row in mine}
    # what did not fit into memory may the next time, on another device
    work.unsettled += sum(row.unscored == "out_of_memory" for row in found.values())
    bare: dict[str, Any] = {"heads": 0, "short_tokens": [], "long_tokens": [], "short_call": "", "long_call": ""}
    return work.finish((found.get(row.id) or row.extend(AblatedFact, **bare) for row in rows), AblatedFact)


@task(cache_key_fn=batch_key, persist_result=True)
def compare_answers_of_facts(batch: Batch) -> Receipt:
    """Join the tokens of both answers by optimal transport, and say how alike they are carried (§5.1, equations 7 to 9)."""
    work = work_on(batch)
    return work.finish((compare_fact(row) for row in work.rows(AblatedFact)), ComparedFact)


def compare_fact(row: AblatedFact) -> ComparedFact:
    """Return a fact with its similarities, or with the reason why it has none."""
    none = dict.fromkeys(FEATURES)
    counts = {"short_tokens": len(row.short_tokens), "long_tokens": len(row.long_tokens)}
    if row.unscored:
        return row.narrow(ComparedFact, **counts, **none, hungarian=none)
    emd, solve = import_extra("ot").emd, import_extra("scipy.optimize").linear_sum_assignment
    found, check = (
        compare_answers(row.short_tokens, row.long_tokens, row.heads, join)
        for join in (partial(transport, emd=emd), partial(assign, solve=solve))
    )
    reason, detail = _explain_missing(row, found)
    return row.narrow(ComparedFact, **counts, **found.model_dump(), hungarian=check, unscored=reason, detail=detail)


def list_tokens(rows: pa.Table) -> list[TokenRow]:
    """Return what carries each token of facts (rows of `AblatedFact`), as rows of the published table."""
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


def _explain_missing(row: AblatedFact, found: Similarities) -> tuple[str, str]:
    """Return why a fact lacks a measure, as reason and detail; nothing where it has all."""
    missing = [name for name, value in found.model_dump().items() if value is None]
    if not missing:
        return "", ""
    tokens = [*row.short_tokens, *row.long_tokens]
    without = [each.token for each in tokens if each.recovered is None]
    if without:
        return "set_not_reached", (
            f"{len(without)} of {len(tokens)} tokens have no set of the size allowed that gives enough of their logit, the first "
            f"{without[0]!r}: no {', '.join(missing)}"
        )
    return "constant", f"importances of a token do not vary: no {', '.join(missing)}"


def _list_calls(work: Work, identity: str, row: PairedFact) -> tuple[Call, Call]:
    params = work.inputs(MechanismInputs).params
    options = {"recover": params.recover, "largest_set": params.largest_set, "centre": params.centre}
    return (
        call_ablate(
            identity,
            _ask(row, SHORT),
            row.short_answer,
            row.short_start,
            row.short_text,
            **options,  # type: ignore[arg-type]
        ),
        call_ablate(
            identity,
            _ask(row, LONG),
            row.long_answer,
            row.long_start,
            row.long_text,
            **options,  # type: ignore[arg-type]
        ),
    )


def _ask(row: Fact, setting: str) -> list[dict[str, Any]]:
    """Return the messages in which the evaluation asked for a fact."""
    question = row.question if setting == SHORT else row.long_question
    asked = SlaqAsked(
        id=row.id, question_id=row.id, item=row.item, cluster=row.item, setting=setting, question=question,
        topic=row.topic, category=row.category, half="most", position=row.number, questions=[row.question],
        golds=[row.gold], fact_types=[row.fact_type], gold=row.gold,
    )  # fmt: skip
    return fill_prompt(asked).messages()


def _read_ablated(row: PairedFact, calls: tuple[Call, Call], records: Any) -> AblatedFact:
    """Return a fact with what carries its tokens; where one answer could not be ablated, with the reason."""
    tokens: list[list[TokenEffect]] = []
    heads, why = 0, ("", "")
    for side, call in zip(("short", "long"), calls, strict=True):
        reply = records[call.key].reply()
        if reply.status == "ok":
            heads, effects = read_effects(reply.body)
            tokens.append(effects)
        else:
            tokens.append([])
            reason, detail = read_failure(reply)
            why = why if why[0] else (reason, f"the {side} answer: {detail}")
    below = [each for each in (*tokens[0], *tokens[1]) if each.base <= 0]
    if below and not why[0]:
        why = (
            "base_not_positive",
            (
                f"{len(below)} of {len(tokens[0]) + len(tokens[1])} tokens have a logit that is not above 0, the first "
                f"{below[0].token!r} ({below[0].base:.3f}): no share of it can be lost; --centre measures logits from their mean"
            ),
        )
    return row.narrow(
        AblatedFact,
        heads=heads,
        short_tokens=tokens[0],
        long_tokens=tokens[1],
        short_call=calls[0].key,
        long_call=calls[1].key,
        unscored=why[0],
        detail=why[1],
    )


def _open_service(work: Work, model: str) -> LocalCausalModel:
    """Return a model as a service; the one before is closed."""
    files = work.files(model)
    params = work.inputs(MechanismInputs).params
    code = digest_closure(list(_CODE), read_code(("tasks",)))[:16]
    identity = f"ablation-{code}/{digest_model(files)[:16]}/{params.precision}"
    device = work.run.origin["flow"]["device"]
    with _opening:
        if not _opened or _opened[0].identity != identity:
            for each in _opened:
                each.close()
            _opened[:] = [LocalCausalModel(identity, files[0].path.parent, device, params.precision)]
        return _opened[0]


def count_missing(rows: pa.Table) -> dict[str, int]:
    """Return reason → facts that lack a similarity for it, most first."""
    return dict(Counter(each for each in rows["unscored"].to_pylist() if each).most_common())


def find_first_details(rows: pa.Table) -> dict[str, str]:
    """Return reason → the particulars of the first fact that lacks a similarity for it."""
    pairs = zip(rows["unscored"].to_pylist(), rows["detail"].to_pylist(), strict=True)
    return {reason: detail for reason, detail in reversed(list(pairs)) if reason}


def count_unused_pairs(files: Sequence[SourceFile], rows: pa.Table) -> int:
    """Return how many pairs of the file are of no fact that was looked at."""
    return len(read_pairs(files[0]).keys() - set(rows["id"].to_pylist())) if files else 0
