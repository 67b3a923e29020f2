"""One version of a table as its metadata has it, read by the library's Java objects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from replicator_sdk.errors import NeedsUserError
from replicator_sdk.schema import TableId
from replicator_target_iceberg.jvm import Jvm
from replicator_target_iceberg.schema.types import Layout

PROGRESS: Final = "replicator.progress"
"""The property of a snapshot's summary that holds the table's record."""
COMMIT: Final = "replicator.commit"
"""The property by which a commit is known from every other."""
TAG: Final = "replicator"
"""Names the newest snapshot with a record, so that no program's expiry of snapshots deletes it."""


@dataclass(frozen=True, slots=True)
class Version:
    """What a table was when it was looked at.

    Attributes:
        operations: Java's `TableOperations`, by which it is committed to.
        metadata: Java's `TableMetadata`; None when there is no table.
        snapshot: The current snapshot's number; -1 when there is none.
        stored: The record that the newest snapshot with one holds; None when there is none.
        schema: The columns in Iceberg's JSON form.
        location: Where the table's files are.
        format_version: Of the table.
    """

    operations: Any
    metadata: Any
    snapshot: int
    stored: dict[str, Any] | None
    schema: dict[str, Any]
    location: str
    format_version: int

    @property
    def layout(self) -> Layout:
        """The columns."""
        return Layout.of(self.schema)

    def same_columns(self, other: Version) -> bool:
        """Whether both have the same columns and the same place."""
        return (self.schema, self.location) == (other.schema, other.location)


def read_version(jvm: Jvm, operations: Any, table: TableId) -> Version:
    """The newest version.

    Raises:
        NeedsUserError: RPL-3426 when the snapshot that says how far the table is was expired; RPL-3427 when the table is one that
            this target does not write.
    """
    metadata = operations.refresh()
    snapshot = metadata.currentSnapshot()
    if not metadata.spec().isUnpartitioned():
        raise NeedsUserError(
            "the Iceberg table is partitioned, and this target writes tables without partitions only",
            code="RPL-3427",
            table=str(table),
            hint="have another program take the partition fields out of the table's specification and write its files again",
        )
    return Version(
        operations,
        metadata,
        -1 if snapshot is None else snapshot.snapshotId(),
        _stored(metadata, snapshot, table),
        json.loads(jvm[".SchemaParser"].toJson(metadata.schema())),
        metadata.location(),
        metadata.formatVersion(),
    )


def _stored(metadata: Any, snapshot: Any, table: TableId) -> dict[str, Any] | None:
    """The record of the newest snapshot that has one, looked for back from the current one: others commit without."""
    while snapshot is not None:
        if (found := snapshot.summary().get(PROGRESS)) is not None:
            record: dict[str, Any] = json.loads(found)
            return record
        parent = snapshot.parentId()
        snapshot = None if parent is None else metadata.snapshot(parent)
        if parent is not None and snapshot is None and TAG in dict(metadata.refs()):
            raise NeedsUserError(
                "the snapshots between the one that says how far the table is and the current one were expired by another program",
                code="RPL-3426",
                table=str(table),
                hint="copy the table again: `replicator table resync NAME TABLE`; let this target expire snapshots alone",
            )
    return None


def has_commit(version: Version, commit: str, base: int) -> bool:
    """Whether the current snapshot, or one between it and `base`, is the commit of that name."""
    snapshot = version.metadata.currentSnapshot()
    while snapshot is not None and snapshot.snapshotId() != base:
        if snapshot.summary().get(COMMIT) == commit:
            return True
        parent = snapshot.parentId()
        snapshot = None if parent is None else version.metadata.snapshot(parent)
    return False
