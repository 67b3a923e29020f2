"""Polls the catalogue for dropped, altered and unpublished tables, which the log shows with the next row only, or never."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from replicator_sdk.schema import TableId
from replicator_source_postgres.catalogue import Catalogue
from replicator_source_postgres.connection import driver
from replicator_source_postgres.unlogged.unlogged_changes import UnloggedChanges

_SETTLE_SECONDS = 2.0
_REST = 10
"""Pause between two polls, as a multiple of the duration of one: polling thousands of tables must not load the server."""
_WAL_BLOCK_BYTES = 8192
_WAL_HEADERS = (24, 40)

# The positions are read after the tables: what the digests show was committed before them.
_DIGESTS = """
SELECT l.digests, pg_catalog.pg_current_wal_insert_lsn() - '0/0'::pg_lsn, pg_catalog.pg_current_wal_flush_lsn() - '0/0'::pg_lsn
FROM (SELECT pg_catalog.array_agg(pg_catalog.format('%%s:%%s', c.oid, pg_catalog.md5(pg_catalog.concat_ws('/',
  (SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE n.oid = c.relnamespace), c.relname, c.relreplident, (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(',',
    a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attisdropped), '|' ORDER BY a.attnum)
    FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
  (SELECT pg_catalog.string_agg(i.indkey::text, '|' ORDER BY i.indexrelid) FROM pg_catalog.pg_index i
   WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident)))))) AS digests
  FROM pg_catalog.pg_class c WHERE c.oid = ANY(%s)) l
"""
_WRITE_MARKER = "SELECT pg_catalog.pg_logical_emit_message(true, 'replicator', '')"


@dataclass(frozen=True, slots=True)
class _Observation:
    """A table's digest, and up to where the log must be read before the change can be emitted.

    Attributes:
        digest: Of name, identity, key and columns; None when the table was gone.
        position: The end of the log at that moment.
        since: When it was first observed, on the monotonic clock.
    """

    digest: str | None
    position: int
    since: float


class CataloguePoller:
    """Compares the captured tables with their last emitted digests; used by the reader's thread between transactions.

    Attributes:
        dropped: Identifiers of the tables that no longer exist.
        began_at: The end of the log at the first poll; no earlier run has read beyond it. None before that.
    """

    def __init__(self, catalogue: Catalogue, unlogged: UnloggedChanges, is_pending: Callable[[int], bool]) -> None:
        self._catalogue = catalogue
        self._unlogged = unlogged
        self._is_pending = is_pending
        self._emitted: dict[int, str | None] = {}
        self._waiting: dict[int, tuple[TableId, _Observation]] = {}
        self._next_poll = 0.0
        self.dropped: set[int] = set()
        self.began_at: int | None = None

    def poll(self, captured: Mapping[int, TableId], *, is_idle: bool) -> None:
        """Find tables whose digest differs from the emitted one; `is_idle`: the last read of the log returned nothing.

        Raises:
            TableHistoryLostError: When a table exists but is no longer published.
            SnapshotNeededError: When a table changed in a way that the log does not carry.
        """
        now = time.monotonic()
        if now < self._next_poll:
            return
        self._unlogged.check(captured, self._is_pending)
        digests, position = self._digests(list(captured))
        self.began_at = position if self.began_at is None else self.began_at
        self._waiting = {oid: waiting for oid, waiting in self._waiting.items() if oid in captured}
        self._next_poll = now + _REST * (time.monotonic() - now)
        for oid, table in captured.items():
            digest = digests.get(oid)
            before = self._waiting.get(oid)
            if oid in self._emitted and self._emitted[oid] == digest:
                self._waiting.pop(oid, None)
            elif before is None or before[1].digest != digest:
                self._waiting[oid] = (table, _Observation(digest, position, now))
        if is_idle and any(now - observation.since > _SETTLE_SECONDS for _, observation in self._waiting.values()):
            # The end of the log belongs to no commit, so the server does not flush it; a commit of our own does.
            self.write_marker()

    def write_marker(self) -> None:
        """Write a message of a few bytes to the log, so that its end advances; does nothing without the right to."""
        with contextlib.suppress(driver().errors.InsufficientPrivilege):
            self._catalogue.connection.execute(_WRITE_MARKER)

    def _digests(self, oids: list[int]) -> tuple[dict[int, str], int]:
        row = self._catalogue.connection.execute(_DIGESTS, [oids]).fetchone()
        assert row is not None
        digests = dict(entry.split(":", 1) for entry in row[0] or [])
        end = int(row[1])
        if end % _WAL_BLOCK_BYTES in _WAL_HEADERS:
            # The next record begins after a page's header; the last one ended before it.
            end -= end % _WAL_BLOCK_BYTES
        return {int(oid): digest for oid, digest in digests.items()}, end

    @property
    def is_waiting(self) -> bool:
        """Whether a change waits for the log to be read up to it; the offset must not pass it before it is emitted."""
        return bool(self._waiting)

    def wait_again(self, oid: int, table: TableId) -> None:
        """A change of the table that was settled cannot be emitted yet: it is settled again later."""
        self._waiting[oid] = (table, _Observation(self._emitted.pop(oid), 0, time.monotonic()))

    def ready(self, read_up_to: int) -> list[int]:
        """The tables that `settled` looks at."""
        return [oid for oid, (_, observation) in self._waiting.items() if observation.position <= read_up_to]

    def settled(self, read_up_to: int) -> list[tuple[int, TableId]]:
        """Tables whose change can be emitted: the log was read up to it, and the digest is still the same; each once."""
        ready = {oid: self._waiting[oid] for oid in self.ready(read_up_to)}
        if not ready:
            return []
        digests, _ = self._digests(list(ready))
        settled = []
        for oid, (table, observation) in sorted(ready.items()):
            if digests.get(oid) == observation.digest:
                self._emitted[oid] = observation.digest
                del self._waiting[oid]
                settled.append((oid, table))
                if observation.digest is None:
                    self.dropped.add(oid)
        return settled
