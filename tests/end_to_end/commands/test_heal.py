"""`replicator heal` goes on after a lost log: what changed in the gap is found by comparing, and only what cannot be is copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crash.kills import killed
from tests.end_to_end.comparison import delta_rows
from tests.end_to_end.replicator import Ended, Replicator, mysql_source, postgres_source
from tests.follows import follows
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_11_8, MYSQL_9
from tests.services.mysql.server import MysqlServer
from tests.waits import until

_SETTINGS = {"batch": {"maxIntervalSeconds": 0.2}}
_TABLES = ("item", "note", "altered", "gone")


@dataclass
class Shop:
    """Four tables at a source whose log can be lost, and their replicator."""

    replicator: Replicator
    folder: str
    execute: Callable[..., object]
    rows: Callable[[str], Sequence[tuple[Any, ...]]]
    lose_log: Callable[[], object]

    def begin(self) -> None:
        for table in _TABLES:
            self.execute(f"CREATE TABLE {table} (id int NOT NULL PRIMARY KEY, name varchar(20))")
            self.execute(f"INSERT INTO {table} VALUES " + ", ".join(f"({n}, 'row {n}')" for n in range(200)))

    def copied(self, table: str) -> Counter[tuple[Any, ...]]:
        return Counter(delta_rows(self.replicator.lake / self.folder / table, ["id", "name"]))

    def differing(self, *tables: str) -> list[str]:
        return [table for table in tables if Counter(self.rows(f"SELECT id, name FROM {table}")) != self.copied(table)]

    def heal(self) -> Ended:
        return self.replicator.start_command("heal", str(self.replicator.pipeline), "--yes").wait()


@pytest.fixture
def postgres_shop(tmp_path: Path, postgres_database: Any) -> Shop:
    def execute(*statements: str) -> None:
        for statement in statements:
            postgres_database.execute(statement)

    drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
    return Shop(
        Replicator(tmp_path, postgres_source(postgres_database), settings=_SETTINGS),
        "public",
        execute,
        postgres_database.execute,
        lambda: postgres_database.execute(drop),
    )


@pytest.fixture
def mysql_shop(mysql_server: PrivateMysql, tmp_path: Path) -> Iterator[Shop]:
    yield from _shop_of(mysql_server(MYSQL_9, gtid=True), tmp_path)


@pytest.fixture
def mysql_without_gtids_shop(mysql_server: PrivateMysql, tmp_path: Path) -> Iterator[Shop]:
    yield from _shop_of(mysql_server(MYSQL_9, gtid=False), tmp_path)


@pytest.fixture
def mariadb_shop(mysql_server: PrivateMysql, tmp_path: Path) -> Iterator[Shop]:
    """It keeps the log until a replica has read it, unless it is set not to."""
    yield from _shop_of(mysql_server(MARIADB_11_8, slave_connections_needed_for_purge=0), tmp_path)


def _shop_of(server: MysqlServer, folder: Path) -> Iterator[Shop]:
    with server.database() as database:

        def execute(*statements: str) -> None:
            for statement in statements:
                database.execute(statement)

        def lose_log() -> None:
            execute("FLUSH BINARY LOGS")
            newest = database.query("SHOW BINARY LOGS")[-1][0]

            def is_purged() -> bool:
                execute(f"PURGE BINARY LOGS TO '{newest}'")  # MariaDB keeps a file that it still writes
                return bool(database.query("SHOW BINARY LOGS")[0][0] == newest)

            until(is_purged)

        named = {**_SETTINGS, "tables": [{"database": database.name, "table": "*"}]}
        replicator = Replicator(folder, mysql_source(server), settings=named)
        yield Shop(replicator, database.name, execute, database.query, lose_log)


@follows("RPL-1382", "RPL-3203", "RPL-3782")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("source", ["postgres", "mysql", "mysql_without_gtids", "mariadb"])
def test_what_changed_in_a_gap_is_written_and_runs_go_on(source: str, request: pytest.FixtureRequest) -> None:
    shop: Shop = request.getfixturevalue(f"{source}_shop")
    shop.begin()
    shop.replicator.until_current()
    refused = shop.heal()
    assert (refused.status, refused.error["code"]) == (3, "RPL-1382"), refused.messages
    shop.execute(
        "INSERT INTO item VALUES (1000, 'gap'), (1001, 'gap')",
        "UPDATE item SET name = 'gap' WHERE id BETWEEN 10 AND 14",
        "UPDATE item SET id = 2000 WHERE id = 20",
        "DELETE FROM item WHERE id BETWEEN 30 AND 32",
        "ALTER TABLE altered ADD more int",
        "DELETE FROM altered WHERE id < 5",
        "DROP TABLE gone",
        "CREATE TABLE fresh (id int NOT NULL PRIMARY KEY, name varchar(20))",
        "INSERT INTO fresh VALUES (1, 'new')",
    )
    shop.lose_log()
    lost = shop.replicator.run("--until-current")
    assert lost.status == 7, lost.messages
    assert lost.error["code"] == ("RPL-3203" if source == "postgres" else "RPL-3782")
    assert f"replicator heal {shop.replicator.pipeline}`" in lost.error["hint"]
    command = ("heal", str(shop.replicator.pipeline), "--yes")
    point = "engine.heal.begun"
    killed(shop.replicator.start_command(*command, REPLICATOR_FAILPOINTS=f"{point}=kill"), point)
    lost = shop.replicator.run("--until-current")
    assert lost.status == 7, lost.messages
    healed = shop.heal()
    assert healed.status == 0, healed.messages
    found = {
        one["table"]["table"]: (one["result"], one["written"], one["deleted"])
        for one in healed.envelope["data"]["tables"]
    }
    assert found == {
        "item": ("healed", 8, 4), "note": ("healed", 0, 0), "altered": ("copied", 0, 0), "gone": ("left", 0, 0),
    }, healed.messages  # fmt: skip
    assert shop.differing("item", "note") == []
    for number in range(3):
        shop.execute(
            f"INSERT INTO item (id, name) VALUES ({3000 + number}, 'later')",
            f"UPDATE item SET name = 'later {number}' WHERE id IN (12, 2000)",
            f"DELETE FROM note WHERE id = {number}",
            f"ALTER TABLE note ADD extra_{number} int",
            f"INSERT INTO altered (id, name) VALUES ({3000 + number}, 'later')",
        )
        shop.replicator.until_current()
        assert shop.differing("item", "note", "altered", "fresh") == []
    shown = shop.replicator.start_command("status", str(shop.replicator.pipeline)).wait().envelope["data"]
    assert [gap["code"] for gap in shown["historyGaps"]] == [lost.error["code"]]
    assert shop.replicator.start_command("verify", str(shop.replicator.pipeline), "item", "note").wait().status in {
        0,
        4,
    }
