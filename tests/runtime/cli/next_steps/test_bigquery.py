"""What errors of tables in BigQuery advise is done as it is printed."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient, types

from replicator_runtime.engine.run_state.spark_handle import SparkHandle
from replicator_target_bigquery.schema.table_info import TableInfo
from tests.end_to_end.replicator import postgres_source
from tests.follows import follows
from tests.runtime.cli.next_steps.operator_shop import OperatorShop
from tests.runtime.cli.next_steps.sources.earlier_table import EarlierTable
from tests.services.bigquery.emulators import PROJECT, Emulators, rows, target_settings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.runtime.cli.conftest import Replicator
    from tests.services.kafka.broker import KafkaBroker
    from tests.services.kafka.fixtures import MakeTopic
    from tests.services.postgres.server import PostgresDatabase

MERGING = {"mode": "merge-flush", "kafkaKeyFieldName": "recordKey", "mergeIntervalMs": 200}


class DatasetShop(OperatorShop):
    """The target is a dataset of the test's own, in mode batch at first."""

    def __init__(self, folder: Path, replicator: Replicator, emulators: Emulators) -> None:
        super().__init__(folder, replicator)
        self._emulators, self.dataset = emulators, f"d{uuid.uuid4().hex[:12]}"
        self.document["stages"][1]["plugin"] = {"name": "bigquery", "type": "cdcTarget"}
        self.target()

    def target(self, **settings: Any) -> None:
        """Give the target these settings beside those that it needs."""
        properties = target_settings(self._emulators, self.dataset, **settings)
        self.document["stages"][1]["plugin"]["properties"] = properties

    def at_target(self, *statements: str) -> list[list[object]]:
        """Another program's statements; `{d}` is the dataset. Returns the rows of the last one."""
        found: list[list[object]] = []
        for sql in statements:
            found = rows(self._emulators, sql.replace("{d}", f"`{PROJECT}`.`{self.dataset}`"))
        return found

    def assert_equal(self, *tables: str) -> None:
        """The same rows on both sides."""
        for table in tables or ("customers", "notes"):
            wanted = self.source_rows(table)
            found = self.at_target(f"SELECT {', '.join(wanted[0])} FROM {{d}}.{table}")
            source = Counter(tuple(None if v is None else str(v) for v in row.values()) for row in wanted)
            assert Counter(tuple(None if v is None else str(v) for v in row) for row in found) == source, table


@pytest.fixture
def dataset_shop(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    replicator: Replicator,
    bigquery_emulators: Emulators,
    spark: SparkSession,
) -> DatasetShop:
    monkeypatch.setattr(SparkHandle, "session", lambda self: spark)
    bigquery_emulators.gate.clear()
    bigquery_emulators.write_gate.clear()
    return DatasetShop(tmp_path, replicator, bigquery_emulators)


