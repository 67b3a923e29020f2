"""Brings a table back to an earlier snapshot, by a commit of this run that holds rows, columns and progress of that snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replicator_sdk.authoring.rewinds.table_rewind import Found, TableRewind
from replicator_sdk.errors import NeedsUserError, RetryableError
from replicator_sdk.failpoint import failpoint, register
from replicator_target_iceberg.files.storage import Storage
from replicator_target_iceberg.jvm import class_names
from replicator_target_iceberg.log.version import keys_of, record_of

if TYPE_CHECKING:
    from replicator_sdk.authoring.table_ownership import TableRecord
    from replicator_sdk.offset import Position
    from replicator_sdk.target import TableProgress
    from replicator_target_iceberg.log.change import Change
    from replicator_target_iceberg.log.version import Version
    from replicator_target_iceberg.table import Attempt, TargetTable

register("iceberg.rewind.before", "iceberg.rewind.after")
_NOT_FOUND = frozenset({"NotFoundException", "FileNotFoundException", "NoSuchFileException"})
"""Of Java, by which a file is known to be gone; after other failures it may be there."""
_NOT_KNOWN = frozenset({"IllegalArgumentException", "ValidationException"})
"""Of Java, for a schema or a snapshot that the table's metadata no longer has."""
_ROWS = ("total-records", "total-position-deletes", "total-equality-deletes")


class IcebergRewind(TableRewind["Attempt", Any, None]):
    """Brings one table back; a version is a snapshot of Java's. Called under the table's lock."""

    def __init__(self, table: TargetTable) -> None:
        super().__init__(table.ownership)
        self._table = table

    def begin(self) -> Attempt:
        """The newest version, read from the catalog."""
        self._table.forget()
        return self._table.begin()

    def name_of(self, version: Any) -> str:
        """The snapshot, for people."""
        return f"snapshot {version.snapshotId()}"

    def rows(self, newest: Attempt, version: Any, content: None) -> tuple[int | None, int | None]:  # noqa: ARG002 - snapshots say it
        """How many rows the table has, and that snapshot, by the numbers of their summaries."""
        return _rows(newest.there.head.snapshot), _rows(version)

    def content(self, newest: Attempt, version: Any) -> None:
        """See that the files which the table is to have again are there, and that its partitions and order can stay."""
        if version.snapshotId() == newest.there.snapshot:
            return
        self._check_arranged(newest, version)
        now = self._table.locations(newest, None)
        try:
            then = self._table.locations(newest, version.snapshotId())
        except RetryableError as error:
            if not _NOT_FOUND & _names(error):
                raise
            raise self.gone(f"its files of then cannot be listed: {error.message}") from error
        if lost := Storage(newest.there.location).missing(sorted(then - now)):
            raise self.gone(f"{len(lost)} of its files were deleted")

    def commit(
        self, newest: Attempt, version: Any, content: None, record: TableRecord, progress: TableProgress
    ) -> None:
        """Have the snapshot for the current one, and a commit that says so after it."""
        del content
        failpoint("iceberg.rewind.before")
        change, then = self._table.change(newest), keys_of(newest.there.metadata, version)
        keys = (
            None if newest.there.mode is None and not then else then
        )  # of other tables they are the owner's properties
        self._table.commit(
            replace(newest, record=record),
            change,
            progress,
            lambda: self._restore(change, keys, version, newest.there),
            dropped=record.dropped,
            keys=keys,
        )
        self._table.forget()  # what is read next comes from the catalog
        failpoint("iceberg.rewind.after")

    def _check_arranged(self, newest: Attempt, version: Any) -> None:
        """See that partitions and order, which stay as they are now, are of columns that the table had then: else no one can write it."""
        metadata, number = newest.there.metadata, version.schemaId()
        columns = None if number is None else dict(metadata.schemasById()).get(number)
        if columns is None:
            return  # the commit refuses a schema that is not there
        fields = [*newest.there.partitioning.sources, *(one.sourceId() for one in metadata.sortOrder().fields())]
        missing = [source for source in fields if columns.findField(source) is None]
        if missing:
            name = metadata.schema().findColumnName(missing[0])
            raise self.gone(f"it is now partitioned or sorted by the column {name!r}, which it did not have then")

    def _restore(self, change: Change, keys: dict[str, str] | None, snapshot: Any, version: Version) -> None:
        try:
            change.drop_copy(version)
            change.restore(snapshot)
            if keys is not None:
                change.name_keys(keys)
        except RetryableError as error:
            if not _NOT_KNOWN & _names(error):
                raise
            raise self.gone(f"its columns of then cannot come back: {error.message}") from error

    def newest_until(self, newest: Attempt, position: Position) -> Found[Any]:
        """Walk back from the current snapshot: positions fall from each to its parent.

        One without a record, such as another program's compaction, belongs to the one before.
        """
        assert newest.record is not None
        following, before = newest.record, None
        for snapshot in self._ancestors(newest):
            before = snapshot if before is None else before
            if (record := record_of(snapshot, self._table.read_offset)) is None:
                continue
            self._table.ownership.check(record)
            if record.is_until(position):
                return Found(before, record, following)
            following, before = record, None
        return Found(None, None, following)

    def _ancestors(self, attempt: Attempt) -> Iterator[Any]:
        """The branch's newest snapshot, and those before it, to the table's first.

        Raises:
            NeedsUserError: RPL-3441 when one was expired.
        """
        metadata = attempt.there.metadata
        snapshot = None
        for snapshot in attempt.there.head.ancestors(metadata):
            yield snapshot
        if snapshot is not None and snapshot.parentId() is not None:
            raise self.gone("snapshots of that time were expired")

    def gone(self, why: str) -> NeedsUserError:
        """Returns the error for a table that cannot go back."""
        return NeedsUserError(
            f"the table cannot go back to that position: {why}",
            code="RPL-3441",
            table=str(self._table.table),
            hint="choose a later offset from `replicator offsets list`, or copy the table again:"
            " `replicator table resync NAME TABLE`",
        )


def _names(error: RetryableError) -> set[str]:
    """The simple names of what Java has thrown."""
    cause = error.__cause__
    return set(class_names(cause)) if isinstance(cause, Exception) else set()


def _rows(snapshot: Any) -> int | None:
    """How many rows a snapshot has, by the numbers of its summary."""
    summary = dict(snapshot.summary())
    records, positions, equalities = (int(summary.get(name, "-1" if name == _ROWS[0] else "0")) for name in _ROWS)
    return records - positions if records >= positions and not equalities else None
