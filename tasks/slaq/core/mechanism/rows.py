"""Rows of SLAQ's mechanistic analysis: a fact answered short and long, and the model components that carry its tokens
(paper §5).

Facts are drawn from those that a model got right in both answers, and those that it got right in one (§5.2).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from factmill.tasks.core.measures.audits import draw_audit_sample_ids
from factmill.tasks.core.rows import Row, StrictModel
from factmill.tasks.slaq.core.evaluation.answers import LONG_SETTING, SHORT_SETTING

FactKind = Literal["aligned", "misaligned"]
"""Aligned: right in both answers; misaligned: right in one. Facts wrong in both are not analysed (§5)."""
AnswerSide = Literal["short", "long"]
UnscoredFactReason = Literal[
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
"""Why there is no similarity, in this order: an answer is empty; the long answer does not state the short one; a text
of the file of pairs is not in the answer; the judge that pairs failed; its reply cannot be read; prompt and answer
exceed the model's context; a token's logit is not above 0, so no share of it can be lost; logits are NaN or infinite; a
single row does not fit into memory; no set of components of the allowed size recovers a token's logit; importances do
not vary, so they have no correlation. Empty: scored."""


class FactAnsweredByOneModel(Row):
    """A fact as one model answered it; the id is `model/topic/number`."""

    model: str
    """Name of the model's folder."""
    asked_as: str
    """The evaluation's name for the model that gave the answers."""
    item: str
    """Row id of the topic in the measured build."""
    number: int
    """Place of the fact in the long question, 1 to 5."""
    topic: str
    """Title of the article that the fact is from."""
    category: str
    """Category that the article was drawn from."""
    fact_type: str
    """OntoNotes class of the gold answer; `none` if it is not an entity."""
    question: str
    """The short question."""
    long_question: str
    """The long question, which asks for five facts."""
    gold: str
    """The gold answer."""
    short_answer: str
    """The model's answer to the short question, in the form that was judged."""
    long_answer: str
    """The model's answer to the long question, likewise."""
    right_short: int
    """1 if the short answer is right, else 0."""
    right_long: int
    """1 if the long answer has the fact right, else 0."""
    kind: FactKind
    """aligned: right in both answers; misaligned: right in one."""


class FactInShortAndLongAnswer(FactAnsweredByOneModel):
    """A fact with the parts of both answers that state it."""

    short_text: str
    """The part of the short answer whose tokens count: all of it, unless the file of pairs says otherwise. With `--tokens gold`
    the gold answer replaces it."""
    long_text: str
    """The part of the long answer that corresponds to it."""
    short_start: int
    """Start of the part in the short answer, in characters."""
    long_start: int
    """Start of the part in the long answer, in characters."""
    matched: float | None
    """Share of the short answer's content words in the long answer's part; null unless paired by alignment."""
    paired_by: Literal["file", "position", "judge", "alignment", ""]
    """How the part of the long answer was found; empty if it was not."""
    unscored: UnscoredFactReason
    """Why the fact lacks one or all similarities; empty if it has all."""
    detail: str
    """One sentence that explains `unscored`."""


class TokenComponentImportances(StrictModel):
    """The components that carry one token of an answer."""

    token: str
    """Text of the token."""
    base: float
    """Logit of the token with nothing ablated."""
    importances: list[float]
    """(base − ablated) ÷ base for each component, layer by layer: its heads, then its MLP. Six digits; empty if any
    token of the answer has a logit of 0 or less, since nothing is ablated then."""
    chosen: list[int]
    """The minimal set: indices of components in `importances`, most important first; empty if none was found."""
    recovered: float | None
    """Share of the logit that the set alone gives; null if no set of the allowed size gives enough."""


class AblatedFact(FactInShortAndLongAnswer):
    """A fact with the components that carry the tokens of both answers."""

    heads: int
    """Attention heads a layer; 0 if nothing was ablated."""
    short_tokens: list[TokenComponentImportances]
    long_tokens: list[TokenComponentImportances]
    short_call: str
    """Key of the recorded ablation."""
    long_call: str


class ComponentSimilarityMeasures(StrictModel):
    """The paper's six measures of how alike the components of two tokens, or two answers, are."""

    containment: float | None
    """Share of the smaller minimal set that is in both sets."""
    iou: float | None
    """Intersection of the minimal sets divided by their union."""
    pearson_attention: float | None
    spearman_attention: float | None
    pearson_mlp: float | None
    spearman_mlp: float | None


