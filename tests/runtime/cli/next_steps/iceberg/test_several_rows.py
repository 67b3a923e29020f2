"""Tables with several rows of a key in Iceberg are compared, repaired, copied and taken back by the commands, and what errors advise is done."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import StaticTable

from replicator_sdk import TableId
from tests.end_to_end.replicator import mysql_source, postgres_source
from tests.follows import follows
from tests.plugins.targets.iceberg.warehouse import newest_metadata
from tests.plugins.targets.latest import latest
from tests.plugins.targets.version_model import assert_in_order
from tests.runtime.cli.next_steps.iceberg.iceberg_shop import fill, of
from tests.runtime.cli.next_steps.test_rewinds import listed

if TYPE_CHECKING:
    from tests.runtime.cli.next_steps.iceberg.iceberg_shop import IcebergShop
    from tests.services.mysql.server import MysqlDatabase
    from tests.services.postgres.server import PostgresDatabase


def seen(shop: IcebergShop, table: TableId, *columns: str) -> Counter[tuple[Any, ...]]:
    """The rows that readers see."""
    found = StaticTable.from_metadata(str(newest_metadata(shop.place(table))))
    rows = found.scan().to_arrow()
    every = rows.to_pylist()
    return Counter(tuple(every[place][name] for name in columns) for place in latest(rows, found.properties))


def of_source(shop: IcebergShop, table: str) -> Counter[tuple[Any, ...]]:
    """The rows of the source."""
    return Counter((one["id"], one["name"]) for one in shop.source_rows(table))


def test_rows_are_compared_explained_repaired_and_taken_back(iceberg_shop: IcebergShop) -> None:
    shop, file = iceberg_shop, iceberg_shop.file
    shop.target(mode="merge-on-read")
    shop.document["tables"] = [{"table": "damaged"}]
    shop.document["stages"][0]["plugin"]["properties"]["keepChangesHours"] = 1
    fill(shop, "damaged")
    shop.until_current()
    shop.sql("UPDATE damaged SET name = 'later' WHERE id = 1", "DELETE FROM damaged WHERE id = 3")
    shop.until_current()
    shop.done("verify", file)
    place = str(shop.place(of("damaged")))
    rows = shop.spark.read.format("iceberg").load(place).where("id = 2")
    damage = rows.selectExpr("_is_deleted", "999999L _sequence_num", "_source_timestamp", "id", "'wrong' name")
    damage.write.format("iceberg").mode("append").save(place)
    assert "name" in shop.replicator("explain-row", file, "damaged", "id=2").stdout
    shop.done("verify", file, status=5)
    shop.done("verify", file, "--repair", "--yes")
    assert seen(shop, of("damaged"), "id", "name") == of_source(shop, "damaged")
    *_, first = listed(shop.done("offsets", "list", file).stdout)
    shop.sql("UPDATE damaged SET name = 'last' WHERE id = 1", "INSERT INTO damaged VALUES (3, 'again')")
    shop.until_current()
    shop.done("rewind", file, "--offset", first, "--yes")
    for number in range(3):
        shop.until_current()
        assert seen(shop, of("damaged"), "id", "name") == of_source(shop, "damaged")
        shop.sql(f"ALTER TABLE damaged ADD COLUMN more_{number} TEXT", f"INSERT INTO damaged (id) VALUES (1{number})")


def test_versions_are_compared_repaired_copied_again_and_taken_back(iceberg_shop: IcebergShop) -> None:
    """A copy in place, and one beside the table, leave the versions of before."""
    shop, file = iceberg_shop, iceberg_shop.file
    shop.target(mode="scd2")
    shop.document["tables"] = [{"table": "watched"}]
    shop.document["stages"][0]["plugin"]["properties"]["keepChangesHours"] = 1
    fill(shop, "watched")
    shop.until_current()
    shop.sql("UPDATE watched SET name = 'later' WHERE id = 1", "DELETE FROM watched WHERE id = 3")
    shop.until_current()
    shop.done("verify", file)
    place = str(shop.place(of("watched")))
    rows = shop.spark.read.format("iceberg").load(place).where("id = 2")
    rows.selectExpr(*("7L id" if name == "id" else name for name in rows.columns)).write.format("iceberg").mode(
        "append"
    ).save(place)
    shop.done("verify", file, status=5)
    shop.done("verify", file, "--repair", "--yes")
    shop.done("verify", file)
    history = versions(shop)
    assert [one["name"] for one in history if one["id"] == 1] == ["a", "later"]
    *_, first = listed(shop.done("offsets", "list", file).stdout)
    for way in ("--in-place", ""):
        shop.sql("UPDATE watched SET name = name || '+' WHERE id = 1")
        shop.until_current()
        shop.done("table", "resync", file, "watched", *filter(None, [way]), "--yes")
        shop.until_current()
        assert current(shop) == of_source(shop, "watched")
    assert [one["name"] for one in versions(shop) if one["id"] == 1] == ["a", "later", "later+", "later++"]
    shop.done("rewind", file, "--offset", first, "--yes")
    for number in range(3):
        shop.until_current()
        assert current(shop) == of_source(shop, "watched")
        shop.sql(f"ALTER TABLE watched ADD COLUMN more_{number} TEXT", f"INSERT INTO watched (id) VALUES (1{number})")


def versions(shop: IcebergShop) -> list[dict[str, Any]]:
    """All versions, in the order of their numbers."""
    found = StaticTable.from_metadata(str(newest_metadata(shop.place(of("watched"))))).scan().to_arrow().to_pylist()
    assert_in_order(found, times=False)
    return sorted(found, key=lambda one: int(one["_sequence_num"]))


def current(shop: IcebergShop) -> Counter[tuple[Any, ...]]:
    """The rows of now."""
    return Counter((one["id"], one["name"]) for one in versions(shop) if one["_is_current"])


@follows("RPL-6432")
def test_a_table_whose_watermark_column_is_dropped_is_copied_again_by_other_keys(
    iceberg_shop: IcebergShop, postgres_database: PostgresDatabase
) -> None:
    shop, database = iceberg_shop, postgres_database
    shop.read(*postgres_source(database))
    shop.document["tables"] = [{"table": "items"}]
    shop.target(mode="merge-on-read", watermarkKeys=["updated"])
    database.execute("CREATE TABLE items (id int PRIMARY KEY, name text, updated int)")
    database.execute("INSERT INTO items VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    shop.until_current()
    database.execute("DELETE FROM items WHERE id = 1")
    database.execute("ALTER TABLE items DROP COLUMN updated")
    database.execute("UPDATE items SET name = 'later' WHERE id = 2")
    stopped = shop.refused("RPL-6432", "run", shop.file, "--until-current")
    del shop.settings["watermarkKeys"]
    shop.follow(stopped, "RPL-6432", "table resync")
    for number in range(3):
        shop.until_current()
        rows = seen(shop, TableId(database.name, "items", "public"), "id", "name")
        assert rows == Counter(database.execute("SELECT id, name FROM items"))
        database.execute(f"INSERT INTO items (id, name) VALUES ({10 + number}, 'new')")
        database.execute(f"DELETE FROM items WHERE id = {9 + number}")
        database.execute(f"ALTER TABLE items ADD COLUMN more_{number} int")


@follows("RPL-5426")
@pytest.mark.parametrize("way", ["whole rows", "no watermark"])
def test_a_table_whose_row_moved_without_its_watermark_is_copied_again(
    iceberg_shop: IcebergShop, mysql_database: MysqlDatabase, way: str
) -> None:
    """A session of the source logs the columns of the key and those that change."""
    shop, database = iceberg_shop, mysql_database
    shop.read(*mysql_source(database))
    shop.target(mode="merge-on-read", watermarkKeys=["updated"])
    database.execute("CREATE TABLE items (id int PRIMARY KEY, name varchar(20), updated int)")
    database.execute("INSERT INTO items VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    shop.until_current()
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = MINIMAL")
        cursor.execute("UPDATE items SET id = 9 WHERE id = 2")
        connection.commit()
    stopped = shop.refused("RPL-5426", "run", shop.file, "--until-current")
    if way == "no watermark":
        del shop.settings["watermarkKeys"]
    shop.follow(stopped, "RPL-5426", "table resync")
    for number in range(3):
        shop.until_current()
        rows = seen(shop, TableId(database.name, "items"), "id", "name")
        assert rows == Counter(map(tuple, database.query("SELECT id, name FROM items")))
        database.execute(f"INSERT INTO items (id, name, updated) VALUES ({10 + number}, 'new', 5)")
        database.execute(f"UPDATE items SET id = {20 + number}, updated = 6 WHERE id = {10 + number}")
        database.execute(f"DELETE FROM items WHERE id = {9 if number == 0 else 19 + number}")
