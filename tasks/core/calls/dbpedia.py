"""What is asked of DBpedia: which item of Wikidata a resource is (MultiHal, paper §2.2, Appendix C, Listing 1).

`same_as`: part is the resource's IRI; the body is the list of QIDs that it is the same as, by number.
"""

from typing import Any

from tasks.core.calls.call import Call


def call_same_as(service: str, resource: str) -> Call:
    """Ask which items of Wikidata a resource is the same as."""
    return Call(service, "same_as", {"resource": resource})


def read_same_as(body: Any) -> str | None:
    """Return the item, the one with the smallest number where there are several; None when there is none."""
    return body[0] if body else None
