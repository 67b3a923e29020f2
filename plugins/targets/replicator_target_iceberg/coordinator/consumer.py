"""The consumer that takes changes ahead of the commits that make them durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replicator_sdk.target import DeferredConsumer
from replicator_target_iceberg.consumer import IcebergConsumer
from replicator_target_iceberg.coordinator.rounds import Rounds
from replicator_target_iceberg.coordinator.table_commits import TableCommits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from replicator_sdk.batch import TableChanges
    from replicator_sdk.context import DeltaTargetContext
    from replicator_sdk.event import DDLEvent
    from replicator_sdk.offset import Position
    from replicator_sdk.schema import TableId, TableSchema
    from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
    from replicator_sdk.target import TableProgress
    from replicator_target_iceberg.config import IcebergConfig


class CoordinatedConsumer(IcebergConsumer, DeferredConsumer):
    """Writes the files of each batch when it comes, and commits those of several batches together, table by table.

    What was taken and not committed are files that no snapshot names.
    """

    def __init__(self, config: IcebergConfig, context: DeltaTargetContext) -> None:
        super().__init__(config, context)
        self._commits: dict[TableId, TableCommits] = {}
        interval, timeout = config.commit_interval_ms / 1000, config.commit_timeout_ms / 1000
        self._rounds = Rounds(interval, timeout, self._all, context)

    def apply_batch(self, changes: TableChanges) -> None:
        """Write the files of a table's changes; a commit makes them durable with their progress."""
        commits = self._of(changes.table)
        commits.take(changes)
        if commits.waits:
            self._rounds.taken()

    def settled(self, table: TableId) -> Position | None:
        """The position of the table's last commit."""
        return self._of(table).settled()

    def settle(self, tables: Collection[TableId]) -> None:
        """Commit everything that these tables have taken."""
        self._rounds.settle([self._of(table) for table in tables])

    def apply_ddl(self, event: DDLEvent) -> None:
        """Apply a change of structure, after what was taken before it is committed."""
        self._settle_now(event.table)
        super().apply_ddl(event)

    def repair_rows(self, changes: TableChanges) -> None:
        """Write rows again, after what was taken before is committed."""
        self._settle_now(changes.table)
        super().repair_rows(changes)

    def rewind_table(self, table: TableId, position: Position) -> TableProgress | None:
        """Bring an earlier snapshot back; what was taken is dropped."""
        self._of(table).discard()
        return super().rewind_table(table, position)

    def begin_snapshot(self, schema: TableSchema, snapshot_id: str, position: Position) -> frozenset[int]:
        """Make the table ready for a plan's chunks; what was taken before is dropped."""
        self._of(schema.table).discard()
        return super().begin_snapshot(schema, snapshot_id, position)

    def load_whole(
        self,
        schema: TableSchema,
        snapshot_id: str,
        position: Position,
        chunks: Sequence[SnapshotChunk],
        read: ChunkReader,
        all_read: Callable[[], None],
    ) -> int:
        """Replace the table's rows; what was taken before is dropped."""
        self._of(schema.table).discard()
        return super().load_whole(schema, snapshot_id, position, chunks, read, all_read)

    def delete_table(self, table: TableId) -> str:
        """Delete the table with its files, also those that were taken."""
        self._of(table).discard()
        return super().delete_table(table)

    def stop(self) -> None:
        """End the coordinator's thread, and drop what was not committed."""
        self._rounds.stop()
        for commits in self._all():
            commits.discard()
        super().stop()

    def _settle_now(self, table: TableId) -> None:
        self.settle([table])
        self._of(table).raise_failure()

    def _all(self) -> list[TableCommits]:
        with self._lock:
            return list(self._commits.values())

    def _of(self, table: TableId) -> TableCommits:
        target = self._table(table)
        with self._lock:
            if table not in self._commits:
                self._commits[table] = TableCommits(target, self._config, self._context)
            return self._commits[table]
