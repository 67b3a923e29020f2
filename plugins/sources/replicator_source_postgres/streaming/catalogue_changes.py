"""Emits schema changes that only the catalogue shows, and emits them again, at the same position, when the log is replayed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from replicator_sdk.authoring.log_position import StructureChange
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.schema import TableId
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.schema.emitted_changes import STATE_KEY, EmittedChange, dump_changes, load_changes
from replicator_source_postgres.schema.schema_tracker import SchemaTracker
from replicator_source_postgres.streaming.catalogue_poller import CataloguePoller
from replicator_source_postgres.streaming.log_position import WalPosition


class CatalogueChanges:
    """Emits each such change as a transaction of its own; used by the reader's thread.

    Args:
        position: Where the reader is; what an earlier run emitted after it is emitted again.
        tracker: The captured tables.
        poller: Finds tables whose catalogue entry changed.
        context: Stores what was emitted, for as long as a run may start before it.
    """

    def __init__(
        self, position: WalPosition, tracker: SchemaTracker, poller: CataloguePoller, context: DeltaSourceContext
    ) -> None:
        self._position = position
        self._tracker = tracker
        self._poller = poller
        self._context = context
        self._emitted = load_changes(context.get_state(STATE_KEY))
        self._to_replay = [change for change in self._emitted if position.offset < change.end]

    def emit_settled(self, read_up_to: int) -> None:
        """Emit what the poller found, once all that was written to the log before it has been read.

        Args:
            read_up_to: Up to where the log was read, and emitted.
        """
        for oid, table in self._poller.settled(read_up_to):
            base, end = self._position.synthetic_offsets(read_up_to)
            if oid in self._poller.dropped:
                self._position.emit_drop(base, table, end)
                self._tracker.remove(table)
            else:
                self._emit(oid, table, base, end)
            self._tracker.relation_ids.save(self._context)

    def _emit(self, oid: int, table: TableId, base: PostgresOffset, end: PostgresOffset) -> None:
        """Emit what the catalogue shows of a table; stored first, so that a replay emits the same at the same position."""
        changes: list[StructureChange] = []
        self._tracker.refresh(oid, changes.append)
        if not changes:
            return
        schema = changes[-1].schema
        assert schema is not None
        needs_snapshot = any(change.needs_snapshot for change in changes)
        self._forget_durable()
        self._emitted.append(EmittedChange(base, end, oid, table, schema, needs_snapshot))
        self._context.put_state(STATE_KEY, dump_changes(self._emitted))
        self._position.emit_between(base, changes, end)

    def _forget_durable(self) -> None:
        """Drop changes before the committed offset: no run starts before it, so they are never replayed."""
        durable = self._context.committed_offset()
        if isinstance(durable, PostgresOffset):
            self._emitted = [change for change in self._emitted if durable < change.end]

    def replay(self, up_to: int) -> None:
        """Emit what an earlier run emitted up to `up_to`.

        Args:
            up_to: Where the next transaction begins, or the end of what was read.
        """
        while self._to_replay and self._to_replay[0].end.lsn <= up_to:
            change = self._to_replay.pop(0)
            changes: list[StructureChange] = []
            self._tracker.replay(change, changes.append)
            self._position.emit_between(change.base, changes, change.end)

    def cuts(self, ends: Sequence[int], begins: Sequence[int]) -> Iterator[int]:
        """Where the window is cut because a change is replayed there: an end of a commit for each.

        Args:
            ends: Where the window may be cut, after each commit.
            begins: Where each commit's record starts in the log.
        """
        for change in self._to_replay:
            before = bisect_left(begins, change.end.lsn)
            if before:
                yield ends[before - 1]
