"""Heartbeats: advances the offset of an idle source, and emits changes that only the catalogue shows."""

from __future__ import annotations

from replicator_source_postgres.offset import CommitRecord
from replicator_source_postgres.replication.held_log import SEGMENT_BYTES, HeldLog
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
        held: Measures the log that the slot keeps.
    """

    def __init__(
        self,
        position: WalPosition,
        tracker: SchemaTracker,
        poller: CataloguePoller,
        changes: CatalogueChanges,
        held: HeldLog,
    ) -> None:
        self._position = position
        self._tracker = tracker
        self._poller = poller
        self._changes = changes
        self._held = held
        self._last_commit: CommitRecord | None = None

    def beat(self, wal_end: int | None, *, is_idle: bool) -> None:
        """Emit what only the catalogue shows, and advance an idle source's offset.

        Args:
            wal_end: The end of the log, when all of it was emitted; None when messages wait for their commit.
            is_idle: Whether the last read of the log returned nothing.
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
        self._release(all_emitted=wal_end is not None)

    def _release(self, *, all_emitted: bool) -> None:
        """Write a commit to the log when the last one is old and keeps much log: the slot keeps all from that commit on.

        Again at each heartbeat while it is so: the server lets go only what was before a point that it notes from time to time, and
        a single commit may come before the first such point. At the first start there is no commit yet.
        """
        held = self._held.measure()
        commit, before = self._position.offset.commit, self._last_commit
        self._last_commit = commit
        if all_emitted and commit == before and (commit is None or held >= SEGMENT_BYTES):
            self._poller.write_marker()
