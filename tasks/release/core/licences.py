"""Licences of sources: their names, and whether rows under them may be redistributed.

A row merged from several sources has all of their licences, joined by AND; each of them must allow redistribution.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from factmill.tasks.core.rows import NO_LICENCE_STATED

_CREATIVE_COMMONS_URL = "https://creativecommons.org/licenses"


@dataclass(frozen=True, slots=True)
class Licence:
    """A licence of sources."""

    id: str
    """Id in the rows: the SPDX id if there is one."""
    name: str
    url: str
    hub_id: str
    """Id in dataset cards of the Hugging Face Hub."""
    refusal_reason: str = ""
    """Why rows under it are refused unless the publisher allows them; empty: they are released."""


_NON_COMMERCIAL_REASON = "it forbids commercial use, and users of a release may use it commercially"
_NO_DERIVATIVES_REASON = "it forbids adaptations, and a row is an adaptation of its source"
KNOWN_LICENCES = {
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
        Licence(
            "CC-BY", "Creative Commons Attribution, no version stated", f"{_CREATIVE_COMMONS_URL}/by/4.0/", "cc-by-4.0"
        ),
        Licence(
            "CC-BY-4.0",
            "Creative Commons Attribution 4.0 International",
            f"{_CREATIVE_COMMONS_URL}/by/4.0/",
            "cc-by-4.0",
        ),
        Licence(
            "CC-BY-SA-4.0",
            "Creative Commons Attribution-ShareAlike 4.0 International",
            f"{_CREATIVE_COMMONS_URL}/by-sa/4.0/",
            "cc-by-sa-4.0",
        ),
        Licence(
            "CC-BY-NC-2.0",
            "Creative Commons Attribution-NonCommercial 2.0 Generic",
            f"{_CREATIVE_COMMONS_URL}/by-nc/2.0/",
            "cc-by-nc-2.0",
            _NON_COMMERCIAL_REASON,
        ),
        Licence(
            "CC-BY-NC-SA-4.0",
            "Creative Commons Attribution-NonCommercial-ShareAlike 4.0 International",
            f"{_CREATIVE_COMMONS_URL}/by-nc-sa/4.0/",
            "cc-by-nc-sa-4.0",
            _NON_COMMERCIAL_REASON,
        ),
        Licence(
            NO_LICENCE_STATED,
            "no licence is stated",
            "",
            "unknown",
            "nothing allows the redistribution of its rows",
        ),
    )
}
"""Licence id → licence."""


def split_licence_expression(expression: str) -> tuple[str, ...]:
    """Split the licence text of a row into its licence ids; without any, `NO_LICENCE_STATED`."""
    return tuple(dict.fromkeys(part.strip() for part in expression.split(" AND ") if part.strip())) or (
        NO_LICENCE_STATED,
    )


def get_known_or_make_refused_licence(licence_id: str) -> Licence:
    """Return a licence by id; an unknown one is refused unless the publisher allows it."""
    known = KNOWN_LICENCES.get(licence_id)
    if known:
        return known
    marks = licence_id.upper().replace("_", "-").split("-")
    why = (
        _NON_COMMERCIAL_REASON
        if "NC" in marks
        else _NO_DERIVATIVES_REASON
        if "ND" in marks
        else "factmill does not know what it allows"
    )
    return Licence(licence_id, licence_id, "", "other", why)


def list_licences_refused_unless_allowed(expressions: Iterable[str], allowed: Iterable[str]) -> tuple[Licence, ...]:
    """Return the licences of rows that forbid redistribution, sorted by id, except those `allowed` by the publisher."""
    parts = {part for each in expressions for part in split_licence_expression(each)} - {*allowed}
    return tuple(found for part in sorted(parts) if (found := get_known_or_make_refused_licence(part)).refusal_reason)


def choose_whole_release_licences(expressions: Iterable[str]) -> tuple[Licence, ...]:
    """Return the licences of a complete release, sorted by id: those of its rows, without open ones that are not
    share-alike if any is share-alike.

    Material under an open licence without share-alike may be redistributed under a share-alike one. Restrictive and
    unknown licences always remain; the table of licences lists the licence of each source.
    """
    found = [
        get_known_or_make_refused_licence(part)
        for part in sorted({part for each in expressions for part in split_licence_expression(each)})
    ]
    left = [each for each in found if "-SA" in each.id or each.refusal_reason]
    return tuple(left if any("-SA" in each.id for each in found) else found)
