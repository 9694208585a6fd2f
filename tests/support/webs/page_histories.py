"""Write pages that are moved, merged, split or redirected between two moments, for a world of tests."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from factmill.tasks.world.data import WORLD_FOLDER, list_world_files
from factmill.tasks.world.wiki.pages import format_redirect_html

THEN = "2023-11-20T00:00:00Z"
"""The moment at which pages are pinned; histories continue after it."""
LATER = "2026-01-01T00:00:00Z"

HISTORIES: dict[str, list[tuple[str, str]]] = {
    "Lighthouse of tests": [
        ("2020-01-01T00:00:00Z", "The light was lit in 1901."),
        ("2022-05-05T05:05:05Z", "The light was lit in 1902."),
        ("2024-03-03T03:03:03Z", "The light was lit in 1903."),
    ],
    "Young bridge": [("2024-01-01T00:00:00Z", "A bridge that nobody had written about.")],
    "Harbour after its move": [
        ("2019-01-01T00:00:00Z", "A harbour."),
        ("2022-01-01T00:00:00Z", "A harbour with a crane."),
        ("2024-06-01T00:00:00Z", "A harbour, much smaller."),
    ],
    "Harbour before its move": [("2024-05-31T00:00:00Z", "#REDIRECT [[Harbour after its move]]")],
    "Merged mill": [
        ("2020-01-01T00:00:00Z", "A mill of three floors."),
        ("2024-01-01T00:00:00Z", "#REDIRECT [[Great mill]]\nWhat was left below."),
    ],
    "Great mill": [
        ("2018-01-01T00:00:00Z", "A mill of nine floors."),
        ("2024-01-01T00:00:01Z", "A mill of nine floors, and one of three."),
    ],
    "Shifting ford": [
        ("2019-01-01T00:00:00Z", "#redirect:[[ford of then#Depth|the ford]]"),
        ("2025-01-01T00:00:00Z", "#REDIRECT [[Ford of now]]"),
    ],
    "Ford of then": [("2018-01-01T00:00:00Z", "A shallow ford."), ("2025-01-01T00:00:00Z", "A ford, left.")],
    "Ford of now": [("2018-01-01T00:00:00Z", "A deep ford.")],
    "Split tower": [
        ("2020-01-01T00:00:00Z", "#REDIRECT [[Tower family#Split]]"),
        ("2024-01-01T00:00:00Z", "A tower with an article of its own."),
    ],
    "Tower family": [("2018-01-01T00:00:00Z", "Towers that stand together."), ("2024-01-01T00:00:00Z", "Towers.")],
    "Loop one": [("2020-01-01T00:00:00Z", "#REDIRECT [[Loop two]]")],
    "Loop two": [("2020-01-01T00:00:00Z", "#REDIRECT [[Loop one]]")],
    "Young loop": [("2024-01-01T00:00:00Z", "#REDIRECT [[Young loop of two]]")],
    "Young loop of two": [("2024-01-01T00:00:00Z", "#REDIRECT [[Young loop]]")],
    "Former loop": [("2020-01-01T00:00:00Z", "#REDIRECT [[Former loop of two]]"), ("2024-01-01T00:00:00Z", "Mended.")],
    "Former loop of two": [("2020-01-01T00:00:00Z", "#REDIRECT [[Former loop]]"), ("2024-01-01T00:00:00Z", "Too.")],
    "Broken today": [
        ("2020-01-01T00:00:00Z", "An article that vandals made a circle of."),
        ("2024-01-01T00:00:00Z", "#REDIRECT [[Broken today too]]"),
    ],
    "Broken today too": [("2024-01-01T00:00:00Z", "#REDIRECT [[Broken today]]")],
    "Gate before swap": [
        ("2019-01-01T00:00:00Z", "#REDIRECT [[Gate before swap]]"),
        ("2024-01-01T00:00:00Z", "#REDIRECT [[Gate after swap]]"),
    ],
    "Gate after swap": [("2018-01-01T00:00:00Z", "A gate."), ("2024-01-01T00:00:00Z", "A gate, moved.")],
    **{f"Way {step}": [("2020-01-01T00:00:00Z", f"#REDIRECT [[Way {step + 1}]]")] for step in range(1, 8)},
    "Way 8": [("2020-01-01T00:00:00Z", "The end of a long way.")],
    "To a category": [("2020-01-01T00:00:00Z", "#REDIRECT [[:Category:Places]]")],
    "Talk about redirects": [("2020-01-01T00:00:00Z", 'One writes <nowiki>"redirectMsg"</nowiki> and no redirect.')],
    "Blank page": [("2020-01-01T00:00:00Z", "<!-- nothing to see -->")],
    "Who paid 100% in C++?": [("2020-01-01T00:00:00Z", "Nobody.")],
    "Été/hiver (M*A*S*H)": [("2020-01-01T00:00:00Z", "An episode that there was not.")],
    "Tables of tests": [
        (
            "2020-01-01T00:00:00Z",
            'A line before.<ref>Seen in 1999.</ref>\n\n== Heights ==\n{| class="wikitable"\n|+ Towers by height\n'
            "! Tower !! Metres\n|-\n| Red || 12\n|-\n| Blue || 34\n|}\n=== Notes of theirs ===\n* Red is old\n* Blue is new",
        )
    ],
}
"""Title → (moment, whole wikitext) of its revisions, oldest first."""
_SHOWN = {
    "#REDIRECT [[Great mill]]\nWhat was left below.": f"{format_redirect_html('Great mill')}<p>What was left below.</p>",
    "#redirect:[[ford of then#Depth|the ford]]": format_redirect_html("Ford of then#Depth"),
    "#REDIRECT [[:Category:Places]]": format_redirect_html("Category:Places"),
    'One writes <nowiki>"redirectMsg"</nowiki> and no redirect.': '<p>One writes "redirectMsg" and no redirect.</p>',
    "<!-- nothing to see -->": "",
    HISTORIES["Tables of tests"][0][
        1
    ]: """<p>A line before.<sup class="reference"><a href="#cite_note-1">[1]</a></sup></p>
