"""Ages as people write them: 90m, 12h, 30d, 4w, or plain seconds."""

import re

from factmill.tasks.text.sanitize import shorten_middle

DURATION_PATTERN = r"[0-9]{1,9}(\.[0-9]{1,3})?[smhdw]?"
_SECONDS_PER_UNIT = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_UNIT_NAMES_AND_SECONDS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def validate_duration(value: object) -> str:
    """Check an age, which may be a number of seconds, and return it as text; ValueError names the expected form."""
    text = str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
    if not re.fullmatch(DURATION_PATTERN, text):
        raise ValueError(
            f"{shorten_middle(repr(value))} is not an age; expected one such as 90m, 12h, 30d, 4w, or a number of seconds"
        )
    return text


def parse_validated_duration(text: str) -> float:
    """Parse an age (see validate_duration) into seconds."""
    unit = text[-1] if text[-1].isalpha() else ""
    return float(text.removesuffix(unit)) * _SECONDS_PER_UNIT[unit]


def format_duration_in_one_unit(seconds: float) -> str:
    """Format seconds, rounded to at least 1, for `parse_validated_duration`, in the largest unit that divides them."""
    rounded = max(round(seconds), 1)
    unit = next(unit for unit, size in reversed(_SECONDS_PER_UNIT.items()) if rounded % size == 0)
    return f"{rounded // _SECONDS_PER_UNIT[unit]}{unit}"


def format_age_in_words(seconds: float) -> str:
    """Format an age in words, in the largest unit of which it has two or more, else in seconds."""
    rounded = max(int(seconds), 0)
    word, size = next((each for each in _UNIT_NAMES_AND_SECONDS if rounded >= 2 * each[1]), _UNIT_NAMES_AND_SECONDS[-1])
    count = rounded // size
    return f"{count} {word}{'' if count == 1 else 's'}"
