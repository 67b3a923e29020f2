"""The reader's position in the binlog, and what is emitted at it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import structlog

from replicator_sdk.authoring.arrow_buffers import Int64s
from replicator_sdk.authoring.log_position import LogPosition, StructureChange
from replicator_sdk.batch import Commits
from replicator_sdk.source import EventEmitter
from replicator_source_mysql.binlog.dump.log_fingerprint import LogFingerprint
from replicator_source_mysql.binlog.event import FilePosition
from replicator_source_mysql.binlog.log_availability import Origin
from replicator_source_mysql.gtid import GtidProgress, GtidTrail
from replicator_source_mysql.offset import MySqlOffset
from replicator_source_mysql.streaming.transactions import Mark

log = structlog.get_logger(__name__)


class BinlogPosition(LogPosition[MySqlOffset]):
    """A position in the log of one server; used by the reader's thread.

    Args:
        origin: The server.
        offset: Where the run begins; what is read up to there was emitted before.
        emitter: Where events go.

    Attributes:
        here: The end of the last transaction that was read; it is before `offset` while that is read again.
    """

    def __init__(self, origin: Origin, offset: MySqlOffset, emitter: EventEmitter) -> None:
        super().__init__(emitter, offset)
        self.origin = origin
        self.here = offset.reading_from
        self._known_until = offset if offset.resume else None
        self._progress = origin.progress_at(offset)
        self._last = (offset.file, LogFingerprint.parse(offset.proof))

    # ------------------------------------------------------------ what is read again

    @property
    def known_until(self) -> MySqlOffset | None:
        """Up to where the log is read again, for the sake of prepared transactions only; None when it is not."""
        return self._known_until

    @property
    def is_known(self) -> bool:
        """Whether the events here were emitted before."""
        return self._known_until is not None

    def pass_by(self, place: MySqlOffset) -> None:
        """The events after `place` come next."""
        if self._known_until is not None and not place < self._known_until:
            self._known_until = None

    # ------------------------------------------------------------ offsets

    def after(self, mark: Mark, resume: str) -> MySqlOffset:
        """The offset after a mark; `resume` as in the offset."""
        return self._offset(mark.place, GtidTrail(self._progress, [mark.gtid]).after(0), resume, mark.proof)

    def begin_group(self, begin: FilePosition, created: int, resume: str) -> None:
        """Emit an empty commit where a group begins, unless the last commit is there or the group has events already.

        The base of a change of structure has to be the same at every replay. The last commit is not: heartbeats and
        snapshots have offsets between two groups that a replay does not have.
        """
        if self.is_known or self.ordinal:
            return
        there = self.idle_at(begin, created, resume)
        if self.offset < there:
            self.commit_at(there)

    def idle_at(self, heard: FilePosition, created: int, resume: str) -> MySqlOffset:
        """The offset at a position before which every transaction was read; `created` is when its file was."""
        file, last = self._last
        proof = last if file == heard.file and last.created else LogFingerprint(created)
        return self._offset(heard, self._progress, resume, proof)

    def _offset(self, place: FilePosition, gtids: GtidProgress, resume: str, proof: LogFingerprint) -> MySqlOffset:
        return MySqlOffset(place.file, place.position, gtids, self.origin.identity, resume, str(proof))

    # ------------------------------------------------------------ emission

    def commit_marks(self, marks: Sequence[Mark], ordinals: Int64s, resume: str) -> None:
        """Emit the commits of a window; `ordinals` as in `Commits`."""
        trail = GtidTrail(self._progress, [mark.gtid for mark in marks])
        stamps = np.array([mark.timestamp for mark in marks], np.int64)

        def offset_at(i: int) -> MySqlOffset:
            return self._offset(marks[i].place, trail.after(i), resume, marks[i].proof)

        self.commit(Commits(ordinals, stamps, offset_at))

    def commit(self, commits: Commits) -> None:
        """Emit commits, unless they are known; the position is after the last of them in any case."""
        last = commits.last
        assert isinstance(last, MySqlOffset)
        self.here = last
        self._last = (last.file, LogFingerprint.parse(last.proof))
        if self.is_known:
            return
        super().commit(commits)
        self._progress = self.origin.progress_at(last)

    def pass_over(self) -> None:
        """Count a change of structure of a table that is not captured, unless it is known."""
        if not self.is_known:
            self.ordinal += 1

    def emit_structure(self, change: StructureChange, ordinal: int | None = None) -> None:
        """Emit a change of structure as the next event, unless it is known."""
        if self.is_known:
            return
        kinds = [alter.kind.value for alter in change.alters]
        log.info("table.structure_changed", table=str(change.table), operation=change.operation.value, steps=kinds)
        super().emit_structure(change, ordinal)
