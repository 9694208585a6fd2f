"""Load data/world/: parse YAML and article files into records (data.py) and collect every violation.

A violation never stops the loading, so one run shows all of them; the content of an invalid line is left out.

An article file has YAML front matter, then the first revision as the HTML within MediaWiki's div.mw-parser-output. Later
revisions are lists of replaced passages, so that the file holds the text once and shows each change at a glance. An old
passage must occur exactly once in the preceding revision; otherwise the text would be ambiguous.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from factmill.tasks.errors import EmbeddedWorldError
from factmill.tasks.text.wikidata_ids import is_pid, is_qid
from factmill.tasks.world.data import (
    PROPERTY_DATA_TYPES,
    WORLD_FOLDER,
    WORLD_LABEL_LANGUAGES,
    Item,
    ItemValue,
    Qualifier,
    QuantityValue,
    Statement,
    WikidataProperty,
    WorldArticle,
    WorldArticleRevision,
    WorldData,
    digest_world_files,
    parse_statement_value,
    split_statement,
)

_ITEM_KEYS = {"label", "is", "aka", "wiki", "modified"}
_UTC_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ARTICLE_FILE_PATTERN = re.compile(r"---\r?\n(.*?\n)---\r?\n(.*)", re.DOTALL)
_ARTICLE_KEYS = frozenset(
    ("title", "qid", "pageid", "views", "redirects", "revisions", "categories", "short_description", "disambiguation")
)
_REVISION_KEYS = frozenset(("revid", "at", "comment", "replace"))


@dataclass(frozen=True, slots=True)
class WorldFileViolation:
    """One violation of the rules for the world's files."""

    file: str
    """Path below the world's folder."""
    key: str
    """Position in the file: an id, `Q64.P19`, a title."""
    problem: str
    """What was found and what was expected."""

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.problem}"


@dataclass(slots=True)
class WorldFileViolationCollector:
    """Violations found so far, the file being read, and which file describes each thing."""

    current_file: str = ""
    violations: list[WorldFileViolation] = field(default_factory=list)
    described_in: dict[str, str] = field(default_factory=dict)
    """`item Q64`, `article Algebra`, `redirect Algebraic theory` … → file that describes it."""

    def add_violation(self, key: str, problem: str, owner: str = "") -> None:
        """Record a violation in the file being read, or in the file that describes `owner`."""
        self.violations.append(
            WorldFileViolation(self.described_in[owner] if owner else self.current_file, key, problem)
        )

    def register_description(self, owner: str) -> bool:
        """Record that this file describes `owner`; return False and add a violation on a duplicate."""
        if owner in self.described_in:
            self.add_violation(owner, f"described twice; {self.described_in[owner]} describes it already")
            return False
        self.described_in[owner] = self.current_file
        return True

    def load_text(self, path: Path, folder: Path) -> str | None:
        """Make `path` the file being read and return its text; None if it cannot be read."""
        self.current_file = path.relative_to(folder).as_posix()
        try:
            return path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            self.add_violation("file", f"cannot be read: {error}")
            return None

    def load_mapping(self, path: Path, folder: Path) -> list[tuple[str, Any]]:
        """Load a YAML file as (key, value) pairs (`parse_yaml_pairs_as_text`)."""
        text = self.load_text(path, folder)
        return [] if text is None else parse_yaml_pairs_as_text(text, self)


