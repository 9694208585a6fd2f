"""What the page of a build draws of each benchmark's rows: the list of their distributions.

They stand beside the benchmarks' records, not in them, as `flows/releases/forms.py` does: another figure makes no build anew.
"""

from collections.abc import Mapping

from tasks.biokalma.report import list_distributions as list_biokalma
from tasks.core.publishing.distributions import Distributions
from tasks.fanoutqa.report import list_distributions as list_fanoutqa
from tasks.granola.report import list_distributions as list_granola
from tasks.multihal.report import list_distributions as list_multihal
from tasks.slaq.report import list_distributions as list_slaq

DISTRIBUTIONS: Mapping[str, Distributions] = {
    "granola": list_granola,
    "multihal": list_multihal,
    "biokalma": list_biokalma,
    "slaq": list_slaq,
    "fanoutqa": list_fanoutqa,
}
"""By benchmark; the page of one that is not here shows funnel, rows and what it reports of itself."""
