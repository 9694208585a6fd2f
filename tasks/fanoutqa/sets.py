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
from factmill.tasks.core.authoring.fanout_wording import WORDED, Wording, check_worded
from factmill.tasks.core.calls.item_facts import Fact
from factmill.tasks.core.calls.knowledge import Description
from factmill.tasks.core.fingerprints import canonical_json, digest_json, seed_from
from factmill.tasks.core.prompts import Ask, Prompt, fill_in
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import Unreadable
from factmill.tasks.core.rows import Merged, Outcome, Reject
from factmill.tasks.engine.batches import Answered, Work, batch_key, work_on
from factmill.tasks.fanoutqa.core.questions import Evidence, dump_json, to_released
from factmill.tasks.fanoutqa.core.rows import FanOutRow
from factmill.tasks.fanoutqa.core.sets.generation import Composed, Tried, make_questions
from factmill.tasks.fanoutqa.core.sets.lists import SetKind, find_property
from factmill.tasks.fanoutqa.core.sets.members import MOST_MEMBERS, Article, Member, MemberSet, Refused
from factmill.tasks.fanoutqa.core.sets.values import Value, read_values
from factmill.tasks.fanoutqa.core.wordings import find_additions
from factmill.tasks.fanoutqa.params import FILES, FanOutInputs
from factmill.tasks.fanoutqa.sources.files import load_fanout_properties, load_fanout_sets, read_question_file
from factmill.tasks.lookups.classes import INSTANCE_OF, look_up_claims
from factmill.tasks.lookups.evidence import PinnedArticle, Unpinned, know_article, load_article_texts, pin_articles
from factmill.tasks.lookups.facts import list_facts, look_up_item_facts
from factmill.tasks.lookups.labels import look_up_items, look_up_labels
from factmill.tasks.text.values.written import write_date
from factmill.tasks.text.wikipedia_addresses import write_article_address

SUBJECTS_AT_MOST = 20_000
"""Most subjects of a relation whose facts are listed."""
CANDIDATES, WITH_ARTICLES = 100, 16
"""Items from which a named set is chosen, and the most of them, each with an article, that go into it."""
_PINNED_AT_ONCE = 50
_AT_ONCE = 200
"""Sets whose owners' and members' classes are looked up in one batch, until enough sets are found."""


@dataclass(slots=True)
class _Drawn:
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
    def places(self) -> list[tuple[str, str]]:
        """(Place under which an item's calls are filed, item) of owner and members."""
        return [(_name_place(self.id, qid), qid) for qid in self.items]


def _name_place(set_id: str, qid: str) -> str:
    return f"{set_id} {qid}"


def _find_set(place: str) -> str:
    return place.rpartition(" ")[0]


@dataclass(slots=True)
class _Known:
    """Look-ups for all sets of a unit."""

    items: dict[str, Description] = field(default_factory=dict)
    pins: dict[str, PinnedArticle | Unpinned] = field(default_factory=dict)
    """By title."""
    failed: dict[str, Reject] = field(default_factory=dict)
    """Id of a set → a look-up that failed for it."""

    def pin(self, qid: str) -> PinnedArticle | Unpinned | None:
        """Return an item's pinned article, or why it is not pinned; None if it has none."""
        item = self.items.get(qid)
        return self.pins.get(item.title) if item and item.title else None

    def note_failed(self, failed: Mapping[str, Reject]) -> None:
        """Record failed look-ups, given by place, under their sets."""
        self.failed |= {_find_set(place): reject for place, reject in failed.items()}


@dataclass(frozen=True, slots=True)
class _Read:
    """Texts and facts of one set's items."""

    texts: Mapping[int, str | Unpinned]
    """By revision."""
    facts: Mapping[str, list[Fact]]
    units: Mapping[str, str]


def generate_questions(work: Work, unit: str) -> list[Outcome]:
    """Return the outcome of every question tried on one kind of sets (data/lists/fanout_sets.csv).

    Registers each as a row of the batch. Outcomes are FanOutRows without their wording, and Rejects.
    """
    kind = load_fanout_sets()[unit]
    known = _Known()
    drawn = _draw_named(work, kind, known) if kind.is_named else _draw_listed(work, kind, known)
    drawn = _describe(work, kind, drawn, known)
    outcomes: list[Outcome] = []
    rows_of: dict[str, list[str]] = defaultdict(list)
    for each in drawn:
        for tried in _try_set(work, kind, each, drawn, known):
            work.take(tried.id, tried.told)
            outcomes.append(_finish(tried, work.inputs(FanOutInputs).licence))
            for qid in tried.items:
                # candidates of named sets have their classes looked up before there are sets
                for set_id in (each.id, kind.unit) if kind.is_named else (each.id,):
                    rows_of[_name_place(set_id, qid)].append(tried.id)
    # a call belongs to every question tried on its item; calls about other items belong to the unit
    work.uses = [
        (row_id, key, record) for place, key, record in work.uses for row_id in rows_of.get(place, [kind.unit])
    ]
    return outcomes


