"""Other programs compact, expire, alter, damage and delete; the catalog is slow or answers twice. No row is lost or doubled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replicator_sdk.datatype import INT64, STRING
from replicator_sdk.errors import NeedsUserError, RetryableError, SchemaDriftError
from replicator_sdk.event import Alter, AlterKind, DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_sdk.snapshot import ChunkReader, SnapshotChunk
from replicator_target_iceberg.consumer import IcebergConsumer
from replicator_target_iceberg.files import storage as storage_module
from replicator_target_iceberg.jvm import Catalog
from replicator_target_iceberg.log import change as change_module
from replicator_target_iceberg.log.change import STATE_UNKNOWN, Change
from replicator_target_iceberg.log.version import packed, unpacked
from replicator_target_iceberg.maintenance import expiry
from replicator_target_iceberg.naming import identifier
from replicator_target_iceberg.schema.types import FIELD_ID
from replicator_target_iceberg.table import TargetTable
from tests.plugins.targets.changes import KEYED, TABLE, alter, at, batch, ddl, delete, insert, row, update
from tests.plugins.targets.iceberg.others import before_publishing, compacts, compacts_and_expires, foreign
from tests.plugins.targets.iceberg.warehouse import Warehouse, newest_metadata

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK = SnapshotChunk(0, {})


def names(lake: Warehouse) -> dict[int, str | None]:
    return {r["id"]: r["name"] for r in lake.rows(TABLE)}


def files(lake: Warehouse) -> set[Path]:
    name = identifier(TABLE)
    return {p for p in (lake.folder / name.namespace / name.name / "data").iterdir() if not p.name.startswith(".")}


def copied(*rows: dict[str, Any]) -> ChunkReader:
    def read(chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        assert chunk == CHUNK
        return iter([pa.RecordBatch.from_pylist(list(rows), schema=KEYED.arrow)])

    return read


def copy_beside(consumer: IcebergConsumer) -> None:
    consumer.load_whole(KEYED, "again", at(9), [CHUNK], copied(row(7, "copied")), lambda: None)


def copy_in_place(consumer: IcebergConsumer) -> None:
    assert consumer.begin_snapshot(KEYED, "again", at(9)) == frozenset()
    consumer.load_chunks(KEYED, "again", [CHUNK], copied(row(7, "copied")))
    consumer.finish_snapshot(KEYED, "again", at(9))


@pytest.mark.parametrize("copy", [copy_beside, copy_in_place])
def test_a_table_that_no_longer_says_how_far_it_is_can_be_copied_again(
    warehouse: Warehouse, copy: Callable[[IcebergConsumer], None]
) -> None:
    """It is what the error says, RPL-3426."""
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    for _ in range(2):
        foreign(warehouse, compacts_and_expires)
    with pytest.raises(NeedsUserError, match="RPL-3426"):
        consumer.progress(TABLE)
    copy(consumer)
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(9)
    consumer.apply_batch(batch(10, [insert(row(8))]))
    consumer.stop()
    assert names(warehouse) == {7: "copied", 8: None}


def test_a_table_that_no_longer_says_how_far_it_is_can_be_deleted(warehouse: Warehouse) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    for _ in range(2):
        foreign(warehouse, compacts_and_expires)
    assert consumer.delete_table(TABLE) == ""
    assert consumer.progress(TABLE) is None
    consumer.stop()


def test_a_table_without_changes_keeps_its_position_while_another_program_compacts_and_expires_each_night(
    warehouse: Warehouse,
) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    for _ in range(2):
        foreign(warehouse, compacts_and_expires)
        warehouse.maintain(TABLE, "compact")
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    consumer.stop()


def test_this_target_s_own_expiry_leaves_the_way_back_to_the_position(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, snapshotsKept=10)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    for _ in range(11):
        foreign(lake, compacts)
    lake.maintain(TABLE, "expire")
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    assert len(lake.table(TABLE).snapshots()) <= 11
    consumer.stop()


def test_a_commit_that_happened_and_was_refused_keeps_its_files(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that a proxy or a client has sent twice is refused the second time."""
    consumer, publish = warehouse.consumer(), Change.publish
    consumer.apply_batch(batch(1, [insert(row(1))]))

    def is_sent_twice(self: Change) -> None:
        publish(self)
        raise RetryableError("refused", code="RPL-4422")

    with monkeypatch.context() as patch:
        patch.setattr(Change, "publish", is_sent_twice)
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert sorted(names(warehouse)) == [1, 2]
    consumer.apply_batch(batch(3, [update(row(2, "x"))]))
    consumer.stop()
    assert names(warehouse) == {1: None, 2: "x"}


