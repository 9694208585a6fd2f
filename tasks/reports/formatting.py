"""Formats numbers, texts and values for reports, and renders templates with escaping for HTML or Markdown."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from factmill.tasks.assets import asset_path
from factmill.tasks.core.measures.report_figures import format_metric_words
from factmill.tasks.core.review import AUTO_POLICY_REVIEWER
from factmill.tasks.text import sanitize as markdown
from factmill.tasks.text.sanitize import escape_control_characters

MAX_NAME_CHARACTERS = 200
"""Maximum characters of a name from sources or models."""
_WIKIDATA_ID = re.compile(r"[PQ]\d+(-|$)")
_COMMAND_WORDS = re.compile(r"`([^`\n]+)`|(?<=\()(factmill [^()]+)(?=\))|(?<![\w-])(--[a-z][a-z-]*[a-z])")
"""What a text sets as code: words in backticks, a command in brackets, an option."""
_GROUPING_WORDS = {"lambda": "decay λ", "tau": "match threshold τ"}
_CODE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_CODE_BY_PLACE = re.compile(rf"(?:(?<=: )|^){_CODE.pattern}(?=: )|(?<=' ){_CODE.pattern}(?=;|$)")
_EMBEDDED_SERVICE = re.compile(r"embedded-[0-9a-f]{16}(?:/(\w+))?")
_SERVICE_NAMES = {"wikidata": "Wikidata", "wikipedia": "Wikipedia", "pageviews": "Pageviews", "dbpedia": "DBpedia"}
_CONTENT_DIGEST = re.compile(r"@[0-9a-f]{16}\S*$")
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")


def shorten_line(text: str, longest: int = 60) -> str:
    """Return a text on one line, cleaned, and cut to `longest` characters."""
    line = escape_control_characters(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def end_sentence(text: str) -> str:
    """Return a text with a full stop, unless its last character ends a sentence."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def format_row_balance(report: Mapping[str, Any]) -> str:
    """Return a build's row balance from its report: source rows = published + rejected + merged."""
    opened = f" + {report['opened']:,} expanded from them" if report.get("opened") else ""
    return (
        f"{report['inputs']:,} source rows{opened} = {report['rows']:,} published + {report['rejects']:,} rejected + "
        f"{report.get('merged', 0):,} merged"
    )


def format_evidence_epoch(manifest: Mapping[str, Any]) -> str:
    """Return as of which day a build reads articles, which may be another than its world's; empty if it reads none."""
    epoch = manifest.get("params", {}).get("epoch")
    return f"articles as of {str(epoch)[:10]}" if epoch else ""


def format_user_source_name(manifest: Mapping[str, Any]) -> str:
    """Return the name of the user's own source that a build was made from, or of its files; empty for other sources."""
    own = manifest["params"].get("own_source")
    if not own:
        return ""
    files = [name for found in manifest["sources"]["files"].values() for name, _ in found]
    return shorten_line(str(own.get("name") or ", ".join(files)), MAX_NAME_CHARACTERS if own.get("name") else 60)


def format_language_names(codes: Iterable[str]) -> str:
    """Return the English names of languages, given as ISO 639 or BCP 47 codes; a code that CLDR does not know stays."""
    from babel import Locale
    from babel.core import get_global

    names, aliases = Locale("en").languages, get_global("language_aliases")
    known = [str(names.get(aliases.get(code, code).replace("-", "_"), code)) for code in codes]
    return " and ".join(filter(None, [", ".join(known[:-1]), *known[-1:]]))


def format_number(value: float | None, signed: bool = False) -> str:
    """Format a number with three decimals, fewer if it is large; a dash for None."""
    if value is None:
        return "–"
    digits = 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:{'+' if signed else ''},.{digits}f}".replace("-", "−")


def format_interval(low: float | None, high: float | None, signed: bool = False) -> str:
    """Format both ends of an interval; a dash for None."""
    if low is None or high is None:
        return "–"
    return f"{format_number(low, signed)} to {format_number(high, signed)}"


def format_share(value: float | None) -> str:
    """Format a share in per cent with one decimal; never 100 % for less than all; a dash for None."""
    if value is None:
        return "–"
    return "100 %" if value == 1 else f"{min(value * 100, 99.9):.1f} %"


def format_ranks(ranks: tuple[int, int] | None) -> str:
    """Format a model's possible ranks; a dash for None."""
    return "–" if ranks is None else str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]}–{ranks[1]}"


def format_p_value(p: float | None) -> str:
    """Format a p-value with four decimals, of which 10,000 permutations give no less than 0.0001; a dash for None."""
    if p is None:
        return "–"
    return f"{p:.4f}" if p > 0.0001 else "≤ 0.0001"


def format_snake_case_as_words(name: str) -> str:
    """Return a snake_case name as words on one line, shortened if long; metrics have their own words."""
    return shorten_line(format_metric_words(name), MAX_NAME_CHARACTERS)


def format_grouping(column: str) -> str:
    """Return the name of a grouping column for readers."""
    return _GROUPING_WORDS.get(column) or format_snake_case_as_words(column)


def replace_cluster_term_in_note(note: str) -> str:
    """Return the note of a metric or comparison for readers, to whom no page explains what a cluster is."""
    return re.sub(r"\bcluster(s?)\b", r"group\1 of related questions", note)


def _mark_command_words_in_html(text: str) -> Markup:
    parts = _split_command_words(text)
    coded = (
        Markup("<code>{}</code>").format(
            Markup(" ").join(Markup('<span class="word">{}</span>').format(word) for word in part.split())
        )
        if is_code
        else escape(part)
        for part, is_code in parts
    )
    return Markup("").join(coded)


