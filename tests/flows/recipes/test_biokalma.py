"""Test BioKaLMA in the embedded world: pairs of people, five rounds each, and knowledge found in the text."""

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.builds.build_rows import Rows, check_balance, read_table
from support.commands.command import Factmill
from support.models.scripted_author import ScriptedAuthor, always, ask_by, cite_first, extend
from support.models.scripted_chat import REFUSAL, write_chat_world
from support.worlds.replies import replying

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.biokalma.core.author_replies import mentions_value
from factmill.tasks.biokalma.core.citations import read_sentences_and_citations
from factmill.tasks.biokalma.evolve import (
    ANNOTATE_PROMPT,
    EXTEND_PROMPT,
    GENERAL_QUESTION_PROMPT,
    SPECIFIC_QUESTION_PROMPT,
)
from factmill.tasks.core.authoring.knowledge_pieces import PersonKnowledgePiece
from factmill.tasks.world.files import load_world_data
from factmill.tasks.world.rdf import write_world_ntriples

SAMPLE = ASSETS_ROOT / "data" / "world" / "sources" / "biokalma" / "pairs.jsonl"


@dataclass(frozen=True)
class Built:
    """A build, its rows and its rounds."""

    report: Any
    rows: Rows
    rounds: dict[str, Rows]
    """Maps a row id to its rounds, in order."""


def read_built(report: Any) -> Built:
    rounds: dict[str, Rows] = defaultdict(list)
    for each in sorted(read_table(report, "biokalma_rounds"), key=lambda row: row["number"]):
        rounds[each["row_id"]].append(each)
    return Built(report, read_table(report, "biokalma"), rounds)


@pytest.fixture(scope="module")
def built(embedded_builds: dict[str, Any]) -> Built:
    """Return the default BioKaLMA build."""
    return read_built(embedded_builds["biokalma"])


def check_rows(built: Built, rounds: int) -> None:
    """Check that every row has its rounds, and that each chosen piece is in the text and in the pair's pool."""
    for row in built.rows:
        result = built.rounds[row["id"]]
        assert [each["number"] for each in result] == list(range(1, rounds + 1)), row["id"]
        gained = [piece for each in result for piece in each["chosen"]]
        assert row["minimum_knowledge"] == [piece for piece in gained if piece in row["minimum_knowledge"]]
        check_set(row)
        assert {piece["qid"] for piece in row["minimum_knowledge"]} == set(row["people"])
        assert all(piece in row["knowledge_graph"] for piece in row["minimum_knowledge"])
        assert len({json.dumps(piece) for piece in row["knowledge_graph"]}) == len(row["knowledge_graph"])
        pieces = [PersonKnowledgePiece(**each) for each in row["knowledge_graph"]]
        begun = " ".join(read_sentences_and_citations(result[0]["sentence"], pieces, is_nested=True).sentences)
        said = [begun, *(each["sentence"] for each in result[1:])]
        assert row["paragraph"] == " ".join(said)
        for each, sentence in zip(result, said, strict=True):
            assert each["chosen"], row["id"]
            for piece in each["chosen"]:
                assert mentions_value(sentence, PersonKnowledgePiece(**piece)), (row["id"], piece["value"], sentence)
        assert len({(piece["qid"], piece["pid"]) for each in result[1:] for piece in each["chosen"]}) <= rounds - 1
        check_choices(result)
        general, specific = row["general_question"], row["specific_question"]
        assert len(general) > 10, row["id"]
        assert len(specific) > 10, row["id"]
        assert (general.endswith("?"), specific.endswith("?"), general != specific) == (True, True, True)


def check_set(row: dict[str, Any]) -> None:
    """Check that the set has all of the graph's values of each property it asks for, except the links of the pair."""
    held, known = defaultdict[tuple[str, str], set[str]](set), defaultdict[tuple[str, str], set[str]](set)
    for pieces, found in ((row["minimum_knowledge"], held), (row["knowledge_graph"], known)):
        for piece in pieces:
            found[piece["qid"], piece["pid"]].add(piece["value"])
    ties = {(each["qid"], each["pid"]) for each in row["minimum_knowledge"] if each["value_qid"] in row["people"]}
    assert [place for place in held if held[place] != known[place] and place not in ties] == [], row["id"]


