"""A commit finds the newest version without a listing of the log, and notices what others wrote."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk.datatype import STRING
from replicator_sdk.errors import RetryableError
from replicator_sdk.event import DDLOperation
from replicator_sdk.schema import Column, TableSchema
from replicator_target_delta.consumer import DeltaConsumer
from replicator_target_delta.log import transaction_log
from replicator_target_delta.log.transaction_log import TableLog
from tests.plugins.targets.changes import KEYED, TABLE, at, batch, ddl, insert, row
from tests.plugins.targets.delta.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


def log_folder(lake: Lake) -> Path:
    return lake.path(TABLE) / "_delta_log"


def filled(lake: Lake, commits: int = 3) -> DeltaConsumer:
    consumer = lake.consumer()
    for number in range(1, commits + 1):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    return consumer


@pytest.fixture
def listing_fails(lake: Lake) -> Callable[[], None]:
    """Makes every listing of the log fail from now on: Delta refuses a log in which versions are missing."""

    def spoil() -> None:
        (log_folder(lake) / f"{1000:020}.json").write_text("{}")

    return spoil


def test_a_commit_after_a_commit_does_not_list_the_log(lake: Lake, listing_fails: Callable[[], None]) -> None:
    consumer = filled(lake)
    listing_fails()
    for number in (4, 5, 6):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    assert (log_folder(lake) / f"{5:020}.json").exists()


def test_a_log_in_which_versions_are_missing_is_refused_when_it_is_listed(
    lake: Lake, listing_fails: Callable[[], None]
) -> None:
    """What the test above relies on."""
    consumer = filled(lake)
    listing_fails()
    with pytest.raises(RetryableError, match="RPL-4401"):
        consumer._table(TABLE).log.forget()


def test_the_log_is_listed_again_when_many_commits_came_since_a_checkpoint(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what the JVM keeps of a table does not grow with the number of its commits."""
    monkeypatch.setattr(transaction_log, "_MANY_COMMITS", 4)
    consumer = filled(lake)
    log: TableLog = consumer._table(TABLE).log
    for number in range(4, 20):
        consumer.apply_batch(batch(number, [insert(row(number))]))
        if number == 10:
            log._log.checkpoint()
    assert int(log._log.unsafeVolatileSnapshot().logSegment().deltas().size()) < 12


def test_after_a_checkpoint_only_the_commits_since_are_kept(lake: Lake) -> None:
    consumer = filled(lake, 5)
    log: TableLog = consumer._table(TABLE).log
    log.checkpoint(1)
    consumer.apply_batch(batch(6, [insert(row(6))]))
    assert int(log._log.unsafeVolatileSnapshot().logSegment().deltas().size()) == 1


