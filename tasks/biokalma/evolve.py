"""Stages in which the author model writes (BioKaLMA, paper Appendix A.3): annotation, evolution, questions.

Each round chooses the piece that a pair gains, with only the perplexities that the choice needs (Equation 1)."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from prefect import task

from factmill.tasks.assets import load_prompt
from factmill.tasks.biokalma.core.author_replies import (
    PARAGRAPH_REPLY_FORM,
    QUESTION_REPLY_FORM,
    StatedAndUnstatedCitedPieces,
    check_and_measure_asked_share,
    check_pair_question,
    extract_checked_added_sentence,
    find_stated_and_unstated_cited_pieces,
    read_paragraph,
    read_question,
)
from factmill.tasks.biokalma.core.citations import normalise_entities_brackets_and_spaces, read_sentences_and_citations
from factmill.tasks.biokalma.core.evolution import (
    CoherenceScale,
    choose_piece_or_missing_perplexities,
    compute_inverse_graph_frequency,
    list_addable_values_by_relation,
    list_candidates_tried_then_by_score,
    list_known_pieces_of_complete_relations,
    list_people_without_pieces,
    list_semantically_new_pieces,
)
from factmill.tasks.biokalma.core.knowledge_sentences import verbalise_piece
from factmill.tasks.biokalma.core.rows import (
    BiokalmaRow,
    EvolutionRoundRow,
    PairWithEvolutionRounds,
    PairWithRelationCounts,
    ParagraphEvolutionRound,
)
from factmill.tasks.biokalma.params import BiokalmaInputs, BiokalmaParams
from factmill.tasks.biokalma.sources.person_pairs import (
    RELATION_FILE,
    load_biography_wordings_by_label,
    load_build_pair_relations,
    load_relation_wordings,
)
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece, format_person_knowledge
from factmill.tasks.core.batch_receipts import BatchReceipt, StageBatch
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.calls.translation_and_perplexity import make_log_probability_call, parse_log_probability
from factmill.tasks.core.completions import UNREADABLE_COMPLETION_KINDS, UnreadableCompletion
from factmill.tasks.core.prompts import FilledPrompt, fill_prompt_template
from factmill.tasks.core.rows import Reject, RowOutcome, make_arrow_table
from factmill.tasks.engine.batches import BatchInProgress, ParsedCompletion, make_batch_cache_key, open_batch

MAX_PIECES_TRIED = 3
"""Number of best pieces tried in a round before a pair is dropped; each is requested at most twice."""


@dataclass(slots=True)
class EvolvingPairInRound:
    """One pair in one round."""

    row: PairWithEvolutionRounds
    choices: list[list[PersonKnowledgePiece]]
    """Choices: the unstated values of one relation of one person each."""
    specificity: list[float]
    perplexity_replies: dict[int, CallResponse] = field(default_factory=dict)
    """Index of a choice → perplexity response for its sentence."""
    tried: list[int] = field(default_factory=list)
    """Indices of the choices tried, the current one last."""
    refused: list[str] = field(default_factory=list)
    """Tried choices that the author failed to add, and why."""

    @property
    def pieces(self) -> list[PersonKnowledgePiece]:
        """The current choice: values of one relation to be added."""
        return self.choices[self.tried[-1]]

    @property
    def name(self) -> str:
        """Name of the person that the pieces are about."""
        return self.row.names[self.pieces[0].qid]

    @property
    def is_exhausted(self) -> bool:
        """True when no choice is left to try."""
        return len(self.refused) >= min(MAX_PIECES_TRIED, len(self.choices))

    def choose_next(self, params: BiokalmaParams) -> int | list[int]:
        """Return the index of the next choice, or the indices whose perplexities the choice needs first."""
        if self.perplexity_replies and all(reply.status != "ok" for reply in self.perplexity_replies.values()):
            # no requested perplexity is available, so request all others
            return [at for at in range(len(self.choices)) if at not in self.perplexity_replies]
        return choose_piece_or_missing_perplexities(*self.make_score_terms(params))

    def make_score_terms(
        self, params: BiokalmaParams
    ) -> tuple[list[PersonKnowledgePiece], list[float], dict[int, float | None], list[int], float, CoherenceScale]:
        """Return what Equation 1 weighs: one piece per choice with its values joined, specificities, known
        perplexities, indices tried, α and the scale of coherence."""
        joined = [
            each[0].model_copy(update={"value": "; ".join(piece.value for piece in each)}) for each in self.choices
        ]
        perplexities = {at: _find_finite_perplexity(reply) for at, reply in self.perplexity_replies.items()}
        return joined, self.specificity, perplexities, self.tried, params.alpha, params.coherence


def make_rounds_or_add_rejects(
    rows: Iterable[PairWithEvolutionRounds],
    number: int,
    is_last: bool,
    rejects: dict[str, Reject],
    inverses: Mapping[str, frozenset[str]],
) -> list[EvolvingPairInRound]:
    """Return the pairs of a round with their choices; a pair without any gets a reject in `rejects`.

    `inverses`: PID → PIDs of its inverse relations.
    """
    turns = []
    for row in rows:
        if choices := _list_addable_pieces_by_relation(row, inverses, is_last=is_last):
            counts = {
                count.id: compute_inverse_graph_frequency(count.graphs, count.graphs_in_all)
                for count in row.relation_counts
            }
            turns.append(EvolvingPairInRound(row, choices, [counts[pieces[0].pid] for pieces in choices]))
        else:
            rejects[row.id] = Reject(row.id, "pool_exhausted", f"round {number}: the pool has no piece left to add")
    return turns


def choose_next_pieces_by_perplexity(
    work: BatchInProgress, turns: Sequence[EvolvingPairInRound], rejects: dict[str, Reject]
) -> list[EvolvingPairInRound]:
    """Choose a piece per pair, requesting only perplexities that can change a choice; failed pairs go to `rejects`."""
    params = work.inputs(BiokalmaInputs).params
    scorer, forms = work.run.services.perplexity(), load_relation_wordings()
    chosen, waiting = [], list(turns)
    while waiting:
        wanted: list[tuple[EvolvingPairInRound, int]] = []
        for turn in waiting:
            match turn.choose_next(params):
                case int(place):
                    turn.tried.append(place)
                    chosen.append(turn)
                case []:
                    first_reply = turn.perplexity_replies[min(turn.perplexity_replies)]
                    rejects[turn.row.id] = _make_failed_perplexity_reject(turn.row.id, first_reply)
                case places:
                    wanted += [(turn, place) for place in places]
        calls = []
        for turn, place in wanted:
            first, *more = turn.choices[place]
            text = f"{turn.row.paragraph_now} {verbalise_piece(first, turn.row.names[first.qid], forms, more)}"
            calls.append((turn, place, make_log_probability_call(scorer.identity, text)))
        records = work.get_call_records(scorer, ((turn.row.id, call) for turn, _, call in calls))
        for turn, place, call in calls:
            turn.perplexity_replies[place] = reply = records[call.key].reply()
            if reply.transient:
                rejects[turn.row.id] = _make_failed_perplexity_reject(turn.row.id, reply)
        waiting = list({turn.row.id: turn for turn, _ in wanted if turn.row.id not in rejects}.values())
    return chosen


def _make_failed_perplexity_reject(row_id: str, reply: CallResponse) -> Reject:
    return Reject(row_id, "perplexity_failed", reply.error or "no reason given", retryable=reply.transient)


def _find_finite_perplexity(reply: CallResponse) -> float | None:
    """Return a response's perplexity; None where there is none, or where the model finds the text impossible."""
    perplexity = parse_log_probability(reply.body).perplexity if reply.status == "ok" else math.inf
    return perplexity if math.isfinite(perplexity) else None