def check_choices(expected: Rows) -> None:
    """Check that each round's piece is the best of its candidates, without those that the author failed to add."""
    assert (expected[0]["candidates"], expected[0]["refused"]) == ([], [])
    for each in expected[1:]:
        candidates = each["candidates"][len(each["refused"]) :]
        shares = [candidate["coherence"] for candidate in each["candidates"]]
        if all(candidate["is_weighed"] for candidate in each["candidates"]):
            scores = [candidate["score"] for candidate in candidates]
            assert scores == sorted(scores, reverse=True)
            assert math.fsum(shares) == pytest.approx(1) or {0, 1} <= set(shares)
        else:
            assert set(shares) == {None}
            ranks = [candidate["specificity"] for candidate in candidates[1:]]
            assert ranks == sorted(ranks, reverse=True)
        best, pieces = candidates[0], each["chosen"]
        assert {(best["qid"], best["pid"])} == {(piece["qid"], piece["pid"]) for piece in pieces}
        assert best["value"] == "; ".join(piece["value"] for piece in pieces)


def test_at_least_25_pairs_have_five_rounds_stated_in_text(built: Built) -> None:
    assert built.report["rows"] == len(built.rows) >= 25
    check_rows(built, rounds=5)
    pieces = [len(row["minimum_knowledge"]) for row in built.rows]
    assert built.report["facts"]["pieces_per_question"] == {
        "mean": round(sum(pieces) / len(pieces), 2),
        "n": len(pieces),
    }
    assert 5 <= sum(pieces) / len(pieces) <= 10
    assert min(pieces) >= 5


def test_lost_rows_have_expected_reasons(built: Built) -> None:
    assert built.report["reasons"] == {
        "read_person_pairs": {"incomplete_name": 1, "malformed_row": 1, "no_paragraph": 1, "unknown_relation": 1},
        "resolve_people": {"name_not_found": 3, "not_joined": 3},
        "annotate_paragraph": {"cites_unstated": 1, "no_citation": 1, "reply_not_in_format": 1},
        "evolve_paragraph": {"no_piece_brought_in": 1},
        "write_biography_questions": {"cut_off": 1, "refused": 1, "reply_not_in_format": 4, "same_questions": 1},
    }
    assert built.report["merged"] == 1
    assert built.report["unsettled"] == 0


def test_sentences_with_planted_fault_are_rejected_for_correct_reason(built: Built) -> None:
    refused = [reason for result in built.rounds.values() for each in result for reason in each["refused"]]
    codes = {code for reason in refused for code in re.findall(r": (\w+|the model refuses): ", reason)[:1]}
    assert codes == {
        *("adds", "nothing_added", "repeated", "several_sentences", "text_changed", "unfinished", "wrong_person"),
        "the model refuses",
    }


def test_scores_use_counts_of_entire_build(built: Built) -> None:
    counts = {each["id"]: each["graphs"] for each in read_table(built.report, "biokalma_relations")}
    graphs = 2 * built.report["facts"]["pairs_counted"]
    pools = Counter(
        pid for row in built.rows for _, pid in {(each["qid"], each["pid"]) for each in row["knowledge_graph"]}
    )
    # pairs dropped later are also counted
    assert len(built.rows) < built.report["facts"]["pairs_counted"]
    assert all(pools[pid] <= count <= graphs for pid, count in counts.items())
    for result in built.rounds.values():
        for each in result:
            for candidate in each["candidates"]:
                assert candidate["specificity"] == pytest.approx(math.log(graphs / counts[candidate["pid"]]))
                assert (candidate["perplexity"] or math.inf) > 1
                assert candidate["is_weighed"] is (candidate["perplexity"] is not None)


def test_report_counts_people_places_and_times(built: Built) -> None:
    facts = built.report["facts"]
    assert facts["people"] == len({qid for row in built.rows for qid in row["people"]})
    assert facts["relations"] == Counter(row["relation_label"] for row in built.rows)
    assert facts["born"][0] < 0 < facts["born"][1]
    assert min(facts["countries"], facts["cities"], facts["occupations"]) >= 10
    assert facts["names_of_several"] == 3
    # one citation and thirteen sentences are planted faults that drop no row
    assert (facts["removed_citations"], facts["unstated_citations"], facts["refused_pieces"]) == (1, 0, 13)


def test_report_counts_deciding_criteria_and_skipped_perplexities(built: Built) -> None:
    facts, rounds = built.report["facts"], [each for row in built.rows for each in built.rounds[row["id"]][1:]]
    assert sum(facts["rounds_decided_by"].values()) == len(rounds)
    assert facts["rounds_decided_by"]["coherence among equals"] > 0
    weighed = [candidate["is_weighed"] for each in rounds for candidate in each["candidates"]]
    assert facts["perplexities"] == {"weighed": sum(weighed), "spared": len(weighed) - sum(weighed)}
    assert facts["perplexities"]["spared"] > 9 * facts["perplexities"]["weighed"]


