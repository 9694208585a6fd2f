"""Write people and organisations of a few triples, some with the same name, for the disambiguation steps."""

import json
from collections.abc import Iterable, Sequence


def write_item(
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
    write_item("Q11", "Winston Churchill", "P40 Q12"),
    write_item("Q12", "Randolph Churchill", "P22 Q11", "P40 Q13"),
    write_item("Q13", "Winston Churchill", "P22 Q12"),
    write_item("Q14", "Winston Churchill", of=["Q11446"]),
    write_item("Q15", "Sir Winston", aliases=["Winston Churchill"]),
    write_item("Q21", "Johann Strauss", "P40 Q22", "P40 Q23", "P3373 Q25"),
    write_item("Q22", "Johann Strauss", "P3373 Q23", "P22 Q21"),
    write_item("Q23", "Eduard Strauss", "P3373 Q22", aliases=["Edi Strauss"]),
    write_item("Q24", "Edi Strauss", "P3373 Q22", "P22 Q21"),
    write_item("Q25", "Josef Strauss"),
    write_item("Q26", "Karl Strauss", "P22 Q21", "P22 Q22"),
    write_item("Q27", "Karl Strauss", "P22 Q21"),
    write_item("Q28", "Carl Strauss", aliases=["Karl Strauss"]),
    write_item("Q31", "Samuel Clemens", "P26 Q31", "P737 Q31", aliases=["Mark Twain"]),
    write_item("Q41", "Ada Lovelace", "P22 Q42", of=[]),
    write_item("Q42", "Lord Byron", "P40 Q41", "P106 Q49", of=[]),
    write_item("Q43", "Lord Byron", "P17 Q49", "P40 Q41", of=["Q3305213"]),
    write_item("Q44", "Ada Lovelace", "P17 Q49", of=[]),
    write_item("Q45", None, "P26 Q11"),
    write_item("Q46", "Plato", "P26 Q11"),
    write_item("Q47", "Cher", "P40 Q13"),
    write_item("Q48", "Bastet the Cat", "P40 Q13", of=["Q146"]),
    write_item("Q51", "HMS Winston Churchill", of=["Q11446"]),
]


ORGANISATIONS = [
    write_item("Q61", "YouTube", "P749 Q62", of=["Q71"]),
    write_item("Q62", "Google", "P355 Q61", "P355 Q64", of=["Q72"]),
    write_item("Q63", "Google", of=["Q80"]),
    write_item("Q64", "Waymo", "P749 Q62", of=["Q43229"]),
    write_item("Q65", "Larry Page", "P749 Q62"),
    write_item("Q66", "Android", "P749 Q62", of=["Q80", "Q71"]),
    write_item("Q71", "video platform", "P279 Q72", "P279 Q81", of=[]),
    write_item("Q72", "business", "P279 Q73", of=[]),
    # each is a subclass of the other, as sometimes in Wikidata
    write_item("Q73", "company", "P279 Q43229", "P279 Q72", of=[]),
    write_item("Q80", "verb", "P279 Q81", of=[]),
    write_item("Q81", "thing", "P279 Q81", of=[]),
]
