"""The commits of one table: takes batches by writing their files, and commits what was taken when it is asked to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from replicator_sdk.failpoint import failpoint, register
from replicator_target_iceberg.apply.table_apply import TableApply
from replicator_target_iceberg.config import IcebergConfig
from replicator_target_iceberg.coordinator.open_commit import OpenCommit, changed_meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable

    from replicator_sdk.batch import TableChanges
    from replicator_sdk.context import DeltaTargetContext
    from replicator_sdk.offset import Position
    from replicator_sdk.target import TableProgress
    from replicator_target_iceberg.apply.keyed import Place
    from replicator_target_iceberg.apply.row_changes import RowChanges
    from replicator_target_iceberg.files.live_files import LiveFiles
    from replicator_target_iceberg.table import Attempt, TargetTable

register("iceberg.batch.taken")
_LOOK_SECONDS: Final = 0.2


class TableCommits:
    """`take` is called by one thread at a time, everything else by any.

    The table's lock is held while a batch begins and ends, and while a commit is made, but not while files are written: a commit of
    what was taken before can be made meanwhile, and the batch is in the next one.
    """

    def __init__(self, table: TargetTable, config: IcebergConfig, context: DeltaTargetContext) -> None:
        self._table, self._config = table, config
        self._apply = TableApply(table, config, context)
        self._open: OpenCommit | None = None
        self._failure: Exception | None = None
        self._settled: Position | None = None
        self._writing = threading.Condition()
        self._batch = 0  # odd while one is being taken
        # Whether files of a batch that has begun are being written; read and changed under the table's lock.
        self._is_writing = False

    @property
    def name(self) -> str:
        """The table at the source, for people."""
        return str(self._table.table)

    @property
    def waits(self) -> bool:
        """Whether something was taken that is not committed."""
        opened = self._open  # once: a commit may begin in another thread
        return opened is not None and opened.progress is not None

    # --- taking

    def take(self, changes: TableChanges) -> None:
        """Write the files of a batch, for the next commit; nothing when the table has its position already, or was given it.

        A table that is not there yet is created with the batch, at once.

        Raises:
            Exception: Why a commit of the table has failed, after which it takes no more.
        """
        self.raise_failure()
        self._count()
        try:
            with self._table.lock:
                place = self._begin(changes)
                self._is_writing = place is not None
            if place is not None:
                self._finish(place, self._write(place, changes), changes)
        except Exception as error:
            if self._failure is not None and error is not self._failure:  # such as a file of a commit that was dropped
                raise self._failure from error
            raise
        finally:
            self._count()

    def _count(self) -> None:
        with self._writing:
            self._batch += 1
            self._writing.notify_all()

    def _begin(self, changes: TableChanges) -> Place | None:
        """How the batch's files are written; None when there is nothing to write."""
        position = changes.identity.position
        if self._open is not None:
            known = self._open.progress or self._open.before
            if known is not None and position <= known.position:
                return None
            self._apply.check_columns(self._open.version, changes)
            return self._open.next_place
        attempt = self._table.begin()
        if attempt.progress is not None:
            self._settled = attempt.progress.position
        if attempt.has_reached(position):
            return None
        self._table.ownership.check_follows(attempt.record, changes.follows)
        self._table.note_partitions(attempt)
        if attempt.version is None:
            self._apply.apply(changes)
            self._settled = position
            return None
        place = self._apply.place(attempt, changes)
        self._open = OpenCommit(attempt.version, attempt.version.snapshot, attempt.progress, place, place.files)
        return place

    def _write(self, place: Place, changes: TableChanges) -> RowChanges:
        try:
            return self._apply.write(place, changes)
        except Exception:
            with self._table.lock:
                self._is_writing = False
                if not self.waits:  # the table may be another when the next batch begins
                    self._open = None
            raise

    def _finish(self, place: Place, made: RowChanges, changes: TableChanges) -> None:
        with self._table.lock:
            self._is_writing = False
            if self._failure is not None or self._open is None:
                place.storage.delete(made.written)
                self.raise_failure()
                return
            place.storage.delete(self._open.add(made, changes))
        failpoint("iceberg.batch.taken")

    def wait_for_batch(self, is_over: Callable[[], bool]) -> bool:
        """Wait until the batch that is being written now is taken; returns whether it is. Returns early when `is_over`."""
        with self._writing:
            batch = self._batch
            while batch % 2 and self._batch == batch:
                if is_over():
                    return False
                self._writing.wait(_LOOK_SECONDS)
            return True

    # --- committing

    def settled(self) -> Position | None:
        """The position of the last commit.

        Raises:
            Exception: Why a commit has failed.
        """
        self.raise_failure()
        return self._settled

    def raise_failure(self) -> None:
        """Raise why a commit has failed, if one has."""
        if self._failure is not None:
            raise self._failure

    def commit(self, commit_id: str) -> None:
        """Commit what was taken; durable on return. Why that failed is raised by `settled`, and what it held is dropped.

        Args:
            commit_id: What the commits of several tables have in common that are made together.
        """
        with self._table.lock:
            opened, progress = self._open, None if self._open is None else self._open.progress
            if opened is None or progress is None or self._failure is not None:
                return
            self._open = None
            try:
                snapshot = self._commit(opened, progress, commit_id)
            except Exception as error:  # noqa: BLE001 - raised by `settled`
                self._failure = error
                return
            self._settled = progress.position
            if self._is_writing:  # what the batch is made of is this commit's
                self._open = opened.follower(snapshot)

    def _commit(self, opened: OpenCommit, progress: TableProgress, commit_id: str) -> int | None:
        """Publish it; the number of its snapshot, None where that has files of others' commits that `opened` does not know."""
        rows, chosen_by = opened.rows, opened.place.chosen_by
        try:
            attempt = self._table.begin()
            before = self._files_before(opened, attempt)
            change = self._table.change(attempt)
        except Exception:
            opened.place.storage.delete(rows.written)  # the catalog was not asked to commit them
            raise
        self._table.commit(
            attempt, change, progress, lambda: rows.give(change), written=rows.written, commit_id=commit_id
        )
        if not opened.place.table.is_history:
            self._table.follow(change, chosen_by, opened.files if before is None else rows.after(before))
        return change.snapshot() if before is None else None

    def _files_before(self, opened: OpenCommit, attempt: Attempt) -> LiveFiles | None:
        """The table's files where others have committed since; None where none has.

        Raises:
            RetryableError: RPL-4422 when what they did does not go with what was written.
        """
        ours = opened.before
        if attempt.version is None or attempt.progress not in (ours, ours and self._table.ownership.taken_over(ours)):
            raise changed_meanwhile()
        opened.check_same(attempt.version)
        if attempt.version.snapshot == opened.snapshot:
            return None
        if opened.place.table.is_history:
            return opened.place.files
        files = self._table.files(attempt, opened.place.chosen_by)
        opened.check_untouched(files)
        return files

    def discard(self) -> None:
        """Forget what was taken and not committed; its files are deleted."""
        with self._table.lock:
            opened, self._open = self._open, None
        if opened is not None:
            opened.place.storage.delete(opened.rows.written)
