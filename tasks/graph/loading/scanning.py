"""Fast scanner for the lines that make up most of a truthy dump: one pass over their bytes, compiled by numba.

It handles lines in canonical form of unambiguous kinds: edges, texts without escapes, dates and numbers of direct
claims, times of change, and well-formed triples that a graph does not use. Each goes where the regular expressions of
tasks/graph/loading/line_patterns.py would send it; all other lines, and terms in unusual spelling, are left to those. A line
costs less than half as much as there, and Python's global lock is released.

Helpers take a block's bytes, a start and a stop.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from factmill.tasks.graph.loading.compiling import compile_inline, compile_kernel
from factmill.tasks.graph.loading.staging_rows import StagedRowsAndCounts

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]


def _to_byte_array(text: bytes) -> Bytes:
    return np.frombuffer(text, np.uint8)


def _make_byte_flag_table(characters: bytes) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(256), _to_byte_array(characters))


_LETTERS = bytes(range(ord("A"), ord("Z") + 1)) + bytes(range(ord("a"), ord("z") + 1))
_IS_LETTER, _IS_WORD = _make_byte_flag_table(_LETTERS), _make_byte_flag_table(_LETTERS + b"0123456789")
_IS_SCHEME = _make_byte_flag_table(_LETTERS + b"0123456789+.-")
_IS_IRI = ~_make_byte_flag_table(bytes(range(0x21)) + b'<>"{}|^`\\')
_QUOTE, _BACKSLASH, _SPACE, _OPEN, _CLOSE, _DOT = (ord(each) for each in '"\\ <>.')
_ZERO, _NINE, _MINUS, _PLUS, _COLON, _AT, _CARET = (ord(each) for each in "09-+:@^")
_RETURN, _UNDERSCORE, _T, _Z = (ord(each) for each in "\r_TZ")


@compile_inline
def _has_prefix(data: Bytes, at: int, stop: int, text: Bytes) -> bool:
    if at + len(text) > stop:
        return False
    nth = 0
    while nth < len(text) and data[at + nth] == text[nth]:
        nth += 1
    return nth == len(text)


@compile_inline
def _equals_bytes(data: Bytes, at: int, stop: int, text: Bytes) -> bool:
    return stop - at == len(text) and _has_prefix(data, at, stop, text)


@compile_inline
def _skip_digits(data: Bytes, at: int, stop: int) -> int:
    while at < stop and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


@compile_inline
def _parse_id_number(data: Bytes, at: int, stop: int, max_digits: int) -> int:
    """Parse data[at:stop] as a number of at most `most` digits without leading zero; -1 if it is not one."""
    if stop <= at or stop - at > max_digits or data[at] == _ZERO or _skip_digits(data, at, stop) != stop:
        return -1
    number = 0
    for place in range(at, stop):
        number = 10 * number + int(np.int64(data[place]) - _ZERO)
    return number


@compile_inline
def _find_iri_end(data: Bytes, at: int, stop: int) -> int:
    """Return the end of the absolute IRI that starts at `at`, after its bracket; -1 if there is none."""
    if at >= stop or data[at] != _OPEN:
        return -1
    at += 1
    if at >= stop or not _IS_LETTER[data[at]]:
        return -1
    while at < stop and _IS_SCHEME[data[at]]:
        at += 1
    if at >= stop or data[at] != _COLON:
        return -1
    while at < stop and _IS_IRI[data[at]]:
        at += 1
    return at + 1 if at < stop and data[at] == _CLOSE else -1


@compile_inline
def _is_language_tag(data: Bytes, at: int, stop: int) -> bool:
    """True for a language tag: letters, then letters and digits after each hyphen."""
    first, length = True, 0
    for place in range(at, stop):
        if data[place] == _MINUS:
            if not length:
                return False
            first, length = False, 0
        elif _IS_LETTER[data[place]] or (not first and _IS_WORD[data[place]]):
            length += 1
        else:
            return False
    return length > 0


@compile_inline
def _is_two_digit_number(data: Bytes, at: int, highest: int) -> bool:
    """True for two digits that make a number up to `highest`."""
    tens, ones = int(np.int64(data[at]) - _ZERO), int(np.int64(data[at + 1]) - _ZERO)
    return 0 <= tens <= 9 and 0 <= ones <= 9 and 10 * tens + ones <= highest


@compile_inline
def _is_date_time(data: Bytes, at: int, stop: int) -> bool:
    """True for a date and time with a year of 4 to 14 digits; longer years are left to the expressions."""
    if at < stop and (data[at] == _MINUS or data[at] == _PLUS):
        at += 1
    year = _skip_digits(data, at, stop) - at
    at += year
    if year < 4 or year > 14 or stop - at < 15:
        return False
    is_date = data[at] == _MINUS and data[at + 3] == _MINUS and data[at + 6] == _T
    return (
        is_date
        and (data[at + 9] == _COLON and data[at + 12] == _COLON)
        and (_is_two_digit_number(data, at + 1, 12) and _is_two_digit_number(data, at + 4, 31))
        and (_is_two_digit_number(data, at + 7, 99) and _is_two_digit_number(data, at + 10, 99))
        and (_is_two_digit_number(data, at + 13, 99) and _is_optional_fraction_and_time_zone(data, at + 15, stop))
    )


@compile_inline
def _is_optional_fraction_and_time_zone(data: Bytes, at: int, stop: int) -> bool:
    """True for a valid text after a time's seconds: a fraction, a zone, both or nothing."""
    if at < stop and data[at] == _DOT:
        end = _skip_digits(data, at + 1, stop)
        at = end if end > at + 1 else stop + 1
    if at >= stop:
        return at == stop
    if data[at] == _Z:
        return at + 1 == stop
    is_zone = (data[at] == _PLUS or data[at] == _MINUS) and stop - at == 6 and data[at + 3] == _COLON
    return is_zone and _is_two_digit_number(data, at + 1, 99) and _is_two_digit_number(data, at + 4, 99)


