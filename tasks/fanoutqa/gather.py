"""The first steps of FanOutQA: read questions, or generate them from sets of a Wikidata, and word them (paper §3.1).

Sets, labels and revisions are looked up for all sets of a kind at once; texts and facts set by set, since on a large
wiki those of a dozen sets take much memory. Of a large graph, only a limited number of a relation's facts are listed:
list_facts goes by the number of the subject's QID, and low numbers were given early, to widely known items. Of the sets
among them, a limited number is tried, by digest.

A call is filed under its place (set and item) until it is known which questions speak of that item.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.core.authoring.question_wording import (
    WORDED_QUESTION_FORMAT,
    PiecesToWordQuestionFrom,
    read_and_check_worded_question,
)
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.item_facts import ItemFact
from factmill.tasks.core.calls.wikidata import ItemDescription
from factmill.tasks.core.completions import UnreadableCompletion
from factmill.tasks.core.digests import canonical_json, derive_seed, digest_json
from factmill.tasks.core.prompts import fill_prompt_template
from factmill.tasks.core.rows import MergedAway, Reject, RowOutcome
from factmill.tasks.engine.batches import BatchInProgress, make_batch_cache_key, open_batch
from factmill.tasks.fanoutqa.core.questions import ArticleEvidence
from factmill.tasks.fanoutqa.core.rows import GatheredFanOutQuestion
from factmill.tasks.fanoutqa.core.sets.generation import QuestionAttempt, UnwordedQuestion, try_questions_on_member_set
from factmill.tasks.fanoutqa.core.sets.members import (
    MAX_LISTED_MEMBERS,
    MemberArticle,
    MemberSet,
    ReasonForNoQuestion,
    SetMember,
)
from factmill.tasks.fanoutqa.core.sets.property_values import read_property_values
from factmill.tasks.fanoutqa.core.sets.set_kinds import PropertyPhraseTable, SetKind, get_property_phrases
from factmill.tasks.fanoutqa.core.wording_checks import find_addition_to_parts
from factmill.tasks.fanoutqa.params import QUESTION_FILES, FanOutInputs
from factmill.tasks.fanoutqa.pin import format_problem
from factmill.tasks.fanoutqa.sources.question_files import (
    PROPERTY_FILE,
    SET_FILE,
    load_packaged_and_user_property_phrases,
    load_packaged_and_user_set_kinds,
    read_question_file,
)
from factmill.tasks.lookups.classes import INSTANCE_OF, look_up_claims_by_qid
from factmill.tasks.lookups.facts import look_up_fact_pairs, look_up_item_facts_by_qid
from factmill.tasks.lookups.labels import look_up_item_descriptions_by_qid, look_up_labels_by_entity_id
from factmill.tasks.lookups.pinned_articles import (
    MissingArticleReason,
    PinnedArticleRevision,
    index_article_text,
    load_article_texts,
    pin_article_revisions_by_title_at_epoch,
)
from factmill.tasks.text.values.dates_and_numbers import format_date_in_prose
from factmill.tasks.text.wikipedia_urls import format_article_url

MAX_RELATION_SUBJECTS = 20_000
"""Most subjects of a relation whose facts are listed."""
CANDIDATES_PER_NAMED_SET, MEMBERS_PER_NAMED_SET = 100, 16
"""Items from which a named set is chosen, and the most of them, each with an article, that go into it."""
_PIN_BATCH_SIZE = 50
_OWNER_BATCH_SIZE = 200
"""Sets whose owners' and members' classes are looked up in one batch, until enough sets are found."""


@dataclass(slots=True)
class _CandidateMemberSet:
    """A candidate set, with the members that the graph gives."""

    id: str
    """Unit of the kind, and the owner's QID or a number."""
    owner: str | None
    members: list[str]

    @property
    def items(self) -> list[str]:
        """Owner and members."""
        return [*([self.owner] if self.owner else []), *self.members]

    @property
    def call_places(self) -> list[tuple[str, str]]:
        """(Place under which an item's calls are filed, item) of owner and members."""
        return [(_format_set_item_id(self.id, qid), qid) for qid in self.items]


def _format_set_item_id(set_id: str, qid: str) -> str:
    return f"{set_id} {qid}"


def _parse_set_id_of_set_item_id(set_item_id: str) -> str:
    return set_item_id.rpartition(" ")[0]


