"""Label 60 items in Chromium while browser and server get killed: no label is lost, and agreement is printed."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.builds.small_builds import SmallBuilds
from support.commands.command import Factmill, Process
from support.docs.driven_chromium import DrivenChromium
from support.rows.csv_files import read_csv, write_csv

from factmill.tasks.storage.builds import load_published_table
from factmill.tasks.storage.warehouse import open_warehouse

HOSTILE = "<img src=x onerror='window.harmed=1'><script>window.harmed=1</script> \u202e{}"
SHOWN = "Array.from(document.querySelectorAll('.shown dd')).map((each) => each.textContent)"
pytestmark = pytest.mark.slow


@pytest.fixture
def evaluated(factmill: Factmill, small_builds: SmallBuilds, tmp_path: Path) -> tuple[Path, str]:
    """Return a warehouse and the id of an evaluation of answers that are right, or contain active markup."""
    warehouse = tmp_path / "w.duckdb"
    build_id = small_builds.copy("slaq", warehouse)
    with open_warehouse(warehouse) as db:
        topics = load_published_table(db, build_id, "slaq").to_pylist()
    lines = []
    for at, topic in enumerate(topics):
        said = [topic[f"ShortA{number}"] if (at + number) % 3 else HOSTILE.format(number) for number in range(1, 6)]
        lines += [{"id": f"{topic['id']}/{number}", "answer": each} for number, each in enumerate(said, 1)]
        lines.append({"id": f"{topic['id']}/long", "answer": "\n".join(said)})
    answers = tmp_path / "secret-model.jsonl"
    answers.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    result = factmill("evaluate", "slaq", "--answers", answers, "--warehouse", warehouse, "--json")
    assert result.code == 0, result.err
    return warehouse, result.json["evaluation_id"]


def start_page(factmill: Factmill, *arguments: str | Path) -> tuple[Process, str]:
    """Start the command and return its process and the page's address."""
    process = factmill.start(*arguments)
    assert process.stderr
    for line in process.stderr:
        if line.startswith("open http://127.0.0.1:"):
            return process, line.removeprefix("open ").strip()
    raise AssertionError(f"no page was served; exit code {process.wait()}")


@pytest.fixture
def browsers(tmp_path: Path) -> Iterator[list[DrivenChromium]]:
    opened: list[DrivenChromium] = []
    yield opened
    for browser in opened:
        browser.kill()


def open_browser(opened: list[DrivenChromium], folder: Path, url: str, done: int) -> DrivenChromium:
    browser = DrivenChromium(folder / f"browser{len(opened)}")
    opened.append(browser)
    browser.open(url)
    wait_for(browser, done)
    return browser


def wait_for(browser: DrivenChromium, done: int) -> None:
    browser.wait_until(f"document.querySelector('output').textContent.includes(', {done} decided')")


def label_in_csv(factmill: Factmill, evaluated: tuple[Path, str], sheet: Path) -> list[dict[str, str]]:
    """Give 60 labels, alternating 0 and 1, as bob in a CSV; return its rows."""
    warehouse, evaluation = evaluated
    assert factmill("label", evaluation, "--to", sheet, "--n", "60", "--warehouse", warehouse).code == 0
    rows = read_csv(sheet)
    assert len(rows) == 60
    write_csv(sheet, (row | {"label": str(at % 2)} for at, row in enumerate(rows)))
    assert factmill("label", "--from", sheet, "--labeller", "bob", "--warehouse", warehouse).code == 0
    return rows


def press_labels(browser: DrivenChromium, labels: list[str], done: int) -> None:
    """Press each label's key; `done` rows are already decided."""
    for at, label in enumerate(labels, done + 1):
        browser.press(label)
        wait_for(browser, at)


