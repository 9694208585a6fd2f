"""Strip what models put around an answer: thoughts, code fences, lead-ins, remarks, marks.

Only text that is certainly not part of the answer is removed; what may be part of it stays, and the reply then fails
its format. Everything takes time linear in the text.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import json5

from factmill.tasks.text.sanitize import MAX_JSON_DEPTH, exceeds_json_depth

_THINKING_TAG_NAMES = "think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad"
_THOUGHT = re.compile(
    rf"(?P<close></(?:{_THINKING_TAG_NAMES})>|◁/think▷|\[/THINK\])|<(?:{_THINKING_TAG_NAMES})>|◁think▷|\[THINK\]",
    re.IGNORECASE,
)
_CHANNEL, _FINAL_CHANNEL_TOKENS = "<|channel|>", "<|channel|>final<|message|>"
_ENDS = ("<|end|>", "<|return|>", "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "</s>")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w-]*[ \t\r]*$", re.MULTILINE)

_AFFIRMATIONS = "sure(?: thing)?|certainly|of course|absolutely|okay|ok|alright|got it|understood"
_LEAD_IN = re.compile(
    rf"(?:(?:{_AFFIRMATIONS})\b[.!]?$|(?:{_AFFIRMATIONS}|great|here (?:is|are|you|it|they)|here[’']s|below (?:is|are)|the following"
    r"|(?:my |the )?(?:final )?(?:answer|reply|response|output)s?\b)[^\n]*[:!：]$)",
    re.IGNORECASE,
)
_EXPLANATION_HEADING = re.compile(
    r"[\s*_(\[>#-]*(?:(?:brief|short|further) )?(?:explanation|rationale|reasoning|justification|sources?|references?|confidence)"
    r"[ \t]*(?:[*_]{0,3}[:：]|[*_)\]]*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that opens a section about the answer."""
_OWN_WORK_REMARK = re.compile(
    r"[\s*_(\[>-]*(?:i(?:['’]ve| have)? (?:only )?(?:added|marked|kept|written|wrote|used|annotated|included|left|made|copied)\b"
    r"|(?:this|the) (?:(?:new|added|last|above) )*(?:paragraph|sentence|question|text|version) (?:adds|tells|states|names|asks|covers|marks|keeps|uses|was|is|has)\b)",
    re.IGNORECASE,
)
"""A model's remark on its own work after it; a text about other things has no such wording."""
_REMARK_OPENING = re.compile(
    rf"{_EXPLANATION_HEADING.pattern}|"
    r"[\s*_(\[>-]*(?:let me know|i hope|hope (?:this|that|it)|feel free|please (?:let me|note|tell|feel)|if you (?:need|have|want|would|like)"
    r"|is there anything|would you like|do you (?:want|need)|note(?: that)?\b[:,]?|n\.b\.|happy to|glad to|done[.!])",
    re.IGNORECASE | re.MULTILINE,
)
_RETRACTION_WORD = re.compile(
    r"\b(?:wait|actually|correction|corrected|second thoughts?|sorry|mistake|mistaken|oops|revised|should (?:be|have)|wrong|or else)\b",
    re.IGNORECASE,
)
"""A remark with such a word may retract the answer, so it is kept."""
_RETRACTION_OPENING = re.compile(
    r"^[^\w\n]*(?:wait|hmm+|actually|correction|oops|scratch that|on second thoughts?|no, (?:wait|sorry)|sorry)\b[ \t]*[,.:;!…–—-]",
    re.IGNORECASE | re.MULTILINE,
)
_CONCLUSION_OPENING = re.compile(
    r"^[^\w\n]*(?:(?:so|thus|therefore|hence|overall|in short)\b|(?:the |my )?(?:final )?(?:answer|conclusion|verdict|result)s?\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""An explanation with such a line leads up to the answer rather than away from it."""
_ANSWER_TAG = re.compile(
    r"<(answer|final|final_answer|output|response|result|results|reply|solution|final_response|final_result)>",
    re.IGNORECASE,
)
_ANSWER_HEADING = re.compile(
    r"(?:#{1,6}[ \t]*+[*_]{0,3}+|(?P<mark>[*_]{2,3}))[ \t]*+(?:(?:the|my) )?(?P<final>final )?"
    r"(?:answer|result|output|reply|response|verdict|rating|grade|levels|answers)s?"
    r"[ \t]*+[:：]?+[ \t]*+[*_]{0,3}+[ \t]*+[:：]?+[ \t]*+",
    re.IGNORECASE,
)
"""A heading on its own line above an answer; after `mark` it is bold."""
_TURN_TOKEN = re.compile(
    r"<\|(?:im_start|user|start_header_id|start|begin_of_text)\|>|<start_of_turn>|\[INST\]|<\|(?:im_end|eot_id|end|endoftext)\|>"
)
_TURN_LINE = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*(?:user|human|instructions?|input)[ \t]*+:?+[ \t]*$|[*_]{0,2}(?:user|human)[*_]{0,2}[ \t]*:"
    r"|(?P<asks>#{1,6}[ \t]*question[ \t]*+:?+[ \t]*$|[*_]{0,2}(?:q|question)[*_]{0,2}[ \t]*:))",
    re.IGNORECASE | re.MULTILINE,
)
_REASONING_OPENING = re.compile(
    r"\W*(?:(?:let|i|we|to|first|here|okay|ok|sure|so|now|the question|question|q|given)\b|restat)", re.IGNORECASE
)
_CITATION_MARKS = re.compile(
    r"(?<=[^\s:=|\[(])[ \t]*(?:\[\^?[0-9]{1,3}(?:, ?[0-9]{1,3}){0,9}\]|【[^】\n]{1,60}】)(?=[ \t]*(?:[\[【.,;:!?]|$))",
    re.MULTILINE,
)
_EMOJI_RANGES = "\U0001f000-\U0001faff\u2600-\u27bf\u2b05-\u2b55\ufe0f\u200d\u20e3"
_SURROUNDING_EMOJI = re.compile(rf"^[{_EMOJI_RANGES}\s]+|(?<![{_EMOJI_RANGES}\s])[{_EMOJI_RANGES}\s]+$")
_STRING_OR_COMMENT = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
JSON5_MAX_CHARACTERS = 20_000
"""Most characters of an object read as JSON5, whose parser is about a thousand times slower than that of JSON."""

