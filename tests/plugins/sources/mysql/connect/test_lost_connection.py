"""A server that crashes under TLS is a fault that time repairs; only a certificate that does not fit needs the user."""

from __future__ import annotations

import ssl
import time

import pymysql
import pytest

from replicator_sdk.errors import NeedsUserError, ReplicatorError, RetryableError
from replicator_source_mysql.connect.diagnosis import diagnose, diagnosed
from tests.plugins.sources.mysql.pump import Pump
from tests.plugins.sources.mysql.snapshot_reading import reader_of, schema_of
from tests.services.mysql.fixtures import PrivateMysql
from tests.services.mysql.programs import MARIADB_10_11, MYSQL_9, Release
from tests.services.mysql.server import MysqlServer

BOTH = pytest.mark.parametrize("release", [MYSQL_9, MARIADB_10_11], ids=lambda release: release.name)


def read_and_kill(pump: Pump, server: MysqlServer, *, is_busy: bool) -> None:
    """Read the log until the server is killed; raises what the reader raised."""
    with pump.running() as run:
        run.wait_until(lambda: bool(run.emitter.closed_windows) or not is_busy)
        time.sleep(0 if is_busy else 1)
        server.kill()
        run.wait_until(lambda: run.error is not None)


@BOTH
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_server_that_is_killed_while_its_log_is_read_is_retried(
    release: Release, is_busy: bool, mysql_server: PrivateMysql
) -> None:
    server = mysql_server(release)
    with server.database() as shop:
        shop.execute("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, name LONGTEXT)")
        settings = {"ssl_mode": "verify-full", "ssl_root_cert": server.certificate.authority, "host": "localhost"}
        pump = Pump(shop, "t", **settings)
        pump.prepare()
        if is_busy:
            for _ in range(8):
                shop.execute("INSERT INTO t (name) VALUES (REPEAT('x', 8000000))")
        with pytest.raises(RetryableError):
            read_and_kill(pump, server, is_busy=is_busy)
        with pytest.raises(RetryableError):
            pump.prepare()
        server.start()


@BOTH
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_a_server_that_is_killed_while_a_snapshot_is_read_is_retried(
    release: Release, key: str, mysql_server: PrivateMysql
) -> None:
    server = mysql_server(release)
    with server.database() as shop:
        shop.execute(f"CREATE TABLE t (id INT {key}, name LONGTEXT)")
        for number in range(12):
            shop.execute("INSERT INTO t VALUES (%s, REPEAT('x', 8000000))", number)
        with reader_of(shop).open(schema_of(shop)) as snapshot:
            batches = snapshot.read(snapshot.chunks[0])
            next(batches)
            server.kill()
            with pytest.raises(RetryableError):
                list(batches)
        server.start()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol (_ssl.c:2396)"), RetryableError),
        (ssl.SSLError(1, "[SSL: SSLV3_ALERT_BAD_RECORD_MAC] sslv3 alert bad record mac"), RetryableError),
        (ssl.SSLError(1, "[SSL] record layer failure (_ssl.c:2580)"), RetryableError),
        (pymysql.OperationalError(2013, "Lost connection to MySQL server during query ([SSL] unexpected eof)"), RetryableError),
        (pymysql.OperationalError(2003, "Can't connect to MySQL server on 'h' (EOF occurred in violation of protocol)"), RetryableError),
        (pymysql.OperationalError(2003, "Can't connect to MySQL server on 'h' ([SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: EOF occurred)"), NeedsUserError),
        (ssl.SSLCertVerificationError(1, "certificate verify failed: Hostname mismatch"), NeedsUserError),
        (pymysql.OperationalError(2003, "Can't connect ([SSL: WRONG_VERSION_NUMBER] wrong version number)"), NeedsUserError),
        (pymysql.OperationalError(2026, "SSL connection error: SSL is required but the server doesn't support it"), NeedsUserError),
    ],
)  # fmt: skip
def test_only_certificates_and_negotiation_need_the_user(error: Exception, kind: type[ReplicatorError]) -> None:
    assert type(diagnose(error, "reading")) is kind
    if isinstance(error, pymysql.MySQLError):
        with pytest.raises(kind), diagnosed("reading"):
            raise error
