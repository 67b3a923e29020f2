"""What the log does not say: that a table was dropped, or taken out of the publication."""

from __future__ import annotations

import time
from collections.abc import Mapping

from replicator_sdk.schema import TableId
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.offset import PostgresOffset
from replicator_source_postgres.publication import Publication, taken_out

_INTERVAL_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
"""The server flushes within this time what is visible before it is flushed (`synchronous_commit = off`)."""

_LOOK = """
SELECT ARRAY(SELECT c.oid::int8 FROM pg_catalog.pg_class c WHERE c.oid = ANY(%s)),
       pg_catalog.pg_current_wal_flush_lsn() - '0/0'::pg_lsn
"""

_MOVE_ON = "SELECT pg_catalog.pg_logical_emit_message(true, 'replicator', '')"


class TableWatch:
    """Looks at the captured tables from time to time; used by the reader's thread while the stream is quiet."""

    def __init__(self, catalogue: Catalogue, publication: str) -> None:
        self._catalogue = catalogue
        self._publication = Publication(catalogue, publication)
        self._next = 0.0
        self._missing: set[TableId] = set()
        self._dropped: dict[TableId, PostgresOffset] = {}

    def look(self, captured: Mapping[int, TableId]) -> None:
        """Find tables that are gone.

        Raises:
            SchemaDriftError: When one is there but no longer published.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _INTERVAL_SECONDS
        row = self._catalogue.connection.execute(_LOOK, [list(captured)]).fetchone()
        if row is None:
            return
        there, end = set(row[0]), PostgresOffset(int(row[1]))
        missing = {table for oid, table in captured.items() if oid not in there}
        for table in missing & self._missing - self._dropped.keys():
            # Missing for a while: its drop, and every change before it, is in the flushed log.
            self._dropped[table] = end
            # The event needs a position of its own, which an idle server would not make.
            self._catalogue.connection.execute(_MOVE_ON)
        self._missing = missing
        if missing - self._dropped.keys():
            self._next = time.monotonic() + _AGAIN_SECONDS
        published = self._publication.tables()
        for oid in there:
            if oid not in published:
                raise taken_out(self._publication.name, captured[oid])

    def dropped_before(self, offset: PostgresOffset) -> list[TableId]:
        """Dropped tables all of whose changes have been read; each is told once."""
        told = [table for table, end in self._dropped.items() if not offset < end]
        for table in told:
            del self._dropped[table]
        return sorted(told)
