"""README.md and CITATION.cff of a release: the dataset card, and the citation of the build and its paper."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import yaml
from markupsafe import Markup

from factmill.tasks.core.evaluation.judge_cards import format_card_summary
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.prompts import format_prompt_digests
from factmill.tasks.core.publishing.release_spec import CANARY_COLUMN, PaperCitation, PaperComparisons
from factmill.tasks.core.rows import EMBEDDED_WORLD_SOURCE, NO_LICENCE_STATED
from factmill.tasks.errors import BuildFormatTooOld
from factmill.tasks.evaluation.definition import BUILT_IN_MODELS
from factmill.tasks.release.contents import Release, ReleaseDatasetConfig
from factmill.tasks.release.core.authorship import Author, escape_bibtex
from factmill.tasks.release.core.licences import KNOWN_LICENCES
from factmill.tasks.release.hub_metadata import make_card_metadata
from factmill.tasks.release.licence_tables import list_licence_lines
from factmill.tasks.reports.formatting import (
    MAX_NAME_CHARACTERS,
    escape_markdown_value,
    format_evidence_epoch,
    markdown_environment,
    render_markdown_template,
    shorten_line,
)
from factmill.tasks.reports.page_frame import format_bibtex, format_build_command, format_own_prompts_folder_name

_MAX_EXAMPLE_CHARACTERS = 600
"""Maximum characters of a text in an example row."""
_MAX_EXAMPLES = 2
_MAX_HEADLINE_RESULTS = 6
"""Maximum figures of models in the table at the start of the card."""


def render_dataset_card(release: Release) -> str:
    """Return the text of README.md."""
    head = yaml.safe_dump(make_card_metadata(release), sort_keys=False, allow_unicode=True, width=120)
    markdown_environment().filters.update(
        figure=_format_number_as_markup, cell=_escape_markdown_for_table_cell, name=_shorten_name
    )
    return f"---\n{head}---\n{_render_card_body(release)}"


def _render_card_body(release: Release) -> str:
    report, forms = release.build.report, release.forms
    first = release.configs[0].splits[0]
    shown = {metric.model for metric in list_overall_metrics(release)}
    parquet = next((file.path for file in first.files if file.format == "parquet"), "")
    return render_markdown_template(
        "dataset.md",
        release=release,
        report=report,
        name=release.benchmark.name,
        card=forms.card,
        paper=forms.paper,
        parquet=parquet,
        read=max((each.rows for each in release.audit), default=0),
        united=sum(stage.get("merged", 0) for stage in release.stages),
        ends=list_headline_metrics_lowest_first(release),
        built_in="; ".join(
            f"{model}: {description.partition(':')[0]}"
            for model, description in BUILT_IN_MODELS.items()
            if model in shown
        ),
        alike=group_configs_by_table(release.configs),
        title_of_rows=_format_published_rows_title(release),
        only={config.name: _format_notes_on_splits_with_column(config) for config in release.configs},
        labels=forms.card.part_labels(),
        own_world=EMBEDDED_WORLD_SOURCE,
        own_prompts=format_prompt_digests(release.build.own_prompt_digests),
        rebuild_command=format_build_command(
            ["build", release.benchmark.name], release.benchmark.params, release.build
        ),
        prompts_folder=format_own_prompts_folder_name(release.build),
        own_example=next(iter(release.build.own_prompts), ""),
        judge=release.build.lock["models"].get("judge", ""),
        models=sorted(release.build.lock["models"].items()),
        examples=[
            json.dumps({name: _shorten_value(value) for name, value in row.items()}, ensure_ascii=False, indent=1)
            for row in release.examples[:_MAX_EXAMPLES]
        ],
        types={
            config.name: {field.name: _format_column_type(field.type) for field in config.schema}
            for config in release.configs
        },
        parts=count_main_rows_by_group_column(release),
        paper_comparison=compare_build_with_paper(release),
        judge_lines=[format_card_summary(card, card.identity) for card in release.judge_cards],
        decided=sorted(Counter(each.decision for each in release.decisions).items()),
        metrics=list_overall_metrics(release),
        measured=sorted(shown),
        measured_on=_format_measured_builds(release),
        bibtex=format_paper_and_release_bibtex(release),
        no_author=NO_AUTHOR_GIVEN,
        licence_lines=list_licence_lines(release),
        evidence_epoch=format_evidence_epoch(release.build.lock),
    )


def count_main_rows_by_group_column(release: Release) -> list[tuple[str, int]]:
    """Return (part, number of rows) for the parts that the main table's rows fall into, sorted by name."""
    tables = {*release.forms.configs[0].splits.values()}
    counts: Counter[str] = Counter()
    for config in release.configs:
        for split in config.splits:
            if split.table in tables:
                names = split.rows.column_names
                by = (
                    split.rows[release.benchmark.group_column].to_pylist()
                    if release.benchmark.group_column in names
                    else []
                )
                counts.update(shorten_line(str(each), MAX_NAME_CHARACTERS) for each in by)
    return sorted(counts.items())


