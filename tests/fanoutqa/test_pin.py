"""Test pinning of questions' articles to an epoch, and sub-answers in their texts, with a scripted wiki."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.rows.fanout_rows import fan_out_row
from support.steps.inputs import fanout_inputs
from support.steps.steps import Left, run_step
from support.webs.small_wiki import SmallPage, SmallWiki

from factmill.tasks.core.epochs import FANOUTQA_SNAPSHOT
from factmill.tasks.fanoutqa.core.questions import (
    ArticleEvidence,
    SubQuestion,
    dump_json,
    format_released_decomposition,
)
from factmill.tasks.fanoutqa.core.rows import GatheredFanOutQuestion, PinnedQuestion
from factmill.tasks.fanoutqa.pin import flag_answers, pin_evidence

LENGTHS = {"Enns": "254 km", "Mur": "464 km", "Drava": "710 km"}
WIKI = "https://en.wikipedia.org/wiki/"
Run = Callable[..., Left]


def make_row(*evidence: ArticleEvidence, source: str = "authored", **changed: Any) -> GatheredFanOutQuestion:
    """Return a question about the length of each river; its leaves use the given articles, or the rivers' own."""
    articles = evidence or tuple(ArticleEvidence(name, WIKI + name) for name in LENGTHS)
    leaves = [
        SubQuestion(f"s{at}", f"How long is the {name}?", LENGTHS[name], article)
        for at, (name, article) in enumerate(zip(LENGTHS, articles, strict=True))
    ]
    columns = {"answer": dump_json(LENGTHS), "decomposition": dump_json(format_released_decomposition(leaves))}
    return fan_out_row(source=source, **(columns | changed))


@pytest.fixture
def wiki() -> Iterator[SmallWiki]:
    wiki = SmallWiki()
    wiki.add(*(SmallPage(at, name, f"<p>It is {LENGTHS[name]} long.</p>") for at, name in enumerate(LENGTHS, 1)))
    wiki.add(SmallPage(7, "Young river", "<p>It is 9 km long.</p>", written="2024-01-01T00:00:00Z"))
    yield wiki
    wiki.close()


@pytest.fixture
def pin(wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*rows: GatheredFanOutQuestion, epoch: str = FANOUTQA_SNAPSHOT) -> Left:
        return run_step(pin_evidence, rows, wiki.services(), tmp_path / "pin", monkeypatch, fanout_inputs(epoch=epoch))

    return run


@pytest.fixture
def flag(wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*rows: PinnedQuestion) -> Left:
        return run_step(
            flag_answers, rows, wiki.services(), tmp_path / "flag", monkeypatch, fanout_inputs(epoch=FANOUTQA_SNAPSHOT)
        )

    return run


def read_row(left: Left) -> PinnedQuestion:
    return PinnedQuestion.model_validate(left.rows["q"])


def test_every_article_gets_page_id_revision_and_timestamp(pin: Run) -> None:
    left = pin(make_row())
    pinned = [sub.evidence for sub in read_row(left).tree().decomposition]
    assert all(each and each.pageid and each.revid for each in pinned)
    assert [each["title"] for each in left.extras] == list(LENGTHS)
    assert all(each["timestamp"] <= FANOUTQA_SNAPSHOT and each["problem"] is None for each in left.extras)


def test_missing_article_rejects_question_and_all_references_are_recorded(pin: Run) -> None:
    articles = [ArticleEvidence(name, WIKI + name) for name in ("Enns", "Nowhere", "Young river")]
    left = pin(make_row(*articles))
    reason, detail = left.rejects["q"]
    assert reason == "evidence_missing"
    assert "strategy[1]: Nowhere" in detail
    assert "strategy[2]: Young river" in detail
    result = {each["path"]: each["problem"] for each in left.extras}
    assert result["strategy[0]"] is None
    assert result["strategy[1]"].startswith("evidence_missing: ")
    assert result["strategy[2]"].startswith("younger_than_epoch: ")


def test_released_pins_are_kept_only_at_their_own_epoch(pin: Run) -> None:
    articles = [
        ArticleEvidence("Enns", WIKI + "Enns", 77, 777),
        ArticleEvidence("Enns", WIKI + "Enns#Source"),
        ArticleEvidence("Nowhere", WIKI + "Nowhere", 78, 778),
    ]
    released = make_row(*articles, source="released")
    kept = [sub.evidence for sub in read_row(pin(released)).tree().decomposition if sub.evidence]
    assert [(each.pageid, each.revid) for each in (kept[0], kept[2])] == [(77, 777), (78, 778)]
    assert kept[1].revid not in (None, 777)
    assert pin(released, epoch="2024-06-01T00:00:00Z").rejects["q"][0] == "evidence_missing"
    assert pin(released.replace(source="authored")).rejects["q"][0] == "evidence_missing"


def test_sub_answers_are_checked_in_their_own_articles(pin: Run, flag: Run) -> None:
    swapped = [ArticleEvidence(name, WIKI + name) for name in ("Enns", "Drava", "Drava")]
    left = flag(read_row(pin(make_row(*swapped))))
    flags = {(each["code"], each["path"]): each["detail"] for each in left.rows["q"]["flags"]}
    assert "Drava (revision" in flags["answer_not_found", "strategy[1]"]
    assert "does not say 464 km" in flags["answer_not_found", "strategy[1]"]
    assert ("same_article", "strategy[2]") in flags
    assert ("too_few_articles", "") in flags
    assert [(each["id"], each["found"], each["missing"]) for each in left.extras] == [
        ("q strategy[0]", True, []),
        ("q strategy[1]", False, ["464 km"]),
        ("q strategy[2]", True, []),
    ]


def test_missing_revision_rejects_question_with_title_and_reference(pin: Run, flag: Run) -> None:
    articles = [ArticleEvidence(name, WIKI + name, 1, 990 + at) for at, name in enumerate(LENGTHS)]
    left = flag(read_row(pin(make_row(*articles, source="released"))))
    reason, detail = left.rejects["q"]
    assert reason == "evidence_missing"
    assert "decomposition[1]: Mur: " in detail
    assert [each["problem"].partition(":")[0] for each in left.extras] == ["evidence_missing"] * 3
