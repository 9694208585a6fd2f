"""Reading the sources of a load into its staging database, block after block, and committing now and then.

Blocks are sorted by a few threads while this one unpacks the next and appends rows; they are taken in order, so that
what is committed is always a beginning of the sources.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from tasks.errors import SourceError
from tasks.graph.load_progress import Meter
from tasks.graph.loading.rows import Sorted
from tasks.graph.loading.shapes import Shapes, make_shapes, sort_block
from tasks.graph.loading.sources.streams import START, Block, Position, Source, SourceChanged
from tasks.graph.loading.staging import Staging, Tally
from tasks.graph.manifest import SourceFile

COMMIT_TEXT_BYTES = 256 << 20
"""What is read is committed when so many bytes of text were read since the last time, or so much time went by."""
COMMIT_SECONDS = 30.0

_SORTERS = min(8, max(2, os.cpu_count() or 2))
_BLOCKS_UNDER_WAY = _SORTERS + 2


def read_sources(
    sources: Sequence[Source],
    languages: Sequence[str],
    staging: Staging,
    tally: Tally,
    meter: Meter,
    on_commit: Callable[[], None],
) -> None:
    """Read the sources on from where the tally is, to their end.

    `on_commit` is called when rows that a graph has a use for were committed. Raises SourceChanged when what was read
    before is not what it was, SourceError for what is damaged or no dump.
    """
    _check_finished(sources, tally)
    if tally.is_whole:
        return
    commits = _Commits(staging, tally, on_commit)
    with ThreadPoolExecutor(_SORTERS) as pool:
        shapes = make_shapes(languages)
        for source in sources[len(tally.finished) :]:
            for block, found in _sort_blocks(source, tally.position, shapes, pool, meter):
                _count(tally, block, found)
                staging.add(found.tables)
                commits.count(len(block.data))
            _finish(tally, source)
    tally.is_whole = True
    commits.commit()


def _check_finished(sources: Sequence[Source], tally: Tally) -> None:
    """Check that the sources that were read to their end are what they were, by whatever name."""
    for nth, (source, before) in enumerate(zip(sources, tuple(tally.finished), strict=False)):
        if tally.is_whole and not source.can_be_read_again:
            # nothing is left to be read of a pipe, which need not be there again
            continue
        is_other = source.find_size() not in (None, before.size_bytes)
        if not is_other:
            source.read_again()
            is_other = (source.size_bytes, source.sha256) != (before.size_bytes, before.sha256)
        if is_other:
            raise SourceChanged(f"{source.path}: does not hold what was read from it before")
        tally.finished[nth] = before.model_copy(update={"path": source.path})


@dataclass(slots=True)
class _Commits:
    """Commits what is read when it is time to."""

    staging: Staging
    tally: Tally
    on_commit: Callable[[], None]
    text_bytes: int = 0
    last_s: float = field(default_factory=time.monotonic)

    def count(self, text_bytes: int) -> None:
        """Count text that was read and added."""
        self.text_bytes += text_bytes
        if self.text_bytes >= COMMIT_TEXT_BYTES or time.monotonic() - self.last_s >= COMMIT_SECONDS:
            self.commit()

    def commit(self) -> None:
        """Commit what was added."""
        self.staging.commit(self.tally)
        if self.tally.kept:
            self.on_commit()
        self.text_bytes, self.last_s = 0, time.monotonic()


def _sort_blocks(
    source: Source, after: Position, shapes: Shapes, pool: ThreadPoolExecutor, meter: Meter
) -> Iterator[tuple[Block, Sorted]]:
    """Yield each block with what it holds, in order, a few blocks being sorted ahead."""
    under_way: deque[tuple[Block, Future[Sorted]]] = deque()
    for block in source.read_blocks(after=after):
        under_way.append((block, pool.submit(sort_block, block, shapes)))
        meter.count(block)
        if len(under_way) == _BLOCKS_UNDER_WAY:
            first, future = under_way.popleft()
            yield first, future.result()
    for block, future in under_way:
        yield block, future.result()


def _count(tally: Tally, block: Block, found: Sorted) -> None:
    triples = found.lines - found.blank - found.count_rows("malformed")
    if block.first_line == 1 and not triples and found.count_rows("malformed"):
        text = found.tables["malformed"][0]["text"][0].as_py()
        raise SourceError(
            f"{block.source}: none of its first lines is a triple ({text[:80]!r}); expected N-Triples or Turtle"
        )
    tally.position = block.end
    tally.triples += triples
    tally.blank += found.blank
    tally.not_kept.update(found.not_kept)
    for name in found.tables:
        tally.read[name] += found.count_rows(name)


def _finish(tally: Tally, source: Source) -> None:
    if not tally.triples:
        raise SourceError(f"{source.path}: holds no triple")
    if tally.kept == tally.kept_before:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.not_kept.items()))
        raise SourceError(
            f"{source.path}: none of its triples is of use in a graph (so far {kinds}); expected a dump of Wikidata"
        )
    tally.finished.append(
        SourceFile(path=source.path, size_bytes=source.size_bytes, sha256=source.sha256, lines=tally.position.lines)
    )
    tally.position, tally.triples, tally.kept_before = START, 0, tally.kept
