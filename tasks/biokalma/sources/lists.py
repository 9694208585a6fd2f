"""The lists that BioKaLMA's questions are made with (data/lists)."""

from collections.abc import Mapping
from functools import cache

from tasks.assets import asset_path
from tasks.biokalma.core.knowledge_sentences import RelationForm, read_relation_forms
from tasks.biokalma.core.pair_relations import PairRelations, read_pair_relations
from tasks.core.authoring.biography import BiographyProperty, read_biography_properties


@cache
def load_pair_relations() -> PairRelations:
    """Return the relations that join pairs of people or organisations, from `data/lists/pair_relations.csv`."""
    return read_pair_relations(asset_path("data/lists", "pair_relations.csv").read_text("utf-8"))


@cache
def load_relation_forms() -> dict[str, RelationForm]:
    """Return PID → how the relation is said in a sentence, from `data/lists/relation_forms.csv`."""
    return read_relation_forms(asset_path("data/lists", "relation_forms.csv").read_text("utf-8"))


@cache
def load_properties_asked() -> Mapping[str, BiographyProperty]:
    """Return label of a property → the words for it, from `data/lists/biography_properties.csv`."""
    return read_biography_properties(asset_path("data/lists", "biography_properties.csv").read_text("utf-8"))