def _format_commands_as_markdown_code(text: str) -> Markup:
    parts = _split_command_words(text)
    return Markup(
        "".join(
            format_markdown_inline_code(part) if is_code else escape_markdown_value(part) for part, is_code in parts
        )
    )


def _split_command_words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, with whether they are code."""
    end = 0
    for found in _COMMAND_WORDS.finditer(text):
        yield text[end : found.start()], False
        yield next(filter(None, found.groups())), True
        end = found.end()
    yield text[end:], False


def format_group_value(value: str, column: str, labels: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Return a value of a grouping column for readers: `place of birth (P19)` if `labels` (column → value → label) has a
    label that does not contain it, else as words."""
    label = (labels or {}).get(column, {}).get(value)
    if not label:
        return format_snake_case_as_words(value)
    return label if value in label.split() else shorten_line(f"{label} ({value})", MAX_NAME_CHARACTERS)


def format_codes_as_words(detail: str, codes: Collection[str]) -> str:
    """Return a reject's or a flag's detail with the codes in it as words: these `codes`, and any before a colon or after a quotation; other
    names, such as of columns, and a model's reply stay as they are."""
    text, *reply = re.split(r"(?=the reply was: )", detail, maxsplit=1)
    text = _CODE_BY_PLACE.sub(lambda found: format_snake_case_as_words(found[0]), text)
    text = _CODE.sub(lambda found: format_snake_case_as_words(found[0]) if found[0] in codes else found[0], text)
    return text.replace(f"dropped by {AUTO_POLICY_REVIEWER}", "dropped by the rule for this flag") + "".join(reply)


def format_service_name(service: str) -> str:
    """Return the identity of a service or a model for readers, without the digest of its content."""
    if embedded := _EMBEDDED_SERVICE.fullmatch(service):
        name = embedded[1]
        return f"{_SERVICE_NAMES.get(name, name)} (embedded world)" if name else "contents of the embedded world"
    return _CONTENT_DIGEST.sub("", service)


def format_parameter_value(value: object) -> str:
    """Format a parameter's value for readers; a digest is cut, an empty value is `not set`."""
    if isinstance(value, dict):
        named = [format_parameter_value(value["name"])] if "name" in value else []
        return ", ".join(
            [
                *named,
                *(
                    f"{format_snake_case_as_words(key)} {format_parameter_value(value[key])}"
                    for key in sorted(value)
                    if key != "name"
                ),
            ]
        )
    if isinstance(value, list | tuple):
        return ", ".join(map(format_parameter_value, value)) or "not set"
    text = escape_control_characters(str(value))
    return "not set" if value is None or value == "" else f"{text[:16]}…" if _SHA256_HEX.fullmatch(text) else text


def format_column_value(value: Any) -> str:
    """Format the value of a column as one line."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(format_column_value(each) for each in value.values() if each is not None)
    if isinstance(value, list | tuple):
        return " · ".join(format_column_value(each) for each in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def format_column_value_without_ids(value: Any, between: str = " · ") -> str:
    """Format the value of a shown column as one line, as `factmill show` does: a piece of knowledge without the ids that its
    provenance has; `between`: what parts the entries of a list."""
    if isinstance(value, list | tuple):
        return between.join(map(format_column_value_without_ids, value))
    if isinstance(value, Mapping):
        return " ".join(each for each in value.values() if isinstance(each, str) and not _WIKIDATA_ID.match(each))
    return format_column_value(value)


_TEMPLATES_FOLDER = "data/templates"
_REPORT_TEMPLATE = "page.html"


def render_markdown_template(template: str, **variables: Any) -> str:
    """Return a rendered Markdown template; every value is escaped unless it is already Markup."""
    text = markdown_environment().get_template(template).render(**variables)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def escape_markdown_value(value: Any) -> str:
    """Escape a value for a line or table cell of Markdown; Markup stays as it is."""
    if isinstance(value, Markup):
        return str(value)
    return markdown.escape_markdown(str(value))


def format_markdown_inline_code(text: str) -> Markup:
    """Return a text as inline code of Markdown."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return Markup(f"{fence}{space}{escape_control_characters(text)}{space}{fence}")


def format_markdown_code_block(text: str, language: str = "") -> Markup:
    """Return a text as a Markdown code block, with a fence longer than any in the text."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return Markup(f"{fence}{language}\n{escape_control_characters(text).rstrip()}\n{fence}")


@cache
def html_environment() -> Environment:
    """Return the Jinja environment of HTML templates."""
    made = _make_environment(autoescape=True)
    made.filters.update(command_words=_mark_command_words_in_html)
    return made


@cache
def markdown_environment() -> Environment:
    """Return the Jinja environment of Markdown templates."""
    made = _make_environment(autoescape=False, finalize=escape_markdown_value)
    made.filters.update(
        code=format_markdown_inline_code,
        command_words=_format_commands_as_markdown_code,
        fence=format_markdown_code_block,
        markup=Markup,
    )
    return made


def load_template_text(name: str) -> str:
    """Return the text of a template file that pages include unchanged."""
    return asset_path(_TEMPLATES_FOLDER, name).read_text("utf-8")


def _make_environment(**more: Any) -> Environment:
    return Environment(
        loader=FileSystemLoader(asset_path(_TEMPLATES_FOLDER, _REPORT_TEMPLATE).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **more,
    )