_LIST_MARK = re.compile(r"[ \t]*(?:>[ \t]*|#{1,6}[ \t]+|[-*+•·–—][ \t]+)+")
_EMPHASIS = tuple((mark, mark) for mark in ("***", "**", "__", "*", "_", "```", "`"))
_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("'", "'"), ("‘", "’"))
_OPENING_MARKS = frozenset(left[0] for left, _ in (*_EMPHASIS, *_QUOTES))
_ZERO_DIGITS = "٠۰߀०০੦૦୦௦౦೦൦෦๐໐༠၀០᠐０"
"""The digits of each script follow its zero in order."""
_FULL_WIDTH_FOLDING: dict[int, str] = {
    **{ord(wide): plain for wide, plain in zip("：．，；！？（）／＝｛｝［］", ":.,;!?()/={}[]", strict=True)},
    **{ord(zero) + digit: str(digit) for zero in _ZERO_DIGITS for digit in range(10)},
}
_JSON_STRING_OR_WIDE_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[：，｛｝［］]')


class MalformedJsonObject(Exception):
    """No JSON object can be read; the text tells the problem. Caught where reading begins."""


def strip_thinking_and_end_tokens(text: str) -> str:
    """Return the text outside thoughts; empty where a thought never ends.

    A closing tag without an opening one ends a thought that began with the text, since some servers open it in their
    template. A thought that opens after other words and never closes leaves the text unchanged.
    """
    if _FINAL_CHANNEL_TOKENS in text:
        text = text.rpartition(_FINAL_CHANNEL_TOKENS)[2]
    elif text.lstrip().startswith(_CHANNEL):
        return ""
    kept: list[str] = []
    at, thinks = 0, False
    for mark in _THOUGHT.finditer(text):
        if mark["close"]:
            if not thinks:
                kept.clear()
            thinks, at = False, mark.end()
        elif not thinks:
            kept.append(text[at : mark.start()])
            thinks = True
    if thinks:
        return text if any(map(str.strip, kept)) else ""
    remaining = "".join([*kept, text[at:]])
    while (bare := remaining.rstrip()).endswith(_ENDS):
        remaining = bare[: bare.rindex("<")]
    return strip_answer_tags(remaining, must_be_alone=True)