# ── Sets ──


def _draw_listed(work: Work, kind: SetKind, known: _Known) -> list[_Drawn]:
    """Return sets whose owner and members are of the required classes, in the order of the owners' digests."""
    values: dict[str, list[str]] = defaultdict(list)
    for subject, value in dict.fromkeys(list_facts(work, kind.relation, SUBJECTS_AT_MOST)):
        if subject != value:
            values[subject].append(value)
    inputs = work.inputs(FanOutInputs)
    least, most = inputs.least_members, inputs.params.sets_a_kind
    owners = [owner for owner in _order(kind, values) if least <= len(values[owner]) <= 2 * MOST_MEMBERS]
    found: list[_Drawn] = []
    for chunk in _part(owners, _AT_ONCE):
        sets = [_Drawn(f"{kind.unit} {owner}", owner, values[owner]) for owner in chunk]
        own = _filter_by_class(work, [(each.id, each.owner) for each in sets if each.owner], kind.owner_classes, known)
        sets = [each for each in sets if each.owner in own or each.id in known.failed]
        of_class = _filter_by_class(
            work, [(each.id, qid) for each in sets for qid in each.members], kind.member_classes, known
        )
        for each in sets:
            each.members = [qid for qid in each.members if qid in of_class]
        found += [each for each in sets if each.members or each.id in known.failed]
        if len(found) >= most:
            break
    return found[:most]


def _draw_named(work: Work, kind: SetKind, known: _Known) -> list[_Drawn]:
    """Return groups of items of the required class, in the order of digests; one group for a small class."""
    facts = list_facts(work, kind.relation, SUBJECTS_AT_MOST)
    if kind.relation == INSTANCE_OF:
        qids = _order(kind, [subject for subject, value in facts if value in kind.member_classes])
    else:
        qids = _order(kind, [subject for subject, _ in facts])
    wanted = CANDIDATES * work.inputs(FanOutInputs).params.sets_a_kind
    found: list[str] = []
    for chunk in _part(qids, wanted):
        of_class = set(chunk)
        if kind.relation != INSTANCE_OF:
            of_class = _filter_by_class(work, [(kind.unit, qid) for qid in chunk], kind.member_classes, known)
        found += [qid for qid in chunk if qid in of_class]
        if len(found) >= wanted:
            break
    groups = [_Drawn(f"{kind.unit} {at}", None, each) for at, each in enumerate(_part(found[:wanted], CANDIDATES))]
    if kind.unit in known.failed:
        known.failed |= {each.id: known.failed[kind.unit] for each in groups}
    return groups


def _order(kind: SetKind, qids: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(qids), key=lambda qid: (seed_from(kind.unit, qid), qid))


def _part(items: Sequence[str], size: int) -> Iterator[list[str]]:
    return (list(items[at : at + size]) for at in range(0, len(items), size))


def _filter_by_class(work: Work, asked: Sequence[tuple[str, str]], classes: frozenset[str], known: _Known) -> set[str]:
    """Return the items, given as (set, item), that are instances of one of the classes; all if no class is given."""
    if not classes:
        return {qid for _, qid in asked}
    claims, failed = look_up_claims(work, [(_name_place(*each), each[1]) for each in asked], [INSTANCE_OF])
    known.note_failed(failed)
    return {qid for qid, edges in claims.items() if any(edge.qid in classes for edge in edges)}


# ── Look-ups ──


