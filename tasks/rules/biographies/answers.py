"""What the rules author answers to the four prompts of BioKaLMA: citations, one sentence more, and two questions.

The graph is asked only for what the prompts do not say: who is a woman or a man (for `he`, `she`, `son` and `daughter`),
who is dead, and under which label a piece may name one of the two.
"""

from collections.abc import Callable, Mapping, Sequence

from tasks.core.authoring.citations import parse_citations
from tasks.core.calls.knowledge import Knowledge
from tasks.rules.biographies.citing import cite_paragraph
from tasks.rules.biographies.pieces import read_knowledge, read_piece
from tasks.rules.biographies.questions import Subject, ask_general, ask_specific
from tasks.rules.biographies.reading import read_paragraph
from tasks.rules.biographies.sentences import verbalise_facts
from tasks.rules.biographies.subjects import look_up_kinds
from tasks.rules.biographies.told import has_told
from tasks.rules.tables import load_biography_properties


def annotate_paragraphs(batch: Sequence[Mapping[str, str]], knowledge: Knowledge) -> list[str]:
    """Return each paragraph with citations: variables `paragraph` and `knowledge`, one line a person."""
    # somebody who is related to himself is told of once
    people = [list({known.qid: known for known in read_knowledge(asked["knowledge"])}.values()) for asked in batch]
    kinds = look_up_kinds(knowledge, (known.qid for each in people for known in each))
    return [
        f"Paragraph: {cite_paragraph(asked['paragraph'], each, [kinds[known.qid].gender for known in each])}"
        for asked, each in zip(batch, people, strict=True)
    ]


def extend_paragraphs(batch: Sequence[Mapping[str, str]], knowledge: Knowledge) -> list[str]:
    """Return each paragraph and a sentence more that tells a piece: variables `paragraph` and `piece`."""
    pieces = [read_piece(asked["piece"]) for asked in batch]
    kinds = look_up_kinds(knowledge, (known.qid for known in pieces))
    written = []
    for asked, known in zip(batch, pieces, strict=True):
        kind, told = kinds[known.qid], load_biography_properties().get(known.facts[0].property)
        before = read_paragraph(_drop_citations(asked["paragraph"]), [known.name], [kind.gender])
        is_repeated = told is not None and has_told(before, told.label)
        sentence = verbalise_facts(
            known.name, known.facts, kind.gender, is_person=kind.is_person, is_repeated=is_repeated
        )
        written.append(f"Paragraph: {asked['paragraph']} {sentence}")
    return written


def ask_general_questions(batch: Sequence[Mapping[str, str]], knowledge: Knowledge) -> list[str]:
    """Return a short question for each `paragraph` with the `knowledge` that it tells of two."""
    return _ask(ask_general, batch, knowledge)


def ask_specific_questions(batch: Sequence[Mapping[str, str]], knowledge: Knowledge) -> list[str]:
    """Return a question for each `paragraph` that names every aspect of the `knowledge`."""
    return _ask(ask_specific, batch, knowledge)


def _ask(
    ask: Callable[[str, Sequence[Subject]], str], batch: Sequence[Mapping[str, str]], knowledge: Knowledge
) -> list[str]:
    people = [read_knowledge(asked["knowledge"]) for asked in batch]
    qids = list(dict.fromkeys(known.qid for each in people for known in each))
    kinds, described = look_up_kinds(knowledge, qids), knowledge.describe(qids)
    labels = {str(qid): each.label or "" for qid, each in described.items()}
    subjects = [[Subject(known, kinds[known.qid], labels.get(known.qid, "")) for known in each] for each in people]
    return [f"Question: {ask(asked['paragraph'], own)}" for asked, own in zip(batch, subjects, strict=True)]


def _drop_citations(paragraph: str) -> str:
    return parse_citations(paragraph, load_biography_properties()).text
