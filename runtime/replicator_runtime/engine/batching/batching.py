"""Collects numbered events by table until a commit boundary past a limit; a batch never splits a transaction, except
where a schema change inside it does.

Also decides which changes a table has already: by its own *position*, never by sequence number, since filters and
restarts change numbers (`docs/decisions/0001-positions-not-numbers-decide-what-is-applied.md`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa

from replicator_runtime.engine.batching.segment import Segment, tally
from replicator_runtime.engine.batching.spill import SpillFile
from replicator_sdk import BatchIdentity, ChangeBatch, DDLEvent, Position, TableChanges
from replicator_sdk.errors import BugError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from replicator_runtime.engine.batching.segment import Tally
    from replicator_runtime.engine.batching.sequencer import CommitMark
    from replicator_runtime.engine.tables.table_watermark import TableWatermark
    from replicator_sdk import Commits, Offset, TableId


_Known = tuple[Segment, Position]
"""What of a window a table has and nothing has counted, and up to where."""


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """What is kept of one table's batch once it is applied.

    Attributes:
        table: The table.
        position: The table's position once they are applied.
        tally: What they count.
    """

    table: TableId
    position: Position
    tally: Tally


@dataclass(slots=True)
class TableBatch:
    """One table's changes ready to be applied, with their counts."""

    changes: TableChanges
    tally: Tally
    segments: list[Segment] = field(default_factory=list)

    @property
    def applied(self) -> AppliedBatch:
        """What is kept of it; none of its rows."""
        return AppliedBatch(self.changes.table, self.changes.identity.position, self.tally)

    def close(self) -> None:
        """Give spill space back, after the apply."""
        for segment in self.segments:
            segment.close()