@compile_inline
def _is_decimal(data: Bytes, at: int, stop: int) -> bool:
    if at < stop and (data[at] == _MINUS or data[at] == _PLUS):
        at += 1
    end = _skip_digits(data, at, stop)
    digits = end - at
    if end < stop and data[end] == _DOT:
        at = end + 1
        end = _skip_digits(data, at, stop)
        digits += end - at
    return end == stop and digits > 0


@compile_inline
def _is_kept_language(data: Bytes, at: int, stop: int, tags: Bytes, ends: Places) -> bool:
    """True if a language tag, ignoring its case, is one of the given lower-case tags."""
    begin = 0
    for end in ends:
        if end - begin == stop - at:
            same = True
            for nth in range(stop - at):
                character = data[at + nth]
                if ord("A") <= character <= ord("Z"):
                    character += 32
                same &= character == tags[begin + nth]
            if same:
                return True
        begin = end
    return False


@compile_inline
def _find_end_of_unescaped_literal(data: Bytes, at: int, stop: int) -> int:
    """Return the position of the closing quote of a literal without escapes; -1 if there is none."""
    at += 1
    while at < stop and data[at] != _QUOTE:
        if data[at] == _BACKSLASH or data[at] == _RETURN:
            return -1
        at += 1
    return at if at < stop else -1


_ITEM_PREFIX, _DIRECT_PREFIX, _PROP_PREFIX = (
    _to_byte_array(b"<http://www.wikidata.org/" + rest) for rest in (b"entity/Q", b"prop/direct/P", b"prop/P")
)
_ENTITY_PREFIX, _VALUE_NODE_PREFIX, _ARTICLE_PREFIX = (
    _to_byte_array(b"<http" + rest)
    for rest in (b"://www.wikidata.org/entity/", b"://www.wikidata.org/value/", b"s://en.wikipedia.org/wiki/")
)
"""Prefixes of subjects whose kept lines are not scanned, since they are rare or occur only in full dumps."""
_DATA_PAGE_HTTPS, _DATA_PAGE_HTTP = (
    _to_byte_array(scheme + b"://www.wikidata.org/wiki/Special:EntityData/Q") for scheme in (b"<https", b"<http")
)
_GENID_PREFIX = _to_byte_array(b"<http://www.wikidata.org/.well-known/genid/")
_LABEL = _to_byte_array(b"<http://www.w3.org/2000/01/rdf-schema#label>")
_ALIAS = _to_byte_array(b"<http://www.w3.org/2004/02/skos/core#altLabel>")
_DESCRIPTION = _to_byte_array(b"<http://schema.org/description>")
_MODIFIED = _to_byte_array(b"<http://schema.org/dateModified>")
_SAME_AS = _to_byte_array(b"<http://www.w3.org/2002/07/owl#sameAs>")
_DATE_TIME = _to_byte_array(b"<http://www.w3.org/2001/XMLSchema#dateTime>")
_DECIMAL = _to_byte_array(b"<http://www.w3.org/2001/XMLSchema#decimal>")
Int64Table = npt.NDArray[np.int64]
Spans = npt.NDArray[np.int32]