def test_range_scale_lets_coherence_outvote_specificity(factmill: Factmill) -> None:
    arguments = ("--limit", "6", "--rounds", "3", "--coherence", "range", "--alpha", "0.3")
    with replying():
        result = factmill.get_json("build", "biokalma", *arguments)
    check_rows(read_built(result), rounds=3)
    assert result["facts"]["rounds_decided_by"]["coherence"] > 0


def test_general_questions_vary_and_specific_ones_request_most_knowledge(built: Built) -> None:
    kinds = set()
    for row in built.rows:
        question = row["general_question"]
        for name in sorted(row["names"], key=len, reverse=True):
            assert name in question, row["id"]
            assert name in row["specific_question"], row["id"]
            question = question.replace(name, "X")
        kinds.add(question)
    assert len(kinds) >= 20
    shares = [row["asked_share"] for row in built.rows]
    assert min(shares) >= 0.5 and sum(shares) / len(shares) > 0.8


def test_candidates_of_ambiguous_names_are_stored(built: Built) -> None:
    found = read_table(built.report, "biokalma_candidates")
    churchills = [each for each in found if each["name"] == "Winston Churchill"]
    assert len(churchills) > 1
    assert sum(bool(each["joined_to"]) for each in churchills) == 1
    lost = {each["row_id"] for each in found} - {row["id"] for row in built.rows}
    assert lost, "also those of unresolved pairs"


def test_local_graph_yields_same_rows(factmill: Factmill, built: Built, tmp_path: Path) -> None:
    with (tmp_path / "world.nt").open("w", encoding="utf-8") as triples:
        write_world_ntriples(load_world_data(), triples)
    assert factmill("graph", "load", tmp_path / "world.nt", "--name", "biokalma-world").code == 0
    ran = factmill("build", "biokalma", "--source", SAMPLE, "--graph", "biokalma-world", "--json")
    assert ran.err.count("not for use") == 1
    assert "not for use" in ran.json["caution"]
    assert "not for use" in factmill("show", "biokalma", "--build", ran.json["build_id"]).out
    assert [
        build["caution"] != ""
        for build in factmill("builds", "--json").json
        if build["build_id"] == ran.json["build_id"]
    ] == [True]
    assert ran.code == 0, ran.err
    again = read_built(ran.json)

    def leave_out(rows: Rows, *left_out: str) -> Rows:
        return [{name: row[name] for name in row.keys() - {"licence", *left_out}} for row in rows]

    assert leave_out(again.rows) == leave_out(built.rows)
    # another service's calls have other keys
    for row_id, result in built.rounds.items():
        assert leave_out(again.rounds[row_id], "call") == leave_out(result, "call")
    for name in ("biokalma_candidates", "biokalma_relations"):
        assert ran.json["tables"][name] == built.report["tables"][name]


def test_explain_traces_row_to_its_calls(factmill: Factmill, built: Built) -> None:
    row = built.rows[0]
    result = factmill("explain", "biokalma", row["id"], "--build", built.report["build_id"], "--json").json
    by_stage: dict[str, Counter[str]] = defaultdict(Counter)
    for call in result["calls"]:
        by_stage[call["stage"]][call["operation"]] += 1
    weighed = sum(candidate["is_weighed"] for each in built.rounds[row["id"]] for candidate in each["candidates"])
    assert by_stage == {
        "resolve_people": {"find_items": 2, "neighbours": 3},
        "pool_knowledge": {"item_facts": 2},
        "annotate_paragraph": {"chat": 1},
        "evolve_paragraph": {"chat": 4, "perplexity": weighed} if weighed else {"chat": 4},
        "write_biography_questions": {"chat": 2},
    }
    keys = {call["key"] for call in result["calls"]}
    assert {each["call"] for each in built.rounds[row["id"]]} <= keys
    assert result["row"]["general_question"] == row["general_question"]


