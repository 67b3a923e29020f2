"""Claims about tables without a key whose changes have no common order: a row's removal may come before its insert."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import pytest

from replicator_sdk.batch import BatchIdentity, TableChanges
from replicator_sdk.event import DDLEvent, DDLOperation, DMLOperation
from replicator_sdk.offset import Position
from replicator_sdk.schema import TableSchema
from replicator_sdk.target import BatchConsumer, DeferredConsumer
from replicator_sdk.testing.failures.explained import assert_same, at_step, comparing
from replicator_sdk.testing.histories.batches import to_batch, to_table_changes
from replicator_sdk.testing.histories.reference import RowChange
from replicator_sdk.testing.histories.spread_history import Window, spread_history, spread_schema
from replicator_sdk.testing.histories.values import difference
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer


class UnorderedChangeClaims(TargetClaims):
    """What waits for its row is neither lost nor counted twice."""

    spread_histories: ClassVar[int] = 5
    """How many random histories are tried; fewer when a flush takes seconds."""

    def test_removals_that_come_before_their_inserts_take_them_away(self, system: TargetSystem) -> None:
        """After every batch each row has as many copies as inserts came beyond removals; at the end, the source's rows.

        Each batch is applied by a new consumer, and then once more.
        """
        self._need_unordered(system)
        for seed in range(self.spread_histories):
            schema = spread_schema(system.table_id(f"spread_{seed}"))
            for number, window in enumerate(spread_history(Random(seed), schema), 1):  # noqa: S311 - of a test
                at_step(f"window {number} of history {seed}")
                changes = _changes(window, number)
                for _ in range(2):
                    with consumer(system) as one:
                        assert isinstance(one, BatchConsumer)
                        one.apply_batch(changes)
                        _settle(one, changes)
                self._compare_rows(system, schema, window)

    def test_a_table_that_is_dropped_and_created_again_waits_for_no_row(self, system: TargetSystem) -> None:
        """A removal that waited for its row does not take a row of the next table of that name away."""
        self._need_unordered(system)
        schema = spread_schema(system.table_id("spread_again"))
        row = {"name": "a", "number": 1}
        first, _ = _removed_first(schema, row)
        with consumer(system) as one:
            assert isinstance(one, BatchConsumer)
            one.apply_batch(_changes(first, 1))
            _settle(one, _changes(first, 1))
            for number, operation in ((2, DDLOperation.DROP_TABLE), (3, DDLOperation.CREATE_TABLE)):
                at = MemoryOffset(number)
                made = schema if operation is DDLOperation.CREATE_TABLE else None
                one.apply_ddl(DDLEvent(at, operation, schema.table, made, position=Position(at)))
            later = Window(_removed_first(schema, row)[1].changes, [row])
            one.apply_batch(_changes(later, 4))
            _settle(one, _changes(later, 4))
        self._compare_rows(system, schema, later)

    def _need_unordered(self, system: TargetSystem) -> None:
        with consumer(system) as one:
            if not isinstance(one, BatchConsumer) or not one.keeps_unmatched:
                pytest.skip("the target takes no changes of tables without a key whose order is unknown")

    def _compare_rows(self, system: TargetSystem, schema: TableSchema, window: Window) -> None:
        compared = f"the rows of {schema.table} in the reference and at the target"
        with comparing(compared):
            there = system.read_table(schema)
        assert_same(compared, difference(schema, window.rows, there))


def _removed_first(schema: TableSchema, row: dict[str, object]) -> tuple[Window, Window]:
    """The removal of a row, and its insert."""
    removal = RowChange(schema, DMLOperation.DELETE, {}, row, before_is_full=True)
    return Window([removal], []), Window([RowChange(schema, DMLOperation.INSERT, row)], [])


def _changes(window: Window, number: int) -> TableChanges:
    """The window as a batch that brings its table to the position `number`."""
    size, sequence = len(window.changes), number * 1000
    identity = BatchIdentity(1, 1, sequence + 1, sequence + size, Position(MemoryOffset(number)))
    return to_table_changes([to_batch(window.changes, range(size), sequence)], identity, unordered=True)


def _settle(one: BatchConsumer, changes: TableChanges) -> None:
    if isinstance(one, DeferredConsumer):
        one.settle([changes.table])
        one.settled(changes.table)