@dataclass(slots=True)
class _SetKindLookups:
    """Look-ups for all sets of a kind."""

    work: BatchInProgress
    kind: SetKind
    items: dict[str, ItemDescription] = field(default_factory=dict)
    pins: dict[str, PinnedArticleRevision | MissingArticleReason] = field(default_factory=dict)
    """By title."""
    failures_by_set: dict[str, Reject] = field(default_factory=dict)
    """Id of a set → a look-up that failed for it."""

    @property
    def inputs(self) -> FanOutInputs:
        """Inputs of the build."""
        return self.work.inputs(FanOutInputs)

    def find_pin(self, qid: str) -> PinnedArticleRevision | MissingArticleReason | None:
        """Return an item's pinned article, or why it is not pinned; None if it has none."""
        item = self.items.get(qid)
        return self.pins.get(item.title) if item and item.title else None

    def list_members_with_article(self, drawn: _CandidateMemberSet) -> list[str]:
        """Return the members whose article is pinned."""
        return [qid for qid in drawn.members if isinstance(self.find_pin(qid), PinnedArticleRevision)]

    def record_failures(self, failed: Mapping[str, Reject]) -> None:
        """Record failed look-ups, given by place, under their sets."""
        self.failures_by_set |= {_parse_set_id_of_set_item_id(place): reject for place, reject in failed.items()}

    def record_transient_failure(self, place: str, found: PinnedArticleRevision | MissingArticleReason | str) -> None:
        """Mark a set as failed if the problem is transient, so that a later run tries it again."""
        if isinstance(found, MissingArticleReason) and found.retryable:
            reject = Reject(place, found.reason, found.detail, retryable=True)
            self.failures_by_set.setdefault(_parse_set_id_of_set_item_id(place), reject)


@dataclass(frozen=True, slots=True)
class _SetEvidence:
    """Texts and facts of one set's items."""

    texts: Mapping[int, str | MissingArticleReason]
    """By revision."""
    facts: Mapping[str, list[ItemFact]]
    unit_labels: Mapping[str, str]


def generate_questions_on_one_set_kind(work: BatchInProgress, set_kind: str) -> list[RowOutcome]:
    """Return the outcome of every question tried on one kind of sets (data/lists/fanout_sets.csv).

    Registers each as a row of the batch. Outcomes are SourcedFanOutQuestions without their wording, and Rejects.
    """
    kind = load_packaged_and_user_set_kinds(work.source_files(SET_FILE))[set_kind]
    known = _SetKindLookups(work, kind)
    drawn = _look_up_class_items_as_candidate_sets(known) if kind.is_named else _look_up_relation_value_sets(known)
    drawn = _look_up_articles_and_trim_sets(known, drawn)
    outcomes: list[RowOutcome] = []
    rows_of: dict[str, list[str]] = defaultdict(list)
    for each in drawn:
        for tried in _load_evidence_and_try_questions(known, each, drawn):
            work.add_input_row(tried.id, tried.key_json)
            outcomes.append(_make_row_or_reject(tried, known.inputs.licence))
            for qid in tried.items:
                # candidates of named sets have their classes looked up before there are sets
                for set_id in (each.id, kind.unit) if kind.is_named else (each.id,):
                    rows_of[_format_set_item_id(set_id, qid)].append(tried.id)
    # a call belongs to every question tried on its item; calls about other items belong to the unit
    work.call_uses = [
        (row_id, key, record) for place, key, record in work.call_uses for row_id in rows_of.get(place, [kind.unit])
    ]
    return outcomes


# ── Sets ──


