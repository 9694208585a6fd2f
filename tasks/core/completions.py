"""Strip wrappers from completions of models: it runs before every parser, so that parsers see the plain form only.

Wrappers of a completion are thoughts, code fences, a line that introduces it, remarks after it, list marks, emphasis,
full-width punctuation. Parts that are certainly not the answer are removed (text/reply_wrappers.py) and recorded; nothing else is
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

from factmill.tasks.core.finish_reasons import classify_finish_reason
from factmill.tasks.text.reply_wrappers import (
    blank_code_fence_lines,
    find_single_json_object_text,
    fold_punctuation_and_digits,
    is_explanation_heading,
    is_lead_in,
    is_trailing_remark,
    keep_final_answer_section,
    parse_markdown_tables,
    parse_only_json_object_ending_text,
    retracts_verdict,
    strip_answer_tags,
    strip_citation_marks,
    strip_invented_turns,
    strip_lead_in_and_remarks,
    strip_leading_markdown_marks,
    strip_surrounding_emoji,
    strip_surrounding_emphasis_and_quotes,
    strip_thinking_and_end_tokens,
)

A = TypeVar("A")

UnreadableCompletionKind = Literal["reply_not_in_format", "cut_off", "refused", "empty_reply"]
"""Why a completion cannot be read; also the reason of the resulting reject."""
UNREADABLE_COMPLETION_KINDS: frozenset[str] = frozenset(get_args(UnreadableCompletionKind))

_REFUSED_ACTIONS = "help|assist|comply|answer|provide|fulfil|fulfill|continue|complete|create|generate|write|produce|discuss|engage|share|respond|participate|take part|support|process|judge|rate|give|do (?:that|this|so|it)|with (?:that|this|your)"
_REFUSAL_PHRASES = (
    r"(?:can ?not|can['’]t|could not|couldn['’]t|will not|won['’]t|must decline to|have to decline to|decline to|refuse to"
    r"|am (?:not able|unable|not allowed|not permitted) to|['’]m (?:not able|unable|not allowed|not permitted) to)"
)
_REFUSAL = re.compile(
    r"\W*+(?:(?:i['’]m|i am|we['’]re|we are) (?:\w+ )?(?:sorry|afraid)|sorry|apologies|my apologies|i apologi[sz]e|unfortunately)?"
    r"[\s,.;:!—–-]*(?:but |however,? )?(?:as an (?:ai|assistant)[^,.\n]{0,40},? )?"
    rf"(?:i|we)(?: |(?=['’])){_REFUSAL_PHRASES} (?:\w+ )?(?:{_REFUSED_ACTIONS})\b",
    re.IGNORECASE,
)
QUESTION_LABEL = re.compile(
    r"(?P<mark>[\"'“*_`]{0,3})(?:here is |here['’]s )?(?:the |my |a )?"
    r"(?:(?:suggested|proposed|corrected|revised|mended|rewritten|improved|new) )?"
    r"(?:rewrite|rewording|rewritten|revision|question|version|wording|output|reply|answer)[\"'”*_`]{0,3}\s*[:：][\s*_]*",
    re.IGNORECASE,
)
"""Label before a question on its line: `Question: …`, `Here is the rewritten question: …`."""
_LIST_NUMBER = re.compile(r"[ \t]*[0-9]{1,3}[.)][ \t]+")
_NUMBER_CELL = re.compile(r"(?:level[ \t]*|pair[ \t]*)?([0-9]{1,3})[.):]{0,2}", re.IGNORECASE)
_ANSWER_LABEL = re.compile(
    r"[ \t]*[*_]{0,3}(?:(?:the|my) )?(?:final )?(?:answer|reply|response|output|result)[*_]{0,3}[ \t]*[:：][*_]{0,3}[ \t]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class UnreadableCompletion:
    """A completion that cannot be read, with its reason."""

    reason: str
    """One clause: what was found, what was expected."""
    kind: UnreadableCompletionKind = "reply_not_in_format"

    def format_correction(self) -> str:
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
class StrippedCompletion:
    """A completion without its wrappers."""

    text: str
    """In the plain form if the form was recognised; else unchanged, so that the parser reports the fault."""
    removed_wrappers: frozenset[str] = frozenset()
    """thoughts, fences, lead_in, remark, list_marks, emphasis (quotes too), full_width, label, gloss, next_turn, draft, table,
    json5, citations."""
    is_truncated: bool = False
    """True when the token limit ended it, and nothing shows that it is complete."""


@dataclass(frozen=True)
class CompletionFormat:
    """Expected format of a completion: a JSON object, lines with heads of one pattern, or free text."""

    kind: Literal["object", "lines", "text"] = "text"
    line_head: str = ""
    """Lines: pattern of the head of each, before its point: a number, or a word such as Paragraph."""
    separator: str = ":"
    """Lines: pattern of the separator between head and answer."""
    answer_extent: Literal["line", "block", "rest"] = "line"
    """Lines: an answer extends to the end of its line, to a blank line, or to the end of the completion."""
    is_numbered: bool = False
    """Lines: the head is a number. Prose may begin with one too, so only an introduction may precede the first line."""
    strips_quotes: bool = False
    """Quotes around a whole answer are removed."""
    folds_full_width: bool = False
    """Text: it holds only fixed words, so all full-width marks are folded to ASCII."""
    needs_clear_end: bool = False
    """Nothing shows that an answer is complete: a truncated one is never read (text: unless it ends with a stop)."""
    label_pattern: re.Pattern[str] | None = None
    """Text: label before an answer on its line (group `mark`: its opening marks). Object: beginning of its other form."""
    gloss_pattern: re.Pattern[str] | None = None
    """Lines: comment that a model adds to an answer about the kind of answer."""
    last_verdict_counts: bool = False
    """A judge thinks aloud and its last verdict counts: nothing that may hold a later verdict is skipped, and tags and tables
    hold a verdict only if they are the whole completion, since it may quote those of the judged answer."""
    keeps_citations: bool = False
    """Marks in square brackets are a part of the answer."""

    @cached_property
    def line_head_pattern(self) -> re.Pattern[str]:
        """Pattern of a line's head with its emphasis."""
        mark = r"(?P<{}>[*_`]{{0,3}})[ \t]*+"
        opened, closed = mark.format("mark"), mark.format("closed")
        return re.compile(
            rf"[ \t]*+{opened}(?P<head>{self.line_head})[ \t]*+{closed}(?P<point>{self.separator})[ \t]*", re.IGNORECASE
        )


