"""A stretch of one table's changes, in memory or on disk, cut to what is not applied yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from replicator_sdk import ChangeBatch, Commits, DMLOperation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replicator_runtime.engine.batching.spill import SpillFile
    from replicator_sdk import Offset, TableSchema


@dataclass(slots=True)
class Segment:
    """Changes of one window and one table under one schema version.

    Attributes:
        schema: Their schema.
        batches: In memory, in order; empty when spilled.
        spilled: On disk; None when in memory.
        skip: Changes with a lower ordinal are applied already, or belong to the segment before.
        until: Changes with this ordinal or a higher one belong to the next segment.
        commits: The window's commits; None when a schema change cut the transaction.
        timestamp: The commit time where there are no commits.
        overlap: Whether the table may hold the effect of these changes already.
        end: The table's offset once they are applied; None when a schema change gives the position.
    """

    schema: TableSchema
    batches: list[ChangeBatch]
    spilled: SpillFile | None = None
    skip: int = 0
    until: int = 1 << 62
    overlap: bool = False
    end: Offset | None = None
    commits: Commits | None = None
    timestamp: int = -1

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return sum(batch.nbytes for batch in self.batches)

    def spill(self, file: SpillFile) -> None:
        """Append what is in memory to `file`."""
        self.spilled = file  # first, so that `close` closes it also when a write fails
        for batch in self.batches:
            file.write(batch)
        self.batches = []

    def finish(self) -> None:
        """Its window has ended: nothing is added any more."""
        if self.spilled is not None:
            self.spill(self.spilled)
            self.spilled.finish()

    @property
    def empty(self) -> bool:
        """Whether nothing is left between `skip` and `until`; cheap for what is in memory."""
        if self.spilled is not None:
            return next(self.read(), None) is None
        return not any(int(b.ordinals[-1]) >= self.skip and int(b.ordinals[0]) < self.until for b in self.batches)

    def read(self) -> Iterator[ChangeBatch]:
        """What is not applied yet, with commit times, in order."""
        for batch in self.spilled.read() if self.spilled is not None else self.batches:
            start, stop = (int(i) for i in np.searchsorted(batch.ordinals, (self.skip, self.until)))
            if start < stop:
                kept = batch.slice(start, stop) if start or stop < len(batch) else batch
                yield replace(kept, timestamps=self._timestamps(kept))

    def close(self) -> None:
        """Give disk space back."""
        if self.spilled is not None:
            self.spilled.close()

    def _timestamps(self, batch: ChangeBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if self.commits is None:
            return np.full(len(batch), self.timestamp, np.int64)
        return self.commits.timestamps[np.searchsorted(self.commits.ordinals, batch.ordinals, side="right")]


@dataclass(frozen=True, slots=True)
class Tally:
    """What a stretch of changes holds."""

    inserts: int
    updates: int
    deletes: int
    first_sequence: int
    last_sequence: int
    source_timestamp: int
    is_snapshot: bool
    is_unordered: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many changes of each kind, by the names of their counters."""
        return {"dml.insert": self.inserts, "dml.update": self.updates, "dml.delete": self.deletes}

    @property
    def rows(self) -> int:
        """How many changes."""
        return self.inserts + self.updates + self.deletes


def tally(segments: list[Segment]) -> Tally | None:
    """Count what `segments` hold; None when nothing is left of them. Reads spilled ones once."""
    counts = np.zeros(8, np.int64)
    first, last, stamp, snapshot, unordered = None, 0, -1, False, False
    for segment in segments:
        for batch in segment.read():
            counts += np.bincount(batch.op.to_numpy(zero_copy_only=False), minlength=8)
            if batch.sequence_numbers is not None:
                first = int(batch.sequence_numbers[0]) if first is None else first
                last = int(batch.sequence_numbers[-1])
            if batch.timestamps is not None:
                stamp = max(stamp, int(batch.timestamps.max()))
            snapshot = snapshot or batch.is_snapshot
            unordered = unordered or batch.is_unordered
    if first is None:
        return None
    inserts, updates, deletes = (
        int(counts[op]) for op in (DMLOperation.INSERT, DMLOperation.UPDATE, DMLOperation.DELETE)
    )
    return Tally(inserts, updates, deletes, first, last, stamp, snapshot, unordered)
