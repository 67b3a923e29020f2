"""Changes of structure that no row announces: told once the log was read up to them, and told again by a replay."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.schema import TableId
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.place import LogPlace
from replicator_source_postgres.relations import Relations, StructureChange
from replicator_source_postgres.table_watch import TableWatch
from replicator_source_postgres.told import STATE_KEY, ToldChange, dump_told, load_told


class QuietChanges:
    """Emits such changes where they belong, each as a transaction of its own; used by the reader's thread.

    Args:
        place: Where the reader is; what was told after it in an earlier run is told again.
        relations: The captured tables.
        watch: Finds what the log does not say.
        context: Keeps what was told, for as long as a run may start before it.
    """

    def __init__(self, place: LogPlace, relations: Relations, watch: TableWatch, context: DeltaSourceContext) -> None:
        self._place = place
        self._relations = relations
        self._watch = watch
        self._context = context
        self._told = load_told(context.get_state(STATE_KEY))
        self._to_retell = [told for told in self._told if place.offset < told.end]

    def settle(self, read_up_to: int) -> None:
        """Emit what the watch has found, once all that was written before it has been read.

        Args:
            read_up_to: Up to where the log was read, and emitted.
        """
        for oid, table in self._watch.settled(read_up_to):
            base, end = self._place.room(read_up_to)
            if oid in self._watch.dropped:
                self._place.emit_drop(base, table, end)
                self._relations.forget(table)
            else:
                self._tell(oid, table, base, end)
            self._relations.seen.save(self._context)

    def _tell(self, oid: int, table: TableId, base: PostgresOffset, end: PostgresOffset) -> None:
        """Emit what the catalogue shows of a table, kept first so that a replay tells the same at the same place."""
        changes: list[StructureChange] = []
        self._relations.settle(oid, changes.append)
        if not changes:
            return
        last = changes[-1]
        needs_snapshot = any(change.needs_snapshot for change in changes)
        self._forget_durable()
        self._told.append(ToldChange(base, end, oid, table, last.schema, needs_snapshot))
        self._context.put_state(STATE_KEY, dump_told(self._told))
        self._place.emit_between(base, changes, end)

    def _forget_durable(self) -> None:
        """No run starts before the offset the source may be told, so what was told before it is not told again."""
        durable = self._context.committed_offset()
        if isinstance(durable, PostgresOffset):
            self._told = [told for told in self._told if durable < told.end]

    def retell(self, up_to: int) -> None:
        """Emit what an earlier run told at positions up to `up_to`, where a transaction begins or the log was read to."""
        while self._to_retell and self._to_retell[0].end.lsn <= up_to:
            told = self._to_retell.pop(0)
            changes: list[StructureChange] = []
            self._relations.retell(told, changes.append)
            self._place.emit_between(told.base, changes, told.end)

    def cuts(self, ends: Sequence[int], begins: Sequence[int]) -> Iterator[int]:
        """After which of the commits something is to be told again.

        Args:
            ends: Where the window may be cut, after each commit.
            begins: Where each commit's record starts in the log.
        """
        for told in self._to_retell:
            before = bisect_left(begins, told.end.lsn)
            if before:
                yield ends[before - 1]