def group_configs_by_table(configs: Sequence[ReleaseDatasetConfig]) -> list[tuple[list[str], ReleaseDatasetConfig]]:
    """Group configs of the same tables, which share their columns: the names of each group, and one of its configs."""
    groups: dict[tuple[str, ...], tuple[list[str], ReleaseDatasetConfig]] = {}
    for config in configs:
        groups.setdefault(tuple(split.table for split in config.splits), ([], config))[0].append(config.name)
    return list(groups.values())


def list_headline_metrics_lowest_first(release: Release) -> list[tuple[str, float, int]]:
    """Return the models' values of the headline metric, lowest first: model (with setting if several), value, scored items.

    Of several evaluations of a model, the one with the most scored items counts, of these the newest.
    """
    found = [each for each in list_overall_metrics(release) if each.metric == release.forms.card.headline_metric]
    several = len({each.setting for each in found}) > 1
    named = {
        f"{each.model} ({each.setting})" if several else each.model: (each.value, each.n)
        for each in sorted(found, key=lambda each: each.n)
        if each.value is not None
    }
    ends = [(model, value, n) for model, (value, n) in named.items()]
    return sorted(ends, key=lambda each: (each[1], each[0]))[:_MAX_HEADLINE_RESULTS]


def compare_build_with_paper(release: Release) -> PaperComparisons:
    """Return figures of the build together with the paper's."""
    if release.shape_comparison:
        return {
            name.replace("_", " "): (each["here"], each["paper"]) for name, each in release.shape_comparison.items()
        }
    try:
        return release.forms.card.compare_with_paper(release.build.report["facts"], release.rows)
    except KeyError as error:
        raise BuildFormatTooOld(
            f"{release.build.build_id} was made by an earlier version of factmill: its report lacks {error}; rebuild it with the "
            "same command (recorded replies are reused)"
        ) from error


def list_overall_metrics(release: Release) -> list[EvaluationMetric]:
    """Return the models' metrics over the complete build, without groups and without missing values."""
    every = [metric for measured in release.evaluations for metric in measured.metrics]
    return [metric for metric in every if not metric.group_by and metric.value is not None]


def _format_measured_builds(release: Release) -> str:
    """Return what the models were measured on: this build, or others with its content."""
    here = release.build.build_id
    others = {str(each.record.report["facts"].get("measured", here)) for each in release.evaluations} - {here}
    return f"a build with the same rows ({', '.join(sorted(others))})" if others else "this build"


def _format_published_rows_title(release: Release) -> str:
    names, first = group_configs_by_table(release.configs)[0]
    return first.title.rpartition(": ")[0] if len(names) > 1 else first.title


def _format_notes_on_splits_with_column(config: ReleaseDatasetConfig) -> dict[str, str]:
    """Return column → note on the splits that have it, for columns that some split lacks."""
    notes = {}
    for column in config.docs:
        having = [split.name for split in config.splits if column in (*split.own_columns, CANARY_COLUMN)]
        if len(having) < len(config.splits):
            notes[column] = f" Only in {', '.join(having)}, null elsewhere."
    return notes


