"""How each benchmark is released: the list of their forms.

They stand beside the benchmarks' records, not in them: those are part of the code that a build is locked with, and a
better sentence on a card must make no build anew.
"""

from flows.benchmarks import BENCHMARKS
from tasks.biokalma.release import BIOKALMA_RELEASE
from tasks.core.publishing.release_forms import ReleaseForms
from tasks.errors import UsageError
from tasks.fanoutqa.release import FANOUTQA_RELEASE
from tasks.granola.release import GRANOLA_RELEASE
from tasks.multihal.release import MULTIHAL_RELEASE
from tasks.slaq.release import SLAQ_RELEASE
from tasks.storage.builds import BuildRecord

RELEASES = {
    "granola": GRANOLA_RELEASE,
    "multihal": MULTIHAL_RELEASE,
    "biokalma": BIOKALMA_RELEASE,
    "slaq": SLAQ_RELEASE,
    "fanoutqa": FANOUTQA_RELEASE,
}
"""By benchmark."""


def find_release_forms(build: BuildRecord) -> ReleaseForms:
    """Return how a build is released; UsageError for one of no benchmark, such as an evaluation."""
    if build.benchmark not in RELEASES:
        told = ", ".join(BENCHMARKS)
        raise UsageError(
            f"{build.build_id} is a build of {build.benchmark}, which is not released; expected one of {told} (see: factmill builds)"
        )
    return RELEASES[build.benchmark]
