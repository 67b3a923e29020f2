"""What the log does not say, or says only with the next row: tables dropped, altered, rewritten, not published any more."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from replicator_sdk.schema import TableId
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.connection import driver
from replicator_source_postgres.unlogged import UnloggedChanges

_PATIENCE_SECONDS = 2.0
_REST = 10
"""Rest between two looks, as a multiple of what one takes: thousands of tables must not be looked at all the time."""
_WAL_BLOCK_BYTES = 8192
_WAL_HEADERS = (24, 40)

# The positions are taken after the look at the tables: what it shows was committed before them.
_LOOK = """
SELECT l.looks, pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_catalog.pg_current_wal_flush_lsn() - '0/0'::pg_lsn
FROM (SELECT pg_catalog.array_agg(pg_catalog.format('%%s:%%s', c.oid, pg_catalog.md5(pg_catalog.concat_ws('/',
  c.relnamespace, c.relname, c.relreplident, (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(',',
    a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attisdropped), '|' ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
  (SELECT pg_catalog.string_agg(i.indkey::text, '|' ORDER BY i.indexrelid) FROM pg_catalog.pg_index i
   WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)))))) AS looks
  FROM pg_catalog.pg_class c WHERE c.oid = ANY(%s)) l
"""
_MOVE_ON = "SELECT pg_catalog.pg_logical_emit_message(true, 'replicator', '')"


@dataclass(frozen=True, slots=True)
class _Sight:
    """How a table looked, and up to where the log must be read before that look can be told.

    Attributes:
        look: A digest of name, identity, key and columns; None when the table was gone.
        position: The end of the log at that moment.
        since: When it was first seen, on this process's clock.
    """

    look: str | None
    position: int
    since: float


class TableWatch:
    """Looks at the captured tables at every heartbeat; used by the reader's thread between transactions.

    Attributes:
        dropped: Identifiers of tables found gone.
    """

    def __init__(self, catalogue: Catalogue, unlogged: UnloggedChanges, is_behind: Callable[[int], bool]) -> None:
        self._catalogue = catalogue
        self._unlogged = unlogged
        self._is_behind = is_behind
        self._told: dict[int, str | None] = {}
        self._waiting: dict[int, tuple[TableId, _Sight]] = {}
        self._next = 0.0
        self.dropped: set[int] = set()

    def look(self, captured: Mapping[int, TableId], *, is_idle: bool) -> None:
        """Find tables that look other than told; `is_idle` says that the log brought nothing just now.

        Raises:
            TableHistoryLostError: When one is there but no longer published.
            SnapshotNeededError: When one changed in a way that the log does not carry.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._unlogged.check(captured, self._is_behind)
        looks, position = self._look(list(captured))
        self._waiting = {oid: waiting for oid, waiting in self._waiting.items() if oid in captured}
        self._next = now + _REST * (time.monotonic() - now)
        for oid, table in captured.items():
            look = looks.get(oid)
            before = self._waiting.get(oid)
            if oid in self._told and self._told[oid] == look:
                self._waiting.pop(oid, None)
            elif before is None or before[1].look != look:
                self._waiting[oid] = (table, _Sight(look, position, now))
        if is_idle and any(now - sight.since > _PATIENCE_SECONDS for _, sight in self._waiting.values()):
            # The end of the log belongs to no commit, so nobody flushes it; a commit of ours does.
            self.move_on()

    def move_on(self) -> None:
        """Write a message of a few bytes to the log, so that it ends further on; where that is forbidden, time does it."""
        with contextlib.suppress(driver().errors.InsufficientPrivilege):
            self._catalogue.connection.execute(_MOVE_ON)

    def _look(self, oids: list[int]) -> tuple[dict[int, str], int]:
        row = self._catalogue.connection.execute(_LOOK, [oids]).fetchone()
        assert row is not None
        looks = dict(entry.split(":", 1) for entry in row[0] or [])
        end = int(row[1])
        if end % _WAL_BLOCK_BYTES in _WAL_HEADERS:
            # The next record begins behind a page's header; the last one ended before it.
            end -= end % _WAL_BLOCK_BYTES
        return {int(oid): look for oid, look in looks.items()}, end

    @property
    def is_waiting(self) -> bool:
        """Whether some look waits for the log to be read up to it; the offset must not pass it untold."""
        return bool(self._waiting)

    def settled(self, read_up_to: int) -> list[tuple[int, TableId]]:
        """Tables whose look can be told, since the log was read up to it and they still look so; each once."""
        ready = {oid: w for oid, w in self._waiting.items() if w[1].position <= read_up_to}
        if not ready:
            return []
        looks, _ = self._look(list(ready))
        told = []
        for oid, (table, sight) in sorted(ready.items()):
            if looks.get(oid) == sight.look:
                self._told[oid] = sight.look
                del self._waiting[oid]
                told.append((oid, table))
                if sight.look is None:
                    self.dropped.add(oid)
        return told
