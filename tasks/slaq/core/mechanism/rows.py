"""Rows of SLAQ's mechanistic analysis: a fact that was answered short and long, and what carries its tokens in a model (paper §5).

Facts are drawn from those that a model answered right in both ways, and those that it got right in one (§5.2).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from factmill.tasks.core.measures.audits import draw_sample
from factmill.tasks.core.rows import Row, StrictModel
from factmill.tasks.slaq.core.evaluation.answers import LONG, SHORT

Kind = Literal["aligned", "misaligned"]
"""Aligned: right in both answers; misaligned: right in one of them. What is wrong in both is not looked at (§5)."""
Side = Literal["short", "long"]
Unscored = Literal[
    "",
    "no_answer",
    "not_in_long_answer",
    "text_not_found",
    "judge_failed",
    "judge_unreadable",
    "too_long",
    "base_not_positive",
    "nan_logits",
    "out_of_memory",
    "set_not_reached",
    "constant",
]
"""Why there is no similarity: an answer is empty; the long answer says nothing that the short one does; a text of the file of
pairs is not in the answer; the judge that pairs failed, or its reply cannot be read; prompt and answer are longer than the model reads; a token's logit is not above 0, so no share of
it can be lost; logits are no numbers; one row alone does not fit into memory; no set of components of the size allowed recovers
a token's logit; importances that do not vary have no correlation. Empty: scored."""


class Fact(Row):
    """A fact as one model answered it; the id is `model/topic/number`."""

    model: str
    """Name of the model's folder."""
    asked_as: str
    """What the evaluation calls the model that gave the answers."""
    item: str
    """Row of the measured build: the topic."""
    number: int
    """Place of the fact in the long question, 1 to 5."""
    topic: str
    """Title of the article that the fact is from."""
    category: str
    """Category that the article was drawn from."""
    fact_type: str
    """OntoNotes class of the gold answer; `none` for what is no entity."""
    question: str
    """The short question."""
    long_question: str
    """The long question, which asks for five facts."""
    gold: str
    """The gold answer."""
    short_answer: str
    """As the model gave it, read as it was judged."""
    long_answer: str
    """Likewise, to the long question."""
    right_short: int
    """1 where the short answer is right, else 0."""
    right_long: int
    """1 where the long answer has the fact right, else 0."""
    kind: Kind
    """aligned: right in both answers; misaligned: right in one."""


class PairedFact(Fact):
    """A fact with what of both answers states it."""

    short_text: str
    """The part of the short answer whose tokens count: all of it, unless the file of pairs says otherwise. With `--tokens gold`
    the gold answer stands in its place."""
    long_text: str
    """The part of the long answer that corresponds to it."""
    short_start: int
    """Where it begins in the short answer, in characters."""
    long_start: int
    """Where the part begins in the long answer, in characters."""
    matched: float | None
    """Share of the short answer's content words that the long answer's part has; null unless paired by alignment."""
    paired_by: Literal["file", "position", "judge", "alignment", ""]
    """What found the part of the long answer; empty where nothing did."""
    unscored: Unscored
    """Why the fact has no similarities, or lacks one; empty where it has all."""
    detail: str
    """One sentence about that."""


class TokenEffect(StrictModel):
    """What carries one token of an answer."""

    token: str
    """Its text."""
    base: float
    """Its logit, with nothing ablated."""
    importances: list[float]
    """(base − ablated) ÷ base of each component, layer by layer: its heads, then its MLP. To six digits; none where a token of
    the answer has a logit of 0 or less, since nothing is ablated for it."""
    chosen: list[int]
    """The minimal set: places of components in `importances`, most important first; empty where it was not reached."""
    recovered: float | None
    """Share of the logit that the set alone gives; null where no set of the size allowed gives enough."""


class AblatedFact(PairedFact):
    """A fact with what carries the tokens of both answers."""

    heads: int
    """Attention heads a layer; 0 where nothing was ablated."""
    short_tokens: list[TokenEffect]
    long_tokens: list[TokenEffect]
    short_call: str
    """Key of the recorded ablation."""
    long_call: str


class Similarities(StrictModel):
    """How alike two tokens, or two answers, are carried: the paper's six measures."""

    containment: float | None
    """Components in both minimal sets, of the smaller set."""
    iou: float | None
    """Components in both minimal sets, of those in either."""
    pearson_attention: float | None
    spearman_attention: float | None
    pearson_mlp: float | None
    spearman_mlp: float | None