PLAIN_TEXT_FORMAT = CompletionFormat()
CITED_TEXT_FORMAT = CompletionFormat(keeps_citations=True)
"""An answer that cites its sources in square brackets."""


@dataclass(frozen=True, slots=True)
class CompletionResult(Generic[A]):
    """Result of reading the completions of one call."""

    result: A | UnreadableCompletion
    removed_wrappers: tuple[str, ...]
    rejected_text: str
    """The completion without thoughts, to show to the model in a second attempt; empty: no second attempt."""


def strip_samples_and_parse_together(
    texts: Sequence[str],
    finish: Sequence[str],
    completion_format: CompletionFormat,
    parse: Callable[[list[str]], A | UnreadableCompletion],
) -> CompletionResult[A]:
    """Read the samples of a completion, one text and finish reason each; `parse` gets the stripped texts of readable ones."""
    samples = list(zip(texts, finish, strict=True))
    # many samples are as short as Yes or No, and equal
    as_read = {sample: strip_completion_wrappers(*sample, completion_format) for sample in dict.fromkeys(samples)}
    each = [as_read[sample] for sample in samples]
    stripped = [one for one in each if isinstance(one, StrippedCompletion)]
    result: A | UnreadableCompletion
    if stripped:
        result = parse([one.text for one in stripped])
        if isinstance(result, UnreadableCompletion) and any(one.is_truncated for one in stripped):
            result = replace(result, kind="cut_off")
    else:
        result = next(one for one in each if isinstance(one, UnreadableCompletion))
    may_ask = isinstance(result, UnreadableCompletion) and result.kind in ("reply_not_in_format", "cut_off")
    shown = [strip_thinking_and_end_tokens(text).strip() for text in texts] if may_ask else []
    taken_off = sorted({kind for one in stripped for kind in one.removed_wrappers})
    return CompletionResult(result, tuple(taken_off), next(filter(None, shown), ""))


