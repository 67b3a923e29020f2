"""What errors of tables in Delta that another program changed advise is done as it is printed."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from replicator_sdk import TableId
from replicator_target_delta.location import table_path
from tests.end_to_end.comparison import table_rows
from tests.end_to_end.replicator import mysql_source, postgres_source
from tests.follows import follows
from tests.plugins.targets.delta.merge_on_read.latest import read_latest
from tests.runtime.cli.next_steps.sources.delayed import meanwhile
from tests.runtime.cli.next_steps.sources.partial_document import PartialDocument
from tests.runtime.cli.next_steps.test_rewinds import begin, listed
from tests.runtime.engine.test_run import fill
from tests.waits import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.mysql.server import MysqlDatabase
    from tests.services.postgres.server import PostgresDatabase


@follows("RPL-6403", "RPL-6407", "RPL-6408", "RPL-3414")
def test_tables_that_another_program_altered_or_deleted_are_copied_again(
    lake_shop: OperatorShop, spark: SparkSession
) -> None:
    shop, file = lake_shop, lake_shop.file
    shop.document["stages"][0]["plugin"]["properties"]["pollIntervalSeconds"] = 0.05
    shop.sql(
        "CREATE TABLE wider (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO wider VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE narrower (id INTEGER PRIMARY KEY, name TEXT)", "INSERT INTO narrower VALUES (1, 'a'), (2, 'b')",
    )  # fmt: skip
    fill(shop)
    shop.until_current()
    place = shop.lake / "main"
    spark.sql(f"ALTER TABLE delta.`{place / 'wider'}` ADD COLUMN more STRING")
    spark.sql(f"ALTER TABLE delta.`{place / 'narrower'}` DROP COLUMN name")
    refused = {"RPL-6408": shop.refused("RPL-6408", "verify", file, "wider")}
    shutil.rmtree(place / "notes")
    refused["RPL-3414"] = shop.refused("RPL-3414", "verify", file, "notes")
    shop.sql("ALTER TABLE wider ADD COLUMN more TEXT", "ALTER TABLE narrower RENAME COLUMN name TO title")
    stopped = shop.replicator("run", file, "--until-current")
    for code in ("RPL-6403", "RPL-6407"):
        refused[code] = stopped
    for code, ended in refused.items():
        shop.follow(ended, code, "table resync")
    shop.sql("INSERT INTO wider VALUES (3, 'c', 'd')", "INSERT INTO narrower VALUES (3, 'c')")
    shop.until_current()
    shop.assert_equal("customers", "notes", "wider", "narrower")


@follows("RPL-3411")
def test_a_table_whose_earlier_files_are_gone_is_copied_again(lake_shop: OperatorShop) -> None:
    shop, file = lake_shop, lake_shop.file
    begin(shop)
    shop.sql("DELETE FROM notes", "INSERT INTO notes VALUES ('new')")
    shop.until_current()
    live = {uri.rpartition("/")[2] for uri in shop.delta("notes").file_uris()}
    for path in (shop.lake / "main" / "notes").glob("*.*"):
        if path.name not in live:
            path.unlink()
    *_, oldest = listed(shop.done("offsets", "list", file).stdout)
    refused = shop.refused("RPL-3411", "rewind", file, "--offset", oldest, "--yes")
    later, *_ = listed(shop.follow(refused, "RPL-3411", "offsets list").stdout)
    shop.done("rewind", file, "--offset", later, "--yes")
    shop.follow(refused, "RPL-3411", "table resync")
    shop.done("rewind", file, "--offset", oldest, "--yes")
    shop.until_current()
    shop.assert_equal()


@follows("RPL-5401", "RPL-5020")
def test_updates_whose_other_values_are_nowhere_are_followed_by_a_copy(
    lake_shop: OperatorShop, spark: SparkSession, postgres_database: PostgresDatabase
) -> None:
    """PostgreSQL does not log a large value that stays: of rows that another program removed, or that a filter left out."""
    shop, database, large = lake_shop, postgres_database, "repeat('x', 9000)"
    shop.read(*postgres_source(database))
    shop.document["tables"] = [{"table": "removed"}, {"table": "filtered", "dmlBlacklist": ["INSERT"]}]
    for table in ("removed", "filtered"):
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name text, body text)")
        database.execute(f"ALTER TABLE {table} ALTER body SET STORAGE EXTERNAL")
        database.execute(f"INSERT INTO {table} VALUES (1, 'a', {large}), (2, 'a', {large})")
    shop.until_current()
    place = {
        name: table_path(str(shop.lake), TableId(database.name, name, "public")) for name in ("removed", "filtered")
    }
    spark.sql(f"DELETE FROM delta.`{place['removed']}` WHERE id = 1")
    database.execute("UPDATE removed SET name = 'b'")
    database.execute(  # in one transaction
        f"DELETE FROM filtered WHERE id = 1; INSERT INTO filtered VALUES (1, 'c', {large}); UPDATE filtered SET name = 'b'"
    )
    stopped = shop.replicator("run", shop.file, "--until-current")
    del shop.document["tables"][1]["dmlBlacklist"]
    for code in ("RPL-5401", "RPL-5020"):
        shop.follow(stopped, code, "table resync")
    database.execute("UPDATE removed SET name = 'd' WHERE id = 2")
    database.execute("UPDATE filtered SET name = 'd' WHERE id = 2")
    shop.until_current()
    for path in place.values():
        assert Counter(table_rows(DeltaTable(path), ["id", "name", "body"])) == Counter(
            [(1, "b", "x" * 9000), (2, "d", "x" * 9000)]
        )


@follows("RPL-6414")
def test_a_table_whose_watermark_column_is_dropped_is_copied_again_by_other_keys(
    lake_shop: OperatorShop, postgres_database: PostgresDatabase
) -> None:
    shop, database = lake_shop, postgres_database
    shop.read(*postgres_source(database))
    shop.document["tables"] = [{"table": "items"}]
    settings = shop.document["stages"][1]["plugin"]["properties"]
    settings |= {"mode": "merge-on-read", "watermarkKeys": ["updated"]}
    database.execute("CREATE TABLE items (id int PRIMARY KEY, name text, updated int)")
    database.execute("INSERT INTO items VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    shop.until_current()
    database.execute("DELETE FROM items WHERE id = 1")
    database.execute("ALTER TABLE items DROP COLUMN updated")
    database.execute("UPDATE items SET name = 'later' WHERE id = 2")
    stopped = shop.refused("RPL-6414", "run", shop.file, "--until-current")
    del settings["watermarkKeys"]
    shop.follow(stopped, "RPL-6414", "table resync")
    for number in range(3):
        shop.until_current()
        rows = Counter(
            (one["id"], one["name"])
            for one in read_latest(Path(table_path(str(shop.lake), TableId(database.name, "items", "public"))))
        )
        assert rows == Counter(database.execute("SELECT id, name FROM items"))
        database.execute(f"INSERT INTO items (id, name) VALUES ({10 + number}, 'new')")
        database.execute(f"DELETE FROM items WHERE id = {9 + number}")
        database.execute(f"ALTER TABLE items ADD COLUMN more_{number} int")


@follows("RPL-4101")
def test_a_table_that_is_deleted_during_a_run_is_created_again_by_a_copy(lake_shop: OperatorShop) -> None:
    shop = lake_shop
    shop.document["stages"][0]["plugin"]["properties"]["pollIntervalSeconds"] = 0.05
    shop.document["batch"] = {"maxIntervalSeconds": 0.1}
    fill(shop)
    shop.until_current()
    stop, ended = threading.Event(), list[bool]()
    running = threading.Thread(target=lambda: ended.append(shop.run(until_current=False, stop=stop).reached_goal))
    running.start()
    try:
        shop.sql("INSERT INTO customers VALUES (50, 'before')")
        until(lambda: (50,) in list(table_rows(shop.delta("customers"), ["id"])))
        shutil.rmtree(shop.lake / "main" / "customers")
        shop.sql("INSERT INTO customers VALUES (51, 'while it is gone')")
        until(lambda: "RPL-4101: " in shop.replicator("status", shop.file).output)
        shop.sql("ALTER TABLE customers ADD COLUMN more TEXT", "UPDATE customers SET more = 'm' WHERE id = 51")
        shown = shop.replicator("status", shop.file)
        shop.follow(shown, "RPL-4101", "table resync", "--in-place")
        shop.sql("DELETE FROM customers WHERE id = 50", "INSERT INTO notes VALUES ('of the other table')")
        until(lambda: _is_equal(shop))
    finally:
        stop.set()
        running.join(120)
    assert ended, "the run ended in order"
    shop.until_current()
    shop.assert_equal()
    shop.goes_on()


def _is_equal(shop: OperatorShop) -> bool:
    try:
        shop.assert_equal()
    except (AssertionError, DeltaError):
        return False
    return True


@follows("RPL-5408")
@pytest.mark.parametrize("way", ["whole rows", "no watermark"])
def test_a_table_whose_row_moved_without_its_watermark_is_copied_again(
    lake_shop: OperatorShop, mysql_database: MysqlDatabase, way: str
) -> None:
    """A session of the source logs the columns of the key and those that change."""
    shop, database = lake_shop, mysql_database
    shop.read(*mysql_source(database))
    settings = shop.document["stages"][1]["plugin"]["properties"]
    settings |= {"mode": "merge-on-read", "watermarkKeys": ["updated"]}
    database.execute("CREATE TABLE items (id int PRIMARY KEY, name varchar(20), updated int)")
    database.execute("INSERT INTO items VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    shop.until_current()
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = MINIMAL")
        cursor.execute("UPDATE items SET id = 9 WHERE id = 2")
        connection.commit()
    shop.refused("RPL-5408", "run", shop.file, "--until-current")
    stopped = shop.refused("RPL-5408", "run", shop.file, "--until-current")
    if way == "no watermark":
        del settings["watermarkKeys"]
    shop.follow(stopped, "RPL-5408", "table resync")
    for number in range(3):
        shop.until_current()
        place = Path(table_path(str(shop.lake), TableId(database.name, "items")))
        rows = Counter((one["id"], one["name"]) for one in read_latest(place))
        assert rows == Counter(map(tuple, database.query("SELECT id, name FROM items")))
        database.execute(f"INSERT INTO items (id, name, updated) VALUES ({10 + number}, 'new', 5)")
        database.execute(f"UPDATE items SET id = {20 + number}, updated = 6 WHERE id = {10 + number}")
        database.execute(f"DELETE FROM items WHERE id = {9 if number == 0 else 19 + number}")
        database.execute(f"ALTER TABLE items ADD COLUMN more_{number} int")


@follows("RPL-5405")
def test_a_table_without_some_rows_whose_log_lacks_values_is_copied_again(
    lake_shop: OperatorShop, postgres_database: PostgresDatabase
) -> None:
    shop, database = lake_shop, postgres_database
    document = PartialDocument(shop, database)
    document.lack_values()
    stopped = shop.refused("RPL-5405", "run", shop.file, "--until-current")
    document.log_whole_rows()
    shop.follow(stopped, "RPL-5405", "table resync")
    place = table_path(str(shop.lake), document.table)
    document.three_runs(lambda *names: table_rows(DeltaTable(place), names))


@follows("RPL-4113")
def test_a_table_that_is_deleted_just_before_a_commit_is_copied_again(lake_shop: OperatorShop) -> None:
    shop = lake_shop
    shop.document["retries"] = {"maxDurationSeconds": 0}
    fill(shop)
    shop.until_current()
    shop.sql("INSERT INTO customers VALUES (50, 'before')")
    with meanwhile("engine.table.before_apply", lambda: shutil.rmtree(shop.lake / "main" / "customers")):
        stopped = shop.refused("RPL-4113", "run", shop.file, "--until-current")
    shop.sql("ALTER TABLE customers ADD COLUMN more TEXT", "UPDATE customers SET more = 'm' WHERE id = 50")
    shop.refused("RPL-4101", "run", shop.file, "--until-current")
    assert not (shop.lake / "main" / "customers").exists()
    shop.follow(stopped, "RPL-4113", "table resync", "--in-place")
    shop.until_current()
    shop.assert_equal()
    shop.goes_on()