<h2>Heights</h2>
<table class="wikitable">
<caption>Towers by height</caption>
<tbody>
<tr><th>Tower</th><th>Metres</th></tr>
<tr><td>Red</td><td>12</td></tr>
<tr><td>Blue</td><td>34</td></tr>
</tbody></table>
<h3>Notes of theirs</h3>
<ul><li>Red is old</li>
<li>Blue is new</li></ul>
<ol class="references"><li id="cite_note-1"><span class="reference-text">Seen in 1999.</span></li></ol>""",
}
"""MediaWiki's output for texts that are neither a plain redirect nor a sentence; a test compares it with a real one."""
PAGEID, REVID = 7_910_000, 8_910_000
"""The first page's ids; the next pages follow, with ten revision ids a page."""


def write_histories(folder: Path) -> None:
    """Write the pages as article files into a world's folder."""
    for number, (title, revisions) in enumerate(HISTORIES.items()):
        shown = [
            ({"revid": REVID + 10 * number + at, "at": moment, "comment": "made"}, _show(text))
            for at, (moment, text) in enumerate(revisions)
        ]
        head = {"title": title, "pageid": PAGEID + number, "views": 1}
        write_article(folder / "articles" / f"history_{number}.html", head, shown)


def write_article(path: Path, head: Mapping[str, Any], revisions: Sequence[tuple[dict[str, Any], str]]) -> None:
    """Write an article's file; `revisions`: fields and HTML of each, oldest first."""
    lines = [revisions[0][0]]
    for (_, before), (more, html) in pairwise(revisions):
        lines.append({**more, "replace": [[before, html]]})
    front = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in {**head, "revisions": lines}.items()]
    path.write_text("\n".join(["---", *front, "---", revisions[0][1], ""]), "utf-8")


def _show(wikitext: str) -> str:
    redirect = re.fullmatch(r"#REDIRECT \[\[([^:|]+)\]\]", wikitext)
    return _SHOWN.get(wikitext, format_redirect_html(redirect[1]) if redirect else f"<p>{wikitext}</p>")


def revid_of(title: str, at: int) -> int:
    """Return the id of a page's revision by its place in the history, from 0."""
    return REVID + 10 * list(HISTORIES).index(title) + at


def copy_world(folder: Path, world: Path = WORLD_FOLDER) -> Path:
    """Write a world with these pages added into a folder, and return it."""
    for file in list_world_files(world):
        (folder / file.relative_to(world)).parent.mkdir(parents=True, exist_ok=True)
        (folder / file.relative_to(world)).write_bytes(file.read_bytes())
    write_histories(folder)
    return folder