def strip_answer_tags(text: str, *, must_be_alone: bool) -> str:
    """Return the content of the only pair of answer tags; unless it `must_be_alone`, a lead-in or remark may surround it."""
    opened = _ANSWER_TAG.search(text)
    if not opened:
        return text
    closes = list(re.finditer(rf"</{opened[1]}>", text, re.IGNORECASE))
    if len(closes) != 1 or closes[0].start() < opened.end():
        return text
    if _ANSWER_TAG.search(text, opened.end(), closes[0].start()):
        return text
    before, after = text[: opened.start()].strip().splitlines(), text[closes[0].end() :].strip().splitlines()
    if must_be_alone and (before or after):
        return text
    announces = not before or (len(before) == 1 and (before[0].endswith((":", "：")) or _LEAD_IN.match(before[0])))
    return (
        text[opened.end() : closes[0].start()]
        if announces and is_trailing_remark(after, has_blank_line_between=False)
        else text
    )


def strip_invented_turns(text: str, *, by_question: bool) -> str:
    """Return a reply without turns of others that the model invented after its own.

    A token of a chat template ends the reply, and so does a line such as `User:` or `### Input`. With `by_question`, a
    line `### Question`, `Question:` or `Q:` ends it too, but only after a single paragraph that is no announcement,
    since a model may repeat the question first.
    """
    token = next((found.start() for found in _TURN_TOKEN.finditer(text) if text[: found.start()].strip()), len(text))
    text = text[:token]
    opened = len(text) - len(text.lstrip())
    for found in _TURN_LINE.finditer(text):
        if found["asks"] and not by_question:
            continue
        if found.start() <= opened:
            return text
        before = text[opened : found.start()]
        if not found["asks"]:
            return text[: found.start()]
        is_answer = "\n\n" not in before.strip() and not before.rstrip().endswith((":", "："))
        return text[: found.start()] if is_answer and not _REASONING_OPENING.match(before) else text
    return text


def keep_final_answer_section(text: str) -> str:
    """Return the text below the heading `Final answer` of a reply; the reply itself without exactly one."""
    lines = text.splitlines()
    headings = (_ANSWER_HEADING.fullmatch(line.strip()) for line in lines)
    at = [number for number, heading in enumerate(headings) if heading and heading["final"]]
    below = "\n".join(lines[at[0] + 1 :]) if len(at) == 1 else ""
    return below if below.strip() else text


def strip_citation_marks(text: str) -> str:
    """Return a text without citation marks after its statements: `[1][2]`, `【3†source】`."""
    return _CITATION_MARKS.sub("", text)


def strip_surrounding_emoji(text: str) -> str:
    """Return a text without leading and trailing emoji; the text itself where it has no other characters."""
    return _SURROUNDING_EMOJI.sub("", text) or text


def retracts_verdict(lines: Sequence[str]) -> bool:
    """True when lines after a verdict begin to retract it: "Wait, …", "Actually, …"."""
    return bool(_RETRACTION_OPENING.search("\n".join(lines)))


def is_explanation_heading(line: str) -> bool:
    """True for a line that opens a section about the answer: `Explanation: …`."""
    return bool(_EXPLANATION_HEADING.match(line))