def fill(shop: DatasetShop, *tables: str) -> None:
    """Make tables of three rows."""
    for table in tables:
        shop.sql(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, name TEXT, size INTEGER)")
    for table in ("customers", *tables):
        shop.sql(f"INSERT INTO {table} (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    shop.sql("INSERT INTO notes VALUES ('a')")


@follows("RPL-6525", "RPL-6531", "RPL-6562", "RPL-6571", "RPL-6574", "RPL-6576")
def test_tables_that_another_program_changed_are_copied_again(
    dataset_shop: DatasetShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, file = dataset_shop, dataset_shop.file
    shop.target(schemaChanges="fail")
    fill(shop, "narrower", "gone", "renamed", "other")
    shop.until_current()
    shop.at_target(
        "ALTER TABLE {d}.narrower DROP COLUMN size", "DROP TABLE {d}.other", "DROP TABLE {d}.gone",
        "CREATE TABLE {d}.other (id INT64)",
    )  # fmt: skip
    report_dropped(monkeypatch, "narrower", "size")
    refused = {
        "RPL-6571": shop.refused("RPL-6571", "verify", file, "other"),
        "RPL-6574": shop.refused("RPL-6574", "verify", file, "gone"),
    }
    shop.document["stages"][0]["plugin"]["properties"]["chunkRows"] = 2
    shop.done("table", "resync", file, "other", "--yes")
    shop.sql("ALTER TABLE renamed RENAME COLUMN name TO title", "INSERT INTO narrower VALUES (4, 'd', 4)")
    stopped = shop.replicator("run", file, "--until-current")
    refused |= dict.fromkeys(("RPL-6531", "RPL-6562", "RPL-6576"), stopped)
    for code, ended in refused.items():
        shop.follow(ended, code, "table resync")
    shop.until_current()
    shop.assert_equal("customers", "notes", "narrower", "gone", "renamed", "other")

    shutil.rmtree(shop.base)
    shop.sql("DELETE FROM _replicator_facts WHERE name GLOB 'owner *'", "INSERT INTO other VALUES (4, 'd', 4)")
    lost = shop.refused("RPL-6525", "run", file, "--until-current")
    shop.follow(lost, "RPL-6525", "reset", "--lost-state")
    shop.until_current()
    shop.assert_equal("customers", "notes", "narrower", "gone", "renamed", "other")


@follows("RPL-6570", "RPL-6608")
def test_tables_that_cannot_be_compared_or_whose_appended_rows_are_lost_are_copied(
    dataset_shop: DatasetShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = dataset_shop
    shop.target(**MERGING)
    fill(shop)
    shop.until_current()
    shop.at_target("DELETE FROM {d}.customers WHERE id = 2")
    refused = shop.refused("RPL-6570", "verify", shop.file, "customers")
    shop.follow(refused, "RPL-6570", "table resync", "--in-place")
    shop.sql("INSERT INTO customers VALUES (4, 'd')")
    shop.until_current()
    shop.assert_equal()
    lose_first_stream(monkeypatch)
    shop.sql("INSERT INTO customers VALUES (5, 'e')")
    refused = shop.refused("RPL-6608", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-6608", "table resync")
    shop.sql("INSERT INTO customers VALUES (6, 'f')")
    shop.until_current()
    shop.assert_equal()


def report_dropped(monkeypatch: pytest.MonkeyPatch, table: str, column: str) -> None:
    """The emulator goes on to report a column that was dropped, until the table is created again; BigQuery does not."""
    report, dropped_from = TableInfo.from_api, list[int]()

    def reported(found: Any) -> TableInfo:
        info = report(found)
        if found.table_id != table:
            return info
        dropped_from.append(info.created)
        if info.created != dropped_from[0]:
            return info
        return replace(info, fields=tuple(field for field in info.fields if field.name != column))

    monkeypatch.setattr(TableInfo, "from_api", reported)


def lose_first_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """BigQuery does not know the stream any more whose rows are to be committed next, nor later."""
    answer, lost = BigQueryWriteClient.batch_commit_write_streams, set[str]()
    unknown = types.StorageError(code=types.StorageError.StorageErrorCode.STREAM_NOT_FOUND)

    def commit(self: BigQueryWriteClient, request: Any, **more: Any) -> Any:
        if not lost:
            lost.update(request.write_streams)
        if lost & set(request.write_streams):
            return types.BatchCommitWriteStreamsResponse(stream_errors=[unknown])
        return answer(self, request, **more)

    monkeypatch.setattr(BigQueryWriteClient, "batch_commit_write_streams", commit)


@follows("RPL-6704", "RPL-6707")
def test_tables_whose_key_is_not_declared_or_that_change_are_copied(
    dataset_shop: DatasetShop, bigquery_emulators: Emulators
) -> None:
    shop = dataset_shop
    shop.document["tables"] = [{"database": "main", "table": "notes", "exclude": True}]
    fill(shop, "later")
    shop.until_current()
    shop.target(mode="cdc", storageWriteEndpoint=bigquery_emulators.streaming.endpoint)
    shop.sql("INSERT INTO customers VALUES (4, 'd')")
    refused = shop.refused("RPL-6704", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-6704", "table resync")
    shop.sql("INSERT INTO customers VALUES (5, 'e')", "ALTER TABLE later ADD COLUMN more TEXT DEFAULT 'x'")
    refused = shop.refused("RPL-6707", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-6707", "table resync")
    shop.sql("INSERT INTO later VALUES (5, 'e', 1, 'f')")
    shop.until_current()
    shop.assert_equal("customers", "later")


@follows("RPL-6607")
def test_a_table_with_another_key_is_copied_again(
    dataset_shop: DatasetShop, postgres_database: PostgresDatabase
) -> None:
    shop, database = dataset_shop, postgres_database
    shop.read(*postgres_source(database))
    shop.target(**MERGING, upsertEnabled=True, deleteEnabled=True)
    database.execute("CREATE TABLE keyed (id int PRIMARY KEY, name text NOT NULL)")
    database.execute("INSERT INTO keyed VALUES (1, 'a'), (2, 'b')")
    shop.until_current()
    database.execute("ALTER TABLE keyed DROP CONSTRAINT keyed_pkey, ADD PRIMARY KEY (name)")
    database.execute("UPDATE keyed SET id = 3 WHERE name = 'b'")
    refused = shop.refused("RPL-6607", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-6607", "table resync")
    database.execute("UPDATE keyed SET id = 4 WHERE name = 'a'")
    shop.until_current()
    assert shop.at_target("SELECT id, name, recordKey.name FROM {d}.keyed ORDER BY name") == [
        ["4", "a", "a"], ["3", "b", "b"],
    ]  # fmt: skip


@follows("RPL-6533", "RPL-6563")
def test_tables_of_postgres_are_copied_again(dataset_shop: DatasetShop, postgres_database: PostgresDatabase) -> None:
    shop, database = dataset_shop, postgres_database
    shop.read(*postgres_source(database))
    database.execute("CREATE TABLE document (id int PRIMARY KEY, name text, body text)")
    database.execute("ALTER TABLE document ALTER body SET STORAGE EXTERNAL")
    database.execute("CREATE TABLE tagged (id int PRIMARY KEY)")
    database.execute("INSERT INTO document SELECT n, 'a', repeat('x', 9000) FROM generate_series(1, 3) n")
    database.execute("INSERT INTO tagged VALUES (1)")
    shop.until_current()
    shop.at_target("DELETE FROM {d}.document WHERE id = 2")
    database.execute("UPDATE document SET name = 'b' WHERE id = 2")
    database.execute("ALTER TABLE tagged ADD COLUMN tags int[] DEFAULT '{1,2}'")
    database.execute("INSERT INTO tagged VALUES (2)")
    stopped = shop.replicator("run", shop.file, "--until-current")
    for code in ("RPL-6533", "RPL-6563"):
        shop.follow(stopped, code, "table resync")
    database.execute("UPDATE document SET name = 'c' WHERE id = 3")
    shop.until_current()
    assert shop.at_target("SELECT id, name, LENGTH(body) FROM {d}.document ORDER BY id") == [
        ["1", "a", "9000"], ["2", "b", "9000"], ["3", "c", "9000"],
    ]  # fmt: skip
    assert shop.at_target("SELECT id FROM {d}.tagged ORDER BY id") == [["1"], ["2"]]


@follows("RPL-6553")
@pytest.mark.parametrize("way", ["move", "reset"])
def test_a_table_that_is_there_before_its_source_creates_it_is_moved_away_or_emptied(
    dataset_shop: DatasetShop, kafka: KafkaBroker, kafka_topic: MakeTopic, way: str
) -> None:
    """A run that ended after it had created the table; its state is deleted, and the source's table has another column since."""
    shop = dataset_shop
    earlier = EarlierTable(shop, kafka, kafka_topic, distributed=False)
    stopped = earlier.begin_refused("RPL-6553")
    if way == "move":
        shop.at_target("CREATE TABLE {d}.orders_before AS SELECT * FROM {d}.orders", "DROP TABLE {d}.orders")
    else:
        shop.follow(stopped, "RPL-6553", "reset")

    def rows_of(*names: str) -> list[tuple[Any, ...]]:
        found = shop.at_target(f"SELECT {', '.join(names)} FROM {{d}}.orders")
        return [(int(str(number)), *rest) for number, *rest in found]

    earlier.three_runs(rows_of)
