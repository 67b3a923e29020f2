"""A table that fails at a real target gives the log of a real source free, and is whole again without a copy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.commands.two_tables import Shop, put_back, two_tables
from tests.services.postgres.server import PostgresDatabase

SETTINGS = {"failingTables": {"laneAfterMinutes": 0.01}, "retries": {"maxDurationSeconds": 600, "delaySeconds": 0.5}}
_STATUS = "default/shop/*/state.json"


def wait(until: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def view(shop: Shop, table: str) -> dict[str, Any]:
    [found] = [one for one in status(shop)["tables"] if one["table"] == table]
    return dict(found)


def status(shop: Shop) -> dict[str, Any]:
    [file] = shop.replicator.state.glob(_STATUS)
    return dict(json.loads(file.read_text()))


def table(shop: Shop, name: str) -> Path:
    return shop.replicator.lake / shop.folder / name


def fail_and_come_back(shop: Shop, is_free: Callable[[], object], kinds: list[str]) -> None:
    """The table `note` is moved away in the lake while a run goes on, and later put back, with changes of these kinds meanwhile."""
    shop.replicator.settings = {**shop.replicator.settings, **SETTINGS}
    shop.begin()
    running = shop.replicator.start()
    shop.wait_until_equal()
    wait(lambda: any(shop.replicator.state.glob(_STATUS)))  # written within seconds, not before the rows
    wait(lambda: all(view(shop, name)["state"] == "REPLICATING" for name in ("item", "note")))  # no copy goes on
    copied = {file.name for file in table(shop, "note").glob("*.parquet")}
    away = shop.replicator.folder / "away"
    table(shop, "note").rename(away)
    shop.execute("INSERT INTO note VALUES (100, 'in the lane')", "DELETE FROM note WHERE id = 3")
    number = 1000
    while not (view(shop, "note")["pause"] or {}).get("laneRows"):
        shop.execute(f"INSERT INTO item VALUES ({number}, 'works')")
        number += 1
        assert number < 1600
        time.sleep(0.2)
    shown = view(shop, "note")
    assert (shown["state"], shown["pause"]["failed"]) == ("FAILING", True)
    shop.execute(*kinds, "UPDATE item SET name = 'later' WHERE id < 5")
    wait(lambda: not shop.differs("item"))
    wait(is_free)
    assert view(shop, "note")["state"] == "FAILING"
    put_back(away, table(shop, "note"))
    shop.ask("retry", "note")
    shop.wait_until_equal()
    wait(lambda: view(shop, "note")["state"] == "REPLICATING")
    assert view(shop, "note")["pause"] is None
    assert copied <= {file.name for file in table(shop, "note").glob("*.parquet")}, "it was not copied again"
    shop.execute("UPDATE note SET name = 'after' WHERE id < 9")
    shop.wait_until_equal()
    running.stop()
    shop.execute("INSERT INTO note (id, name) VALUES (200, 'run')", "ALTER TABLE note ADD more int")
    shop.replicator.until_current()
    assert shop.differs("item", "note") == []


@pytest.mark.timeout(600)
def test_the_slot_of_postgres_moves_while_one_table_fails(
    postgres_database: PostgresDatabase, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    shop = two_tables(request, "postgres", tmp_path)
    written: list[str] = []

    def confirmed() -> bool:
        """Whether the server may remove the log of all changes of the table that fails."""
        if not written:
            written.extend(*postgres_database.execute("SELECT pg_current_wal_lsn()::text"))
        shop.execute("UPDATE item SET name = 'more' WHERE id = 7")
        slots = "pg_replication_slots WHERE database = current_database()"
        [(passed,)] = postgres_database.execute(f"SELECT confirmed_flush_lsn >= '{written[0]}' FROM {slots}")
        return bool(passed)

    kinds = ["ALTER TABLE note ADD size int", "INSERT INTO note VALUES (101, 'n', 1)", "TRUNCATE note"]
    fail_and_come_back(shop, confirmed, [*kinds, "INSERT INTO note VALUES (102, 'after the truncation', 2)"])


@pytest.mark.timeout(600)
def test_the_saved_offset_of_mysql_moves_while_one_table_fails(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    shop = two_tables(request, "mysql", tmp_path)
    began = ""

    def passed() -> bool:
        """Whether the saved offset is after all changes of the table that fails."""
        nonlocal began
        began = began or status(shop)["offset"]
        shop.execute("UPDATE item SET name = concat(left(name, 4), floor(rand() * 1000)) WHERE id = 7")
        return bool(status(shop)["offset"] != began)

    kinds = ["ALTER TABLE note ADD size int", "INSERT INTO note VALUES (101, 'n', 1)", "DELETE FROM note WHERE id > 40"]
    fail_and_come_back(shop, passed, kinds)