def _look_up_relation_value_sets(lookups: _SetKindLookups) -> list[_CandidateMemberSet]:
    """Return sets whose owner and members are of the required classes, in the order of the owners' digests."""
    kind, most = lookups.kind, lookups.inputs.params.sets_a_kind
    values: dict[str, list[str]] = defaultdict(list)
    for subject, value in dict.fromkeys(look_up_fact_pairs(lookups.work, kind.relation, MAX_RELATION_SUBJECTS)):
        if subject != value:
            values[subject].append(value)
    sizes = range(lookups.inputs.least_members, 2 * MAX_LISTED_MEMBERS + 1)
    owners = [owner for owner in _sort_distinct_by_digest(kind, values) if len(values[owner]) in sizes]
    found: list[_CandidateMemberSet] = []
    for chunk in _iterate_slices(owners, _OWNER_BATCH_SIZE):
        sets = [_CandidateMemberSet(f"{kind.unit} {owner}", owner, values[owner]) for owner in chunk]
        own = _filter_by_class(lookups, [(each.id, each.owner) for each in sets if each.owner], kind.owner_classes)
        sets = [each for each in sets if each.owner in own or each.id in lookups.failures_by_set]
        asked = [(each.id, qid) for each in sets for qid in each.members]
        of_class = _filter_by_class(lookups, asked, kind.member_classes)
        for each in sets:
            each.members = [qid for qid in each.members if qid in of_class]
        found += [each for each in sets if each.members or each.id in lookups.failures_by_set]
        if len(found) >= most:
            break
    return found[:most]


def _look_up_class_items_as_candidate_sets(lookups: _SetKindLookups) -> list[_CandidateMemberSet]:
    """Return groups of items of the required class, in the order of digests; one group for a small class."""
    kind = lookups.kind
    facts = look_up_fact_pairs(lookups.work, kind.relation, MAX_RELATION_SUBJECTS)
    is_class = kind.relation == INSTANCE_OF
    subjects = (subject for subject, value in facts if not is_class or value in kind.member_classes)
    wanted = CANDIDATES_PER_NAMED_SET * lookups.inputs.params.sets_a_kind
    found: list[str] = []
    for chunk in _iterate_slices(_sort_distinct_by_digest(kind, subjects), wanted):
        asked = [(kind.unit, qid) for qid in chunk]
        of_class = _filter_by_class(lookups, asked, frozenset() if is_class else kind.member_classes)
        found += [qid for qid in chunk if qid in of_class]
        if len(found) >= wanted:
            break
    groups = [
        _CandidateMemberSet(f"{kind.unit} {at}", None, each)
        for at, each in enumerate(_iterate_slices(found[:wanted], CANDIDATES_PER_NAMED_SET))
    ]
    if kind.unit in lookups.failures_by_set:
        lookups.failures_by_set |= {each.id: lookups.failures_by_set[kind.unit] for each in groups}
    return groups


def _sort_distinct_by_digest(kind: SetKind, qids: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(qids), key=lambda qid: (derive_seed(kind.unit, qid), qid))


def _iterate_slices(items: Sequence[str], size: int) -> Iterator[list[str]]:
    return (list(items[at : at + size]) for at in range(0, len(items), size))


def _filter_by_class(
    lookups: _SetKindLookups, set_items: Sequence[tuple[str, str]], classes: frozenset[str]
) -> set[str]:
    """Return the items, given as (set, item), that are instances of one of the classes; all if no class is given."""
    if not classes:
        return {qid for _, qid in set_items}
    places = [(_format_set_item_id(*each), each[1]) for each in set_items]
    claims, failed = look_up_claims_by_qid(lookups.work, places, [INSTANCE_OF])
    lookups.record_failures(failed)
    return {qid for qid, edges in claims.items() if any(edge.qid in classes for edge in edges)}


# ── Look-ups ──


def _look_up_articles_and_trim_sets(
    lookups: _SetKindLookups, candidates: Sequence[_CandidateMemberSet]
) -> list[_CandidateMemberSet]:
    """Look up labels, and articles as of the epoch; return the sets.

    A named set keeps only members that have both, up to MEMBERS_PER_NAMED_SET. It is dropped if none has; if no set has any,
    the first one stays.
    """
    places = (place for each in candidates for place in each.call_places)
    lookups.items, failed = look_up_item_descriptions_by_qid(lookups.work, places)
    lookups.record_failures(failed)
    if not lookups.kind.is_named:
        _pin_item_articles(lookups, [(each, each.items) for each in candidates])
        return list(candidates)
    for each in candidates:
        each.members = [qid for qid in each.members if (item := lookups.items.get(qid)) and item.label and item.title]
    for at in range(0, CANDIDATES_PER_NAMED_SET, _PIN_BATCH_SIZE):
        # in slices, since outside the small embedded Wikipedia most items have an article
        short = [each for each in candidates if len(lookups.list_members_with_article(each)) < MEMBERS_PER_NAMED_SET]
        _pin_item_articles(lookups, [(each, each.members[at : at + _PIN_BATCH_SIZE]) for each in short])
    for each in candidates:
        each.members = lookups.list_members_with_article(each)[:MEMBERS_PER_NAMED_SET]
    return [each for each in candidates if each.members or each.id in lookups.failures_by_set] or list(candidates[:1])


