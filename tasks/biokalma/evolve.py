"""Stages in which the author model writes (BioKaLMA, paper Appendix A.3): annotation, evolution, questions.

Each round chooses the piece that a pair gains, with only the perplexities that the choice needs (Equation 1)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.biokalma.core.citations import fold_answer, read_citations
from factmill.tasks.biokalma.core.evolution import (
    find_best,
    lacks,
    list_candidates,
    list_missing,
    list_new,
    list_whole,
    weigh_specificity,
)
from factmill.tasks.biokalma.core.knowledge_sentences import RelationForm, verbalise_piece
from factmill.tasks.biokalma.core.replies import (
    PARAGRAPH,
    QUESTION,
    StatedKnowledge,
    check_added,
    check_question,
    check_share,
    find_stated,
    read_paragraph,
    read_question,
)
from factmill.tasks.biokalma.core.rows import BiographyRow, Candidate, CountedPair, EvolvingPair, Round, RoundRow
from factmill.tasks.biokalma.params import BiokalmaInputs, BiokalmaParams
from factmill.tasks.biokalma.sources.person_pairs import load_pair_relations, load_properties_asked, load_relation_forms
from factmill.tasks.core.authoring.citations import Piece, format_knowledge
from factmill.tasks.core.calls.call import Reply
from factmill.tasks.core.calls.local_models import call_perplexity, read_weighed
from factmill.tasks.core.prompts import Ask, fill_in
from factmill.tasks.core.receipts import Batch, Receipt
from factmill.tasks.core.replies import UNREADABLE_KINDS, Unreadable
from factmill.tasks.core.rows import Outcome, Reject, arrow_table
from factmill.tasks.engine.batches import Answered, Work, batch_key, work_on

PIECES_TRIED = 3
"""Number of best pieces tried in a round before a pair is dropped; each is requested at most twice."""


@dataclass(slots=True)
class Turn:
    """One pair in one round."""

    row: EvolvingPair
    choices: list[list[Piece]]
    """Choices: the unstated values of one relation of one person each."""
    specificity: list[float]
    replies: dict[int, Reply] = field(default_factory=dict)
    """Index of a choice → perplexity response for its sentence."""
    tried: list[int] = field(default_factory=list)
    """Indices of the choices tried, the current one last."""
    refused: list[str] = field(default_factory=list)
    """Tried choices that the author failed to add, and why."""

    @property
    def pieces(self) -> list[Piece]:
        """The current choice: values of one relation to be added."""
        return self.choices[self.tried[-1]]

    @property
    def name(self) -> str:
        """Name of the person that the pieces are about."""
        return self.row.names[self.pieces[0].qid]

    @property
    def is_lost(self) -> bool:
        """True when no choice is left to try."""
        return len(self.refused) >= min(PIECES_TRIED, len(self.choices))

    def candidates(self, params: BiokalmaParams) -> list[Candidate]:
        """Return all choices with their known scores."""
        return list_candidates(
            self._heads(), self.specificity, self._weighed(), self.tried, params.alpha, params.coherence
        )

    def choose(self, params: BiokalmaParams) -> int | list[int]:
        """Return the index of the next choice, or the indices whose perplexities the choice needs first."""
        if self.replies and all(reply.status != "ok" for reply in self.replies.values()):
            # no requested perplexity is available, so request all others
            return [at for at in range(len(self.choices)) if at not in self.replies]
        return find_best(self._heads(), self.specificity, self._weighed(), self.tried, params.alpha, params.coherence)

    def _heads(self) -> list[Piece]:
        """Return one piece per choice, with its values joined."""
        values = ("; ".join(piece.value for piece in each) for each in self.choices)
        return [each[0].model_copy(update={"value": value}) for each, value in zip(self.choices, values, strict=True)]

    def _weighed(self) -> Mapping[int, float | None]:
        return {at: _read_perplexity(reply) for at, reply in self.replies.items()}


def open_turns(rows: Iterable[EvolvingPair], number: int, is_last: bool, lost: dict[str, Reject]) -> list[Turn]:
    """Return the pairs of a round with their choices; a pair without any gets a reject in `lost`."""
    turns = []
    for row in rows:
        if choices := _choose_among(row, is_last=is_last):
            counts = {count.id: count for count in row.relation_counts}
            found = [counts[pieces[0].pid] for pieces in choices]
            turns.append(Turn(row, choices, [weigh_specificity(each.graphs, each.graphs_in_all) for each in found]))
        else:
            lost[row.id] = Reject(row.id, "pool_exhausted", f"round {number}: no piece is left to add")
    return turns


def choose_pieces(work: Work, turns: Sequence[Turn], lost: dict[str, Reject]) -> list[Turn]:
    """Choose a piece per pair, requesting only perplexities that can change a choice; failed pairs go to `lost`."""
    params = work.inputs(BiokalmaInputs).params
    scorer, forms = work.run.services.perplexity(), load_relation_forms()
    chosen, waiting = [], list(turns)
    while waiting:
        wanted: list[tuple[Turn, int]] = []
        for turn in waiting:
            match turn.choose(params):
                case int(place):
                    turn.tried.append(place)
                    chosen.append(turn)
                case []:
                    lost[turn.row.id] = _reject(turn.row.id, turn.replies[min(turn.replies)])
                case places:
                    wanted += [(turn, place) for place in places]
        calls = [
            (turn, place, call_perplexity(scorer.identity, _continue(turn.row, turn.choices[place], forms)))
            for turn, place in wanted
        ]
        records = work.call(scorer, ((turn.row.id, call) for turn, _, call in calls))
        for turn, place, call in calls:
            turn.replies[place] = records[call.key].reply()
            if turn.replies[place].transient:
                lost[turn.row.id] = _reject(turn.row.id, turn.replies[place])
        waiting = list({turn.row.id: turn for turn, _ in wanted if turn.row.id not in lost}.values())
    return chosen


def _continue(row: EvolvingPair, pieces: Sequence[Piece], forms: Mapping[str, RelationForm]) -> str:
    return f"{row.paragraph_now} {verbalise_piece(pieces[0], row.names[pieces[0].qid], forms, pieces[1:])}"


def _reject(row_id: str, reply: Reply) -> Reject:
    return Reject(row_id, "perplexity_failed", reply.error or "no reason given", retryable=reply.transient)


def _read_perplexity(reply: Reply) -> float | None:
    """Return a response's perplexity; None where there is none, or where the model finds the text impossible."""
    perplexity = read_weighed(reply.body).perplexity if reply.status == "ok" else math.inf
    return perplexity if math.isfinite(perplexity) else None


