"""People and organisations of a few triples, some with one name, for the steps that find out who is meant."""

import json
from collections.abc import Iterable, Sequence


def tell_item(
    qid: str, name: str | None, *claims: str, of: Sequence[str] = ("Q5",), aliases: Iterable[str] = ()
) -> str:
    """Return an item's triples; a claim is `P26 Q2`."""
    lines = [f"wd:{qid} wdt:P31 wd:{each}" for each in of]
    lines += [f"wd:{qid} wdt:{pid} wd:{value}" for pid, value in map(str.split, claims)]
    # a JSON text has the escapes of N-Triples
    lines += [f"wd:{qid} rdfs:label {json.dumps(name, ensure_ascii=False)}@en"] if name else []
    lines += [f"wd:{qid} skos:altLabel {json.dumps(alias, ensure_ascii=False)}@en" for alias in aliases]
    return "\n".join(lines)


PEOPLE = [
    tell_item("Q11", "Winston Churchill", "P40 Q12"),
    tell_item("Q12", "Randolph Churchill", "P22 Q11", "P40 Q13"),
    tell_item("Q13", "Winston Churchill", "P22 Q12"),
    tell_item("Q14", "Winston Churchill", of=["Q11446"]),
    tell_item("Q15", "Sir Winston", aliases=["Winston Churchill"]),
    tell_item("Q21", "Johann Strauss", "P40 Q22", "P40 Q23", "P3373 Q25"),
    tell_item("Q22", "Johann Strauss", "P3373 Q23", "P22 Q21"),
    tell_item("Q23", "Eduard Strauss", "P3373 Q22", aliases=["Edi Strauss"]),
    tell_item("Q24", "Edi Strauss", "P3373 Q22", "P22 Q21"),
    tell_item("Q25", "Josef Strauss"),
    tell_item("Q26", "Karl Strauss", "P22 Q21", "P22 Q22"),
    tell_item("Q27", "Karl Strauss", "P22 Q21"),
    tell_item("Q28", "Carl Strauss", aliases=["Karl Strauss"]),
    tell_item("Q31", "Samuel Clemens", "P26 Q31", "P737 Q31", aliases=["Mark Twain"]),
    tell_item("Q41", "Ada Lovelace", "P22 Q42", of=[]),
    tell_item("Q42", "Lord Byron", "P40 Q41", "P106 Q49", of=[]),
    tell_item("Q43", "Lord Byron", "P17 Q49", "P40 Q41", of=["Q3305213"]),
    tell_item("Q44", "Ada Lovelace", "P17 Q49", of=[]),
    tell_item("Q45", None, "P26 Q11"),
    tell_item("Q46", "Plato", "P26 Q11"),
    tell_item("Q47", "Cher", "P40 Q13"),
    tell_item("Q48", "Bastet the Cat", "P40 Q13", of=["Q146"]),
    tell_item("Q51", "HMS Winston Churchill", of=["Q11446"]),
]


ORGANISATIONS = [
    tell_item("Q61", "YouTube", "P749 Q62", of=["Q71"]),
    tell_item("Q62", "Google", "P355 Q61", "P355 Q64", of=["Q72"]),
    tell_item("Q63", "Google", of=["Q80"]),
    tell_item("Q64", "Waymo", "P749 Q62", of=["Q43229"]),
    tell_item("Q65", "Larry Page", "P749 Q62"),
    tell_item("Q66", "Android", "P749 Q62", of=["Q80", "Q71"]),
    tell_item("Q71", "video platform", "P279 Q72", "P279 Q81", of=[]),
    tell_item("Q72", "business", "P279 Q73", of=[]),
    # above and below each other, as Wikidata sometimes has it
    tell_item("Q73", "company", "P279 Q43229", "P279 Q72", of=[]),
    tell_item("Q80", "verb", "P279 Q81", of=[]),
    tell_item("Q81", "thing", "P279 Q81", of=[]),
]
