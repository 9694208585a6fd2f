"""Authors and DOI of a release, as its publisher gives them; nothing is made up where they are not given."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from factmill.tasks.errors import UsageError

_MAX_AUTHOR_CHARACTERS = 200
_DOI = re.compile(r"10\.\d{4,9}(\.\d+)?/[A-Za-z0-9:/_;.()\[\]\\-]+")
"""A DOI as CITATION.cff allows it (Citation File Format 1.2)."""
_DOI_PREFIX = re.compile(r"(https?://(dx\.)?doi\.org/|doi:)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Author:
    """An author of a release."""

    name: str
    """Full name, for display: of a person, or of a group."""
    family: str = ""
    """Family names, and given names, of a person; empty for a group, or if they were not given apart."""
    given: str = ""

    @property
    def bibtex(self) -> str:
        """The name for BibTeX, which would take apart a name without braces."""
        escaped = escape_bibtex(f"{self.family}, {self.given}" if self.family else self.name)
        return escaped if self.family else f"{{{escaped}}}"


def escape_bibtex(text: str) -> str:
    """Return a text as part of a BibTeX field, without braces and backslashes."""
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[{}\\]", "", text))


def parse_author(text: str) -> Author:
    """Parse "Family, Given", a person, or the name of a group; UsageError for anything else."""
    name = " ".join(text.split())
    family, comma, given = (part.strip() for part in name.partition(","))
    is_broken = any(unicodedata.category(each)[0] == "C" for each in name) or "," in given
    if not name or is_broken or len(name) > _MAX_AUTHOR_CHARACTERS or (comma and not (family and given)):
        raise UsageError(
            f"--author {text!r:.80}: expected one author, 'Family, Given' or the name of a group, with at most "
            f"{_MAX_AUTHOR_CHARACTERS} characters; repeat --author for each"
        )
    return Author(f"{given} {family}", family, given) if comma else Author(name)


def parse_authors(texts: Iterable[str]) -> tuple[Author, ...]:
    """Parse the authors of a release in their order; UsageError names one that is not valid, or given twice."""
    found: dict[str, Author] = {}
    for text in texts:
        author = parse_author(text)
        if author.name in found:
            raise UsageError(f"--author {text!r:.80}: {author.name} is given twice; name each author once")
        found[author.name] = author
    return tuple(found.values())


def parse_doi(text: str) -> str:
    """Return a DOI without its address or prefix: 10.5281/zenodo.1; empty stays empty. UsageError if it is none."""
    doi = _DOI_PREFIX.sub("", text.strip(), count=1)
    if text and not _DOI.fullmatch(doi):
        raise UsageError(f"--doi {text!r:.80}: no DOI; expected one such as 10.5281/zenodo.1234567")
    return doi
