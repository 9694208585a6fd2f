"""Tables of licences (per source) and of attribution (per page), as CC BY-SA requires."""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN, format_wikipedia_name
from factmill.tasks.core.rows import EMBEDDED_WORLD_LICENCE, NO_LICENCE_STATED
from factmill.tasks.release.contents import Release
from factmill.tasks.release.core.licences import Licence, get_known_or_make_refused_licence, split_licence_expression

_LICENCE_COLUMNS = ("source", "what", "licence", "licence_name", "licence_url", "rows", "note", CANARY_COLUMN)
_ATTRIBUTION_COLUMNS = ("title", "revision", "url", "licence", "licence_url", "rows", "note", CANARY_COLUMN)
_EMBEDDED_PAGE_NOTE = "written for factmill's embedded world; the URL is no page of Wikipedia"

_EMBEDDED_ROWS_NOTE = "written for factmill's embedded world, in the format of the paper's sources"


def render_licences_csv(release: Release) -> str:
    """Return LICENSES.csv: a line per source and licence, with the number of rows under it."""
    lines = (
        {
            "source": line.source,
            "what": line.what,
            "licence": line.licence.id,
            "licence_name": line.licence.name,
            "licence_url": line.licence.url,
            "rows": line.rows,
            "note": line.note,
        }
        for line in list_licence_lines(release)
    )
    return _format_csv_with_canary(_LICENCE_COLUMNS, lines, release)


def render_page_attribution_csv(release: Release) -> str:
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
                if release.has_embedded_pages
                else "by its editors, whom the page's history names",
            }
            for page, rows in release.pages.items()
        ),
        release,
    )


@dataclass(frozen=True, slots=True)
class LicenceLine:
    """The licence of one part of the rows: of the texts of a source, of facts, or of pages."""

    source: str
    what: str
    licence: Licence
    rows: int
    note: str


def list_licence_lines(release: Release) -> list[LicenceLine]:
    """Return which part of the rows has which licence: a line per source and licence, then Wikidata and Wikipedia."""
    lines = []
    for line in release.sources:
        for part in split_licence_expression(line.licence):
            licence = get_known_or_make_refused_licence(part)
            is_own = release.is_from_embedded_files and part == EMBEDDED_WORLD_LICENCE
            note = _EMBEDDED_ROWS_NOTE if is_own else licence.refusal_reason
            lines.append(LicenceLine(line.source, "questions and answers", licence, line.rows, note))
    own = release.build.lock["params"].get("own_source")
    if own and release.forms.own_list:
        note = "the licence of the list; that of the texts is stated apart"
        licence = get_known_or_make_refused_licence(own["licence"] or NO_LICENCE_STATED)
        lines.append(LicenceLine(release.user_source_name, release.forms.own_list, licence, release.rows, note))
    if release.forms.has_facts:
        what = "facts and labels" if "wikidata" in release.embedded_services else "facts, labels and descriptions"
        lines.append(
            LicenceLine(
                "Wikidata", what, get_known_or_make_refused_licence("CC0-1.0"), release.rows, "no attribution required"
            )
        )
    if release.pages:
        source, what = format_wikipedia_name(release.build.lock), "texts of pages, and facts from them"
        note = "pages and revisions: ATTRIBUTION.csv"
        lines.append(LicenceLine(source, what, release.pages_licence, release.rows, note))
    return lines


def _format_csv_with_canary(columns: Iterable[str], lines: Iterable[Mapping[str, object]], release: Release) -> str:
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, tuple(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows({**line, CANARY_COLUMN: release.forms.canary_line} for line in lines)
    return file.getvalue()
