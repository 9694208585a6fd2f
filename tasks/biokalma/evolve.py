"""Steps in which the author model writes (BioKaLMA, paper Appendix A.3): annotation, evolution, questions."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from prefect import task

from tasks.assets import load_prompt
from tasks.biokalma.core.added_sentences import check_added
from tasks.biokalma.core.evolution import lacks, list_new, rank_candidates
from tasks.biokalma.core.knowledge_sentences import verbalise_piece
from tasks.biokalma.core.paragraph_replies import PARAGRAPH, QUESTION, read_paragraph, read_question
from tasks.biokalma.core.rows import BiographyRow, Candidate, CountedPair, EvolvingPair, Round, RoundRow
from tasks.biokalma.params import BiokalmaInputs
from tasks.biokalma.sources.lists import load_pair_relations, load_relation_forms
from tasks.core.authoring.citations import MatchedCitations, format_knowledge, match_citations, parse_citations
from tasks.core.authoring.pieces import Piece
from tasks.core.calls.call import Reply
from tasks.core.calls.perplexity import call_perplexity, read_weighed
from tasks.core.prompts import Ask, fill_in
from tasks.core.receipts import Batch, Receipt
from tasks.core.replies import UNREADABLE_KINDS, Unreadable
from tasks.core.rows import Outcome, Reject, arrow_table
from tasks.engine.batches import Answered, Work, batch_key, work_on

ANNOTATE, EXTEND = "biokalma/annotate", "biokalma/extend"
GENERAL, SPECIFIC = "biokalma/general_question", "biokalma/specific_question"
PIECES_TRIED = 3
"""So many pieces, the best ones, are tried in a round before a pair is given up; each is asked for twice at the most."""


@task(cache_key_fn=batch_key, persist_result=True)
def annotate_paragraph(batch: Batch) -> Receipt:
    """Round 1: mark in the paragraph what the knowledge pool holds of it (Appendix A.3, Table 9)."""
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
    """With its citations."""
    cited: MatchedCitations


def _read_annotated(row: CountedPair, texts: Sequence[str]) -> _Annotated | Unreadable:
    text = read_paragraph(texts[0])
    if isinstance(text, Unreadable):
        return text
    pool = [*row.person_pool, *row.other_pool]
    read = parse_citations(text, {piece.property for piece in pool})
    # what a citation leaves behind may have had a space or none: letters alone are compared
    if "".join(read.text.split()) != "".join(row.text.split()):
        return Unreadable("text_changed: without its citations the paragraph is not the one that was given")
    return _Annotated(text, match_citations(read.citations, pool))


def _begin(row: CountedPair, answer: Answered[_Annotated]) -> Outcome:
    annotated = answer.read
    if isinstance(annotated, Reject):
        return annotated
    pieces = list_new(annotated.cited.pieces, [], load_pair_relations().inverses)
    if not pieces:
        told = f"{annotated.cited.removed} citations, none of them in a pool: {annotated.text}"
        return Reject(row.id, "no_citation", told)
    first = Round(
        number=1,
        chosen=pieces,
        sentence=annotated.text,
        candidates=[],
        refused=[],
        removed_citations=annotated.cited.removed,
        call=answer.key,
    )
    return row.extend(EvolvingPair, rounds=[first], minimum_knowledge=pieces, paragraph_now=row.text)


@dataclass(slots=True)
class _Turn:
    """One pair in one round."""

    row: EvolvingPair
    candidates: list[Candidate]
    pieces: list[Piece]
    """Those of the candidates, best first."""
    refused: list[str] = field(default_factory=list)

    @property
    def next_piece(self) -> Piece:
        """The piece to be tried."""
        return self.pieces[len(self.refused)]

    @property
    def is_lost(self) -> bool:
        """True when no piece is left to be tried."""
        return len(self.refused) >= min(PIECES_TRIED, len(self.pieces))


@task(cache_key_fn=batch_key, persist_result=True)
def evolve_paragraph(batch: Batch) -> Receipt:
    """Rounds 2 and on: the best piece of knowledge becomes the paragraph's next sentence (Appendix A.3, Equation 1)."""
    work = work_on(batch)
    given = work.rows(EvolvingPair)
    rows = {row.id: row for row in given}
    lost: dict[str, Reject] = {}
    for number in range(2, work.inputs(BiokalmaInputs).params.rounds + 1):
        turns = list(_open_turns(work, [row for row in rows.values() if row.id not in lost], number, lost))
        while turns:
            turns = _try_pieces(work, turns, number, rows, lost)
    outcomes = [lost.get(row.id) or _judge(rows[row.id]) for row in given]
    work.extras = arrow_table(RoundRow, _list_rounds(rows.values()))
    return work.finish(outcomes, EvolvingPair)