def test_labels_survive_browser_and_server_restart(
    factmill: Factmill, evaluated: tuple[Path, str], browsers: list[DrivenChromium], tmp_path: Path
) -> None:
    warehouse, evaluation = evaluated
    here = ("--warehouse", warehouse)
    rows = label_in_csv(factmill, evaluated, tmp_path / "bob.csv")

    # ada sees the same rows in the same order, and disagrees with bob on every sixth
    by_ada = {row["item"]: str((at + (at % 6 == 0)) % 2) for at, row in enumerate(rows)}
    labels = list(by_ada.values())
    serve = ("label", evaluation, "--serve", "--n", "60", "--labeller", "ada", "--json", *here)
    process, url = start_page(factmill, *serve)
    browser = open_browser(browsers, tmp_path, url, 0)
    press_labels(browser, labels[:20], 0)
    browser.kill()

    browser = open_browser(browsers, tmp_path, url, 20)
    assert browser.list_axe_findings() == []
    press_labels(browser, labels[20:40], 20)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    browser.press(labels[40])
    browser.wait_until("!document.querySelector('.alert').hidden")
    assert "Not saved: the command does not answer." in browser.read("document.querySelector('.alert').textContent")
    wait_for(browser, 40)

    process, url = start_page(factmill, *serve)
    browser = open_browser(browsers, tmp_path, url, 40)
    assert browser.read(SHOWN)[0] == rows[40]["question"]
    browser.press("1" if labels[40] == "0" else "0")
    wait_for(browser, 41)
    browser.press("u")
    wait_for(browser, 40)
    assert browser.read(SHOWN)[0] == rows[40]["question"]
    for at in range(40, 60):
        assert_shown_as_text(browser, rows[at])
        press_labels(browser, [labels[at]], at)
    browser.press("ArrowLeft")
    browser.wait_until("document.querySelector('output').textContent.startsWith('row 59 of 60')")
    pressed = browser.read("document.querySelector('button[aria-pressed=true]').dataset.value")
    assert pressed == labels[58]
    seen = browser.read("document.body.innerText").lower()
    assert not [name for name in ("secret-model", "exact", "verdict", "short |", "long |") if name in seen]
    browser.read("document.querySelector('[data-action=finish]').click()")
    browser.wait_until("!document.querySelector('.finished').hidden")

    out, err = process.communicate()
    assert process.returncode == 0, err
    result: dict[str, Any] = json.loads(out)
    assert (result["labels"], result["labellers"], result["unlabelled"], result["troubles"]) == (60, ["ada"], 0, [])
    among = result["among_people"]["slaq"]
    assert (among["labellers"], among["items"], among["agreed"], among["kind"]) == (2, 60, 50, "cohen")
    with open_warehouse(warehouse) as db:
        stored = db.execute("SELECT item, label FROM labels WHERE labeller = 'ada'").fetchall()
    assert dict(stored) == by_ada


def assert_shown_as_text(browser: DrivenChromium, row: dict[str, str]) -> None:
    """Check that the page shows a row's texts as plain text and runs none of them."""
    shown = browser.read(SHOWN)
    assert shown[2] == row["answer"].removeprefix("'").replace("\u202e", "[U+202E]")
    assert browser.read("[window.harmed, document.querySelector('.shown img')]") == [None, None]


def test_keys_answer_several_questions_and_text_is_saved_while_typing(
    factmill: Factmill, small_builds: SmallBuilds, browsers: list[DrivenChromium], tmp_path: Path
) -> None:
    warehouse = tmp_path / "w.duckdb"
    build_id = small_builds.copy("slaq", warehouse)
    serve = (
        "audit",
        "slaq",
        "--build",
        build_id,
        "--rows",
        "3",
        "--serve",
        "--reviewer",
        "ada",
        "--warehouse",
        warehouse,
    )
    process, url = start_page(factmill, *serve)
    browser = open_browser(browsers, tmp_path, url, 0)
    first = browser.read(SHOWN)
    for key in ("4", "1"):
        browser.press(key)
    wait_for(browser, 1)
    assert browser.read(SHOWN) != first
    browser.read("document.querySelector('textarea').focus()")
    browser.send("Input.insertText", text="0 1 u: <b>keys</b> are text here")
    (journal,) = (factmill.home / "labelling").glob(f"audit-{build_id}-*.jsonl")
    browser.wait_until("document.querySelector('textarea').value.length > 0")
    while b"keys" not in journal.read_bytes():
        browser.read("1")
    wait_for(browser, 1)
    browser.press("Escape")
    browser.press("0")
    browser.press("0")
    wait_for(browser, 2)
    browser.read("window.confirm = () => true")
    browser.read("document.querySelector('[data-action=finish]').click()")
    browser.wait_until("!document.querySelector('.finished').hidden")
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "2 verdicts imported" in out and "faulty_pairs: 33.3%" in out and "2 rows" in out
    with open_warehouse(warehouse) as db:
        found = db.execute("SELECT marks, reviewer, note FROM audit_verdicts ORDER BY note").fetchall()
    assert [(json.loads(marks), *rest) for marks, *rest in found] == [
        ({"faulty_pairs": 4, "restating": 1}, "ada", ""),
        ({"faulty_pairs": 0, "restating": 0}, "ada", "0 1 u: <b>keys</b> are text here"),
    ]
