"""A MySQL or MariaDB under concurrent writers and its copy end equal: snapshot, log and schema changes, in real processes.

MySQL into Delta; the other servers and ways to log into a target without Spark, since a target never knows which it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.crash.file_target import install_file_target
from tests.end_to_end.mysql.database import random_writers as shop
from tests.end_to_end.mysql.database.comparison import Copy, assert_equal_copies, in_file_target, in_lake
from tests.end_to_end.mysql.database.worked_examples import SeedExamples
from tests.end_to_end.replicator import Replicator, mysql_source
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MARIADB_11_8, MYSQL_9
from tests.services.mysql.server import MysqlDatabase

PLAIN: Sequence[str] = ()
COMPRESSED = ("SET SESSION binlog_transaction_compression = ON",)
# Every table costs time there; the others' kinds of keys are the business of the tests without Spark.
_IN_DELTA = ("customer", shop.LINE, "ticket", "journal")
MINIMAL = ("SET SESSION binlog_row_image = MINIMAL",)


@pytest.fixture
def into_file_target(tmp_path: Path) -> Callable[..., Replicator]:
    """Makes a replicator into the target without Spark: `into_file_target(database, tables)`."""
    (tmp_path / "packages").mkdir()
    environment = {"PYTHONPATH": install_file_target(tmp_path / "packages")}

    def make(database: MysqlDatabase, tables: Sequence[str] = shop.TABLES) -> Replicator:
        target = ("file", {"path": str(tmp_path / "target")})
        settings = {"tables": shop.selection(database, tables)}
        return Replicator(tmp_path, mysql_source(database), target, settings, environment=environment)

    return make


@pytest.mark.timeout(600)
def test_a_random_history_under_concurrent_writers_ends_equal_in_delta(
    mysql_server: PrivateMysql, tmp_path: Path
) -> None:
    """Writers never pause while the first run takes the snapshot, follows the log and meets eleven changes of structure.

    One of them compresses its transactions. The seed's worked examples are among the changes.
    """
    with mysql_server(MYSQL_9).database() as database:
        seed = SeedExamples(database)
        tables = (*_IN_DELTA, *seed.tables)
        settings = {"tables": shop.selection(database, tables), "batch": {"maxIntervalSeconds": 3}}
        replicator = Replicator(tmp_path, mysql_source(database), settings=settings)
        shop.create(database)
        seed.create()
        with shop.Writers(database, 1, (PLAIN, COMPRESSED, PLAIN)) as writers:
            running = replicator.start()
            running.said("streaming")
            change_everything(database, pause=0.5)
            seed.run()
            writers.wait_for(100)
            stopped = running.stop()
        assert stopped.status in {0, 143}, stopped.messages
        replicator.until_current()
        copy = in_lake(replicator.lake, database)
        assert assert_equal_copies(database, copy, tables) > 1000
        seed.assert_rows(copy)


def test_a_random_history_ends_equal_where_the_log_is_compressed_from_some_time_on(
    mysql_server: PrivateMysql, into_file_target: Callable[..., Replicator]
) -> None:
    """`log_bin_compress`, a setting of MariaDB's whole server. The seed's worked examples are among the changes."""
    server = mysql_server(MARIADB_10_11)
    with server.database() as database:
        seed = SeedExamples(database)
        tables = (*shop.TABLES, *seed.tables)
        replicator = into_file_target(database, tables)
        copy = in_file_target(replicator.folder / "target", database)
        shop.create(database)
        seed.create()

        def compress() -> None:
            server.execute("SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10")
            seed.run()

        run_under_writers(replicator, database, copy, tables, (PLAIN, PLAIN), meanwhile=compress)
        seed.assert_rows(copy)


def test_a_random_history_ends_equal_where_the_log_has_names(
    mysql_server: PrivateMysql, into_file_target: Callable[..., Replicator]
) -> None:
    """`binlog_row_metadata = FULL`, on MariaDB 11.8."""
    server = mysql_server(MARIADB_11_8, binlog_row_metadata="FULL")
    with server.database() as database:
        replicator = into_file_target(database)
        copy = in_file_target(replicator.folder / "target", database)
        shop.create(database)
        run_under_writers(replicator, database, copy, shop.TABLES, (PLAIN, PLAIN))


def test_a_random_history_ends_equal_where_updates_carry_what_they_changed_only(
    mysql_server: PrivateMysql, into_file_target: Callable[..., Replicator]
) -> None:
    """`binlog_row_image = MINIMAL` in one writer's session, on MySQL; tables without a key cannot be logged so."""
    server = mysql_server(MYSQL_9)
    with server.database() as database:
        replicator = into_file_target(database, shop.KEYED)
        copy = in_file_target(replicator.folder / "target", database)
        shop.create(database)
        run_under_writers(replicator, database, copy, shop.KEYED, (MINIMAL, COMPRESSED))


def run_under_writers(
    replicator: Replicator,
    database: MysqlDatabase,
    copy: Copy,
    tables: Sequence[str],
    sessions: Sequence[Sequence[str]],
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """A run that begins and ends under writers, and another one without them, after which all is equal."""
    with shop.Writers(database, 2, sessions, tables=[t for t in shop.TABLES if t in tables]) as writers:
        running = replicator.start()
        running.said("streaming")
        meanwhile()
        change_everything(database, pause=0.1)
        writers.wait_for(50)
        stopped = running.stop()
    assert stopped.status in {0, 143}, stopped.messages
    replicator.until_current()
    assert assert_equal_copies(database, copy, tables) > 1000


def change_everything(database: MysqlDatabase, *, pause: float) -> None:
    """All changes of structure, and one large transaction."""
    with database.connect() as connection, connection.cursor() as cursor:
        for rank, change in enumerate(shop.STRUCTURE_CHANGES):
            shop.change_structure(cursor, change)
            if rank == len(shop.STRUCTURE_CHANGES) // 2:
                shop.large_transaction(database)
            time.sleep(pause)
