"""The table store keeps schemas over time, so that old changes are decoded with the schema of their time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replicator_runtime.engine.tables.table_state import TableState
from replicator_runtime.engine.tables.table_store import SnapshotRecord, TableRecord, TableStore
from replicator_sdk import Column, Position, SnapshotChunk
from replicator_sdk.datatype import STRING
from replicator_sdk.schema import replace_columns
from replicator_state import ReplicatorDirectory
from tests.runtime.engine.log_model import Place, table

if TYPE_CHECKING:
    from pathlib import Path

FIRST = table("a")
SECOND = replace_columns(FIRST, (*FIRST.columns, Column("name", STRING)))
THIRD = replace_columns(SECOND, (*SECOND.columns, Column("more", STRING)))


def test_a_replay_from_an_older_offset_gets_the_older_schema() -> None:
    record = TableRecord(FIRST.table)
    record.learn(None, FIRST)
    record.learn(Position(Place(5), 3), SECOND)
    record.learn(Position(Place(9), 1), THIRD)
    assert record.schema_at(Place(4)) == FIRST
    assert record.schema_at(Place(5)) == FIRST, "the change came after offset 5"
    assert record.schema_at(Place(6)) == SECOND
    assert record.schema_at(Place(10)) == THIRD == record.schema


def test_a_new_copy_replaces_schemas_learned_from_later_in_the_log() -> None:
    record = TableRecord(FIRST.table)
    record.learn(None, FIRST)
    record.learn(Position(Place(9)), THIRD)
    record.learn_from_copy(Position(Place(5)), SECOND)
    assert [schema for _, schema in record.schemas] == [FIRST, SECOND]


def test_what_is_known_of_another_table_that_had_the_name_is_forgotten_with_a_copy() -> None:
    first, second = (replace(SECOND, source_id=identifier) for identifier in ("16385", "16393"))
    record = TableRecord(FIRST.table)
    record.learn(None, first)
    record.learn_from_copy(Position(Place(5)), second)
    assert record.schema_at(Place(4)) == second
    record.learn_from_copy(Position(Place(7)), replace(THIRD, source_id="16393"))
    assert record.schema_at(Place(6)) == second, "the same table's"


def test_the_schema_of_a_copy_is_known_until_the_next_change() -> None:
    columns = (Column("id", STRING, source_id="1"), Column("a", STRING, source_id="2"))
    copied = replace_columns(FIRST, columns)
    record = TableRecord(FIRST.table)
    record.learn(None, FIRST)
    assert record.copied_before(Position(Place(9), 1)) is None, "described, not copied"
    record.learn_from_copy(Position(Place(5)), copied)
    assert record.copied_before(Position(Place(9), 1)) == copied
    assert record.copied_before(Position(Place(5))) is None
    record.learn(Position(Place(9), 1), FIRST)
    assert record.copied_before(Position(Place(9), 1)) == copied, "a run that died before the target applied it"
    assert record.copied_before(Position(Place(12), 1)) is None, "changed since its copy"


def test_columns_without_an_identity_may_be_others_than_those_of_the_copy() -> None:
    record = TableRecord(FIRST.table)
    record.learn_from_copy(Position(Place(5)), SECOND)
    assert record.copied_before(Position(Place(9), 1)) is None


def test_a_schema_learned_again_keeps_newer_ones() -> None:
    record = TableRecord(FIRST.table)
    record.learn(None, FIRST)
    assert record.learn(Position(Place(5), 1), SECOND)
    assert record.learn(Position(Place(9), 1), THIRD)
    assert not record.learn(Position(Place(5), 1), SECOND)
    assert [schema for _, schema in record.schemas] == [FIRST, SECOND, THIRD]


def test_a_schema_learned_late_keeps_what_is_valid_where_the_table_is() -> None:
    record = TableRecord(FIRST.table)
    record.learn(None, THIRD)  # described after the changes that the replay meets
    assert record.learn_older(Position(Place(2), 1), SECOND, Position(Place(9)))
    assert record.schema_at(Place(3)) == SECOND
    assert record.schema_at(Place(9)) == THIRD == record.schema
    assert not record.learn_older(Position(Place(2), 1), SECOND, Position(Place(9)))


def test_a_schema_that_only_the_target_knew_is_learned_where_the_table_is() -> None:
    record = TableRecord(FIRST.table)
    record.learn(None, FIRST)
    here = Position(Place(5), 1)
    assert record.learn_older(here, SECOND, here)
    assert record.schema_at(Place(6)) == SECOND == record.schema


def test_schemas_older_than_every_kept_offset_are_forgotten() -> None:
    record = TableRecord(FIRST.table)
    record.learn(None, FIRST)
    record.learn(Position(Place(5)), SECOND)
    record.learn(Position(Place(9)), THIRD)
    record.forget_schemas_before(Place(6))
    assert [schema for _, schema in record.schemas] == [SECOND, THIRD]
    assert record.schema_at(Place(6)) == SECOND


def test_the_table_store_is_read_as_it_was_saved(tmp_path: Path) -> None:
    store = ReplicatorDirectory(str(tmp_path), "default", "shop").states()
    table_store = TableStore(store, Place.from_fields)
    record = table_store.record(FIRST.table)
    record.learn(None, FIRST)
    record.learn(Position(Place(5), 2), SECOND)
    record.dropping = Position(Place(6), 1)
    record.state, record.error = TableState.FAILING, {"code": "RPL-1", "message": "m", "hint": "h"}
    record.snapshot = SnapshotRecord("id", (SnapshotChunk(0, {"low": 1}, 10),), Place(3), Place(4), done=True)
    table_store.save()

    again = TableStore(store, Place.from_fields)
    again.load()
    back = again.records[FIRST.table]
    assert (back.dropping, back.schemas, back.state, back.error, back.snapshot) == (
        record.dropping,
        record.schemas,
        record.state,
        record.error,
        record.snapshot,
    )


def test_the_record_of_a_table_whose_copy_runs_is_not_read_again(tmp_path: Path) -> None:
    states = ReplicatorDirectory(str(tmp_path), "default", "shop").states()
    store = TableStore(states, Place.from_fields)
    copied, other = store.record(FIRST.table), store.record(table("b").table)
    store.save()
    copied.copying = True
    copied.learn(None, FIRST)
    other.learn(None, table("b"))
    store.load()
    assert store.records[FIRST.table] is copied
    assert store.records[other.table].schemas == []
    copied.copying = False
    store.load()
    assert store.records[FIRST.table].schemas == []
