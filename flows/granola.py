"""GRANOLA-EQ: entity questions with answers from fine to coarse (paper §3)."""

from factmill.flows.recipes import make_recipe
from factmill.tasks.granola.answer_levels import (
    generate_granular_answers,
    remove_trivial_answers,
    score_description_consistency,
)
from factmill.tasks.granola.benchmark import GRANOLA
from factmill.tasks.granola.disambiguate import describe_entities, link_question_entities, measure_popularity
from factmill.tasks.granola.publish import publish_granola
from factmill.tasks.granola.source_questions import choose_question_reader, extract_question_entities
from factmill.tasks.granola.sources.user_relations import RELATION_FILE

granola = make_recipe(
    GRANOLA,
    choose_question_reader,  # §3.2
    extract_question_entities,  # §3.1
    link_question_entities,  # Appendix B, "QID disambiguation"
    describe_entities,  # §3.1
    measure_popularity,
    generate_granular_answers,  # §3.1, Table 8
    score_description_consistency,  # Appendix B, "Data cleaning"
    remove_trivial_answers,
    units=lambda locked: [unit for unit in locked.files if unit != RELATION_FILE] or locked.inputs.limits,
    publish=lambda build, left: publish_granola(
        build, left[link_question_entities], left[describe_entities], left[remove_trivial_answers]
    ),
)
