"""Choose and load the lemmatizer for answers: spaCy's small English model if it is installed, else rules.

The public scorer uses spaCy, which is no dependency of factmill. Once spaCy and its model en_core_web_sm are installed
in the same environment, they are used.
"""

import csv
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from factmill.tasks.assets import asset_path
from factmill.tasks.errors import UsageError
from factmill.tasks.fanoutqa.core.evaluation.strings.rule_lemmatizer import RuleLemmatizer, TextBatchLemmatizer

SPACY_MODEL = "en_core_web_sm"
IRREGULAR_FORMS_FILE = "irregular_forms.csv"


class SpacyLemmatizer:
    """Lemmatizer that uses a spaCy pipeline."""

    def __init__(self, pipeline: Any, name: str) -> None:
        """`pipeline`: spacy.Language; `name`: its name in reports."""
        self.name = name
        self._pipeline = pipeline
        self._unused = [each for each in ("parser", "ner", "senter") if each in pipeline.pipe_names]
        # the limit protects parsers, which need much memory; none runs here
        pipeline.max_length = 1 << 30

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return each text with a space between the lemmas of its tokens."""
        return [" ".join(token.lemma_ for token in read) for read in self._pipeline.pipe(texts, disable=self._unused)]


def resolve_lemmatizer_name(wanted: str = "auto") -> str:
    """Return the name of the chosen lemmatizer: a model with its version and spaCy's, or rules.

    `wanted`: rules, a spaCy model, or auto: the default model if it is installed, else rules. UsageError for a model
    that is not installed.
    """
    if wanted == RuleLemmatizer.name:
        return wanted
    model = SPACY_MODEL if wanted == "auto" else wanted
    try:
        return f"{model} {version(model)} (spaCy {version('spacy')})"
    except (PackageNotFoundError, ValueError) as error:
        if wanted == "auto":
            return RuleLemmatizer.name
        raise UsageError(
            f"--lemmas {wanted}: spaCy or its model of that name is not installed; expected auto, rules or a model such as "
            f"{SPACY_MODEL} (pip install spacy, then spacy download {SPACY_MODEL})"
        ) from error


@cache
def load_lemmatizer(name: str) -> TextBatchLemmatizer:
    """Load the lemmatizer of a name returned by `resolve_lemmatizer_name`, once per process."""
    if name == RuleLemmatizer.name:
        with asset_path("data/lists", IRREGULAR_FORMS_FILE).open(encoding="utf-8", newline="") as file:
            return RuleLemmatizer({row["form"]: row["lemma"] for row in csv.DictReader(file)})
    import spacy

    return SpacyLemmatizer(spacy.load(name.partition(" ")[0]), name)
