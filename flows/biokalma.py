"""BioKaLMA: questions about two people, with the smallest set of knowledge that answers them (paper §2.2, Appendix A)."""

from factmill.flows.recipes import Stage, make_recipe
from factmill.tasks.biokalma.benchmark import BIOKALMA
from factmill.tasks.biokalma.evolve import annotate_paragraph, ask_questions, evolve_paragraph
from factmill.tasks.biokalma.people import (
    check_class,
    choose_reading,
    count_relations_of_all,
    describe_pairs,
    pool_knowledge,
    resolve_people,
    unite_pairs,
)
from factmill.tasks.biokalma.release import publish_biokalma

biokalma = make_recipe(
    BIOKALMA,
    choose_reading,  # A.1 "Person Selection"
    resolve_people,  # A.2 "Name Disambiguation"
    Stage(unite_pairs, whole=True),
    pool_knowledge,  # A.2, "knowledge pool"
    describe_pairs,  # A.1
    Stage(count_relations_of_all, whole=True),  # Equation 1, Count_r
    annotate_paragraph,  # A.3, round 1
    evolve_paragraph,  # A.3, rounds 2 to 5
    ask_questions,  # A.3, Tables 11 and 12
    units=lambda locked: locked.inputs.limits,
    check=check_class,
    publish=lambda build, left: publish_biokalma(
        build, left[resolve_people], left[count_relations_of_all], left[evolve_paragraph], left[ask_questions]
    ),
)
