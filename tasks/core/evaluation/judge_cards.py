"""The card of a judge: its agreement with human labels, its error rates, and cautions about them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pydantic import Field

from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.evaluation.human_labels import ItemToLabel, JudgeVerdictLabelScheme
from factmill.tasks.core.measures.agreement import (
    ClassPrecisionAndRecall,
    JudgeAgreement,
    RaterAgreement,
    compute_stratum_weights,
    format_few_labels_warning,
    make_confusion_table,
    measure_class_precision_and_recall,
    measure_judge_agreement,
    measure_rater_agreement,
)
from factmill.tasks.core.measures.judge_correction import JudgeErrorRates, measure_judge_rates
from factmill.tasks.core.prompts import format_prompt_digests
from factmill.tasks.core.rows import StrictModel


class JudgeIdentity(StrictModel):
    """Identity of a judge on one benchmark: a model with its prompts, or a program with its code."""

    benchmark: str
    judge: str
    """The model's name, or exact."""
    prompt_digest: str
    """Digest of the judge's prompts; for exact, which has none, of its code."""


class JudgeCard(StrictModel):
    """Agreement of a judge with human labels."""

    identity: JudgeIdentity
    labels_digest: str
    """SHA-256 of the file of labels; for several files, or imported labels, of their content."""
    source: str
    """Source of the verdicts: evaluations by id, or judged for this card."""
    n_unreadable: int
    """Labelled items on which the judge's completion could not be read; counted separately."""
    n_unjudged: int
    """Labelled items that the judge was not given, or on which it failed."""
    n_split: int
    """Items without a majority among their labels; left out."""
    among_people: RaterAgreement
    classes: list[str]
    is_ordinal: bool
    confusion: list[list[int]]
    """Numbers of items; rows: human label, columns: judge's verdict."""
    overall: JudgeAgreement
    """Agreement on the labelled items, unweighted."""
    reweighted: JudgeAgreement | None
    """Estimated agreement on all items that they were drawn from; null if they were not drawn."""
    as_right: JudgeAgreement | None
    """Agreement on right or wrong only, if there are more than two labels of which some are right; weighted like `main_agreement`."""
    by_class: list[ClassPrecisionAndRecall]
    by_setting: dict[str, JudgeAgreement]
    notes: list[str]
    drawn_of: tuple[str, ...] = ()
    """Evaluations that the labelled answers were drawn from; empty for answers from elsewhere."""
    own_prompts: dict[str, str] = Field(default_factory=dict)
    """Id → SHA-256 of the judge's prompts that were the user's own, in place of the packaged ones."""
    rates: dict[str, JudgeErrorRates] = Field(default_factory=dict)
    """Setting → sensitivity and specificity of the judge; the empty key: all settings. Empty if labels are ratings, and in
    cards of an earlier factmill."""

    @property
    def id(self) -> str:
        """Id of the card in the warehouse: digest of the judge and the labels."""
        return digest_json([self.identity.model_dump(), self.labels_digest])

    @property
    def main_agreement(self) -> JudgeAgreement:
        """The agreement to report: reweighted if there is one, else that of the labelled items."""
        return self.reweighted or self.overall


