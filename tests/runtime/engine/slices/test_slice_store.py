"""Ends of slices are kept as long as a table may have that position; announced DDL is read back unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from replicator_runtime.engine.slices.slice_store import SliceStore
from replicator_sdk import Alter, AlterKind, Column, DDLEvent, DDLOperation, Position, TableId, TableSchema
from replicator_sdk.datatype import INT32, INT64
from replicator_sdk.errors import NeedsUserError
from replicator_sdk.testing.in_memory.partitioned import PartitionedOffset

if TYPE_CHECKING:
    from replicator_state import StateStore

_ID = Column("id", INT64)
_N = Column("n", INT32)
TABLE = TableSchema(TableId("d", "t"), (_ID, _N), ("id",))


class Store:
    """A state store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def put(self, key: str, value: bytes, *, numbered: bool = False) -> None:
        self.values[key] = value


def at(*read: int) -> PartitionedOffset:
    return PartitionedOffset(read)


def slice_store(store: Store, *positions: PartitionedOffset) -> SliceStore:
    made = SliceStore(cast("StateStore", store), PartitionedOffset.from_fields)
    made.load(positions)
    return made


def test_a_planned_end_outlives_the_process() -> None:
    store = Store()
    slice_store(store).plan(at(4, 2), at(0, 0), at(0, 0), [])
    assert slice_store(store).next_end(at(0, 0)) == at(4, 2)
    assert slice_store(store).next_end(at(4, 2)) is None


def test_one_reader_continues_only_after_every_slice() -> None:
    store = Store()
    slice_store(store).check_done(None)
    slice_store(store).plan(at(4, 2), at(0, 0), at(0, 0), [])
    slice_store(store).plan(at(4, 3), at(4, 2), at(0, 0), [at(4, 2)])
    for place in (None, at(0, 0), at(4, 2)):
        with pytest.raises(NeedsUserError, match=r"RPL-4102.*stop it in order"):
            slice_store(store).check_done(place)
    slice_store(store).check_done(at(4, 3))
    slice_store(store).check_done(at(5, 5))


def test_no_slice_crosses_the_position_of_a_table() -> None:
    store = Store()
    slice_store(store).plan(at(4, 2), at(0, 0), at(0, 0), [])
    again = slice_store(store, at(2, 2))
    assert [again.next_end(o) for o in (at(0, 0), at(2, 2), at(4, 2))] == [at(2, 2), at(4, 2), None]


def test_ends_are_forgotten_when_no_table_is_there_or_the_saved_offset_has_passed() -> None:
    made = slice_store(Store())
    made.plan(at(1, 1), at(0, 0), at(0, 0), [])
    made.plan(at(2, 2), at(1, 1), at(0, 0), [at(1, 1)])
    made.plan(at(3, 3), at(2, 2), at(0, 0), [at(1, 1)])
    assert made.ends == [at(1, 1), at(3, 3)]
    made.plan(at(4, 4), at(3, 3), at(2, 2), [at(1, 1), at(3, 3)])
    assert made.ends == [at(3, 3), at(4, 4)]


def test_announced_ddl_comes_back_as_it_was() -> None:
    store = Store()
    wide = Column("n", INT64)
    more = Column("more", INT64)
    after = TableSchema(TABLE.table, (_ID, wide, more), ("id",))
    steps = (Alter(AlterKind.RETYPE_COLUMN, wide, _N), Alter(AlterKind.ADD_COLUMN, more))
    event = DDLEvent(
        at(3, 1), DDLOperation.ALTER_TABLE, TABLE.table, after, alters=steps, position=Position(at(3, 1), 2)
    )
    slice_store(store).announce([event])
    assert slice_store(store).pending == [event]
