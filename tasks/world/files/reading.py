"""Reading data/world/: YAML and wiki files into records, collecting every violation on the way.

A violation never stops the reading, so one run shows all of them; whatever a wrong line would have said is left out.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tasks.errors import WorldError
from tasks.world.data import (
    LANGUAGES,
    WORLD_FOLDER,
    Article,
    Item,
    Property,
    Qualifier,
    Statement,
    WorldData,
    digest_world,
)
from tasks.world.files.articles import read_article
from tasks.world.files.findings import Findings, Violation, parse_mapping, read_texts
from tasks.world.files.references import check_references
from tasks.world.files.values import DATA_TYPES, is_pid, is_qid, read_value, split_statement

_ITEM_KEYS = {"label", "is", "aka", "wiki", "modified"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def load_world_data(folder: Path = WORLD_FOLDER) -> WorldData:
    """Read a world; WorldError lists every violation with file, key and what was expected.

    The last two are kept while their files have the same bytes: several builds in a process read one once, and a state
    of it beside another.
    """
    return _load(folder, digest_world(folder))


@lru_cache(maxsize=2)
def _load(folder: Path, _digest: str) -> WorldData:
    data, violations = read_world_files(folder)
    if violations:
        shown = "\n  ".join(map(str, violations[:20]))
        more = f"\n  … and {len(violations) - 20} more" if len(violations) > 20 else ""
        raise WorldError(f"the embedded world in {folder} has {len(violations)} violations:\n  {shown}{more}")
    return data


def read_world_files(folder: Path) -> tuple[WorldData, list[Violation]]:
    """Read a world's folder; return what could be read and every violation."""
    findings = Findings()
    properties = {p.pid: p for p in _read_properties(folder, findings)}
    items: dict[str, Item] = {}
    paths = sorted(folder.glob("entities/*.yaml"))
    if not paths:
        findings.file = "entities/"
        findings.add("*.yaml", "no file; expected at least one")
    for path in paths:
        items |= {item.qid: item for item in _read_items(path, folder, properties, findings)}
    articles = _read_articles(folder, findings)
    tree, redirects = _read_categories(folder, findings)
    for article in articles.values():
        findings.file = findings.files[f"article {article.title}"]
        redirects |= {source: article.title for source in article.redirects if findings.claim(f"redirect {source}")}
    data = WorldData(properties, items, articles, tree, redirects)
    check_references(data, findings)
    return data, findings.found


def _read_properties(folder: Path, findings: Findings) -> Iterator[Property]:
    for pid, line in _read_mapping(folder / "properties.yaml", folder, findings):
        kind, bar, names = line.partition(" | ") if isinstance(line, str) else ("", "", "")
        if not is_pid(pid) or kind not in DATA_TYPES or not bar:
            findings.add(pid, f"expected `PID: type | labels` with one type of {', '.join(DATA_TYPES)}")
        elif findings.claim(f"property {pid}"):
            yield Property(pid, kind, _read_labels(pid, names, findings))


def _read_items(path: Path, folder: Path, properties: Mapping[str, Property], findings: Findings) -> Iterator[Item]:
    for qid, entry in _read_mapping(path, folder, findings):
        if not is_qid(qid) or not isinstance(entry, dict):
            findings.add(qid, "expected a QID with label, is, aka, wiki and statements below it")
        elif findings.claim(f"item {qid}"):
            yield _read_item(qid, entry, properties, findings)


