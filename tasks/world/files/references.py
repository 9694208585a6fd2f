"""Do the world's files agree with each other: every id, title and category that is named must be described."""

from collections import defaultdict
from collections.abc import Iterable

from tasks.world.data import Statement, WorldData
from tasks.world.files.findings import Findings
from tasks.world.files.values import ItemValue, QuantityValue, Value


def check_references(data: WorldData, findings: Findings) -> None:
    """Note every reference that leads nowhere, and every id or title that is used twice."""
    _check_items(data, findings)
    _check_articles(data, findings)
    _check_categories(data, findings)
    _check_redirects(data, findings)


def _check_items(data: WorldData, findings: Findings) -> None:
    titles: dict[str, str] = {}
    for qid, item in data.items.items():
        for statement in item.statements:
            for named in _named_items(statement):
                if named not in data.items:
                    findings.add_about(f"item {qid}", f"{qid}.{statement.pid}", f"{named} is described nowhere")
        if item.title and titles.setdefault(item.title, qid) != qid:
            findings.add_about(f"item {qid}", f"{qid}.wiki", f"{titles[item.title]} has the article {item.title!r} too")


def _check_articles(data: WorldData, findings: Findings) -> None:
    owners: dict[str, list[str]] = defaultdict(list)
    for title, article in data.articles.items():
        owner = f"article {title}"
        owners[f"pageid {article.pageid}"].append(title)
        for revision in article.revisions:
            owners[f"revid {revision.revid}"].append(title)
        for category in article.categories:
            if category not in data.categories:
                findings.add_about(owner, title, f"category {category!r} is not in the tree of categories.yaml")
        if not article.qid:
            if title in data.items_by_title:
                qid = data.items_by_title[title].qid
                findings.add_about(owner, f"{title}.qid", f"missing; {qid} names this article as its own")
        elif article.qid not in data.items:
            findings.add_about(owner, f"{title}.qid", f"{article.qid} is described nowhere in entities/")
        elif data.items[article.qid].title != title:
            named = data.items[article.qid].title
            findings.add_about(owner, f"{title}.qid", f"{article.qid} says `wiki: {named}`; expected `wiki: {title}`")
    for number, titles in owners.items():
        for title in titles[1:]:
            findings.add_about(f"article {title}", title, f"{number} is used by {titles[0]!r} already")


def _check_categories(data: WorldData, findings: Findings) -> None:
    for name, parents in data.categories.items():
        for parent in parents:
            if parent not in data.categories:
                findings.add_about(f"category {name}", name, f"parent category {parent!r} is not in the tree")
        # longer circles are let pass: real category trees have them, and a client must come to an end
        if name in parents:
            findings.add_about(f"category {name}", name, "is its own parent category")


def _check_redirects(data: WorldData, findings: Findings) -> None:
    for source, target in data.redirects.items():
        owner = f"redirect {source}"
        if source in data.articles:
            findings.add_about(owner, source, "is a redirect and an article; expected one of them")
        title = target.partition("#")[0]
        if title not in data.articles and title not in data.redirects:
            findings.add_about(owner, source, f"leads to {title!r}, which is no article")


def _named_items(statement: Statement) -> Iterable[str]:
    for value in (statement.value, *(qualifier.value for qualifier in statement.qualifiers)):
        yield from _items_in(value)


def _items_in(value: Value) -> Iterable[str]:
    if isinstance(value, ItemValue):
        yield value.qid
    elif isinstance(value, QuantityValue) and value.unit:
        yield value.unit