def _choose_among(row: EvolvingPair, *, is_last: bool) -> list[list[Piece]]:
    """Return the unstated pieces by relation; in the last round only those of a person without pieces in the set.

    The final set must be about both people, which the scores alone do not ensure. A piece that states the inverse of a
    used one is a choice only where a person without pieces has no other.
    """
    pool, known = [*row.person_pool, *row.other_pool], row.minimum_knowledge
    lacking = lacks(row.names, list_whole(known, pool, row.names)) if is_last else []
    choices = [each for each in list_missing(known, pool, row.names) if not lacking or each[0].qid in lacking]
    inverses = load_pair_relations().inverses
    new = [each for each in choices if list_new(each, known, inverses) == each]
    return new or (choices if lacking else [])


ANNOTATE, EXTEND = "biokalma/annotate", "biokalma/extend"
GENERAL, SPECIFIC = "biokalma/general_question", "biokalma/specific_question"


@task(cache_key_fn=batch_key, persist_result=True)
def annotate_paragraph(batch: Batch) -> Receipt:
    """Round 1: annotate the paragraph with the pieces of the knowledge pool that it states (Appendix A.3, Table 9)."""
    work = work_on(batch)
    prompt = load_prompt(ANNOTATE)
    asked = []
    for row in work.rows(CountedPair):
        pools = (row.person, row.person_pool), (row.other, row.other_pool)
        knowledge = "\n".join(format_knowledge(name, pool) for name, pool in pools)
        asked.append((row.id, row, fill_in(prompt, paragraph=row.text, knowledge=knowledge)))
    return work.finish(
        (_begin(row, answer) for row, answer in work.ask("author", asked, PARAGRAPH, _read_annotated)), EvolvingPair
    )


