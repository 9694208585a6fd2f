"""Steps in which the author model writes (BioKaLMA, paper Appendix A.3): annotation, evolution, questions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prefect import task

from tasks.assets import load_prompt
from tasks.biokalma.choose import Turn, choose_pieces, open_turns
from tasks.biokalma.core.added_sentences import check_added
from tasks.biokalma.core.evolution import lacks, list_new
from tasks.biokalma.core.paragraph_replies import PARAGRAPH, QUESTION, read_paragraph, read_question
from tasks.biokalma.core.rows import BiographyRow, Candidate, CountedPair, EvolvingPair, Round, RoundRow
from tasks.biokalma.params import BiokalmaInputs
from tasks.biokalma.sources.lists import load_pair_relations
from tasks.core.authoring.citations import MatchedCitations, format_knowledge, match_citations, parse_citations
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


@task(cache_key_fn=batch_key, persist_result=True)
def evolve_paragraph(batch: Batch) -> Receipt:
    """Rounds 2 and on: the best piece of knowledge becomes the paragraph's next sentence (Appendix A.3, Equation 1)."""
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
    """Return a pair that has a piece of either person; the last round sees to it, unless the first is the last."""
    if lacking := lacks([row.person_qid, row.other_qid], row.minimum_knowledge):
        return Reject(row.id, "person_missing", f"no piece of knowledge is about {lacking[0]}")
    return row


def _try_pieces(
    work: Work, turns: Sequence[Turn], number: int, rows: dict[str, EvolvingPair], lost: dict[str, Reject]
) -> list[Turn]:
    """Ask for one sentence for each pair; return the pairs whose piece was not brought in."""
    prompt = load_prompt(EXTEND)
    asked = []
    for turn in turns:
        piece = format_knowledge(turn.name, [turn.piece])
        asked.append((turn.row.id, turn, fill_in(prompt, paragraph=turn.row.paragraph_now, piece=piece)))
    params = work.inputs(BiokalmaInputs).params
    left = []
    for turn, answer in work.ask("author", asked, PARAGRAPH, _read_extended):
        row = turn.row
        if isinstance(answer.read, Reject) and (answer.read.retryable or answer.read.reason not in UNREADABLE_KINDS):
            lost[row.id] = answer.read
        elif isinstance(answer.read, Reject):
            # an author that refuses one piece may say another
            turn.refused.append(f"{turn.piece.qid} {turn.piece.pid} {turn.piece.value}: {answer.read.detail}")
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
    return text if isinstance(text, Unreadable) else check_added(turn.row.paragraph_now, text, turn.piece)


def _add(turn: Turn, number: int, sentence: str, call: str, candidates: list[Candidate]) -> EvolvingPair:
    row, piece = turn.row, turn.piece
    added = Round(
        number=number,
        chosen=[piece],
        sentence=sentence,
        candidates=candidates,
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