def _judge(row: EvolvingPair) -> Outcome:
    """Return a pair that has a piece of either person; the last round sees to it, unless the first is the last."""
    if lacking := lacks([row.person_qid, row.other_qid], row.minimum_knowledge):
        return Reject(row.id, "person_missing", f"no piece of knowledge is about {lacking[0]}")
    return row


def _open_turns(work: Work, rows: Sequence[EvolvingPair], number: int, lost: dict[str, Reject]) -> Iterator[_Turn]:
    """Yield the pairs of a round with their candidates, weighed; a pair without any is lost."""
    scorer, forms = work.run.services.perplexity(), load_relation_forms()
    choices = {row.id: _choose_among(row, is_last=number == work.inputs(BiokalmaInputs).params.rounds) for row in rows}
    names = {row.id: {row.person_qid: row.person, row.other_qid: row.other} for row in rows}
    texts = {
        (row.id, place): f"{row.paragraph_now} {verbalise_piece(piece, names[row.id][piece.qid], forms)}"
        for row in rows
        for place, piece in enumerate(choices[row.id])
    }
    calls = {key: call_perplexity(scorer.identity, text) for key, text in texts.items()}
    records = work.call(scorer, ((row_id, calls[row_id, place]) for row_id, place in texts))
    for row in rows:
        pieces = choices[row.id]
        if not pieces:
            lost[row.id] = Reject(row.id, "pool_exhausted", f"round {number}: no piece is left to add")
            continue
        replies = [records[calls[row.id, place].key].reply() for place in range(len(pieces))]
        if passing := next((reply for reply in replies if reply.transient), None):
            lost[row.id] = Reject(row.id, "perplexity_failed", passing.error or "no reason given", retryable=True)
            continue
        if all(reply.status != "ok" for reply in replies):
            lost[row.id] = Reject(row.id, "perplexity_failed", replies[0].error or "no reason given")
            continue
        perplexities = list(map(_read_perplexity, replies))
        counts = {count.id: count.graphs for count in row.relation_counts}
        ranked = rank_candidates(
            pieces, perplexities, counts, row.relation_counts[0].graphs_in_all, work.inputs(BiokalmaInputs).params.alpha
        )
        yield _Turn(row, [candidate for _, candidate in ranked], [piece for piece, _ in ranked])


def _read_perplexity(reply: Reply) -> float | None:
    """Return a perplexity; None where there is none, or where the model holds the text impossible."""
    perplexity = read_weighed(reply.body).perplexity if reply.status == "ok" else math.inf
    return perplexity if math.isfinite(perplexity) else None


def _choose_among(row: EvolvingPair, *, is_last: bool) -> list[Piece]:
    """Return the pieces that are not said yet; in the last round, those of a person who has none so far.

    Both people have to be in the set in the end, and the scores alone do not see to it. A piece that says a used one
    the other way round counts only where the person who lacks one has no other.
    """
    lacking = lacks([row.person_qid, row.other_qid], row.minimum_knowledge) if is_last else []
    pool = [piece for piece in (*row.person_pool, *row.other_pool) if not lacking or piece.qid in lacking]
    inverses = load_pair_relations().inverses
    new = [piece for piece in pool if list_new([piece], row.minimum_knowledge, inverses)]
    return new or (pool if lacking else [])


