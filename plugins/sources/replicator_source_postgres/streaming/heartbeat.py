"""Heartbeats: advances the offset of an idle source, and emits changes that only the catalogue shows."""

from __future__ import annotations

from replicator_source_postgres.replication.log_continuity import HELD_BYTES
from replicator_source_postgres.schema.schema_tracker import SchemaTracker
from replicator_source_postgres.streaming.catalogue_changes import CatalogueChanges
from replicator_source_postgres.streaming.catalogue_poller import CataloguePoller
from replicator_source_postgres.streaming.log_position import WalPosition


class Heartbeat:
    """Runs between transactions, every `heartbeat_interval_seconds`; used by the reader's thread.

    Args:
        position: Where the reader is.
        tracker: The captured tables.
        poller: Finds tables whose catalogue entry changed.
        changes: Emits these changes.
    """

    def __init__(
        self, position: WalPosition, tracker: SchemaTracker, poller: CataloguePoller, changes: CatalogueChanges
    ) -> None:
        self._position = position
        self._tracker = tracker
        self._poller = poller
        self._changes = changes
        self._marked = -HELD_BYTES

    def beat(self, wal_end: int | None, *, is_idle: bool, was_large: bool) -> None:
        """Emit what only the catalogue shows, and advance an idle source's offset.

        Args:
            wal_end: The end of the log, when all of it was emitted; None when messages wait for their commit.
            is_idle: Whether the last read of the log returned nothing.
            was_large: Whether a large transaction was read since the last heartbeat.
        """
        if wal_end is not None:
            self._changes.replay(wal_end)
        self._poller.poll(self._tracker.oids, is_idle=is_idle)
        self._changes.emit_settled(max(self._position.offset.lsn, wal_end or 0))
        here, is_waiting = self._position.offset.lsn, self._poller.is_waiting or self._changes.is_waiting
        if not (is_waiting or self._position.is_settled):
            self._position.settle(max(here, wal_end or 0))
        elif wal_end is not None and wal_end > here and not is_waiting:
            # Whatever commits later does so after the position that the server reported.
            self._position.advance(wal_end)
        if wal_end is None:
            return
        self._mark(was_large=was_large)

    def _mark(self, *, was_large: bool) -> None:
        """Write a commit to the log when the last one is far before its end: the slot keeps the log from that commit on.

        At the first start there is no commit yet; that of a large transaction would keep all of its log.
        """
        here, commit = self._position.offset.lsn, self._position.offset.commit
        is_far = commit is None or here - commit.lsn > HELD_BYTES // 2
        if was_large or (is_far and here - self._marked > HELD_BYTES // 2):
            self._marked = here
            self._poller.write_marker()