def test_opening_a_table_asks_java_as_often_however_many_commits_there_are(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = filled(lake)
    gateway: Any = lake.spark().sparkContext._gateway
    client, asked = gateway._gateway_client, 0
    send = client.send_command

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal asked
        asked += 1
        return send(*arguments, **named)

    monkeypatch.setattr(client, "send_command", counted)

    def calls() -> int:
        log: TableLog = consumer._table(TABLE).log
        log.forget()
        before = asked
        log.begin()
        return asked - before

    few = calls()
    for number in range(4, 24):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    assert 0 < calls() <= few + 5  # the gateway also reports objects that are not used any more


def test_a_commit_of_another_process_is_noticed(lake: Lake) -> None:
    """Another engine set a property: its commit has the name that ours would get next."""
    consumer = filled(lake)
    lake.spark().sql(f"ALTER TABLE delta.`{lake.path(TABLE)}` SET TBLPROPERTIES ('a' = 'b')")
    consumer.apply_batch(batch(4, [insert(row(4))]))
    assert sorted(r["id"] for r in lake.rows(TABLE)) == [1, 2, 3, 4]
    assert consumer._table(TABLE).begin().state.metadata["configuration"]["a"] == "b"


def test_a_folder_that_was_replaced_by_an_older_copy_is_not_written_as_if_it_were_the_newer_one(
    lake: Lake, tmp_path: Path
) -> None:
    """The remembered version's commit file is not there any more."""
    consumer = filled(lake, 2)
    copy = tmp_path / "copy"
    shutil.copytree(lake.path(TABLE), copy)
    for number in (3, 4):
        consumer.apply_batch(batch(number, [insert(row(number))]))
    shutil.rmtree(lake.path(TABLE))
    shutil.copytree(copy, lake.path(TABLE))
    with pytest.raises(RetryableError, match="RPL-4113"):
        consumer.apply_batch(batch(5, [insert(row(5))]))
    versions = sorted(int(p.stem) for p in log_folder(lake).glob("*.json"))
    assert versions == [0, 1]


def test_an_older_copy_that_another_program_wrote_up_to_the_same_version_is_noticed(lake: Lake, tmp_path: Path) -> None:
    """Version and identity of the table are as remembered; the commit's file is not."""
    consumer = filled(lake, 3)
    copy = tmp_path / "copy"
    shutil.copytree(lake.path(TABLE), copy)
    lake.spark().sql(f"ALTER TABLE delta.`{copy}` SET TBLPROPERTIES ('a' = 'b')")
    consumer.apply_batch(batch(4, [insert(row(4))]))
    shutil.rmtree(lake.path(TABLE))
    shutil.copytree(copy, lake.path(TABLE))
    with pytest.raises(RetryableError, match="RPL-4113"):
        consumer.apply_batch(batch(5, [insert(row(5))]))
    progress = lake.consumer().progress(TABLE)
    assert progress is not None
    assert progress.position == at(3)


def test_a_folder_that_was_replaced_by_another_table_of_the_same_version_is_noticed(lake: Lake, tmp_path: Path) -> None:
    consumer = filled(lake, 3)
    other = Lake(tmp_path / "other", lake.spark())
    filled(other, 3)
    shutil.rmtree(lake.path(TABLE))
    shutil.copytree(other.path(TABLE), lake.path(TABLE))
    [commit] = log_folder(lake).glob(f"{2:020}.json")
    identity = next(
        json.loads(line)["metaData"]["id"]
        for line in (log_folder(lake) / f"{0:020}.json").read_text().splitlines()
        if "metaData" in line
    )
    assert commit.exists()
    assert consumer._table(TABLE).begin().state.metadata["id"] == identity
    progress = consumer.progress(TABLE)
    assert progress is not None
    assert progress.position == at(3)


def spark_jobs(spark: SparkSession) -> int:
    """How many jobs the session has begun."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().nextJobId())


def test_readers_of_a_new_table_see_nothing_of_the_log_of_one_that_was_deleted_while_it_was_written(lake: Lake) -> None:
    """A commit beside the deletion writes its checksum, in which the columns are, into the folder after it."""
    filled(lake).stop()
    left = {file.name: file.read_bytes() for file in log_folder(lake).glob("*.crc")}
    assert f"{1:020}.crc" in left
    shutil.rmtree(lake.path(TABLE))
    log_folder(lake).mkdir(parents=True)
    for name, content in left.items():
        (log_folder(lake) / name).write_bytes(content)
    other = TableSchema(TABLE, (*KEYED.columns, Column("more", STRING)), ("id",))
    consumer = lake.consumer(epoch=2)
    consumer.apply_ddl(ddl(5, DDLOperation.CREATE_TABLE, other))
    assert lake.arrow(TABLE).column_names[:4] == list(other.names)
    consumer.apply_batch(batch(6, [insert({**row(6), "more": "m"}, other)], epoch=2))
    assert lake.read_table(other) == [{**row(6), "more": "m"}]


@pytest.fixture
def thread(spark: SparkSession) -> Iterator[ThreadPoolExecutor]:
    """A thread of which Spark knows nothing, as those that apply batches are; py4j may give it one of the JVM's that was used before."""

    def forget_session() -> None:
        jvm: Any = spark._jvm
        jvm.org.apache.spark.sql.classic.SparkSession.clearActiveSession()

    with ThreadPoolExecutor(1, initializer=forget_session) as pool:
        yield pool


def checksums(lake: Lake) -> list[str]:
    return sorted(path.stem[-3:] for path in log_folder(lake).glob("*.crc"))


def read_without_the_last_checksum(lake: Lake, thread: ThreadPoolExecutor) -> None:
    """The thread reads the table as it is after a kill between a commit and its checksum, or after a commit of a program that writes none."""
    consumer = filled(lake)
    log = consumer._table(TABLE).log
    assert log.checkpoint(1)
    consumer.apply_batch(batch(4, [insert(row(4))]))
    (log_folder(lake) / f"{3:020}.crc").unlink()
    thread.submit(log.forget).result()


def test_commits_of_a_thread_after_one_whose_checksum_is_missing_need_no_spark_job(
    lake: Lake, spark: SparkSession, thread: ThreadPoolExecutor
) -> None:
    read_without_the_last_checksum(lake, thread)
    consumer = lake.consumer()

    def commits(numbers: range) -> None:
        for number in numbers:
            consumer.apply_batch(batch(number, [insert(row(number))]))

    thread.submit(commits, range(5, 6)).result()
    before = spark_jobs(spark)
    thread.submit(commits, range(6, 9)).result()
    assert spark_jobs(spark) == before
    assert checksums(lake) == ["000", "001", "002", "004", "005", "006", "007"]


def test_a_thread_writes_a_checkpoint_after_another(lake: Lake, thread: ThreadPoolExecutor) -> None:
    read_without_the_last_checksum(lake, thread)
    assert thread.submit(lambda: lake.consumer()._table(TABLE).log.checkpoint(1)).result()
    assert [path.stem[:20] for path in sorted(log_folder(lake).glob("*.checkpoint.parquet"))] == [
        f"{2:020}",
        f"{3:020}",
    ]


def test_a_checkpoint_that_delta_could_not_write_is_an_error(lake: Lake) -> None:
    consumer = filled(lake)
    (log_folder(lake) / "_last_checkpoint" / "in the way").mkdir(parents=True)
    with pytest.raises(RetryableError, match="RPL-4409"):
        consumer._table(TABLE).log.checkpoint(1)
    consumer.apply_batch(batch(4, [insert(row(4))]))
