"""What errors of rewinds, of rows put aside and of lost logs advise is done as it is printed, with tables in Delta."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from replicator_sdk import TableId, failpoint
from replicator_source_mysql.streaming import reader
from replicator_target_delta.location import table_path
from tests.end_to_end.comparison import table_rows
from tests.end_to_end.replicator import mysql_source
from tests.follows import follows
from tests.runtime.engine.next_steps.test_sqlite import restore
from tests.runtime.engine.test_run import change, fill

if TYPE_CHECKING:
    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.mysql.server import MysqlDatabase


def begin(shop: OperatorShop) -> None:
    """Two runs, whose changes the source keeps."""
    shop.document["stages"][0]["plugin"]["properties"]["keepChangesHours"] = 1
    fill(shop)
    shop.until_current()
    change(shop)
    shop.until_current()


def listed(shown: str) -> list[str]:
    """The names of offsets that `offsets list` shows, newest first."""
    return [line.split()[0] for line in shown.splitlines() if line.startswith("offset.")]


def cut_rewind(shop: OperatorShop, offset: str) -> None:
    """A rewind that ends in its midst."""
    failpoint.arm("engine.rewind.table=raise")
    assert shop.replicator("rewind", shop.file, "--offset", offset, "--yes").exit_code
    failpoint.arm("")


def prune(shop: OperatorShop) -> None:
    """The source's log begins where it is now."""
    shop.sql("UPDATE _replicator_facts SET value = (SELECT max(id) FROM _replicator_changes) WHERE name = 'pruned'")


@follows("RPL-1270", "RPL-1273", "RPL-7112", "RPL-1278", "RPL-1275")
def test_an_offset_that_is_kept_and_whose_log_is_kept_is_in_the_list(lake_shop: OperatorShop) -> None:
    shop, file = lake_shop, lake_shop.file
    begin(shop)
    oldest = ""
    for code, words in (
        ("RPL-1270", ("rewind", file, "--offset", "offset.1", "--yes")),
        ("RPL-1273", ("rewind", file, "--yes")),
        ("RPL-7112", ("offsets", "show", file, "offset.00000000000000000001")),
    ):
        refused = shop.refused(code, *words)
        *_, oldest = listed(shop.follow(refused, code, "offsets list").stdout)
        shop.done("offsets", "show", file, oldest)
    cut_rewind(shop, oldest)
    refused = shop.refused("RPL-1278", "maintain", file)
    assert "finished the rewind" in shop.follow(refused, "RPL-1278", "rewind", "--yes").stderr
    shop.done("maintain", file)
    shop.until_current()
    shop.assert_equal()

    prune(shop)
    refused = shop.refused("RPL-1275", "rewind", file, "--offset", oldest, "--yes")
    newest, *_ = listed(shop.follow(refused, "RPL-1275", "offsets list").stdout)
    shop.done("rewind", file, "--offset", newest, "--yes")
    change(shop)
    shop.until_current()
    shop.assert_equal()


