"""Annotation and questions over the real steps and a chat server: what an author may say, and what becomes of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.models.scripted_author import REFUSAL, Said, ScriptedAuthor, always, once_corrected
from support.rows.biographies import counted_pair, make_piece
from support.steps.author_steps import ADA, BOB, POET, Run, evolving, step_runner, values

from tasks.biokalma.evolve import ANNOTATE, GENERAL, SPECIFIC, annotate_paragraph, ask_questions


@pytest.fixture
def author() -> Iterator[ScriptedAuthor]:
    author = ScriptedAuthor({})
    yield author
    author.close()


@pytest.fixture
def run(author: ScriptedAuthor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return step_runner(author, tmp_path / "run", monkeypatch)


TEXT = "{} writer, born in London on 10 December 1815, met Bob."
WRITES = "[qid: Q1, name: Ada B, P106: writer]"
ANNOTATIONS: dict[str, tuple[str, list[str], int, int]] = {
    "one": (f"writer {WRITES}, born in London on 10 December 1815, met Bob.", ["writer"], 0, 0),
    "all": (
        f"writer{WRITES}, born in London on 10 December 1815 [qid: Q1, name: Ada, P19: London, P569: 10 December 1815], met "
        "Bob [qid: Q2, P106: poet].",
        ["writer", "London", "1815-12-10"],
        0,
        1,
    ),
    "twice": (f"writer {WRITES}, born in London on 10 December 1815 {WRITES}, met Bob.", ["writer"], 0, 0),
    "more": (
        f"writer {WRITES}[qid: Q1, name: Ada, P106: painter], born in London [qid: Q3, name: Ada, P106: writer] on 10 "
        "December 1815 [qid: Q2, name: Bob, P19: London, P106: poet], met Bob.",
        ["writer"],
        3,
        1,
    ),
    "broken": (
        f"writer {WRITES}, born in London [qid: Q1, P999: London] on 10 December 1815 [name: Ada, P106: writer], met "
        "Bob [qid: Q2, name: Bob]. [qid: Q1, P106: writer",
        ["writer"],
        3,
        0,
    ),
}  # fmt: skip
"""Name → how the author marks the text, the pieces that it states, how many citations are in no pool, and how many unstated."""


def test_citations_that_are_in_no_pool_are_removed_and_counted(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {name: always(f"Paragraph: {name} {marked}") for name, (marked, *_) in ANNOTATIONS.items()}
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in ANNOTATIONS])
    assert left.rejects == {}
    for name, (marked, cited, removed, unstated) in ANNOTATIONS.items():
        row = left.rows[name]
        (first,) = row["rounds"]
        assert (values(row["minimum_knowledge"]), first["removed_citations"]) == (cited, removed), name
        assert first["unstated_citations"] == unstated, name
        assert (first["number"], first["chosen"], first["candidates"]) == (1, row["minimum_knowledge"], [])
        assert (first["sentence"], row["paragraph_now"]) == (f"{name} {marked}", TEXT.format(name))
        assert author.asked[ANNOTATE, name] == 1


def test_a_text_without_a_citation_of_the_pool_goes_no_further(author: ScriptedAuthor, run: Run) -> None:
    marked = {
        "bare": "writer, born in London on 10 December 1815, met Bob.",
        "missing": "writer, born in London on 10 December 1815, met Bob [NA].",
        "unstated": "writer, born in London on 10 December 1815 [qid: Q2, P20: Dover], met Bob.",
        "invented": "writer [qid: Q1, P106: painter], born in London [qid: Q9, P19: London] on 10 December 1815, met Bob.",
    }
    author.manners = {name: always(f"Paragraph: {name} {text}") for name, text in marked.items()}
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in marked])
    assert left.rejects == {
        name: (
            "no_citation",
            f"{removed} citations that are in no pool, {unstated} of what the text does not say: {name} {marked[name]}",
        )
        for name, removed, unstated in (("bare", 0, 0), ("missing", 0, 0), ("invented", 2, 0), ("unstated", 0, 1))
    }
    assert left.receipt.unsettled == 0


def test_an_author_that_cites_the_pool_is_not_believed(author: ScriptedAuthor, run: Run) -> None:
    everything = "[qid: Q2, P106: poet, P20: Dover, P570: 44 BC][qid: Q1, P166: Copley Medal, P106: writer]"
    author.manners = {"Ada": always(f"Paragraph: Ada {TEXT.format('')[1:-1]} {everything}.")}
    left = run(annotate_paragraph, [counted_pair("Ada", TEXT.format("Ada"), ADA, BOB)])
    reason, detail = left.rejects["Ada"]
    assert reason == "cites_unstated"
    assert detail.startswith(
        "4 of 5 cited pieces are not in the text they are cited for: Q2 P106: poet; Q2 P20: Dover; "
    )


def test_the_text_itself_must_stay_as_it_is_and_the_author_is_told_once(author: ScriptedAuthor, run: Run) -> None:
    good, shorter = f"writer {WRITES}, born in London on 10 December 1815, met Bob.", f"writer {WRITES} met Bob."
    author.manners = {
        "heeds": lambda asked: f"Paragraph: heeds {good if asked.correction else shorter}",
        "shortens": always(f"Paragraph: shortens {shorter}"),
        "corrects": always(f"Paragraph: corrects {good.replace('1815', '1816')}"),
        "goes-on": always(f"Paragraph: goes-on {good} They married."),
        "chats": always("Gladly!"),
        "refuses": always(REFUSAL),
        "fails": always(500),
        "silent": always(""),
    }
    left = run(annotate_paragraph, [counted_pair(name, TEXT.format(name), ADA, BOB) for name in author.manners])
    assert left.rows.keys() == {"heeds"}
    reasons = {name: (reason, detail.partition(":")[0]) for name, (reason, detail) in left.rejects.items()}
    form = '0 lines of the form "Paragraph'
    assert reasons == {
        **dict.fromkeys(("shortens", "corrects", "goes-on"), ("reply_not_in_format", "text_changed")),
        "chats": ("reply_not_in_format", form),
        "refuses": ("refused", "the model refuses"),
        "fails": ("model_failed", "http_500"),
        "silent": ("empty_reply", "empty_reply"),
    }
    assert {author.asked[ANNOTATE, name] for name in ("heeds", "shortens", "corrects", "goes-on", "chats")} == {2}
    assert author.asked[ANNOTATE, "refuses"] == 1
    assert sum("text_changed" in correction for correction in author.corrections) == 4
    assert "They married." in left.rejects["goes-on"][1], "what was said is kept"
    assert left.receipt.unsettled == 2


def test_a_later_run_asks_again_for_what_failed_in_passing(author: ScriptedAuthor, run: Run) -> None:
    rows = [counted_pair("Ada", TEXT.format("Ada"), ADA, BOB)]
    author.manners = {"Ada": always(503)}
    assert run(annotate_paragraph, rows).receipt.unsettled == 1
    author.manners = {"Ada": always(f"Paragraph: Ada {ANNOTATIONS['one'][0]}")}
    assert run(annotate_paragraph, rows).rows.keys() == {"Ada"}


def test_what_is_cited_both_ways_round_counts_once(author: ScriptedAuthor, run: Run) -> None:
    child, father = make_piece("Q1", "P40", "Bob", "Q2"), make_piece("Q2", "P22", "Ada", "Q1")
    author.manners = {
        "Ada": always("Paragraph: Ada [qid: Q1, P40: Bob] was the poet Bob's [qid: Q2, P22: Ada, P106: poet].")
    }
    left = run(annotate_paragraph, [counted_pair("Ada", "Ada was the poet Bob's.", [child], [father, POET])])
    assert [values(each["chosen"]) for each in left.rows["Ada"]["rounds"]] == [["Bob", "poet"]]
    assert left.rows["Ada"]["rounds"][0]["removed_citations"] == 0


WHO, WHAT = "Question: Who were Person Q1 and Person Q2?", "Question: What is the P106 of Person Q1 and of Person Q2?"
QUESTIONS: dict[str, tuple[Said, Said, str, str]] = {
    "well": (WHO, WHAT, "", ""),
    "same": (WHAT, WHAT.replace("What is", "what  is"), "same_questions", WHAT.removeprefix("Question: ")),
    "tells": ("Question: Tell me about Ada.", WHAT, "reply_not_in_format", "what follows"),
    "tells-too": (WHO, "Question: Tell me about Ada.", "reply_not_in_format", "what follows"),
    "empty": ("Question: ?", WHAT, "reply_not_in_format", "nothing stands behind"),
    "chats": ("Who was Ada?", WHAT, "reply_not_in_format", "0 lines"),
    "of-one": ("Question: Who was Person Q1?", WHAT, "reply_not_in_format", "person_missing"),
    "little": (WHO, WHO.replace("Who", "How"), "reply_not_in_format", "asks_too_little"),
    "refuses": (WHO, REFUSAL, "refused", "the model refuses"),
    "fails": (WHO, 500, "model_failed", "http_500"),
}
"""Name → general and specific question, and what becomes of them."""


def test_two_different_questions_are_published_and_all_else_says_why(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {
        f"{prompt_id} {name}": always(said)
        for name, both in QUESTIONS.items()
        for prompt_id, said in zip((GENERAL, SPECIFIC), both[:2], strict=True)
    }
    left = run(ask_questions, [evolving(name) for name in QUESTIONS])
    assert left.rows.keys() == {"well"}
    for name, (_, _, reason, detail) in QUESTIONS.items():
        if reason:
            assert left.rejects[name][0] == reason
            assert left.rejects[name][1].startswith(detail), name
    assert left.receipt.unsettled == 1
    assert (author.asked[GENERAL, "tells"], author.asked[SPECIFIC, "tells"]) == (2, 1)

    row = left.rows["well"]
    assert (row["general_question"], row["specific_question"]) == tuple(
        each.removeprefix("Question: ") for each in (WHO, WHAT)
    )
    assert row["asked_share"] == 1
    assert (row["paragraph"], row["people"], row["names"]) == (
        "well met Bob.",
        ["Q1", "Q2"],
        ["Person Q1", "Person Q2"],
    )
    assert values(row["minimum_knowledge"]) == ["writer", "poet"]
    assert values(row["knowledge_graph"]) == values([piece.model_dump() for piece in (*ADA, *BOB)])
    assert (row["author"], row["scorer"], row["text_source"]) == ("tester", "weigher", "file")


def test_a_question_that_is_one_when_asked_again_is_taken(author: ScriptedAuthor, run: Run) -> None:
    author.manners = {
        f"{GENERAL} Ada": once_corrected(always("Who were they?"), always(WHO)),
        f"{SPECIFIC} Ada": once_corrected(always("Question: Who was Person Q1?"), always(WHAT)),
    }
    left = run(ask_questions, [evolving("Ada")])
    assert left.rows["Ada"]["general_question"] == WHO.removeprefix("Question: ")
    assert (author.asked[GENERAL, "Ada"], author.asked[SPECIFIC, "Ada"]) == (2, 2)
    assert "does not name Person Q2" in author.corrections[1]
