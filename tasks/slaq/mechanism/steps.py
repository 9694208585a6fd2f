"""Steps of the mechanistic analysis: facts are drawn, their answers paired, ablated and compared (paper §5)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
from prefect import task

from tasks import progress
from tasks.assets import load_list, load_prompt
from tasks.core.calls.call import Call
from tasks.core.evaluation.frame import frame, make_boundary
from tasks.core.prompts import fill_in
from tasks.core.receipts import Batch, Receipt
from tasks.core.replies import UNREADABLE_KINDS
from tasks.core.rows import Reject, rows_from_arrow
from tasks.engine.batches import Work, batch_key, work_on
from tasks.engine.naming.import_closure import digest_closure
from tasks.engine.naming.own_code import read_code
from tasks.errors import UsageError
from tasks.evaluation.record import EXACT
from tasks.slaq.core.evaluation.answers import LONG, SHORT, SlaqAsked
from tasks.slaq.core.mechanism.calls import call_ablate, read_effects, read_failure
from tasks.slaq.core.mechanism.choosing import count_kinds, format_kinds
from tasks.slaq.core.mechanism.pairing import PART_LINE, pair_by_judge, pair_fact, read_part
from tasks.slaq.core.mechanism.rows import (
    FEATURES,
    AblatedFact,
    ComparedFact,
    Fact,
    Kind,
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
from tasks.slaq.mechanism.record import PAIR, PAIRS, MechanismInputs
from tasks.storage.source_files import SourceFile

_CODE = ("tasks.slaq.mechanism.ablating", "tasks.slaq.mechanism.encoding")
"""What recorded ablations depend on, beside the model."""
_FACTS_AT_ONCE = 10
"""Facts of a kind that are drawn, paired and ablated before it is counted again how many are lacking."""
_MAY_PASS = ("out_of_memory", "judge_failed")
"""Why a fact is unscored that the same command may score the next time, so none is drawn in its place."""
_opened: list[LocalCausalModel] = []
"""The model at hand: one at a time, since two may not fit into memory."""
_opening = Lock()


@task(cache_key_fn=batch_key, persist_result=True)
def ablate_answered_facts(batch: Batch) -> Receipt:
    """Draw facts of one model's evaluation (§5.2), pair their answers (Appendix A.4) and ablate the model for them (§5.1).

    The draw goes on until `per_kind` facts of each kind are scored or none is left. Each answer is a recorded call.
    """
    work = work_on(batch)
    inputs = work.inputs(MechanismInputs)
    subject = next(each for each in inputs.subjects if each.model == batch.unit)
    drawn = choose_of(Path(work.run.options["warehouse"]), subject, inputs.params).drawn
    waiting = {kind: iter(facts) for kind, facts in drawn.items()}
    found: list[AblatedFact] = []
    while facts := [*_draw_more(waiting, found, inputs.params.per_kind)]:
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


def _draw_more(waiting: Mapping[Kind, Iterator[Fact]], found: Sequence[AblatedFact], per_kind: int) -> Iterator[Fact]:
    """Yield the next facts of each kind, as many as it lacks and ten at most; at first one of each kind, which shows what the
    model cannot do before much is computed."""
    for kind, facts in waiting.items():
        counted = sum(row.kind == kind and (not row.unscored or row.unscored in _MAY_PASS) for row in found)
        yield from islice(facts, min(per_kind - counted, _FACTS_AT_ONCE if found else 1))


def _require_positive(rows: Sequence[AblatedFact]) -> None:
    """UsageError where half of a fact's tokens or more have a logit of 0 or less: so it goes on with all facts of such a model."""
    for row in rows:
        tokens = [*row.short_tokens, *row.long_tokens]
        if tokens and 2 * sum(each.base <= 0 for each in tokens) >= len(tokens):
            raise UsageError(
                f"{row.model}: in the fact {row.id} {row.detail}. Facts of this model would remain unscored, so nothing more is "
                "ablated: give --centre"
            )


def _pair(work: Work, facts: Sequence[Fact]) -> list[PairedFact]:
    """Return facts with what of the long answer states each of them."""
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
    """Return facts with what carries the tokens of both answers."""
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
    sides = (
        (SHORT, row.short_answer, row.short_start, row.short_text),
        (LONG, row.long_answer, row.long_start, row.long_text),
    )
    short, long = (
        call_ablate(
            identity,
            _ask(row, setting),
            *((answer, start, text) if params.tokens == "answer" else (answer[:start] + row.gold, start, row.gold)),
            recover=params.recover,
            largest_set=params.largest_set,
            centre=params.centre,
        )
        for setting, answer, start, text in sides
    )
    return short, long


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