def _list_addable_pieces_by_relation(
    row: PairWithEvolutionRounds, inverses: Mapping[str, frozenset[str]], *, is_last: bool
) -> list[list[PersonKnowledgePiece]]:
    """Return the unstated pieces by relation; in the last round only those of a person without pieces in the set.

    The final set must be about both people, which the scores alone do not ensure. A piece that states the inverse of a
    used one is a choice only where a person without pieces has no other.
    """
    known = row.minimum_knowledge
    complete = list_known_pieces_of_complete_relations(known, row.pool, row.names)
    lacking = list_people_without_pieces(row.names, complete) if is_last else []
    addable = list_addable_values_by_relation(known, row.pool, row.names)
    choices = [each for each in addable if not lacking or each[0].qid in lacking]
    new = [each for each in choices if list_semantically_new_pieces(each, known, inverses) == each]
    return new or (choices if lacking else [])


ANNOTATE_PROMPT, EXTEND_PROMPT = "biokalma/annotate", "biokalma/extend"
GENERAL_QUESTION_PROMPT, SPECIFIC_QUESTION_PROMPT = "biokalma/general_question", "biokalma/specific_question"


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def annotate_paragraph(batch: StageBatch) -> BatchReceipt:
    """Round 1: annotate the paragraph with the pieces of the knowledge pool that it states (Appendix A.3, Table 9)."""
    work = open_batch(batch)
    prompt = load_prompt(ANNOTATE_PROMPT)
    inverses = load_build_pair_relations(work.source_files(RELATION_FILE)).inverses
    asked = []
    for row in work.rows(PairWithRelationCounts):
        pools = (row.person, row.person_pool), (row.other, row.other_pool)
        knowledge = "\n".join(format_person_knowledge(name, pool) for name, pool in pools)
        asked.append((row.id, row, fill_prompt_template(prompt, paragraph=row.text, knowledge=knowledge)))
    return work.finish(
        (
            _make_first_round_or_reject(row, answer, inverses)
            for row, answer in work.prompt_model("author", asked, PARAGRAPH_REPLY_FORM, _read_annotated_paragraph)
        ),
        PairWithEvolutionRounds,
    )


