"""The server says how far the binlog is beyond an offset, and for how long it keeps binlogs."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from replicator_source_mysql.offset import MySqlOffset
from tests.plugins.sources.mysql.pump import source_of
from tests.services.mysql.server import MysqlDatabase


def test_binlog_that_comes_is_after_the_offset_also_in_later_files(mysql_and_mariadb: MysqlDatabase) -> None:
    db = mysql_and_mariadb
    db.execute("CREATE TABLE t (a int PRIMARY KEY, b longtext)")
    source = source_of(db)
    offset = source.latest_offset()
    db.execute(f"INSERT INTO t VALUES (1, '{'x' * 100_000}')")
    found = source.health(offset, namespace="default", name="shop")
    assert found.waiting_bytes is not None
    assert found.waiting_bytes > 100_000
    db.execute("FLUSH BINARY LOGS")
    db.execute(f"INSERT INTO t VALUES (2, '{'x' * 100_000}')")
    later = source.health(offset, namespace="default", name="shop")
    assert later.waiting_bytes is not None
    assert later.waiting_bytes > 200_000
    assert later.clock is not None
    assert abs(later.clock - time.time()) < 60
    assert found.held_bytes is None, "binlogs are kept for all readers alike"


def test_an_offset_of_another_server_or_of_none_has_no_distance(mysql_database: MysqlDatabase) -> None:
    source = source_of(mysql_database)
    offset = source.latest_offset()
    assert isinstance(offset, MySqlOffset)
    assert source.health(replace(offset, server="another"), namespace="default", name="shop").waiting_bytes is None
    assert source.health(None, namespace="default", name="shop").waiting_bytes is None


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"binlog_expire_logs_seconds": "3600"}, (3600.0, "binlog_expire_logs_seconds")),
        ({"binlog_expire_logs_seconds": "0", "expire_logs_days": "2"}, (172800.0, "expire_logs_days")),
        ({"binlog_expire_logs_seconds": "0"}, (None, "")),
        ({"binlog_expire_logs_seconds": "3600", "binlog_expire_logs_auto_purge": "OFF"}, (None, "")),
    ],
)
def test_the_retention_is_that_of_the_servers_settings(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], kept: tuple[float | None, str]
) -> None:
    from replicator_source_mysql.binlog import source_health

    connection: object = object()
    monkeypatch.setattr(source_health, "variables", lambda *_: settings)
    assert source_health._retention(connection) == kept  # type: ignore[arg-type]