def parse_markdown_tables(lines: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the rows of Markdown tables (with bars at both ends) with their line numbers; `()` is a separator."""
    rows: list[tuple[int, tuple[str, ...]]] = []
    for number, line in enumerate(lines):
        bare = line.strip()
        if len(bare) < 3 or not bare.startswith("|") or not bare.endswith("|") or bare.endswith("\\|"):
            continue
        cells = [cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", bare[1:-1])]
        is_separator = all(re.fullmatch(r":?-+:?", cell) for cell in cells)
        rows.append((number, () if is_separator else tuple(cells)))
    return rows


def blank_code_fence_lines(text: str) -> str:
    """Return a text with the lines of code fences made blank."""
    return _FENCE.sub("", text)


def fold_punctuation_and_digits(text: str) -> str:
    """Return a text with full-width punctuation and digits replaced one for one by plain ones."""
    return text.translate(_FULL_WIDTH_FOLDING)


def strip_leading_markdown_marks(line: str) -> str:
    """Return a line without its leading bullets, quote marks and heading marks."""
    mark = _LIST_MARK.match(line)
    return line[mark.end() :] if mark else line


def strip_surrounding_emphasis_and_quotes(text: str, *, quotes: bool) -> str:
    """Return a text without emphasis (with `quotes`: and quotes) around the whole of it; apostrophes are not quotes.

    Where such marks enclose a part of it too ("Note G" and "Notes"), nothing is removed.
    """
    if text[:1] not in _OPENING_MARKS:
        return text
    for left, right in (*_EMPHASIS, *(_QUOTES if quotes else ())):
        inner = text[len(left) : -len(right)].strip()
        if text.startswith(left) and text.endswith(right) and inner:
            marks = "|".join(map(re.escape, {left, right}))
            # an apostrophe within a word, or after a plural s, closes nothing
            plain = re.sub(r"(?<=s)['’](?=\s)", "", inner) if left in "'‘" else inner
            if not re.search(rf"(?<!\w)(?:{marks})|(?:{marks})(?!\w)", plain):
                return strip_surrounding_emphasis_and_quotes(inner, quotes=quotes)
    return text


def is_lead_in(lines: Sequence[str], *, has_blank_line_between: bool) -> bool:
    """True when lines before an answer only announce it."""
    filled = [line.strip() for line in lines if line.strip()]
    if not filled or has_blank_line_between or filled[-1].rstrip("*_").endswith((":", "：")):
        return True
    return bool(_LEAD_IN.match(filled[-1]) or _ANSWER_HEADING.fullmatch(filled[-1]))


def is_trailing_remark(lines: Sequence[str], *, has_blank_line_between: bool) -> bool:
    """True when lines after an answer are not part of it, and do not retract it."""
    remark = "\n".join(lines).strip()
    is_about = has_blank_line_between or _REMARK_OPENING.match(remark) or _OWN_WORK_REMARK.match(remark)
    return not remark or (bool(is_about) and not _RETRACTION_WORD.search(remark))


def strip_lead_in_and_remarks(lines: Sequence[str], *, last_counts: bool = False) -> tuple[list[str], set[str]]:
    """Return the lines of a free answer without an announcement before it and remarks after it, and the kinds removed.

    `last_counts`: the answer ends a line of thought, so an explanation may contain it and stays.
    """
    kept = [line.rstrip() for line in lines]
    dropped = set()
    while kept:
        announces = _LEAD_IN.match(strip_leading_markdown_marks(kept[0]).strip("*_ ")) or _ANSWER_HEADING.fullmatch(
            kept[0].strip()
        )
        if kept[0] and not (announces and any(kept[1:])):
            break
        dropped |= {"lead_in"} if kept[0] else set()
        del kept[0]
    about = next((at for at, line in enumerate(kept) if at and is_explanation_heading(line)), len(kept))
    rest = "\n".join(kept[about:])
    may_answer = last_counts or _RETRACTION_WORD.search(rest) or _CONCLUSION_OPENING.search(rest)
    if rest and any(kept[:about]) and not may_answer:
        dropped.add("remark")
        del kept[about:]
    first = next((at for at, line in enumerate(kept) if line), len(kept))
    while last := next((at for at in range(len(kept) - 1, first, -1) if kept[at]), 0):
        # the last paragraph where it opens like a remark, else the last line
        start = next((at + 1 for at in range(last, -1, -1) if not kept[at]), 0)
        start = start if _REMARK_OPENING.match(kept[start]) else last
        if start <= first or not _REMARK_OPENING.match(kept[start]) or _RETRACTION_WORD.search("\n".join(kept[start:])):
            break
        if is_explanation_heading(kept[start]):
            break
        dropped.add("remark")
        del kept[start:]
    return kept, dropped


def find_single_json_object_text(
    text: str, other_format_opening: re.Pattern[str] | None = None
) -> tuple[str, set[str]] | None:
    """Return the text of a reply's only JSON object, and the kinds removed; None if uncertain or of another format."""
    dropped = set()
    folded = text
    try:
        _decode_first_json_object(text)
    except MalformedJsonObject:
        folded = _JSON_STRING_OR_WIDE_MARK.sub(
            lambda found: found[0] if found[0][0] == '"' else fold_punctuation_and_digits(found[0]), text
        )
        dropped = {"full_width"} if folded != text else set()
    try:
        _, start, end = _decode_first_json_object(folded)
        found = folded[start:end]
    except MalformedJsonObject:
        relaxed = _decode_json5_object(text)
        if relaxed is None:
            return None
        folded, (value, start, end) = text, relaxed
        found, dropped = json.dumps(value, ensure_ascii=False), {"json5"}
    before, after = folded[:start].strip(), folded[end:].strip()
    if "{" in after or _RETRACTION_WORD.search(after) or (other_format_opening and other_format_opening.search(before)):
        return None
    dropped |= {kind for kind, around in (("lead_in", before), ("remark", after)) if around}
    return found, dropped


def _decode_json5_object(text: str) -> tuple[dict[str, Any], int, int] | None:
    """Return the first object and its span, read as JSON5 (comments, single quotes, trailing commas); None for none.

    A truncated object has no end, so it is never read. A comment that retracts something makes the meaning unclear.
    """
    start = text.find("{")
    if start < 0 or text.count("{", start) > MAX_JSON_DEPTH:
        return None
    try:
        value, error, size = json5.parse(
            text[start : start + JSON5_MAX_CHARACTERS],
            object_pairs_hook=_build_unique_key_dict,
            parse_int=_parse_integer_as_float,
            consume_trailing=False,
        )
    except (MalformedJsonObject, RecursionError, ValueError, OverflowError):
        return None
    if error is not None or not isinstance(value, dict) or exceeds_json_depth(value):
        return None
    end = start + size
    comments = (found["comment"] or "" for found in _STRING_OR_COMMENT.finditer(text, start, end))
    return None if any(map(_RETRACTION_WORD.search, comments)) else (value, start, end)


def _parse_integer_as_float(digits: str, base: int = 10) -> float:
    return float(digits) if base == 10 else float(int(digits, base))


def parse_only_json_object_ending_text(text: str) -> dict[str, Any]:
    """Parse the only JSON object in a text; MalformedJsonObject names the problem. Integers come as floats."""
    value, _, end = _decode_first_json_object(text)
    if "{" in text[end:]:
        raise MalformedJsonObject("more than one JSON object stands in it, expected one")
    if text[end:].strip():
        raise MalformedJsonObject(
            f"text stands behind the JSON object: {text[end:].strip()[:40]!r}, expected nothing there"
        )
    return value


def _decode_first_json_object(text: str) -> tuple[dict[str, Any], int, int]:
    """Return the first object and its span."""
    start = text.find("{")
    if start < 0:
        raise MalformedJsonObject("there is no JSON object in it")
    try:
        # as floats, since int() refuses very long numbers
        value, end = json.JSONDecoder(object_pairs_hook=_build_unique_key_dict, parse_int=float).raw_decode(text, start)
        if text.count("[", start, end) + text.count("{", start, end) > MAX_JSON_DEPTH and exceeds_json_depth(value):
            raise RecursionError
    except json.JSONDecodeError as error:
        around = text[max(start, error.pos - 20) : error.pos + 20]
        raise MalformedJsonObject(f"the JSON is broken near {around!r}: {error.msg}") from error
    except RecursionError as error:
        raise MalformedJsonObject("the JSON is nested too deeply, expected one object as described") from error
    return value, start, end


def _build_unique_key_dict(key_values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    pairs = list(key_values)
    value = dict(pairs)
    if len(value) < len(pairs):
        doubled, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise MalformedJsonObject(f"the key {doubled!r} stands twice in one object")
    return value
