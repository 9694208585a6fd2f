"""Score answers: refusals, aggregated answers, GRANOLA accuracy, informativeness (paper Definition 1, §4, §5.1, §5.4).

A prediction matches a level when its token F1 with one of the level's acceptable answers exceeds τ; the finest matched
level counts. Tokens come from the normal form (SQuAD's, extended to all alphabets: text/text_normalization.py), so an answer in
another script than the gold answer matches nothing. All functions are pure: columns in, numpy arrays with one entry per
item out.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.core.evaluation.answers import CommonestAnswerGuesser
from factmill.tasks.core.evaluation.rows import REASONS_COUNTED_WRONG
from factmill.tasks.text.text_normalization import normalize_answer, normalized_words

_NOT_AVAILABLE = re.compile(r"\W*n\s*[./]\s*a\W*", re.IGNORECASE)

_REFUSAL_OPENING = r"(?:(?:im|i am|we are|were) (?:\w+ )?(?:sorry|afraid)|sorry|apologies|my apologies|i apologi[sz]e|unfortunately|honestly|well|but|that)"
_NEGATION = r"(?:do not|dont|did not|didnt|does not|doesnt)"
_CANNOT = r"(?:can ?not|cant|could not|couldnt|(?:am |are |im |were )?(?:unable|not able) to)"
_KNOW_VERBS = r"(?:know|recall|remember|have (?:\w+ )*?(?:information|info|knowledge|idea|clue|data|answer|details))"
_ANSWER_VERBS = r"(?:answer|say|tell|determine|recall|remember|provide|find|confirm|verify|identify|help|assist|comply|be (?:sure|certain))"
_SURE_ADJECTIVES = r"(?:sure|certain|aware|confident|familiar)"
_IDK_PHRASES = (
    r"idk|dunno|no idea|no clue|unknown|not known|unclear|unsure|uncertain|no answer|not enough information"
    rf"|(?:it|that|this|answer) is (?:not known|unknown|unclear)|its unknown|not {_SURE_ADJECTIVES}|dont know|do not know"
)
_IDK_SENTENCES = (
    rf"idk|(?:i|we) (?:\w+ )?{_NEGATION} (?:\w+ )?{_KNOW_VERBS}|(?:i |we )?(?:\w+ )?{_CANNOT} {_ANSWER_VERBS}"
    rf"|(?:im|i am|we are|were) (?:\w+ )?(?:not {_SURE_ADJECTIVES}|unsure|uncertain)|i have no (?:idea|clue|information|knowledge)"
    r"|there is (?:no|not enough|insufficient) information|i lack"
)
_IDK_PATTERN = re.compile(rf"(?:{_REFUSAL_OPENING} )*(?:(?:{_IDK_PHRASES})|(?:{_IDK_SENTENCES})(?P<tail> .*)?)")
_HEDGED_GUESS = re.compile(
    r"\b(?:but|however|though|although|maybe|perhaps|possibly|probably|likely|guess|might|may|could be|believe|think|suppose)\b"
)


def is_only_idk_or_refusal(answer: str) -> bool:
    """True when an answer only says that the model does not know or will not answer: IDK, or an equivalent sentence.

    False when a guess follows: "I don't know, but probably London".
    """
    if _NOT_AVAILABLE.fullmatch(answer):
        return True
    found = _IDK_PATTERN.fullmatch(normalize_answer(answer))
    return bool(found) and not _HEDGED_GUESS.search((found and found["tail"]) or "")


def choose_majority_answer(samples: Sequence[str]) -> str:
    """Return the most frequent answer after normalisation, in its first spelling; ties go to the one drawn first.

    All phrasings of IDK count as one answer; empty samples have no vote. The result is empty where no sample votes.
    """
    spellings: dict[str, list[str]] = defaultdict(list)
    for sample in filter(str.strip, samples):
        form = "idk" if is_only_idk_or_refusal(sample) else normalize_answer(sample) or sample.casefold()
        spellings[form].append(sample)
    return max(spellings.values(), key=len, default=[""])[0]


def format_samples(samples: Sequence[str]) -> str:
    """Format samples for the aggregation prompt: a list, one per line, in the order drawn, without empty ones."""
    flat = (" ".join(sample.split()) for sample in samples)
    return "\n".join(f"- {each}" for each in flat if each)


FloatArray = npt.NDArray[np.float64]
LevelArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
GoldLevels = Sequence[Sequence[str]]
"""A question's levels from fine to coarse, each with its acceptable answers."""