AnnotatedParagraph = tuple[str, StatedAndUnstatedCitedPieces]
"""The paragraph with its citations, and the citations classified."""


def _read_annotated_paragraph(
    row: PairWithRelationCounts, texts: Sequence[str]
) -> AnnotatedParagraph | UnreadableCompletion:
    text = read_paragraph(texts[0])
    if isinstance(text, UnreadableCompletion):
        return text
    read = read_sentences_and_citations(text, row.pool, is_nested=True)
    # a removed citation may leave a space or none, so spaces are not compared
    if "".join("".join(read.sentences).split()) != "".join(normalise_entities_brackets_and_spaces(row.text).split()):
        return UnreadableCompletion("text_changed: without its citations the paragraph is not the one that was given")
    return text, find_stated_and_unstated_cited_pieces(read, row.pool, row.names)


def _make_first_round_or_reject(
    row: PairWithRelationCounts, answer: ParsedCompletion[AnnotatedParagraph], inverses: Mapping[str, frozenset[str]]
) -> RowOutcome:
    if isinstance(answer.parsed, Reject):
        return answer.parsed
    annotated, cited = answer.parsed
    unstated = "; ".join(f"{piece.qid} {piece.property}: {piece.value}" for piece in cited.unstated)
    if cited.is_mostly_unstated:
        problem = f"{len(cited.unstated)} of {len(cited.unstated) + len(cited.pieces)} cited pieces are not stated in the text that cites them"
        return Reject(row.id, "cites_unstated", f"{problem}: {unstated}; annotated text: {annotated}")
    pieces = list_semantically_new_pieces(cited.pieces, [], inverses)
    if not pieces:
        problem = (
            f"no valid citation ({cited.unknown_citations} not in a pool, {len(cited.unstated)} not stated in the text)"
        )
        return Reject(row.id, "no_citation", f"{problem}: {annotated}")
    first = ParagraphEvolutionRound(
        number=1,
        chosen=pieces,
        sentence=annotated,
        candidates=[],
        refused=[],
        removed_citations=cited.unknown_citations,
        unstated_citations=len(cited.unstated),
        call=answer.key,
    )
    return row.extend_to(PairWithEvolutionRounds, rounds=[first], minimum_knowledge=pieces, paragraph_now=row.text)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def evolve_paragraph(batch: StageBatch) -> BatchReceipt:
    """Later rounds: add the best relation with all its values as the next sentence (Appendix A.3, Equation 1)."""
    work = open_batch(batch)
    rows = {row.id: row for row in work.rows(PairWithEvolutionRounds)}
    lost: dict[str, Reject] = {}
    last = work.inputs(BiokalmaInputs).params.rounds
    inverses = load_build_pair_relations(work.source_files(RELATION_FILE)).inverses
    for number in range(2, last + 1):
        left = [row for row in rows.values() if row.id not in lost]
        turns = make_rounds_or_add_rejects(left, number, number == last, lost, inverses)
        while turns:
            turns = _extend_by_prompting_and_list_retries(
                work, choose_next_pieces_by_perplexity(work, turns, lost), number, rows, lost
            )
    outcomes: list[RowOutcome] = []
    for row in rows.values():
        # the last round ensures that each person has one complete relation
        complete = list_known_pieces_of_complete_relations(row.minimum_knowledge, row.pool, row.names)
        if row.id in lost:
            outcomes.append(lost[row.id])
        elif lacking := list_people_without_pieces(row.names, complete):
            outcomes.append(Reject(row.id, "person_missing", f"no complete piece of knowledge is about {lacking[0]}"))
        else:
            outcomes.append(row.replace(minimum_knowledge=complete))
    rounds = (
        EvolutionRoundRow(id=f"{row.id}_{each.number}", row_id=row.id, **each.model_dump())
        for row in rows.values()
        for each in row.rounds
    )
    work.extras = make_arrow_table(EvolutionRoundRow, rounds)
    return work.finish(outcomes, PairWithEvolutionRounds)


