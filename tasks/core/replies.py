"""Strip wrappers from completions of models: it runs before every parser, so that parsers see the plain form only.

Wrappers of a completion are thoughts, code fences, a line that introduces it, remarks after it, list marks, emphasis,
full-width punctuation. Parts that are certainly not the answer are removed (undressing.py) and recorded; nothing else is
repaired. A completion that still cannot be read is Unreadable, of one of four kinds:

| kind | meaning | second attempt? |
|---|---|---|
| reply_not_in_format | another format, or a check fails | yes, with the reason |
| cut_off | the token limit ended it before it was complete | yes, for a shorter one; no if it held thoughts only: these would take as many tokens again, so only a higher limit helps |
| refused | the model or its server's filter refuses | no: the same prompt would be refused again, and pressure yields no facts |
| empty_reply | no text | no: there is nothing to correct; the next run repeats such a failed call |
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Literal, TypeVar, get_args

from factmill.tasks.core.finish_reasons import classify_finish
from factmill.tasks.text.undressing import (
    drop_around,
    drop_citations,
    drop_decoration,
    drop_draft,
    drop_fences,
    drop_list_mark,
    drop_next_turn,
    drop_thoughts,
    drop_wrapper,
    find_object,
    fold_wide,
    is_lead_in,
    is_remark,
    opens_explanation,
    parse_object,
    read_table,
    takes_back,
    unwrap,
)

A = TypeVar("A")

UnreadableKind = Literal["reply_not_in_format", "cut_off", "refused", "empty_reply"]
"""Why a completion cannot be read; also the reason of the resulting reject."""
UNREADABLE_KINDS: frozenset[str] = frozenset(get_args(UnreadableKind))

_DONE = "help|assist|comply|answer|provide|fulfil|fulfill|continue|complete|create|generate|write|produce|discuss|engage|share|respond|participate|take part|support|process|judge|rate|give|do (?:that|this|so|it)|with (?:that|this|your)"
_WILL_NOT = (
    r"(?:can ?not|can['’]t|could not|couldn['’]t|will not|won['’]t|must decline to|have to decline to|decline to|refuse to"
    r"|am (?:not able|unable|not allowed|not permitted) to|['’]m (?:not able|unable|not allowed|not permitted) to)"
)
_REFUSAL = re.compile(
    r"\W*+(?:(?:i['’]m|i am|we['’]re|we are) (?:\w+ )?(?:sorry|afraid)|sorry|apologies|my apologies|i apologi[sz]e|unfortunately)?"
    r"[\s,.;:!—–-]*(?:but |however,? )?(?:as an (?:ai|assistant)[^,.\n]{0,40},? )?"
    rf"(?:i|we)(?: |(?=['’])){_WILL_NOT} (?:\w+ )?(?:{_DONE})\b",
    re.IGNORECASE,
)
LABELLED = re.compile(
    r"(?P<mark>[\"'“*_`]{0,3})(?:here is |here['’]s )?(?:the |my |a )?"
    r"(?:(?:suggested|proposed|corrected|revised|mended|rewritten|improved|new) )?"
    r"(?:rewrite|rewording|rewritten|revision|question|version|wording|output|reply|answer)[\"'”*_`]{0,3}\s*[:：][\s*_]*",
    re.IGNORECASE,
)
"""Label before a question on its line: `Question: …`, `Here is the rewritten question: …`."""
_NUMBERED = re.compile(r"[ \t]*[0-9]{1,3}[.)][ \t]+")
_NUMBER_CELL = re.compile(r"(?:level[ \t]*|pair[ \t]*)?([0-9]{1,3})[.):]{0,2}", re.IGNORECASE)
_ANNOUNCED = re.compile(
    r"[ \t]*[*_]{0,3}(?:(?:the|my) )?(?:final )?(?:answer|reply|response|output|result)[*_]{0,3}[ \t]*[:：][*_]{0,3}[ \t]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A completion that cannot be read, with its reason."""

    reason: str
    """One clause: what was found, what was expected."""
    kind: UnreadableKind = "reply_not_in_format"

    def correction(self) -> str:
        """Format the message to the model for the second attempt."""
        if self.kind == "cut_off":
            return (
                "Your last reply was cut off before it was complete. "
                "Reply once more, shorter, in exactly the form described, with nothing else."
            )
        return (
            f"Your last reply could not be read: {self.reason}. "
            "Reply once more, in exactly the form described, with nothing else."
        )


@dataclass(frozen=True, slots=True)
class Said:
    """A completion without its wrappers."""

    text: str
    """In the plain form if the form was recognised; else unchanged, so that the parser reports the fault."""
    taken_off: frozenset[str] = frozenset()
    """thoughts, fences, lead_in, remark, list_marks, emphasis (quotes too), full_width, label, gloss, next_turn, draft, table,
    json5, citations."""
    is_cut: bool = False
    """True when the token limit ended it, and nothing shows that it is complete."""


