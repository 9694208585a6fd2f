"""Causes planted in the benchmarks whose authors answer at once in the embedded world, and in SLAQ: an epoch, a prompt, a
model, a parameter; two at a time, so that each row has to be told by its own."""

from pathlib import Path

from support.commands.command import FEW_QUESTIONS, Factmill
from support.worlds.planting import Planting


def test_fanoutqa(factmill: Factmill, tmp_path: Path) -> None:
    planting = Planting(tmp_path, factmill, "fanoutqa", *FEW_QUESTIONS)
    base = planting.build()
    worded = planting.build(twist=("fanoutqa/word_question", lambda said: said.replace("?", ", please?")))
    later = planting.build("--epoch", "2026-01-01", model="scripted replies 2")
    fewer = Planting(tmp_path, factmill, "fanoutqa", *FEW_QUESTIONS[:6], "--sets-a-kind", "1").build()
    assert [planting.list_causes(base, each) for each in (worded, later, fewer)] == [
        # a question that is worded otherwise has other verdicts: one that was dropped is published
        {"changed": {"prompt: fanoutqa/word_question"}, "added": {"prompt: fanoutqa/word_question"}},
        {"changed": {"epoch:  + model: author, judge"}, "added": {"epoch: "}, "removed": {"epoch: "}},
        {"removed": {"parameter: sets"}},
    ]


def test_biokalma(factmill: Factmill, tmp_path: Path) -> None:
    planting = Planting(tmp_path, factmill, "biokalma", "--source", "wikidata", "--relations", "P26", "--limit")
    base = planting.build("4")
    worded = planting.build("3", twist=("biokalma/general_question", lambda said: said.replace("?", ", please?")))
    later = planting.build("4", epoch="2019-01-01", model="scripted replies 2")
    assert [planting.list_causes(base, each) for each in (worded, later)] == [
        {
            "changed": {
                "prompt: biokalma/general_question",
                "prompt: biokalma/general_question + parameter: limits",
            },
            "removed": {"parameter: limits"},
        },
        {"changed": {"model: author, judge", "epoch:  + model: author, judge"}},
    ]


def test_multihal(factmill: Factmill, tmp_path: Path) -> None:
    planting = Planting(tmp_path, factmill, "multihal", "--foundation", "simpleqa", "--language", "eng", "--limit")
    base = planting.build("8")
    scored = planting.build("6", twist=("multihal/score_path", lambda said: said.replace("5", "4")))
    later = planting.build("8", "--min-score", "5", epoch="2024-01-01", model="scripted replies 2")
    assert [planting.list_causes(base, each) for each in (scored, later)] == [
        {"changed": {"prompt: multihal/score_path"}, "removed": {"parameter: limit"}},
        {"changed": {"model: author, judge"}, "removed": {"parameter: min_score"}},
    ]
