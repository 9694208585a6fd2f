"""MultiHal: questions of seven benchmarks with judged paths from Wikidata, in six languages (paper §2)."""

from factmill.flows.recipes import Stage, make_recipe
from factmill.tasks.multihal.benchmark import MULTIHAL
from factmill.tasks.multihal.judge import score_paths, select_paths
from factmill.tasks.multihal.link import link_entities
from factmill.tasks.multihal.mine import label_paths, mine_paths
from factmill.tasks.multihal.preprocess import classify_answer_types, deduplicate_foundation_questions, read_foundation
from factmill.tasks.multihal.release import publish_multihal
from factmill.tasks.multihal.translate import translate_paths

multihal = make_recipe(
    MULTIHAL,
    read_foundation,  # §2, Table 1
    Stage(deduplicate_foundation_questions, single_batch=True),  # §2.1
    classify_answer_types,  # §2.1, Appendix B
    link_entities,  # §2.2, "Entity Matching"
    mine_paths,  # §2.2, "Knowledge Graph Querying"
    label_paths,  # §2.2, Appendix C, Listing 5
    select_paths,  # §2.3, "Selection Step"
    Stage(score_paths, expands=True),  # §2.3, "Scoring Step"
    Stage(translate_paths, expands=True),  # §2.4
    publish=lambda build, left: publish_multihal(build, *left.values()),
)
