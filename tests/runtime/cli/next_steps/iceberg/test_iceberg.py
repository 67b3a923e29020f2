"""What errors of tables in Iceberg advise is done as it is printed."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from replicator_sdk import TableId
from tests.end_to_end.replicator import mysql_source, postgres_source
from tests.follows import follows
from tests.plugins.sources.kafka.harness.connect_json import envelope, key_of
from tests.plugins.sources.kafka.harness.source_runs import inserts, now, orders, snapshot
from tests.plugins.targets.iceberg.others import compacts_and_expires
from tests.runtime.cli.next_steps.iceberg.iceberg_shop import IcebergShop, adds_more, fill, of
from tests.runtime.cli.next_steps.sources.earlier_table import TABLE, EarlierTable
from tests.runtime.cli.next_steps.sources.partial_document import PartialDocument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from replicator_target_iceberg.jvm import Catalog
    from tests.services.kafka.broker import KafkaBroker
    from tests.services.kafka.fixtures import MakeTopic
    from tests.services.mysql.server import MysqlDatabase
    from tests.services.postgres.server import PostgresDatabase


def adds_uuid(table: Any, catalog: Catalog) -> None:
    table.updateSchema().addColumn("foreign", catalog.jvm[".types.Types"].UUIDType.get()).commit()


def widens_size(table: Any, catalog: Catalog) -> None:
    table.updateSchema().updateColumn("size", catalog.jvm[".types.Types"].DecimalType.of(38, 2)).commit()


def drops_name(table: Any, catalog: Catalog) -> None:
    table.updateSchema().deleteColumn("name").commit()


@follows("RPL-3426", "RPL-3439", "RPL-4428", "RPL-6423", "RPL-6425", "RPL-6427", "RPL-6430")
def test_tables_that_another_program_changed_or_damaged_are_copied_again(iceberg_shop: IcebergShop) -> None:
    shop = iceberg_shop
    tables = ("expired", "damaged", "lost", "lacking", "narrower", "wider", "strange")
    fill(shop, *tables)
    shop.until_current()
    for _ in range(2):
        shop.foreign(of("expired"), compacts_and_expires)
    for path in shop.files(of("damaged")):
        path.write_bytes(bytes(path.stat().st_size))
    for path in shop.files(of("lost")):
        path.unlink()
    shop.foreign(of("lacking"), drops_name)
    shop.foreign(of("narrower"), drops_name)
    shop.foreign(of("wider"), adds_more)
    shop.foreign(of("strange"), adds_uuid)
    for table in ("expired", "narrower"):
        shop.sql(f"INSERT INTO {table} VALUES (4, 'd')")
    for table in ("damaged", "lost"):
        shop.sql(f"DELETE FROM {table} WHERE id = 2")
    for table in ("wider", "strange"):
        shop.sql(f"ALTER TABLE {table} ADD COLUMN more TEXT DEFAULT 'x'")
    shop.sql("ALTER TABLE lacking RENAME COLUMN name TO title")
    shop.document["retries"] = {"maxDurationSeconds": 1, "delaySeconds": 0.1}
    stopped = shop.replicator("run", shop.file, "--until-current")
    for code in ("RPL-3426", "RPL-3439", "RPL-4428", "RPL-6423", "RPL-6425", "RPL-6427", "RPL-6430"):
        shop.follow(stopped, code, "table resync")
    for table in ("customers", *tables):
        shop.sql(f"UPDATE {table} SET id = 9 WHERE id = 3")
    shop.until_current()
    shop.assert_equal("customers", *tables)


def drops_branch(table: Any, _: Catalog) -> None:
    table.manageSnapshots().removeBranch("audit").commit()


def publishes_branch(table: Any, _: Catalog) -> None:
    table.manageSnapshots().fastForwardBranch("main", "audit").commit()


@follows("RPL-3442")
def test_tables_whose_branch_is_gone_are_copied_again(iceberg_shop: IcebergShop) -> None:
    """It was dropped; then the setting has another name, and nothing was published to `main`."""
    shop = iceberg_shop
    fill(shop, "gone")
    shop.target(branch="audit")
    shop.until_current()
    shop.foreign(of("gone"), drops_branch)
    shop.sql("UPDATE gone SET name = 'late' WHERE id = 2", "DELETE FROM customers WHERE id = 2")
    stopped = shop.replicator("run", shop.file, "--until-current")
    shop.follow(stopped, "RPL-3442", "table resync")
    shop.until_current()
    shop.assert_equal("customers", "gone")
    for table in ("customers", "notes"):
        shop.foreign(of(table), publishes_branch)
    shop.target(branch="other")
    assert "RPL-3442" in shop.replicator("plan", shop.file).stdout
    stopped = shop.replicator("run", shop.file, "--until-current")
    shop.follow(stopped, "RPL-3442", "table resync")
    shop.sql("DELETE FROM gone WHERE id = 1", "UPDATE customers SET name = 'other' WHERE id = 1")
    shop.until_current()
    shop.assert_equal("customers", "gone")


@follows("RPL-6428", "RPL-6429")
def test_a_table_whose_partitions_are_in_the_way_is_created_again(
    iceberg_shop: IcebergShop, postgres_database: PostgresDatabase
) -> None:
    """One of the columns that it is partitioned by is dropped; a new column has the name of a partition."""
    shop, database = iceberg_shop, postgres_database
    shop.read(*postgres_source(database))
    shop.target(partitioning={"public.regions": ["name"], "public.buckets": ["bucket(4, id)"]})
    for table in ("regions", "buckets", "other"):
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name text)")
        database.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    shop.until_current()
    database.execute("ALTER TABLE regions DROP COLUMN name")
    database.execute("ALTER TABLE buckets ADD COLUMN id_bucket text DEFAULT 'x'")
    database.execute("INSERT INTO regions VALUES (4)")
    database.execute("INSERT INTO buckets VALUES (4, 'd', 'y')")
    stopped = shop.replicator("run", shop.file, "--until-current")
    shop.document["tables"] = [{"table": name, "exclude": True} for name in ("regions", "buckets")]
    shop.until_current()
    for code in ("RPL-6428", "RPL-6429"):
        shop.follow(stopped, code, "table drop")
    del shop.document["tables"]
    shop.target(partitioning={"public.*": ["bucket(8, id)"], "public.buckets": []})
    database.execute("UPDATE regions SET id = 8 WHERE id = 2")
    shop.until_current()
    database.execute("UPDATE regions SET id = 9 WHERE id = 3")
    database.execute("DELETE FROM buckets WHERE id = 3")
    shop.until_current()
    for table, columns in {"regions": "id", "buckets": "id, name, id_bucket", "other": "id, name"}.items():
        found = shop.rows_of(TableId(database.name, table, "public"), *columns.split(", "))
        assert found == Counter(database.execute(f"SELECT {columns} FROM {table}")), table


@follows("RPL-8420")
def test_tables_that_know_newer_runs_than_the_state_are_copied_again(iceberg_shop: IcebergShop) -> None:
    shop = iceberg_shop
    fill(shop, "other")
    for table in ("other", "customers"):
        shop.until_current()
        shop.sql(f"DELETE FROM {table} WHERE id = 3")
    shop.until_current()
    shutil.rmtree(shop.base)
    shop.sql("DELETE FROM _replicator_facts WHERE name GLOB 'owner *'", "DELETE FROM other WHERE id = 1")
    refused = shop.refused("RPL-8420", "run", shop.file, "--until-current")
    shop.follow(refused, "RPL-8420", "reset", "--lost-state")
    shop.until_current()
    shop.sql("INSERT INTO other VALUES (4, 'd')")
    shop.until_current()
    shop.assert_equal("customers", "other")


@follows("RPL-5421")
def test_updates_whose_other_values_another_program_removed_are_followed_by_a_copy(
    iceberg_shop: IcebergShop, postgres_database: PostgresDatabase
) -> None:
    """PostgreSQL does not log a large value that stays."""
    shop, database, large = iceberg_shop, postgres_database, "repeat('x', 9000)"
    shop.read(*postgres_source(database))
    database.execute("CREATE TABLE removed (id int PRIMARY KEY, name text, body text)")
    database.execute("ALTER TABLE removed ALTER body SET STORAGE EXTERNAL")
    database.execute(f"INSERT INTO removed VALUES (1, 'a', {large}), (2, 'a', {large})")
    shop.until_current()
    table = TableId(database.name, "removed", "public")
    shop.foreign(table, lambda java, catalog: java.newDelete().deleteFromRowFilter(all_rows(catalog)).commit())
    database.execute("UPDATE removed SET name = 'b' WHERE id = 1")
    stopped = shop.replicator("run", shop.file, "--until-current")
    shop.follow(stopped, "RPL-5421", "table resync")
    database.execute("UPDATE removed SET name = 'c' WHERE id = 2")
    shop.until_current()
    wanted = database.execute("SELECT id, name, body FROM removed")
    assert shop.rows_of(table, "id", "name", "body") == Counter(wanted)


def all_rows(catalog: Catalog) -> Any:
    return catalog.jvm[".expressions.Expressions"].alwaysTrue()


@follows("RPL-6426")
def test_a_history_whose_column_gets_another_type_begins_again(
    iceberg_shop: IcebergShop, mariadb_database: MysqlDatabase
) -> None:
    shop, database = iceberg_shop, mariadb_database
    shop.read(*mysql_source(database))
    shop.target(mode="append")
    database.execute("CREATE TABLE sizes (id int PRIMARY KEY, size text)")
    database.execute("INSERT INTO sizes VALUES (1, '10'), (2, '20')")
    shop.until_current()
    database.execute("UPDATE sizes SET size = '11' WHERE id = 1")
    database.execute("ALTER TABLE sizes MODIFY size int")
    database.execute("INSERT INTO sizes VALUES (3, 30)")
    stopped = shop.replicator("run", shop.file, "--until-current")
    shop.follow(stopped, "RPL-6426", "table resync")
    database.execute("UPDATE sizes SET size = 21 WHERE id = 2")
    shop.until_current()
    database.execute("DELETE FROM sizes WHERE id = 3")
    shop.until_current()
    assert shop.rows_of(TableId(database.name, "sizes"), "_op", "id", "size") == Counter(
        [("S", 1, 11), ("S", 2, 21), ("S", 3, 30), ("D", 3, None)]
    )


@follows("RPL-6424")
def test_a_column_that_another_program_widened_is_copied_again(
    iceberg_shop: IcebergShop, mariadb_database: MysqlDatabase, spark: SparkSession
) -> None:
    """A row of that program does not fit the type that the source gives the column then."""
    shop, database = iceberg_shop, mariadb_database
    shop.read(*mysql_source(database))
    database.execute("CREATE TABLE sizes (id int PRIMARY KEY, size decimal(10, 2))")
    database.execute("INSERT INTO sizes VALUES (1, 1.25), (2, 2.5)")
    shop.until_current()
    table = TableId(database.name, "sizes")
    shop.foreign(table, widens_size)
    added = spark.sql("SELECT 9 id, CAST('12345678901234567890.5' AS decimal(38, 2)) size")
    added.write.format("iceberg").mode("append").save(str(shop.place(table)))
    database.execute("ALTER TABLE sizes MODIFY size decimal(14, 4)")
    database.execute("UPDATE sizes SET size = 2.0625 WHERE id = 2")
    stopped = shop.replicator("run", shop.file, "--until-current")
    shop.follow(stopped, "RPL-6424", "table resync")
    database.execute("INSERT INTO sizes VALUES (3, 3.0625)")
    shop.until_current()
    assert shop.rows_of(table, "id", "size") == Counter(map(tuple, database.query("SELECT id, size FROM sizes")))


@follows("RPL-6422")
@pytest.mark.parametrize("way", ["move", "reset"])
def test_a_table_that_is_there_before_its_source_creates_it_is_moved_away_or_emptied(
    iceberg_shop: IcebergShop, kafka: KafkaBroker, kafka_topic: MakeTopic, way: str
) -> None:
    """A run that ended after it had created the table; its state is deleted, and the source's table has another column since."""
    shop = iceberg_shop
    earlier = EarlierTable(shop, kafka, kafka_topic, distributed=False)
    stopped = earlier.begin_refused("RPL-6422")
    if way == "move":
        shutil.move(shop.place(TABLE), shop.lake / "away")
    else:
        shop.follow(stopped, "RPL-6422", "reset")
    earlier.three_runs(lambda *names: list(shop.rows_of(TABLE, *names).elements()))


