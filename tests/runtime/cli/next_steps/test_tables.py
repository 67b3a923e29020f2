"""What errors of commands about tables advise is done as it is printed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.plugin_host import PluginHost
from replicator_sdk import TableId
from replicator_sdk.errors import NeedsUserError, RetryableError
from tests.end_to_end.replicator import mysql_source, postgres_source
from tests.follows import advised, follows
from tests.plugins.sources.kafka.harness.source_runs import inserts, orders
from tests.runtime.cli.next_steps.sources.delayed import meanwhile
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.apply.test_rejoining import fails
from tests.runtime.engine.archive.test_archive import archived
from tests.runtime.engine.lifecycle.test_long_failures import SOON, too_large, works
from tests.runtime.engine.test_run import change, fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runtime.cli.next_steps.operator_shop import OperatorShop
    from tests.services.kafka.broker import KafkaBroker
    from tests.services.mysql.server import MysqlDatabase, MysqlServer
    from tests.services.postgres.server import PostgresDatabase


@follows("RPL-1201")
def test_what_never_ran_is_started(shop: OperatorShop) -> None:
    fill(shop)
    refused = shop.refused("RPL-1201", "status", shop.file)
    shop.follow(refused, "RPL-1201", "run", "--until-current")
    assert "main.customers" in shop.done("status", shop.file).stdout
    shop.assert_equal()


@follows("RPL-1220")
def test_a_misspelt_table_is_in_the_list_with_its_name(shop: OperatorShop) -> None:
    fill(shop)
    shop.until_current()
    refused = shop.refused("RPL-1220", "table", "pause", shop.file, "noots")
    shown = shop.follow(refused, "RPL-1220", "status").stdout
    [name] = [word for word in shown.split() if word.endswith("notes")]
    shop.done("table", "pause", shop.file, name)


@follows("RPL-1220")
def test_after_a_reset_a_run_finds_the_tables(shop: OperatorShop) -> None:
    fill(shop)
    shop.until_current()
    shop.done("reset", shop.file, "--yes")
    refused = shop.refused("RPL-1220", "table", "pause", shop.file, "notes")
    shop.follow(refused, "RPL-1220", "run", "--until-current")
    shop.done("table", "pause", shop.file, "notes")


@follows("RPL-1221", "RPL-1290", "RPL-1291")
def test_the_status_says_why_a_table_is_not_in_the_state_that_a_command_is_for(shop: OperatorShop) -> None:
    fill(shop)
    shop.until_current()
    for code, command in (("RPL-1221", "retry"), ("RPL-1291", "resume")):
        refused = shop.refused(code, "table", command, shop.file, "notes")
        [line] = [x for x in shop.follow(refused, code, "status").stdout.splitlines() if "main.notes" in x]
        assert "REPLICATING" in line
    shop.done("table", "pause", shop.file, "notes")
    refused = shop.refused("RPL-1290", "table", "pause", shop.file, "notes")
    assert "main.notes is paused" in shop.follow(refused, "RPL-1290", "status").stdout
    shop.until_current()
    assert "main.notes: paused since" in shop.follow(refused, "RPL-1290", "status").stdout
    change(shop)
    shop.follow(refused, "RPL-1290", "table resume")
    shop.until_current()
    shop.assert_equal()


@follows("RPL-1236")
def test_a_rename_that_is_due_is_done_by_a_run_before_its_table_is_dropped(shop: OperatorShop) -> None:
    fill(shop)
    shop.until_current()
    shop.sql("ALTER TABLE notes RENAME TO remarks", "INSERT INTO remarks VALUES ('later')")
    fails("ddl", "remarks", lambda: RetryableError("the target is away", code="RPL-4001"))
    shop.document["retries"] = {"maxDurationSeconds": 0}
    shop.replicator("run", shop.file, "--until-current")
    shop.document["tables"] = [{"table": "customers"}]
    works()
    refused = shop.refused("RPL-1236", "table", "drop", shop.file, "remarks", "--yes")
    shop.follow(refused, "RPL-1236", "run", "--until-current")
    shop.done("table", "drop", shop.file, "remarks", "--yes")
    assert {table.table for table in in_memory_target.STORAGE.tables} == {"customers"}


@follows("RPL-1289")
def test_a_table_that_fails_in_its_lane_is_tried_again(shop: OperatorShop) -> None:
    fill(shop)
    shop.document["failingTables"] = SOON
    shop.until_current()
    fails("before", "notes", too_large)
    change(shop)
    shop.until_current(5)
    works()
    refused = shop.refused("RPL-1289", "table", "resume", shop.file, "notes")
    shop.follow(refused, "RPL-1289", "table retry")
    shop.until_current()
    shop.goes_on()


@follows("RPL-1295", "RPL-1298")
def test_a_change_that_does_not_wait_is_not_in_the_list_of_those_that_do(shop: OperatorShop) -> None:
    shop.document["ddlPolicies"] = {"addColumn": "ask"}
    fill(shop)
    shop.until_current()
    shop.sql("ALTER TABLE notes ADD COLUMN size INTEGER")
    shop.until_current()
    found = set()
    for code, name in (("RPL-1295", "0123456789"), ("RPL-1298", "customers")):
        refused = shop.refused(code, "ddl", "approve", shop.file, name, "--yes")
        shown = shop.follow(refused, code, "ddl list").stdout
        found |= {line.split()[0] for line in shown.splitlines() if "main.notes" in line}
    shop.done("ddl", "approve", shop.file, *found, "--yes")
    shop.until_current()
    shop.document["ddlPolicies"] = {}
    shop.goes_on()


def sqlite(shop: OperatorShop, request: pytest.FixtureRequest) -> TableId:
    fill(shop)
    return TableId("main", "customers")


def postgres(shop: OperatorShop, request: pytest.FixtureRequest) -> TableId:
    database: PostgresDatabase = request.getfixturevalue("postgres_database")
    database.execute("CREATE TABLE customers (id int PRIMARY KEY)")
    shop.read(*postgres_source(database))
    return TableId(database.name, "customers", "public")


def mysql(shop: OperatorShop, request: pytest.FixtureRequest) -> TableId:
    database: MysqlDatabase = request.getfixturevalue("mariadb_database")
    database.execute("CREATE TABLE customers (id int PRIMARY KEY)")
    shop.read(*mysql_source(database))
    return TableId(database.name, "customers")


def kafka(shop: OperatorShop, request: pytest.FixtureRequest) -> TableId:
    broker: KafkaBroker = request.getfixturevalue("kafka")
    topic = request.getfixturevalue("kafka_topic")()
    broker.produce(topic, inserts([1], orders("customers")))
    shop.read("kafka", {"bootstrapServers": broker.bootstrap, "topics": [topic]})
    return orders("customers").table


def archive(shop: OperatorShop, request: pytest.FixtureRequest) -> TableId:
    path = archived(shop)
    fill(shop)
    shop.until_current()
    del shop.document["archive"]
    shop.read("archive", {"path": str(path)})
    return TableId("main", "customers")


def listed(shop: OperatorShop, request: pytest.FixtureRequest) -> TableId:
    """A plugin whose tables are known beforehand."""
    table = sqlite(shop, request)
    shop.read("listed", {"path": str(shop.path)})
    return table


@follows("RPL-3505", "RPL-3301", "RPL-3825", "RPL-3970", "RPL-3557", "RPL-3902")
@pytest.mark.parametrize(
    ("prepare", "code"),
    [
        (sqlite, "RPL-3505"), (postgres, "RPL-3301"), (mysql, "RPL-3825"), (kafka, "RPL-3970"), (archive, "RPL-3557"),
        (listed, "RPL-3902"),
    ],
)  # fmt: skip
def test_what_the_source_has_is_listed_where_a_table_is_not_there(
    shop: OperatorShop, request: pytest.FixtureRequest, prepare: Callable[..., TableId], code: str
) -> None:
    """It was dropped, or renamed, since it was listed."""
    table = prepare(shop, request)
    gone = replace(table, table="costumers")
    source = build_pipeline(shop.document, host=PluginHost()).source
    with source.create_table_registry() as registry, pytest.raises(NeedsUserError, match=code) as refused:
        registry.describe_table(gone)
    shown = shop.done(*advised([refused.value.hint], "tables"), shop.file).stdout
    assert str(table) in shown.split()
    assert str(gone) not in shown


@follows("RPL-3808")
def test_a_database_that_is_dropped_while_it_is_copied_is_not_in_the_list(
    shop: OperatorShop, mysql: MysqlServer
) -> None:
    with mysql.database() as kept, mysql.database() as dropped:
        shop.read(*mysql_source(kept))
        shop.document["retries"] = {"maxDurationSeconds": 0}
        shop.document["tables"] = [{"database": one.name, "table": "*"} for one in (kept, dropped)]
        kept.execute("CREATE TABLE customers (id int PRIMARY KEY, name text)")
        dropped.execute("CREATE TABLE sizes (id int PRIMARY KEY, size int)")
        for database, table in ((kept, "customers"), (dropped, "sizes")):
            database.execute(f"INSERT INTO {table} VALUES (1, 10), (2, 20)")
        with meanwhile("engine.snapshot.planned", lambda: dropped.execute(f"DROP DATABASE {dropped.name}")):
            stopped = shop.refused("RPL-3808", "run", shop.file, "--until-current")
        shown = shop.follow(stopped, "RPL-3808", "tables").stdout
        assert f"{kept.name}.customers" in shown
        assert dropped.name not in shown
        del shop.document["tables"][1]
        for number in range(3):
            shop.until_current()
            found = Counter(tuple(row.values()) for row in in_memory_target.STORAGE.rows("customers"))
            assert found == Counter(map(tuple, kept.query("SELECT * FROM customers")))
            kept.execute(f"INSERT INTO customers (id, name) VALUES ({10 + number}, 'later')")
            kept.execute(f"DELETE FROM customers WHERE id = {1 if number else 2}")
            kept.execute(f"ALTER TABLE customers ADD more_{number} int")
