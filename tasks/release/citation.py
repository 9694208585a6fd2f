"""CITATION.cff: how the build is cited, and the paper whose benchmark it rebuilds (Citation File Format 1.2.0)."""

from typing import Any

import yaml

from tasks.core.publishing.release_forms import Paper
from tasks.core.rows import NONE_STATED
from tasks.release.contents import Release
from tasks.release.core.licences import LICENCES

_SPDX = frozenset(LICENCES) - {NONE_STATED, "CC-BY"}
"""Ids that the format knows."""
_HOME = "https://github.com/factmill/factmill"


def render_citation(release: Release) -> str:
    """Return the text of CITATION.cff."""
    build, title = release.build, release.benchmark.title
    name, _, about = title.partition(":")
    licences = [licence.id for licence in release.licences]
    told: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "Cite this build, and the paper whose benchmark it rebuilds.",
        "type": "dataset",
        "title": f"{name}, rebuilt by factmill ({build.build_id})",
        "abstract": " ".join(filter(None, [release.notice, f"{about.strip().capitalize()}."])),
        "authors": [{"name": "factmill"}],
        "version": build.build_id,
        "date-released": f"{build.published_at:%Y-%m-%d}",
        **({"license": licences if len(licences) > 1 else licences[0]} if {*licences} <= _SPDX else {}),
        "repository-code": _HOME,
        "identifiers": [
            {"type": "other", "value": f"sha256:{build.content_digest}", "description": "Content of the build"},
            {"type": "other", "value": f"sha256:{build.lock_digest}", "description": "Lock of the build"},
        ],
        "keywords": ["benchmark", "factuality", "language models"],
        "references": [_describe_paper(release.forms.paper)],
    }
    text = yaml.safe_dump(told, sort_keys=False, allow_unicode=True, width=120)
    return f"# {release.forms.canary_line}\n{text}"


def _describe_paper(paper: Paper) -> dict[str, Any]:
    authors = [{"given-names": given, "family-names": family} for given, family in paper.authors]
    venue = {"collection-title": paper.venue} if paper.venue else {}
    return {
        "type": "conference-paper" if paper.venue else "article",
        "title": paper.title,
        "authors": authors,
        "year": paper.year,
        **venue,
        "url": paper.url,
        "identifiers": [{"type": "doi", "value": f"10.48550/arXiv.{paper.arxiv}"}],
    }
