"""Texts for speed measurements: questions of the embedded world."""

import random
import re

import yaml

from factmill.tasks.assets import ASSETS_ROOT
from factmill.tasks.text.translating.translation import TARGET_LANGUAGES, TranslationRequest


def draw_texts(count: int) -> list[TranslationRequest]:
    """Return `count` texts of one to three questions of the embedded world, each with a target language."""
    forms = yaml.safe_load((ASSETS_ROOT / "data" / "world" / "sources" / "multihal_forms.yaml").read_text("utf-8"))
    questions = [re.sub(r"[\[\]_]+", " ", form["en"]) for form in forms["questions"].values()]
    chance = random.Random(3)
    return [
        (" ".join(chance.sample(questions, chance.randint(1, 3))), chance.choice(TARGET_LANGUAGES))
        for _ in range(count)
    ]
