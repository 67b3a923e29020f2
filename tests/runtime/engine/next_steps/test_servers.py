"""What errors of PostgreSQL and MariaDB advise is tried: the error, `replicator reset`, and runs that go on right."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from replicator_runtime.config import build_pipeline
from replicator_runtime.engine.control.reset import reset
from replicator_runtime.engine.run_state.open_run import open_run
from replicator_runtime.engine.run_state.plugin_contexts import source_key
from replicator_runtime.engine.worker import run
from replicator_sdk.errors import HistoryLostError, NeedsUserError
from replicator_source_mysql import MySqlSource
from replicator_source_mysql.streaming.schema_tracker import HISTORY_KEY
from replicator_source_postgres import PostgresSource
from tests.follows import follows
from tests.runtime.engine import in_memory_target
from tests.runtime.engine.test_run import Host, Shop, shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_runtime.config import Pipeline
    from replicator_sdk import DeltaSource
    from tests.services.mysql.server import MysqlDatabase
    from tests.services.postgres.server import PostgresDatabase

__all__ = ["shop"]


class ServerHost(Host):
    """A server's source, and the target in this process."""

    def __init__(self, source: type[DeltaSource]) -> None:
        self._source = source

    def source(self, name: str) -> Any:
        return self._source


class ServerShop:
    """Two tables of a server, and their replicator."""

    def __init__(self, shop: Shop, source: type[DeltaSource], database: Any, query: Callable[[str], Any]) -> None:
        self.database, self._query, self._source, self._shop = database, query, source, shop
        shop.document["stages"][0]["plugin"] = {
            "name": source.name,
            "type": "cdcSource",
            "properties": {
                "host": database.host, "port": database.port, "user": database.user, "password": database.password,
                "sslMode": "disable", **({"database": database.name} if source is PostgresSource else {}),
            },
        }  # fmt: skip
        if source is MySqlSource:
            shop.document["tables"] = [{"database": database.name, "table": "*"}]
        self.state = shop.document["offsetBasePath"]
        for table in ("customers", "notes"):
            database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, name varchar(20))")
            database.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')")

    def pipeline(self) -> Pipeline:
        return build_pipeline(self._shop.document, host=ServerHost(self._source))  # type: ignore[arg-type]

    def run(self) -> None:
        assert run(self.pipeline(), until_current=True).reached_goal

    def three_runs(self) -> None:
        """After each, source and copy are equal; rows and columns change between."""
        for number in range(3):
            self.run()
            for table in ("customers", "notes"):
                found = Counter(tuple(row.values()) for row in in_memory_target.STORAGE.rows(table))
                assert found == Counter(map(tuple, self._query(f"SELECT * FROM {table}"))), table
            self.database.execute(f"INSERT INTO customers (id, name) VALUES ({100 + number}, 'later')")
            self.database.execute("UPDATE notes SET name = 'changed' WHERE id = 2")
            self.database.execute(f"ALTER TABLE notes ADD more_{number} int")


@pytest.fixture
def postgres(shop: Shop, postgres_database: PostgresDatabase) -> ServerShop:
    return ServerShop(shop, PostgresSource, postgres_database, postgres_database.execute)


@pytest.fixture
def mariadb(shop: Shop, mariadb_database: MysqlDatabase) -> ServerShop:
    return ServerShop(shop, MySqlSource, mariadb_database, mariadb_database.query)


def read_by_another(shop: ServerShop) -> None:
    slot = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    shop.database.execute("DELETE FROM customers WHERE id = 1")
    shop.database.execute(f"SELECT pg_replication_slot_advance(({slot}), pg_current_wal_lsn())")


def without_publication(shop: ServerShop) -> None:
    [(name,)] = shop.database.execute("SELECT pubname FROM pg_publication")
    shop.database.execute(f'DROP PUBLICATION "{name}"')
    shop.database.execute("DELETE FROM customers WHERE id = 1")


@follows("RPL-3204", "RPL-3208")
@pytest.mark.parametrize(("lose", "code"), [(read_by_another, "RPL-3204"), (without_publication, "RPL-3208")])
def test_after_a_reset_postgres_is_copied_again(postgres: ServerShop, lose: Callable[..., None], code: str) -> None:
    postgres.run()
    lose(postgres)
    with pytest.raises(HistoryLostError, match=f"{code}.*replicator reset PIPELINE") as lost:
        postgres.run()
    for step in re.findall(r"SELECT pg_drop_replication_slot\('\w+'\)", str(lost.value)):
        postgres.database.execute(step)
    reset(postgres.pipeline())
    postgres.three_runs()


@follows("RPL-3214")
def test_a_slot_whose_state_was_deleted_is_passed_over_by_a_reset(postgres: ServerShop) -> None:
    postgres.run()
    shutil.rmtree(postgres.state)
    postgres.database.execute("DELETE FROM customers WHERE id = 1")
    with pytest.raises(NeedsUserError, match=r"RPL-3214.*replicator reset PIPELINE --lost-state"):
        postgres.run()
    reset(postgres.pipeline(), state_was_lost=True)
    postgres.three_runs()


def history(shop: ServerShop, value: bytes | None) -> None:
    """The stored schema history is this, or is gone."""
    with open_run(shop.pipeline()) as opened:
        if value is None:
            opened.store.delete(source_key(HISTORY_KEY))
        else:
            opened.store.put(source_key(HISTORY_KEY), value)


@follows("RPL-3791", "RPL-3752")
@pytest.mark.parametrize(("value", "code"), [(None, "RPL-3791"), (b"no history", "RPL-3752")])
def test_without_the_schema_history_a_reset_copies_everything_again(
    mariadb: ServerShop, value: bytes | None, code: str
) -> None:
    mariadb.run()
    mariadb.database.execute("DELETE FROM customers WHERE id = 1")
    history(mariadb, value)
    with pytest.raises(HistoryLostError, match=f"{code}.*replicator reset PIPELINE"):
        mariadb.run()
    reset(mariadb.pipeline())
    mariadb.three_runs()
