"""A reader's position gives every change of structure the base and ordinal that a replay gives it."""

from __future__ import annotations

from replicator_sdk.authoring.log_position import LogPosition, StructureChange
from replicator_sdk.datatype import INT64
from replicator_sdk.event import Alter, AlterKind, DDLEvent, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_sdk.testing.contexts import CollectingEmitter
from replicator_sdk.testing.in_memory.offset import MemoryOffset

NEW, OLD = TableId("shop", "orders"), TableId("shop", "order")
SCHEMA = TableSchema(NEW, (Column("id", INT64),), ("id",))
STEPS = (Alter(AlterKind.ADD_COLUMN, SCHEMA["id"]),)


def emitted(emitter: CollectingEmitter) -> list[DDLEvent]:
    return [event for window in emitter.windows for event in window.events if isinstance(event, DDLEvent)]


def test_changes_of_structure_count_up_from_the_last_commit() -> None:
    emitter = CollectingEmitter()
    position = LogPosition(emitter, MemoryOffset(3))
    change = StructureChange(DDLOperation.RENAME_TABLE, NEW, SCHEMA, OLD, STEPS, needs_snapshot=True)
    position.emit_structure(change)
    position.emit_structure(change)
    position.commit_at(MemoryOffset(4))
    position.emit_structure(StructureChange(DDLOperation.DROP_TABLE, NEW))
    first, second, third = emitted(emitter)
    assert [(e.offset, e.ordinal) for e in (first, second)] == [(MemoryOffset(3), 0), (MemoryOffset(3), 1)]
    assert (third.offset, third.ordinal, third.schema) == (MemoryOffset(4), 0, None)
    assert (first.operation, first.table, first.prev_table) == (DDLOperation.RENAME_TABLE, NEW, OLD)
    assert (first.schema, first.alters, first.needs_snapshot) == (SCHEMA, STEPS, True)


def test_a_commit_covers_the_events_since_the_last_one() -> None:
    emitter = CollectingEmitter()
    position = LogPosition(emitter, MemoryOffset(0))
    position.emit_structure(StructureChange(DDLOperation.DROP_TABLE, NEW))
    position.commit_at(MemoryOffset(1), timestamp=7)
    position.commit_at(MemoryOffset(2))
    commits = [window.commits for window in emitter.closed_windows if window.commits]
    assert [(c.events, c.last, int(c.timestamps[0])) for c in commits] == [
        (1, MemoryOffset(1), 7),
        (0, MemoryOffset(2), -1),
    ]
    assert (position.offset, position.ordinal) == (MemoryOffset(2), 0)


def test_an_ordinal_of_the_readers_own_window_leaves_the_count_alone() -> None:
    emitter = CollectingEmitter()
    position = LogPosition(emitter, MemoryOffset(0))
    position.emit_structure(StructureChange(DDLOperation.DROP_TABLE, NEW), ordinal=5)
    assert (emitted(emitter)[0].ordinal, position.ordinal) == (5, 0)
