"""Each kind of structural change, in one commit with its position."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as Number
from pathlib import Path

import deltalake
import pytest

from replicator_sdk import failpoint
from replicator_sdk.datatype import FLOAT32, FLOAT64, INT16, INT32, INT64, STRING, Decimal
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError, SnapshotNeededError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableId, TableSchema
from replicator_target_delta.ddl import table_folder as relocation
from tests.plugins.targets.changes import KEYED, TABLE, alter, at, batch, ddl, insert, row, update
from tests.plugins.targets.delta.lake import Lake

NARROW = TableSchema(
    TABLE,
    (Column("id", INT32), Column("small", INT16), Column("real", FLOAT32), Column("money", Decimal(6, 2))),
    ("id",),
)


@pytest.fixture
def _disarmed() -> Iterator[None]:
    yield
    failpoint.arm("")


def retype(schema: TableSchema, name: str, kind: object) -> tuple[TableSchema, Alter]:
    """`schema` with another type of one column, and the step to it."""
    new = Column(name, kind)  # type: ignore[arg-type]
    columns = tuple(new if c.name == name else c for c in schema.columns)
    return TableSchema(schema.table, columns, schema.primary_key), Alter(AlterKind.RETYPE_COLUMN, new, schema[name])


def test_types_widen_and_rows_keep_their_values(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert({"id": 1, "small": -3, "real": 0.5, "money": Number("12.34")}, NARROW)]))
    schema, steps = NARROW, []
    for name, kind in (("id", INT64), ("small", INT32), ("real", FLOAT64), ("money", Decimal(12, 3))):
        schema, step = retype(schema, name, kind)
        steps.append(step)
    consumer.apply_ddl(alter(2, schema, *steps))
    consumer.apply_batch(batch(3, [update({"id": 1, "small": 70_000}, schema)]))
    assert lake.read_table(schema) == [{"id": 1, "small": 70_000, "real": 0.5, "money": Number("12.340")}]


def test_a_type_that_holds_no_value_of_the_old_one_is_drift_and_changes_nothing(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "not a number"))]))
    version = lake.version(TABLE)
    schema, step = retype(KEYED, "name", INT64)
    with pytest.raises(SchemaDriftError, match="RPL-6404"):
        consumer.apply_ddl(alter(2, schema, step))
    assert lake.version(TABLE) == version
    consumer.apply_ddl(
        alter(2, schema, step, needs_snapshot=True)
    )  # the rows are copied again, so nothing is to be kept
    assert lake.rows(TABLE)[0]["name"] is None


def test_an_added_column_has_its_default_in_existing_rows_only_and_deleted_rows_stay_deleted(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(i)) for i in range(3)]))
    consumer.apply_batch(batch(2, [update({"id": 1, "name": "x"})]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    consumer.apply_ddl(alter(3, wider, Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d")))
    consumer.apply_batch(batch(4, [insert({**row(9), "extra": None}, wider)]))
    assert {r["id"]: (r["name"], r["extra"]) for r in lake.rows(TABLE)} == {
        0: (None, "d"),
        1: ("x", "d"),
        2: (None, "d"),
        9: (None, None),
    }


def test_a_column_dropped_and_added_again_under_its_name_does_not_show_old_values(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "old", "n"))]))
    steps = (Alter(AlterKind.DROP_COLUMN, None, KEYED["name"]), Alter(AlterKind.ADD_COLUMN, Column("name", INT64)))
    after = TableSchema(TABLE, (KEYED["id"], KEYED["note"], Column("name", INT64)), ("id",))
    consumer.apply_ddl(alter(2, after, *steps))
    assert lake.read_table(after) == [{"id": 1, "note": "n", "name": None}]


def test_nullability_and_keys_change_no_metadata_but_the_position(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    before = deltalake.DeltaTable(str(lake.path(TABLE))).schema()
    steps = [Alter(k, KEYED["name"], KEYED["name"]) for k in (AlterKind.RELAX_COLUMN, AlterKind.TIGHTEN_COLUMN)]
    consumer.apply_ddl(alter(2, KEYED, *steps, Alter(AlterKind.CHANGE_KEY)))
    assert deltalake.DeltaTable(str(lake.path(TABLE))).schema() == before
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(2)


def test_a_column_the_target_lacks_cannot_be_changed(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    with pytest.raises(SchemaDriftError, match="RPL-6403"):
        consumer.apply_ddl(alter(2, KEYED, Alter(AlterKind.DROP_COLUMN, None, Column("gone", INT64))))


def test_a_dropped_table_stays_and_gives_way_to_its_successor(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    assert len(lake.rows(TABLE)) == 1
    other = TableSchema(TABLE, (Column("key", STRING),), ("key",))
    consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE, other))
    assert lake.rows(TABLE) == []
    consumer.apply_batch(batch(4, [insert({"key": "k"}, other)]))
    assert lake.read_table(other) == [{"key": "k"}]


def test_a_dropped_table_goes_when_asked_for(lake: Lake) -> None:
    dropping = Lake(lake.path(TABLE).parent.parent, lake.spark(), drop_tables="drop")
    consumer = dropping.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    assert not dropping.path(TABLE).exists()
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    assert consumer.progress(TABLE) is None


def test_a_dropped_table_may_be_dropped_again_and_copied_again_by_a_later_run(lake: Lake) -> None:
    """As after a crash that follows the folder's deletion."""
    dropping = Lake(lake.path(TABLE).parent.parent, lake.spark(), drop_tables="drop")
    consumer = dropping.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
    for epoch in (2, 3):
        consumer = dropping.consumer(epoch=epoch)
        assert consumer.progress(TABLE) is None
        consumer.apply_ddl(ddl(2, DDLOperation.DROP_TABLE, None))
        assert not dropping.path(TABLE).exists()
    narrow = KEYED.select(["name"])
    assert consumer.begin_snapshot(narrow, "s", at(3)) == frozenset()
    consumer.finish_snapshot(narrow, "s", at(3))
    consumer.apply_batch(batch(4, [insert({"id": 5, "name": "x"}, narrow)], epoch=3))
    assert dropping.read_table(narrow) == [{"id": 5, "name": "x"}]