def strip_completion_wrappers(
    text: str, finish: str, completion_format: CompletionFormat
) -> StrippedCompletion | UnreadableCompletion:
    """Strip the wrappers of a completion; Unreadable where it refuses, is empty, or is certainly incomplete."""
    spoken = strip_thinking_and_end_tokens(text)
    by_question = completion_format.label_pattern is not QUESTION_LABEL and completion_format.line_head != "Question"
    own = final = spoken
    if not completion_format.last_verdict_counts:
        own = strip_invented_turns(spoken, by_question=by_question)
        inside = strip_answer_tags(own, must_be_alone=False)
        final = keep_final_answer_section(inside) if completion_format.kind != "object" else inside
    plain = blank_code_fence_lines(final)
    ending = classify_finish_reason(finish)
    is_cut = ending == "cut"
    if ending == "filtered":
        return UnreadableCompletion(f"the model or its filter refuses: {_quote_as_shortened_line(plain)}", "refused")
    if not plain.strip():
        why = ", all the room it had went to thoughts: it needs a higher token limit" if is_cut and text.strip() else ""
        return UnreadableCompletion(f"the reply says nothing{why}", "cut_off" if is_cut else "empty_reply")
    found: StrippedCompletion | UnreadableCompletion | None
    match completion_format.kind:
        case "object":
            read = find_single_json_object_text(plain, completion_format.label_pattern)
            found = StrippedCompletion(read[0], frozenset(read[1])) if read else None
        case "lines":
            found = _extract_lines_with_form_heads(plain, completion_format)
        case "text":
            found = _strip_marks_and_lead_in_of_free_text(plain, completion_format)
    if isinstance(found, UnreadableCompletion):
        return found
    if _REFUSAL.match(plain) and (found is None or (completion_format.kind == "text" and "\n" not in plain.strip())):
        return UnreadableCompletion(f"the model refuses: {_quote_as_shortened_line(plain)}", "refused")
    stripped = found or _strip_marks_and_lead_in_of_free_text(plain, completion_format)
    # an object shows that it is complete, and so do lines followed by a remark
    ends_clearly = completion_format.kind == "object" or stripped.removed_wrappers >= {"remark"}
    is_whole = not is_cut or (found is not None and ends_clearly)
    has_stop = completion_format.kind == "text" and stripped.text.endswith((".", "?", "!"))
    if not is_whole and completion_format.needs_clear_end and not has_stop:
        return UnreadableCompletion("the token limit ended the reply before it was whole", "cut_off")
    steps = {"thoughts": spoken != text, "next_turn": own != spoken, "draft": final != own, "fences": plain != final}
    around = {name for name, was_there in steps.items() if was_there}
    return StrippedCompletion(stripped.text, stripped.removed_wrappers | around, not is_whole)


def _strip_marks_and_lead_in_of_free_text(text: str, form: CompletionFormat) -> StrippedCompletion:
    lines, taken_off = strip_lead_in_and_remarks(text.splitlines(), last_counts=form.last_verdict_counts)
    for at, line in enumerate(lines):
        bare = strip_leading_markdown_marks(line).strip()
        taken_off |= {"list_marks"} if bare != line.strip() else set()
        if form.kind == "text" and form.label_pattern and (label := form.label_pattern.match(bare)):
            # marks opened before the label close at the end of the line
            bare = bare[label.end() :].removesuffix(label["mark"] or " ").strip()
            taken_off.add("label")
        cited = bare if form.keeps_citations else strip_citation_marks(bare)
        taken_off |= {"citations"} if cited != bare else set()
        inner = strip_surrounding_emphasis_and_quotes(cited, quotes=form.strips_quotes)
        taken_off |= {"emphasis"} if inner != cited else set()
        lines[at] = (
            fold_punctuation_and_digits(inner)
            if form.folds_full_width or (inner.endswith("？") and form.strips_quotes)
            else inner
        )
        taken_off |= {"full_width"} if lines[at] != inner else set()
    return StrippedCompletion("\n".join(lines).strip(), frozenset(taken_off))


