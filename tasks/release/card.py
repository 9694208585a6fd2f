"""README.md and CITATION.cff of a release: the dataset card, and the citation of the build and its paper."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import yaml
from markupsafe import Markup

from factmill.tasks.core.evaluation.judge_cards import describe_card
from factmill.tasks.core.evaluation.rows import EvaluationMetric
from factmill.tasks.core.publishing.release_forms import CANARY, Beside, Paper
from factmill.tasks.core.rows import NONE_STATED, OWN_WORLD
from factmill.tasks.errors import OldBuild
from factmill.tasks.evaluation.record import BUILT_IN
from factmill.tasks.release.contents import Config, Release
from factmill.tasks.release.core.licences import LICENCES
from factmill.tasks.reports.texts import (
    LONGEST_NAME,
    escape_markdown,
    fill_markdown,
    markdown_environment,
    shorten_line,
)

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LONG = 600
"""Maximum characters of a text in an example row."""
_MOST_EXAMPLES = 2
_MOST_ENDS = 6
"""Maximum figures of models in the table at the start of the card."""


def render_card(release: Release) -> str:
    """Return the text of README.md."""
    head = yaml.safe_dump(describe_head(release), sort_keys=False, allow_unicode=True, width=120)
    markdown_environment().filters.update(figure=_format_figure, cell=_format_cell, name=_format_name)
    return f"---\n{head}---\n{_fill(release)}"


def describe_head(release: Release) -> dict[str, Any]:
    """Return the YAML metadata of the card: licence, languages, configs with their files, columns and sizes."""
    size = next((name for most, name in _SIZES if release.rows < most), "n>1M")
    hub = list(dict.fromkeys(licence.hub_id for licence in release.licences))
    return {
        "pretty_name": f"{release.name}, rebuilt by factmill",
        "license": hub if len(hub) > 1 else hub[0],
        "language": list(release.forms.languages),
        "multilinguality": "translation" if len(release.forms.languages) > 1 else "monolingual",
        "task_categories": [release.forms.card.task],
        "size_categories": [size],
        "tags": ["factuality", "hallucination", "wikidata", "wikipedia", "factmill"],
        "configs": release.hub_configs,
        "dataset_info": [
            _describe_config(config)
            for config in release.configs
            if any(split.rows.num_rows for split in config.splits)
        ],
    }


def list_features(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return columns and types in the format of a dataset card's metadata."""
    return [{"name": field.name, **_describe_type(field.type)} for field in schema]


def _describe_type(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        inner = _describe_type(kind.value_type)
        return {"list": inner.get("dtype") or inner.get("struct") or inner}
    if pa.types.is_struct(kind):
        return {"struct": list_features(pa.schema(list(kind)))}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind))}


def _describe_config(config: Config) -> dict[str, Any]:
    # `datasets` expects only splits that have rows
    filled = [split for split in config.splits if split.rows.num_rows]
    sizes = {split.name: sum(file.size for file in split.files if file.format == "parquet") for split in filled}
    return {
        "config_name": config.name,
        "features": list_features(config.schema),
        "splits": [
            {"name": split.name, "num_bytes": split.rows.nbytes, "num_examples": split.rows.num_rows}
            for split in filled
        ],
        "download_size": sum(sizes.values()),
        "dataset_size": sum(split.rows.nbytes for split in filled),
    }


def _fill(release: Release) -> str:
    report, forms = release.build.report, release.forms
    first = release.configs[0].splits[0]
    shown = {metric.model for metric in list_metrics(release)}
    parquet = next((file.path for file in first.files if file.format == "parquet"), "")
    return fill_markdown(
        "dataset.md",
        release=release,
        report=report,
        name=release.benchmark.name,
        card=forms.card,
        paper=forms.paper,
        parquet=parquet,
        read=max((each.rows for each in release.audit), default=0),
        united=sum(stage.get("merged", 0) for stage in release.stages),
        ends=list_ends(release),
        built_in="; ".join(f"{model}: {told.partition(':')[0]}" for model, told in BUILT_IN.items() if model in shown),
        alike=group_alike(release.configs),
        title_of_rows=_title_rows(release),
        only={config.name: _tell_splits(config) for config in release.configs},
        labels=forms.card.part_labels(),
        own_world=OWN_WORLD,
        judge=release.build.lock["models"].get("judge", ""),
        models=sorted(release.build.lock["models"].items()),
        examples=[_format_example(row) for row in release.examples[:_MOST_EXAMPLES]],
        types={
            config.name: {field.name: _name_type(field.type) for field in config.schema} for config in release.configs
        },
        parts=count_parts(release),
        beside=find_beside(release),
        judge_lines=[describe_card(card, card.identity) for card in release.judge_cards],
        decided=sorted(Counter(each.decision for each in release.decisions).items()),
        metrics=list_metrics(release),
        measured=sorted(shown),
        bibtex=_format_bibtex(release),
    )


def count_parts(release: Release) -> list[tuple[str, int]]:
    """Return (part, number of rows) for the parts that the main table's rows fall into, sorted by name."""
    tables = {*release.forms.configs[0].splits.values()}
    counts: Counter[str] = Counter()
    for config in release.configs:
        for split in config.splits:
            if split.table in tables:
                names = split.rows.column_names
                by = split.rows[release.benchmark.part].to_pylist() if release.benchmark.part in names else []
                counts.update(shorten_line(str(each), LONGEST_NAME) for each in by)
    return sorted(counts.items())