@dataclass(frozen=True, slots=True)
class _Annotated:
    text: str
    """Paragraph with its citations."""
    cited: StatedKnowledge


def _read_annotated(row: CountedPair, texts: Sequence[str]) -> _Annotated | Unreadable:
    text = read_paragraph(texts[0])
    if isinstance(text, Unreadable):
        return text
    pool = [*row.person_pool, *row.other_pool]
    read = read_citations(text, pool, is_nested=True)
    # a removed citation may leave a space or none, so spaces are not compared
    if "".join("".join(read.sentences).split()) != "".join(fold_answer(row.text).split()):
        return Unreadable("text_changed: without its citations the paragraph is not the one that was given")
    return _Annotated(text, find_stated(read, pool, row.names))


def _begin(row: CountedPair, answer: Answered[_Annotated]) -> Outcome:
    annotated = answer.read
    if isinstance(annotated, Reject):
        return annotated
    cited = annotated.cited
    unstated = "; ".join(f"{piece.qid} {piece.property}: {piece.value}" for piece in cited.unstated)
    if cited.is_overdone:
        told = f"{len(cited.unstated)} of {len(cited.unstated) + len(cited.pieces)} cited pieces are not in the text"
        return Reject(row.id, "cites_unstated", f"{told} they are cited for: {unstated}; in {annotated.text}")
    pieces = list_new(cited.pieces, [], load_pair_relations().inverses)
    if not pieces:
        told = f"{cited.removed} citations that are in no pool, {len(cited.unstated)} of what the text does not say"
        return Reject(row.id, "no_citation", f"{told}: {annotated.text}")
    first = Round(
        number=1,
        chosen=pieces,
        sentence=annotated.text,
        candidates=[],
        refused=[],
        removed_citations=cited.removed,
        unstated_citations=len(cited.unstated),
        call=answer.key,
    )
    return row.extend(EvolvingPair, rounds=[first], minimum_knowledge=pieces, paragraph_now=row.text)


@task(cache_key_fn=batch_key, persist_result=True)
def evolve_paragraph(batch: Batch) -> Receipt:
    """Later rounds: add the best relation with all its values as the next sentence (Appendix A.3, Equation 1)."""
    work = work_on(batch)
    rows = {row.id: row for row in work.rows(EvolvingPair)}
    lost: dict[str, Reject] = {}
    last = work.inputs(BiokalmaInputs).params.rounds
    for number in range(2, last + 1):
        turns = open_turns([row for row in rows.values() if row.id not in lost], number, number == last, lost)
        while turns:
            turns = _try_pieces(work, choose_pieces(work, turns, lost), number, rows, lost)
    outcomes: list[Outcome] = []
    for row in rows.values():
        # the last round ensures that each person has one complete relation
        whole = list_whole(row.minimum_knowledge, [*row.person_pool, *row.other_pool], row.names)
        if row.id in lost:
            outcomes.append(lost[row.id])
        elif lacking := lacks(row.names, whole):
            outcomes.append(Reject(row.id, "person_missing", f"no piece of knowledge is about {lacking[0]}"))
        else:
            outcomes.append(row.replace(minimum_knowledge=whole))
    rounds = ((row.id, each) for row in rows.values() for each in row.rounds)
    work.extras = arrow_table(
        RoundRow,
        (RoundRow(id=f"{row_id}_{each.number}", row_id=row_id, **each.model_dump()) for row_id, each in rounds),
    )
    return work.finish(outcomes, EvolvingPair)