def _pin_item_articles(lookups: _SetKindLookups, asked: Iterable[tuple[_CandidateMemberSet, Sequence[str]]]) -> None:
    titles = [
        (_format_set_item_id(each.id, qid), item.title)
        for each, qids in asked
        for qid in qids
        if (item := lookups.items.get(qid)) and item.title
    ]
    lookups.pins |= pin_article_revisions_by_title_at_epoch(lookups.work, titles, lookups.inputs.epoch)
    for place, title in titles:
        lookups.record_transient_failure(place, lookups.pins[title])


def _load_set_evidence(lookups: _SetKindLookups, candidate: _CandidateMemberSet) -> _SetEvidence:
    """Load the texts of a set's articles, its members' facts, and the labels of their units."""
    found = ((place, lookups.find_pin(qid)) for place, qid in candidate.call_places)
    pins = [(place, pin) for place, pin in found if isinstance(pin, PinnedArticleRevision)]
    texts = load_article_texts(lookups.work, [(place, pin.title, pin.revid) for place, pin in pins])
    for place, pin in pins:
        lookups.record_transient_failure(place, texts[pin.revid])
    members = [(_format_set_item_id(candidate.id, qid), qid) for qid in candidate.members]
    facts, failed = look_up_item_facts_by_qid(lookups.work, members)
    lookups.record_failures(failed)
    units = [
        (place, fact.unit)
        for place, qid in members
        for fact in facts.get(qid, ())
        if fact.unit and fact.pid in lookups.kind.properties
    ]
    labels, failed = look_up_labels_by_entity_id(lookups.work, units, "en")
    lookups.record_failures(failed)
    return _SetEvidence(texts, facts, labels)


def _find_item_article(lookups: _SetKindLookups, qid: str, evidence: _SetEvidence) -> MemberArticle | str:
    """Return an item's article, or a sentence that says why there is none."""
    pin = lookups.find_pin(qid)
    if pin is None:
        return "the graph has no English article"
    if isinstance(pin, MissingArticleReason):
        return format_problem(pin)
    text = evidence.texts[pin.revid]
    if isinstance(text, MissingArticleReason):
        return format_problem(text)
    url = format_article_url(lookups.inputs.wiki, pin.title)
    return MemberArticle(ArticleEvidence(pin.title, url, pin.pageid, pin.revid), text, index_article_text(text))


# ── Questions ──


def _load_evidence_and_try_questions(
    lookups: _SetKindLookups, candidate: _CandidateMemberSet, candidates: Sequence[_CandidateMemberSet]
) -> Iterator[QuestionAttempt]:
    """Yield the questions tried on a set; a single refusal if one of its look-ups failed."""
    kind, inputs = lookups.kind, lookups.inputs
    read = _load_set_evidence(lookups, candidate)
    if failed := lookups.failures_by_set.get(candidate.id):
        content = canonical_json({"set": candidate.id})
        refusal = ReasonForNoQuestion(failed.reason, failed.detail, failed.retryable)
        yield QuestionAttempt(digest_json(content)[:16], content, candidate.id, tuple(candidate.items), refusal)
        return
    own = set(candidate.items)
    of_member_class = (
        qid
        for other in candidates
        for qid in (*other.members, *([other.owner] if kind.owner_classes & kind.member_classes else ()))
        if qid and qid not in own
    )
    items = (lookups.items.get(qid) for qid in dict.fromkeys(of_member_class))
    phrases = load_packaged_and_user_property_phrases(lookups.work.source_files(PROPERTY_FILE))
    of = MemberSet(
        kind=kind,
        owner=_make_member(lookups, candidate.owner, read, phrases) if candidate.owner else None,
        members=tuple(_make_member(lookups, qid, read, phrases) for qid in candidate.members),
        other_names=tuple(item.label for item in items if item and item.label),
        month=format_date_in_prose(inputs.epoch[:7]),
        min_members=inputs.least_members,
    )
    yield from try_questions_on_member_set(of, phrases)


