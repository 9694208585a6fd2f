"""Steps in which the author model writes (BioKaLMA, paper Appendix A.3): annotation, evolution, questions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prefect import task

from tasks.assets import load_prompt
from tasks.biokalma.choose import Turn, choose_pieces, open_turns
from tasks.biokalma.core.added_sentences import check_added
from tasks.biokalma.core.evolution import lacks, list_new, list_whole
from tasks.biokalma.core.paragraph_replies import PARAGRAPH, QUESTION, read_paragraph, read_question
from tasks.biokalma.core.questions import check_question, check_share
from tasks.biokalma.core.rows import BiographyRow, Candidate, CountedPair, EvolvingPair, Round, RoundRow
from tasks.biokalma.core.stated import StatedKnowledge, find_stated
from tasks.biokalma.params import BiokalmaInputs
from tasks.biokalma.sources.lists import load_pair_relations, load_properties_asked
from tasks.core.authoring.citations import format_knowledge, parse_citations
from tasks.core.prompts import Ask, fill_in
from tasks.core.receipts import Batch, Receipt
from tasks.core.replies import UNREADABLE_KINDS, Unreadable
from tasks.core.rows import Outcome, Reject, arrow_table
from tasks.engine.batches import Answered, Work, batch_key, work_on

ANNOTATE, EXTEND = "biokalma/annotate", "biokalma/extend"
GENERAL, SPECIFIC = "biokalma/general_question", "biokalma/specific_question"


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
    cited: StatedKnowledge


def _read_annotated(row: CountedPair, texts: Sequence[str]) -> _Annotated | Unreadable:
    text = read_paragraph(texts[0])
    if isinstance(text, Unreadable):
        return text
    pool = [*row.person_pool, *row.other_pool]
    read = parse_citations(text, {piece.property for piece in pool})
    # what a citation leaves behind may have had a space or none: letters alone are compared
    if "".join(read.text.split()) != "".join(row.text.split()):
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
    """Rounds 2 and on: the best relation, with all its values, becomes the paragraph's next sentence (Appendix A.3, Equation 1)."""
    work = work_on(batch)
    given = work.rows(EvolvingPair)
    rows = {row.id: row for row in given}
    lost: dict[str, Reject] = {}
    last = work.inputs(BiokalmaInputs).params.rounds
    for number in range(2, last + 1):
        turns = open_turns([row for row in rows.values() if row.id not in lost], number, number == last, lost)
        while turns:
            turns = _try_pieces(work, choose_pieces(work, turns, lost), number, rows, lost)
    outcomes = [lost.get(row.id) or _judge(rows[row.id]) for row in given]
    work.extras = arrow_table(RoundRow, _list_rounds(rows.values()))
    return work.finish(outcomes, EvolvingPair)


def _judge(row: EvolvingPair) -> Outcome:
    """Return a pair with the whole relations of its set; a pair that has one of each person, which the last round sees to."""
    whole = list_whole(row.minimum_knowledge, [*row.person_pool, *row.other_pool], row.names)
    if lacking := lacks(row.names, whole):
        return Reject(row.id, "person_missing", f"no piece of knowledge is about {lacking[0]}")
    return row.replace(minimum_knowledge=whole)


def _try_pieces(
    work: Work, turns: Sequence[Turn], number: int, rows: dict[str, EvolvingPair], lost: dict[str, Reject]
) -> list[Turn]:
    """Ask for one sentence for each pair; return the pairs whose piece was not brought in."""
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
            # an author that refuses one piece may say another
            first, values = turn.pieces[0], "; ".join(each.value for each in turn.pieces)
            turn.refused.append(f"{first.qid} {first.pid} {values}: {answer.read.detail}")
            if turn.is_lost:
                reason = answer.read.reason if answer.read.reason != "reply_not_in_format" else "no_piece_brought_in"
                lost[row.id] = Reject(row.id, reason, f"round {number}: {'; '.join(turn.refused)}")
            else:
                left.append(turn)
        else:
            rows[row.id] = _add(turn, number, answer.read, answer.key, turn.candidates(params))
    return left


def _read_extended(turn: Turn, texts: Sequence[str]) -> str | Unreadable:
    text = read_paragraph(texts[0])
    if isinstance(text, Unreadable):
        return text
    row = turn.row
    return check_added(row.paragraph_now, text, turn.pieces, row.minimum_knowledge, row.names)


def _add(turn: Turn, number: int, sentence: str, call: str, candidates: list[Candidate]) -> EvolvingPair:
    row = turn.row
    added = Round(
        number=number,
        chosen=turn.pieces,
        sentence=sentence,
        candidates=candidates,
        refused=turn.refused,
        removed_citations=0,
        unstated_citations=0,
        call=call,
    )
    return row.replace(
        rounds=[*row.rounds, added],
        minimum_knowledge=[*row.minimum_knowledge, *turn.pieces],
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
    """Two questions for the set of knowledge that the paragraph tells (Appendix A.3, Tables 11 and 12)."""
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
