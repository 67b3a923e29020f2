"""Refused and lost connections are reported with their class and next step, and no error shows the password."""

from __future__ import annotations

import time
from dataclasses import replace

import psutil
import pytest
from psycopg import OperationalError

from replicator_sdk.errors import (
    NeedsUserError,
    ReplicatorError,
    RetryableError,
)
from replicator_source_postgres import PostgresConfig, PostgresSource
from replicator_source_postgres.diagnosis import diagnose
from tests.plugins.sources.postgres.faults import PREPARED, error_of, ids
from tests.plugins.sources.postgres.pump import Pump, source_of
from tests.services.postgres.fixtures import PrivatePostgres
from tests.services.postgres.server import PostgresServer
from tests.services.strangers import Stranger


def refusal(pump: Pump, **settings: object) -> ReplicatorError:
    with pytest.raises(ReplicatorError) as caught:
        source_of(pump.database, **settings).identity()
    assert "wrong-secret" not in str(caught.value)
    return caught.value


def test_a_wrong_password_needs_the_user(pump: Pump) -> None:
    error = refusal(pump, password="wrong-secret")
    assert (type(error), error.code) == (NeedsUserError, "RPL-3101")


def test_an_unknown_database_needs_the_user(pump: Pump) -> None:
    pump.database.name, name = "nowhere", pump.database.name
    error = refusal(pump)
    pump.database.name = name
    assert (type(error), error.code) == (NeedsUserError, "RPL-3102")


def test_an_unreachable_server_is_retried(pump: Pump) -> None:
    error = refusal(pump, port=1, connect_timeout_seconds=2)
    assert (type(error), error.code) == (RetryableError, "RPL-3107")
    assert "repeated" not in error.hint, "an assessment shows it too, and repeats nothing"


def test_a_role_without_replication_needs_the_user(pump: Pump) -> None:
    db = pump.database
    role = f"plain_{db.name}"
    db.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'wrong-secret'")
    try:
        error = refusal(pump, user=role, password="wrong-secret")
        assert (type(error), error.code) == (NeedsUserError, "RPL-3103")
    finally:
        db.execute(f"DROP ROLE {role}")


def test_the_password_is_in_no_repr(pump: Pump) -> None:
    source = source_of(pump.database, password="wrong-secret")
    assert "wrong-secret" not in repr(source.config) + repr(source.endpoint()) + str(source.endpoint())


def test_tls_is_verified_unless_another_mode_is_set(tls_postgres: PostgresServer) -> None:
    with tls_postgres.database() as db:
        assert tls_postgres.certificate is not None
        root = tls_postgres.certificate.authority
        assert source_of(db, host="localhost", ssl_mode="verify-full", ssl_root_cert=root).identity()
        with pytest.raises(NeedsUserError, match="RPL-3106"):
            source_of(db, host="localhost", ssl_mode="verify-full").identity()
        with pytest.raises(NeedsUserError, match=r"RPL-310[16]"):
            source_of(db, host="localhost", ssl_mode="disable").identity()


def break_with_tls(server: PostgresServer, pump: Pump, how: str) -> None:
    """What ends a session without a word of TLS: a crash of the server, or of one of its processes."""
    if how == "terminated walsender":
        pump.database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender'")
    elif how == "killed walsender":
        query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'"
        for (pid,) in pump.database.execute(query):
            psutil.Process(int(pid)).kill()
    elif how == "killed server":
        server.kill()
        server.start()
    else:
        server.stop_at_once()
        server.start()


TLS_CRASHES = ["terminated walsender", "killed walsender", "killed server", "immediate shutdown"]


@pytest.mark.parametrize("how", TLS_CRASHES)
def test_a_crash_under_tls_is_retried_and_loses_nothing(how: str, private_postgres: PrivatePostgres) -> None:
    server = private_postgres(tls=True)
    assert server.certificate is not None
    with server.database() as db:
        db.execute(PREPARED)
        pump = Pump(db, "t", host="localhost", ssl_mode="verify-full", ssl_root_cert=server.certificate.authority)
        pump.prepare()
        db.execute("INSERT INTO t VALUES (1)")
        error = error_of(pump, lambda _: break_with_tls(server, pump, how))
        assert isinstance(error, RetryableError), error
        for n in range(2, 5):  # the server may still be recovering
            server.wait_until_ready()
            db.execute(f"INSERT INTO t VALUES ({n})")
            assert ids(pump) == ([1, 2] if n == 2 else [n])