class FactWithComponentSimilarities(FactInShortAndLongAnswer):
    """A fact in a model's short and long answer, with the similarity of the components that carry it (§5.2)."""

    short_tokens: int
    """Tokens of the short answer that count."""
    long_tokens: int
    """Tokens of the long answer that count."""
    containment: float | None
    """Share of the smaller minimal set that is in both sets. All six measures are weighted by the transport of least
    cost between the tokens of both answers (earth mover's distance)."""
    iou: float | None
    """Intersection of the minimal sets divided by their union."""
    pearson_attention: float | None
    """Pearson's correlation of the importances of attention heads."""
    spearman_attention: float | None
    """Spearman's correlation of the importances of attention heads."""
    pearson_mlp: float | None
    """Pearson's correlation of the importances of MLPs."""
    spearman_mlp: float | None
    """Spearman's correlation of the importances of MLPs."""
    hungarian: ComponentSimilarityMeasures
    """The same measures by the best one-to-one assignment of tokens, without the longer answer's surplus tokens."""


class TokenRowWithComponentImportances(Row):
    """A token of an answer with the importance of every component of the model; the id is `model/topic/number/side/place`."""

    fact: str
    """Row id in `slaq_mechanism`."""
    side: AnswerSide
    """Answer that contains the token: short or long."""
    place: int
    """Number of the token among those that count, from 1."""
    token: str
    """Text of the token."""
    base: float
    """Logit of the token with nothing ablated."""
    components: list[str]
    """The minimal set, most important first: L3.H5 is an attention head, L3.MLP a layer's MLP, both from 0; empty if no
    set of the allowed size recovers the logit."""
    recovered: float | None
    """Share of the logit that the set alone gives."""
    heads: int
    """Attention heads a layer."""
    importances: list[float]
    """Importance of each component, layer by layer: its heads, then its MLP; empty if nothing was ablated."""


SIMILARITY_MEASURES = tuple(ComponentSimilarityMeasures.model_fields)
"""The six measures, in the paper's order."""


def shuffle_and_count_facts_by_kind(
    answers: Iterable[Mapping[str, Any]], model: str, asked_as: str, seed: int
) -> tuple[dict[FactKind, tuple[FactAnsweredByOneModel, ...]], dict[str, int]]:
    """Return all facts of each kind in a random order by seed, and the counts that they were drawn from.

    `answers`: rows of `slaq_answers` in both settings. The counts: aligned, misaligned, wrong_in_both, unscored → facts.
    """
    rows = list(answers)
    long = {row["item"]: row for row in rows if row["setting"] == LONG_SETTING}
    facts: dict[FactKind, dict[str, FactAnsweredByOneModel]] = {kind: {} for kind in get_args(FactKind)}
    others = {"wrong_in_both": 0, "unscored": 0}
    for row in (row for row in rows if row["setting"] == SHORT_SETTING and row["item"] in long):
        item, number, long_row = row["item"], row["position"], long[row["item"]]
        if not row["verdicts"] or len(long_row["verdicts"]) < number:
            others["unscored"] += 1
            continue
        right = row["verdicts"][0], long_row["verdicts"][number - 1]
        if not any(right):
            others["wrong_in_both"] += 1
            continue
        kind: FactKind = "aligned" if all(right) else "misaligned"
        fact = FactAnsweredByOneModel(
            id=f"{model}/{item}/{number}",
            model=model,
            asked_as=asked_as,
            item=item,
            number=number,
            topic=row["topic"],
            category=row["category"],
            fact_type=row["fact_types"][0],
            question=row["question"],
            long_question=long_row["question"],
            gold=row["gold"],
            short_answer=row["answer_read"],
            long_answer=long_row["answer_read"],
            right_short=right[0],
            right_long=right[1],
            kind=kind,
        )
        facts[kind][fact.id] = fact
    drawn = {
        kind: tuple(by_id[each] for each in draw_audit_sample_ids(by_id, len(by_id), seed))
        for kind, by_id in facts.items()
    }
    return drawn, {**{kind: len(of_kind) for kind, of_kind in drawn.items()}, **others}


def count_drawn_and_unscored_by_kind(facts: Iterable[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return kind → facts drawn, and those that lack a similarity; `facts`: kind and reason (empty: scored)."""
    drawn = Counter((kind, bool(reason)) for kind, reason in facts)
    return {
        kind: {"drawn": drawn[kind, False] + drawn[kind, True], "unscored": drawn[kind, True]}
        for kind in get_args(FactKind)
    }


def format_scored_fact_counts(kinds: Mapping[str, Mapping[str, int]]) -> str:
    """Format counts for people: how many facts of each kind are scored."""
    return ", ".join(
        f"{each['drawn'] - each['unscored']} of {each['drawn']} {kind} facts" for kind, each in kinds.items()
    )