def _make_member(lookups: _SetKindLookups, qid: str, evidence: _SetEvidence, phrases: PropertyPhraseTable) -> SetMember:
    found = _find_item_article(lookups, qid, evidence)
    item = lookups.items.get(qid)
    by_pid: dict[str, list[ItemFact]] = defaultdict(list)
    for fact in evidence.facts.get(qid, ()):
        by_pid[fact.pid].append(fact)
    kinds = {pid: get_property_phrases(phrases, pid, lookups.kind).kind for pid in lookups.kind.properties}
    return SetMember(
        qid=qid,
        name=(item.label if item else None) or qid,
        article=None if isinstance(found, str) else found,
        article_problem=found if isinstance(found, str) else "",
        values={pid: read_property_values(by_pid[pid], kind, evidence.unit_labels) for pid, kind in kinds.items()},
    )


def _make_row_or_reject(tried: QuestionAttempt, licence: str) -> RowOutcome:
    outcome = tried.outcome
    if not isinstance(outcome, UnwordedQuestion):
        return Reject(tried.id, outcome.reason, outcome.detail, outcome.retryable)
    return GatheredFanOutQuestion.from_tree(
        outcome.question,
        source="generated",
        source_name=f"wikidata {tried.short_name}",
        source_row=1,
        licence=licence,
        wording=outcome.wording.to_json(),
        statements=list(outcome.statements),
    )


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def gather_questions(batch: StageBatch) -> BatchReceipt:
    """Read the questions of all files, or generate those of one kind of sets."""
    work = open_batch(batch)
    made = (
        _read_question_files(work)
        if batch.unit == QUESTION_FILES
        else generate_questions_on_one_set_kind(work, batch.unit)
    )
    return work.finish(made, GatheredFanOutQuestion)


def _read_question_files(work: BatchInProgress) -> Iterator[RowOutcome]:
    """Yield the outcome of each question of the files; a repeated one with the same answer is merged into the first."""
    kept: dict[str, GatheredFanOutQuestion] = {}
    for source in work.source_files(QUESTION_FILES):
        for read in read_question_file(source, own=work.inputs(FanOutInputs).own_source):
            work.add_input_row(read.row_id, read.raw_json)
            if not isinstance(read.outcome, GatheredFanOutQuestion):
                yield read.outcome
                continue
            first = kept.setdefault(read.outcome.id, read.outcome)
            if first is read.outcome:
                yield first
            elif (first.answer, first.decomposition) == (read.outcome.answer, read.outcome.decomposition):
                yield MergedAway(read.row_id, first.id)
            else:
                detail = f"{first.source_name}, row {first.source_row} asks the same question with another answer or decomposition"
                yield Reject(read.row_id, "contradicts", detail)


WORD_QUESTION_PROMPT = "fanoutqa/word_question"


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def phrase_generated_questions(batch: StageBatch) -> BatchReceipt:
    """Let a model word generated questions; check that each says its pieces and not its answer. Others pass."""
    work = open_batch(batch)
    rows = work.rows(GatheredFanOutQuestion)
    prompt = load_prompt(WORD_QUESTION_PROMPT)
    asked = [
        (
            row.id,
            row,
            fill_prompt_template(
                prompt,
                group=wording.group,
                names="; ".join(wording.names),
                choice=wording.format_choice(),
                asked=wording.asked,
            ),
        )
        for row in rows
        if row.wording
        for wording in [PiecesToWordQuestionFrom.from_json(row.wording)]
    ]
    worded: dict[str, RowOutcome] = {
        row.id: answer.parsed
        if isinstance(answer.parsed, Reject)
        else row.replace(question=answer.parsed, author=answer.model)
        for row, answer in work.prompt_model("author", asked, WORDED_QUESTION_FORMAT, _read_worded_question)
    }
    return work.finish((worded.get(row.id, row) for row in rows), GatheredFanOutQuestion)


def _read_worded_question(row: GatheredFanOutQuestion, texts: Sequence[str]) -> str | UnreadableCompletion:
    wording = PiecesToWordQuestionFrom.from_json(row.wording or "")
    question = read_and_check_worded_question(texts[0], wording, json.loads(row.answer or ""))
    if isinstance(question, UnreadableCompletion):
        return question
    added = find_addition_to_parts(question, wording)
    return UnreadableCompletion(f"the question {added}") if added else question