@follows("RPL-5050", "RPL-1285", "RPL-1288")
def test_rows_put_aside_are_listed_and_read_again(lake_shop: OperatorShop) -> None:
    shop, file = lake_shop, lake_shop.file
    shop.document |= {"onDataError": "lane", "deadLetters": {"maxRows": 2}}
    shop.sql("CREATE TABLE visits (id INTEGER PRIMARY KEY, n INTEGER)")
    shop.sql("INSERT INTO visits VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
    begin(shop)
    *_, oldest = listed(shop.done("offsets", "list", file).stdout)
    shop.sql("UPDATE visits SET n = 'many' WHERE id < 3")
    shop.until_current()
    shop.sql("UPDATE visits SET n = 'many' WHERE id = 3")
    refused = shop.until_current(5)
    assert "main.visits" in shop.follow(refused, "RPL-5050", "dead-letters list").stdout
    shop.document["deadLetters"] = {"maxRows": 3}
    shop.follow(refused, "RPL-5050", "table retry")
    shop.until_current()

    refused = shop.refused("RPL-1288", "verify", file, "visits")
    assert "main.visits" in shop.follow(refused, "RPL-1288", "dead-letters list").stdout
    refused = shop.refused("RPL-1285", "rewind", file, "--offset", oldest, "--yes")
    shop.follow(refused, "RPL-1285", "dead-letters replay")
    shop.done("rewind", file, "--offset", oldest, "--yes")
    shop.sql("UPDATE visits SET n = 5 WHERE id < 4")
    shop.until_current()
    shop.done("verify", file, "visits")
    shop.assert_equal("customers", "notes", "visits")


@follows("RPL-1385", "RPL-1383")
def test_what_cannot_be_healed_is_copied_after_a_reset(lake_shop: OperatorShop) -> None:
    shop, file = lake_shop, lake_shop.file
    begin(shop)
    *_, oldest = listed(shop.done("offsets", "list", file).stdout)
    cut_rewind(shop, oldest)
    prune(shop)
    refused = shop.refused("RPL-1385", "heal", file, "--yes")
    shop.follow(refused, "RPL-1385", "reset")
    shop.until_current()
    shop.assert_equal()

    restore(shop)
    refused = shop.refused("RPL-1383", "heal", file, "--yes")
    shop.follow(refused, "RPL-1383", "reset")
    shop.until_current()
    shop.assert_equal()


def be_ahead(shop: OperatorShop, database: MysqlDatabase, failing: str, ahead: str) -> None:
    """A table fails while another one gets its changes in one commit; then offsets between these are saved."""
    source = shop.document["stages"][0]["plugin"]["properties"]
    for day in ("0000-00-00", "2024-01-05"):
        changed(database, f"UPDATE {failing} SET day = '{day}'", f"UPDATE {ahead} SET n = n + 1")
    shop.document["batch"] = {}
    source["zeroDates"] = "fail"
    shop.until_current(5)
    shop.document["batch"] = {"maxRows": 1}
    source["zeroDates"] = "null"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_WINDOW_EVENTS", 4)  # of a log with more changes at once
        shop.until_current()


def changed(database: MysqlDatabase, *statements: str) -> None:
    """Each statement is a transaction; dates are not checked."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for statement in statements:
            cursor.execute(statement)
            connection.commit()


@follows("RPL-1276")
@pytest.mark.parametrize("way", ["earlier", "copy"])
def test_tables_that_were_ahead_go_back_to_the_offset_that_is_named_or_are_copied(
    lake_shop: OperatorShop, mariadb_database: MysqlDatabase, way: str
) -> None:
    """To the offset to which one of them could go back the other one could not."""
    shop, database, file, tables = lake_shop, mariadb_database, lake_shop.file, ("first", "second", "third")
    shop.read(*mysql_source(database))
    shop.document["tables"] = [{"database": database.name, "table": "*"}]
    for table in tables:
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int, day date)")
        database.execute(f"INSERT INTO {table} VALUES (1, 1, '2024-01-01'), (2, 2, '2024-01-01')")
    shop.until_current()
    changed(database, *(f"UPDATE {table} SET n = 5 WHERE id = 1" for table in tables))
    shop.until_current()
    be_ahead(shop, database, "first", "second")
    be_ahead(shop, database, "third", "first")
    _, *offsets = listed(shop.done("offsets", "list", file).stdout)
    tried = {offset: shop.replicator("rewind", file, "--offset", offset) for offset in offsets}  # which asks first
    refused = {offset: ended for offset, ended in tried.items() if "error RPL-1276: " in ended.stderr}
    for table in ("first", "second"):
        assert any(f"[table {database.name}.{table}]" in ended.stderr for ended in refused.values()), table
    wanted = max(refused)
    if way == "earlier":
        [wanted] = re.findall(r"`--offset (offset\.\d+)`", refused[wanted].stderr)
    else:
        for _ in ("first", "second"):
            ended = shop.replicator("rewind", file, "--offset", wanted)
            if "error RPL-1276: " in ended.stderr:
                shop.follow(ended, "RPL-1276", "table resync")
                shop.until_current()
    changed(database, "UPDATE first SET n = 7", "DELETE FROM second WHERE id = 1")
    shop.done("rewind", file, "--offset", wanted, "--yes")
    shop.document["batch"] = {}
    for number in range(3):
        shop.until_current()
        for table in tables:
            place = DeltaTable(table_path(str(shop.lake), TableId(database.name, table)))
            rows = Counter(map(tuple, database.query(f"SELECT id, n, day FROM {table}")))
            assert Counter(table_rows(place, ["id", "n", "day"])) == rows, table
        changed(database, f"INSERT INTO first (id, n) VALUES ({10 + number}, 1)", "UPDATE second SET n = n + 1")
        changed(database, f"ALTER TABLE third ADD more_{number} int", f"UPDATE third SET more_{number} = 1")