def test_a_refusal_that_the_storage_caused_is_no_certain_one(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDFS may have renamed the file whose answer was lost; the library calls that a failed commit."""
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    before_publishing(monkeypatch, lambda: foreign(warehouse, compacts))
    monkeypatch.setattr(change_module, "class_names", lambda _: ["CommitFailedException", "ConnectException"])
    before = files(warehouse)
    with pytest.raises(RetryableError, match=STATE_UNKNOWN):
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert len(files(warehouse)) == len(before) + 1
    consumer.stop()


def test_a_commit_that_cannot_be_made_leaves_no_files(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried again and again, with the same rows each time."""
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    before = files(warehouse)

    def fails(*_: object) -> None:
        raise RetryableError("the catalog is away", code="RPL-4420")

    monkeypatch.setattr(Change, "append", fails)
    with pytest.raises(RetryableError, match="RPL-4420"):
        consumer.apply_batch(batch(2, [insert(row(2))]))
    assert files(warehouse) == before
    consumer.stop()


def test_an_update_without_all_columns_leaves_one_row_of_a_key_that_was_there_twice(warehouse: Warehouse) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1, "a", "n")), insert(row(2, "b", "n"))]))
    consumer.apply_batch(batch(2, [insert(row(1, "a", "n"))]))
    assert len(warehouse.rows(TABLE)) == 3
    consumer.apply_batch(batch(3, [update({"id": 1, "name": "c"})]))
    consumer.stop()
    assert sorted((r["id"], r["name"], r["note"]) for r in warehouse.rows(TABLE)) == [(1, "c", "n"), (2, "b", "n")]


def test_a_copy_in_chunks_goes_on_when_another_program_commits_meanwhile(warehouse: Warehouse) -> None:
    """Reading a part of the rows may take hours."""
    consumer = warehouse.consumer()
    consumer.begin_snapshot(KEYED, "s", at(1))

    def read(chunk: SnapshotChunk) -> Iterator[pa.RecordBatch]:
        foreign(warehouse, compacts)
        return copied(row(1))(chunk)

    consumer.load_chunks(KEYED, "s", [CHUNK], read)
    consumer.finish_snapshot(KEYED, "s", at(1))
    consumer.stop()
    assert names(warehouse) == {1: None}


def test_a_copy_is_made_again_when_a_column_came_and_went_meanwhile(warehouse: Warehouse) -> None:
    """The columns are the same afterwards, and new ones get other identities than the copy's files have: its rows would be NULL."""
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    other = TableSchema(TABLE, (Column("id", INT64), Column("label", STRING)), ("id",))
    rows = pa.RecordBatch.from_pylist([{"id": 7, "label": "copied"}], schema=other.arrow)

    def column_comes_and_goes() -> None:
        def step(table: Any, catalog: Catalog) -> None:
            kind = catalog.jvm[".types.Types"].LongType.get()
            table.updateSchema().addColumn("passing", kind).commit()
            table.updateSchema().deleteColumn("passing").commit()

        foreign(warehouse, step)

    with pytest.raises(RetryableError, match="RPL-4427"):
        consumer.load_whole(other, "s", at(9), [CHUNK], lambda _: iter([rows]), column_comes_and_goes)
    consumer.load_whole(other, "t", at(9), [CHUNK], lambda _: iter([rows]), lambda: None)
    consumer.stop()
    assert warehouse.rows(TABLE) == [{"id": 7, "label": "copied"}]


