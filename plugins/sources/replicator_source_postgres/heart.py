"""What the reader does between transactions, every few seconds."""

from __future__ import annotations

from replicator_source_postgres.history import HELD_BYTES
from replicator_source_postgres.place import LogPlace
from replicator_source_postgres.quiet_changes import QuietChanges
from replicator_source_postgres.relations import Relations
from replicator_source_postgres.table_watch import TableWatch


class Heart:
    """Emits heartbeats and changes that no row announces; used by the reader's thread.

    Args:
        place: Where the reader is.
        relations: The captured tables.
        watch: Finds what the log does not say.
        quiet: Emits it.
    """

    def __init__(self, place: LogPlace, relations: Relations, watch: TableWatch, quiet: QuietChanges) -> None:
        self._place = place
        self._relations = relations
        self._watch = watch
        self._quiet = quiet
        self._marked = -HELD_BYTES

    def beat(self, wal_end: int | None, *, is_idle: bool, was_large: bool) -> None:
        """Emit what no row announces, and move an idle source's offset on.

        Args:
            wal_end: The end of the log, when all of it was delivered; None when messages wait for their commit.
            is_idle: Whether the log brought nothing just now.
            was_large: Whether a large transaction came since the last beat.
        """
        if wal_end is not None:
            self._quiet.retell(wal_end)
        self._watch.look(self._relations.captured(), is_idle=is_idle)
        self._quiet.settle(max(self._place.offset.lsn, wal_end or 0))
        if wal_end is None:
            return
        # Whatever commits later does so after the position the server told.
        if wal_end > self._place.offset.lsn and not self._watch.is_waiting:
            self._place.beat(wal_end)
        self._mark(was_large=was_large)

    def _mark(self, *, was_large: bool) -> None:
        """Have a commit in the log that is not far behind, so that the slot need not be kept far behind for its sake.

        At the first start there is none yet; a large transaction's own would keep all of its log.
        """
        here, commit = self._place.offset.lsn, self._place.offset.commit
        is_far = commit is None or here - commit.lsn > HELD_BYTES // 2
        if was_large or (is_far and here - self._marked > HELD_BYTES // 2):
            self._marked = here
            self._watch.move_on()