def _describe(work: Work, kind: SetKind, drawn: Sequence[_Drawn], known: _Known) -> list[_Drawn]:
    """Look up labels, and articles as of the epoch; return the sets.

    A named set keeps only members that have both, up to WITH_ARTICLES. It is dropped if none has; if no set has any,
    the first one stays.
    """
    known.items, failed = look_up_items(work, (place for each in drawn for place in each.places))
    known.note_failed(failed)
    if not kind.is_named:
        _pin(work, [(each, each.items) for each in drawn], known)
        return list(drawn)
    for each in drawn:
        each.members = [qid for qid in each.members if (item := known.items.get(qid)) and item.label and item.title]
    for at in range(0, CANDIDATES, _PINNED_AT_ONCE):
        # in slices, since outside the small embedded Wikipedia most items have an article
        short = [each for each in drawn if len(_list_pinned(each, known)) < WITH_ARTICLES]
        _pin(work, [(each, each.members[at : at + _PINNED_AT_ONCE]) for each in short], known)
    for each in drawn:
        each.members = _list_pinned(each, known)[:WITH_ARTICLES]
    return [each for each in drawn if each.members or each.id in known.failed] or list(drawn[:1])


def _list_pinned(drawn: _Drawn, known: _Known) -> list[str]:
    return [qid for qid in drawn.members if isinstance(known.pin(qid), PinnedArticle)]


def _pin(work: Work, asked: Iterable[tuple[_Drawn, Sequence[str]]], known: _Known) -> None:
    """Pin the articles of the sets' items to the epoch."""
    titles = [
        (_name_place(each.id, qid), item.title)
        for each, qids in asked
        for qid in qids
        if (item := known.items.get(qid)) and item.title
    ]
    known.pins |= pin_articles(work, titles, work.inputs(FanOutInputs).epoch)
    for place, title in titles:
        _note_trouble(place, known.pins[title], known)


def _note_trouble(place: str, found: PinnedArticle | Unpinned | str, known: _Known) -> None:
    """Mark a set as failed if the problem is transient, so that a later run tries it again."""
    if isinstance(found, Unpinned) and found.retryable:
        known.failed.setdefault(_find_set(place), Reject(place, found.reason, found.detail, retryable=True))


def _read_set(work: Work, kind: SetKind, drawn: _Drawn, known: _Known) -> _Read:
    """Load the texts of a set's articles, its members' facts, and the labels of their units."""
    pins = [(place, pin) for place, qid in drawn.places if isinstance(pin := known.pin(qid), PinnedArticle)]
    texts = load_article_texts(work, [(place, pin.revid) for place, pin in pins])
    for place, pin in pins:
        _note_trouble(place, texts[pin.revid], known)
    members = [(_name_place(drawn.id, qid), qid) for qid in drawn.members]
    facts, failed = look_up_item_facts(work, members)
    known.note_failed(failed)
    units = [
        (place, fact.unit)
        for place, qid in members
        for fact in facts.get(qid, ())
        if fact.unit and fact.pid in kind.properties
    ]
    labels, failed = look_up_labels(work, units, "en")
    known.note_failed(failed)
    return _Read(texts, facts, labels)


def _find_article(wiki: str, qid: str, known: _Known, read: _Read) -> Article | str:
    """Return an item's article, or a sentence that says why there is none."""
    item = known.items.get(qid)
    pin = known.pin(qid)
    if item is None or item.title is None or pin is None:
        return "the graph knows no English article"
    if isinstance(pin, Unpinned):
        return f"{pin.reason}: {pin.detail}"
    text = read.texts[pin.revid]
    if isinstance(text, Unpinned):
        return f"{text.reason}: {text.detail}"
    return Article(
        Evidence(pin.title, write_article_address(wiki, pin.title), pin.pageid, pin.revid), text, know_article(text)
    )


# ── Questions ──


def _try_set(work: Work, kind: SetKind, each: _Drawn, drawn: Sequence[_Drawn], known: _Known) -> Iterator[Tried]:
    """Yield the questions tried on a set; a single refusal if one of its look-ups failed."""
    read = _read_set(work, kind, each, known)
    if failed := known.failed.get(each.id):
        told = canonical_json({"set": each.id})
        yield Tried(
            digest_json(told)[:16],
            told,
            each.id,
            tuple(each.items),
            Refused(failed.reason, failed.detail, failed.retryable),
        )
        return
    others = {qid: item.label for qid in _list_class(kind, drawn) if (item := known.items.get(qid)) and item.label}
    own = set(each.items)
    inputs = work.inputs(FanOutInputs)
    of = MemberSet(
        kind=kind,
        owner=_make_member(inputs.wiki, kind, each.owner, known, read) if each.owner else None,
        members=tuple(_make_member(inputs.wiki, kind, qid, known, read) for qid in each.members),
        others=tuple(label for qid, label in others.items() if qid not in own),
        month=write_date(inputs.epoch[:7]),
        least=inputs.least_members,
    )
    yield from make_questions(of, load_fanout_properties())


