"""A server that is no MySQL is an error within the time for a connection, as one that cannot be reached."""

from __future__ import annotations

import time

import pytest

from replicator_sdk.errors import RetryableError
from replicator_source_mysql import MySqlConfig, MySqlSource
from replicator_source_mysql.connect.connection import Endpoint, execute
from tests.plugins.sources.mysql.pump import Pump, source_of
from tests.services.mysql.server import MysqlDatabase
from tests.services.strangers import Stranger


@pytest.mark.parametrize("ssl_mode", ["verify-full", "disable"])
@pytest.mark.parametrize("kind", ["http", "silent"])
def test_a_stranger_is_an_error_soon(stranger: Stranger, kind: str, ssl_mode: str) -> None:
    """MySQL speaks first, so a web server says nothing either."""
    place = {"host": "127.0.0.1", "port": stranger(kind), "user": "reader", "connect_timeout_seconds": 2}
    source = MySqlSource(MySqlConfig.model_validate({**place, "ssl_mode": ssl_mode}))
    since = time.monotonic()
    with pytest.raises(RetryableError, match="RPL-3804"):
        source.latest_offset()
    assert time.monotonic() - since < 60


def test_statements_and_the_log_are_waited_for_longer_than_the_connection(mysql_database: MysqlDatabase) -> None:
    mysql_database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    settings = {"connect_timeout_seconds": 2, "heartbeat_interval_seconds": 10}
    pump = Pump(mysql_database, "t", **settings)
    with pump.running() as run:
        time.sleep(3)
        mysql_database.execute("INSERT INTO t VALUES (1)")
        run.wait_until(lambda: bool(run.changes("t")))
    with Endpoint(source_of(mysql_database, **settings).config).session() as session:
        assert execute(session, "SELECT SLEEP(3)") == [(0,)]
