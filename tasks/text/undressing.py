"""What models put around an answer, and how it is taken off: thoughts, fences, lead-ins, remarks, marks.

Only what surely is none of the answer goes; what may be a part of it stays, and the reply is then not in its format. All
of this takes time linear in the text.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tasks.text.whole import MOST_DEEP, is_too_deep

_THOUGHTS = "think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad"
_THOUGHT = re.compile(
    rf"(?P<close></(?:{_THOUGHTS})>|◁/think▷|\[/THINK\])|<(?:{_THOUGHTS})>|◁think▷|\[THINK\]", re.IGNORECASE
)
_CHANNEL, _FINAL = "<|channel|>", "<|channel|>final<|message|>"
_END = re.compile(r"(?:(?:<\|(?:end|return|im_end|eot_id|endoftext)\|>|</s>)\s*)+$")
_ANSWER = re.compile(r"\s*<(answer|final|final_answer|output|response)>(.*)</\1>\s*", re.IGNORECASE | re.DOTALL)
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w-]*[ \t\r]*$", re.MULTILINE)

_OPENERS = "sure(?: thing)?|certainly|of course|absolutely|okay|ok|alright|got it|understood"
_LEAD_IN = re.compile(
    rf"(?:(?:{_OPENERS})\b[.!]?$|(?:{_OPENERS}|great|here (?:is|are|you|it|they)|here[’']s|below (?:is|are)|the following"
    r"|(?:my |the )?(?:final )?(?:answer|reply|response|output)s?\b)[^\n]*[:!：]$)",
    re.IGNORECASE,
)
_REMARK = re.compile(
    r"[\s*_(\[>-]*(?:let me know|i hope|hope (?:this|that|it)|feel free|please (?:let me|note|tell|feel)|if you (?:need|have|want|would|like)"
    r"|is there anything|would you like|do you (?:want|need)|note(?: that)?\b[:,]?|n\.b\.|happy to|glad to|done[.!])",
    re.IGNORECASE,
)
_RETRACTS = re.compile(
    r"\b(?:wait|actually|correction|corrected|second thoughts?|sorry|mistake|mistaken|oops|revised|should (?:be|have)|wrong|or else)\b",
    re.IGNORECASE,
)
"""A remark with such a word may take the answer back, so it is not passed over."""

_LIST_MARK = re.compile(r"[ \t]*(?:>[ \t]*|#{1,6}[ \t]+|[-*+•·–—][ \t]+)+")
_EMPHASIS = tuple((mark, mark) for mark in ("***", "**", "__", "*", "_", "```", "`"))
_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("'", "'"), ("‘", "’"))
_OPENING = frozenset(left[0] for left, _ in (*_EMPHASIS, *_QUOTES))
_WIDE = str.maketrans("：．，；！？（）／＝｛｝［］０１２３４５６７８９", ":.,;!?()/={}[]0123456789")
_JSON_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[：，｛｝［］]')


class BrokenObject(Exception):
    """No JSON object can be read; says what is wrong. Caught where reading begins."""


def drop_thoughts(text: str) -> str:
    """Return what is said outside thoughts; empty where a thought never ends.

    Where only the end of a thought stands there, all before it was thought: some servers open it in their template. A
    thought that is opened behind words and never closed leaves the text as it is.
    """
    if _FINAL in text:
        text = text.rpartition(_FINAL)[2]
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
    said = _END.sub("", "".join([*kept, text[at:]]))
    answer = _ANSWER.fullmatch(said)
    return answer[2] if answer else said


def drop_fences(text: str) -> str:
    """Return a text with the lines of code fences made blank."""
    return _FENCE.sub("", text)


def fold_wide(text: str) -> str:
    """Return a text with full-width punctuation and digits made plain, each in its place."""
    return text.translate(_WIDE)


def drop_list_mark(line: str) -> str:
    """Return a line without the bullets, quote marks and heading marks that it begins with."""
    mark = _LIST_MARK.match(line)
    return line[mark.end() :] if mark else line


def unwrap(text: str, *, quotes: bool) -> str:
    """Return a text without emphasis, and without quotes, around the whole of it; apostrophes are none.

    Where such marks stand around a part of it too ("Note G" and "Notes"), nothing is taken off.
    """
    if text[:1] not in _OPENING:
        return text
    for left, right in (*_EMPHASIS, *(_QUOTES if quotes else ())):
        inner = text[len(left) : -len(right)].strip()
        if text.startswith(left) and text.endswith(right) and inner:
            marks = "|".join(map(re.escape, {left, right}))
            # an apostrophe within a word, or behind the s of a plural, closes nothing
            plain = re.sub(r"(?<=s)['’](?=\s)", "", inner) if left in "'‘" else inner
            if not re.search(rf"(?<!\w)(?:{marks})|(?:{marks})(?!\w)", plain):
                return unwrap(inner, quotes=quotes)
    return text


def is_lead_in(lines: Sequence[str], *, is_parted: bool) -> bool:
    """True when lines before an answer only announce it; `is_parted`: a blank line stands between them and it."""
    said = [line.strip() for line in lines if line.strip()]
    return not said or is_parted or said[-1].rstrip("*_").endswith((":", "：")) or bool(_LEAD_IN.match(said[-1]))


def is_remark(lines: Sequence[str], *, is_parted: bool) -> bool:
    """True when lines behind an answer are none of it, and do not take it back."""
    said = "\n".join(lines).strip()
    return not said or ((is_parted or bool(_REMARK.match(said))) and not _RETRACTS.search(said))


def drop_around(lines: Sequence[str]) -> tuple[list[str], set[str]]:
    """Return the lines of a free answer without a line that announces it and remarks behind it, and what was dropped."""
    kept = [line.rstrip() for line in lines]
    dropped = set()
    while kept and (not kept[0] or (any(kept[1:]) and _LEAD_IN.match(drop_list_mark(kept[0]).strip("*_ ")))):
        dropped |= {"lead_in"} if kept[0] else set()
        del kept[0]
    while len(said := [at for at, line in enumerate(kept) if line]) > 1:
        # the last paragraph, or the last line where that opens like a remark
        start = next((at + 1 for at in range(said[-1], -1, -1) if not kept[at]), 0)
        start = start if _REMARK.match(kept[start]) else said[-1]
        if start <= said[0] or not _REMARK.match(kept[start]) or _RETRACTS.search("\n".join(kept[start:])):
            break
        dropped.add("remark")
        del kept[start:]
    return kept, dropped


def find_object(text: str, one_line: re.Pattern[str] | None = None) -> tuple[str, set[str]] | None:
    """Return the text of the one JSON object of a reply and what was dropped around it; None where there is none for sure.

    `one_line`: what opens another form of the reply; where that stands before the first brace, braces are none of JSON.
    """
    dropped = set()
    folded = text
    if not _is_json(text):
        folded = _JSON_MARKS.sub(lambda found: found[0] if found[0][0] == '"' else fold_wide(found[0]), text)
        dropped = {"full_width"} if folded != text else set()
    try:
        _, start, end = _decode(folded)
    except BrokenObject:
        return None
    before, after = folded[:start].strip(), folded[end:].strip()
    if "{" in after or _RETRACTS.search(after) or (one_line and one_line.search(before)):
        return None
    dropped |= {kind for kind, around in (("lead_in", before), ("remark", after)) if around}
    return folded[start:end], dropped


def parse_object(text: str) -> dict[str, Any]:
    """Return the one JSON object in a text; BrokenObject with what is wrong. Whole numbers come as floats."""
    value, _, end = _decode(text)
    if "{" in text[end:]:
        raise BrokenObject("more than one JSON object stands in it, expected one")
    if text[end:].strip():
        raise BrokenObject(f"text stands behind the JSON object: {text[end:].strip()[:40]!r}, expected nothing there")
    return value


def _is_json(text: str) -> bool:
    try:
        _decode(text)
    except BrokenObject:
        return False
    return True


def _decode(text: str) -> tuple[dict[str, Any], int, int]:
    """Return the first object with its place."""
    start = text.find("{")
    if start < 0:
        raise BrokenObject("there is no JSON object in it")
    try:
        # whole numbers of any length, which int() refuses
        value, end = json.JSONDecoder(object_pairs_hook=_take_pairs, parse_int=float).raw_decode(text, start)
        if text.count("[", start, end) + text.count("{", start, end) > MOST_DEEP and is_too_deep(value):
            raise RecursionError
    except json.JSONDecodeError as error:
        around = text[max(start, error.pos - 20) : error.pos + 20]
        raise BrokenObject(f"the JSON is broken near {around!r}: {error.msg}") from error
    except RecursionError as error:
        raise BrokenObject("the JSON is nested too deeply, expected one object as described") from error
    return value, start, end


def _take_pairs(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        doubled, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise BrokenObject(f"the key {doubled!r} stands twice in one object")
    return value
