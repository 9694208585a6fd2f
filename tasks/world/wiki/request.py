"""A request to the Action API: parameters parsed as in MediaWiki, warnings, and response format versions.

Responses in format versions 1 and 2 differ in details (flags, pages, the key of a text); Shape handles them, so that
the other modules build one response for both.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

MAX_PARAMETER_VALUES, MAX_LIST_ENTRIES = 50, 500
# Read by every request, or irrelevant to an embedded wiki.
_COMMON_PARAMETERS = {
    "action", "format", "formatversion", "maxlag", "smaxage", "maxage", "assert", "assertuser", "requestid", "origin",
    "servedby", "curtimestamp", "responselanginfo", "uselang", "variant", "errorformat", "errorlang", "errorsuselocal",
    "utf8", "ascii", "callback", "continue", "rawcontinue", "wrappedhtml",
}  # fmt: skip


class ActionApiRequestRejected(Exception):
    """A request that MediaWiki rejects: error code, message, and more keys of the error object."""

    def __init__(self, code: str, info: str, **more: Any) -> None:
        super().__init__(info)
        self.code, self.info, self.more_keys = code, info, more


def make_bad_continue_error() -> ActionApiRequestRejected:
    """Return the error for a continuation that this API never issued."""
    return ActionApiRequestRejected(
        "badcontinue", "Invalid continue param. You should pass the original value returned by the API."
    )


class ActionApiParameters:
    """Parameters of one request, and the warnings from parsing them."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given
        self.read_names: set[str] = set()
        self.warnings: dict[str, list[str]] = {}
        self.limits: dict[str, int] = {}
        """Module → number of entries that `max` meant; part of the response."""

    def get_text(self, name: str) -> str | None:
        """Return a parameter; None if it is not given."""
        self.read_names.add(name)
        return self.given.get(name)

    def has_flag(self, name: str) -> bool:
        """True if a parameter is given, even empty."""
        return self.get_text(name) is not None

    def list_values(self, name: str, default: str = "") -> list[str]:
        """Return a parameter's values, split at bars, each once; ActionApiRequestRejected if there are too many."""
        text = self.get_text(name)
        text = default if text is None else text
        parts = text[1:].split("\x1f") if text.startswith("\x1f") else text.split("|")
        found = list(dict.fromkeys(part for part in parts if part))
        if len(found) > MAX_PARAMETER_VALUES:
            info = f'Too many values supplied for parameter "{name}". The limit is {MAX_PARAMETER_VALUES}.'
            raise ActionApiRequestRejected(
                "toomanyvalues",
                info,
                limit=MAX_PARAMETER_VALUES,
                lowlimit=MAX_PARAMETER_VALUES,
                highlimit=MAX_LIST_ENTRIES,
            )
        return found

    def list_known_values(self, name: str, known: Iterable[str], module: str, default: str = "") -> list[str]:
        """Return the known values of a parameter and warn about the others."""
        found = self.list_values(name, default)
        if unknown := [value for value in found if value not in set(known)]:
            word = "value" if len(unknown) == 1 else "values"
            self.add_warning(module, f'Unrecognized {word} for parameter "{name}": {", ".join(unknown)}')
        return [value for value in found if value not in unknown]

    def get_choice(self, name: str, known: Iterable[str], default: str) -> str:
        """Return a parameter with a fixed set of values; ActionApiRequestRejected for another value."""
        value = self.get_text(name)
        if value is None:
            return default
        if value not in set(known):
            raise ActionApiRequestRejected("badvalue", f'Unrecognized value for parameter "{name}": {value}.')
        return value

    def get_integer(self, name: str) -> int | None:
        """Return an integer parameter, None if it is not given; ActionApiRequestRejected if invalid."""
        text = self.get_text(name)
        return None if text is None else _parse_integer(name, text)

    def list_integers(self, name: str) -> list[int]:
        """Return the integers of a parameter."""
        return [_parse_integer(name, text) for text in self.list_values(name)]

    def get_limit(self, name: str, default: int, module: str) -> int:
        """Return the requested number of entries, 1 to 500; warn about a number outside the range."""
        text = self.get_text(name)
        if text is None:
            return default
        if text == "max":
            self.limits[module] = MAX_LIST_ENTRIES
            return MAX_LIST_ENTRIES
        number = _parse_integer(name, text)
        if not 1 <= number <= MAX_LIST_ENTRIES:
            self.add_warning(
                module, f'The value "{number}" for parameter "{name}" must be between 1 and {MAX_LIST_ENTRIES}.'
            )
        return min(max(number, 1), MAX_LIST_ENTRIES)

    def get_timestamp(self, name: str) -> str | None:
        """Return a timestamp as 2021-04-03T10:15:00Z, None if it is not given; ActionApiRequestRejected if invalid."""
        text = self.get_text(name)
        if text is None:
            return None
        if text == "now":
            return "9999-12-31T23:59:59Z"
        for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S%z", "%Y%m%d%H%M%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"):
            try:
                moment = datetime.strptime(text, form)
            except ValueError:
                continue
            moment = moment.astimezone(UTC) if moment.tzinfo else moment
            return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        raise ActionApiRequestRejected("badtimestamp", f'Invalid value "{text}" for timestamp parameter "{name}".')

    def add_warning(self, module: str, text: str) -> None:
        """Add a warning to the response."""
        self.warnings.setdefault(module, []).append(text)

    def warn_of_unread_parameters(self) -> None:
        """Warn about parameters that were never read."""
        if unread := [name for name in self.given if name not in self.read_names | _COMMON_PARAMETERS]:
            word = "parameter" if len(unread) == 1 else "parameters"
            self.add_warning("main", f"Unrecognized {word}: {', '.join(unread)}.")


class ReplyFormat:
    """Response format of a format version (1 or 2)."""

    def __init__(self, version: int) -> None:
        self.is_version_1 = version == 1
        self.text_key = "*" if self.is_version_1 else "content"
        self.flag: Any = "" if self.is_version_1 else True

    def format_flags(self, **which: bool) -> dict[str, Any]:
        """Return the true flags as response keys."""
        return {name: self.flag for name, holds in which.items() if holds}

    def format_keyed_entries(self, entries: Mapping[Any, dict[str, Any]]) -> Any:
        """Return entries by id: an object in version 1, a plain list in version 2."""
        return {str(key): entry for key, entry in entries.items()} if self.is_version_1 else list(entries.values())

    def format_text(self, text: str) -> Any:
        """Return a text, which version 1 wraps in an object."""
        return {"*": text} if self.is_version_1 else text

    def format_warnings(self, warnings: Mapping[str, list[str]]) -> dict[str, Any]:
        """Return warnings by module."""
        key = "*" if self.is_version_1 else "warnings"
        return {module: {key: "\n".join(lines)} for module, lines in warnings.items()}


def _parse_integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ActionApiRequestRejected(
            "badinteger", f'Invalid value "{text}" for integer parameter "{name}".'
        ) from None
