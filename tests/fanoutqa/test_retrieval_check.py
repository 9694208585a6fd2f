"""Test the retrieval check with a scripted wiki: titles near a question, and an article with all sub-answers."""

import gzip
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.rows.fanout_rows import flagged_row
from support.steps.inputs import fanout_inputs
from support.steps.steps import Left, run_step
from support.webs.loopback import Seen
from support.webs.small_wiki import SmallPage, SmallWiki

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import EmbeddedWorldError, SourceError
from factmill.tasks.fanoutqa.core.questions import (
    ArticleEvidence,
    SubQuestion,
    dump_json,
    format_released_decomposition,
)
from factmill.tasks.fanoutqa.core.rows import FlaggedQuestion, QuestionFlag
from factmill.tasks.fanoutqa.params import TITLE_FILE
from factmill.tasks.fanoutqa.retrieval_check import find_near_articles, flag_answers_in_one_near_article
from factmill.tasks.models.embedders import CharNgramEmbedder
from factmill.tasks.storage.source_files import SourceFile
from factmill.tasks.world.data import load_world_article_titles
from factmill.tasks.world.files import load_world_data

EPOCH = "2023-11-20T00:00:00Z"
QUESTION = "How long are the rivers Enns, Mur and Drava?"
LENGTHS = {"Enns": "254 km", "Mur": "464 km", "Drava": "710 km"}


def make_row(
    question: str = QUESTION, answers: Sequence[Any] = tuple(LENGTHS.values()), near: Sequence[str] = (), **changed: Any
) -> FlaggedQuestion:
    """Return a question with a leaf for each answer; its id is its first word."""
    titles = list(LENGTHS) if len(answers) == len(LENGTHS) else [f"River {at}" for at, _ in enumerate(answers)]
    leaves = [
        SubQuestion(
            f"s{at}",
            f"How long is the {title}?",
            answer,
            ArticleEvidence(title, f"https://en.wikipedia.org/wiki/{title}"),
        )
        for at, (title, answer) in enumerate(zip(titles, answers, strict=True))
    ]
    columns = {
        "answer": dump_json(list(answers)),
        "decomposition": dump_json(format_released_decomposition(leaves)),
        "epoch": EPOCH,
    }
    row_id = question.split(maxsplit=1)[0]
    return flagged_row(id=row_id, question=question, near_articles=list(near), **(columns | changed))


@pytest.fixture
def wiki() -> Iterator[SmallWiki]:
    wiki = SmallWiki()
    cells = "".join(f"<tr><td>{name}</td><td>{length}</td></tr>" for name, length in LENGTHS.items())
    wiki.add(
        *(SmallPage(at, name, f"<p>It is {length} long.</p>") for at, (name, length) in enumerate(LENGTHS.items(), 1)),
        SmallPage(4, "Rivers of Austria", f"<table>{cells}</table>"),
        SmallPage(5, "Rivers", "", redirect_to="Rivers of Austria"),
        SmallPage(6, "Rivers in 2024", f"<table>{cells}</table>", written="2024-01-01T00:00:00Z"),
    )
    yield wiki
    wiki.close()


Run = Callable[..., Left]