def _read_item(qid: str, entry: Mapping[str, Any], properties: Mapping[str, Property], findings: Findings) -> Item:
    for key in entry:
        if key not in _ITEM_KEYS and not is_pid(key):
            findings.add(f"{qid}.{key}", "unknown key; expected label, is, aka, wiki, modified or a PID")
    if not _text_at(entry, "label"):
        findings.add(qid, "no label; expected `label: name` or six names")
    modified = _text_at(entry, "modified")
    if modified is not None and not _MOMENT.fullmatch(modified):
        findings.add(f"{qid}.modified", "expected a moment like 2026-01-31T10:15:00Z")
    pids = [key for key in entry if is_pid(key)]
    statements = [s for pid in pids for s in _read_statements(qid, pid, entry[pid], properties, findings)]
    return Item(
        qid=qid,
        labels=_read_labels(f"{qid}.label", _text_at(entry, "label") or qid, findings),
        description=_text_at(entry, "is"),
        aliases=tuple(read_texts(f"{qid}.aka", entry.get("aka", []), findings)),
        title=_text_at(entry, "wiki"),
        statements=tuple(statements),
        modified=modified,
    )


def _read_statements(
    qid: str, pid: str, given: Any, properties: Mapping[str, Property], findings: Findings
) -> Iterator[Statement]:
    key = f"{qid}.{pid}"
    if pid not in properties:
        findings.add(key, "unknown property; expected one of properties.yaml")
        return
    texts = read_texts(key, given, findings)
    for text, count in Counter(texts).items():
        if count > 1:
            findings.add(key, f"{text!r} is stated {count} times; expected once")
    for text in dict.fromkeys(texts):
        try:
            raw = split_statement(text)
            for used, _ in raw.qualifiers:
                if used not in properties:
                    raise ValueError(f"qualifier {used} is unknown; expected a property of properties.yaml")
            qualifiers = (Qualifier(p, read_value(v, properties[p].data_type)) for p, v in raw.qualifiers)
            yield Statement(pid, read_value(raw.value, properties[pid].data_type), raw.rank, tuple(qualifiers))
        except ValueError as error:
            findings.add(key, str(error))


def _read_articles(folder: Path, findings: Findings) -> dict[str, Article]:
    articles: dict[str, Article] = {}
    for path in sorted(folder.glob("articles/*.html")):
        text = _read_text(path, folder, findings)
        article = None if text is None else read_article(text, findings)
        if article and findings.claim(f"article {article.title}"):
            articles[article.title] = article
    return articles


def _read_categories(folder: Path, findings: Findings) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    sections = dict(_read_mapping(folder / "categories.yaml", folder, findings))
    for key in sections.keys() - {"tree", "redirects"}:
        findings.add(key, "unknown key; expected tree or redirects")
    tree, redirects = sections.get("tree") or {}, sections.get("redirects") or {}
    if not isinstance(tree, dict) or not isinstance(redirects, dict):
        findings.add("tree, redirects", "expected a mapping below each")
        return {}, {}
    parents = {name: tuple(read_texts(name, given, findings)) for name, given in tree.items()}
    for name in parents:
        findings.claim(f"category {name}")
    targets = {source: target for source, target in redirects.items() if isinstance(target, str)}
    for source in redirects:
        findings.claim(f"redirect {source}")
        if source not in targets:
            findings.add(source, "expected the title of the page it leads to")
    return parents, targets


def _read_mapping(path: Path, folder: Path, findings: Findings) -> list[tuple[str, Any]]:
    text = _read_text(path, folder, findings)
    return [] if text is None else parse_mapping(text, findings)


def _read_text(path: Path, folder: Path, findings: Findings) -> str | None:
    findings.file = path.relative_to(folder).as_posix()
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        findings.add("file", f"cannot be read: {error}")
        return None


def _read_labels(key: str, text: str, findings: Findings) -> dict[str, str]:
    names = [name.strip() for name in text.split(" / ")]
    if len(names) == 1:
        names *= len(LANGUAGES)
    if len(names) != len(LANGUAGES) or not all(names) or names[0] == "=":
        findings.add(key, f"{text!r} has {len(names)} labels; expected one, or six as {' / '.join(LANGUAGES)}")
        names = [names[0]] * len(LANGUAGES)
    return {language: names[0] if name == "=" else name for language, name in zip(LANGUAGES, names, strict=True)}


def _text_at(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    return value if isinstance(value, str) and value else None