def test_a_folder_whose_deletion_was_interrupted_is_deleted_by_the_replay(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the log is gone: it was moved aside first, so that nothing reads it."""
    dropping = Lake(lake.path(TABLE).parent.parent, lake.spark(), drop_tables="drop")
    consumer = dropping.consumer()
    for i in range(1, 6):
        consumer.apply_batch(batch(i, [insert(row(i))]))
    event = ddl(9, DDLOperation.DROP_TABLE, None)

    def interrupted(spark: object, path: str) -> None:
        log = Path(path) / "_delta_log"
        if not log.exists():
            return
        (log / "00000000000000000000.json").unlink()
        raise RetryableError("killed", code="RPL-4401")

    monkeypatch.setattr(relocation, "_delete", interrupted)
    with pytest.raises(RetryableError, match="killed"):
        consumer.apply_ddl(event)
    monkeypatch.undo()
    later = dropping.consumer(epoch=2)
    assert later.progress(TABLE) is None
    later.apply_ddl(event)
    assert list(dropping.path(TABLE).parent.iterdir()) == []


def test_names_that_swap_do_so_in_one_commit_by_a_name_in_between(lake: Lake) -> None:
    """And a name that differs by case only from one that is given up in the same change."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "b"))]))
    name, note = KEYED["name"], KEYED["note"]
    between, upper = Column("__between", STRING), Column("NOTE", STRING)
    swap = [
        Alter(AlterKind.RENAME_COLUMN, between, name),
        Alter(AlterKind.RENAME_COLUMN, name, note),
        Alter(AlterKind.RENAME_COLUMN, note, between),
    ]
    version = lake.version(TABLE)
    consumer.apply_ddl(alter(2, TableSchema(TABLE, (KEYED["id"], note, name), ("id",)), *swap))
    assert lake.version(TABLE) == version + 1
    consumer.apply_batch(batch(3, [update({"id": 1, "name": "b2"})]))
    assert lake.read_table(KEYED) == [{"id": 1, "name": "b2", "note": "a"}]
    moved = TableSchema(TABLE, (KEYED["id"], Column("third", STRING), upper), ("id",))
    steps = [Alter(AlterKind.RENAME_COLUMN, moved["third"], note), Alter(AlterKind.RENAME_COLUMN, upper, name)]
    consumer.apply_ddl(alter(4, moved, *steps))
    assert lake.read_table(moved) == [{"id": 1, "third": "a", "NOTE": "b2"}]


def test_a_column_added_twice_is_refused_at_a_later_position_and_its_values_stay(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    step = Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d")
    consumer.apply_ddl(alter(2, wider, step))
    consumer.apply_batch(batch(3, [update({"id": 1, "extra": "new"}, wider)]))
    consumer.apply_ddl(alter(2, wider, step))
    with pytest.raises(SchemaDriftError, match="RPL-6407"):
        consumer.apply_ddl(alter(4, wider, step))
    assert [r["extra"] for r in lake.read_table(wider)] == ["new"]


def test_create_of_a_table_that_is_there_with_other_columns_is_drift(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(ddl(2, DDLOperation.CREATE_TABLE, KEYED))
    with pytest.raises(SchemaDriftError, match="RPL-6402"):
        consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE, NARROW))
    assert len(lake.rows(TABLE)) == 1


def test_a_renamed_table_moves_its_folder_and_goes_on(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "b"))]))
    new = TableId("shop", "clients")
    schema = TableSchema(new, KEYED.columns, ("id",))
    event = ddl(2, DDLOperation.RENAME_TABLE, schema, prev_table=TABLE)
    consumer.apply_ddl(event)
    lake.consumer().apply_ddl(event)
    assert not lake.path(TABLE).exists()
    lake.consumer().apply_batch(batch(3, [update({"id": 1, "name": "x"}, schema)]))
    assert lake.read_table(schema) == [{"id": 1, "name": "x", "note": "b"}]