def _extend_by_prompting_and_list_retries(
    work: BatchInProgress,
    turns: Sequence[EvolvingPairInRound],
    number: int,
    rows: dict[str, PairWithEvolutionRounds],
    rejects: dict[str, Reject],
) -> list[EvolvingPairInRound]:
    """Ask the author for one sentence per pair; return the pairs whose piece was not added."""
    prompt = load_prompt(EXTEND_PROMPT)
    asked = []
    for turn in turns:
        piece = format_person_knowledge(turn.name, turn.pieces)
        asked.append((turn.row.id, turn, fill_prompt_template(prompt, paragraph=turn.row.paragraph_now, piece=piece)))
    params = work.inputs(BiokalmaInputs).params
    left = []
    for turn, answer in work.prompt_model("author", asked, PARAGRAPH_REPLY_FORM, _read_sentence_added_to_paragraph):
        row, sentence = turn.row, answer.parsed
        if isinstance(sentence, Reject):
            if sentence.retryable or sentence.reason not in UNREADABLE_COMPLETION_KINDS:
                rejects[row.id] = sentence
                continue
            # an author that refuses one piece may add another
            first, values = turn.pieces[0], "; ".join(each.value for each in turn.pieces)
            turn.refused.append(f"{first.qid} {first.pid} {values}: {sentence.detail}")
            if turn.is_exhausted:
                reason = sentence.reason if sentence.reason != "reply_not_in_format" else "no_piece_brought_in"
                rejects[row.id] = Reject(row.id, reason, f"round {number}: {'; '.join(turn.refused)}")
            else:
                left.append(turn)
        else:
            added = ParagraphEvolutionRound(
                number=number,
                chosen=turn.pieces,
                sentence=sentence,
                candidates=list_candidates_tried_then_by_score(*turn.make_score_terms(params)),
                refused=turn.refused,
                removed_citations=0,
                unstated_citations=0,
                call=answer.key,
            )
            rows[row.id] = row.replace(
                rounds=[*row.rounds, added],
                minimum_knowledge=[*row.minimum_knowledge, *turn.pieces],
                paragraph_now=f"{row.paragraph_now} {sentence}",
            )
    return left


