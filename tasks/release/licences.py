"""Tables of licences (per source) and of attribution (per page), as CC BY-SA requires."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping

from factmill.tasks.core.publishing.release_forms import CANARY, name_wiki
from factmill.tasks.core.rows import OWN_LICENCE
from factmill.tasks.release.contents import Release
from factmill.tasks.release.core.licences import describe_licence, split_licences

_LICENCE_COLUMNS = ("source", "what", "licence", "licence_name", "licence_url", "rows", "note", CANARY)
_PAGE_COLUMNS = ("title", "revision", "url", "licence", "licence_url", "rows", "note", CANARY)
_OWN_PAGE = "written for factmill's embedded world; the address leads to no page of Wikipedia"

_OWN_ROWS = "written for factmill's embedded world, in the forms that the paper's sources have"


def render_licences(release: Release) -> str:
    """Return LICENSES.csv: a line per source and licence, with the number of rows under it."""
    return _write(_LICENCE_COLUMNS, _list_licences(release), release)


def render_attribution(release: Release) -> str:
    """Return ATTRIBUTION.csv: the Wikipedia pages whose text or facts rows carry; title, revision, URL, licence."""
    licence = release.pages_licence
    return _write(
        _PAGE_COLUMNS,
        (
            {
                "title": page.title,
                "revision": page.revision,
                "url": page.url,
                "licence": licence.id,
                "licence_url": licence.url,
                "rows": rows,
                "note": _OWN_PAGE if release.is_own_world else "by its editors, who are named in the page's history",
            }
            for page, rows in release.pages.items()
        ),
        release,
    )


def _list_licences(release: Release) -> Iterator[Mapping[str, object]]:
    for line in release.sources:
        for part in split_licences(line.licence):
            note = _OWN_ROWS if release.is_own_source and part == OWN_LICENCE else describe_licence(part).why_not
            yield _tell(line.source, "questions and answers", part, line.rows, note)
    if release.forms.has_facts:
        note = "no attribution is asked for"
        what = "facts and labels" if release.is_own_world else "facts, labels and descriptions"
        yield _tell("Wikidata", what, "CC0-1.0", release.rows, note)
    if release.pages:
        note = "pages and revisions: ATTRIBUTION.csv"
        yield _tell(
            name_wiki(release.build.lock),
            "texts of pages, and facts from them",
            release.pages_licence.id,
            release.rows,
            note,
        )


def _tell(source: str, what: str, licence_id: str, rows: int, note: str) -> Mapping[str, object]:
    licence = describe_licence(licence_id)
    names = {"licence": licence.id, "licence_name": licence.name, "licence_url": licence.url}
    return {"source": source, "what": what, **names, "rows": rows, "note": note}


def _write(columns: Iterable[str], lines: Iterable[Mapping[str, object]], release: Release) -> str:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, tuple(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**line, CANARY: release.forms.canary_line} for line in lines)
    return file.getvalue()
