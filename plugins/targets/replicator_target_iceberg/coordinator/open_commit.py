"""What a table's next commit holds: the files of all batches that were taken since the last one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from replicator_sdk.errors import RetryableError
from replicator_target_iceberg.apply.row_changes import RowChanges
from replicator_target_iceberg.apply.table_apply import progress_of

if TYPE_CHECKING:
    from replicator_sdk.batch import TableChanges
    from replicator_sdk.target import TableProgress
    from replicator_target_iceberg.apply.keyed import Place
    from replicator_target_iceberg.files.live_files import LiveFile, LiveFiles
    from replicator_target_iceberg.log.version import Version


@dataclass(slots=True)
class OpenCommit:
    """Grows with each batch, until it is committed or dropped.

    Attributes:
        version: What the table was when it began; that of the commit before, where files were being written meanwhile.
        snapshot: The number of the snapshot that it follows, whose files are those of `place`; None when others' commits have changed these.
        before: What that snapshot says of the table.
        place: How files are written. Its `files` are those of the snapshot.
        files: Those that are there once this is committed.
        rows: What was made of them; not in effect yet.
        progress: How far the table is then; None before the first batch.
    """

    version: Version
    snapshot: int | None
    before: TableProgress | None
    place: Place
    files: LiveFiles
    rows: RowChanges = field(default_factory=RowChanges)
    progress: TableProgress | None = None
    _first: int = 0

    @property
    def next_place(self) -> Place:
        """How the files of the next batch are written."""
        highest = self.place.highest if self.progress is None else self.progress.last_sequence
        return replace(self.place, files=self.files, highest=highest)

    def add(self, made: RowChanges, changes: TableChanges) -> list[str]:
        """Take what was made of `files`; returns where files are that nothing needs any more."""
        identity = changes.identity
        self.rows, needless = self.rows.joined(made)
        self.files = made.after(self.files)
        if self.progress is None:
            self._first = identity.first_sequence
        whole = replace(identity, first_sequence=self._first)
        self.progress = replace(progress_of(changes, made), batch=str(whole))
        return needless

    def follower(self, snapshot: int | None) -> OpenCommit:
        """What follows the commit of this one, which is `snapshot`; None when that follows others' commits, whose files are not in `files`."""
        return OpenCommit(self.version, snapshot, self.progress, self.next_place, self.files)

    def check_same(self, now: Version) -> None:
        """See that the files are right for what the table is now.

        Raises:
            RetryableError: RPL-4422 when another program has changed its columns or partitions, or moved it.
        """
        if _form(now) != _form(self.version):
            raise changed_meanwhile()

    def check_untouched(self, now: LiveFiles) -> None:
        """See that the files which lose rows are there as they were, so that the changes are right after others' commits, too.

        Raises:
            RetryableError: RPL-4422 when one of them is not.
        """
        there = {file.location: file for file in now}
        for location in self.rows.touched():
            if location not in there or _deletes(there[location]) != _deletes(self.place.files[location]):
                raise changed_meanwhile()


def changed_meanwhile() -> RetryableError:
    """Returns the error for a table that others have changed so that what was written is not right for it."""
    return RetryableError(
        "another program has changed the table's files or columns since its changes were written",
        code="RPL-4422",
        hint="retried by itself; when it goes on, end the other program, or have it write at other times",
    )


def _form(version: Version) -> tuple[Any, ...]:
    return version.schema["fields"], version.location, version.partitioning, version.format_version


def _deletes(file: LiveFile) -> set[tuple[str, int | None]]:
    return {(ref.location, ref.offset) for ref in file.deletes}