@pytest.fixture
def check(wiki: SmallWiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(*rows: FlaggedQuestion) -> Left:
        return run_step(
            flag_answers_in_one_near_article,
            rows,
            wiki.services(),
            tmp_path / "check",
            monkeypatch,
            fanout_inputs(epoch=EPOCH),
        )

    return run


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Find near titles, in a file or among the given ones, in the embedded world or another."""

    def run(
        *rows: FlaggedQuestion, near: int = 3, titles: Path | None = None, digest: str = "", url: str = "https://w"
    ) -> Left:
        services = SimpleNamespace(
            embedder=CharNgramEmbedder, home=tmp_path, world=SimpleNamespace(wikipedia=SimpleNamespace(url=url))
        )
        listed = [SourceFile(titles, titles.name, digest or digest_bytes(titles.read_bytes()))] if titles else []
        inputs = fanout_inputs(near=near)
        return run_step(
            find_near_articles, rows, services, tmp_path / "find", monkeypatch, inputs, {TITLE_FILE: listed}
        )

    return run


def flags_of(left: Left, row_id: str = "How") -> list[dict[str, Any]]:
    return list(left.rows[row_id]["flags"])


def test_article_that_contains_all_sub_answers_is_flagged(check: Run) -> None:
    earlier = QuestionFlag(code="wording", path="", detail="changes nothing")
    left = check(make_row(near=["Enns", "Rivers of Austria", "Mur"], flags=[earlier]))
    assert [flag["code"] for flag in flags_of(left)] == ["wording", "one_article_has_all"]
    assert flags_of(left)[1]["detail"] == (
        "the article Rivers of Austria (revision 40) alone holds all 3 different sub-answers; "
        "expected no article to hold them all"
    )
    assert left.extras == [{"id": "How", "answers": 3, "read": 3, "not_to_be_had": 0}]


@pytest.mark.parametrize(
    ("changed", "is_flagged", "counts"),
    [
        ({"near": ["Enns", "Mur", "Drava"]}, False, (3, 3, 0)),
        # the article's text at the epoch
        ({"near": ["Rivers in 2024", "Enns"]}, False, (3, 1, 1)),
        # two titles of one article, and two of none
        ({"near": ["Rivers", "Rivers of Austria", "Rivers of Atlantis", "Bad|title"]}, True, (3, 1, 2)),
        ({"answers": ["254 km", "yes", "464 km"], "near": ["Rivers of Austria"]}, True, (2, 1, 0)),
        ({"decomposition": "[]", "answer": None, "near": ["Rivers of Austria"]}, False, (0, 0, 0)),
    ],
    ids=[
        "sub-answers in several articles",
        "later article",
        "one article read once",
        "undecidable from the text",
        "test split",
    ],
)
def test_only_article_with_all_searchable_sub_answers_at_epoch_is_flagged(
    check: Run, changed: dict[str, Any], is_flagged: bool, counts: tuple[int, int, int]
) -> None:
    left = check(make_row(**changed))
    assert ["Rivers of Austria (revision 40)" in flag["detail"] for flag in flags_of(left)] == [True] * is_flagged
    assert left.extras == [{"id": "How", **dict(zip(("answers", "read", "not_to_be_had"), counts, strict=True))}]


@pytest.mark.parametrize(
    ("answers", "tellable"), [(["yes", "no", True], 0), (["254 km", "yes", ""], 1), (["254 km", "254 km", "254 km"], 1)]
)
def test_question_without_two_searchable_answers_passes_without_requests(
    check: Run, wiki: SmallWiki, answers: Sequence[Any], tellable: int
) -> None:
    left = check(make_row(answers=answers, near=["Rivers of Austria"]))
    assert flags_of(left) == []
    assert left.extras == [{"id": "How", "answers": tellable, "read": 0, "not_to_be_had": 0}]
    assert wiki.web.seen == []


def test_each_article_is_requested_once_per_batch(check: Run, wiki: SmallWiki) -> None:
    rows = [make_row(f"{name} and the others: how long are they?", near=["Rivers of Austria"]) for name in LENGTHS]
    left = check(*rows)
    assert all(flags_of(left, row.id) for row in rows)
    assert len(wiki.asked("oldid", "40")) == 1


@pytest.mark.parametrize("action", ["query", "parse"])
def test_outage_rejects_questions_that_need_article_as_retryable(check: Run, wiki: SmallWiki, action: str) -> None:
    def fail(seen: Seen) -> dict[str, Any] | None:
        is_it = seen.query.get("titles") == "Mur" or seen.query.get("oldid") == "20"
        return {"status": 503, "text": "oops"} if is_it and seen.query["action"] == action else None

    wiki.trouble = fail
    left = check(make_row(near=["Mur"]), make_row("Which are longest?", near=["Enns"]))
    assert list(left.rows) == ["Which"]
    assert left.rejects["How"][0] == "wikipedia_failed"
    assert left.receipt.unsettled == 1


def test_near_articles_come_from_all_questions_when_no_title_list_is_set(find: Run) -> None:
    other = make_row("Which Rivers are longer than the Drava and the Danube?", answers=["a", "b"])
    left = find(make_row(), other, near=4)
    assert {*left.rows["How"]["near_articles"], *left.rows["Which"]["near_articles"]} == {
        *LENGTHS,
        "River 0",
        "River 1",
    }
    assert left.rows["Which"]["near_articles"][0] in ("Drava", "River 0", "River 1")
    assert left.rejects == {}


def test_near_articles_come_from_embedded_wikipedia(find: Run) -> None:
    left = find(make_row("How tall is the Alan Turing of Ada Lovelace?"), near=2, url="embedded")
    assert set(left.rows["How"]["near_articles"]) == {"Alan Turing", "Ada Lovelace"}


def test_embedded_wikipedia_titles_are_those_of_its_articles(tmp_path: Path) -> None:
    assert load_world_article_titles() == sorted(load_world_data().articles)
    (tmp_path / "articles").mkdir()
    (tmp_path / "articles" / "Odd.html").write_text("---\nqid: Q1\n---\nText.\n")
    with pytest.raises(EmbeddedWorldError, match="no line `title: …`"):
        load_world_article_titles(tmp_path)


def test_near_titles_come_from_title_list(find: Run, tmp_path: Path) -> None:
    titles = tmp_path / "all-titles.gz"
    titles.write_bytes(gzip.compress(b"page_title\nRivers_Enns,_Mur\nJazz\nHow_long_are_the_rivers\n"))
    left = find(make_row(), near=2, titles=titles)
    assert set(left.rows["How"]["near_articles"]) == {"How long are the rivers", "Rivers Enns, Mur"}
    digest = digest_bytes(titles.read_bytes())
    titles.unlink()
    # the index is cached, so a replay needs no list
    again = find(make_row(), near=2, titles=titles, digest=digest)
    assert again.receipt.digest == left.receipt.digest


def test_title_list_changed_since_run_lock_raises_source_error(find: Run, tmp_path: Path) -> None:
    titles = tmp_path / "titles.txt"
    titles.write_text("Enns\n", "utf-8")
    with pytest.raises(SourceError, match="has changed"):
        find(make_row(), titles=titles, digest="0" * 64)