@pytest.mark.parametrize("as_text", [True, False], ids=["copy", "adbc"])
@pytest.mark.parametrize("how", ["killed server", "immediate shutdown"])
def test_a_crash_under_tls_during_a_snapshot_is_retried(
    how: str, as_text: bool, private_postgres: PrivatePostgres
) -> None:
    server = private_postgres(tls=True)
    assert server.certificate is not None
    with server.database() as db:
        db.execute(f"{PREPARED}; INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 40000) i")
        pump = Pump(db, "t", host="localhost", ssl_mode="verify-full", ssl_root_cert=server.certificate.authority)
        pump.prepare()
        reader = pump.source.create_snapshot_reader(pump.definition, pump.context)
        assert reader is not None
        with reader.open(pump.schemas[pump.table("t")]) as snapshot:
            if as_text:
                snapshot.read = replace(snapshot.read, adbc_columns=None)  # type: ignore[type-var]
            batches = snapshot.read(snapshot.chunks[0])
            next(batches)
            break_with_tls(server, pump, how)
            with pytest.raises(RetryableError):
                list(batches)
        assert pump.snapshot("t")[1].num_rows == 40000


def test_only_a_failed_negotiation_of_tls_needs_the_user() -> None:
    """A connection that is lost under TLS is lost like any other, and a table may be called `certificate`."""
    lost = [
        "consuming input failed: SSL error: unexpected eof while reading",
        "consuming input failed: SSL SYSCALL error: Connection reset by peer",
        "SSL SYSCALL error: EOF detected",
        "SSL error: decryption failed or bad record mac",
        "SSL error: ssl/tls alert bad record mac",
        'connection failed: connection to server at "127.0.0.1", port 5432 failed: SSL error: unexpected eof while reading',
    ]
    assert [diagnose(OperationalError(words), "reading").code for words in lost] == ["RPL-3107"] * len(lost)
    refused = [
        "SSL error: certificate verify failed",
        'server certificate for "db" does not match host name "localhost"',
        'root certificate file "/nowhere" does not exist',
        "server does not support SSL, but SSL was required",
        "SSL error: tlsv1 alert unknown ca",
        "SSL error: sslv3 alert handshake failure",
        "SSL error: unsupported protocol",
        "SSL error: wrong version number",
        'weak sslmode "require" may not be used with sslrootcert=system (use "verify-full")',
    ]
    assert [diagnose(OperationalError(words), "connecting").code for words in refused] == ["RPL-3106"] * len(refused)


def test_each_cause_of_refused_tls_has_its_own_next_step() -> None:
    steps = {
        "SSL error: certificate verify failed": "`sslRootCert`",
        'server certificate for "db" does not match host name "localhost"': "`host`",
        "server does not support SSL, but SSL was required": "`sslMode`",
    }
    for words, setting in steps.items():
        hint = diagnose(OperationalError(words), "connecting").hint
        assert [name for name in ("`sslRootCert`", "`host`", "`sslMode`") if name in hint] == [setting]


def test_a_table_called_certificate_is_not_a_tls_error(pump: Pump) -> None:
    with pytest.raises(NeedsUserError, match="RPL-3108"), source_of(pump.database).endpoint().session() as session:
        session.execute("SELECT * FROM certificate")


@pytest.mark.parametrize("ssl_mode", ["verify-full", "disable"])
@pytest.mark.parametrize("kind", ["http", "silent"])
def test_a_server_that_is_no_postgres_is_an_error_soon(stranger: Stranger, kind: str, ssl_mode: str) -> None:
    place = {"host": "127.0.0.1", "port": stranger(kind), "database": "shop", "user": "reader"}
    config = PostgresConfig.model_validate({**place, "connect_timeout_seconds": 2, "ssl_mode": ssl_mode})
    since = time.monotonic()
    with pytest.raises(RetryableError, match="RPL-3107"):
        PostgresSource(config).latest_offset()
    assert time.monotonic() - since < 60
