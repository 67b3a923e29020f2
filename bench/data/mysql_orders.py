"""The data on MySQL or MariaDB: the same table, values and changes as on Postgres, in MySQL's types, made by SQL on the server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from bench.data.source import DATABASE, Source
from tests.services.mysql.fixtures import make_server
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlServer

SERVERS: Mapping[str, Release] = {"mysql": MYSQL_9, "mariadb": MARIADB_10_11}

_THIRD = 333
_AT_ONCE = 100_000
_TABLE = """
    id bigint PRIMARY KEY, customer int NOT NULL, state varchar(20) NOT NULL, quantity int, price decimal(12,2),
    total decimal(18,4), note text, created timestamp NULL, changed datetime(6), attributes json, paid boolean,
    reference char(36)
"""
_ROW = """
    i, i * 31 % 100003, ELT(1 + i % 6, 'new', 'paid', 'packed', 'shipped', 'done', 'cancelled'), 1 + i % 97,
    (i * 7919 % 1000000) / 100.0, (i * 7919 % 1000000) * (1 + i % 97) / 100.0,
    IF(i % 7 > 0, CONCAT('lorem ipsum dolor sit amet, naïve café 東京 ', i % 1000), NULL),
    TIMESTAMP '2024-01-01 00:00:00' + INTERVAL i * 37 SECOND,
    TIMESTAMP '2024-01-01 00:00:00' + INTERVAL i * 41000131 MICROSECOND,
    JSON_OBJECT('channel', i % 6, 'weight', i % 1000, 'tags', JSON_ARRAY('a', CONCAT('b', i % 13))),
    i % 2 = 0, INSERT(INSERT(INSERT(INSERT(LEFT(SHA2(i, 256), 32), 21, 0, '-'), 17, 0, '-'), 13, 0, '-'), 9, 0, '-')
"""
_DIGITS = " UNION ALL ".join(f"SELECT {digit} AS n" for digit in range(10))
# Rows are drawn from the whole table. Ids that are gone are drawn in vain, hence six times as many as are needed; what is
# drawn lands in temporary tables, which a log of rows leaves out.
_CHURN = """
CREATE PROCEDURE churn_{table}(steps int, seed bigint)
BEGIN
    DECLARE high, low bigint;
    SET rand_seed1 = seed, rand_seed2 = seed * 7919 + 17;
    SELECT max(id) INTO high FROM {table};
    CREATE TEMPORARY TABLE wanted (id bigint PRIMARY KEY);
    CREATE TEMPORARY TABLE drawn (place int AUTO_INCREMENT PRIMARY KEY, id bigint);
    WHILE steps > 0 DO
        TRUNCATE wanted;
        TRUNCATE drawn;
        INSERT IGNORE INTO wanted SELECT high - FLOOR(RAND() * high) FROM numbers WHERE n < 6 * {third};
        INSERT INTO drawn (id)
            SELECT t.id FROM wanted STRAIGHT_JOIN {table} AS t ON t.id = wanted.id ORDER BY RAND() LIMIT {both};
        IF ROW_COUNT() <> {both} THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too few rows to change';
        END IF;
        SET low = high, high = high + {third};
        START TRANSACTION;
        INSERT INTO {table} SELECT {row} FROM (SELECT low + 1 + n AS i FROM numbers WHERE n < {third}) AS fresh;
        UPDATE drawn STRAIGHT_JOIN {table} AS t ON t.id = drawn.id
            SET t.quantity = t.quantity + 1, t.total = t.total + 1, t.state = 'changed', t.changed = NOW(6)
            WHERE drawn.place <= {third};
        DELETE t FROM drawn STRAIGHT_JOIN {table} AS t ON t.id = drawn.id WHERE drawn.place > {third};
        COMMIT;
        SET steps = steps - 1;
    END WHILE;
    DROP TEMPORARY TABLE wanted, drawn;