def make_judge_card(
    identity: JudgeIdentity,
    scheme: JudgeVerdictLabelScheme,
    labels: Mapping[str, Mapping[str, str]],
    items: Mapping[str, ItemToLabel],
    verdicts: Mapping[str, str],
    labels_digest: str,
    source: str,
    own_prompts: Mapping[str, str] = MappingProxyType({}),
) -> JudgeCard:
    """Make the card of a judge.

    `labels`: item → labeller → label; the commonest of an item counts. `verdicts`: item → verdict, if the judge was given
    it; empty: its completion could not be read. Drawn items are weighted by stratum, since the draw over-represents rare verdicts. `own_prompts`: id → digest of
    the judge's prompts that are the user's own.
    """
    classes = list(scheme.classes)
    chosen: dict[str, str] = {}
    for item, given in labels.items():
        (label, often), *others = Counter(sorted(given.values())).most_common()
        chosen[item] = "" if others and others[0][1] == often else label
    asked = [item for item in sorted(chosen) if chosen[item] and item in verdicts]
    used = [item for item in asked if verdicts[item]]
    drawn = [items[item] for item in used]
    people, judge = [chosen[item] for item in used], [verdicts[item] for item in used]
    clusters = [item.cluster for item in drawn]
    strata = [f"{item.draw} {item.stratum}" for item in drawn]
    sizes = {stratum: item.stratum_size for stratum, item in zip(strata, drawn, strict=True)}
    weights = compute_stratum_weights(strata, sizes) if drawn and all(item.draw for item in drawn) else None
    table = make_confusion_table(people, judge, classes)

    def agree(
        places: Sequence[int], weighted: Sequence[float] | None, right: frozenset[str] = frozenset()
    ) -> JudgeAgreement:
        first, second = ([side[place] for place in places] for side in (people, judge))
        if right:
            first, second = (["right" if label in right else "wrong" for label in side] for side in (first, second))
        return measure_judge_agreement(
            first,
            second,
            [clusters[place] for place in places],
            ["wrong", "right"] if right else classes,
            None if weighted is None else [weighted[place] for place in places],
            scheme.is_ordinal and not right,
        )

    # a draw stratified by another judge's verdicts does not determine how often this judge gives each verdict
    is_of_judge = len({*strata}) == len({*zip(strata, judge, strict=True)})

    def rate(places: Sequence[int]) -> JudgeErrorRates:
        chosen_weights = None if weights is None else [weights[place] for place in places]
        return measure_judge_rates(
            [people[place] in scheme.right_labels for place in places],
            [judge[place] in scheme.right_labels for place in places],
            [clusters[place] for place in places],
            chosen_weights,
            len(places) if chosen_weights is None or not is_of_judge else round(sum(chosen_weights)),
        )

    everything = range(len(used))
    by_setting = {
        name: [place for place in everything if drawn[place].setting == name]
        for name in sorted({item.setting for item in drawn})
        if name
    }
    overall = agree(everything, None)
    card = JudgeCard(
        identity=identity,
        labels_digest=labels_digest,
        source=source,
        n_unreadable=len(asked) - len(used),
        n_unjudged=sum(bool(label) for label in chosen.values()) - len(asked),
        n_split=sum(not label for label in chosen.values()),
        among_people=measure_rater_agreement(labels, classes),
        classes=classes,
        is_ordinal=scheme.is_ordinal,
        confusion=[[round(cell) for cell in row] for row in table.tolist()],
        overall=overall,
        reweighted=agree(everything, weights) if weights else None,
        as_right=agree(everything, weights, scheme.right_labels) if scheme.right_labels and len(classes) > 2 else None,
        by_class=measure_class_precision_and_recall(people, judge, classes, weights),
        by_setting={name: agree(places, weights) for name, places in by_setting.items()},
        notes=[],
        drawn_of=tuple(sorted({item.evaluation for item in drawn if item.evaluation})),
        own_prompts=dict(own_prompts),
        rates={
            name: rate(places)
            for name, places in [("", everything), *by_setting.items()]
            if scheme.right_labels and places
        },
    )
    warnings = [format_few_labels_warning(card.overall), card.main_agreement.note]
    return card.model_copy(update={"notes": list(dict.fromkeys(filter(None, warnings)))})


def find_judge_card_preferring_same_prompts(cards: Iterable[JudgeCard], identity: JudgeIdentity) -> JudgeCard | None:
    """Return the best card of a judge: one with its own prompts first, then the one with most labels; None without any."""
    fitting = [
        card for card in cards if (card.identity.benchmark, card.identity.judge) == (identity.benchmark, identity.judge)
    ]
    return max(fitting, key=lambda card: (card.identity == identity, card.overall.n, card.id), default=None)


def format_card_summary(card: JudgeCard | None, identity: JudgeIdentity) -> str:
    """Format a report's sentence about a judge; `identity`: the judge of the evaluation."""
    if card is None:
        return f"judge {identity.judge}: not checked against human labels"
    text = (
        f"checked judge: {identity.judge} agrees with human labels on {format_agreement(card.main_agreement)}; n = {card.overall.n}, labels "
        f"SHA-256 {card.labels_digest[:12]}"
    )
    if card.own_prompts:
        text += f"; the judge was asked with own prompts: {format_prompt_digests(card.own_prompts)}"
    if card.identity != identity:
        # exact is a program and has no prompt
        what = "code" if identity.judge == "exact" else "prompts"
        text += f"; the judge card was made with other {what} than this evaluation uses, so it corrects no rate"
    return "; ".join([text, *([few] if (few := format_few_labels_warning(card.overall)) else [])])