@dataclass(frozen=True)
class Form:
    """Expected format of a completion: a JSON object, lines with heads of one pattern, or free text."""

    kind: Literal["object", "lines", "text"] = "text"
    head: str = ""
    """Lines: pattern of the head of each, before its point: a number, or a word such as Paragraph."""
    point: str = ":"
    """Lines: pattern of the separator between head and answer."""
    reach: Literal["line", "block", "rest"] = "line"
    """Lines: an answer extends to the end of its line, to a blank line, or to the end of the completion."""
    is_numbered: bool = False
    """Lines: the head is a number. Prose may begin with one too, so only an introduction may precede the first line."""
    quotes: bool = False
    """Quotes around a whole answer are removed."""
    folds: bool = False
    """Text: it holds only fixed words, so all full-width marks are folded to ASCII."""
    is_open: bool = False
    """Nothing shows that an answer is complete: a truncated one is never read (text: unless it ends with a stop)."""
    label: re.Pattern[str] | None = None
    """Text: label before an answer on its line (group `mark`: its opening marks). Object: beginning of its other form."""
    gloss: re.Pattern[str] | None = None
    """Lines: comment that a model adds to an answer about the kind of answer."""
    last_counts: bool = False
    """A judge thinks aloud and its last verdict counts: nothing that may hold a later verdict is skipped, and tags and tables
    hold a verdict only if they are the whole completion, since it may quote those of the judged answer."""
    cites: bool = False
    """Marks in square brackets are a part of the answer."""

    @cached_property
    def heads(self) -> re.Pattern[str]:
        """Pattern of a line's head with its emphasis."""
        mark = r"(?P<{}>[*_`]{{0,3}})[ \t]*+"
        opened, closed = mark.format("mark"), mark.format("closed")
        return re.compile(
            rf"[ \t]*+{opened}(?P<head>{self.head})[ \t]*+{closed}(?P<point>{self.point})[ \t]*", re.IGNORECASE
        )


TEXT = Form()
CITED = Form(cites=True)
"""An answer that cites its sources in square brackets."""


@dataclass(frozen=True, slots=True)
class Heard(Generic[A]):
    """Result of reading the completions of one call."""

    read: A | Unreadable
    taken_off: tuple[str, ...]
    rejected: str
    """The completion without thoughts, to show to the model in a second attempt; empty: no second attempt."""


def hear(
    texts: Sequence[str], finish: Sequence[str], form: Form, read: Callable[[list[str]], A | Unreadable]
) -> Heard[A]:
    """Read the samples of a completion, one text and finish reason each; `read` gets the stripped texts of readable ones."""
    samples = list(zip(texts, finish, strict=True))
    # many samples are as short as Yes or No, and equal
    as_read = {sample: read_said(*sample, form) for sample in dict.fromkeys(samples)}
    each = [as_read[sample] for sample in samples]
    said = [one for one in each if isinstance(one, Said)]
    result: A | Unreadable
    if said:
        result = read([one.text for one in said])
        if isinstance(result, Unreadable) and any(one.is_cut for one in said):
            result = replace(result, kind="cut_off")
    else:
        result = next(one for one in each if isinstance(one, Unreadable))
    may_ask = isinstance(result, Unreadable) and result.kind in ("reply_not_in_format", "cut_off")
    shown = [drop_thoughts(text).strip() for text in texts] if may_ask else []
    taken_off = sorted({kind for one in said for kind in one.taken_off})
    return Heard(result, tuple(taken_off), next(filter(None, shown), ""))


def read_said(text: str, finish: str, form: Form) -> Said | Unreadable:
    """Strip the wrappers of a completion; Unreadable where it refuses, is empty, or is certainly incomplete."""
    spoken = drop_thoughts(text)
    by_question = form.label is not LABELLED and form.head != "Question"
    own = final = spoken
    if not form.last_counts:
        own = drop_next_turn(spoken, by_question=by_question)
        inside = drop_wrapper(own, alone=False)
        final = drop_draft(inside) if form.kind != "object" else inside
    plain = drop_fences(final)
    ending = classify_finish(finish)
    is_cut = ending == "cut"
    if ending == "filtered":
        return Unreadable(f"the model or its filter refuses: {_shorten(plain)}", "refused")
    if not plain.strip():
        why = ", all the room it had went to thoughts: it needs a higher token limit" if is_cut and text.strip() else ""
        return Unreadable(f"the reply says nothing{why}", "cut_off" if is_cut else "empty_reply")
    found = _FINDERS[form.kind](plain, form)
    if isinstance(found, Unreadable):
        return found
    if _REFUSAL.match(plain) and (found is None or (form.kind == "text" and "\n" not in plain.strip())):
        return Unreadable(f"the model refuses: {_shorten(plain)}", "refused")
    said = found or _find_text(plain, form)
    # an object shows that it is complete, and so do lines followed by a remark
    is_whole = not is_cut or (found is not None and (form.kind == "object" or said.taken_off >= {"remark"}))
    if not is_whole and form.is_open and not (form.kind == "text" and said.text.endswith((".", "?", "!"))):
        return Unreadable("the token limit ended the reply before it was whole", "cut_off")
    steps = {"thoughts": spoken != text, "next_turn": own != spoken, "draft": final != own, "fences": plain != final}
    around = {name for name, was_there in steps.items() if was_there}
    return Said(said.text, said.taken_off | around, not is_whole)