def test_people_pairs_are_drawn_from_facts_and_described_from_articles(factmill: Factmill) -> None:
    arguments = ("--source", "wikidata", "--relations", "P26,P1066", "--rounds", "3", "--alpha", "1")
    with replying():
        ran = factmill("build", "biokalma", *arguments, "--json")
    assert ran.code == 0, ran.err
    built = read_built(ran.json)
    check_balance(ran.json)
    check_rows(built, rounds=3)
    assert ran.json["facts"]["text_sources"].keys() == {"article", "fact"}
    assert {(row["text_source"], row["licence"], bool(row["text_pages"])) for row in built.rows} == {
        ("article", "CC-BY-SA-4.0", True),
        ("fact", "CC0-1.0", False),
    }
    for result in built.rounds.values():
        for candidate in (candidate for each in result for candidate in each["candidates"]):
            assert candidate["score"] == candidate["specificity"]
    assert {row["relation"] for row in built.rows} == {"P26", "P1066"}


def test_organisation_pairs_build_completely(factmill: Factmill) -> None:
    arguments = ("--source", "wikidata", "--class-qid", "Q43229", "--relations", "P749,P355,P127")
    with replying():
        result = factmill.get_json("build", "biokalma", *arguments)
    built = read_built(result)
    check_balance(result)
    check_rows(built, rounds=5)
    assert len(built.rows) >= 20
    assert result["reasons"]["make_person_pairs_from_facts"].keys() == {"not_of_class"}
    assert result["merged"] > 0, "a parent has the subsidiary whose parent it is"


AUTHORS = {
    "Well": {},
    "Stubborn": {EXTEND_PROMPT: lambda asked: f"Paragraph: {asked.paragraph} They were happy."},
    "Blind": {ANNOTATE_PROMPT: lambda asked: f"Paragraph: {asked.paragraph}"},
    "Twin": {SPECIFIC_QUESTION_PROMPT: ask_by("Who were")},
    "Rewriting": {EXTEND_PROMPT: lambda asked: str(extend(asked)).replace("Rewriting", "Writing")},
    "Refusing": {GENERAL_QUESTION_PROMPT: always(REFUSAL)},
    "Down": {ANNOTATE_PROMPT: always(500)},
}
"""Maps a paragraph's first word to the author's misbehaviour."""
WELL = {
    ANNOTATE_PROMPT: cite_first,
    EXTEND_PROMPT: extend,
    GENERAL_QUESTION_PROMPT: ask_by("Who were"),
    SPECIFIC_QUESTION_PROMPT: ask_by("What is known of"),
}


@pytest.fixture
def author() -> Iterator[ScriptedAuthor]:
    author = ScriptedAuthor(
        {
            f"{prompt} {name}": manner
            for name, otherwise in AUTHORS.items()
            for prompt, manner in {**WELL, **otherwise}.items()
        }
    )
    yield author
    author.close()


def test_build_survives_any_author_reply_and_later_run_retries_failures(
    factmill: Factmill, author: ScriptedAuthor, tmp_path: Path
) -> None:
    given = [json.loads(line) for line in SAMPLE.read_text("utf-8").splitlines()[: len(AUTHORS)]]
    rows = [{**row, "paragraph": f"{name} {row['paragraph']}"} for name, row in zip(AUTHORS, given, strict=True)]
    source = tmp_path / "own.jsonl"
    source.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    world = write_chat_world(tmp_path, author.url, ["author"])

    def run(*arguments: str | Path) -> Any:
        return factmill(*arguments, "--warehouse", tmp_path / "w.duckdb", TEST_KEY="secret-key-1")

    chosen: Sequence[str | Path] = ("--world", world, "--source", source, "--rounds", "3", "--json")
    ran = run("build", "biokalma", *chosen)
    assert ran.code == 0, ran.err
    built = read_built(ran.json)
    check_balance(ran.json)
    assert ran.json["reasons"] == {
        "annotate_paragraph": {"model_failed": 1, "no_citation": 1},
        "evolve_paragraph": {"no_piece_brought_in": 2},
        "write_biography_questions": {"refused": 1, "same_questions": 1},
    }
    assert ([row["id"] for row in built.rows], ran.json["unsettled"]) == (["own_0"], 1)
    check_rows(built, rounds=3)
    assert built.rows[0]["author"] == "tester"

    author.manners[f"{ANNOTATE_PROMPT} Down"] = cite_first
    mended = run("build", "biokalma", *chosen).json
    check_balance(mended)
    assert (mended["rows"], mended["unsettled"], mended["reasons"]["annotate_paragraph"]) == (2, 0, {"no_citation": 1})


def test_show_prints_knowledge_as_text(factmill: Factmill, built: Built) -> None:
    shown = factmill("show", "biokalma", "--limit", "3", "--build", built.report["build_id"], COLUMNS="2000").out
    text = " ".join(shown.split())
    assert "Mary Shelley: notable work Frankenstein" in text
    assert "'statement'" not in text
    assert "{" not in text