class ComparedFact(PairedFact):
    """A row of the published table `slaq_mechanism`."""

    short_tokens: int
    """Tokens that count in the short answer."""
    long_tokens: int
    """Tokens that count in the long answer."""
    containment: float | None
    """Of the six measures: weighted by the transport of least cost between the tokens of both answers (earth mover's distance)."""
    iou: float | None
    """Likewise: components in both minimal sets, of those in either."""
    pearson_attention: float | None
    """Pearson's correlation of the importances of attention heads."""
    spearman_attention: float | None
    """Spearman's correlation of the importances of attention heads."""
    pearson_mlp: float | None
    """Pearson's correlation of the importances of MLPs."""
    spearman_mlp: float | None
    """Spearman's correlation of the importances of MLPs."""
    hungarian: Similarities
    """The same by the best assignment of tokens one to one; what the longer answer has beyond is left out."""


class TokenRow(Row):
    """A row of the published table `slaq_mechanism_tokens`; the id is `model/topic/number/side/place`."""

    fact: str
    """Row of `slaq_mechanism`."""
    side: Side
    """Answer that the token is of: short or long."""
    place: int
    """Of the token among those that count, from 1."""
    token: str
    """Its text."""
    base: float
    """Its logit, with nothing ablated."""
    components: list[str]
    """The minimal set, most important first: L3.H5 is an attention head, L3.MLP a layer's MLP, both from 0; empty where none
    of the size allowed recovers the logit."""
    recovered: float | None
    """Share of the logit that the set alone gives."""
    heads: int
    """Attention heads a layer."""
    importances: list[float]
    """Of all components, layer by layer: its heads, then its MLP; none where nothing was ablated."""


FEATURES = tuple(Similarities.model_fields)
"""The six measures, in the paper's order."""


def choose_facts(
    answers: Iterable[Mapping[str, Any]], model: str, asked_as: str, seed: int
) -> tuple[dict[Kind, tuple[Fact, ...]], dict[str, int]]:
    """Return all facts of each kind in an order that the seed gives, and what there was to choose from.

    `answers`: rows of `slaq_answers` in both settings. The counts: aligned, misaligned, wrong_in_both, unscored → facts.
    """
    rows = list(answers)
    long = {row["item"]: row for row in rows if row["setting"] == LONG}
    short = {(row["item"], row["position"]): row for row in rows if row["setting"] == SHORT and row["item"] in long}
    facts: dict[Kind, dict[str, Fact]] = {kind: {} for kind in get_args(Kind)}
    others = {"wrong_in_both": 0, "unscored": 0}
    for (item, number), row in short.items():
        whole = long[item]
        if not row["verdicts"] or len(whole["verdicts"]) < number:
            others["unscored"] += 1
            continue
        right = row["verdicts"][0], whole["verdicts"][number - 1]
        if not any(right):
            others["wrong_in_both"] += 1
            continue
        kind: Kind = "aligned" if all(right) else "misaligned"
        fact = Fact(
            id=f"{model}/{item}/{number}",
            model=model,
            asked_as=asked_as,
            item=item,
            number=number,
            topic=row["topic"],
            category=row["category"],
            fact_type=row["fact_types"][0],
            question=row["question"],
            long_question=whole["question"],
            gold=row["gold"],
            short_answer=row["answer_read"],
            long_answer=whole["answer_read"],
            right_short=right[0],
            right_long=right[1],
            kind=kind,
        )
        facts[kind][fact.id] = fact
    drawn = {kind: tuple(mine[each] for each in draw_sample(mine, len(mine), seed)) for kind, mine in facts.items()}
    return drawn, {**{kind: len(mine) for kind, mine in drawn.items()}, **others}


def count_kinds(facts: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return kind → facts that were drawn, and those of them that lack a similarity; `facts`: kind and reason, empty for none."""
    drawn = Counter((kind, bool(reason)) for kind, reason in facts)
    return {
        kind: {"drawn": drawn[kind, False] + drawn[kind, True], "unscored": drawn[kind, True]}
        for kind in get_args(Kind)
    }


def format_kinds(kinds: Mapping[str, Mapping[str, int]]) -> str:
    """Return counts as a text to read: of each kind, how many facts are scored."""
    return ", ".join(
        f"{each['drawn'] - each['unscored']} of {each['drawn']} {kind} facts" for kind, each in kinds.items()
    )