def _read_sentence_added_to_paragraph(turn: EvolvingPairInRound, texts: Sequence[str]) -> str | UnreadableCompletion:
    text = read_paragraph(texts[0])
    if isinstance(text, UnreadableCompletion):
        return text
    row = turn.row
    return extract_checked_added_sentence(row.paragraph_now, text, turn.pieces, row.minimum_knowledge, row.names)


@task(cache_key_fn=make_batch_cache_key, persist_result=True)
def write_biography_questions(batch: StageBatch) -> BatchReceipt:
    """Have the author write both questions for the paragraph's knowledge set (Appendix A.3, Tables 11 and 12)."""
    work = open_batch(batch)
    rows = work.rows(PairWithEvolutionRounds)
    asked = _make_question_prompts(rows, GENERAL_QUESTION_PROMPT)
    general = list(work.prompt_model("author", asked, QUESTION_REPLY_FORM, _read_valid_general_question))
    asked = _make_question_prompts(rows, SPECIFIC_QUESTION_PROMPT)
    specific = work.prompt_model("author", asked, QUESTION_REPLY_FORM, _read_question_and_asked_knowledge_share)
    scorer = work.run.services.perplexity().identity
    return work.finish(
        (
            _make_biokalma_row(row, one, two, scorer)
            for (row, one), (_, two) in zip(general, list(specific), strict=True)
        ),
        BiokalmaRow,
    )


def _make_question_prompts(
    rows: Sequence[PairWithEvolutionRounds], prompt_id: str
) -> Iterator[tuple[str, PairWithEvolutionRounds, FilledPrompt]]:
    prompt = load_prompt(prompt_id)
    for row in rows:
        knowledge = "\n".join(
            format_person_knowledge(name, [piece for piece in row.minimum_knowledge if piece.qid == qid])
            for qid, name in row.names.items()
        )
        yield row.id, row, fill_prompt_template(prompt, paragraph=row.paragraph_now, knowledge=knowledge)


def _read_valid_general_question(row: PairWithEvolutionRounds, texts: Sequence[str]) -> str | UnreadableCompletion:
    question = read_question(texts[0])
    if isinstance(question, UnreadableCompletion):
        return question
    held = row.minimum_knowledge
    complete = {piece.property for piece in list_known_pieces_of_complete_relations(held, row.pool, {})}
    partial = dict.fromkeys(piece.property for piece in held if piece.property not in complete)
    return check_pair_question(question, [row.person, row.other], held, load_biography_wordings_by_label(), partial)


def _read_question_and_asked_knowledge_share(
    row: PairWithEvolutionRounds, texts: Sequence[str]
) -> tuple[str, float] | UnreadableCompletion:
    question = _read_valid_general_question(row, texts)
    if isinstance(question, UnreadableCompletion):
        return question
    return check_and_measure_asked_share(
        question, [row.person_qid, row.other_qid], row.minimum_knowledge, load_biography_wordings_by_label()
    )


def _make_biokalma_row(
    row: PairWithEvolutionRounds,
    general: ParsedCompletion[str],
    specific: ParsedCompletion[tuple[str, float]],
    scorer: str,
) -> RowOutcome:
    if isinstance(general.parsed, Reject):
        return general.parsed
    if isinstance(specific.parsed, Reject):
        return specific.parsed
    question, share = specific.parsed
    if general.parsed.casefold() == question.casefold():
        return Reject(row.id, "same_questions", general.parsed)
    return row.narrow_to(
        BiokalmaRow,
        people=[row.person_qid, row.other_qid],
        names=[row.person, row.other],
        paragraph=row.paragraph_now,
        general_question=general.parsed,
        specific_question=question,
        asked_share=share,
        knowledge_graph=[*row.person_pool, *row.other_pool],
        author=general.model,
        scorer=scorer,
    )
