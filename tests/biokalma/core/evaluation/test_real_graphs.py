"""Test the public 400 graphs with right, wrong and malformed citations, and the paper's own answers (Tables 19 and 20).

Both come from files outside the project; without them the tests are skipped with a reason.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support.rows.bio_answers import find_shared, make_piece

from factmill.tasks.biokalma.core.citations import make_triple_key, read_sentences_and_citations
from factmill.tasks.biokalma.core.evaluation.rows import CitationScorer
from factmill.tasks.biokalma.core.evaluation.scoring import is_aligned_lexically, score_citations
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece

MALFORMED = ("[Q1]", "[{}: x]", "[qid: Somebody, {}: b]", "[Q5, {}:]", "[Somebody, {}: b]")


def read_graphs(name: str) -> list[list[PersonKnowledgePiece]]:
    path = find_shared(f"data/kalma/{name}_question_graph.json")
    if path is None:
        pytest.skip(f"no ../shared/data/kalma/{name}_question_graph.json: the public graphs are not at hand")
    rows: list[tuple[str, list[dict[str, Any]]]] = json.loads(path.read_text("utf-8"))
    return [
        [
            make_piece(person["qid"], key, value)
            for person in people
            for key, value in person.items()
            # an unknown date is empty in the file
            if key != "qid" and value
        ]
        for _, people in rows
    ]


@pytest.mark.parametrize("name", ["simple", "complex"])
@pytest.mark.parametrize("scorer", ["fixed", "upstream"])
def test_counts_match_planted_citations_in_generated_answers(name: str, scorer: CitationScorer) -> None:
    draw = random.Random(7)
    totals: Counter[str] = Counter()
    graphs = read_graphs(name)
    assert len(graphs) == 400
    for graph in graphs:
        if scorer == "upstream":
            # the public script takes ": " inside a value for the end of a property
            graph = [piece for piece in graph if ": " not in piece.value]  # noqa: PLW2901
        minimum = draw.sample(graph, min(len(graph), 7))
        right = draw.sample(graph, min(len(graph), draw.randint(0, 9)))
        wrong = [
            piece.model_copy(update={"value": f"{piece.value} the second"}) for piece in graph[: draw.randint(0, 3)]
        ]
        broken = [
            each.format(graph[0].property)
            for each in draw.choices(MALFORMED, k=draw.randint(0, 2))
            if graph and scorer == "fixed"
        ]
        cited = [f"[{each.qid}, {each.property}: {each.value}]" for each in (*right, *wrong)]
        answer = " ".join(f"Something is stated {each}." for each in (*cited, *broken))
        _, counts = score_citations(
            read_sentences_and_citations(answer, graph), graph, minimum, [], is_aligned_lexically, scorer
        )
        needed = {make_triple_key(each.qid, each.property, each.value) for each in minimum}
        hit = [make_triple_key(each.qid, each.property, each.value) for each in right]
        expected = {
            "cited": len(right) + len(wrong) + len(broken),
            "correct": len(right),
            "needed": sum(each in needed for each in hit),
            "found": len(needed & set(hit)),
            "minimum": len(minimum),
        }
        assert {key: getattr(counts, key) for key in expected} == expected, answer
        assert counts.malformed == len(broken)
        assert counts.is_left_out == (scorer == "upstream" and not (graph and answer))
        totals.update(expected)
    print(f"{name}, {scorer}: {dict(totals)}")
    assert totals["cited"] > totals["correct"] > totals["needed"] > 500


@pytest.mark.parametrize("name", ["simple", "complex"])
def test_upstream_scorer_accepts_cited_name_only_if_it_is_in_graph(name: str) -> None:
    draw = random.Random(name)
    totals: Counter[str] = Counter()
    for graph in [each for each in read_graphs(name) if each] * 5:
        names = {piece.qid: piece.value for piece in graph if piece.property == "name"}
        # the public script splits at these
        given = [piece for piece in graph if piece.property != "name" and not re.search(r": |\]", piece.value)]
        minimum, expected = draw.sample(given, min(len(given), 7)), Counter[str]()
        brackets = []
        for piece in draw.choices(given, k=draw.randint(1, 9)):
            kind = draw.choice(["right", "wrong", "none", "of another"])
            value = draw.choice([piece.value, f"{piece.value} the second"])
            cited = {"right": names[piece.qid], "wrong": f"{names[piece.qid]} II", "of another": "Nobody Known"}.get(
                kind
            )
            brackets.append(f"[{piece.qid}, {f'name: {cited}, ' if cited else ''}{piece.property}: {value}]")
            expected += Counter(cited=1 + (cited is not None), correct=(value == piece.value) + (kind == "right"))
        answer = " ".join(f"Something is stated {each}." for each in brackets)
        _, counts = score_citations(
            read_sentences_and_citations(answer, given), given, minimum, [], is_aligned_lexically, "upstream", names
        )
        assert (counts.cited, counts.correct) == (expected["cited"], expected["correct"]), answer
        totals += expected + Counter(answers=1)
    print(f"{name}: {dict(totals)}, no difference")
    assert totals["answers"] >= 1500


@pytest.mark.parametrize("name", ["simple", "complex"])
def test_graph_cited_in_one_bracket_per_person_is_parsed_back_completely(name: str) -> None:
    for graph in read_graphs(name):
        people = list(dict.fromkeys(piece.qid for piece in graph))
        result = {qid: [f"{each.property}: {each.value}" for each in graph if each.qid == qid] for qid in people}
        for head in ("{}", "qid: {}", "qid: {}, name: Somebody, Esq."):
            answer = " ".join(f"He [{head.format(qid)}, {', '.join(parts)}]." for qid, parts in result.items())
            found = read_sentences_and_citations(answer, graph).citations
            assert [(each.qid, each.property, each.value) for each in found] == [
                (piece.qid, piece.property, piece.value) for qid in people for piece in graph if piece.qid == qid
            ], answer


def read_tables() -> Iterator[tuple[list[PersonKnowledgePiece], str]]:
    """Yield graph and answer of Tables 19 and 20."""
    path = find_shared("papers/biokalma.txt")
    if path is None:
        pytest.skip("no ../shared/papers/biokalma.txt: the paper is not at hand")
    text = path.read_text("utf-8")
    for table in re.findall(r"#+ Retrieved Knowledge:(.*?)Table (?:19|20):", text, re.DOTALL):
        knowledge, answer = table.split("### Generated Output:")
        parts = re.sub(r"[\"']", "", knowledge.strip()[1:-1]).split(", ")
        pairs = [part.split(": ", 1) for part in parts if ": " in part]
        qid = next(value for key, value in pairs if key == "qid")
        yield [make_piece(qid, key, value) for key, value in pairs if key != "qid"], answer.strip()


def test_answers_of_paper_are_parsed_completely() -> None:
    tables = list(read_tables())
    assert len(tables) == 2
    for graph, answer in tables:
        cited = read_sentences_and_citations(answer, graph)
        brackets = re.findall(r"\[([^\]]*)\]", answer)
        parts = [part for each in brackets if each != "NA" for part in each.split(", ")[1:]]
        assert [f"{each.property}: {each.value}" for each in cited.citations if each.kind == "triple"] == parts
        assert [each.kind for each in cited.citations].count("not_available") == brackets.count("NA")
        assert not any(each.kind == "malformed" for each in cited.citations)
        assert not any(mark in sentence for sentence in cited.sentences for mark in "[]")
        _, counts = score_citations(cited, graph, graph, [], is_aligned_lexically)
        print(f"{len(parts)} citations, {counts.correct} correct, {counts.aligned} aligned; {counts.marked} marked")
        assert counts.correct == counts.cited == len(parts)
        assert len(cited.sentences) == len({each.sentence for each in cited.citations})
