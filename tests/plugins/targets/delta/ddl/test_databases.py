"""Databases are folders: created before their first table, deleted by `dropTables: drop` once they are empty."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.event import DDLEvent, DDLOperation
from replicator_sdk.failpoint import arm
from replicator_sdk.schema import TableId
from replicator_target_delta.ddl import database_folder
from tests.crash.kills import harms
from tests.plugins.targets.changes import KEYED, batch, ddl, insert, row
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CREATED = ddl(1, DDLOperation.CREATE_DATABASE, None, table=TableId("shop", ""))
DROPPED = ddl(9, DDLOperation.DROP_DATABASE, None, table=TableId("shop", ""))
DROP_TABLE: DDLEvent = ddl(8, DDLOperation.DROP_TABLE, None, table=KEYED.table)


def test_a_database_is_a_folder_that_may_be_created_and_dropped_again(tmp_path: Path, spark: SparkSession) -> None:
    consumer = Lake(tmp_path / "lake", spark, drop_tables="drop").consumer()
    for _ in range(2):
        consumer.apply_ddl(CREATED)
        assert (tmp_path / "lake" / "shop").is_dir()
    for _ in range(2):
        consumer.apply_ddl(DROPPED)
        assert not (tmp_path / "lake" / "shop").exists()
    consumer.stop()


def test_a_database_is_dropped_after_its_tables_and_comes_back(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(tmp_path / "lake", spark, drop_tables="drop")
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(DROPPED)
    assert len(lake.read_table(KEYED)) == 1, "it holds a table"
    consumer.apply_ddl(DROP_TABLE)
    (tmp_path / "lake" / "shop" / ".dropped-other").mkdir()  # of a run that was killed
    consumer.apply_ddl(DROPPED)
    assert not (tmp_path / "lake" / "shop").exists()
    consumer.apply_batch(batch(11, [insert(row(2))]))
    assert [found["id"] for found in lake.read_table(KEYED)] == [2]
    consumer.stop()


@pytest.mark.parametrize("is_used", [False, True], ids=["never used", "its tables dropped"])
def test_a_folder_that_the_replicator_did_not_create_stays(tmp_path: Path, spark: SparkSession, is_used: bool) -> None:
    (tmp_path / "lake" / "shop").mkdir(parents=True)
    consumer = Lake(tmp_path / "lake", spark, drop_tables="drop").consumer()
    consumer.apply_ddl(CREATED)
    if is_used:
        consumer.apply_batch(batch(1, [insert(row(1))]))
        consumer.apply_ddl(DROP_TABLE)
    consumer.apply_ddl(DROPPED)
    assert list((tmp_path / "lake" / "shop").iterdir()) == []
    consumer.stop()


def test_a_folder_that_another_replicator_created_stays(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(tmp_path / "lake", spark, drop_tables="drop")
    other, consumer = lake.consumer(name="other"), lake.consumer()
    other.apply_ddl(CREATED)
    consumer.apply_ddl(DROPPED)
    assert (tmp_path / "lake" / "shop").is_dir()
    other.apply_ddl(DROPPED)
    assert list((tmp_path / "lake").iterdir()) == []
    for made in (other, consumer):
        made.stop()


def cut(tmp_path: Path, spark: SparkSession) -> None:
    """A run that dies when it has deleted the folder; an operator creates another one then."""
    consumer = Lake(tmp_path / "lake", spark, drop_tables="drop").consumer()
    consumer.apply_ddl(CREATED)
    arm("delta.database.deleted=raise")
    with pytest.raises(RetryableError):
        consumer.apply_ddl(DROPPED)
    arm("")
    consumer.stop()


def test_a_folder_of_an_operator_stays_after_an_interrupted_drop(tmp_path: Path, spark: SparkSession) -> None:
    cut(tmp_path, spark)
    again = Lake(tmp_path / "lake", spark, drop_tables="drop").consumer(epoch=2)
    again.apply_ddl(DROPPED)
    (tmp_path / "lake" / "shop").mkdir()
    again.apply_ddl(DROPPED)
    assert (tmp_path / "lake" / "shop").is_dir()
    again.stop()


def test_without_the_replay_an_interrupted_drop_takes_the_folder_of_an_operator_for_its_own(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The twin of the test above."""
    cut(tmp_path, spark)
    again = Lake(tmp_path / "lake", spark, drop_tables="drop").consumer(epoch=2)
    (tmp_path / "lake" / "shop").mkdir()
    again.apply_ddl(DROPPED)
    assert not (tmp_path / "lake" / "shop").exists()
    again.stop()
    harms.append("delta.database.deleted")


def test_by_default_dropped_databases_and_tables_stay(tmp_path: Path, spark: SparkSession) -> None:
    lake = Lake(tmp_path / "lake", spark)
    consumer = lake.consumer()
    consumer.apply_batch(batch(1, [insert(row(1))]))
    consumer.apply_ddl(DROP_TABLE)
    consumer.apply_ddl(DROPPED)
    assert len(lake.read_table(KEYED)) == 1
    consumer.stop()


def test_what_others_put_into_the_folder_keeps_it(tmp_path: Path, spark: SparkSession) -> None:
    consumer = Lake(tmp_path / "lake", spark, drop_tables="drop").consumer()
    consumer.apply_ddl(CREATED)
    (tmp_path / "lake" / "shop" / "notes.txt").write_text("theirs")
    consumer.apply_ddl(DROPPED)
    assert (tmp_path / "lake" / "shop" / "notes.txt").read_text() == "theirs"
    consumer.stop()


@pytest.mark.parametrize("event", [CREATED, DROPPED], ids=["create", "drop"])
def test_a_file_in_the_place_of_the_folder_is_an_error_of_the_database_alone(
    tmp_path: Path, spark: SparkSession, event: DDLEvent
) -> None:
    consumer = Lake(tmp_path / "lake", spark, drop_tables="drop").consumer()
    (tmp_path / "lake").mkdir(exist_ok=True)
    (tmp_path / "lake" / "shop").write_text("theirs")
    if event is CREATED:
        with pytest.raises(NeedsUserError, match=r"RPL-6413.*ddlBlacklist"):
            consumer.apply_ddl(event)
    else:
        consumer.apply_ddl(event)
    assert (tmp_path / "lake" / "shop").read_text() == "theirs"
    consumer.stop()


def test_object_stores_have_no_folders(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_folder, "file_system", lambda spark, path: pytest.fail("asked the store"))
    folders = database_folder.DatabaseFolders(spark, "shop", are_dropped=True)
    folders.create("s3a://lake/shop")
    folders.prepare("s3a://lake/shop")
