"""BioKaLMA: questions about two people, each with the smallest set of facts that answers it (paper §2.2, Appendix A)."""

from factmill.flows.recipes import Stage, make_recipe
from factmill.tasks.biokalma.benchmark import BIOKALMA
from factmill.tasks.biokalma.evolve import annotate_paragraph, evolve_paragraph, write_biography_questions
from factmill.tasks.biokalma.pair_preparation import (
    check_class_exists,
    choose_pair_reader,
    count_relations_over_build,
    deduplicate_person_pairs,
    find_pair_paragraphs,
    pool_knowledge,
    resolve_people,
)
from factmill.tasks.biokalma.release import publish_biokalma

biokalma = make_recipe(
    BIOKALMA,
    choose_pair_reader,  # A.1 "Person Selection"
    resolve_people,  # A.2 "Name Disambiguation"
    Stage(deduplicate_person_pairs, single_batch=True),
    pool_knowledge,  # A.2, "knowledge pool"
    find_pair_paragraphs,  # A.1
    Stage(count_relations_over_build, single_batch=True),  # Equation 1, Count_r
    annotate_paragraph,  # A.3, round 1
    evolve_paragraph,  # A.3, rounds 2 to 5
    write_biography_questions,  # A.3, Tables 11 and 12
    units=lambda locked: locked.inputs.limits,
    check=check_class_exists,
    publish=lambda build, left: publish_biokalma(
        build,
        left[resolve_people],
        left[count_relations_over_build],
        left[evolve_paragraph],
        left[write_biography_questions],
    ),
)