def format_agreement(agreement: JudgeAgreement) -> str:
    """Format accuracy and kappa with their intervals, as part of a line."""
    if agreement.accuracy is None:
        return f"nothing: {agreement.note}"
    text = f"{agreement.accuracy:.1%} [{agreement.accuracy_low:.1%}, {agreement.accuracy_high:.1%}], kappa "
    text += _format_estimate(agreement.kappa, agreement.kappa_low, agreement.kappa_high)
    if agreement.weighted_kappa is not None:
        text += f", quadratic kappa {_format_estimate(agreement.weighted_kappa, agreement.weighted_kappa_low, agreement.weighted_kappa_high)}"
    return text


def format_rater_agreement(agreement: RaterAgreement) -> str:
    """Format the agreement between labellers as a line."""
    kind = {"cohen": "Cohen's kappa ", "fleiss": "Fleiss' kappa ", "": ""}[agreement.kind]
    kappa = agreement.note if agreement.kappa is None else f"{kind}{agreement.kappa:.3f}"
    text = (
        f"{agreement.labellers} people; they agree on {agreement.agreed} of {agreement.items} items with several labels"
    )
    return "; ".join(filter(None, (text, kappa)))


def format_judge_card(card: JudgeCard) -> list[str]:
    """Format a card as lines of text."""
    people = card.among_people
    lines = [
        f"{card.identity.judge} on {card.identity.benchmark}, compared with human labels (labels: {card.overall.n}, questions: "
        f"{card.overall.clusters}; SHA-256 {card.labels_digest[:12]})"
    ]
    if card.reweighted:
        lines.append(f"  weighted by stratum      {format_agreement(card.reweighted)}")
    lines.append(f"  {'the labelled items':24} {format_agreement(card.overall)}")
    lines += [f"  {'right or wrong only':24} {format_agreement(card.as_right)}"] if card.as_right else []
    lines += [f"  setting {name:16} {format_agreement(each)} (n = {each.n})" for name, each in card.by_setting.items()]
    lines += [
        f"  {f'setting {name}' if name else 'all settings':24} sensitivity "
        f"{_format_estimate(each.sensitivity, each.sensitivity_low, each.sensitivity_high)}, specificity "
        f"{_format_estimate(each.specificity, each.specificity_low, each.specificity_high)}"
        for name, each in card.rates.items()
    ]
    width = max(map(len, [*card.classes, "people \\ judge"])) + 2
    lines.append("  " + "people \\ judge".ljust(width) + "".join(label.rjust(8) for label in card.classes))
    lines += [
        "  " + label.ljust(width) + "".join(str(cell).rjust(8) for cell in row)
        for label, row in zip(card.classes, card.confusion, strict=True)
    ]
    lines += [
        f"  label {each.label:18} precision {_format_share_to_3_decimals(each.precision)}, recall {_format_share_to_3_decimals(each.recall)}, F1 {_format_share_to_3_decimals(each.f1)}"
        for each in card.by_class
    ]
    lines += [f"  {format_rater_agreement(people)}"] if people.labellers > 1 else []
    apart = {
        "verdicts could not be read": card.n_unreadable,
        "labelled items have no verdict of this judge": card.n_unjudged,
        "items are left out because their labels are tied": card.n_split,
    }
    lines += [f"  {count} {what}" for what, count in apart.items() if count]
    lines += [f"  own prompts of the judge: {format_prompt_digests(card.own_prompts)}"] if card.own_prompts else []
    lines.append(f"  verdicts: {card.source}")
    return lines + [f"  note: {note}" for note in card.notes]


def _format_estimate(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.3f}" if low is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _format_share_to_3_decimals(share: float | None) -> str:
    return "–" if share is None else f"{share:.3f}"