def _try_pieces(
    work: Work, turns: Sequence[Turn], number: int, rows: dict[str, EvolvingPair], lost: dict[str, Reject]
) -> list[Turn]:
    """Ask the author for one sentence per pair; return the pairs whose piece was not added."""
    prompt = load_prompt(EXTEND)
    asked = []
    for turn in turns:
        piece = format_knowledge(turn.name, turn.pieces)
        asked.append((turn.row.id, turn, fill_in(prompt, paragraph=turn.row.paragraph_now, piece=piece)))
    params = work.inputs(BiokalmaInputs).params
    left = []
    for turn, answer in work.ask("author", asked, PARAGRAPH, _read_extended):
        row = turn.row
        if isinstance(answer.read, Reject) and (answer.read.retryable or answer.read.reason not in UNREADABLE_KINDS):
            lost[row.id] = answer.read
        elif isinstance(answer.read, Reject):
            # an author that refuses one piece may add another
            first, values = turn.pieces[0], "; ".join(each.value for each in turn.pieces)
            turn.refused.append(f"{first.qid} {first.pid} {values}: {answer.read.detail}")
            if turn.is_lost:
                reason = answer.read.reason if answer.read.reason != "reply_not_in_format" else "no_piece_brought_in"
                lost[row.id] = Reject(row.id, reason, f"round {number}: {'; '.join(turn.refused)}")
            else:
                left.append(turn)
        else:
            added = Round(
                number=number,
                chosen=turn.pieces,
                sentence=answer.read,
                candidates=turn.candidates(params),
                refused=turn.refused,
                removed_citations=0,
                unstated_citations=0,
                call=answer.key,
            )
            rows[row.id] = row.replace(
                rounds=[*row.rounds, added],
                minimum_knowledge=[*row.minimum_knowledge, *turn.pieces],
                paragraph_now=f"{row.paragraph_now} {answer.read}",
            )
    return left


def _read_extended(turn: Turn, texts: Sequence[str]) -> str | Unreadable:
    text = read_paragraph(texts[0])
    if isinstance(text, Unreadable):
        return text
    row = turn.row
    return check_added(row.paragraph_now, text, turn.pieces, row.minimum_knowledge, row.names)


@task(cache_key_fn=batch_key, persist_result=True)
def ask_questions(batch: Batch) -> Receipt:
    """Have the author write both questions for the paragraph's knowledge set (Appendix A.3, Tables 11 and 12)."""
    work = work_on(batch)
    rows = work.rows(EvolvingPair)
    general = [answer for _, answer in work.ask("author", _ask_about(rows, GENERAL), QUESTION, _read_general)]
    specific = [answer for _, answer in work.ask("author", _ask_about(rows, SPECIFIC), QUESTION, _read_specific)]
    scorer = work.run.services.perplexity().identity
    return work.finish(
        (_publish(row, one, two, scorer) for row, one, two in zip(rows, general, specific, strict=True)), BiographyRow
    )


def _ask_about(rows: Sequence[EvolvingPair], prompt_id: str) -> Iterator[tuple[str, EvolvingPair, Ask]]:
    prompt = load_prompt(prompt_id)
    for row in rows:
        told = {qid: [piece for piece in row.minimum_knowledge if piece.qid == qid] for qid in row.names}
        knowledge = "\n".join(format_knowledge(row.names[qid], pieces) for qid, pieces in told.items())
        yield row.id, row, fill_in(prompt, paragraph=row.paragraph_now, knowledge=knowledge)


def _read_general(row: EvolvingPair, texts: Sequence[str]) -> str | Unreadable:
    question = read_question(texts[0])
    if isinstance(question, Unreadable):
        return question
    pool, held = [*row.person_pool, *row.other_pool], row.minimum_knowledge
    whole = {piece.property for piece in list_whole(held, pool, {})}
    partial = dict.fromkeys(piece.property for piece in held if piece.property not in whole)
    return check_question(question, [row.person, row.other], held, load_properties_asked(), partial)


def _read_specific(row: EvolvingPair, texts: Sequence[str]) -> tuple[str, float] | Unreadable:
    question = _read_general(row, texts)
    if isinstance(question, Unreadable):
        return question
    return check_share(question, [row.person_qid, row.other_qid], row.minimum_knowledge, load_properties_asked())


def _publish(row: EvolvingPair, general: Answered[str], specific: Answered[tuple[str, float]], scorer: str) -> Outcome:
    if isinstance(general.read, Reject):
        return general.read
    if isinstance(specific.read, Reject):
        return specific.read
    question, share = specific.read
    if general.read.casefold() == question.casefold():
        return Reject(row.id, "same_questions", general.read)
    return row.narrow(
        BiographyRow,
        people=[row.person_qid, row.other_qid],
        names=[row.person, row.other],
        paragraph=row.paragraph_now,
        general_question=general.read,
        specific_question=question,
        asked_share=share,
        knowledge_graph=[*row.person_pool, *row.other_pool],
        author=general.model,
        scorer=scorer,
    )
