"""Reading one article file: YAML front matter, then the first revision as the HTML within MediaWiki's div.mw-parser-output.

Later revisions are stated as passages exchanged, so that the text stands once in the file and a change is seen at a
glance. Each old passage must occur exactly once in the revision before; anything else would make the text ambiguous.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tasks.world.data import Article, Revision
from tasks.world.files.findings import Findings, parse_mapping, read_texts
from tasks.world.files.values import is_qid

_FILE = re.compile(r"---\r?\n(.*?\n)---\r?\n(.*)", re.DOTALL)
_KEYS = {
    *("title", "qid", "pageid", "views", "redirects", "revisions", "categories", "short_description", "disambiguation")
}
_REVISION_KEYS = {"revid", "at", "comment", "replace"}


def read_article(text: str, findings: Findings) -> Article | None:
    """Read an article file's text with all its revisions; None, and a violation, when there is no title or revision."""
    match = _FILE.fullmatch(text)
    if not match:
        findings.add("front matter", "expected YAML between two --- lines at the top")
        return None
    pairs = parse_mapping(match[1], findings)
    head = dict(pairs)
    title = head.get("title")
    if not isinstance(title, str) or not title:
        findings.add("title", "missing; expected the article's title")
        return None
    for key in {key for key, _ in pairs if key not in _KEYS or [k for k, _ in pairs].count(key) > 1}:
        findings.add(f"{title}.{key}", f"expected each of {', '.join(sorted(_KEYS))} at most once, and no other key")
    qid = head.get("qid")
    if qid is not None and not is_qid(str(qid)):
        findings.add(f"{title}.qid", f"{qid!r} is no QID")
        qid = None
    revisions = _read_revisions(title, head.get("revisions"), match[2].strip(), findings)
    if not revisions:
        return None
    description, is_disambiguation = head.get("short_description"), head.get("disambiguation", "false")
    if not isinstance(description, str | None):
        findings.add(f"{title}.short_description", f"{description!r}: expected a text")
        description = None
    if is_disambiguation not in ("true", "false"):
        findings.add(f"{title}.disambiguation", f"{is_disambiguation!r}: expected true or false")
    return Article(
        title=title,
        qid=qid,
        pageid=_number(f"{title}.pageid", head.get("pageid"), 1, findings),
        daily_views=_number(f"{title}.views", head.get("views"), 0, findings),
        redirects=tuple(read_texts(f"{title}.redirects", head.get("redirects", []), findings)),
        revisions=tuple(revisions),
        categories=_read_categories(title, head.get("categories", []), findings),
        short_description=description,
        is_disambiguation=is_disambiguation == "true",
    )


def _read_categories(title: str, given: Any, findings: Findings) -> dict[str, str]:
    """Read `Name` and `Name|sort key`; white space counts in a key, and a lone blank comes first in its category."""
    pairs = (text.partition("|") for text in read_texts(f"{title}.categories", given, findings))
    return {name: key for name, _, key in pairs}


def _read_revisions(title: str, given: Any, text: str, findings: Findings) -> list[Revision]:
    if not isinstance(given, list) or not given or not all(isinstance(entry, dict) for entry in given):
        findings.add(f"{title}.revisions", "expected a list of revisions with revid, at and comment")
        return []
    revisions: list[Revision] = []
    for number, entry in enumerate(given):
        key = f"{title}.revisions[{number}]"
        for unknown in entry.keys() - _REVISION_KEYS:
            findings.add(key, f"unknown key {unknown!r}; expected {', '.join(sorted(_REVISION_KEYS))}")
        if number == 0 and "replace" in entry:
            findings.add(key, "the first revision is the text below; expected `replace` in later ones only")
        elif number > 0:
            text = _apply_replacements(key, entry, text, findings)
        before = revisions[-1] if revisions else None
        revision = Revision(
            revid=_number(f"{key}.revid", entry.get("revid"), 1, findings),
            parent_revid=before.revid if before else 0,
            at=_timestamp(f"{key}.at", entry.get("at"), findings),
            comment=str(entry.get("comment", "")),
            text=text,
        )
        if before and (revision.revid <= before.revid or revision.at <= before.at):
            findings.add(key, "expected a higher revid and a later time than the revision before")
        revisions.append(revision)
    return revisions


def _apply_replacements(key: str, entry: Mapping[str, Any], text: str, findings: Findings) -> str:
    pairs = entry.get("replace")
    if not isinstance(pairs, list) or not pairs:
        findings.add(key, "expected `replace` with at least one [old passage, new passage]")
        return text
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            findings.add(key, f"{pair!r}: expected [old passage, new passage]")
            continue
        old, new = pair
        count = text.count(old) if old else 0
        if count != 1:
            findings.add(key, f"old passage {old!r} occurs {count} times; expected exactly once")
            continue
        text = text.replace(old, new)
    return text


def _number(key: str, given: Any, at_least: int, findings: Findings) -> int:
    if isinstance(given, str) and given.isascii() and given.isdigit() and int(given) >= at_least:
        return int(given)
    findings.add(key, f"{given!r}: expected a whole number of {at_least} or more")
    return 0


def _timestamp(key: str, given: Any, findings: Findings) -> str:
    try:
        return datetime.strptime(str(given), "%Y-%m-%dT%H:%M:%SZ").strftime("%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        findings.add(key, f"{given!r}: expected a time like 2021-04-03T10:15:00Z")
        return "1970-01-01T00:00:00Z"