class Batcher:
    """The apply thread's memory between two flushes. Used by one thread.

    Args:
        start: The offset reading starts after, and the sequence number there.
        watermarks: The tables that take changes; shared with the stream, which raises a watermark once changes are durable.
        generation: For batch identities.
        epoch: For batch identities.
        spill_bytes: An open transaction larger than this is written to disk.
        spill_folder: Where; None for the system's temporary folder.
        recount: Called with changes that a table has and that are not counted: the table, up to where, and how many of each kind.
    """

    def __init__(
        self,
        start: tuple[Offset, int],
        watermarks: Mapping[TableId, TableWatermark],
        *,
        generation: int,
        epoch: int,
        spill_bytes: int,
        spill_folder: str | None = None,
        recount: Callable[[TableId, Position, Mapping[str, int]], None] | None = None,
    ) -> None:
        self.offset, self.sequence_number = start
        self.rows = 0
        self.nbytes = 0
        self.oldest_timestamp = self.newest_timestamp = self._valid_through = -1
        self._watermarks = watermarks
        self._generation, self._epoch = generation, epoch
        self._spill_bytes, self._spill_folder = spill_bytes, spill_folder
        self._window: dict[TableId, list[Segment]] = {}
        self._window_bytes = 0
        self._window_ddl = -1
        self._sealed: dict[TableId, list[Segment]] = {}
        self._recount = recount
        self._recounting = {table for table, mark in watermarks.items() if mark.recount is not None}

    @property
    def empty(self) -> bool:
        """Whether no committed change waits."""
        return not self._sealed

    @property
    def waiting(self) -> frozenset[TableId]:
        """The tables that have committed changes which wait."""
        return frozenset(self._sealed)

    def add(self, batch: ChangeBatch) -> None:
        """Take a batch of the open window."""
        if batch.table not in self._watermarks:
            return
        segments = self._window.setdefault(batch.table, [])
        if not segments or segments[-1].schema != batch.schema:
            segments.append(Segment(batch.schema, []))
        segments[-1].batches.append(batch)
        self._window_bytes += batch.nbytes
        if self._window_bytes > self._spill_bytes:
            self._spill()

    def commit(self, mark: CommitMark) -> None:
        """The open window ended: its changes are committed and wait for the flush."""
        if self._window_ddl >= 0 and self._window_ddl >= int(mark.commits.ordinals[0]):
            raise BugError(
                "the source emitted a schema change after another transaction's commit in one window",
                code="RPL-9006",
                position=str(mark.start),
            )
        for table, segments in self._window.items():
            for segment in segments:
                self._seal(table, segment, self._committed(table, segment, mark), self._known(table, segment, mark))
        self._note_counted(mark.commits.last)
        self._window, self._window_bytes, self._window_ddl = {}, 0, -1
        self.offset, self.sequence_number = mark.commits.last, mark.sequence_number
        self.newest_timestamp = int(mark.commits.timestamps[-1])
        self._valid_through = max(self._valid_through, _valid_through(mark.commits))
        if self._sealed and self.oldest_timestamp < 0:
            self.oldest_timestamp = int(mark.commits.timestamps[0])

    def cut(self, event: DDLEvent) -> list[TableBatch]:
        """Everything of the table before this schema change, also of its own open transaction."""
        self._window_ddl = event.ordinal
        watermark = self._watermarks.get(event.table)
        timestamp = -1 if event.source_timestamp is None else int(event.source_timestamp.timestamp() * 1_000_000)
        if watermark is not None and event.table in self._window:
            skip, overlap = _open_skip(watermark.position, self.offset), watermark.overlaps(self.offset)
            for segment in self._window.pop(event.table):
                part = replace(segment, skip=skip, timestamp=timestamp, overlap=overlap)
                self._seal(event.table, segment, [part], self._known_before(event, watermark, segment))
        return self._take(event.table, Position(self.offset, event.ordinal))

    def take(self) -> list[TableBatch]:
        """All committed changes, table by table; they are forgotten here."""
        batches = [item for table in list(self._sealed) for item in self._take(table, Position(self.offset))]
        self.rows = self.nbytes = 0
        self.oldest_timestamp = -1
        return batches

    def drop(self, table: TableId) -> None:
        """Forget what waits for `table`, which has stopped: all of it is read again."""
        for segment in [*self._window.pop(table, ()), *self._sealed.pop(table, ())]:
            segment.close()

    def close(self) -> None:
        """Forget everything and give disk space back."""
        for table in {*self._window, *self._sealed}:
            self.drop(table)

    def _committed(self, table: TableId, segment: Segment, mark: CommitMark) -> list[Segment]:
        """The segment as its window's end shows it: one part up to the end of the table's overlap, one after it.

        The two are never applied together: a row that moved in each of them is at the target under the key in between,
        where only the second part may look for it.
        """
        commits, watermark = mark.commits, self._watermarks[table]
        skip = self._skip(watermark.position, mark.start, commits)
        inside = 0 if watermark.overlap_until is None else commits.count_until(watermark.overlap_until)
        border = int(commits.ordinals[inside - 1]) if inside else 0
        parts = []
        if inside:
            end = commits.offset_at(inside - 1)
            parts.append(replace(segment, skip=skip, until=border, commits=commits, overlap=True, end=end))
        if inside < len(commits):
            parts.append(replace(segment, skip=max(skip, border), commits=commits, end=commits.last))
        return parts

    def _known(self, table: TableId, segment: Segment, mark: CommitMark) -> _Known | None:
        """The segment cut to what the table has and nothing has counted."""
        again = self._watermarks[table].recount
        if again is None:
            return None
        after, until = (self._skip(where, mark.start, mark.commits) for where in (again.after, again.until))
        part = replace(segment, skip=after, until=until, commits=mark.commits)
        return part, min(again.until, Position(mark.commits.last))

    def _known_before(self, event: DDLEvent, watermark: TableWatermark, segment: Segment) -> _Known | None:
        """The same of a transaction that `event` cuts."""
        again = watermark.recount
        if again is None:
            return None
        after, until = (_open_skip(where, self.offset) for where in (again.after, again.until))
        return replace(segment, skip=after, until=until), min(again.until, Position(self.offset, event.ordinal))

    def _note_counted(self, end: Offset) -> None:
        """The window up to `end` is counted."""
        for table in list(self._recounting):
            watermark = self._watermarks.get(table)
            again = None if watermark is None else watermark.recount
            if watermark is None or again is None or again.until <= Position(end):
                self._recounting.discard(table)
                if watermark is not None:
                    watermark.recount = None
            elif again.after < Position(end):
                watermark.recount = replace(again, after=Position(end))

    def _seal(self, table: TableId, segment: Segment, parts: list[Segment], known: _Known | None) -> None:
        """Keep what is left of a segment for the flush; `known` is what is counted only."""
        segment.finish()
        if known is not None:
            part, end = known
            part.batches, part.spilled = segment.batches, segment.spilled
            if self._recount is not None and (counted := tally([part])) is not None:
                self._recount(table, end, counted.counts)
        kept = []
        for part in parts:
            part.batches, part.spilled = segment.batches, segment.spilled
            if not part.empty:
                kept.append(part)
        if not kept:
            segment.close()
            return
        self._sealed.setdefault(table, []).extend(kept)
        self.rows += segment.spilled.rows if segment.spilled else sum(len(b) for b in segment.batches)
        self.nbytes += segment.spilled.nbytes if segment.spilled else segment.nbytes

    @staticmethod
    def _skip(watermark: Position, start: Offset, commits: Commits) -> int:
        """Below which ordinal the window's changes are in a table that is at `watermark`."""
        applied = commits.count_until(watermark.offset)
        below = int(commits.ordinals[applied - 1]) if applied else 0
        at = commits.offset_at(applied - 1) if applied else start
        return below + watermark.events_after if at == watermark.offset else below

    def _take(self, table: TableId, position: Position) -> list[TableBatch]:
        """One batch for each stretch inside or after the overlap, in order; the last one ends at `position`."""
        segments = self._sealed.pop(table, [])
        if any(segment.schema != segments[0].schema for segment in segments):
            raise BugError("changes under two schemas met without a schema change", code="RPL-9007", table=str(table))
        runs = [list(run) for _, run in groupby(segments, lambda segment: segment.overlap)]
        found = []
        for run in runs:
            end = run[-1].end
            until = position if run is runs[-1] or end is None else Position(end)
            if (batch := self._table_batch(run, until)) is not None:
                found.append(batch)
        return found

    def _table_batch(self, run: list[Segment], position: Position) -> TableBatch | None:
        counted = tally(run)
        if counted is None:
            for segment in run:
                segment.close()
            return None
        watermark = self._watermarks.get(run[0].schema.table)
        forgives = run[0].overlap or (watermark is not None and watermark.filtered)
        is_part = watermark is not None and watermark.is_part
        identity = BatchIdentity(self._generation, self._epoch, counted.first_sequence, counted.last_sequence, position)
        changes = TableChanges(
            run[0].schema,
            identity,
            lambda: (batch for segment in run for batch in segment.read()),
            rows=counted.rows,
            nbytes=sum(s.spilled.nbytes if s.spilled else s.nbytes for s in run),
            overlap=counted.is_snapshot or forgives or is_part,
            drops_lost_updates=forgives and not is_part,
            inserts_only=counted.updates == 0 and counted.deletes == 0,
            source_timestamp=counted.source_timestamp,
            unordered=counted.is_unordered and not (watermark is not None and watermark.lacks_rows),
            follows=None if watermark is None else watermark.position,
            valid_through=self._valid_through if position.offset == self.offset else -1,
        )
        return TableBatch(changes, counted, run)

    def _spill(self) -> None:
        """Move the open window's rows to disk: the transaction is larger than memory should hold."""
        for segments in self._window.values():
            last = segments[-1]
            last.spill(last.spilled or SpillFile(last.schema, self._spill_folder))
        self._window_bytes = 0
        pa.default_memory_pool().release_unused()  # what was spilled is not to stay in the allocator instead


def _valid_through(commits: Commits) -> int:
    """Up to when all changes of the source are in the log up to these commits; -1 unknown."""
    return int(commits.timestamps.max()) if commits.valid_through is None else commits.valid_through


def _open_skip(watermark: Position, start: Offset) -> int:
    """Below which ordinal the changes of the transaction open after `start` are applied."""
    if watermark.offset == start:
        return watermark.events_after
    return 1 << 62 if start < watermark.offset else 0
