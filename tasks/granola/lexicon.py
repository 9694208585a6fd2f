"""The words that GRANOLA-EQ's checks know: the lists of countries, regions, occupations and kinds."""

from functools import cache

from tasks.granola.core.grounding import GEORGIA, Lexicon
from tasks.granola.words import load_words
from tasks.text.matching import normalise, singular_form


@cache
def load_lexicon() -> Lexicon:
    """Return what the lists know of words; names of states of the past are words like others."""
    words = load_words()
    names = {**words.adjectives, **words.places}
    nouns = {**words.occupations, **words.classes}
    return Lexicon(
        places={
            # as words are read: without hyphens and possessives
            normalise(name.replace("-", " ").replace("'s ", " ")): place
            for name, place in names.items()
            if place in words.countries or place in words.within
        },
        within={**words.within, GEORGIA: "United States"},
        wider={singular_form(noun.replace("-", " ")): wider for noun, wider in nouns.items() if wider},
    )