PredictionOutcome = Literal["wrong", "idk", "level_1", "level_2", "level_3_or_more"]
PREDICTION_OUTCOMES: tuple[PredictionOutcome, ...] = get_args(PredictionOutcome)
"""Possible outcomes of a prediction (paper Figure 8)."""
AgreementCell = Literal["both", "granola_only", "standard_only", "neither"]
AGREEMENT_CELLS: tuple[AgreementCell, ...] = get_args(AgreementCell)
"""Which of standard and GRANOLA accuracy count a prediction as right (paper Table 3, whose two headings are swapped).
The gold answer is itself a level, so standard_only is always empty."""


def tokenize_answer_words(text: str) -> tuple[str, ...]:
    """Return the words of an answer's normal form, or all its words where that leaves none (The The)."""
    return tuple(normalized_words(text) or text.casefold().split())


def compute_token_f1(prediction: Sequence[str], answer: Sequence[str]) -> float:
    """Return the F1 of two bags of words, from 0 to 1; 0 where one is empty."""
    if not prediction or not answer or set(prediction).isdisjoint(answer):
        return 0.0
    common = sum((Counter(prediction) & Counter(answer)).values())
    return 2 * common / (len(prediction) + len(answer))


def compute_best_f1_by_level(predictions: Sequence[str], gold_levels: Sequence[GoldLevels]) -> FloatArray:
    """Return each prediction's best F1 with each level's answers (items × maximum levels; 0 where no level is)."""
    words = cache(tokenize_answer_words)
    f1 = cache(lambda prediction, answer: compute_token_f1(words(prediction), words(answer)))
    scores = np.zeros((len(predictions), max(map(len, gold_levels), default=0)))
    for row, prediction, levels in zip(scores, predictions, gold_levels, strict=True):
        for level, answers in enumerate(levels):
            row[level] = max((f1(prediction, answer) for answer in answers), default=0.0)
    return scores


def find_finest_matched_levels(level_f1: FloatArray, tau: float) -> LevelArray:
    """Return the finest level whose F1 exceeds τ, from 1; 0 where none does (i* of Definition 1)."""
    hits = level_f1 > tau
    if not hits.shape[1]:
        return np.zeros(len(hits), np.int64)
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def compute_informativeness(levels: LevelArray, decay: float) -> FloatArray:
    """Return the informativeness of matched levels, exp(−λ (level − 1)); 0 where none matches.

    Rounded to twelve digits, so that mathematical libraries agree.
    """
    weights = [0.0, *(round(math.exp(-decay * step), 12) for step in range(int(levels.max(initial=0))))]
    return np.array(weights)[levels]


def classify_outcomes(levels: LevelArray, is_idk: BoolArray) -> npt.NDArray[np.str_]:
    """Return each prediction's outcome, one of OUTCOMES."""
    matched = np.array(["wrong", "level_1", "level_2", "level_3_or_more"])[np.minimum(levels, 3)]
    return np.where(is_idk, "idk", matched)


def classify_standard_vs_granola_accuracy(levels: LevelArray) -> npt.NDArray[np.str_]:
    """Return the agreement cell of each prediction, one of CELLS."""
    return np.array(["neither", "both", "granola_only"])[np.minimum(levels, 2)]