def _find_object(text: str, form: Form) -> Said | None:
    found = find_object(text, form.label)
    return None if found is None else Said(found[0], frozenset(found[1]))


def _find_text(text: str, form: Form) -> Said:
    lines, taken_off = drop_around(text.splitlines(), last_counts=form.last_counts)
    for at, line in enumerate(lines):
        bare = drop_list_mark(line).strip()
        taken_off |= {"list_marks"} if bare != line.strip() else set()
        if form.kind == "text" and form.label and (label := form.label.match(bare)):
            # marks opened before the label close at the end of the line
            bare = bare[label.end() :].removesuffix(label["mark"] or " ").strip()
            taken_off.add("label")
        cited = bare if form.cites else drop_citations(bare)
        taken_off |= {"citations"} if cited != bare else set()
        inner = unwrap(cited, quotes=form.quotes)
        taken_off |= {"emphasis"} if inner != cited else set()
        lines[at] = fold_wide(inner) if form.folds or (inner.endswith("？") and form.quotes) else inner
        taken_off |= {"full_width"} if lines[at] != inner else set()
    return Said("\n".join(lines).strip(), frozenset(taken_off))


def _find_lines(text: str, form: Form) -> Said | Unreadable | None:
    """Return the lines of the form with plain heads, and the text between them; None where there is none.

    Unreadable where a judge retracts its last line.
    """
    lines = text.splitlines()
    taken_off: set[str] = set()
    if "|" in text and _write_out_tables(lines, form):
        taken_off.add("table")
    read = {at: plain for at, line in enumerate(lines) if (plain := _read_head(line, form, taken_off)) is not None}
    if not read:
        return _find_field(text, form)
    first, last = min(read), max(read)
    lead, end = lines[:first], _find_end(lines, last, read[last][1], form)
    if form.is_numbered and not is_lead_in(lead, is_parted=bool(lead) and not lead[-1].strip()):
        first = 0
    elif any(map(str.strip, lead)):
        taken_off.add("lead_in")
    if form.last_counts and takes_back(lines[end:]):
        return Unreadable("the last line of the form is taken back behind it, expected it to be the last word")
    if any(map(str.strip, lines[end:])):
        is_parted = form.reach != "rest" and not lines[end].strip()
        is_passed_over = is_remark(lines[end:], is_parted=is_parted)
        taken_off |= {"remark"} if is_passed_over else set()
        end = end if is_passed_over else len(lines)
    if form.reach != "line" and len(read) == 1:
        head, answer = read[last]
        whole = " ".join(" ".join([answer, *lines[last + 1 : end]]).split())
        return Said(f"{head} {_bare(whole, form, taken_off)}", frozenset(taken_off))
    kept = [lines[at] for at in range(first, end)]
    for at, (head, answer) in read.items():
        kept[at - first] = f"{head} {_bare(answer, form, taken_off)}"
    return Said("\n".join(kept).strip(), frozenset(taken_off))


def _write_out_tables(lines: list[str], form: Form) -> bool:
    """Rewrite table rows as lines of the form, in place; True if there were any.

    Accepts rows of two cells (number and answer, or head and answer), and one column of answers under a header that is the
    form's head. Other tables stay unchanged.
    """
    rows = read_table(lines)
    if not rows or max(len(cells) for _, cells in rows) > 2:
        return False
    # a judge may quote a table of the judged answer, so its own must be the whole completion
    if form.last_counts and len(rows) < sum(bool(line.strip()) for line in lines):
        return False
    written: dict[int, str] = {}
    header = [_bare_cell(cell) for cell in rows[0][1]]
    is_headed = bool(header) and not form.is_numbered and bool(re.fullmatch(form.head, header[-1], re.IGNORECASE))
    for number, cells in rows:
        first, last = (_bare_cell(cells[0]), cells[-1]) if cells else ("", "")
        if form.is_numbered:
            level = _NUMBER_CELL.fullmatch(fold_wide(first)) if len(cells) == 2 else None
            written[number] = f"{level[1]}: {last}" if level else ""
        elif len(cells) == 2 and re.fullmatch(form.head, first, re.IGNORECASE):
            written[number] = f"{first}: {last}"
        elif is_headed and cells and number != rows[0][0] and (len(cells) == 1 or first.isdecimal()):
            written[number] = f"{header[-1]}: {last}"
        else:
            written[number] = ""
    # a row that does not match the form is a header, allowed at the top only
    numbers = [number for number, _ in rows]
    filled = [number for number in numbers if written[number]]
    if not filled or any(not written[number] for number in numbers[numbers.index(filled[0]) :]):
        return False
    for number, line in written.items():
        lines[number] = line
    return True


