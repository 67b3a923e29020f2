"""Asks the server how it is: its clock, the log after an offset, and what it keeps for the slot."""

from __future__ import annotations

from replicator_sdk.discovery.source_health import SourceHealth
from replicator_source_postgres.connection import Endpoint
from replicator_source_postgres.offset import PostgresOffset

_SECONDS = 10
_HEALTH = """
SELECT extract(epoch FROM pg_catalog.clock_timestamp())::float8,
       (pg_catalog.pg_current_wal_lsn() - '0/0'::pg_lsn)::int8,
       (pg_catalog.pg_current_wal_lsn() - s.restart_lsn)::int8, s.safe_wal_size
FROM (SELECT 1) one LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = %s
"""


def source_health(endpoint: Endpoint, slot: str, offset: PostgresOffset | None) -> SourceHealth:
    """What the server says; nothing of a slot that does not exist, or whose log is gone.

    The slot keeps log from the oldest transaction that was open when it was confirmed last, so `held_bytes` are more than `waiting_bytes`.
    """
    with endpoint.session(statement_timeout_seconds=_SECONDS) as session:
        row = session.execute(_HEALTH, [slot]).fetchone()
    assert row is not None
    clock, end, held, safe = row
    is_limited = held is not None and safe is not None
    return SourceHealth(
        clock=clock,
        waiting_bytes=None if offset is None else max(0, end - offset.lsn),
        held_bytes=None if held is None else max(0, held),
        held_limit_bytes=max(0, held) + max(0, int(safe)) if is_limited else None,
        limited_by="max_slot_wal_keep_size" if is_limited else "",
    )
