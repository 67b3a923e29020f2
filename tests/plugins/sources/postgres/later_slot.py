"""Makes a publication and a slot for a replicator that begins later, as an administrator does."""

from __future__ import annotations

import time

from tests.services.postgres.server import PostgresDatabase

_OLDER = """
SELECT (SELECT count(*) FROM pg_replication_slots s WHERE age(s.catalog_xmin) >= age(p.xmin)),
       age(pg_snapshot_xmin(pg_current_snapshot())::text::xid) >= age(p.xmin)
FROM pg_publication p WHERE p.pubname = '{}'
"""


def publish_and_make_slot(database: PostgresDatabase, publication: str, tables: str, slot: str) -> None:
    """The publication, and then the slot, once no transaction and no other slot is older than the publication."""
    database.execute(f"CREATE PUBLICATION {publication} {tables}")
    deadline = time.monotonic() + 60
    while database.execute(_OLDER.format(publication)) != [(0, False)]:
        assert time.monotonic() < deadline, "another slot or transaction is older"
        time.sleep(0.05)
    database.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