def test_a_drop_that_comes_again_leaves_the_table_that_took_the_place(
    tmp_path: Path, iceberg_spark: SparkSession
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, dropTables="drop")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    drop = ddl(2, DDLOperation.DROP_TABLE, None)
    consumer.apply_ddl(drop)
    consumer.apply_ddl(ddl(3, DDLOperation.CREATE_TABLE))
    consumer.apply_batch(batch(4, [insert(row(2))]))
    consumer.apply_ddl(drop)
    consumer.stop()
    assert sorted(names(lake)) == [2]


@pytest.mark.parametrize("version", [2, 3])
def test_a_damaged_or_lost_file_stops_its_table_only_until_it_is_copied_again(
    tmp_path: Path, iceberg_spark: SparkSession, version: int
) -> None:
    """Neither is it taken for a value that does not fit."""
    lake = Warehouse(tmp_path / "lake", iceberg_spark, formatVersion=version)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(key)) for key in range(4)]))
    [data] = files(lake)
    consumer.apply_batch(batch(2, [delete({"id": 0})]))
    [deletes] = files(lake) - {data}
    for path in (deletes, data):
        path.write_bytes(bytes(path.stat().st_size))
        with pytest.raises(NeedsUserError, match="RPL-3439") as error:
            consumer.apply_batch(batch(3, [delete({"id": 1})]))
        assert path.name in str(error.value)
        assert str(path.parent) not in str(error.value)  # another program's folders are named by values
    data.unlink()
    with pytest.raises(RetryableError, match="RPL-4428"):
        consumer.apply_batch(batch(3, [delete({"id": 1})]))
    copy_beside(consumer)
    consumer.apply_batch(batch(10, [delete({"id": 7}), insert(row(8))]))
    consumer.stop()
    assert sorted(names(lake)) == [8]


def test_a_table_in_a_folder_whose_newest_version_is_damaged_goes_on_from_the_one_before(warehouse: Warehouse) -> None:
    """A power cut may leave it so; the page says which files to delete."""
    consumer = warehouse.consumer()
    for number in range(1, 3):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    name = identifier(TABLE)
    newest = newest_metadata(warehouse.folder / name.namespace / name.name)
    newest.write_bytes(b"")
    with pytest.raises(RetryableError, match="RPL-4420"):
        consumer.progress(TABLE)
    newest.unlink()
    newest.with_name("version-hint.text").unlink()
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(1)
    consumer.apply_batch(batch(2, [insert(row(2, "again"))]))
    consumer.stop()
    assert names(warehouse) == {1: None, 2: "again"}


def test_a_column_of_a_type_that_this_target_does_not_read_is_an_error_of_its_table_until_it_is_copied_again(
    warehouse: Warehouse,
) -> None:
    consumer = warehouse.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))

    def adds(table: Any, catalog: Catalog) -> None:
        table.updateSchema().addColumn("foreign", catalog.jvm[".types.Types"].UUIDType.get()).commit()

    foreign(warehouse, adds)
    wider = TableSchema(TABLE, (*KEYED.columns, Column("more", STRING)), ("id",))
    with pytest.raises(SchemaDriftError, match="RPL-6430"):
        consumer.apply_ddl(alter(2, wider, Alter(AlterKind.ADD_COLUMN, Column("more", STRING), default="x")))
    copy_beside(consumer)
    consumer.stop()
    assert warehouse.rows(TABLE) == [row(7, "copied")]


