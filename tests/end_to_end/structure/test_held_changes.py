"""Changes of structure by real clients that wait for `replicator ddl approve` or `reject`: PostgreSQL and MySQL into Delta."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Replicator, mysql_source, postgres_source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ASKED = {"dropColumn": "ask", "truncate": "ask", "changeType": "ask", "widenType": "ask"}
_TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, name varchar(20), size int NOT NULL)",
    "CREATE TABLE note (id int PRIMARY KEY, name varchar(20), level smallint)",
)


class Shop:
    """Two tables at a server, and their replicator."""

    def __init__(self, kind: str, database: Any, folder: Path) -> None:
        self.is_postgres = kind == "postgres"
        self._database = database
        source = postgres_source(database) if self.is_postgres else mysql_source(database.server)
        named = [{"database": database.name, "table": table} for table in ("item", "note")]
        settings = {"batch": {"maxIntervalSeconds": 0.2}, "tables": named, "ddlPolicies": _ASKED}
        self.replicator = Replicator(folder, source, settings=settings)
        self._lake = self.replicator.lake / ("public" if self.is_postgres else database.name)

    def execute(self, *statements: str) -> None:
        for statement in statements:
            self._database.execute(statement)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        read = self._database.execute if self.is_postgres else self._database.query
        return sorted(map(tuple, read(f"SELECT {', '.join(columns)} FROM {table}")))

    def copied(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(delta_rows(self._lake / table, list(columns)))

    def command(self, *arguments: str) -> Any:
        name, *more = arguments
        return self.replicator.start_command("ddl", name, str(self.replicator.pipeline), *more).wait()

    def waiting(self) -> list[Any]:
        found: list[Any] = self.command("list").envelope["data"]["changes"]
        return found


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.mark.parametrize("kind", ["postgres", "mysql"])
def test_a_column_and_rows_stay_that_an_operator_keeps_and_a_type_follows_that_is_approved(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    shop = Shop(kind, request.getfixturevalue(f"{kind}_database"), tmp_path)
    shop.execute(*_TABLES)
    for n in range(20):
        shop.execute(f"INSERT INTO item VALUES ({n}, 'row {n}', {n})", f"INSERT INTO note VALUES ({n}, 'row {n}', 1)")
    shop.replicator.until_current()
    running = shop.replicator.start()
    shop.execute("ALTER TABLE item DROP COLUMN size", "INSERT INTO item VALUES (100, 'new')")
    shop.execute("UPDATE item SET name = 'later' WHERE id = 3", "UPDATE note SET name = 'beside' WHERE id = 3")
    wait(lambda: shop.copied("note", "id", "name") == shop.rows("note", "id", "name"))
    wait(lambda: len(shop.waiting()) == 1)
    [change] = shop.waiting()
    assert change["text"] == "DROP COLUMN size"
    assert len(shop.copied("item", "id")) == 20
    assert shop.command("reject", change["id"], "--yes").status == 0
    wait(lambda: shop.copied("item", "id", "name") == shop.rows("item", "id", "name"))
    shop.execute("INSERT INTO item VALUES (101, 'newer')", "UPDATE item SET id = 104 WHERE id = 4")
    shop.execute("DELETE FROM item WHERE id = 5", "ALTER TABLE item ADD colour varchar(9) DEFAULT 'red'")
    shop.execute("INSERT INTO item VALUES (102, 'newest', 'blue')")
    wait(lambda: len(shop.copied("item", "id")) == 22)
    assert running.stop().status == 143
    for number in range(2):
        shop.execute(f"UPDATE item SET name = 'run {number}' WHERE id IN (6, 101)")
        shop.replicator.until_current()
        assert shop.copied("item", "id", "name", "colour") == shop.rows("item", "id", "name", "colour")
        sizes = dict(shop.copied("item", "id", "size"))
        assert [sizes[n] for n in (3, 6, 104, 100, 101, 102)] == [3, 6, 4, None, None, None]
    assert (shop.waiting(), shop.command("reject", change["id"], "--yes").status) == ([], 0)
    assert shop.command("approve", change["id"], "--yes").error["code"] == "RPL-1296"

    shop.execute("TRUNCATE TABLE note", "INSERT INTO note VALUES (3, 'again', 1), (30, 'after', 2)")
    shop.replicator.until_current()
    assert [c["text"] for c in shop.waiting()] == ["TRUNCATE TABLE"]
    assert shop.command("reject", "note", "--yes").status == 0
    shop.replicator.until_current()
    assert len(shop.copied("note", "id")) == 21
    retype = "ALTER COLUMN level TYPE bigint" if shop.is_postgres else "MODIFY level bigint"
    shop.execute(f"ALTER TABLE note {retype}", "INSERT INTO note VALUES (31, 'wide', 5000000000)")
    shop.replicator.until_current()
    assert len(shop.copied("note", "id")) == 21
    [change] = shop.waiting()
    assert shop.command("reject", change["id"], "--yes").error["code"] == "RPL-1297"
    assert shop.command("approve", change["id"], "--yes").status == 0
    shop.execute("INSERT INTO note VALUES (41, 'run', 1)")
    shop.replicator.until_current()
    copied = {row[0]: row[1:] for row in shop.copied("note", "id", "name", "level")}
    assert [copied[n] for n in (3, 31, 41)] == [("again", 1), ("wide", 5000000000), ("run", 1)]
