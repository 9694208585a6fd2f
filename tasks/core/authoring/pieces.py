"""A piece of knowledge about a person, as rows hold it and citations name it (BioKaLMA, paper Appendix A.2)."""

from pydantic import BaseModel, ConfigDict


class Piece(BaseModel):
    """A piece of knowledge: one property of one person with one value."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    qid: str
    """The person."""
    pid: str
    property: str
    """Label of the property."""
    value_qid: str | None
    """The value, where it is an item."""
    value: str
    """Label of the item, or the date as it is told (1593-07-08, 1593-07, 1593, 44 BC)."""
    precision: int | None
    """Of a date, as Wikidata counts it; null for items."""
    statement: str | None
    """Id of the statement; null where the graph holds direct claims alone."""