def parse_yaml_pairs_as_text(text: str, findings: WorldFileViolationCollector) -> list[tuple[str, Any]]:
    """Parse YAML text into (key, value) pairs, scalars as text; a duplicate key gives two pairs."""

    def read_plain(node: yaml.Node, key: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            for name, count in Counter(str(name.value) for name, _ in node.value).items():
                if count > 1:
                    findings.add_violation(f"{key}.{name}", f"occurs {count} times; expected once")
            return {str(name.value): read_plain(value, f"{key}.{name.value}") for name, value in node.value}
        if isinstance(node, yaml.SequenceNode):
            return [read_plain(value, key) for value in node.value]
        return str(node.value)

    try:
        node = yaml.compose(text, Loader=yaml.CBaseLoader)
    except yaml.YAMLError as error:
        hint = "; write a lone ? in quotes" if "mapping keys are not allowed" in str(error) else ""
        findings.add_violation("YAML", " ".join(str(error).split()) + hint)
        return []
    if node is not None and not isinstance(node, yaml.MappingNode):
        findings.add_violation("YAML", "expected a mapping at the top")
        return []
    return [(str(key.value), read_plain(value, str(key.value))) for key, value in (node.value if node else ())]


def load_world_data(folder: Path = WORLD_FOLDER) -> WorldData:
    """Load a world; EmbeddedWorldError lists every violation with file, key and what was expected.

    The last two worlds are cached by the bytes of their files, so that several builds in one process load a world once,
    even when they alternate between two states.
    """
    return _load_cached_world_data(folder, digest_world_files(folder))


@lru_cache(maxsize=2)
def _load_cached_world_data(folder: Path, _digest: str) -> WorldData:
    data, violations = load_world_and_violations(folder)
    if violations:
        shown = "\n  ".join(map(str, violations[:20]))
        more = f"\n  … and {len(violations) - 20} more" if len(violations) > 20 else ""
        raise EmbeddedWorldError(f"the embedded world in {folder} has {len(violations)} violations:\n  {shown}{more}")
    return data


def load_world_and_violations(folder: Path) -> tuple[WorldData, list[WorldFileViolation]]:
    """Load a world's folder; return the valid data and every violation."""
    findings = WorldFileViolationCollector()
    properties: dict[str, WikidataProperty] = {}
    for pid, line in findings.load_mapping(folder / "properties.yaml", folder):
        kind, bar, names = line.partition(" | ") if isinstance(line, str) else ("", "", "")
        if not is_pid(pid) or kind not in PROPERTY_DATA_TYPES or not bar:
            findings.add_violation(
                pid, f"expected `PID: type | labels` with one type of {', '.join(PROPERTY_DATA_TYPES)}"
            )
        elif findings.register_description(f"property {pid}"):
            properties[pid] = WikidataProperty(pid, kind, _parse_multilingual_labels(pid, names, findings))
    items: dict[str, Item] = {}
    paths = sorted(folder.glob("entities/*.yaml"))
    if not paths:
        findings.current_file = "entities/"
        findings.add_violation("*.yaml", "no file; expected at least one")
    for path in paths:
        for qid, entry in findings.load_mapping(path, folder):
            if not is_qid(qid) or not isinstance(entry, dict):
                findings.add_violation(qid, "expected a QID with label, is, aka, wiki and statements below it")
            elif findings.register_description(f"item {qid}"):
                items[qid] = _parse_item(qid, entry, properties, findings)
    articles: dict[str, WorldArticle] = {}
    for path in sorted(folder.glob("articles/*.html")):
        text = findings.load_text(path, folder)
        article = None if text is None else parse_world_article(text, findings)
        if article and findings.register_description(f"article {article.title}"):
            articles[article.title] = article
    tree, redirects = _load_category_parents_and_redirects(folder, findings)
    for article in articles.values():
        findings.current_file = findings.described_in[f"article {article.title}"]
        redirects |= {
            source: article.title for source in article.redirects if findings.register_description(f"redirect {source}")
        }
    data = WorldData(properties, items, articles, tree, redirects)
    add_reference_and_duplicate_violations(data, findings)
    return data, findings.violations


def _parse_item(
    qid: str,
    entry: Mapping[str, Any],
    properties: Mapping[str, WikidataProperty],
    findings: WorldFileViolationCollector,
) -> Item:
    texts = {key: value for key, value in entry.items() if isinstance(value, str) and value}
    for key in entry:
        if key not in _ITEM_KEYS and not is_pid(key):
            findings.add_violation(f"{qid}.{key}", "unknown key; expected label, is, aka, wiki, modified or a PID")
    if "label" not in texts:
        findings.add_violation(qid, "no label; expected `label: name` or six names")
    modified = texts.get("modified")
    if modified is not None and not _UTC_MOMENT.fullmatch(modified):
        findings.add_violation(f"{qid}.modified", "expected a moment like 2026-01-31T10:15:00Z")
    pids = [key for key in entry if is_pid(key)]
    statements = [s for pid in pids for s in _parse_statements(f"{qid}.{pid}", pid, entry[pid], properties, findings)]
    return Item(
        qid=qid,
        labels=_parse_multilingual_labels(f"{qid}.label", texts.get("label", qid), findings),
        description=texts.get("is"),
        aliases=tuple(_parse_text_list(f"{qid}.aka", entry.get("aka", []), findings)),
        title=texts.get("wiki"),
        statements=tuple(statements),
        modified=modified,
    )


def _parse_statements(
    key: str, pid: str, entry: Any, properties: Mapping[str, WikidataProperty], findings: WorldFileViolationCollector
) -> Iterator[Statement]:
    if pid not in properties:
        findings.add_violation(key, "unknown property; expected one of properties.yaml")
        return
    for text, count in Counter(_parse_text_list(key, entry, findings)).items():
        if count > 1:
            findings.add_violation(key, f"{text!r} is stated {count} times; expected once")
        try:
            raw = split_statement(text)
            for used, _ in raw.qualifiers:
                if used not in properties:
                    raise ValueError(f"qualifier {used} is unknown; expected a property of properties.yaml")
            qualifiers = (Qualifier(p, parse_statement_value(v, properties[p].data_type)) for p, v in raw.qualifiers)
            yield Statement(
                pid, parse_statement_value(raw.value, properties[pid].data_type), raw.rank, tuple(qualifiers)
            )
        except ValueError as error:
            findings.add_violation(key, str(error))


def _parse_multilingual_labels(key: str, text: str, findings: WorldFileViolationCollector) -> dict[str, str]:
    names = [name.strip() for name in text.split(" / ")]
    if len(names) == 1:
        names *= len(WORLD_LABEL_LANGUAGES)
    if len(names) != len(WORLD_LABEL_LANGUAGES) or not all(names) or names[0] == "=":
        findings.add_violation(
            key, f"{text!r} has {len(names)} labels; expected one, or six as {' / '.join(WORLD_LABEL_LANGUAGES)}"
        )
        names = [names[0]] * len(WORLD_LABEL_LANGUAGES)
    return {
        language: names[0] if name == "=" else name for language, name in zip(WORLD_LABEL_LANGUAGES, names, strict=True)
    }


def _parse_text_list(key: str, text_or_texts: Any, findings: WorldFileViolationCollector) -> list[str]:
    """Return a text or a list of texts as a list; any other entry is a violation and left out."""
    entries = text_or_texts if isinstance(text_or_texts, list) else [text_or_texts]
    texts = [entry for entry in entries if isinstance(entry, str) and entry]
    if len(texts) != len(entries):
        findings.add_violation(key, "expected a text or a list of texts")
    return texts


def _load_category_parents_and_redirects(
    folder: Path, findings: WorldFileViolationCollector
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Load categories.yaml: category → parents, and redirect → target."""
    sections = dict(findings.load_mapping(folder / "categories.yaml", folder))
    for key in sections.keys() - {"tree", "redirects"}:
        findings.add_violation(key, "unknown key; expected tree or redirects")
    tree, redirects = sections.get("tree") or {}, sections.get("redirects") or {}
    if not isinstance(tree, dict) or not isinstance(redirects, dict):
        findings.add_violation("tree, redirects", "expected a mapping below each")
        return {}, {}
    parents = {name: tuple(_parse_text_list(name, given, findings)) for name, given in tree.items()}
    for name in parents:
        findings.register_description(f"category {name}")
    for source, target in redirects.items():
        findings.register_description(f"redirect {source}")
        if not isinstance(target, str):
            findings.add_violation(source, "expected the title of its target page")
    return parents, {source: target for source, target in redirects.items() if isinstance(target, str)}


def parse_world_article(text: str, findings: WorldFileViolationCollector) -> WorldArticle | None:
    """Parse an article file's text with all revisions; None and a violation if title or revisions are missing."""
    match = _ARTICLE_FILE_PATTERN.fullmatch(text)
    if not match:
        findings.add_violation("front matter", "expected YAML between two --- lines at the top")
        return None
    pairs = parse_yaml_pairs_as_text(match[1], findings)
    head = dict(pairs)
    title = head.get("title")
    if not isinstance(title, str) or not title:
        findings.add_violation("title", "missing; expected the article's title")
        return None
    for key, count in Counter(key for key, _ in pairs).items():
        if key not in _ARTICLE_KEYS or count > 1:
            expected = f"expected each of {', '.join(sorted(_ARTICLE_KEYS))} at most once, and no other key"
            findings.add_violation(f"{title}.{key}", expected)
    qid = head.get("qid")
    if qid is not None and not is_qid(str(qid)):
        findings.add_violation(f"{title}.qid", f"{qid!r} is not a QID; expected one like Q64")
        qid = None
    revisions = _parse_revisions(title, head.get("revisions"), match[2].strip(), findings)
    if not revisions:
        return None
    description, is_disambiguation = head.get("short_description"), head.get("disambiguation", "false")
    if not isinstance(description, str | None):
        findings.add_violation(f"{title}.short_description", f"{description!r}: expected a text")
        description = None
    if is_disambiguation not in ("true", "false"):
        findings.add_violation(f"{title}.disambiguation", f"{is_disambiguation!r}: expected true or false")
    # `Name` or `Name|sort key`; whitespace in a key counts, and a single blank sorts first in its category
    categories = (
        name.partition("|") for name in _parse_text_list(f"{title}.categories", head.get("categories", []), findings)
    )
    return WorldArticle(
        title=title,
        qid=qid,
        pageid=_parse_number(f"{title}.pageid", head.get("pageid"), 1, findings),
        daily_views=_parse_number(f"{title}.views", head.get("views"), 0, findings),
        redirects=tuple(_parse_text_list(f"{title}.redirects", head.get("redirects", []), findings)),
        revisions=tuple(revisions),
        categories={name: key for name, _, key in categories},
        short_description=description,
        is_disambiguation=is_disambiguation == "true",
    )


def _parse_revisions(
    title: str, entries: Any, text: str, findings: WorldFileViolationCollector
) -> list[WorldArticleRevision]:
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        findings.add_violation(f"{title}.revisions", "expected a list of revisions with revid, at and comment")
        return []
    revisions: list[WorldArticleRevision] = []
    for number, entry in enumerate(entries):
        key = f"{title}.revisions[{number}]"
        for unknown in entry.keys() - _REVISION_KEYS:
            findings.add_violation(key, f"unknown key {unknown!r}; expected {', '.join(sorted(_REVISION_KEYS))}")
        if number == 0 and "replace" in entry:
            findings.add_violation(key, "the first revision is the text below; expected `replace` in later ones only")
        elif number > 0:
            text = _replace_passages(key, entry.get("replace"), text, findings)
        before = revisions[-1] if revisions else None
        revid, at = _parse_number(f"{key}.revid", entry.get("revid"), 1, findings), str(entry.get("at"))
        try:
            at = datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").strftime("%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            findings.add_violation(f"{key}.at", f"{entry.get('at')!r}: expected a time like 2021-04-03T10:15:00Z")
            at = "1970-01-01T00:00:00Z"
        revisions.append(
            WorldArticleRevision(revid, before.revid if before else 0, at, str(entry.get("comment", "")), text)
        )
        if before and (revid <= before.revid or at <= before.at):
            findings.add_violation(key, "expected a higher revid and a later time than those of the preceding revision")
    return revisions


def _replace_passages(key: str, pairs: Any, text: str, findings: WorldFileViolationCollector) -> str:
    if not isinstance(pairs, list) or not pairs:
        findings.add_violation(key, "expected `replace` with at least one [old passage, new passage]")
        return text
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            findings.add_violation(key, f"{pair!r}: expected [old passage, new passage]")
        elif (count := text.count(pair[0]) if pair[0] else 0) != 1:
            findings.add_violation(key, f"old passage {pair[0]!r} occurs {count} times; expected exactly once")
        else:
            text = text.replace(*pair)
    return text


def _parse_number(key: str, value: Any, minimum: int, findings: WorldFileViolationCollector) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and int(value) >= minimum:
        return int(value)
    findings.add_violation(key, f"{value!r}: expected an integer of {minimum} or more")
    return 0


def add_reference_and_duplicate_violations(data: WorldData, findings: WorldFileViolationCollector) -> None:
    """Add a violation for every dangling reference and every duplicate id or title."""
    for owner, key, problem in chain(
        _check_item_references(data), _check_references_from_articles(data), _check_category_parents_and_redirects(data)
    ):
        findings.add_violation(key, problem, owner)


ReferenceProblems = Iterator[tuple[str, str, str]]
"""(described thing, position in its file, what was found and expected)."""


def _check_item_references(data: WorldData) -> ReferenceProblems:
    titles: dict[str, str] = {}
    for qid, item in data.items.items():
        for statement in item.statements:
            for value in (statement.value, *(qualifier.value for qualifier in statement.qualifiers)):
                unit = value.unit if isinstance(value, QuantityValue) else None
                named = value.qid if isinstance(value, ItemValue) else unit
                if named and named not in data.items:
                    yield f"item {qid}", f"{qid}.{statement.pid}", f"{named} is not described in entities/"
        if item.title and titles.setdefault(item.title, qid) != qid:
            yield f"item {qid}", f"{qid}.wiki", f"{titles[item.title]} has the article {item.title!r} too"


def _check_references_from_articles(data: WorldData) -> ReferenceProblems:
    owners: dict[str, list[str]] = defaultdict(list)
    for title, article in data.articles.items():
        owner, key = f"article {title}", f"{title}.qid"
        for number in (f"pageid {article.pageid}", *(f"revid {each.revid}" for each in article.revisions)):
            owners[number].append(title)
        for category in (each for each in article.categories if each not in data.categories):
            yield owner, title, f"category {category!r} is not in the tree of categories.yaml"
        named = data.items.get(article.qid or "")
        if not article.qid:
            if title in data.items_by_title:
                yield owner, key, f"missing; expected {data.items_by_title[title].qid}, which has `wiki: {title}`"
        elif named is None:
            yield owner, key, f"{article.qid} is not described in entities/"
        elif named.title != title:
            yield owner, key, f"{article.qid} has `wiki: {named.title}`; expected `wiki: {title}`"
    for number, titles in owners.items():
        for title in titles[1:]:
            yield f"article {title}", title, f"{titles[0]!r} uses {number} already"


def _check_category_parents_and_redirects(data: WorldData) -> ReferenceProblems:
    for name, parents in data.categories.items():
        for parent in parents:
            if parent not in data.categories:
                yield f"category {name}", name, f"parent category {parent!r} is not in the tree"
        # longer cycles are allowed: real category trees have them, and clients must terminate
        if name in parents:
            yield f"category {name}", name, "is its own parent category"
    for source, target in data.redirects.items():
        title = target.partition("#")[0]
        if source in data.articles:
            yield f"redirect {source}", source, "is a redirect and an article; expected one of them"
        if title not in data.articles and title not in data.redirects:
            yield f"redirect {source}", source, f"leads to {title!r}, which is neither an article nor a redirect"