@follows("RPL-5425")
def test_a_table_without_some_rows_whose_log_lacks_values_is_copied_again(
    iceberg_shop: IcebergShop, postgres_database: PostgresDatabase
) -> None:
    shop = iceberg_shop
    document = PartialDocument(shop, postgres_database)
    document.lack_values()
    stopped = shop.refused("RPL-5425", "run", shop.file, "--until-current")
    document.log_whole_rows()
    shop.follow(stopped, "RPL-5425", "table resync")
    document.three_runs(lambda *names: shop.rows_of(document.table, *names).elements())


@follows("RPL-5425")
def test_updates_of_a_topic_without_values_that_no_row_has_are_passed_over_by_a_snapshot_and_a_reset(
    iceberg_shop: IcebergShop, kafka: KafkaBroker, kafka_topic: MakeTopic
) -> None:
    shop, topic, schema = iceberg_shop, kafka_topic(), orders()
    properties = {"bootstrapServers": kafka.bootstrap, "topics": [topic]}
    shop.read("kafka", properties)
    kafka.produce(topic, inserts([1]))
    shop.until_current()
    kafka.produce(topic, [(key_of(schema, {"id": 2}), envelope(schema, "u", None, {"id": 2}))])
    stopped = shop.refused("RPL-5425", "run", shop.file, "--until-current")
    shop.read("kafka", {**properties, "startFrom": now()})
    kafka.produce(topic, snapshot({1: "a", 2: "b"}))
    shop.follow(stopped, "RPL-5425", "reset")
    shop.until_current()
    kafka.produce(topic, inserts([2], note="later"))
    shop.until_current()
    assert shop.rows_of(schema.table, "id", "note") == Counter([(1, "a"), (2, "later")])
