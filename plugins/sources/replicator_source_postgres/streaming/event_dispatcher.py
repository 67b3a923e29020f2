"""Decodes the log's messages and emits them, a window of whole transactions at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from replicator_sdk.authoring.log_position import StructureChange
from replicator_sdk.batch import Commits
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import TableId
from replicator_source_postgres.offset import CommitRecord, PostgresOffset
from replicator_source_postgres.pgoutput import Decoder, Relation, Truncation, Window
from replicator_source_postgres.pgoutput.images import RelationPlan
from replicator_source_postgres.schema.schema_tracker import SchemaTracker
from replicator_source_postgres.streaming.catalogue_changes import CatalogueChanges
from replicator_source_postgres.streaming.log_position import WalPosition


class EventDispatcher:
    """Decodes messages and emits their changes in log order; used by the reader's thread.

    Args:
        position: Where the reader is; advanced by every commit.
        tracker: The captured tables.
        changes: What is emitted between transactions.
        context: State and metrics.

    Attributes:
        is_open: Whether the last transaction was emitted without its commit, which is still to come.
    """

    def __init__(
        self, position: WalPosition, tracker: SchemaTracker, changes: CatalogueChanges, context: DeltaSourceContext
    ) -> None:
        self._position = position
        self._tracker = tracker
        self._changes = changes
        self._context = context
        self._decoder = Decoder(self._plan)
        self.is_open = False

    def dispatch(self, messages: list[memoryview | bytes], *, is_full: bool) -> list[memoryview | bytes]:
        """Decode and emit up to the last commit; returns the messages of the transaction still open.

        A transaction that fills a window by itself (`is_full`) is emitted without its commit; its ordinals continue in the
        next window.
        """
        window = Window(messages)
        if not self.is_open and not window.begins():
            return []  # logical messages of other applications, outside transactions
        commits = window.commits()
        ends = commits.index + 1
        if not len(ends) and not is_full:
            return messages
        stop = int(ends[-1]) if len(ends) else len(window)
        begin = 0
        for end in self._cuts(window.part(0, stop), ends.tolist(), commits.lsn.tolist()):
            self._emit_part(window.part(begin, end))
            begin = end
        self._count_replaced()
        return messages[stop:] if window.part(stop, len(window)).begins() else []

    def _cuts(self, window: Window, ends: list[int], begins: list[int]) -> list[int]:
        """Where to end windows: a schema change must be in the first transaction of its window."""
        cuts = {len(window), *self._changes.cuts(ends, begins)}
        for border in self._decoder.borders(window):
            before = bisect_right(ends, border)
            if before:
                cuts.add(ends[before - 1])
        return sorted(cuts)

    def _emit_part(self, part: Window) -> None:
        commits = part.commits()
        if not self.is_open:
            self._begin(part, int(commits.index[0]) if len(commits.index) else None)
        for item in self._decoder.decode(part, self._position.ordinal):
            if isinstance(item, Truncation):
                self._emit_truncation(item)
            else:
                self._position.emitter.emit_batch(item.batch)
        ranks = self._decoder.ranks
        self.is_open = not len(commits.index)
        if self.is_open:
            self._position.ordinal = int(ranks[-1])
            return

        def offset_at(i: int) -> PostgresOffset:
            commit = CommitRecord(int(commits.lsn[i]), int(commits.timestamp[i]))
            return self._position.offset_at(int(commits.end_lsn[i]), commit)

        self._position.commit(Commits(ranks[commits.index], commits.timestamp, offset_at))

    def _begin(self, part: Window, first_end: int | None) -> None:
        """Emit what belongs before the part's first transaction, which ends at message `first_end`, or after the part.

        The transaction's begin is emitted as an offset only when positions may count from it: when the transaction holds a
        schema change, or may hold one in a later window.
        """
        lsn, timestamp = part.part(0, 1 + int(part.where(b"B")[0])).begin_records()[0]
        self._changes.replay(lsn)
        while self._tracker.renamed:
            oid = self._tracker.renamed.pop()
            if oid in self._tracker.oids:  # else it was dropped since
                self._decoder.rename(oid, self._tracker.oids[oid])
        if first_end is None or self._decoder.borders(part.part(0, first_end)):
            self._position.begin(CommitRecord(lsn, timestamp))

    def _plan(self, relation: Relation, take_ordinal: Callable[[TableId], int]) -> RelationPlan | None:
        """Plan the decoding of a relation, and emit its schema changes; called by the decoder for every relation message."""

        def report(change: StructureChange) -> None:
            self._position.emit_structure(change, take_ordinal(change.table))

        return self._tracker.on_relation(relation, report)

    def _emit_truncation(self, truncation: Truncation) -> None:
        for relation, ordinal in zip(truncation.relations, truncation.ordinals, strict=True):
            table = self._tracker.table_of(relation)
            if table is not None:
                change = StructureChange(DDLOperation.TRUNCATE_TABLE, table, self._tracker.schemas[table])
                self._position.emit_structure(change, ordinal)

    def _count_replaced(self) -> None:
        for table, counter in self._tracker.replaced.items():
            for count in counter.values():
                self._context.metrics.count("source.out_of_range", count, table=table)
            counter.clear()