SCORABLE_STATUSES = ("", *sorted(REASONS_COUNTED_WRONG))
"""Values of `unscored` that are scored all the same: no answer counts as wrong, a refusal as IDK."""
MAIN_METRICS = ("accuracy", "granola_accuracy", "selective_accuracy", "selective_granola_accuracy", "informativeness")
"""Metrics that are also reported by group and by item."""
SIMILARITY_METRIC = "semantic_similarity"
TAUS, DECAYS = (0.3, 0.4, 0.5, 0.6, 0.8), (0.0, 0.25, 0.5, 1.0)
"""Values of τ and λ, besides the evaluation's own, for which metrics are also computed."""


@dataclass(frozen=True, slots=True)
class SingleMetricScoresByAnswer:
    """The scores of one metric, one entry per answer."""

    metric: str
    values: FloatArray
    """NaN: unscored."""
    applies: BoolArray
    """True for answers to which the metric applies."""
    unit: str = "share"
    """share (each value is 0 or 1), cosine, or empty."""
    groups: tuple[str, ...] = ()
    """Grouping columns: relation, popularity, agreement."""


def guess_fact_answers_from_other_facts(
    relations: Sequence[str], facts: Sequence[str], answers: Sequence[Sequence[str]]
) -> dict[str, str]:
    """Return fact → the answer (of any level) that most other facts of its relation have, ties by text; empty where there is
    none.

    One entry per question: its relation, its fact (`list_fact_ids`), and its answers. Several questions on a fact count once.
    """
    levels: dict[tuple[str, str], set[str]] = {}
    for relation, fact, texts in zip(relations, facts, answers, strict=True):
        levels.setdefault((relation, fact), set()).update(texts)
    guesser = CommonestAnswerGuesser((relation, text) for (relation, _), there in levels.items() for text in there)
    return {fact: guesser.guess(relation, *there) for (relation, fact), there in levels.items()}


def list_fact_ids(ids: Sequence[str], relations: Sequence[str], subjects: Sequence[str]) -> list[str]:
    """Return the fact that each question asks for, its subject's relation, named by the first of the ids of its questions."""
    first: dict[tuple[str, str], str] = {}
    for row_id, *fact in sorted(zip(ids, relations, subjects, strict=True)):
        first.setdefault((fact[0], fact[1]), row_id)
    return [first[fact] for fact in zip(relations, subjects, strict=True)]


def add_level_and_idk_scores(answers: pa.Table, tau: float) -> pa.Table:
    """Return a table of GranolaPrediction with the columns level_f1, matched_level and is_idk of ScoredGranolaPrediction."""
    texts, golds = answers["answer_read"].to_pylist(), answers["granola_answers"].to_pylist()
    is_scored = to_numpy(pc.is_in(answers["unscored"], pa.array(SCORABLE_STATUSES)))
    level_f1 = compute_best_f1_by_level(texts, [[[each] for each in levels] for levels in golds])
    known = {text: is_only_idk_or_refusal(text) for text in set(texts)}
    is_idk = to_numpy(pc.equal(answers["unscored"], "refused")) | np.array([known[text] for text in texts], bool)
    # a name that reads like IDK is an answer where it is the right one
    is_idk &= level_f1.max(axis=1, initial=0.0) < 1
    matched = np.where(is_idk, 0, find_finest_matched_levels(level_f1, tau))
    rows = zip(level_f1.tolist(), golds, is_scored, strict=True)
    columns = {
        "level_f1": pa.array([f1[: len(gold)] if kept else [] for f1, gold, kept in rows], pa.list_(pa.float64())),
        "matched_level": pa.array(matched, pa.int64(), mask=~is_scored),
        "is_idk": pa.array(is_idk & is_scored),
    }
    for name, column in columns.items():
        answers = answers.append_column(name, column)
    return answers


def compute_cosines(
    pairs: Sequence[tuple[str, str] | None], texts: Sequence[str], vectors: npt.NDArray[np.float32]
) -> FloatArray:
    """Return the cosine similarity of each pair of texts, to two digits as in the paper's Table 3; NaN for None.

    Sentence vectors from two CPUs differ by less. `vectors`: the unit vectors of `texts`, which include both texts of
    every pair.
    """
    position = {text: at for at, text in enumerate(texts)}
    kept = [at for at, pair in enumerate(pairs) if pair]
    cosines = np.full(len(pairs), np.nan)
    if kept:
        one, other = (vectors[[position[pair[side]] for pair in pairs if pair]] for side in (0, 1))
        cosines[kept] = np.round(np.einsum("ij,ij->i", one, other, dtype=np.float64), 2) + 0.0
    return cosines