def _shorten_value(value: Any) -> Any:
    """Return a value of an example row with long texts and lists truncated."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_EXAMPLE_CHARACTERS else f"{value[:_MAX_EXAMPLE_CHARACTERS]} […]"
    if isinstance(value, Sequence):
        return [_shorten_value(each) for each in value[:3]] + ([f"… {len(value) - 3} more"] if len(value) > 3 else [])
    if isinstance(value, Mapping):
        return {name: _shorten_value(each) for name, each in value.items()}
    return value


def _format_column_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_format_column_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"({', '.join(field.name for field in kind)})"
    return {"double": "float"}.get(str(kind), str(kind)).removesuffix("64")


def _format_number_as_markup(value: Any) -> Markup:
    if value is None:
        return Markup("–")
    if isinstance(value, Mapping):
        return Markup(", ").join(
            Markup("{} {}").format(Markup(escape_markdown_value(name)), _format_number_as_markup(each))
            for name, each in value.items()
        ) or Markup("–")
    if isinstance(value, float):
        return Markup(f"{value:,.3f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}")
    return Markup(f"{value:,}") if isinstance(value, int) else Markup(escape_markdown_value(value))


def _escape_markdown_for_table_cell(markdown: str) -> Markup:
    """Escape a trusted Markdown description for a table cell."""
    return Markup(" ".join(markdown.split()).replace("|", "\\|").replace("<", "&lt;"))


def _shorten_name(name: str) -> str:
    return shorten_line(name, MAX_NAME_CHARACTERS)


def format_paper_and_release_bibtex(release: Release) -> str:
    """Return the BibTeX entries of the paper, if there is one, and of the release."""
    return format_bibtex(
        release.benchmark.name,
        escape_bibtex(release.title),
        f"build {release.build.build_id}",
        release.build.published_at.year,
        release.forms.paper,
        " and ".join(author.bibtex for author in release.options.authors),
        release.options.doi,
    )


_CFF_LICENCE_IDS = frozenset(KNOWN_LICENCES) - {NO_LICENCE_STATED, "CC-BY"}
"""Licence ids that CITATION.cff allows (SPDX)."""
NO_AUTHOR_GIVEN = "No author was named for this release, so the program stands there: factmill release … --author 'Family, Given' --doi 10.…"
"""Note next to a citation that lacks its authors."""
_PROJECT_URL = "https://github.com/factmill/factmill"


def render_citation_cff(release: Release) -> str:
    """Return the text of CITATION.cff."""
    build = release.build
    licences = [licence.id for licence in release.licences]
    content: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "Cite this build, and the paper whose benchmark it rebuilds.",
        "type": "dataset",
        "title": f"{release.title} ({build.build_id})",
        "abstract": " ".join(filter(None, [release.notice, release.content])),
        "authors": [_make_cff_author(author) for author in release.options.authors] or [{"name": "factmill"}],
        "version": build.build_id,
        "date-released": f"{build.published_at:%Y-%m-%d}",
        **({"license": licences if len(licences) > 1 else licences[0]} if {*licences} <= _CFF_LICENCE_IDS else {}),
        "repository-code": _PROJECT_URL,
        **({"doi": release.options.doi} if release.options.doi else {}),
        "identifiers": [
            {"type": "other", "value": f"sha256:{build.content_digest}", "description": "Content of the build"},
            {"type": "other", "value": f"sha256:{build.lock_digest}", "description": "Manifest of the build"},
        ],
        "keywords": ["benchmark", "factuality", "language models"],
        **({"references": [_make_cff_paper_reference(release.forms.paper)]} if release.forms.paper else {}),
    }
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    remark = "" if release.options.authors else f"# {NO_AUTHOR_GIVEN}\n"
    return f"# {release.forms.canary_line}\n{remark}{text}"


def _make_cff_author(author: Author) -> dict[str, str]:
    if author.family:
        return {"family-names": author.family, "given-names": author.given}
    return {"name": author.name}


def _make_cff_paper_reference(paper: PaperCitation) -> dict[str, Any]:
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