_UNRECOGNISED, _EDGE, _TEXT, _VALUE, _CHANGE, _UNKEPT = range(6)
"""Codes of what is done with a line."""
_ITEM, _IRI, _PLAIN, _TAGGED, _TYPED, _DATE_LITERAL, _NUMBER = range(1, 8)
"""Kinds of objects."""
_SCANNED_TEXT_TABLES = ("labels", "aliases", "descriptions")
_SLOTS = 1 << 13
_MAX_USED_SLOTS = 6_000
"""Largest number of distinct predicates counted in a block; lines with further ones are left."""


@compile_inline
def _find_predicate_slot(data: Bytes, at: int, stop: int, mark: int, slots: Int64Table, used: int) -> int:
    """Return the slot of a predicate with a mark, a free slot for a new pair; -1 if too many are used."""
    key = np.uint64(mark * 31 + stop - at)
    # predicates of one vocabulary differ at their ends
    for place in range(max(at, stop - 12), stop):
        key = (key ^ np.uint64(data[place])) * np.uint64(1099511628211)
    slot = int(np.int64((key >> np.uint64(20)) & np.uint64(_SLOTS - 1)))
    while slots[slot, 3]:
        begin = slots[slot, 0]
        if slots[slot, 2] == mark and slots[slot, 1] - begin == stop - at:
            same = True
            for nth in range(stop - at):
                if data[begin + nth] != data[at + nth]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & (_SLOTS - 1)
    return slot if used < _MAX_USED_SLOTS else -1


