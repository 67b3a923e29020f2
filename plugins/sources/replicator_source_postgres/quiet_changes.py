"""Changes of structure that no row announces: told once the log was read up to them, and told again by a replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replicator_sdk.context import DeltaSourceContext
from replicator_sdk.schema import TableId
from replicator_source_postgres.place import LogPlace
from replicator_source_postgres.relations import Relations, StructureChange
from replicator_source_postgres.table_watch import TableWatch
from replicator_source_postgres.told import STATE_KEY, ToldChange, dump_told, load_told


class QuietChanges:
    """Emits such changes where they belong; used by the reader's thread.

    Args:
        place: Where the reader is; what was told behind it in an earlier run is told again.
        relations: The captured tables.
        watch: Finds what the log does not say.
        context: Keeps what was told.
    """

    def __init__(self, place: LogPlace, relations: Relations, watch: TableWatch, context: DeltaSourceContext) -> None:
        self._place = place
        self._relations = relations
        self._watch = watch
        self._context = context
        self._told = load_told(context.get_state(STATE_KEY))
        self._to_retell = [told for told in self._told if told.at >= place.offset.lsn]

    def settle(self, read_up_to: int) -> None:
        """Emit what the watch has found, once all that was written before it has been read."""
        for oid, table in self._watch.settled(read_up_to):
            if oid in self._watch.dropped:
                self._place.report_drop(table)
                self._relations.forget(table)
            else:
                self._tell(oid, table)
            self._relations.seen.save(self._context)

    def _tell(self, oid: int, table: TableId) -> None:
        """Emit what the catalogue shows of a table, kept first so that a replay tells the same at the same place."""
        changes: list[StructureChange] = []
        self._relations.settle(oid, changes.append)
        if changes:
            last = changes[-1]
            needs_snapshot = any(change.needs_snapshot for change in changes)
            self._told.append(ToldChange(self._place.offset.lsn, oid, table, last.schema, needs_snapshot))
            self._context.put_state(STATE_KEY, dump_told(self._told))
        for change in changes:
            self._place.report(change)

    def retell(self, before: int | None = None) -> None:
        """Emit what an earlier run told at positions less than `before`, or at all those left."""
        while self._to_retell and (before is None or self._to_retell[0].at < before):
            told = self._to_retell.pop(0)
            if self._place.offset.lsn < told.at:
                self._place.commit_at(told.at)
            self._relations.retell(told, self._place.report)

    def cuts(self, ends: Sequence[int], positions: Sequence[int]) -> Iterator[int]:
        """Before which of the commits that end at `ends`, at these positions, something is to be told again."""
        for told in self._to_retell:
            yield from [end for end, position in zip(ends, positions, strict=True) if position <= told.at][-1:]