def _list_class(kind: SetKind, drawn: Sequence[_Drawn]) -> Iterator[str]:
    """Yield the items known to be of the members' class."""
    for each in drawn:
        yield from each.members
        if each.owner and kind.owner_classes & kind.member_classes:
            yield each.owner


def _make_member(wiki: str, kind: SetKind, qid: str, known: _Known, read: _Read) -> Member:
    found = _find_article(wiki, qid, known, read)
    item = known.items.get(qid)
    by_pid: dict[str, list[Fact]] = defaultdict(list)
    for fact in read.facts.get(qid, ()):
        by_pid[fact.pid].append(fact)
    return Member(
        qid=qid,
        name=(item.label if item else None) or qid,
        article=None if isinstance(found, str) else found,
        trouble=found if isinstance(found, str) else "",
        values={pid: _read_property(kind, pid, by_pid[pid], read.units) for pid in kind.properties},
    )


def _read_property(kind: SetKind, pid: str, facts: Sequence[Fact], units: Mapping[str, str]) -> tuple[Value, ...]:
    return read_values(facts, find_property(load_fanout_properties(), pid, kind).kind, units)


def _finish(tried: Tried, licence: str) -> Outcome:
    outcome = tried.outcome
    if not isinstance(outcome, Composed):
        return Reject(tried.id, outcome.reason, outcome.detail, outcome.retryable)
    question = outcome.question
    return FanOutRow(
        id=tried.id,
        source="generated",
        source_name=f"wikidata {tried.name}",
        source_row=1,
        licence=licence,
        question="",
        answer=dump_json(question.answer),
        decomposition=dump_json(to_released(question.decomposition)),
        necessary_evidence=None,
        categories=list(question.categories),
        published_split=None,
        wording=outcome.wording.dump(),
        statements=list(outcome.statements),
        author=None,
    )


@task(cache_key_fn=batch_key, persist_result=True)
def gather_questions(batch: Batch) -> Receipt:
    """Read the questions of all files, or generate those of one kind of sets."""
    work = work_on(batch)
    made = _read_files(work) if batch.unit == FILES else generate_questions(work, batch.unit)
    return work.finish(made, FanOutRow)


def _read_files(work: Work) -> Iterator[Outcome]:
    """Yield the outcome of each question of the files; a repeated one with the same answer is merged into the first."""
    kept: dict[str, FanOutRow] = {}
    for source in work.files(FILES):
        for read in read_question_file(source):
            work.take(read.row_id, read.as_it_came)
            if not isinstance(read.outcome, FanOutRow):
                yield read.outcome
                continue
            first = kept.setdefault(read.outcome.id, read.outcome)
            if first is read.outcome:
                yield first
            elif (first.answer, first.decomposition) == (read.outcome.answer, read.outcome.decomposition):
                yield Merged(read.row_id, first.id)
            else:
                told = f"{first.source_name}, row {first.source_row} asks the same with another answer or decomposition"
                yield Reject(read.row_id, "contradicts", told)


WORD = "fanoutqa/word_question"


@task(cache_key_fn=batch_key, persist_result=True)
def word_questions(batch: Batch) -> Receipt:
    """Let a model word generated questions; check that each says its pieces and not its answer. Others pass."""
    work = work_on(batch)
    rows = work.rows(FanOutRow)
    prompt = load_prompt(WORD)
    asked = [(row.id, row, _ask(prompt, Wording.load(row.wording))) for row in rows if row.wording]
    worded = {row.id: answer for row, answer in work.ask("author", asked, WORDED, _read_question)}
    return work.finish((_word(row, worded) for row in rows), FanOutRow)


def _ask(prompt: Prompt, wording: Wording) -> Ask:
    return fill_in(
        prompt,
        group=wording.group,
        names="; ".join(wording.names),
        choice=wording.format_choice(),
        asked=wording.asked,
    )


def _read_question(row: FanOutRow, texts: Sequence[str]) -> str | Unreadable:
    wording = Wording.load(row.wording or "")
    question = check_worded(texts[0], wording, json.loads(row.answer or ""))
    if isinstance(question, Unreadable):
        return question
    added = find_additions(question, wording)
    return Unreadable(f"the question {added}") if added else question


def _word(row: FanOutRow, worded: Mapping[str, Answered[str]]) -> Outcome:
    answer = worded.get(row.id)
    if answer is None:
        return row
    return answer.read if isinstance(answer.read, Reject) else row.replace(question=answer.read, author=answer.model)
