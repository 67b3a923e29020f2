"""Claims about changes of structure: fenced as rows are, and never applied to a later table of the same name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replicator_sdk.errors import FencedError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.offset import Position
from replicator_sdk.target import BatchConsumer
from replicator_sdk.testing.failures.explained import at_step, comparing
from replicator_sdk.testing.histories.history import History, load_case
from replicator_sdk.testing.histories.reference import ReferenceTable
from replicator_sdk.testing.in_memory.offset import MemoryOffset
from replicator_sdk.testing.target_claims.target_system import TargetClaims, TargetSystem, consumer
from replicator_sdk.testing.target_script import apply

_LATER = Position(MemoryOffset(50))


def _event(table: ReferenceTable, operation: DDLOperation) -> DDLEvent:
    """An event of this operation on the table, at a later position."""
    schema = None if operation is DDLOperation.DROP_TABLE else table.schema
    return DDLEvent(_LATER.offset, operation, table.schema.table, schema, position=_LATER, sequence_number=99)


class StructureClaims(TargetClaims):
    """Changes of structure obey the rules of rows."""

    @pytest.mark.parametrize(
        "operation", [DDLOperation.ALTER_TABLE, DDLOperation.TRUNCATE_TABLE, DDLOperation.DROP_TABLE], ids=str
    )
    def test_a_lower_epoch_changes_no_structure(self, system: TargetSystem, operation: DDLOperation) -> None:
        """A change of structure by a writer of a lower epoch is refused with FencedError and changes nothing."""
        self._need_batches(system)
        self._need_fence()
        self._need_operation(operation)
        case = load_case("add_column")
        newer, older = self._builder(system, case, epoch=2), self._builder(system, case, epoch=1)
        with consumer(system, epoch=2) as winner:
            self._create(winner, newer)
            flush = newer.flush(case.transactions[:1])
            apply(winner, flush)
        (table,) = flush.tables.values()
        event = _event(table, operation)
        if operation is DDLOperation.ALTER_TABLE:
            items = older.flush(case.transactions).items
            event = replace(next(e for e in items if isinstance(e, DDLEvent)), position=_LATER)
        with consumer(system, epoch=1) as zombie, comparing("the error of an older run and FencedError"):
            at_step(f"{operation} by epoch 1 after epoch 2 has written")
            with pytest.raises(FencedError):
                zombie.apply_ddl(event)
        self._compare(system, flush.tables)
        with consumer(system, epoch=2) as winner:
            assert self._progress(winner, table).position < _LATER

    def test_a_dropped_table_has_no_progress(self, system: TargetSystem) -> None:
        """After DROP_TABLE nothing says any more that the table is at an earlier position: none, or the event's."""
        self._need_batches(system)
        self._need_operation(DDLOperation.DROP_TABLE)
        case, flushes = load_case("drop_and_create_table"), []
        builder = self._builder(system, case)
        with consumer(system) as only:
            self._create(only, builder)
            for group in (case.transactions[:1], case.transactions[1:2]):
                flushes.append(builder.flush(group))
                apply(only, flushes[-1])
        (event,) = (item for item in flushes[-1].items if isinstance(item, DDLEvent))
        assert event.position is not None
        with consumer(system) as other, comparing("the progress of a dropped table and the position of its DROP_TABLE"):
            assert isinstance(other, BatchConsumer)
            found = other.progress(event.table)
            assert found is None or not found.position < event.position

    def test_a_drop_that_comes_again_leaves_the_new_table_alone(self, system: TargetSystem) -> None:
        """A DROP_TABLE and the rows before it come again after a table of that name was created: the new one stays."""
        self._need_batches(system)
        self._need_operation(DDLOperation.DROP_TABLE)
        case = load_case("drop_and_create_table")
        builder, flushes = self._builder(system, case), []
        with consumer(system) as only:
            self._create(only, builder)
            for transaction in case.transactions:
                flushes.append(builder.flush([transaction]))
                apply(only, flushes[-1])
        for flush in flushes:
            with consumer(system) as again:
                apply(again, flush)
            self._compare(system, flushes[-1].tables)

    def _need_operation(self, operation: DDLOperation) -> None:
        needs = {
            DDLOperation.ALTER_TABLE: "add_column",
            DDLOperation.TRUNCATE_TABLE: "truncate",
            DDLOperation.DROP_TABLE: "drop_table",
        }
        self.require(History("", "", frozenset({needs[operation]}), {}, ()))
