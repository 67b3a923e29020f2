"""`replicator table`, as an operator gives it, beside a run and without one: real sources, Delta, and a reader of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.commands.two_tables import SETTINGS, Shop, two_tables
from tests.end_to_end.replicator import Replicator, mysql_source
from tests.follows import follows
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MYSQL_9


@pytest.fixture
def sqlite_shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return two_tables(request, "sqlite", tmp_path)


@pytest.fixture(params=["sqlite", "postgres", "mysql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return two_tables(request, request.param, tmp_path)


@pytest.fixture
def postgres_shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return two_tables(request, "postgres", tmp_path)


def test_a_damaged_table_is_copied_again_beside_a_run_and_without_one(shop: Shop) -> None:
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_equal()
    shop.damage()
    assert shop.ask("resync", "item", "--in-place", "--yes") == [
        f"{shop.folder}.item will be copied again by the run that goes on, once it finds it at the source"
    ]
    shop.execute("INSERT INTO item (id, name) VALUES (100, 'beside')", "UPDATE note SET name = 'beside' WHERE id = 1")
    shop.wait_until_equal()
    shop.execute("DELETE FROM item WHERE id = 100", "ALTER TABLE note ADD extra int", "DELETE FROM note WHERE id = 2")
    shop.wait_until_equal()
    assert running.stop().status == 143
    shop.damage()
    assert shop.ask("resync", f"{shop.folder}.item", "--in-place", "--yes") == [
        f"{shop.folder}.item will be copied again by the next run that finds it at the source"
    ]
    for number in range(3):
        shop.execute(
            f"INSERT INTO item (id, name) VALUES ({200 + number}, 'later')", f"ALTER TABLE item ADD extra_{number} int"
        )
        shop.replicator.until_current()
        assert shop.differs("item", "note") == []


@follows("RPL-6405")
def test_a_setting_that_needs_other_columns_is_followed_by_a_copy_as_the_hint_says(sqlite_shop: Shop) -> None:
    shop = sqlite_shop
    shop.begin()
    shop.replicator.until_current()
    shop.replicator.lake_settings = {"softDeletes": True}
    shop.replicator.settings = {**shop.replicator.settings, "edits": "apply"}
    shop.execute("INSERT INTO item VALUES (100, 'after')", "DELETE FROM item WHERE id = 1")
    ended = shop.replicator.run("--until-current")
    assert ended.error["code"] == "RPL-6405"
    assert "replicator table resync" in ended.error["hint"]
    shop.ask("resync", "item", "note", "--in-place", "--yes")
    for number in range(3):
        shop.execute(
            f"INSERT INTO note (id, name) VALUES ({100 + number}, 'later')", f"ALTER TABLE note ADD extra_{number} int"
        )
        shop.execute(f"DELETE FROM item WHERE id = {10 + number}")
        shop.replicator.until_current()
        kept = shop.copied("item", "_is_deleted")
        assert Counter(row[:2] for row in kept if not row[2]) == Counter(shop.rows("item"))
        assert sorted(row[0] for row in kept if row[2]) == [
            10 + deleted for deleted in range(1, number + 1)
        ]  # the first before the copy


def _lose_log_of_sqlite(shop: Shop) -> None:
    shop.execute(
        "UPDATE _replicator_facts SET value = (SELECT max(id) FROM _replicator_changes) WHERE name = 'pruned'",
        "DELETE FROM _replicator_changes WHERE id < (SELECT max(id) FROM _replicator_changes)",
    )


def _lose_log_of_postgres(shop: Shop) -> None:
    shop.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    )


def _lose_log_of_mysql(shop: Shop) -> None:
    shop.execute("RESET BINARY LOGS AND GTIDS")


@pytest.fixture
def mysql_shop(mysql_server: PrivateMysql, tmp_path: Path) -> Iterator[Shop]:
    """On a server of its own, whose logs may be lost."""
    with mysql_server(MYSQL_9, gtid=True).database() as database:

        def execute(*statements: str) -> None:
            for statement in statements:
                database.execute(statement)

        named = [{"database": database.name, "table": table} for table in ("item", "note")]
        replicator = Replicator(tmp_path, mysql_source(database.server), settings={**SETTINGS, "tables": named})
        yield Shop(replicator, database.name, execute, lambda table: database.query(f"SELECT id, name FROM {table}"))


_LOSES = {"sqlite": _lose_log_of_sqlite, "postgres": _lose_log_of_postgres, "mysql": _lose_log_of_mysql}


@pytest.mark.parametrize("source", _LOSES)
def test_after_a_lost_log_everything_is_copied_again_as_the_hint_says(
    source: str, request: pytest.FixtureRequest
) -> None:
    shop: Shop = request.getfixturevalue(f"{source}_shop")
    shop.begin()
    shop.replicator.until_current()
    shop.execute("INSERT INTO item VALUES (100, 'gap')", "UPDATE item SET name = 'gap' WHERE id = 1")
    shop.execute("DELETE FROM note WHERE id < 5")
    _LOSES[source](shop)
    ended = shop.replicator.run("--until-current")
    assert ended.status == 7, ended.messages
    assert "replicator reset" in ended.error["hint"]
    begun = shop.replicator.start_command("reset", str(shop.replicator.pipeline), "--yes").wait()
    assert begun.envelope["data"] == {"generation": 2}, begun.messages
    for number in range(3):
        shop.execute(f"INSERT INTO item (id, name) VALUES ({200 + number}, 'later')", "DELETE FROM note WHERE id = 40")
        shop.execute(f"ALTER TABLE note ADD extra_{number} int")
        shop.replicator.until_current()
        assert shop.differs("item", "note") == []
