"""Terms of N-Triples in canonical form, read byte by byte: helpers that numba compiles into the scan of lines.

Each takes the bytes of a block and where to begin and stop; what is no term of the kind, or spelled in any way that is
not the usual one, is left to the regular expressions of tasks/graph/loading/shapes.py.
"""

import numpy as np
import numpy.typing as npt

from tasks.graph.loading.scanning.compiling import inline

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int32]


def spell(text: bytes) -> Bytes:
    return np.frombuffer(text, np.uint8)


def _flags(characters: bytes) -> npt.NDArray[np.bool_]:
    return np.isin(np.arange(256), spell(characters))


_LETTERS = bytes(range(ord("A"), ord("Z") + 1)) + bytes(range(ord("a"), ord("z") + 1))
_IS_LETTER, _IS_WORD = _flags(_LETTERS), _flags(_LETTERS + b"0123456789")
_IS_SCHEME = _flags(_LETTERS + b"0123456789+.-")
_IS_IRI = ~_flags(bytes(range(0x21)) + b'<>"{}|^`\\')
QUOTE, _BACKSLASH, SPACE, OPEN, CLOSE, DOT = (ord(each) for each in '"\\ <>.')
_ZERO, _NINE, MINUS, PLUS, COLON, AT, CARET = (ord(each) for each in "09-+:@^")
NEW_LINE, _RETURN, UNDERSCORE, _T, _Z = (ord(each) for each in "\n\r_TZ")


@inline
def begins(data: Bytes, at: int, stop: int, text: Bytes) -> bool:
    if at + len(text) > stop:
        return False
    nth = 0
    while nth < len(text) and data[at + nth] == text[nth]:
        nth += 1
    return nth == len(text)


@inline
def is_text(data: Bytes, at: int, stop: int, text: Bytes) -> bool:
    return stop - at == len(text) and begins(data, at, stop, text)


@inline
def skip_digits(data: Bytes, at: int, stop: int) -> int:
    while at < stop and _ZERO <= data[at] <= _NINE:
        at += 1
    return at


@inline
def read_id(data: Bytes, at: int, stop: int, most: int) -> int:
    """Return the number in data[at:stop], which is all digits, at most so many and the first no zero; else -1."""
    if stop <= at or stop - at > most or data[at] == _ZERO or skip_digits(data, at, stop) != stop:
        return -1
    number = 0
    for place in range(at, stop):
        number = 10 * number + int(np.int64(data[place]) - _ZERO)
    return number


@inline
def end_iri(data: Bytes, at: int, stop: int) -> int:
    """Return where the absolute IRI at a place ends, behind its bracket; -1 when there is none."""
    if at >= stop or data[at] != OPEN:
        return -1
    at += 1
    if at >= stop or not _IS_LETTER[data[at]]:
        return -1
    while at < stop and _IS_SCHEME[data[at]]:
        at += 1
    if at >= stop or data[at] != COLON:
        return -1
    while at < stop and _IS_IRI[data[at]]:
        at += 1
    return at + 1 if at < stop and data[at] == CLOSE else -1


@inline
def is_tag(data: Bytes, at: int, stop: int) -> bool:
    """True for a language tag: letters, then letters and digits behind each hyphen."""
    first, length = True, 0
    for place in range(at, stop):
        if data[place] == MINUS:
            if not length:
                return False
            first, length = False, 0
        elif _IS_LETTER[data[place]] or (not first and _IS_WORD[data[place]]):
            length += 1
        else:
            return False
    return length > 0


@inline
def _is_pair(data: Bytes, at: int, highest: int) -> bool:
    """True for two digits that say a number up to some other."""
    tens, ones = int(np.int64(data[at]) - _ZERO), int(np.int64(data[at + 1]) - _ZERO)
    return 0 <= tens <= 9 and 0 <= ones <= 9 and 10 * tens + ones <= highest


@inline
def is_date(data: Bytes, at: int, stop: int) -> bool:
    """True for a date and time of at most fourteen digits of year; longer spellings are left to the expressions."""
    if at < stop and (data[at] == MINUS or data[at] == PLUS):
        at += 1
    year = skip_digits(data, at, stop) - at
    at += year
    if year < 4 or year > 14 or stop - at < 15:
        return False
    return (
        (data[at] == MINUS and data[at + 3] == MINUS and data[at + 6] == _T)
        and (data[at + 9] == COLON and data[at + 12] == COLON)
        and (_is_pair(data, at + 1, 12) and _is_pair(data, at + 4, 31) and _is_pair(data, at + 7, 99))
        and (_is_pair(data, at + 10, 99) and _is_pair(data, at + 13, 99))
        and _ends_time(data, at + 15, stop)
    )


@inline
def _ends_time(data: Bytes, at: int, stop: int) -> bool:
    """True for what may stand behind the seconds of a time: a fraction, a zone, both or nothing."""
    if at < stop and data[at] == DOT:
        end = skip_digits(data, at + 1, stop)
        at = end if end > at + 1 else stop + 1
    if at >= stop:
        return at == stop
    if data[at] == _Z:
        return at + 1 == stop
    is_sign = data[at] == PLUS or data[at] == MINUS
    return (
        is_sign
        and stop - at == 6
        and data[at + 3] == COLON
        and _is_pair(data, at + 1, 99)
        and _is_pair(data, at + 4, 99)
    )


@inline
def is_decimal(data: Bytes, at: int, stop: int) -> bool:
    if at < stop and (data[at] == MINUS or data[at] == PLUS):
        at += 1
    end = skip_digits(data, at, stop)
    digits = end - at
    if end < stop and data[end] == DOT:
        at = end + 1
        end = skip_digits(data, at, stop)
        digits += end - at
    return end == stop and digits > 0


@inline
def is_kept(data: Bytes, at: int, stop: int, tags: Bytes, ends: Places) -> bool:
    """True when a language tag is one of some lower-case ones, whatever its case."""
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


@inline
def end_quoted(data: Bytes, at: int, stop: int) -> int:
    """Return where the closing quote of a literal without escapes is; -1 when there is none."""
    at += 1
    while at < stop and data[at] != QUOTE:
        if data[at] == _BACKSLASH or data[at] == _RETURN:
            return -1
        at += 1
    return at if at < stop else -1