def test_a_table_is_renamed_to_a_name_of_which_a_killed_copy_left_files(lake: Lake) -> None:
    """Not moved into their folder; with another program's files there, which stay, the table is copied, and no other waits."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    schema = TableSchema(TableId("shop", "clients"), KEYED.columns, ("id",))
    event = ddl(2, DDLOperation.RENAME_TABLE, schema, prev_table=TABLE)
    left = lake.path(schema.table)
    left.mkdir()
    (left / "part-0aa3e8a1-6c9f-4f0e-8a53-6f2d0c1b9e77.snappy.parquet").touch()
    (left / "notes.txt").touch()
    with pytest.raises(SnapshotNeededError, match="RPL-6412"):
        consumer.apply_ddl(event)
    assert len(list(left.iterdir())) == 2
    (left / "notes.txt").rename(left / "part-00000-0aa3e8a1-6c9f-4f0e-8a53-6f2d0c1b9e77-c000.snappy.parquet")
    with pytest.raises(SnapshotNeededError, match="RPL-6412"):
        consumer.apply_ddl(event)  # Spark's
    (left / "part-00000-0aa3e8a1-6c9f-4f0e-8a53-6f2d0c1b9e77-c000.snappy.parquet").unlink()
    lake.consumer().apply_ddl(event)
    assert [r["id"] for r in lake.read_table(schema)] == [1]
    assert not (left / "part-1.snappy.parquet").exists()


@pytest.mark.usefixtures("_disarmed")
def test_a_rename_interrupted_after_the_folder_moved_is_finished_by_its_replay(lake: Lake) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    schema = TableSchema(TableId("shop", "clients"), KEYED.columns, ("id",))
    event = ddl(2, DDLOperation.RENAME_TABLE, schema, prev_table=TABLE)
    failpoint.arm("delta.rename.moved=raise")
    with pytest.raises(RetryableError):
        consumer.apply_ddl(event)
    failpoint.arm("")
    for replay in (lake.consumer(), lake.consumer()):
        replay.apply_ddl(event)
    assert not lake.path(TABLE).exists()
    assert lake.consumer().progress(schema.table).position == at(2)  # type: ignore[union-attr]
    assert lake.version(schema.table) == 1


def test_a_table_is_not_renamed_to_the_name_of_one_that_is_there(lake: Lake) -> None:
    consumer = lake.consumer()
    other = TableSchema(TableId("shop", "clients"), KEYED.columns, ("id",))
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_batch(batch(1, [insert(row(7), other)]))
    for each in (consumer, lake.consumer()):
        with pytest.raises(SnapshotNeededError, match="RPL-6411"):
            each.apply_ddl(ddl(2, DDLOperation.RENAME_TABLE, other, prev_table=TABLE))
    assert (lake.read_table(KEYED)[0]["id"], lake.read_table(other)[0]["id"]) == (1, 7)


def test_a_folder_is_renamed_only_where_the_store_does_that_at_once(lake: Lake) -> None:
    consumer = lake.consumer()
    assert consumer.can_rename(TABLE, TableId("shop", "clients"))
    assert not any(relocation.renames_at_once(lake.spark(), path) for path in ("s3a://b/t", "gs://b/t"))


@pytest.mark.usefixtures("_disarmed")
@pytest.mark.parametrize("point", ["delta.ddl.before", "delta.commit.before", "delta.commit.after", "delta.ddl.after"])
def test_a_change_of_structure_interrupted_anywhere_is_done_once_by_its_replay(lake: Lake, point: str) -> None:
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    wider = TableSchema(TABLE, (*KEYED.columns, Column("extra", STRING)), ("id",))
    event = alter(2, wider, Alter(AlterKind.ADD_COLUMN, wider["extra"], default="d"))
    failpoint.arm(f"{point}=raise")
    with pytest.raises(RetryableError):
        consumer.apply_ddl(event)
    failpoint.arm("")
    for replay in (lake.consumer(), lake.consumer()):
        replay.apply_ddl(event)
    assert lake.read_table(wider) == [{"id": 1, "name": None, "note": None, "extra": "d"}]
    assert lake.version(TABLE) == 1


def test_a_folder_that_holds_another_table_is_refused(lake: Lake) -> None:
    """As two tables whose names differ by case only would be on a store that ignores case."""
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    other = TableId("shop", "Customers")
    lake.path(TABLE).rename(lake.path(other))
    with pytest.raises(NeedsUserError, match="RPL-3408"):
        consumer.progress(other)
