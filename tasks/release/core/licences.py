"""Licences of sources: what they are called, and whether rows under them may be handed on.

A row that several sources were united into has all of their licences, joined by AND; each of them must allow it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from factmill.tasks.core.rows import NONE_STATED

_CC = "https://creativecommons.org/licenses"


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence that sources have."""

    id: str
    """As rows have it: SPDX's id, where there is one."""
    name: str
    url: str
    hub_id: str
    """As dataset cards on the Hugging Face Hub have it."""
    why_not: str = ""
    """Why rows under it are not handed on unless that is allowed; empty where they are."""


_NC = "it forbids commercial use, which whoever loads a release may make of it"
_ND = "it forbids adapted material, and a row is adapted from its source"
LICENCES = {
    licence.id: licence
    for licence in (
        Licence("Apache-2.0", "Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0", "apache-2.0"),
        Licence("MIT", "MIT License", "https://opensource.org/license/mit", "mit"),
        Licence(
            "CC0-1.0",
            "Creative Commons Zero 1.0 Universal",
            "https://creativecommons.org/publicdomain/zero/1.0/",
            "cc0-1.0",
        ),
        Licence("CC-BY", "Creative Commons Attribution, no version stated", f"{_CC}/by/4.0/", "cc-by-4.0"),
        Licence("CC-BY-4.0", "Creative Commons Attribution 4.0 International", f"{_CC}/by/4.0/", "cc-by-4.0"),
        Licence(
            "CC-BY-SA-4.0",
            "Creative Commons Attribution-ShareAlike 4.0 International",
            f"{_CC}/by-sa/4.0/",
            "cc-by-sa-4.0",
        ),
        Licence(
            "CC-BY-NC-2.0",
            "Creative Commons Attribution-NonCommercial 2.0 Generic",
            f"{_CC}/by-nc/2.0/",
            "cc-by-nc-2.0",
            _NC,
        ),
        Licence(
            "CC-BY-NC-SA-4.0",
            "Creative Commons Attribution-NonCommercial-ShareAlike 4.0 International",
            f"{_CC}/by-nc-sa/4.0/",
            "cc-by-nc-sa-4.0",
            _NC,
        ),
        Licence(
            NONE_STATED,
            "no licence is stated",
            "",
            "unknown",
            "nothing says that its rows may be handed on; data/lists/known_sources.csv lists the files whose licence is known",
        ),
    )
}
"""By id."""


def split_licences(told: str) -> tuple[str, ...]:
    """Return the licences that a row has together."""
    return tuple(dict.fromkeys(part.strip() for part in told.split(" AND ") if part.strip())) or (NONE_STATED,)


def describe_licence(licence_id: str) -> Licence:
    """Return a licence by id; what is not in the list is handed on only where that is allowed."""
    known = LICENCES.get(licence_id)
    if known:
        return known
    marks = licence_id.upper().replace("_", "-").split("-")
    why = _NC if "NC" in marks else _ND if "ND" in marks else "factmill does not know what it allows"
    return Licence(licence_id, licence_id, "", "other", why)


def find_refused(told: Iterable[str], allowed: Iterable[str]) -> tuple[Licence, ...]:
    """Return the licences among those of rows under which rows are not handed on, by id; `allowed` ones are left out."""
    parts = {part for each in told for part in split_licences(each)} - {*allowed}
    return tuple(found for part in sorted(parts) if (found := describe_licence(part)).why_not)


def unite_licences(told: Iterable[str]) -> tuple[Licence, ...]:
    """Return the licences that a release is under as a whole, by id: all of its rows', but open ones without share-alike
    where any is share-alike.

    Material under open licences without share-alike may be handed on under a share-alike one. What forbids something, or is
    not known, goes on to forbid it; the table of licences says what each source has.
    """
    found = [describe_licence(part) for part in sorted({part for each in told for part in split_licences(each)})]
    left = [each for each in found if "-SA" in each.id or each.why_not]
    return tuple(left if any("-SA" in each.id for each in found) else found)
