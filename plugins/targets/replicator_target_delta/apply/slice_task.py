"""The part of a slice that one task applies: reads its partitions, writes new files, finds the rows that go.

Runs on Spark's executors. Nothing of it is in effect before the driver commits what comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.distributed.partitioned_log import LogPartition, LogPartitionReader
from replicator_sdk.distributed.slice_tasks import TaskResult
from replicator_sdk.distributed.slices import PartitionsRead, TableTally, read_partitions
from replicator_sdk.errors import ReplicatorError
from replicator_sdk.net_change.numbering import Numbering
from replicator_sdk.schema import TableId, TableSchema
from replicator_target_delta.apply.key_lookup import Place
from replicator_target_delta.apply.keyed import KeyedApply
from replicator_target_delta.apply.keyless import KeylessApply
from replicator_target_delta.apply.row_removal import Written
from replicator_target_delta.apply.table_apply import unfitting_value
from replicator_target_delta.file_index.file_index import Slot
from replicator_target_delta.files.storage import Storage
from replicator_target_delta.log.table_state import State
from replicator_target_delta.merge_on_read.append import AppendApply
from replicator_target_delta.schema.metadata_columns import Stamper
from replicator_target_delta.schema.table_form import TableForm
from replicator_target_delta.versions.history import VersionsApply
from replicator_target_delta.versions.version_columns import version_columns


@dataclass(frozen=True, slots=True)
class TableTarget:
    """A table as a task meets it; picklable.

    Attributes:
        schema: At source and target.
        state: The version the slice starts from.
        root: The table's folder.
        form: What it has beside the source's columns.
        highest: The highest sequence number in it.
        now: When the slice began; microseconds since 1970 UTC.
    """

    schema: TableSchema
    state: State
    root: str
    form: TableForm
    highest: int
    now: int


@dataclass(frozen=True, slots=True)
class TablePart:
    """What a task did for one table.

    Attributes:
        tally: The changes.
        add: Contents of the `add` actions of new files.
        removed: For each file, by its place in the index, its number of rows and, as a serialised bitmap, the indexes of those that go.
        missing: As `KeyedApply.missing`.
        new_keys: Of a table with a key that other tasks may write, too: the keys in this part that the table does not hold.
        error: Why nothing else is here.
        highest: In the modes `merge-on-read` and `scd2` the highest sequence number that a row was given, else 0.
    """

    tally: TableTally
    add: list[dict[str, Any]] = field(default_factory=list)
    removed: list[tuple[Slot, int, bytes]] = field(default_factory=list)
    missing: int = 0
    new_keys: list[pa.Table] = field(default_factory=list)
    error: ReplicatorError | None = None
    highest: int = 0


@dataclass(frozen=True, slots=True)
class PartitionsApply:
    """The work of every task of a slice; picklable, sent to each executor once.

    Attributes:
        read: The source's reader.
        tables: The tables that take changes.
        identity: Of the commits to come.
        overlap: As `TableChanges.overlap`.
        target_bytes: How large new files are at most.
        soft_deletes: Whether deleted rows are kept.
        is_shared: Whether the slice has several tasks.
    """

    read: LogPartitionReader
    tables: Mapping[TableId, TableTarget]
    identity: BatchIdentity
    overlap: bool
    target_bytes: int
    soft_deletes: bool
    is_shared: bool

    def __call__(self, partitions: tuple[LogPartition, ...]) -> TaskResult[TablePart]:
        """Read `partitions` and write their net changes to the tables' files; holds their changes in memory."""
        read = read_partitions(self.read, partitions, {t: target.schema for t, target in self.tables.items()})
        wanting = {schema.table for schema in read.seen}
        parts = {table: self._part(table, read) for table in list(read.tallies) if table not in wanting}
        return TaskResult(parts, tuple(read.seen), read.read_until)

    def _part(self, table: TableId, read: PartitionsRead) -> TablePart:
        """One table's part; its changes are forgotten here, so that two tables' never are in memory twice."""
        tally = read.tallies[table]
        changes = read.changes(table, self.identity, overlap=self.overlap)
        target = self.tables[table]
        size = target.state.written_bytes(self.target_bytes)
        place = Place(None, target.state, Storage(target.root), size, self.soft_deletes)
        try:
            if target.form.has_versions:
                return self._versions(place, changes, target, read.partitions[table], tally)
            if target.form.keys is not None:
                return self._appended(place, changes, target, read.partitions[table], tally)
            stamper = Stamper(target.form.names, str(self.identity))
            if changes.schema.primary_key:
                return self._keyed(place, changes, stamper, read.partitions[table], tally)
            written, missing = self._keyless(place, changes, stamper)
        except ReplicatorError as err:
            err.table, err.position = err.table or str(table), err.position or str(self.identity.position)
            return TablePart(tally, error=err)
        except pa.ArrowInvalid:
            return TablePart(tally, error=unfitting_value(changes))
        finally:
            del read.batches[table]
        return _part(tally, written, missing)

    def _appended(
        self, place: Place, changes: TableChanges, target: TableTarget, partitions: Sequence[int], tally: TableTally
    ) -> TablePart:
        numbering = _numbering(changes, target)
        stamper = Stamper(target.form.names, str(self.identity))
        append = AppendApply(
            place, changes, stamper, target.form, numbering, partitions=partitions, collects_keys=self.is_shared
        )
        part = _part(tally, Written(append.write(), []), append.missing)
        return replace(part, new_keys=append.keys, highest=append.highest)

    def _versions(
        self, place: Place, changes: TableChanges, target: TableTarget, partitions: Sequence[int], tally: TableTally
    ) -> TablePart:
        versions = VersionsApply(
            place,
            changes,
            Stamper(target.form.names, str(self.identity)),
            version_columns(target.state.layout, target.form.names),
            _numbering(changes, target),
            now=target.now,
            partitions=partitions,
            collects_new=self.is_shared,
        )
        part = _part(tally, versions.write(), versions.missing)
        return replace(part, new_keys=versions.new_keys, highest=versions.highest)

    def _keyed(
        self, place: Place, changes: TableChanges, stamper: Stamper, partitions: Sequence[int], tally: TableTally
    ) -> TablePart:
        keyed = KeyedApply(place, changes, stamper, partitions=partitions, collects_new=self.is_shared)
        return replace(_part(tally, keyed.write(), keyed.missing), new_keys=keyed.new_keys)

    def _keyless(self, place: Place, changes: TableChanges, stamper: Stamper) -> tuple[Written, int]:
        keyless = KeylessApply(place, changes, stamper, stamper.names)
        if changes.inserts_only:
            return Written(keyless.append().add, []), 0
        return keyless.write(), keyless.missing


def _numbering(changes: TableChanges, target: TableTarget) -> Numbering:
    numbers = [batch.sequence_numbers for batch in changes.batches() if batch.sequence_numbers is not None]
    return Numbering(target.highest, min(int(of_batch.min()) for of_batch in numbers))


def _part(tally: TableTally, written: Written, missing: int) -> TablePart:
    removed = [(file.place, rows, _packed(positions)) for file, rows, positions in written.removed]
    return TablePart(tally, [file.add for file in written.add], removed, missing)


def _packed(positions: np.ndarray) -> bytes:
    packed: bytes = BitMap64(positions.astype(np.uint64)).serialize()
    return packed