@compile_inline
def _find_subject_end_and_item(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return a subject's end (-1: leave the line) and the number of its item, or -1."""
    if _has_prefix(data, at, stop, _ITEM_PREFIX):
        end = _skip_digits(data, at + len(_ITEM_PREFIX), stop)
        item = _parse_id_number(data, at + len(_ITEM_PREFIX), end, 18)
        if item < 0 or end >= stop or data[end] != _CLOSE:
            return -1, -1
        return end + 1, item
    if (
        _has_prefix(data, at, stop, _ENTITY_PREFIX)
        or _has_prefix(data, at, stop, _VALUE_NODE_PREFIX)
        or _has_prefix(data, at, stop, _ARTICLE_PREFIX)
    ):
        return -1, -1
    return _find_iri_end(data, at, stop), -1


@compile_inline
def _classify_iri_as_item_or_other(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return the kind of an object in brackets (`_UNRECOGNISED` if it is not an IRI) and the number of an item."""
    if _has_prefix(data, at, stop, _ITEM_PREFIX) and data[stop - 1] == _CLOSE:
        item = _parse_id_number(data, at + len(_ITEM_PREFIX), stop - 1, 18)
        if item >= 0:
            return _ITEM, item
    return (_IRI, 0) if _find_iri_end(data, at, stop) == stop else (_UNRECOGNISED, 0)


@compile_inline
def _find_literal_kind_text_end_and_tag(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Return a literal's kind (`_UNRECOGNISED` if it is none), the end of its text, and the start of its tag or datatype."""
    kind, begin, end = _UNRECOGNISED, stop, _find_end_of_unescaped_literal(data, at, stop)
    if end < 0:
        return kind, end, begin
    if end + 1 == stop:
        kind = _PLAIN
    elif data[end + 1] == _AT and _is_language_tag(data, end + 2, stop):
        kind, begin = _TAGGED, end + 2
    elif (
        end + 3 < stop
        and data[end + 1] == _CARET
        and data[end + 2] == _CARET
        and _find_iri_end(data, end + 3, stop) == stop
    ):
        kind, begin = _TYPED, end + 3
    return kind, end, begin


@compile_inline
def _classify_object(data: Bytes, at: int, stop: int) -> tuple[int, int, int]:
    """Return an object's kind, an item's number or the end of a literal's text, and the start of its tag or datatype.

    A literal that does not match its datatype is left, since such lines are set aside elsewhere.
    """
    if data[at] == _OPEN:
        kind, item = _classify_iri_as_item_or_other(data, at, stop)
        return kind, item, 0
    if data[at] != _QUOTE:
        return _UNRECOGNISED, 0, 0
    kind, end, begin = _find_literal_kind_text_end_and_tag(data, at, stop)
    if kind == _TYPED and _equals_bytes(data, begin, stop, _DATE_TIME):
        kind = _DATE_LITERAL if _is_date_time(data, at + 1, end) else _UNRECOGNISED
    elif kind == _TYPED and _equals_bytes(data, begin, stop, _DECIMAL):
        kind = _NUMBER if _is_decimal(data, at + 1, end) else _UNRECOGNISED
    return kind, end, begin


@compile_inline
def _find_predicate_end_and_property(data: Bytes, at: int, stop: int) -> tuple[int, int]:
    """Return a predicate's end (-1 if there is none) and the property number of a direct claim, or -1."""
    if _has_prefix(data, at, stop, _DIRECT_PREFIX):
        end = _skip_digits(data, at + len(_DIRECT_PREFIX), stop)
        number = _parse_id_number(data, at + len(_DIRECT_PREFIX), end, 9)
        if number >= 0 and end < stop and data[end] == _CLOSE:
            return end + 1, number
    return _find_iri_end(data, at, stop), -1


@compile_inline
def _find_table_index_of_text_predicate(data: Bytes, at: int, stop: int) -> int:
    """Return the index in _TABLES of the table for a predicate's texts, or -1."""
    if _equals_bytes(data, at, stop, _LABEL):
        return 0
    if _equals_bytes(data, at, stop, _ALIAS):
        return 1
    return 2 if _equals_bytes(data, at, stop, _DESCRIPTION) else -1


@compile_inline
def _parse_data_page_iri_item_number(data: Bytes, at: int, stop: int) -> int:
    """Return the number of the item whose data page the IRI is; -1 for any other IRI."""
    for is_first in (True, False):
        text = _DATA_PAGE_HTTPS if is_first else _DATA_PAGE_HTTP
        if _has_prefix(data, at, stop, text):
            return _parse_id_number(data, at + len(text), stop - 1, 18)
    return -1


@compile_inline
def _get_item_line_code_and_property(
    data: Bytes, at: int, stop: int, number: int, kind: int, begin: int, end: int, tags: Bytes, tag_ends: Places
) -> tuple[int, int]:
    """Return the code of a line about an item by predicate (`at` to `stop`) and object, and its property or table.

    `number`: property number of a direct claim; `begin`, `end`: span of the language tag.
    """
    if number >= 0 and kind == _ITEM:
        return _EDGE, number
    if number >= 0 and kind in (_DATE_LITERAL, _NUMBER):
        return _VALUE, number
    if number < 0 and (_has_prefix(data, at, stop, _PROP_PREFIX) or _equals_bytes(data, at, stop, _SAME_AS)):
        return _UNRECOGNISED, 0
    table = _find_table_index_of_text_predicate(data, at, stop) if kind == _TAGGED else -1
    return (_TEXT, table) if table >= 0 and _is_kept_language(data, begin, end, tags, tag_ends) else (_UNKEPT, 0)


@compile_inline
def _count_unkept_predicate(data: Bytes, at: int, stop: int, mark: int, slots: Int64Table, used: int) -> int:
    """Count a predicate with a mark; return the number of used slots, -1 if no slot is free."""
    slot = _find_predicate_slot(data, at, stop, mark, slots, used)
    if slot < 0:
        return -1
    if not slots[slot, 3]:
        slots[slot, 0], slots[slot, 1], slots[slot, 2] = at, stop, mark
        used += 1
    slots[slot, 3] += 1
    return used


@compile_kernel
def _scan_line_codes_and_contents(
    data: Bytes,
    ends: Places,
    tags: Bytes,
    tag_ends: Places,
    codes: Bytes,
    numbers: Int64Table,
    spans: Spans,
    slots: Int64Table,
) -> None:
    """Write each line's code, and the contents of recognised lines: `numbers` (three columns) and `spans` (two pairs).

    `slots` receives, for triples that are not kept, each predicate's begin and end, the objects' first byte, and a
    count.
    """
    begin, used = 0, 0
    for line in range(len(ends)):
        first, begin = begin, ends[line]
        stop = begin - 3
        if stop - first < 8 or data[stop] != _SPACE or data[stop + 1] != _DOT:
            continue
        subject_end, item = _find_subject_end_and_item(data, first, stop)
        if subject_end < 0 or subject_end + 1 >= stop or data[subject_end] != _SPACE:
            continue
        at = subject_end + 1
        end, number = _find_predicate_end_and_property(data, at, stop)
        if end < 0 or end + 1 >= stop or data[end] != _SPACE:
            continue
        thing = end + 1
        kind, found, typed = _classify_object(data, thing, stop)
        if kind == _UNRECOGNISED:
            continue
        spans[line, 0], spans[line, 1], spans[line, 2], spans[line, 3] = thing + 1, found, typed, stop
        numbers[line, 0], numbers[line, 2] = item, found
        code = _UNKEPT
        if _equals_bytes(data, at, end, _MODIFIED):
            page = _parse_data_page_iri_item_number(data, first, subject_end)
            is_moment = kind == _DATE_LITERAL and _skip_digits(data, thing + 1, found) == thing + 5
            code, numbers[line, 0] = (_CHANGE, page) if page >= 0 and is_moment else (_UNRECOGNISED, 0)
        elif item >= 0:
            code, numbers[line, 1] = _get_item_line_code_and_property(
                data, at, end, number, kind, typed, stop, tags, tag_ends
            )
        if code == _UNKEPT:
            is_unknown = kind == _IRI and _has_prefix(data, thing, stop, _GENID_PREFIX)
            mark = _UNDERSCORE if is_unknown else int(np.int64(data[thing]))
            counted = _count_unkept_predicate(data, at + 1, end - 1, mark, slots, used)
            code, used = (_UNKEPT, counted) if counted >= 0 else (_UNRECOGNISED, used)
        codes[line] = code


@compile_kernel
def _copy_spans(data: Bytes, begins_at: Places, ends_at: Places, ends: Places, texts: Bytes) -> None:
    """Copy spans of the bytes into `texts`, one after the other."""
    for nth in range(len(begins_at)):
        at = ends[nth]
        for place in range(begins_at[nth], ends_at[nth]):
            texts[at] = data[place]
            at += 1


def scan_lines_or_list_unrecognised(
    data: bytes,
    ends: Places,
    languages: Sequence[str],
    name_unkept: Callable[[bytes, bytes], str],
    out: StagedRowsAndCounts,
) -> npt.NDArray[np.intp]:
    """Sort the lines of a UTF-8 block, which end at `ends`, into `out`; return the positions of the lines left."""
    view, count = np.frombuffer(data, np.uint8), len(ends)
    codes, numbers = np.zeros(count, np.uint8), np.empty((count, 3), np.int64)
    spans, slots = np.empty((count, 4), np.int32), np.zeros((_SLOTS, 4), np.int64)
    tags = [language.encode() for language in languages]
    tag_ends = np.cumsum([len(tag) for tag in tags], dtype=np.int32)
    _scan_line_codes_and_contents(
        view, ends, np.frombuffer(b"".join(tags), np.uint8), tag_ends, codes, numbers, spans, slots
    )
    taken = [np.flatnonzero(codes == code) for code in range(_UNKEPT)]
    edges, texts, values, changes = taken[1:]
    out.add_rows("edges", *_make_id_columns(numbers[edges], 3))
    for table, name in enumerate(_SCANNED_TEXT_TABLES):
        rows = texts[numbers[texts, 1] == table]
        words = _slice_strings(view, spans[rows, 0], spans[rows, 1])
        languages_of = pc.ascii_lower(_slice_strings(view, spans[rows, 2], spans[rows, 3]))
        out.add_rows(name, pa.array(numbers[rows, 0]), languages_of, words)
    out.add_rows(
        "direct_values", *_make_id_columns(numbers[values], 2), _slice_strings(view, spans[values, 0], spans[values, 1])
    )
    out.add_rows("changes", pa.array(numbers[changes, 0]), _slice_strings(view, spans[changes, 0], spans[changes, 1]))
    for begin, end, mark, lines in slots[slots[:, 3] > 0].tolist():
        out.not_kept[name_unkept(data[begin:end], bytes([mark]))] += lines
    return taken[_UNRECOGNISED]


def _make_id_columns(numbers: Int64Table, columns: int) -> list[pa.Array]:
    """Return columns of items, properties and, if `columns` is 3, other items."""
    kinds = (np.int64, np.int32, np.int64)
    return [pa.array(numbers[:, nth].astype(kinds[nth])) for nth in range(columns)]


def _slice_strings(data: Bytes, begins_at: Places, ends_at: Places) -> pa.StringArray:
    """Return spans of the bytes as strings."""
    ends = np.concatenate([[0], np.cumsum(ends_at - begins_at)]).astype(np.int32)
    texts = np.empty(ends[-1], np.uint8)
    _copy_spans(data, begins_at, ends_at, ends, texts)
    return pa.StringArray.from_buffers(len(begins_at), pa.py_buffer(ends), pa.py_buffer(texts))
