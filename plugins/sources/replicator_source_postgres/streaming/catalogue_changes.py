"""Emits what only the catalogue shows, and emits it again, at the same position, when the log is replayed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import structlog

from replicator_sdk.authoring.log_position import StructureChange
from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.event import DDLOperation
from replicator_sdk.failpoint import failpoint, register
from replicator_sdk.schema import TableId
from replicator_source_postgres.catalogue import TableFacts
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.relation_ids import STATE_KEY as NAMES_KEY
from replicator_source_postgres.relation_ids import EmittedNames, RelationIds
from replicator_source_postgres.schema.emitted_changes import STATE_KEY, EmittedChange, dump_changes, load_changes
from replicator_source_postgres.schema.schema_tracker import SchemaTracker
from replicator_source_postgres.streaming.catalogue_poller import CataloguePoller
from replicator_source_postgres.streaming.log_position import WalPosition
from replicator_source_postgres.unlogged.fingerprint import FingerprintStore

register("postgres.rename.stored")
log = structlog.get_logger(__name__)


class CatalogueChanges:
    """Emits each such change as a transaction of its own; used by the reader's thread.

    Each is stored with its position before it is emitted, and is emitted only after everything has been read that an earlier
    run may have read: what a replay emits does not depend on what the catalogue shows then.

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
        ids = RelationIds.load(context.get_state(NAMES_KEY))
        emitted: list[EmittedChange | EmittedNames] = [*self._emitted, *ids.emitted]
        self._to_replay = sorted((one for one in emitted if position.offset < one.end), key=lambda one: one.end)
        self._lost = ids.lost if tracker.copied_twice() or ids.lost.keys() & tracker.schemas.keys() else None

    @property
    def is_waiting(self) -> bool:
        """Whether something waits for the log to be read up to it; the offset must not pass it before it is emitted."""
        return self._lost is not None

    def emit_settled(self, read_up_to: int) -> None:
        """Emit what the poller found, once all that was written to the log before it has been read.

        Args:
            read_up_to: Up to where the log was read, and emitted.
        """
        if self._lost is not None and self._poller.began_at is not None and self._poller.began_at <= read_up_to:
            self._end_lost(read_up_to)
        # Read before it is asked whether anything changed since the log was read up to it.
        facts = {oid: self._tracker.facts_of(oid) for oid in self._poller.ready(read_up_to)}
        settled = [oid for oid, _ in self._poller.settled(read_up_to) if oid in self._tracker.oids and oid in facts]
        for oid in settled:
            if oid in self._poller.dropped:
                self._emit_names({oid: (self._tracker.name_of(oid), None)}, read_up_to)
        altered = [oid for oid in settled if oid not in self._poller.dropped]
        blocked = self._emit_renames(read_up_to) if altered else set()
        for oid in altered:
            self._emit(oid, facts[oid], read_up_to)
            if oid in blocked:
                self._poller.wait_again(oid, self._tracker.oids[oid])

    def _end_lost(self, read_up_to: int) -> None:
        """Emit that tables have other names under which they were copied already: their copies under these names end.

        It is emitted by every run until the table is known no more, so its position need not be stored.
        """
        base, end = self._position.synthetic_offsets(read_up_to)
        schemas = self._tracker.schemas
        by_name = {t: now for t, now in (self._lost or {}).items() if t in schemas and not schemas[t].source_id}
        renames = [
            StructureChange(DDLOperation.RENAME_TABLE, now, schemas[table], previous=table, needs_snapshot=True)
            for table, now in {**by_name, **self._tracker.copied_twice()}.items()
        ]
        self._lost = None
        self._position.emit_between(base, renames, end)

    def _emit_renames(self, read_up_to: int) -> set[int]:
        """Emit all renames that the catalogue shows; returns the tables whose new name is another's for now."""
        blocked: set[int] = set()
        for group in self._tracker.renames():
            if self._tracker.are_free({now for _, now in group.values()} - {before for before, _ in group.values()}):
                self._emit_names({oid: (before, now) for oid, (before, now) in group.items()}, read_up_to)
            else:
                blocked |= group.keys()
        return blocked

    def _emit_names(self, names: dict[int, tuple[TableId, TableId | None]], read_up_to: int) -> None:
        """Emit renames at once, or a drop; stored first, so that a replay emits the same at the same position."""
        emitted = EmittedNames(*self._position.synthetic_offsets(read_up_to), names)
        durable = self._durable()
        RelationIds.change(self._context, lambda ids: ids.emit(emitted, durable))
        failpoint("postgres.rename.stored")
        self._report_names(emitted)

    def _report_names(self, emitted: EmittedNames) -> None:
        changes: list[StructureChange] = []
        renamed = {oid: (before, now) for oid, (before, now) in emitted.names.items() if now is not None}
        self._tracker.rename(renamed, changes.append)
        for oid, (table, now) in emitted.names.items():
            if now is None and oid in self._tracker.oids and self._tracker.name_of(oid) == table:
                log.warning("table.dropped_at_source", table=str(table))
                changes.append(StructureChange(DDLOperation.DROP_TABLE, self._tracker.oids[oid]))
                self._tracker.remove(oid)
            if now is None:
                FingerprintStore(self._context).forget(oid)
        self._position.emit_between(emitted.base, changes, emitted.end)

    def _emit(self, oid: int, facts: TableFacts | None, read_up_to: int) -> None:
        """Emit the columns that the catalogue showed of a table; stored first, as above."""
        base, end = self._position.synthetic_offsets(read_up_to)
        changes: list[StructureChange] = []
        self._tracker.refresh(oid, facts, changes.append)
        if not changes:
            return
        schema = changes[-1].schema
        assert schema is not None
        needs_snapshot = any(change.needs_snapshot for change in changes)
        self._forget_durable()
        self._emitted.append(EmittedChange(base, end, oid, schema.table, schema, needs_snapshot))
        self._context.put_state(STATE_KEY, dump_changes(self._emitted))
        self._position.emit_between(base, changes, end)

    def _forget_durable(self) -> None:
        """Drop changes that are never replayed."""
        durable = self._durable()
        if durable is not None:
            self._emitted = [change for change in self._emitted if durable < change.end]

    def _durable(self) -> PostgresOffset | None:
        """An offset before which no run starts; a run that has committed nothing yet may be followed by one from any offset that is kept."""
        durable = self._context.committed_offset() or self._context.oldest_offset()
        return durable if isinstance(durable, PostgresOffset) else None

    def replay(self, up_to: int) -> None:
        """Emit what an earlier run emitted up to `up_to`.

        Args:
            up_to: Where the next transaction begins, or the end of what was read.
        """
        while self._to_replay and self._to_replay[0].end.lsn <= up_to:
            change = self._to_replay.pop(0)
            if isinstance(change, EmittedNames):
                self._report_names(change)
                continue
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