def _extract_lines_with_form_heads(
    text: str, form: CompletionFormat
) -> StrippedCompletion | UnreadableCompletion | None:
    """Return the lines of the form with plain heads, and the text between; None without any; Unreadable if retracted."""
    lines = text.splitlines()
    taken_off: set[str] = set()
    if "|" in text and _rewrite_tables_as_lines(lines, form):
        taken_off.add("table")
    read = {
        at: plain
        for at, line in enumerate(lines)
        if (plain := _parse_line_head_and_answer(line, form, taken_off)) is not None
    }
    if not read:
        return _rewrite_single_json_field_as_line(text, form)
    first, last = min(read), max(read)
    lead, end = lines[:first], _find_answer_end(lines, last, read[last][1], form)
    if form.is_numbered and not is_lead_in(lead, has_blank_line_between=bool(lead) and not lead[-1].strip()):
        first = 0
    elif any(map(str.strip, lead)):
        taken_off.add("lead_in")
    if form.last_verdict_counts and retracts_verdict(lines[end:]):
        return UnreadableCompletion(
            "the last line of the form is taken back behind it, expected it to be the last word"
        )
    if any(map(str.strip, lines[end:])):
        is_parted = form.answer_extent != "rest" and not lines[end].strip()
        is_passed_over = is_trailing_remark(lines[end:], has_blank_line_between=is_parted)
        taken_off |= {"remark"} if is_passed_over else set()
        end = end if is_passed_over else len(lines)
    if form.answer_extent != "line" and len(read) == 1:
        head, answer = read[last]
        joined = " ".join(" ".join([answer, *lines[last + 1 : end]]).split())
        return StrippedCompletion(
            f"{head} {_strip_answer_marks_and_gloss(joined, form, taken_off)}", frozenset(taken_off)
        )
    kept = [lines[at] for at in range(first, end)]
    for at, (head, answer) in read.items():
        kept[at - first] = f"{head} {_strip_answer_marks_and_gloss(answer, form, taken_off)}"
    return StrippedCompletion("\n".join(kept).strip(), frozenset(taken_off))


def _rewrite_tables_as_lines(lines: list[str], form: CompletionFormat) -> bool:
    """Rewrite table rows as lines of the form, in place; True if there were any.

    Accepts rows of two cells (number and answer, or head and answer), and one column of answers under a header that is the
    form's head. Other tables stay unchanged.
    """
    rows = parse_markdown_tables(lines)
    if not rows or max(len(cells) for _, cells in rows) > 2:
        return False
    # a judge may quote a table of the judged answer, so its own must be the whole completion
    if form.last_verdict_counts and len(rows) < sum(bool(line.strip()) for line in lines):
        return False
    written: dict[int, str] = {}
    header = [_strip_cell_emphasis_and_quotes(cell) for cell in rows[0][1]]
    is_headed = bool(header) and not form.is_numbered and bool(re.fullmatch(form.line_head, header[-1], re.IGNORECASE))
    for number, cells in rows:
        first, last = (_strip_cell_emphasis_and_quotes(cells[0]), cells[-1]) if cells else ("", "")
        if form.is_numbered:
            level = _NUMBER_CELL.fullmatch(fold_punctuation_and_digits(first)) if len(cells) == 2 else None
            written[number] = f"{level[1]}: {last}" if level else ""
        elif len(cells) == 2 and re.fullmatch(form.line_head, first, re.IGNORECASE):
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


def _strip_cell_emphasis_and_quotes(cell: str) -> str:
    return strip_surrounding_emphasis_and_quotes(cell, quotes=True).rstrip(":").strip()