def test_equality_deletes_are_gone_once_spark_has_written_the_files_again_as_the_error_says(
    warehouse: Warehouse, iceberg_spark: SparkSession
) -> None:
    """Without its option Spark writes none of them again."""
    consumer, location = warehouse.consumer(), warehouse.folder.parent / "equality.parquet"
    for number in range(1, 3):
        consumer.apply_batch(batch(number, [insert(row(10 * number)), insert(row(10 * number + 1))]))
    key = pa.field("id", pa.int64(), metadata={FIELD_ID: b"1"})
    pq.write_table(pa.table([pa.array([11])], schema=pa.schema([key])), location, store_schema=False)

    def deletes(table: Any, catalog: Catalog) -> None:
        gateway: Any = iceberg_spark.sparkContext._gateway
        columns = gateway.new_array(gateway.jvm.int, 1)
        columns[0] = 1
        made = catalog.jvm[".FileMetadata"].deleteFileBuilder(table.spec()).ofEqualityDeletes(columns)
        made = made.withPath(str(location)).withFormat("parquet").withFileSizeInBytes(location.stat().st_size)
        table.newRowDelta().addDeletes(made.withRecordCount(1).build()).commit()

    def writes_again(_: Any, catalog: Catalog) -> None:
        where = warehouse.table(TABLE).metadata.location
        table = catalog.jvm[".hadoop.HadoopTables"](catalog.jvm.hadoop_configuration()).load(where)
        actions = catalog.jvm[".spark.actions.SparkActions"].get(iceberg_spark._jsparkSession)
        actions.rewriteDataFiles(table).option("rewrite-all", "true").execute()

    foreign(warehouse, deletes)
    with pytest.raises(NeedsUserError, match=r"RPL-3425.*rewrite_data_files.*'rewrite-all', 'true'"):
        consumer.apply_batch(batch(3, [delete({"id": 10})]))
    foreign(warehouse, writes_again)
    consumer.apply_batch(batch(3, [delete({"id": 10}), update({"id": 21, "name": "new"})]))
    consumer.stop()
    read = iceberg_spark.read.format("iceberg").load(warehouse.table(TABLE).metadata.location)
    assert {r.id: r.name for r in read.collect()} == {20: None, 21: "new"}  # pyiceberg reads no equality deletes


def test_an_expiry_of_a_table_in_a_folder_takes_its_turn_with_commits(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There two processes could put their versions in each other's place."""
    consumer = warehouse.consumer()
    for number in range(1, 3):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    monkeypatch.setattr(storage_module, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(expiry, "time", SimpleNamespace(time=lambda: 2e10))
    table = consumer._table(TABLE)
    with table.turn(table.storage(table.begin())), pytest.raises(RetryableError, match="RPL-4425"):
        warehouse.maintain(TABLE, "expire")
    warehouse.maintain(TABLE, "expire")
    assert len(warehouse.table(TABLE).snapshots()) == 1
    consumer.stop()


def test_a_history_of_any_length_is_not_listed_to_be_added_to(
    tmp_path: Path, iceberg_spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Warehouse(tmp_path / "lake", iceberg_spark, mode="append")
    first = lake.consumer()
    first.apply_batch(batch(1, [insert(row(1))]))
    first.stop()
    monkeypatch.setattr(TargetTable, "files", None)
    second = lake.consumer()
    second.apply_batch(batch(2, [delete(row(1))]))
    second.stop()
    assert [r["_op"] for r in sorted(lake.rows(TABLE), key=lambda r: int(r["_sequence_num"]))] == ["I", "D"]


def test_what_a_commit_of_a_large_copy_says_of_its_chunks_stays_short() -> None:
    """Every commit writes what all snapshots say."""
    chunks = sorted({*range(10_000), *range(20_000, 20_008)} - {77})
    record = {"dropped": False, "loadedChunks": chunks, "progress": {"snapshotChunks": chunks, "epoch": 3}}
    text = packed(record)
    assert len(text) < 250
    assert unpacked(text) == record
    nothing = {"loadedChunks": [], "progress": {"snapshotChunks": None}}
    assert unpacked(packed(nothing)) == nothing