END
"""


class MysqlOrders(Source):
    """The benchmark's MySQL or MariaDB and its tables. The rows a table begins with are not in the binlog, changes are."""

    plugin: ClassVar[str] = "mysql"
    level: ClassVar[str] = "database"
    parent: ClassVar[str] = DATABASE

    def __init__(self, server: MysqlServer) -> None:
        self.server = server
        server.execute(f"CREATE DATABASE {DATABASE}")
        places = ", ".join(f"({_DIGITS}) AS d{place}" for place in range(5))
        number = " + ".join(f"{10**place} * d{place}.n" for place in range(5))
        self._unlogged(
            "CREATE TABLE numbers (n int PRIMARY KEY)",
            f"INSERT INTO numbers SELECT {number} AS n FROM {places} ORDER BY n",
        )

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement as root; its rows."""
        return self.server.query(statement, database=DATABASE)

    def _unlogged(self, *statements: str) -> None:
        """Run statements that leave nothing in the binlog."""
        with self.server.connect(DATABASE) as connection, connection.cursor() as cursor:
            for statement in ("SET sql_log_bin = 0", *statements):
                cursor.execute(statement)

    def properties(self, reader: str) -> Mapping[str, Any]:
        """Properties of our source; the replica's server id is made from the replicator's name."""
        del reader
        return {**self.account, "sslMode": "disable"}

    @property
    def account(self) -> Mapping[str, Any]:
        """Where and as whom every client connects."""
        server = self.server
        return {"host": server.host, "port": server.port, "user": server.user, "password": server.password}

    @property
    def url(self) -> str:
        """The database as a URL."""
        server = self.server
        return f"mysql://{server.user}:{quote(server.password)}@{server.host}:{server.port}/{DATABASE}"

    def make(self, table: str, rows: int) -> None:
        """Create `table` again with ids 1 to `rows`."""
        self.execute(f"DROP TABLE IF EXISTS {table}")
        self.execute(f"CREATE TABLE {table} ({_TABLE})")
        fresh = [
            f"SELECT {first} + n AS i FROM numbers WHERE n < {min(_AT_ONCE, rows + 1 - first)}"
            for first in range(1, rows + 1, _AT_ONCE)
        ]
        self._unlogged(
            *(f"INSERT INTO {table} SELECT {_ROW} FROM ({numbers}) AS fresh" for numbers in fresh),
            f"ANALYZE TABLE {table}",
            f"DROP PROCEDURE IF EXISTS churn_{table}",
            _CHURN.format(table=table, row=_ROW, third=_THIRD, both=2 * _THIRD),
        )

    def churn(self, table: str, changes: int, *, seed: float = 0.5) -> int:
        """Change `table`: a third each inserts, updates, deletes, 999 a transaction; returns how many changes that were."""
        steps = changes // (3 * _THIRD)
        self.execute(f"CALL churn_{table}({steps}, {round((seed + 2) * 1_000_000)})")
        return 3 * _THIRD * steps

    def forget(self) -> None:
        """A server without slots knows no readers."""

    def position(self) -> tuple[str, int]:
        """The end of the binlog, file and position."""
        status = "SHOW MASTER STATUS" if self.server.is_mariadb else "SHOW BINARY LOG STATUS"
        file, position = self.execute(status)[0][:2]
        return str(file), int(str(position))


@contextlib.contextmanager
def mysql_orders_server(name: str) -> Iterator[MysqlOrders]:
    """A private server, `mysql` or `mariadb`: no fsync, a roomy buffer pool and log, the binlog on.

    Its binlog has the columns' names, which `mysql-replication` needs and no other peer here.
    """
    redo_log = "innodb_log_file_size" if SERVERS[name].is_mariadb else "innodb_redo_log_capacity"
    sizes: dict[str, Any] = {"innodb_buffer_pool_size": "1536M", "innodb_log_buffer_size": "64M", redo_log: "2G"}
    server = make_server(SERVERS[name], binlog_row_metadata="FULL", **sizes)
    try:
        server.start()
        yield MysqlOrders(server)
    finally:
        server.remove()