def list_metric_columns(answers: pa.Table, decay: float) -> Iterator[SingleMetricScoresByAnswer]:
    """Yield the scores of answers (rows of ScoredGranolaPrediction), one column per metric.

    Selective accuracy covers answers that are not IDK. Similarity, and the agreement of the two accuracies (Table 3),
    cover answers that are compared and not empty.
    """
    levels = to_numpy(pc.fill_null(answers["matched_level"], 0))
    is_idk, unscored = to_numpy(answers["is_idk"]), to_numpy(answers["matched_level"].is_null())
    everything = np.ones(len(levels), bool)

    def make(
        metric: str, values: npt.NDArray[Any], kept: BoolArray, unit: str = "share", *groups: str
    ) -> SingleMetricScoresByAnswer:
        return SingleMetricScoresByAnswer(metric, np.where(unscored, np.nan, values), kept, unit, groups)

    by = ("relation", "popularity")
    yield make("accuracy", levels == 1, everything, "share", *by)
    yield make("granola_accuracy", levels > 0, everything, "share", *by)
    yield make("selective_accuracy", levels == 1, ~is_idk, "share", *by)
    yield make("selective_granola_accuracy", levels > 0, ~is_idk, "share", *by)
    yield make("informativeness", compute_informativeness(levels, decay), everything, "", *by)
    outcomes = classify_outcomes(levels, is_idk)
    for outcome in PREDICTION_OUTCOMES:
        yield make(f"share_{outcome}", outcomes == outcome, everything)
    # a part of the wrong ones
    yield make("share_no_answer", to_numpy(pc.equal(answers["unscored"], "no_answer")), everything)
    similarity = np.array(answers[SIMILARITY_METRIC].to_pylist(), np.float64)
    if not np.isnan(similarity).all():
        kept = ~np.isnan(similarity) | (unscored & to_numpy(answers["is_compared"]))
        cells = classify_standard_vs_granola_accuracy(levels)
        yield make(SIMILARITY_METRIC, similarity, kept, "cosine", "agreement")
        for cell in AGREEMENT_CELLS:
            yield make(f"agreement_{cell}", cells == cell, kept)


def list_metrics_for_varied_parameters(
    answers: pa.Table, tau: float, decay: float
) -> Iterator[tuple[str, float, SingleMetricScoresByAnswer]]:
    """Yield metrics for varied τ and λ, one at a time: (`tau` or `lambda`, its value, scores)."""
    unscored = to_numpy(answers["matched_level"].is_null())
    lists = answers["level_f1"].to_pylist()
    level_f1 = np.zeros((len(lists), max(map(len, lists), default=0)))
    for row, found in zip(level_f1, lists, strict=True):
        row[: len(found)] = found
    level_f1[to_numpy(answers["is_idk"])] = 0
    everything = np.ones(len(lists), bool)

    def make(metric: str, values: npt.NDArray[Any], unit: str = "share") -> SingleMetricScoresByAnswer:
        return SingleMetricScoresByAnswer(metric, np.where(unscored, np.nan, values), everything, unit)

    for tried in sorted({*TAUS, tau}):
        levels = find_finest_matched_levels(level_f1, tried)
        yield "tau", tried, make("accuracy", levels == 1)
        yield "tau", tried, make("granola_accuracy", levels > 0)
        yield "tau", tried, make("informativeness", compute_informativeness(levels, decay), "")
    levels = find_finest_matched_levels(level_f1, tau)
    for tried in sorted({*DECAYS, decay}):
        yield "lambda", tried, make("informativeness", compute_informativeness(levels, tried), "")


def to_numpy(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return a column without nulls as an array."""
    return np.asarray(column.to_numpy(zero_copy_only=False))