def _bare_cell(cell: str) -> str:
    return unwrap(cell, quotes=True).rstrip(":").strip()


def _find_field(text: str, form: Form) -> Said | None:
    """Return the line of a completion that is one JSON object with one matching field, `{"verdict": 1}`; else None."""
    found = None if form.is_numbered or not text.strip().startswith("{") else find_object(text)
    if found is None or not found[1] <= {"full_width", "json5"}:
        return None
    fields = [
        (name.replace("_", " "), value)
        for name, value in parse_object(found[0]).items()
        if re.fullmatch(form.head, name.replace("_", " "), re.IGNORECASE)
    ]
    if len(fields) != 1:
        return None
    name, value = fields[0]
    values = [_format_field(each) for each in (value if isinstance(value, list) else [value])]
    if not values or any(each is None or "\n" in each for each in values):
        return None
    return Said(f"{name}: {', '.join(map(str, values))}", frozenset(found[1] | {"label"}))


def _format_field(value: object) -> str | None:
    """Format a JSON field's value as text; None if it is neither text nor a number."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | float) else None


def _find_end(lines: Sequence[str], last: int, answer: str, form: Form) -> int:
    """Return the index after the last line of an answer that begins on line `last`, by the form's `reach`."""
    end = last + 1
    if form.reach == "block":
        while not answer and end < len(lines) and not lines[end].strip():
            end += 1
        while end < len(lines) and lines[end].strip() and not opens_explanation(lines[end]):
            end += 1
    elif form.reach == "rest":
        explained = next((at for at in range(last + 1, len(lines)) if opens_explanation(lines[at])), len(lines))
        end = explained if is_remark(lines[explained:], is_parted=False) else len(lines)
        blanks = [at for at in range(last + 1, end) if not lines[at].strip()]
        while blanks and is_remark(lines[blanks[-1] : end], is_parted=False):
            end = blanks.pop()
    return end


def _read_head(line: str, form: Form, taken_off: set[str]) -> tuple[str, str] | None:
    """Return the plain head of a line and the text after it; None for a line that does not match the form."""
    bare = drop_list_mark(line)
    numbered = None if form.is_numbered else _NUMBERED.match(bare)
    announced = _ANNOUNCED.match(bare)
    shapes = [line, bare, bare[numbered.end() :] if numbered else bare, bare[announced.end() :] if announced else bare]
    if form.reach != "line":
        shapes.append(drop_decoration(bare))
    for shown in shapes:
        if found := form.heads.match(fold_wide(shown)):
            break
    else:
        return None
    mark, closed, answer = found["mark"], found["closed"], _drop_gloss(shown[found.end() :].rstrip(), form, taken_off)
    if mark and not closed:
        # emphasis encloses the head only (**1::** Paris) or the whole line (**1:: Paris**)
        if answer.startswith(mark):
            answer = answer.removeprefix(mark).lstrip()
        elif answer.endswith(mark) and answer.count(mark) == 1:
            answer = answer.removesuffix(mark).rstrip()
        else:
            return None
    elif closed != mark:
        return None
    kinds = {"list_marks": shown != line, "emphasis": bool(mark), "full_width": found[0] != shown[: found.end()]}
    taken_off |= {kind for kind, was_there in kinds.items() if was_there}
    return f"{found['head']}{found['point']}", answer


def _bare(answer: str, form: Form, taken_off: set[str]) -> str:
    """Return the text after a head without its citations, emphasis and gloss."""
    cited = answer.strip() if form.cites else drop_citations(answer.strip())
    taken_off |= {"citations"} if cited != answer.strip() else set()
    answer = cited
    plain = unwrap(answer.strip(), quotes=form.quotes)
    taken_off |= {"emphasis"} if plain != answer.strip() else set()
    return unwrap(_drop_gloss(plain, form, taken_off), quotes=form.quotes)


def _drop_gloss(answer: str, form: Form, taken_off: set[str]) -> str:
    gloss = form.gloss.search(answer) if form.gloss else None
    taken_off |= {"gloss"} if gloss else set()
    return answer[: gloss.start()].rstrip() if gloss else answer


def _shorten(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 120 else f"{flat[:119]}…")


_FINDERS: dict[str, Callable[[str, Form], Said | Unreadable | None]] = {
    "object": _find_object,
    "lines": _find_lines,
    "text": _find_text,
}