def group_alike(configs: Sequence[Config]) -> list[tuple[list[str], Config]]:
    """Group configs of the same tables, which share their columns: the names of each group, and one of its configs."""
    groups: dict[tuple[str, ...], tuple[list[str], Config]] = {}
    for config in configs:
        groups.setdefault(tuple(split.table for split in config.splits), ([], config))[0].append(config.name)
    return list(groups.values())


def list_ends(release: Release) -> list[tuple[str, float]]:
    """Return the models' values of the headline metric, lowest first: model (with setting if several), value."""
    found = [each for each in list_metrics(release) if each.metric == release.forms.card.headline]
    several = len({each.setting for each in found}) > 1
    named = {
        f"{each.model} ({each.setting})" if several else each.model: each.value
        for each in found
        if each.value is not None
    }
    return sorted(named.items(), key=lambda each: (each[1], each[0]))[:_MOST_ENDS]


def find_beside(release: Release) -> Beside:
    """Return figures of the build together with the paper's."""
    if release.shape:
        return {name.replace("_", " "): (each["here"], each["paper"]) for name, each in release.shape.items()}
    try:
        return release.forms.card.beside(release.build.report["facts"], release.rows)
    except KeyError as error:
        raise OldBuild(
            f"{release.build.build_id} was made by an earlier factmill: its report is without {error}; make it again with the "
            "same command (recorded replies are not asked for again)"
        ) from error


def list_metrics(release: Release) -> list[EvaluationMetric]:
    """Return the models' metrics over the whole build, without groups and without missing values."""
    every = [metric for measured in release.evaluations for metric in measured.metrics]
    return [metric for metric in every if not metric.group_by and metric.value is not None]


def _title_rows(release: Release) -> str:
    names, first = group_alike(release.configs)[0]
    return first.title.rpartition(": ")[0] if len(names) > 1 else first.title


def _tell_splits(config: Config) -> dict[str, str]:
    """Return column → note on the splits that have it, for columns that some split lacks."""
    told = {}
    for column in config.docs:
        having = [split.name for split in config.splits if column in (*split.own_columns, CANARY)]
        if len(having) < len(config.splits):
            told[column] = f" In {', '.join(having)} alone, null elsewhere."
    return told


def _format_example(row: Mapping[str, Any]) -> str:
    return json.dumps({name: _shorten(value) for name, value in row.items()}, ensure_ascii=False, indent=1)


def _shorten(value: Any) -> Any:
    """Return a value of an example row with long texts and lists truncated."""
    if isinstance(value, str):
        return value if len(value) <= _LONG else f"{value[:_LONG]} […]"
    if isinstance(value, Sequence):
        return [_shorten(each) for each in value[:3]] + ([f"… {len(value) - 3} more"] if len(value) > 3 else [])
    if isinstance(value, Mapping):
        return {name: _shorten(each) for name, each in value.items()}
    return value


def _name_type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_name_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        return f"({', '.join(field.name for field in kind)})"
    return {"double": "float"}.get(str(kind), str(kind)).removesuffix("64")


def _format_figure(value: Any) -> Markup:
    if value is None:
        return Markup("–")
    if isinstance(value, float):
        return Markup(f"{value:,.3f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}")
    return Markup(f"{value:,}") if isinstance(value, int) else Markup(escape_markdown(value))


def _format_cell(told: str) -> Markup:
    """Escape a trusted Markdown description for a table cell."""
    return Markup(" ".join(told.split()).replace("|", "\\|").replace("<", "&lt;"))


def _format_name(name: str) -> str:
    return shorten_line(name, LONGEST_NAME)


def _format_bibtex(release: Release) -> str:
    name, paper = release.benchmark.name, release.forms.paper
    of_build = (
        f"@misc{{{name}_factmill,\n  title = {{{release.name}, rebuilt by factmill}},\n"
        f"  note = {{build {release.build.build_id}}},\n  year = {{{release.build.published_at:%Y}}}\n}}"
    )
    return f"{_format_paper(name, paper)}\n{of_build}" if paper else of_build


def _format_paper(name: str, paper: Paper) -> str:
    authors = " and ".join(f"{family}, {given}" for given, family in paper.authors)
    where = f"  booktitle = {{{paper.venue}}},\n" if paper.venue else f"  eprint = {{{paper.arxiv}}},\n"
    return (
        f"@{'inproceedings' if paper.venue else 'misc'}{{{name}{paper.year},\n  title = {{{paper.title}}},\n"
        f"  author = {{{authors}}},\n{where}  year = {{{paper.year}}},\n  url = {{{paper.url}}}\n}}"
    )


_SPDX = frozenset(LICENCES) - {NONE_STATED, "CC-BY"}
"""Licence ids that CITATION.cff allows (SPDX)."""
_HOME = "https://github.com/factmill/factmill"


def render_citation(release: Release) -> str:
    """Return the text of CITATION.cff."""
    build = release.build
    about = release.benchmark.title.partition(":")[2].strip()
    licences = [licence.id for licence in release.licences]
    told: dict[str, Any] = {
        "cff-version": "1.2.0",
        "message": "Cite this build, and the paper whose benchmark it rebuilds.",
        "type": "dataset",
        "title": f"{release.name}, rebuilt by factmill ({build.build_id})",
        "abstract": " ".join(filter(None, [release.notice, f"{about[:1].upper()}{about[1:]}."])),
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
        **({"references": [_describe_paper(release.forms.paper)]} if release.forms.paper else {}),
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
