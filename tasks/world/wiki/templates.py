"""The few templates that embedded articles use, and those a client must be able to leave out, as HTML."""

from tasks.world.wiki.inline import InlineRenderer
from tasks.world.wiki.pages import BadTitleError, Title, parse_title

BLOCK_MARK = "\n\x02{}\x02\x05\n"
"""Stands in the text for a template's block, by number, on a line of its own."""

_HATNOTES = {
    "main": "Main article: {}",
    "main article": "Main article: {}",
    "see also": "See also: {}",
    "further": "Further information: {}",
    "details": "Further information: {}",
    "distinguish": "Not to be confused with {}.",
}
_DISAMBIGUATION = {"disambiguation", "disambig", "hndis", "geodis"}
_DISAMBIGUATION_NOTE = (
    '<div role="note" class="metadata plainlinks dmbox dmbox-disambig">This page lists several meanings of one name. '
    "A link that led here may be pointed at the right one.</div>"
)
# Instructions to the wiki, without anything to show.
_SILENT = {
    "use dmy dates",
    "use mdy dates",
    "use british english",
    "use american english",
    "good article",
    "defaultsort",
}


def render_template(source: str, inline: InlineRenderer, notes_place: str) -> tuple[str, bool]:
    """Return a template's HTML and whether it is a block; `source` is what stands between the braces, HTML-escaped."""
    name, *arguments = _split_arguments(source)
    name = name.replace("_", " ")
    kind = name.casefold()
    inline.found.templates[f"Template:{name[:1].upper()}{name[1:]}"] = None
    named = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    named = {key.strip(): value.strip() for key, value in named.items()}
    plain = [argument.strip() for argument in arguments if "=" not in argument]
    if block := _render_block(kind, plain, named, inline, notes_place):
        return block, True
    if kind in _SILENT or kind.startswith("defaultsort:"):
        return "", True
    if kind in {"nowrap", "nobr", "lang"} and plain:
        return f'<span class="nowrap">{inline.render(plain[-1])}</span>', False
    return _missing_template(name, inline), False


def _render_block(
    kind: str, plain: list[str], named: dict[str, str], inline: InlineRenderer, notes_place: str
) -> str | None:
    block: str | None = None
    if kind == "short description":
        style = 'class="shortdescription nomobile noexcerpt noprint searchaux" style="display:none"'
        block = f"<div {style}>{plain[0] if plain else ''}</div>"
    elif kind in {"about", "for"}:
        block = _hatnote(_about(kind, plain, inline))
    elif kind in _HATNOTES:
        links = [_link(target, inline) for target in plain]
        block = _hatnote(_HATNOTES[kind].format(" and ".join(links) if len(links) < 3 else ", ".join(links)))
    elif kind.startswith("infobox"):
        block = _infobox(named, inline)
    elif kind == "navbox":
        block = _navbox(named, inline)
    elif kind in _DISAMBIGUATION:
        block = _DISAMBIGUATION_NOTE
    elif kind in {"reflist", "references"}:
        block = notes_place
    return block


def _hatnote(html: str) -> str:
    return f'<div role="note" class="hatnote navigation-not-searchable">{html}</div>'


def _about(kind: str, plain: list[str], inline: InlineRenderer) -> str:
    """Return the words of {{About|subject|other use|page|…}} or {{For|other use|page}}."""
    rest = plain[1:] if kind == "about" else plain
    text = f"This article is about {inline.render(plain[0])}." if kind == "about" and plain else ""
    for use, page in zip(rest[::2], rest[1::2], strict=False):
        text += f" For {inline.render(use or 'other uses')}, see {_link(page, inline)}."
    return text.strip()


def _infobox(named: dict[str, str], inline: InlineRenderer) -> str:
    rows = []
    for key, value in named.items():
        if key in {"name", "title"}:
            rows.append(f'<tr><th colspan="2" class="infobox-above">{inline.render(value)}</th></tr>')
        elif value:
            label = key.replace("_", " ").capitalize()
            cell = f'<td class="infobox-data">{inline.render(value)}</td>'
            rows.append(f'<tr><th scope="row" class="infobox-label">{label}</th>{cell}</tr>')
    return '<table class="infobox vcard"><tbody>' + "".join(rows) + "</tbody></table>"


def _navbox(named: dict[str, str], inline: InlineRenderer) -> str:
    title = inline.render(named.get("title", ""))
    groups = [value for key, value in named.items() if key.startswith("list")]
    lists = "".join(f'<tr><td class="navbox-list">{inline.render(value)}</td></tr>' for value in groups)
    head = f'<tr><th scope="col" class="navbox-title">{title}</th></tr>'
    return (
        f'<div role="navigation" class="navbox"><table class="navbox-inner"><tbody>{head}{lists}</tbody></table></div>'
    )


def _link(target: str, inline: InlineRenderer) -> str:
    try:
        return inline.link_to(parse_title(target), target)
    except BadTitleError:
        return target


def _missing_template(name: str, inline: InlineRenderer) -> str:
    title = Title(10, name[:1].upper() + name[1:], "")
    return inline.link_to(title, title.full)


def _split_arguments(source: str) -> list[str]:
    """Split at bars that stand outside of links."""
    parts, depth, place = [""], 0, 0
    while place < len(source):
        pair = source[place : place + 2]
        if pair in {"[[", "]]"}:
            depth += 1 if pair == "[[" else -1
            parts[-1] += pair
            place += 2
            continue
        if source[place] == "|" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += source[place]
        place += 1
    return [part.strip() for part in parts]