def _rewrite_single_json_field_as_line(text: str, form: CompletionFormat) -> StrippedCompletion | None:
    """Return the line of a completion that is one JSON object with one matching field, `{"verdict": 1}`; else None."""
    found = None if form.is_numbered or not text.strip().startswith("{") else find_single_json_object_text(text)
    if found is None or not found[1] <= {"full_width", "json5"}:
        return None
    fields = [
        (name.replace("_", " "), value)
        for name, value in parse_only_json_object_ending_text(found[0]).items()
        if re.fullmatch(form.line_head, name.replace("_", " "), re.IGNORECASE)
    ]
    if len(fields) != 1:
        return None
    name, value = fields[0]
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str | float) and "\n" not in str(each) for each in values):
        return None
    texts = (str(int(each)) if isinstance(each, float) and each.is_integer() else str(each) for each in values)
    return StrippedCompletion(f"{name}: {', '.join(texts)}", frozenset(found[1] | {"label"}))


def _find_answer_end(lines: Sequence[str], last: int, answer: str, form: CompletionFormat) -> int:
    """Return the index after the last line of an answer that begins on line `last`, by the form's `answer_extent`."""
    end = last + 1
    if form.answer_extent == "block":
        while not answer and end < len(lines) and not lines[end].strip():
            end += 1
        while end < len(lines) and lines[end].strip() and not is_explanation_heading(lines[end]):
            end += 1
    elif form.answer_extent == "rest":
        explained = next((at for at in range(last + 1, len(lines)) if is_explanation_heading(lines[at])), len(lines))
        end = explained if is_trailing_remark(lines[explained:], has_blank_line_between=False) else len(lines)
        blanks = [at for at in range(last + 1, end) if not lines[at].strip()]
        while blanks and is_trailing_remark(lines[blanks[-1] : end], has_blank_line_between=False):
            end = blanks.pop()
    return end


def _parse_line_head_and_answer(
    line: str, form: CompletionFormat, removed_wrappers: set[str]
) -> tuple[str, str] | None:
    """Return the plain head of a line and the text after it; None for a line that does not match the form."""
    bare = strip_leading_markdown_marks(line)
    numbered = None if form.is_numbered else _LIST_NUMBER.match(bare)
    announced = _ANSWER_LABEL.match(bare)
    shapes = [line, bare, bare[numbered.end() :] if numbered else bare, bare[announced.end() :] if announced else bare]
    if form.answer_extent != "line":
        shapes.append(strip_surrounding_emoji(bare))
    for shown in shapes:
        if found := form.line_head_pattern.match(fold_punctuation_and_digits(shown)):
            break
    else:
        return None
    mark, closed = found["mark"], found["closed"]
    answer = _drop_gloss(shown[found.end() :].rstrip(), form, removed_wrappers)
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
    removed_wrappers |= {kind for kind, was_there in kinds.items() if was_there}
    return f"{found['head']}{found['point']}", answer


def _strip_answer_marks_and_gloss(answer: str, form: CompletionFormat, removed_wrappers: set[str]) -> str:
    """Return the text after a head without its citations, emphasis and gloss."""
    cited = answer.strip() if form.keeps_citations else strip_citation_marks(answer.strip())
    removed_wrappers |= {"citations"} if cited != answer.strip() else set()
    plain = strip_surrounding_emphasis_and_quotes(cited.strip(), quotes=form.strips_quotes)
    removed_wrappers |= {"emphasis"} if plain != cited.strip() else set()
    return strip_surrounding_emphasis_and_quotes(_drop_gloss(plain, form, removed_wrappers), quotes=form.strips_quotes)


def _drop_gloss(answer: str, form: CompletionFormat, removed_wrappers: set[str]) -> str:
    gloss = form.gloss_pattern.search(answer) if form.gloss_pattern else None
    removed_wrappers |= {"gloss"} if gloss else set()
    return answer[: gloss.start()].rstrip() if gloss else answer


def _quote_as_shortened_line(text: str) -> str:
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= 120 else f"{flat[:119]}…")
