"""Tables of licences (per source) and of attribution (per page), as CC BY-SA requires."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping

from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN, format_wikipedia_name
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE
from factmill.tasks.release.contents import Release
from factmill.tasks.release.core.licences import get_licence, split_licence_expression

_LICENCE_COLUMNS = ("source", "what", "licence", "licence_name", "licence_url", "rows", "note", CANARY_COLUMN)
_ATTRIBUTION_COLUMNS = ("title", "revision", "url", "licence", "licence_url", "rows", "note", CANARY_COLUMN)
_EMBEDDED_PAGE_NOTE = "written for factmill's embedded world; the URL is no page of Wikipedia"

_EMBEDDED_ROWS_NOTE = "written for factmill's embedded world, in the format of the paper's sources"


def render_licences_csv(release: Release) -> str:
    """Return LICENSES.csv: a line per source and licence, with the number of rows under it."""
    return _format_csv_with_canary(_LICENCE_COLUMNS, _iterate_licence_lines(release), release)


def render_attribution_csv(release: Release) -> str:
    """Return ATTRIBUTION.csv: the Wikipedia pages whose text or facts rows carry; title, revision, URL, licence."""
    licence = release.pages_licence
    return _format_csv_with_canary(
        _ATTRIBUTION_COLUMNS,
        (
            {
                "title": page.title,
                "revision": page.revision,
                "url": page.url,
                "licence": licence.id,
                "licence_url": licence.url,
                "rows": rows,
                "note": _EMBEDDED_PAGE_NOTE
                if release.is_from_embedded_world
                else "by its editors, whom the page's history names",
            }
            for page, rows in release.pages.items()
        ),
        release,
    )


def _iterate_licence_lines(release: Release) -> Iterator[Mapping[str, object]]:
    for line in release.sources:
        for part in split_licence_expression(line.licence):
            note = (
                _EMBEDDED_ROWS_NOTE
                if release.is_from_embedded_files and part == EMBEDDED_WORLD_LICENCE
                else get_licence(part).refusal_reason
            )
            yield _make_licence_line(line.source, "questions and answers", part, line.rows, note)
    if release.forms.has_facts:
        note = "no attribution required"
        what = "facts and labels" if release.is_from_embedded_world else "facts, labels and descriptions"
        yield _make_licence_line("Wikidata", what, "CC0-1.0", release.rows, note)
    if release.pages:
        note = "pages and revisions: ATTRIBUTION.csv"
        yield _make_licence_line(
            format_wikipedia_name(release.build.lock),
            "texts of pages, and facts from them",
            release.pages_licence.id,
            release.rows,
            note,
        )


def _make_licence_line(source: str, what: str, licence_id: str, rows: int, note: str) -> Mapping[str, object]:
    licence = get_licence(licence_id)
    names = {"licence": licence.id, "licence_name": licence.name, "licence_url": licence.url}
    return {"source": source, "what": what, **names, "rows": rows, "note": note}


def _format_csv_with_canary(columns: Iterable[str], lines: Iterable[Mapping[str, object]], release: Release) -> str:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, tuple(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**line, CANARY_COLUMN: release.forms.canary_line} for line in lines)
    return file.getvalue()
