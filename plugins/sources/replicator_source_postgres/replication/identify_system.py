"""Identifies the source, and finds the end of its log."""

from __future__ import annotations

import time

from replicator_source_postgres.connection import Endpoint, replication_command
from replicator_source_postgres.offset import PostgresOffset

_FLUSH_WAIT_SECONDS = 1.0
_END = """SELECT pg_catalog.pg_current_wal_flush_lsn() - '0/0'::pg_lsn,
                pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn"""
_FORCE = """BEGIN; SET LOCAL synchronous_commit = on;
            SELECT pg_catalog.pg_logical_emit_message(true, 'replicator', ''); COMMIT"""


def source_identity(endpoint: Endpoint) -> str:
    """The cluster's system identifier and the database's object identifier.

    A restored copy of the cluster has the same identity; its log position distinguishes it (`Slot.resume`).
    """
    connection = endpoint.replication()
    try:
        rows = replication_command(connection, "IDENTIFY_SYSTEM")
    finally:
        connection.finish()
    with endpoint.session() as session:
        query = "SELECT oid::int8 FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
        row = session.execute(query).fetchone()
    return f"{rows[0]['systemid']}/{row[0] if row else ''}"


def latest_offset(endpoint: Endpoint) -> PostgresOffset:
    """The end of the flushed log, once everything committed before the call is in it.

    A commit with `synchronous_commit = off` is visible before it is flushed, and the log is delivered from what is
    flushed. The server flushes it within a second; where it does not (what is left belongs to no commit), an own
    message, committed synchronously, makes it do so.
    """
    with endpoint.session() as session:
        row = session.execute(_END).fetchone()
        assert row is not None
        flushed, wanted = int(row[0]), int(row[1])
        deadline = time.monotonic() + _FLUSH_WAIT_SECONDS
        while flushed < wanted and time.monotonic() < deadline:
            time.sleep(0.05)
            flushed = int((session.execute(_END).fetchone() or row)[0])
        if flushed < wanted:
            session.execute(_FORCE)
            flushed = int((session.execute(_END).fetchone() or row)[0])
    return PostgresOffset(flushed)
