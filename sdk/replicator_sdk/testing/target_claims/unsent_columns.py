"""Claims about updates that lack columns of a row that the table does not have: their values are never invented."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.errors import DataError, SnapshotNeededError
from replicator_sdk.event import DMLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableSchema
from replicator_sdk.target import BatchConsumer
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.history import load_case
from replicator_sdk.testing.histories.reference import ReferenceTable, RowChange
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer
from replicator_sdk.testing.target_script import apply


class UnsentColumnClaims(TargetClaims):
    """What an update did not send is taken from the table's row, or the update is refused."""

    def test_an_update_of_a_missing_row_without_all_columns_is_refused(self, system: TargetSystem) -> None:
        """Its values are nowhere, so DataError (or SnapshotNeededError, for a new copy) is raised and nothing is changed."""
        with self._table(system) as (one, table):
            changes = _update(table.schema, key=99)
            at_step("update without all columns of a row that is not there")
            compared = comparing("the error for an update of a missing row and DataError")
            with compared, pytest.raises((DataError, SnapshotNeededError)):
                one.apply_batch(changes)
            self._compare(system, {table.schema.table: table})
            assert self._progress(one, table).position < changes.identity.position

    def test_an_update_of_a_row_that_is_deleted_later_is_dropped(self, system: TargetSystem) -> None:
        """In an overlap with `drops_lost_updates`, an update of a missing row without all columns leaves no row; a target
        that cannot leave it out raises SnapshotNeededError, for a new copy.
        """
        with self._table(system) as (one, table):
            at_step("update without all columns of a row that is not there, with drops_lost_updates")
            with suppress(SnapshotNeededError):
                one.apply_batch(_update(table.schema, key=99, overlap=True))
            self._compare(system, {table.schema.table: table})

    def test_a_move_in_an_overlap_without_all_columns_needs_a_new_copy(self, system: TargetSystem) -> None:
        """The copy may have read the row before or after it moved, so its values are unknown: SnapshotNeededError."""
        with self._table(system) as (one, table):
            changes = _update(table.schema, key=99, moved_from=98, overlap=True)
            at_step("move to another key, without all columns, in an overlap")
            compared = comparing("the error for a move in an overlap and SnapshotNeededError")
            with compared, pytest.raises(SnapshotNeededError):
                one.apply_batch(changes)
            self._compare(system, {table.schema.table: table})

    @contextmanager
    def _table(self, system: TargetSystem) -> Iterator[tuple[BatchConsumer, ReferenceTable]]:
        """A started consumer, and a table with some rows."""
        self._need_batches(system)
        case = load_case("unchanged_column")
        self.require(case)
        builder = self._builder(system, case)
        with consumer(system) as one:
            assert isinstance(one, BatchConsumer)
            self._create(one, builder)
            flush = builder.flush(case.transactions[:1])
            apply(one, flush)
            (table,) = flush.tables.values()
            yield one, table


def _update(schema: TableSchema, key: int, *, moved_from: int | None = None, overlap: bool = False) -> TableChanges:
    """One update that sends the key alone."""
    (name,) = schema.primary_key
    rest = frozenset(schema.names) - {name}
    before = None if moved_from is None else {name: moved_from}
    change = RowChange(schema, DMLOperation.UPDATE, {name: key}, before, rest)
    identity = BatchIdentity(1, 1, 900, 900, Position(MemoryOffset(60)))
    return to_table_changes([to_batch([change], [0], 899)], identity, overlap=overlap)