def _try_pieces(
    work: Work, turns: Sequence[_Turn], number: int, rows: dict[str, EvolvingPair], lost: dict[str, Reject]
) -> list[_Turn]:
    """Ask for one sentence for each pair; return the pairs whose piece was not brought in."""
    prompt = load_prompt(EXTEND)
    asked = []
    for turn in turns:
        row, piece = turn.row, turn.next_piece
        name = row.person if piece.qid == row.person_qid else row.other
        asked.append(
            (row.id, turn, fill_in(prompt, paragraph=row.paragraph_now, piece=format_knowledge(name, [piece])))
        )
    left = []
    for turn, answer in work.ask("author", asked, PARAGRAPH, _read_extended):
        row = turn.row
        if isinstance(answer.read, Reject) and (answer.read.retryable or answer.read.reason not in UNREADABLE_KINDS):
            lost[row.id] = answer.read
        elif isinstance(answer.read, Reject):
            # an author that refuses one piece may say another
            piece = turn.next_piece
            turn.refused.append(f"{piece.qid} {piece.pid} {piece.value}: {answer.read.detail}")
            if turn.is_lost:
                reason = answer.read.reason if answer.read.reason != "reply_not_in_format" else "no_piece_brought_in"
                lost[row.id] = Reject(row.id, reason, f"round {number}: {'; '.join(turn.refused)}")
            else:
                left.append(turn)
        else:
            rows[row.id] = _add(turn, number, answer.read, answer.key)
    return left


def _read_extended(turn: _Turn, texts: Sequence[str]) -> str | Unreadable:
    text = read_paragraph(texts[0])
    return text if isinstance(text, Unreadable) else check_added(turn.row.paragraph_now, text, turn.next_piece)


def _add(turn: _Turn, number: int, sentence: str, call: str) -> EvolvingPair:
    row, piece = turn.row, turn.next_piece
    added = Round(
        number=number,
        chosen=[piece],
        sentence=sentence,
        candidates=turn.candidates,
        refused=turn.refused,
        removed_citations=0,
        call=call,
    )
    return row.replace(
        rounds=[*row.rounds, added],
        minimum_knowledge=[*row.minimum_knowledge, piece],
        paragraph_now=f"{row.paragraph_now} {sentence}",
    )


def _list_rounds(rows: Iterable[EvolvingPair]) -> list[RoundRow]:
    return [
        RoundRow(id=f"{row.id}_{each.number}", row_id=row.id, **each.model_dump())
        for row in rows
        for each in row.rounds
    ]


@task(cache_key_fn=batch_key, persist_result=True)
def ask_questions(batch: Batch) -> Receipt:
    """Two questions that the paragraph answers, one general and one specific (Appendix A.3, Tables 11 and 12)."""
    work = work_on(batch)
    rows = work.rows(EvolvingPair)
    general, specific = (
        [
            answer
            for _, answer in work.ask(
                "author", _ask_about(rows, prompt), QUESTION, lambda _, texts: read_question(texts[0])
            )
        ]
        for prompt in (GENERAL, SPECIFIC)
    )
    scorer = work.run.services.perplexity().identity
    return work.finish(
        (_publish(row, one, two, scorer) for row, one, two in zip(rows, general, specific, strict=True)), BiographyRow
    )


def _ask_about(rows: Sequence[EvolvingPair], prompt_id: str) -> list[tuple[str, EvolvingPair, Ask]]:
    prompt = load_prompt(prompt_id)
    return [(row.id, row, fill_in(prompt, paragraph=row.paragraph_now)) for row in rows]


def _publish(row: EvolvingPair, general: Answered[str], specific: Answered[str], scorer: str) -> Outcome:
    if isinstance(general.read, Reject):
        return general.read
    if isinstance(specific.read, Reject):
        return specific.read
    if general.read.casefold() == specific.read.casefold():
        return Reject(row.id, "same_questions", general.read)
    return row.narrow(
        BiographyRow,
        people=[row.person_qid, row.other_qid],
        names=[row.person, row.other],
        paragraph=row.paragraph_now,
        general_question=general.read,
        specific_question=specific.read,
        knowledge_graph=[*row.person_pool, *row.other_pool],
        author=general.model,
        scorer=scorer,
    )
